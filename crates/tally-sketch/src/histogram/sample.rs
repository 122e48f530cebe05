//! The numbers that can be samples, and the bucket of each.
//!
//! Invariant: samples are ordered as their bits are, since none is negative. The bucket of a sample is given by its
//! bits without the last 46.

use core::fmt;

/// Buckets of one width between a power of two and the next.
pub const BUCKETS_PER_OCTAVE: u32 = 64;

/// The least sample above 0: 2^-30, a nanosecond in seconds.
pub const SAMPLE_MIN: f64 = 1.0 / 1_073_741_824.0;

/// Every sample is below this: 2^44 = 17,592,186,044,416, half a year in microseconds, 16 TiB.
pub const SAMPLE_LIMIT: f64 = 17_592_186_044_416.0;

/// Buckets: one for 0, and 64 for each of the 74 octaves from 2^-30 to 2^44: 4,737.
pub(super) const BUCKETS: u16 = 1 + 74 * 64;

/// Bits of a sample that do not affect its bucket: 52 of the fraction, less 6 for 64 buckets.
const WITHIN_BITS: u32 = 52 - BUCKETS_PER_OCTAVE.ilog2();

/// The leading bits of [`SAMPLE_MIN`].
const LEAD_MIN: u64 = SAMPLE_MIN.to_bits() >> WITHIN_BITS;

/// A number that can be a sample: 0, or from [`SAMPLE_MIN`] to below [`SAMPLE_LIMIT`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample(u64);

impl fmt::Debug for Sample {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sample({:?})", self.value())
    }
}

/// Why a number is no sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleError(f64);

impl fmt::Display for SampleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.0 {
            number if number.is_nan() => "this is none",
            number if number < 0.0 => "this one is negative",
            number if number < 1.0 => "this one is too small, send it in a smaller unit",
            _ => "this one is too large, send it in a larger unit",
        };
        write!(
            formatter,
            "a sample is a number, 0 or from 2^-30 (9.4e-10) to below 2^44 (1.7e13); {why}"
        )
    }
}

impl core::error::Error for SampleError {}

impl Sample {
    /// Returns the sample of this value; -0 is 0.
    ///
    /// # Errors
    /// [`SampleError`] for numbers that are negative, not finite, below [`SAMPLE_MIN`] and not 0, or not below
    /// [`SAMPLE_LIMIT`].
    pub fn new(value: f64) -> Result<Self, SampleError> {
        if value == 0.0 {
            Ok(Self(0))
        } else if (SAMPLE_MIN..SAMPLE_LIMIT).contains(&value) {
            Ok(Self(value.to_bits()))
        } else {
            Err(SampleError(value))
        }
    }

    /// Returns its value.
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }

    /// Returns its bits: 0, or the IEEE 754 form.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns the sample of these bits, where there is one.
    pub(super) fn from_bits(bits: u64) -> Option<Self> {
        let sample = Self::new(f64::from_bits(bits)).ok()?;
        (sample.0 == bits).then_some(sample)
    }

    /// Returns the number of its bucket, from 0 for 0 to 4,736.
    pub(super) fn bucket(self) -> u16 {
        let lead = (self.0 >> WITHIN_BITS).checked_sub(LEAD_MIN);
        lead.map_or(0, |lead| u16::try_from(lead + 1).unwrap_or(BUCKETS - 1))
    }

    /// Returns its value as a whole number of 2^-44, rounded to the nearest, halves up: below 2^88.
    pub(super) fn fixed(self) -> u128 {
        if self.0 == 0 {
            return 0;
        }
        let significand = u128::from(self.0 & ((1 << 52) - 1) | 1 << 52);
        let exponent = u32::try_from(self.0 >> 52).unwrap_or(u32::MAX);
        match exponent.checked_sub(EXPONENT_WHOLE) {
            Some(left) => significand << left,
            None => {
                let right = EXPONENT_WHOLE.saturating_sub(exponent);
                (significand + (1 << (right - 1))) >> right
            }
        }
    }
}

/// The exponent in the bits of a sample whose last bit is worth 2^-44: that of 2^8.
const EXPONENT_WHOLE: u32 = 1_023 + 8;

const _: () = assert!(EXPONENT_WHOLE + 44 == 1_023 + 52);

/// Returns the middle of a bucket, without rounding.
pub(super) fn middle(bucket: u16) -> f64 {
    match bucket.checked_sub(1) {
        None => 0.0,
        Some(octave_part) => {
            let lead = LEAD_MIN + u64::from(octave_part);
            f64::from_bits((lead << WITHIN_BITS) | 1 << (WITHIN_BITS - 1))
        }
    }
}

/// Returns a whole number of 2^-44 as a floating-point number, rounded.
#[expect(
    clippy::as_conversions,
    reason = "there is no `From`, and rounding is meant"
)]
pub(super) fn unfixed(sum: u128) -> f64 {
    sum as f64 / SAMPLE_LIMIT
}

/// Returns a count as a floating-point number, rounded.
#[expect(
    clippy::as_conversions,
    reason = "there is no `From`, and rounding is meant"
)]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}
