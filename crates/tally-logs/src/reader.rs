//! The lines of a log into lines of a body of `/ingest?format=ndjson`, for the command.
//!
//! Invariant: what a call of [`LogReader::read`] gives depends on the options, the state before and the bytes alone. So
//! bytes that are read again make the same body.

use std::collections::HashMap;
use std::fmt::Write;

use crate::fields::{LogField, LoggedRequest};
use crate::filter::{Filter, Paths, Reason};
use crate::formats::LogLines;
use crate::hit::Hit;
use crate::user_agent::Agents;

/// The most bytes of a dimension's value, as the service allows them.
pub const VALUE_BYTES_MAX: usize = 256;

/// How many lines that cannot be read are shown, and how much of each.
const UNREAD_SHOWN_MAX: usize = 5;
const UNREAD_SHOWN_CHARS: usize = 200;

/// Which counter a hit counts, and what of it.
pub struct CountingRule {
    /// The rule of paths.
    pub paths: Paths,
    /// Whether the query is no part of the counter's id.
    pub strips_query: bool,
    /// What stands before each id.
    pub prefix: String,
    /// The counter of all hits, which is also the site's own host.
    pub site: Option<String>,
    /// The dimensions.
    pub by: Vec<LogField>,
    /// Whether visitors are counted.
    pub unique: bool,
}

/// What was read of some bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReadPart {
    /// Lines of a body, each with its newline.
    pub body: String,
    /// The counters, each once, in the order of their first lines.
    pub ids: Vec<String>,
    /// Of each line of the body, which of the counters it counts.
    pub counters: Vec<u32>,
    /// Of each line of the body, how many newlines stand before its line of the log.
    pub numbers: Vec<u32>,
    /// Of each line of the body, its time, unix milliseconds.
    pub times: Vec<i64>,
    /// How many lines there were, without those that are none.
    pub lines: u32,
    /// How many are no requests: comments, and what a server notes besides its requests.
    pub others: u32,
    /// How many were left out, by reason.
    pub left: [u32; Reason::ALL.len()],
    /// How many can not be read.
    pub unreadable: u32,
    /// Some of those.
    pub unread: Vec<UnreadLine>,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadLine {
    /// How many newlines stand before it.
    pub number: u32,
    /// A sentence that says why.
    pub why: String,
    /// Its beginning.
    pub text: String,
}

/// Changes the path of a page, by rules that only the caller can carry out.
pub type Rewrite<'a> = &'a dyn Fn(&str) -> String;

/// A reader of one log.
pub struct LogReader {
    /// Its lines.
    pub lines: LogLines,
    /// What counts.
    pub filter: Filter,
    /// What is counted of it.
    pub counting: CountingRule,
}

