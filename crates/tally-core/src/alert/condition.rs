//! Measures of alerts, and when a number is over its threshold.
//!
//! Invariant: if a part of a number is missing, the smallest and the largest possible part are both tried. So an outage
//! neither raises nor ends an alert.

use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measure {
    /// The value.
    Value,
    /// The count per minute.
    RatePerMinute,
    /// The count of this many seconds; for a policy its checks.
    CountIn(u32),
    /// The unique elements of this many seconds.
    UniquesIn(u32),
    /// The seconds since the last write.
    Silence,
    /// The refused checks of a policy in this many seconds.
    RefusedIn(u32),
    /// The allowed checks of a policy in this many seconds, percent.
    AllowedPercentIn(u32),
    /// Nothing that is over: what was counted is sent each day or week, which has this many seconds.
    Digest(u32),
}

impl Measure {
    /// The seconds of its window, if it has one.
    pub fn window_seconds(self) -> Option<i64> {
        match self {
            Self::CountIn(seconds)
            | Self::UniquesIn(seconds)
            | Self::RefusedIn(seconds)
            | Self::AllowedPercentIn(seconds) => Some(seconds.into()),
            Self::Value | Self::RatePerMinute | Self::Silence | Self::Digest(_) => None,
        }
    }
}

/// A measure and its thresholds. It is over if the number is above `above` or below `below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What is measured.
    pub measure: Measure,
    /// The largest number that is within.
    pub above: Option<i64>,
    /// The smallest number that is within.
    pub below: Option<i64>,
}

/// The relation of a number to the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// Nothing is missing.
    Whole,
    /// The true one is equal or larger.
    AtLeast,
    /// The true one is equal or smaller.
    AtMost,
    /// The relation is unknown.
    Unknown,
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The number; `None` if there is nothing to measure, or if it is not known.
    pub value: Option<i64>,
    /// Its relation to the true one.
    pub bound: Bound,
    /// The moment that it is of, unix milliseconds.
    pub as_of_ms: Option<i64>,
    /// Whether it is exact.
    pub is_exact: bool,
    /// The names of missing parts; empty if nothing is missing.
    pub missing: String,
}

impl Reading {
    /// The reading of a number that could not be measured at all.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self {
            value: None,
            bound: Bound::Unknown,
            as_of_ms: None,
            is_exact: false,
            missing: why.into(),
        }
    }
}

/// The result of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdResult {
    /// It is over a threshold.
    Exceeded,
    /// It is within them.
    Within,
    /// The missing part decides.
    Unknown,
}

/// A number is near a threshold if it is at most a fifth of the threshold away.
const NEAR: i128 = 5;

impl Condition {
    /// The condition that nothing was written for this many seconds.
    pub fn silent_for(seconds: u32) -> Self {
        Self {
            measure: Measure::Silence,
            above: Some(i64::from(seconds) - 1),
            below: None,
        }
    }

    /// The condition of a digest: none.
    pub fn digest(seconds: u32) -> Self {
        Self {
            measure: Measure::Digest(seconds),
            above: None,
            below: None,
        }
    }

    fn thresholds(&self) -> impl Iterator<Item = i64> {
        self.above.into_iter().chain(self.below)
    }

    /// The threshold that a number is over; the first threshold if it is over none.
    pub fn threshold_of(&self, value: Option<i64>) -> Option<i64> {
        let is_low = |below: &i64| value.is_some_and(|value| value < *below);
        self.below.filter(is_low).or(self.thresholds().next())
    }

    /// Compares a reading with the thresholds.
    pub fn judge(&self, reading: &Reading) -> ThresholdResult {
        let Some(value) = reading.value else {
            return match reading.bound {
                Bound::Whole => ThresholdResult::Within,
                _ => ThresholdResult::Unknown,
            };
        };
        let may_grow = matches!(reading.bound, Bound::AtLeast | Bound::Unknown);
        let may_shrink = matches!(reading.bound, Bound::AtMost | Bound::Unknown);
        let above = self
            .above
            .map(|above| (value > above, may_shrink, may_grow));
        let below = self
            .below
            .map(|below| (value < below, may_grow, may_shrink));
        let mut result = ThresholdResult::Within;
        for (is_over, may_end, may_begin) in above.into_iter().chain(below) {
            match (is_over, may_end, may_begin) {
                (true, false, _) => return ThresholdResult::Exceeded,
                (true, true, _) | (false, _, true) => result = ThresholdResult::Unknown,
                (false, _, false) => {}
            }
        }
        result
    }

    /// Whether a number is near a threshold. No number is near 0, because most numbers that are 0 stay 0.
    pub fn is_near(&self, value: i64) -> bool {
        let is_near = |threshold: i64| {
            let away = i128::from(value).abs_diff(i128::from(threshold));
            let near_max = i128::from(threshold).unsigned_abs() / NEAR.unsigned_abs();
            threshold != 0 && away <= near_max
        };
        self.thresholds().any(is_near)
    }
}
