//! The parameters of a top: which counters, in which order, of which window.

use super::parse::{Query, WINDOW_SECONDS_MAX, refuse};
use tally_core::cluster::top_order::{HOURS_BEFORE, OrderBy, TopOrder, WindowStart};
use tally_core::counter::history::DAYS_KEPT;
use tally_core::counter::id::CounterId;
use tally_logs::time::parse_date;
use tally_wire::problem::Problem;
use tally_wire::snapshot::date_of;

/// The parameters of a top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopQuery {
    /// The counters, the measure, and the beginning of the hours or days that cover the window.
    pub order: TopOrder,
    /// The counter whose rank is the answer, if there is one; the order has it.
    pub counter: Option<CounterId>,
    /// The most rows.
    pub limit: u32,
    /// The name of the window; `None` for all time.
    pub window: Option<String>,
    /// The first and the last second of a window that the directory does not store.
    pub range: Option<(i64, i64)>,
    /// Whether large numbers are strings.
    pub strings: bool,
}

impl TopQuery {
    const PARAMETERS: [&str; 8] = [
        "id", "prefix", "by", "window", "from", "to", "limit", "numbers",
    ];

    /// Reads a query string; `now` is in unix seconds.
    ///
    /// # Errors
    /// `invalid-query` for unknown parameters and words, and for combinations that the directory does not store;
    /// `invalid-id`.
    pub fn parse(text: &str, now: i64) -> Result<Self, Problem> {
        let query = Query::parse(text, &Self::PARAMETERS)?;
        let (limit, counter) = (query.limit()?, query.one_id()?);
        let (window, since) = query.named_window(now)?;
        let range = query.covered_window(now)?;
        let is_known =
            since.is_some_and(|since| WindowStart::reaching(since.seconds(), now).is_kept());
        let order = TopOrder::new(
            query.get("prefix").unwrap_or_default(),
            query.order_by(range)?,
            since.filter(|_| is_known),
        );
        if counter.as_ref().is_some_and(|counter| !order.has(counter)) {
            return refuse("the id does not begin with prefix, so it has no rank there".to_owned());
        }
        Ok(Self {
            order,
            limit: if counter.is_some() { 1 } else { limit },
            counter,
            window: window.map(str::to_owned),
            range: range.filter(|_| !is_known),
            strings: query.numbers_as_strings()?,
        })
    }
}

impl Query {
    /// The measure of a top's order. The directory stores only counts of windows.
    fn order_by(&self, range: Option<(i64, i64)>) -> Result<OrderBy, Problem> {
        match (self.get("by"), range) {
            (Some("count"), _) | (None, Some(_)) => Ok(OrderBy::Count),
            (Some("value") | None, None) => Ok(OrderBy::Value),
            (Some("uniques"), None) => Ok(OrderBy::Uniques),
            (Some("value"), Some(_)) => refuse(
                "a value is of now; ask by=count for what was counted in a window".to_owned(),
            ),
            (Some("uniques"), Some(_)) => refuse(
                "by=uniques knows all time only; leave window out, or read a counter's own uniques of a window"
                    .to_owned(),
            ),
            (Some(_), _) => refuse("by can only be value, count, uniques or rate".to_owned()),
        }
    }

    /// The window as it was asked for, and the beginning of the whole hours or days that cover it.
    ///
    /// # Errors
    /// `invalid-query` for anything but seconds and the names of windows.
    pub(super) fn named_window(
        &self,
        now: i64,
    ) -> Result<(Option<&str>, Option<WindowStart>), Problem> {
        let Some(text) = self.get("window") else {
            return Ok((None, None));
        };
        let of_seconds = || {
            let seconds = text.parse::<i64>().ok()?;
            let is_kept = (1..=WINDOW_SECONDS_MAX.cast_signed()).contains(&seconds);
            let (hour, first) = (now.div_euclid(3_600), now - seconds);
            is_kept.then(|| match first.div_euclid(3_600) {
                first if first >= hour - HOURS_BEFORE => WindowStart::Hour(first),
                _ => WindowStart::Day(first.div_euclid(86_400)),
            })
        };
        match of_seconds().or_else(|| window_named(text, now)) {
            Some(since) => Ok((Some(text), Some(since))),
            None => refuse(no_window(text)),
        }
    }
}

/// The beginning of the days of a window with a name: `today`, `month`, `year`, or `7d` for seven days, today being the
/// last.
pub(super) fn window_named(text: &str, now: i64) -> Option<WindowStart> {
    let day = now.div_euclid(86_400);
    match text {
        "today" => Some(WindowStart::Day(day)),
        "month" => first_day(day, "yyyy-mm", "-01"),
        "year" => first_day(day, "yyyy", "-01-01"),
        text => last_days(text, day),
    }
}

/// What is wrong with a window.
pub(super) fn no_window(text: &str) -> String {
    format!(
        "window must be seconds from 1 to {WINDOW_SECONDS_MAX}, today, month, year, or 1d to {DAYS_KEPT}d; {text:?} is none"
    )
}

/// The first day of the month or the year of a day. `same` is as long as the part of the date that stays; `rest`
/// follows it.
fn first_day(day: i64, same: &str, rest: &str) -> Option<WindowStart> {
    let date = date_of(day);
    let first = parse_date(&[date.get(..same.len())?, rest].concat());
    first.map(WindowStart::Day)
}

/// The first of the last days, as in `7d`; today is the last.
fn last_days(text: &str, day: i64) -> Option<WindowStart> {
    // Only the documented form is accepted: `parse` alone would accept `+7` and `07` too.
    let is_plain = text.starts_with(|first: char| matches!(first, '1'..='9'));
    let days = text.strip_suffix('d').filter(|_| is_plain)?;
    let days = days.parse::<u16>().ok()?;
    let is_kept = (1..=DAYS_KEPT).contains(&usize::from(days));
    is_kept.then(|| WindowStart::Day(day + 1 - i64::from(days)))
}
