//! Numbers in answers: exact ones of any size, and estimates with their error.

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use tally_core::cluster::top_order::KnownUniques;
use tally_core::counter::total::Value;
use tally_core::sketch::{UniqueEstimate, Uniques};

/// An exact number of any size: a JSON number, or a decimal string where the reader asked for strings and a JavaScript
/// number could not hold it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    value: Value,
    as_string: bool,
}

impl Exact {
    /// This value, as a string above 2^53 − 1 if `as_string`.
    pub fn new(value: Value, as_string: bool) -> Self {
        Self { value, as_string }
    }
}

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = self.value.to_string();
        if self.as_string && !self.value.is_javascript_safe() {
            return serializer.serialize_str(&digits);
        }
        RawValue::from_string(digits)
            .map_err(S::Error::custom)?
            .serialize(serializer)
    }
}

/// An estimate of unique elements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate, to the nearest whole element.
    pub estimate: u64,
    /// Standard error in elements: two thirds of such estimates are this near or nearer.
    pub standard_error: f64,
    /// How many epochs of the hash's key it is the sum of; left out for one. A visitor counts once for each key under
    /// which it came. 4 means four or more.
    #[serde(skip_serializing_if = "is_one")]
    pub epochs: usize,
}

impl Estimate {
    /// The estimate of no elements.
    pub const NOTHING: Self = Self {
        estimate: 0,
        standard_error: 0.0,
        epochs: 1,
    };

    /// The estimate of unique elements; `None` where there were none.
    pub fn of(uniques: &Uniques) -> Option<Self> {
        if uniques.is_empty() {
            return None;
        }
        Some(Self::of_estimated(uniques.estimate(), uniques.epochs()))
    }

    /// The estimate that a partition of the directory stores.
    pub fn of_known(known: KnownUniques) -> Self {
        Self {
            estimate: known.estimate,
            standard_error: known.standard_error,
            epochs: usize::try_from(known.epochs).unwrap_or(usize::MAX),
        }
    }

    /// The sum of the estimates of these epochs; 0 for none.
    pub fn of_epochs(epochs: &[UniqueEstimate]) -> Self {
        let (mut estimate, mut variance) = (0.0, 0.0);
        for epoch in epochs {
            estimate += epoch.estimate;
            variance += epoch.standard_error * epoch.standard_error;
        }
        let standard_error = variance.sqrt();
        let sum = UniqueEstimate {
            estimate,
            standard_error,
        };
        Self::of_estimated(sum, epochs.len().max(1))
    }

    fn of_estimated(found: UniqueEstimate, epochs: usize) -> Self {
        Self {
            estimate: round(found.estimate),
            standard_error: (found.standard_error * 100.0).ceil() / 100.0,
            epochs,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_one(epochs: &usize) -> bool {
    *epochs == 1
}

#[expect(
    clippy::as_conversions,
    reason = "estimates are finite and not negative; `as` saturates"
)]
fn round(estimate: f64) -> u64 {
    estimate.round() as u64
}
