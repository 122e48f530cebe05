//! Estimates for readers without a key, rounded where the deployment says so.
//!
//! Invariant: what is told of a rounded estimate is a function of what it was rounded to, and of how large its error is
//! relative to it, in one digit. A standard error told to the hundredth would give the estimate back, since it is a fixed
//! part of it.
//!
//! Who may count and read as often as they like can learn which elements change an estimate, and with those make a
//! sketch say what they want (Paterson and Raynal 2021). Rounding takes most of the changes out of sight.

use super::number::Estimate;
use crate::protocol::names::UNIQUES_ROUNDING;
use crate::protocol::problem::Problem;
use crate::protocol::settings;

/// The most significant digits that `TALLY_UNIQUES_ROUNDING` keeps: estimates err by 0.8 %, so the third hides nothing but noise, and a fourth would not.
pub const DIGITS_MAX: u8 = 3;

/// How estimates are rounded: not at all, or to so many significant digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding(Option<u8>);

impl Rounding {
    /// Not at all.
    pub const OFF: Self = Self(None);

    /// To one digit.
    pub const COARSEST: Self = Self(Some(1));

    /// Returns what a setting says: 1 to [`DIGITS_MAX`], nothing or `off` for none.
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

    /// Returns the estimate to so many significant digits, with an error that is never smaller than before: that of
    /// rounding, a uniform one of a step, is added to it. What errs by more than itself is rounded as its error is.
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
        // Of the exact estimate, which is at most `size`.
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

/// The next number of one significant digit, not smaller.
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
