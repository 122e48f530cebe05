//! What is measured, and when it is over its threshold.
//!
//! Invariant: where a part of a number is missing, the least and the most that this part may be are both tried. So an
//! outage neither raises nor ends an alert.

use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measure {
    /// The value.
    Value,
    /// What is counted, by the minute.
    RatePerMinute,
    /// What was counted in so many seconds; of a policy its checks.
    CountIn(u32),
    /// The unique elements of so many seconds.
    UniquesIn(u32),
    /// For how many seconds nothing was written.
    Silence,
    /// How many checks of a policy were refused in so many seconds.
    RefusedIn(u32),
    /// How many of 100 checks of a policy were allowed in so many seconds.
    AllowedPercentIn(u32),
}

/// A measure and its thresholds. It is over where the number is above the one or below the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What is measured.
    pub measure: Measure,
    /// The largest number that is within.
    pub above: Option<i64>,
    /// The smallest number that is within.
    pub below: Option<i64>,
}

/// How a number stands to the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// Nothing is missing.
    Whole,
    /// The true one is as large or larger.
    AtLeast,
    /// The true one is as large or smaller.
    AtMost,
    /// Nothing can be said.
    Unknown,
}

/// What came of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The number; `None` where there is nothing to measure, or it is not known.
    pub value: Option<i64>,
    /// How it stands to the true one.
    pub bound: Bound,
    /// Of when it is, unix milliseconds.
    pub as_of_ms: Option<i64>,
    /// Whether it is exact.
    pub is_exact: bool,
    /// What is missing, by name; empty where nothing is.
    pub missing: String,
}

impl Reading {
    /// That of a number that could not be measured at all.
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

/// What a reading says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdResult {
    /// It is over a threshold.
    Over,
    /// It is within them.
    Within,
    /// What is missing decides.
    Unknown,
}

/// Near a threshold is what is at most a fifth of it away.
const NEAR: i128 = 5;

impl Condition {
    /// Nothing was written for so many seconds.
    pub fn silent_for(seconds: u32) -> Self {
        Self {
            measure: Measure::Silence,
            above: Some(i64::from(seconds) - 1),
            below: None,
        }
    }

    fn thresholds(&self) -> impl Iterator<Item = i64> {
        self.above.into_iter().chain(self.below)
    }

    /// The threshold that a number is over; where it is over none, the first of them.
    pub fn threshold_of(&self, value: Option<i64>) -> Option<i64> {
        let is_low = |below: &i64| value.is_some_and(|value| value < *below);
        self.below.filter(is_low).or(self.thresholds().next())
    }

    /// What a reading says.
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
                (true, false, _) => return ThresholdResult::Over,
                (true, true, _) | (false, _, true) => result = ThresholdResult::Unknown,
                (false, _, false) => {}
            }
        }
        result
    }

    /// Whether a number is near a threshold. None is near 0, since most numbers that are 0 stay so.
    pub fn is_near(&self, value: i64) -> bool {
        let is_near = |threshold: i64| {
            let away = i128::from(value).abs_diff(i128::from(threshold));
            let near_max = i128::from(threshold).unsigned_abs() / NEAR.unsigned_abs();
            threshold != 0 && away <= near_max
        };
        self.thresholds().any(is_near)
    }
}
