//! A counter's sum in updates to watchers.

use super::counter_view::SummedCounter;
use crate::json::to_json;
use crate::number::Exact;
use tally_core::counter::total::Value;
use tally_wire::live::snapshot;
use tally_wire::live::snapshot::Tag;

/// A text, with a hash of all of it except times.
#[derive(Default)]
struct Text {
    text: String,
    tag: Tag,
}

impl Text {
    fn push(&mut self, parts: &[&str]) {
        for part in parts {
            self.text.push_str(part);
            self.tag = self.tag.with(part.as_bytes());
        }
    }

    fn push_time(&mut self, at_ms: i64) {
        self.text.push_str(&at_ms.to_string());
    }
}

impl SummedCounter<'_> {
    /// The state for watchers; the rate is in thousandths, `None` while it is not known.
    pub fn live(&self, rate_thousandths: Option<u128>) -> snapshot::ReadCounter {
        let text = self.live_text(rate_thousandths, false);
        let parts = self.sum.datacenters.iter();
        let mut values =
            parts.map(|(datacenter, part)| self.sum.value_of(datacenter, part.as_ref()));
        let is_safe = self.value().is_javascript_safe() && values.all(Value::is_javascript_safe);
        let strings = (!is_safe).then(|| self.live_text(rate_thousandths, true).text);
        snapshot::ReadCounter {
            members: text.text,
            members_of_strings: strings,
            tag: text.tag.value(),
            exact: self.is_exact(),
            as_of_ms: self.as_of_ms(),
        }
    }

    fn live_text(&self, rate_thousandths: Option<u128>, strings: bool) -> Text {
        let mut text = Text::default();
        let exact = |value| to_json(&Exact::new(value, strings));
        let rate = rate_thousandths.map_or_else(|| "null".to_owned(), thousandths_json);
        let uniques = to_json(&self.uniques(None));
        text.push(&["\"value\":", &exact(self.value())]);
        text.push(&[",\"rate_per_second\":", &rate]);
        text.push(&[",\"uniques\":", &uniques, ",\"datacenters\":{"]);
        let mut comma = "";
        for (datacenter, part) in &self.sum.datacenters {
            let part = part.as_ref();
            let value = exact(self.sum.value_of(datacenter, part));
            let is_reported = self.sum.is_reported(datacenter, part);
            let reachable = if is_reported { "true" } else { "false" };
            text.push(&[comma, "\"", datacenter.as_str(), "\":{\"value\":", &value]);
            text.push(&[",\"reachable\":", reachable, ",\"as_of\":"]);
            text.push_time(self.freshness_of(datacenter, part).as_of_ms);
            text.push(&["}"]);
            comma = ",";
        }
        text.push(&["}"]);
        text
    }
}

/// Thousandths as a JSON number.
pub fn thousandths_json(thousandths: u128) -> String {
    let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = format!("{whole}.{rest:03}");
    digits.trim_end_matches('0').to_owned()
}
