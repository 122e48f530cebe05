//! The rows of unique elements that cover an interval: those of its minutes, hours and days.
//!
//! Invariants: the chosen rows cover exactly the interval. An hour is *over* when its minutes have been joined into one
//! row. Later elements of that hour go into that row too. The same holds for a day and its hours. Rows are joined as
//! sets, so a row may be joined twice, or overlap with another.
//!
//! There are at most 1,455 minutes (24 h, and the time for which seconds are kept), 8 · 24 + 24 = 216 hours and 401
//! days. That is 2,072 rows of at most 12,298 bytes, if one shard counts by one key: 25 MB for a shard whose every
//! minute is dense.

use super::history::{MINUTES_KEPT, Resolution};

/// How long unique elements are kept by the minute: 24 hours.
pub const BY_MINUTES_SECONDS: i64 = 86_400;

/// How long they are kept by the hour: a week.
pub const BY_HOURS_SECONDS: i64 = 7 * 86_400;

/// How long they are kept by the day.
pub const BY_DAYS_SECONDS: i64 = 400 * 86_400;

/// How much longer rows are kept: a window is widened to the beginning of a bucket, and clocks differ.
const SPARE_SECONDS: i64 = 86_400;

/// Returns how long a row of this step is kept after its beginning, in seconds.
pub const fn kept_seconds(step: Resolution) -> i64 {
    match step {
        Resolution::Second | Resolution::Minute => MINUTES_KEPT,
        Resolution::Hour => BY_HOURS_SECONDS + SPARE_SECONDS,
        Resolution::Day => BY_DAYS_SECONDS + SPARE_SECONDS,
    }
}

/// Returns the first and the last second of the interval that is counted for a window. Both ends are widened to full
/// minutes, hours or days, by their age.
pub fn widened_window((from, to): (i64, i64), now: i64) -> (i64, i64) {
    let step = |second: i64| match now.saturating_sub(second) {
        ago if ago <= BY_MINUTES_SECONDS => Resolution::Minute,
        ago if ago <= BY_HOURS_SECONDS => Resolution::Hour,
        _ => Resolution::Day,
    };
    let (first, last) = (step(from), step(to));
    (
        first.start_of(from),
        last.start_of(to).saturating_add(last.seconds() - 1),
    )
}

/// The rows of one step that begin in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSpan {
    /// The width of each row.
    pub step: Resolution,
    /// The earliest beginning.
    pub from: i64,
    /// The end: all rows begin before it.
    pub before: i64,
}

/// Returns the rows of an interval, in at most five spans: days that are over, hours that are over before and after
/// them, and minutes at the ends. `open_hour` is the first hour that is not over; `None` if there is none.
pub fn rows_of((first, last): (i64, i64), open_hour: Option<i64>) -> Vec<RowSpan> {
    let end = last.saturating_add(1);
    let mut rows = Vec::new();
    let mut push = |step: Resolution, from: i64, before: i64| {
        if from < before {
            rows.push(RowSpan { step, from, before });
        }
    };
    let open = open_hour.unwrap_or(first);
    let hours = whole(Resolution::Hour, first, end.min(open)).unwrap_or((end, end));
    let days = whole(
        Resolution::Day,
        hours.0,
        hours.1.min(Resolution::Day.start_of(open)),
    );
    let days = days.unwrap_or((hours.1, hours.1));
    push(Resolution::Minute, first, hours.0);
    push(Resolution::Hour, hours.0, days.0);
    push(Resolution::Day, days.0, days.1);
    push(Resolution::Hour, days.1, hours.1);
    push(Resolution::Minute, hours.1, end);
    rows
}

/// The full buckets within an interval, as an interval; `None` if there are none.
fn whole(step: Resolution, from: i64, before: i64) -> Option<(i64, i64)> {
    let first = step.start_of(from.checked_add(step.seconds() - 1)?);
    let before = step.start_of(before);
    (first < before).then_some((first, before))
}
