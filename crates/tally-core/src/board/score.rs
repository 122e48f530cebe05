//! Scores and their order: numbers from the least to the most, as Redis orders those of a sorted set.
//!
//! Invariant: a score is a number, and there is one zero, so equal scores have equal bytes.

use serde::{Deserialize, Serialize};

/// The largest whole score of a board of integers: 2^53 − 1, up to which a double holds every whole number.
pub const SCORE_MAX: f64 = 9_007_199_254_740_991.0;

/// A score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Score(f64);

/// The bit that marks negative numbers.
const SIGN: u64 = 1 << 63;

impl Score {
    /// The score of a number; `None` for NaN.
    pub fn new(number: f64) -> Option<Self> {
        // A negative zero plus zero is zero.
        (!number.is_nan()).then_some(Self(number + 0.0))
    }

    /// The number.
    pub fn number(self) -> f64 {
        self.0
    }

    /// The sum; `None` for infinities of both signs, whose sum is NaN.
    pub fn plus(self, other: Self) -> Option<Self> {
        Self::new(self.0 + other.0)
    }

    /// Whether it is a whole number that a double holds exactly.
    pub fn is_whole(self) -> bool {
        self.0.abs() <= SCORE_MAX && self.0.fract() == 0.0
    }

    /// A number with the same order: a higher score has a higher number.
    pub fn ordered(self) -> u64 {
        let bits = self.0.to_bits();
        if bits & SIGN == 0 { bits | SIGN } else { !bits }
    }

    /// The inverse of [`Self::ordered`]; `None` for a number that it never returns.
    pub fn of_ordered(ordered: u64) -> Option<Self> {
        let bits = if ordered & SIGN == 0 {
            !ordered
        } else {
            ordered & !SIGN
        };
        Self::new(f64::from_bits(bits))
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.ordered().cmp(&other.ordered())
    }
}

impl TryFrom<f64> for Score {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        Self::new(number).ok_or("a score is a number")
    }
}

impl From<Score> for f64 {
    fn from(score: Score) -> Self {
        score.0
    }
}
