//! Numbers in answers: exact ones of any size, and estimates with their error.

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::counter::merge::from_rest;
use crate::counter::total::Value;
use crate::sketch::{Estimated, Sketch};

/// An exact number of any size: a JSON number, or a decimal string where the reader asked for
/// strings and a JavaScript number would not hold it.
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
    /// Its standard error, in elements: two thirds of such estimates are this near or nearer.
    pub standard_error: f64,
}

impl Estimate {
    /// The estimate of a sketch at rest; `None` for an empty one.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let sketch = from_rest(bytes);
        (!sketch.is_empty()).then(|| Self::of_sketch(&sketch))
    }

    fn of_sketch(sketch: &Sketch) -> Self {
        let estimate = sketch.estimate();
        let error = estimate * sketch.standard_error();
        Self {
            estimate: round(estimate),
            standard_error: (error * 100.0).ceil() / 100.0,
        }
    }
}

impl From<Estimated> for Estimate {
    fn from(estimated: Estimated) -> Self {
        Self {
            estimate: round(estimated.estimate),
            standard_error: (estimated.standard_error * 100.0).ceil() / 100.0,
        }
    }
}

#[expect(
    clippy::as_conversions,
    reason = "estimates are finite and not negative; `as` saturates"
)]
fn round(estimate: f64) -> u64 {
    estimate.round() as u64
}
