//! Which stored unique elements cover a stretch of time: those of its minutes, of its hours or of its days.
//!
//! Invariants: the chosen rows cover exactly the stretch; an hour is *over* when its minutes have been joined into one
//! row, and what comes later for it goes into that row too; so is a day of hours. All of it is joins, so a row that is
//! joined twice, or holds what another holds, does no harm.
//!
//! Rows are at most 1,455 minutes (24 h and as much longer as seconds are kept), 8 · 24 + 24 = 216 hours and 401
//! days: 2,072 of 12,298 bytes at most, where one shard counts by one key: 25 MB in the end for a shard that is dense
//! in each minute.

use super::history::{MINUTES_KEPT, Resolution};

/// How long unique elements are known to the minute: 24 hours.
pub const BY_MINUTES_SECONDS: i64 = 86_400;

/// How long they are known to the hour: a week.
pub const BY_HOURS_SECONDS: i64 = 7 * 86_400;

/// How long they are known at all, to the day.
pub const BY_DAYS_SECONDS: i64 = 400 * 86_400;

/// Rows of the beginning that a stretch is widened to, and a clock that is off, must be there still: one more day.
const SPARE_SECONDS: i64 = 86_400;

/// Returns how long a row of this step is kept after its beginning, in seconds.
pub const fn kept_seconds(step: Resolution) -> i64 {
    match step {
        Resolution::Second | Resolution::Minute => MINUTES_KEPT,
        Resolution::Hour => BY_HOURS_SECONDS + SPARE_SECONDS,
        Resolution::Day => BY_DAYS_SECONDS + SPARE_SECONDS,
    }
}

/// Returns the first and the last second of the stretch that is counted for a window. Both ends are widened: to full
/// minutes, hours or days, by how long ago they are.
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

/// Rows of one step, by the seconds that they begin at: from one, before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSpan {
    /// How long each is.
    pub step: Resolution,
    /// The first may begin here.
    pub from: i64,
    /// The next would begin here.
    pub before: i64,
}

/// Returns the rows of a stretch, at most five ranges of them: days that are over, before and after them hours
/// that are over, and minutes at the ends. `open_hour` is the first hour that is not over; `None` where none is.
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

/// The full buckets of a stretch, as the stretch that they are; `None` where there is none.
fn whole(step: Resolution, from: i64, before: i64) -> Option<(i64, i64)> {
    let first = step.start_of(from.checked_add(step.seconds() - 1)?);
    let before = step.start_of(before);
    (first < before).then_some((first, before))
}
