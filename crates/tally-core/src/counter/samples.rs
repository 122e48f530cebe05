//! Samples by time: what writes carry, and what cells keep by the minute and by the hour.
//!
//! Invariants: a sample is in one histogram of one time, in a minute's or in an hour's, never in both. Histograms of
//! one time are merged, which is exact, so it does not matter where on their way samples join.
//!
//! Minutes that were kept long enough become an hour, one hour at a time, when a new minute begins: so no more than an
//! hour of them is in memory at once. A counter pays for that a row an hour, and for each minute's row that it goes.

use super::history::{HOURS_KEPT, MINUTES_KEPT, Resolution};
use crate::sketch::{Histogram, Sample};

/// How far back samples are kept by the minute at least, in seconds: 24 hours. A cell keeps them
/// [`MINUTES_KEPT`] and up to an hour more: at most 1,515 rows of at most 56,882 bytes, 86 MB
/// of the 10 GB of an object where every bucket of every minute has samples, and 0.7 MB where each minute's spread
/// over a factor of ten.
pub const SAMPLES_BY_MINUTE_SECONDS: i64 = 86_400;

/// How far back samples are kept by the hour, in seconds: 90 days, 2,160 rows, at most 123 MB, and 1 MB where they
/// spread over a factor of ten. A window of all that merges 3,675 rows, each in about 1 µs (native) where they do.
pub const SAMPLES_SECONDS_MAX: u64 = 2_160 * 3_600;

const _: () = assert!(HOURS_KEPT == 2_160);

/// The hour that is next to be made of its minutes by a cell of this clock, where `oldest` is the oldest minute with
/// samples; `None` while all are kept. All in unix seconds.
pub fn hour_to_fold(oldest: Option<i64>, now: i64) -> Option<i64> {
    let kept_from = Resolution::Hour.start_of(now.saturating_sub(MINUTES_KEPT));
    oldest
        .filter(|oldest| *oldest < kept_from)
        .map(|oldest| Resolution::Hour.start_of(oldest))
}

/// Hours that begin before this second are kept no longer by a cell of this clock.
pub fn hours_kept_from(now: i64) -> i64 {
    let kept = i64::try_from(SAMPLES_SECONDS_MAX).unwrap_or(i64::MAX);
    Resolution::Hour.start_of(now.saturating_sub(kept))
}

/// The whole minutes that hold some seconds of a window, as (first second, last second); or the whole hours, where the
/// minutes of then may be gone.
pub fn whole(from: i64, to: i64, now: i64) -> (i64, i64) {
    let by_minute_from = now.saturating_sub(SAMPLES_BY_MINUTE_SECONDS);
    let step_at = |second: i64| match second < by_minute_from {
        true => Resolution::Hour,
        false => Resolution::Minute,
    };
    let last = step_at(to);
    let end = last.start_of(to).saturating_add(last.seconds() - 1);
    (step_at(from).start_of(from), end)
}

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
