//! Estimates for readers without a key, rounded where the deployment is set so.
//!
//! Invariant: an answer with a rounded estimate depends only on the rounded number and on one digit of the relative
//! error. A standard error to the hundredth would reveal the exact estimate, because it is a fixed part of it.
//!
//! A caller that may count and read as often as it likes can learn which elements change an estimate, and use them to
//! raise the estimate at will (Paterson and Raynal 2021). Rounding hides most of the changes.

use crate::number::Estimate;
use tally_wire::names::UNIQUES_ROUNDING;
use tally_wire::problem::Problem;
use tally_wire::settings;

/// The largest number of significant digits in `TALLY_UNIQUES_ROUNDING`. Estimates err by 0.8 %, so a third digit shows
/// little but noise, and a fourth would reveal the exact estimate.
pub const DIGITS_MAX: u8 = 3;

/// How estimates are rounded: not at all, or to so many significant digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding(Option<u8>);

impl Rounding {
    /// Not at all.
    pub const OFF: Self = Self(None);

    /// To one digit.
    pub const COARSEST: Self = Self(Some(1));

    /// Parses a setting: 1 to [`DIGITS_MAX`], nothing or `off` for none.
    ///
    /// # Errors
    /// `not-configured` for anything else.
    pub fn parse(setting: Option<&str>) -> Result<Self, Problem> {
        let text = setting.unwrap_or("off");
        settings::check(UNIQUES_ROUNDING, text)?;
        Ok(Self(text.parse().ok()))
    }

    /// Returns whether nothing is rounded.
    pub fn is_off(self) -> bool {
        self == Self::OFF
    }

    /// Returns the estimate with so many significant digits, and an error that is never smaller than before: the error
    /// of rounding (uniform over a step) is added. An estimate smaller than its error is rounded as its error is.
    pub fn apply(self, exact: Estimate) -> Estimate {
        let Self(Some(digits)) = self else {
            return exact;
        };
        let bound = 10u64.pow(digits.into());
        let error = exact.standard_error;
        let (mut step, mut width) = (1u64, 1.0);
        while exact.estimate / step >= bound || error / width >= float(bound) {
            step = step.saturating_mul(10);
            width *= 10.0;
            if step > u64::MAX / 10 {
                break;
            }
        }
        if step == 1 {
            return exact;
        }
        let estimate = exact.estimate.saturating_add(step / 2) / step * step;
        let size = float(estimate) + width / 2.0;
        // The error of the exact estimate, which is at most `size`.
        let own = if error <= float(exact.estimate) {
            one_digit_up(error / float(exact.estimate)) * size
        } else {
            one_digit_up(error)
        };
        let error = (own * own + width * width / 12.0).sqrt();
        Estimate {
            estimate,
            standard_error: (error * 100.0).ceil() / 100.0,
            epochs: exact.epochs,
        }
    }
}

/// The next larger or equal number of one significant digit.
fn one_digit_up(number: f64) -> f64 {
    if number <= 0.0 || !number.is_finite() {
        return number;
    }
    let mut unit = 1.0;
    while unit > number {
        unit /= 10.0;
    }
    while unit * 10.0 <= number {
        unit *= 10.0;
    }
    (number / unit).ceil() * unit
}

#[expect(
    clippy::as_conversions,
    reason = "an estimate need not be exact beyond 2^53"
)]
fn float(number: u64) -> f64 {
    number as f64
}
