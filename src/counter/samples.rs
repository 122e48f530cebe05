//! Samples by time: what writes carry, and what cells keep by the minute.
//!
//! Invariant: a sample is in one histogram of one time. Histograms of one time are merged, which is exact, so it
//! does not matter where on their way samples join.

use crate::sketch::{Histogram, Sample};

/// How far back samples are kept, by the minute: 24 hours. A cell keeps them
/// [`MINUTES_KEPT`](super::history::MINUTES_KEPT), as much longer as clocks may differ: 1,455 rows of at most 56,882
/// bytes, 83 MB of the 10 GB of an object where every bucket of every minute has samples, and 0.7 MB where each
/// minute's spread over a factor of ten.
pub const SAMPLES_SECONDS_MAX: u64 = 86_400;

/// What a time holds beside its buckets: at most 96 bytes, in a vector that is half full at worst.
const TIME_BYTES: usize = 192;

/// Samples by time, unix seconds, in no order; one histogram for each.
pub type Samples = Vec<(i64, Histogram)>;

/// Adds samples of a time. Cost: a look at each time that there is, of which a message has few.
pub fn add_samples(samples: &mut Samples, second: i64, more: &Histogram) {
    match samples.iter_mut().find(|(known, _)| *known == second) {
        Some((_, histogram)) => histogram.merge(more),
        None => samples.push((second, more.clone())),
    }
}

/// Adds one sample of a time. Returns how many bytes more are held since.
pub fn insert_sample(samples: &mut Samples, second: i64, sample: Sample) -> usize {
    let Some((_, histogram)) = samples.iter_mut().find(|(known, _)| *known == second) else {
        let one = Histogram::of(sample);
        let bytes = one.bytes();
        samples.push((second, one));
        return TIME_BYTES + bytes;
    };
    let before = histogram.bytes();
    histogram.insert(sample);
    histogram.bytes().saturating_sub(before)
}

/// A histogram at rest; nothing for an empty one, so that answers without samples carry no bytes.
pub fn samples_at_rest(histogram: &Histogram) -> Vec<u8> {
    if histogram.is_empty() {
        Vec::new()
    } else {
        histogram.to_bytes()
    }
}

/// Reads a histogram at rest. Bytes that are none count as empty: the sender is our own build.
pub fn samples_from_rest(bytes: &[u8]) -> Histogram {
    Histogram::from_bytes(bytes).unwrap_or_default()
}

/// Adds the samples of other cells to those of some, both at rest.
pub fn join_samples(into: &mut Vec<u8>, other: Vec<u8>) {
    if into.is_empty() {
        *into = other;
    } else if !other.is_empty() {
        let mut histogram = samples_from_rest(into);
        histogram.merge(&samples_from_rest(&other));
        *into = histogram.to_bytes();
    }
}
