//! The orders of counters by what a partition knows of them, and what a counter amounts to in an order.

use serde::{Deserialize, Serialize};

use super::total::CounterTotal;
use crate::counter::history::Resolution;
use crate::counter::id::{BEFORE_CALLERS, CounterId};
use crate::counter::total::Value;

/// The number of stored beginnings of hours: the current one and the 24 before, so that a day of seconds is covered,
/// and one more for differences of clocks.
pub const HOURS_KEPT: i64 = 26;

/// The number of stored beginnings of days: today and the 29 before, and one more for differences of clocks.
pub const DAYS_KEPT: i64 = 31;

/// Hours of a day.
pub const DAY_HOURS: i64 = 24;

/// The bound of [`Value::within_62_bits`].
pub const WITHIN_MAX: i64 = 1 << 62;

/// What a partition knows of a counter from pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "KnownTotal+")]
pub struct KnownTotal {
    /// Its totals.
    pub total: CounterTotal,
    /// Its unique elements of all time, if there are any.
    pub uniques: Option<KnownUniques>,
}

/// An estimate of unique elements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownUniques {
    /// The estimate, to the nearest whole element.
    pub estimate: u64,
    /// Its standard error, in elements.
    pub standard_error: f64,
    /// How many epochs it is the sum of.
    pub epochs: u64,
}

/// The measure by which counters are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderBy {
    /// Their value.
    Value,
    /// The sum of increments.
    Count,
    /// Their unique elements.
    Uniques,
}

/// The beginning of a window: an hour or a day, counted in hours or days of unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WindowStart {
    /// An hour.
    Hour(i64),
    /// A day.
    Day(i64),
    /// The counts of all time of the counters that were written in this hour or later. No counter counted more since
    /// this hour.
    Write(i64),
}

/// The hours before this one, and the days before today, at whose beginnings the directory stores counts.
pub const HOURS_BEFORE: i64 = 24;
/// See [`HOURS_BEFORE`].
pub const DAYS_BEFORE: i64 = 29;

impl WindowStart {
    /// The beginning of the window as a unix second.
    pub fn seconds(self) -> i64 {
        match self {
            Self::Hour(hour) | Self::Write(hour) => hour * Resolution::Hour.seconds(),
            Self::Day(day) => day * Resolution::Day.seconds(),
        }
    }

    /// The order by which partitions find the counters that may have counted most since a second: by the count since
    /// then, or by the count of all time where the directory does not store that.
    pub fn reaching(second: i64, now: i64) -> Self {
        let at = |step: Resolution, second: i64| second.div_euclid(step.seconds());
        let (hour, day) = (at(Resolution::Hour, second), at(Resolution::Day, second));
        if hour >= at(Resolution::Hour, now) - HOURS_BEFORE {
            Self::Hour(hour)
        } else if day >= at(Resolution::Day, now) - DAYS_BEFORE {
            Self::Day(day)
        } else {
            Self::written(second)
        }
    }

    /// The counts of all time, of the counters that were written since a second.
    pub fn written(second: i64) -> Self {
        Self::Write(second.div_euclid(Resolution::Hour.seconds()))
    }

    /// Whether the directory stores the counts at that beginning.
    pub fn is_kept(self) -> bool {
        !matches!(self, Self::Write(_))
    }
}

/// A set of counters and their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopOrder {
    /// The prefix of their names.
    pub prefix: String,
    /// The measure.
    pub by: OrderBy,
    /// The beginning of the window; `None` for all time.
    pub since: Option<WindowStart>,
}

impl TopOrder {
    /// The order of all counters of a prefix. What a call narrows beyond that it sets itself.
    pub fn new(prefix: &str, by: OrderBy, since: Option<WindowStart>) -> Self {
        let prefix = prefix.to_owned();
        Self { prefix, by, since }
    }

    /// Whether it has a counter: not one of the service's own, which precede the others.
    pub fn has(&self, counter: &CounterId) -> bool {
        let id = counter.as_str();
        id >= BEFORE_CALLERS && id.starts_with(&self.prefix)
    }
}

/// A counter in an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopRow {
    /// The counter.
    pub counter: CounterId,
    /// The amount that it is ordered by; for unique elements their estimate.
    pub amount: Value,
    /// Its unique elements, where it is ordered by them.
    pub uniques: Option<KnownUniques>,
    /// The amount includes every write acknowledged before this, unix milliseconds; [`TopRow::UNKNOWN_AS_OF_MS`] where
    /// the amount is unknown.
    pub as_of_ms: i64,
}

impl TopRow {
    /// The `as_of_ms` of a counter that nobody has reported yet.
    pub const UNKNOWN_AS_OF_MS: i64 = i64::MIN;

    /// Whether the amount is known.
    pub fn is_known(&self) -> bool {
        self.as_of_ms != Self::UNKNOWN_AS_OF_MS
    }
}

/// The hour of unix time at which it begins.
pub fn hour_of(since: WindowStart) -> i64 {
    match since {
        WindowStart::Hour(hour) | WindowStart::Write(hour) => hour,
        WindowStart::Day(day) => day * DAY_HOURS,
    }
}

/// The first name that an order may have: the service's own counters are before it.
pub fn first_of(order: &TopOrder) -> &str {
    order.prefix.as_str().max(BEFORE_CALLERS)
}

/// The amount of a counter in an order of all time.
pub fn row_of_known(counter: CounterId, by: OrderBy, known: KnownTotal) -> TopRow {
    let estimate = known.uniques.map_or(0, |uniques| uniques.estimate);
    TopRow {
        counter,
        amount: match by {
            OrderBy::Value => known.total.value,
            OrderBy::Count => Value::new(known.total.count, 0),
            OrderBy::Uniques => Value::new(u128::from(estimate), 0),
        },
        uniques: known.uniques.filter(|_| by == OrderBy::Uniques),
        as_of_ms: match known.total.is_known() {
            true => known.total.as_of_ms,
            false => TopRow::UNKNOWN_AS_OF_MS,
        },
    }
}
