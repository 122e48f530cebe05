//! How samples are distributed: a log-linear histogram, for percentiles.
//!
//! Invariant: a [`Histogram`] depends on the samples it saw, each as often as it was seen, never on their order or on
//! how they were split among histograms before merging. So it has one byte string, and merging is commutative and
//! associative, exactly. It is not idempotent, because counts add: the caller must merge each part only once.
//!
//! Each power of two is cut into [`sample::BUCKETS_PER_OCTAVE`] buckets of one width, so the bucket of a sample is the
//! leading bits of its floating-point form. A bucket from `low` has the width `w` ≤ `low` / 64. Its value is its
//! middle, which is `w` / 2 ≤ `low` / 128 from either end. So a quantile is off by at most 1/128 of the sample that it
//! stands for,
//! [`MAX_RELATIVE_ERROR`]. Count, least and greatest are exact. The sum is exact for samples rounded to 2^-44 each: a
//! sum of floating-point numbers would depend on their order.
//!
//! **Source**: HdrHistogram (Tene) for buckets of one width within an octave; Masson, Rim and Lee, "DDSketch: a
//! fast and fully-mergeable quantile sketch with relative-error guarantees" (2019) for what the bound promises.

use alloc::vec;
use core::fmt;

mod buckets;
pub(super) mod format;
pub(super) mod sample;

use buckets::Buckets;
use sample::Sample;

/// How far a quantile may be off, relative to the sample that it stands for: half a bucket at its lower end, which is
/// exactly 1 / (2 · 64) = 0.78125 %. The middle of a bucket and its distances from the ends are floating-point numbers
/// without rounding.
pub const MAX_RELATIVE_ERROR: f64 = 1.0 / 128.0;

/// Samples of one range of time, as counts of buckets.
///
/// ```
/// use tally_sketch::{Histogram, Sample};
///
/// let mut latencies = Histogram::new();
/// for ms in 1..=1_000 {
///     latencies.insert(Sample::new(ms.into())?);
/// }
/// assert_eq!(latencies.quantile_per_mille(990), Some(988.0));
/// assert_eq!((latencies.count(), latencies.mean()), (1_000, Some(500.5)));
/// # Ok::<(), tally_sketch::SampleError>(())
/// ```
///
/// Memory: with up to 64 buckets that have samples, 16 bytes for each of them. With more, 8 bytes for each bucket from
/// the first to the last: at most 4,737 · 8 = 38 KB. Latencies that spread over a factor of ten fill 213.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: Buckets,
    /// The least and the greatest sample.
    extent: Option<(Sample, Sample)>,
    /// Sum of the samples, each rounded to a whole number of 2^-44.
    sum: u128,
}

impl fmt::Debug for Histogram {
    /// Shows only the number of samples, and the least and the greatest: thousands of counts are of no use in a log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Histogram({} samples", self.count())?;
        if let Some((least, greatest)) = self.extent {
            let (least, greatest) = (least.value(), greatest.value());
            write!(formatter, " from {least:?} to {greatest:?}")?;
        }
        formatter.write_str(")")
    }
}

impl Histogram {
    /// Returns a histogram that has seen nothing.
    pub const fn new() -> Self {
        Self {
            buckets: Buckets::new(),
            extent: None,
            sum: 0,
        }
    }

    /// Returns a histogram of one sample.
    pub fn of(sample: Sample) -> Self {
        Self {
            buckets: vec![(sample.bucket(), 1)].into(),
            extent: Some((sample, sample)),
            sum: sample.fixed(),
        }
    }

    /// Adds a sample. Cost: 5.2 ns (`cargo bench --bench native -- histogram`). The first sample of a bucket may move
    /// all buckets.
    pub fn insert(&mut self, sample: Sample) {
        self.buckets.add(sample.bucket(), 1);
        self.widen((sample, sample));
        self.sum = self.sum.saturating_add(sample.fixed());
    }

    /// Adds all that another histogram has seen. Cost: linear in the buckets of both.
    pub fn merge(&mut self, other: &Self) {
        let Some(extent) = other.extent else { return };
        self.widen(extent);
        self.sum = self.sum.saturating_add(other.sum);
        self.buckets.merge(&other.buckets);
    }

    fn widen(&mut self, (least, greatest): (Sample, Sample)) {
        self.extent = Some(match self.extent {
            None => (least, greatest),
            Some((low, high)) => (low.min(least), high.max(greatest)),
        });
    }

    /// Returns whether it has seen nothing.
    pub fn is_empty(&self) -> bool {
        self.extent.is_none()
    }

    /// Returns how many samples it has seen. The count is exact up to 2^64 − 1, where it stays.
    pub fn count(&self) -> u64 {
        let counts = self.buckets.iter().map(|(_, count)| count);
        counts.fold(0, u64::saturating_add)
    }

    /// Returns how many buckets have samples: 0 to 4,737.
    pub fn buckets(&self) -> usize {
        self.buckets.used()
    }

    /// Returns how many bytes its buckets hold: 32 for one, at most 37,896.
    pub fn bytes(&self) -> usize {
        self.buckets.bytes()
    }

    /// Returns the least sample, exactly; `None` where there is none.
    pub fn min(&self) -> Option<f64> {
        self.extent.map(|(least, _)| least.value())
    }

    /// Returns the greatest sample, exactly; `None` where there is none.
    pub fn max(&self) -> Option<f64> {
        self.extent.map(|(_, greatest)| greatest.value())
    }

    /// Returns the mean of the samples, within 2^-45 and the rounding of one division; `None` where there is none.
    /// Exact while the sum is below 2^128 · 2^-44 = 1.9e25, where it stays: 1.1e12 of the greatest samples.
    pub fn mean(&self) -> Option<f64> {
        let (least, greatest) = self.extent?;
        let mean = sample::unfixed(self.sum) / sample::float(self.count());
        Some(mean.clamp(least.value(), greatest.value()))
    }

    /// Returns the sample that `per_mille` of 1,000 samples do not exceed (the nearest rank: 500 is the median, 999
    /// the 99.9th percentile), off by at most [`MAX_RELATIVE_ERROR`] of it; `None` where there is none. The first
    /// and the last rank are exact. Cost: linear in the buckets.
    pub fn quantile_per_mille(&self, per_mille: u16) -> Option<f64> {
        let (least, greatest) = self.extent?;
        let count = self.count();
        let rank = (u128::from(count) * u128::from(per_mille.min(1_000))).div_ceil(1_000);
        if rank <= 1 {
            return Some(least.value());
        }
        if rank >= u128::from(count) {
            return Some(greatest.value());
        }
        let mut below: u128 = 0;
        for (bucket, count) in self.buckets.iter() {
            below += u128::from(count);
            if below >= rank {
                let middle = sample::middle(bucket);
                return Some(middle.clamp(least.value(), greatest.value()));
            }
        }
        Some(greatest.value())
    }
}