impl LogReader {
    /// Reads whole lines; the last one needs no newline.
    pub fn read(&mut self, bytes: &[u8], rewrite: Option<Rewrite<'_>>) -> ReadPart {
        let mut part = ReadPart::default();
        let mut known = HashMap::new();
        for (number, line) in (0..).zip(bytes.split(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            match self.lines.read(line) {
                Ok(None) => part.others += 1,
                Ok(Some(hit)) => {
                    part.lines += 1;
                    let left = add(
                        &mut part,
                        &mut known,
                        &mut self.filter,
                        &self.counting,
                        &hit,
                        rewrite,
                    );
                    match left {
                        None => part.numbers.push(number),
                        Some(reason) => {
                            let place = Reason::ALL.iter().position(|known| *known == reason);
                            if let Some(count) = place.and_then(|place| part.left.get_mut(place)) {
                                *count += 1;
                            }
                        }
                    }
                }
                Err(unread) => {
                    part.lines += 1;
                    part.unreadable += 1;
                    if part.unread.len() < UNREAD_SHOWN_MAX {
                        let shown = String::from_utf8_lossy(line);
                        part.unread.push(UnreadLine {
                            number,
                            why: unread.why().into_owned(),
                            text: shown.chars().take(UNREAD_SHOWN_CHARS).collect(),
                        });
                    }
                }
            }
        }
        part
    }
}

/// Adds a hit to a part, or returns why it is left out.
fn add(
    part: &mut ReadPart,
    known: &mut HashMap<String, u32>,
    filter: &mut Filter,
    counting: &CountingRule,
    hit: &Hit<'_>,
    rewrite: Option<Rewrite<'_>>,
) -> Option<Reason> {
    let Some((path, query)) = hit.page() else {
        return filter.reason(hit, None);
    };
    let mut page = counting.paths.apply(path);
    if let Some(rewrite) = rewrite {
        page = rewrite(&page).into();
    }
    if let Some(reason) = filter.reason(hit, Some(&page)) {
        return Some(reason);
    }
    let query_of_id = if counting.strips_query { "" } else { query };
    let id = match &counting.site {
        Some(site) => site.clone(),
        None => [&counting.prefix, &*page, query_of_id].concat(),
    };
    let body = &mut part.body;
    body.push_str("{\"id\":");
    push_json(body, &id);
    let seconds = hit.at_ms.div_euclid(1_000);
    let _ = write!(body, ",\"at\":{seconds}");
    if let Some(visitor) = hit.visitor.as_deref().filter(|_| counting.unique) {
        body.push_str(",\"unique\":");
        push_json(body, visitor);
    }
    push_dimensions(body, counting, &mut filter.agents, hit, (&page, query));
    body.push_str("}\n");
    let next = u32::try_from(part.ids.len()).unwrap_or(u32::MAX);
    let counter = match known.get(&id) {
        Some(counter) => *counter,
        None => {
            part.ids.push(id.clone());
            known.insert(id, next);
            next
        }
    };
    part.counters.push(counter);
    part.times.push(seconds.saturating_mul(1_000));
    None
}

fn push_dimensions(
    body: &mut String,
    counting: &CountingRule,
    agents: &mut Agents,
    hit: &Hit<'_>,
    (page, query): (&str, &str),
) {
    let target = [page, query].concat();
    let mut request = LoggedRequest::from(hit);
    let is_event = hit.target.is_err();
    if !is_event {
        request.target = &target;
    }
    let mut separator = ",\"by\":{";
    for field in &counting.by {
        let value = match field {
            LogField::Browser => agents
                .of(request.user_agent)
                .browser
                .unwrap_or_default()
                .into(),
            LogField::Device => agents
                .of(request.user_agent)
                .device
                .unwrap_or_default()
                .into(),
            LogField::Page if is_event => page.into(),
            _ => request.value(*field, counting.site.as_deref()),
        };
        let value = cut(&value);
        let value = value.trim();
        if value.is_empty() {
            continue;
        }
        body.push_str(separator);
        separator = ",";
        push_json(body, field.name());
        body.push(':');
        push_json(body, value);
    }
    if separator == "," {
        body.push('}');
    }
}

/// Returns a value without control characters, and not longer than the service takes it.
fn cut(value: &str) -> String {
    let mut text = String::with_capacity(value.len().min(VALUE_BYTES_MAX));
    for sign in value.chars() {
        let sign = if sign.is_control() { ' ' } else { sign };
        if text.len() + sign.len_utf8() > VALUE_BYTES_MAX {
            break;
        }
        text.push(sign);
    }
    text
}

/// Appends a JSON string.
fn push_json(json: &mut String, text: &str) {
    json.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && !matches!(byte, b'"' | b'\\') {
            continue;
        }
        json.push_str(text.get(from..at).unwrap_or_default());
        match byte {
            b'"' => json.push_str("\\\""),
            b'\\' => json.push_str("\\\\"),
            _ => {
                let _ = write!(json, "\\u{byte:04x}");
            }
        }
        from = at + 1;
    }
    json.push_str(text.get(from..).unwrap_or_default());
    json.push('"');
}
