//! Samples by time: those of writes, and those that cells keep by the minute and by the hour.
//!
//! Invariants: a sample is in one histogram, of a minute or of an hour, never in both. Histograms of one time are
//! merged. A merge is exact, so samples may join anywhere on their way.
//!
//! Minutes that were kept long enough are merged into an hour, one hour at a time, when a new minute begins. So at most
//! one hour of minutes is in memory at once. The cost is one row for each hour, and the deletion of each minute's row.

use super::history::{HOURS_KEPT, MINUTES_KEPT, Resolution};
use crate::sketch::{Histogram, Sample};

/// How far back samples are kept by the minute at least, in seconds: 24 hours. A cell keeps them for [`MINUTES_KEPT`]
/// and up to an hour more: at most 1,515 rows of at most 56,882 bytes. That is 86 MB of the 10 GB of an object if every
/// bucket of every minute has samples, and 0.7 MB if the samples of each minute spread over a factor of ten.
pub const SAMPLES_BY_MINUTE_SECONDS: i64 = 86_400;

/// How far back samples are kept by the hour, in seconds: 90 days, 2,160 rows. That is at most 123 MB, and 1 MB if they
/// spread over a factor of ten. A window over all of it merges 3,675 rows, each in about 1 µs (native) with that
/// spread.
pub const SAMPLES_SECONDS_MAX: u64 = 2_160 * 3_600;

const _: () = assert!(HOURS_KEPT == 2_160);

/// The next hour whose minutes a cell with this clock must merge; `None` while all minutes are kept. `oldest` is the
/// oldest minute with samples. All in unix seconds.
pub fn hour_to_fold(oldest: Option<i64>, now: i64) -> Option<i64> {
    let kept_from = Resolution::Hour.start_of(now.saturating_sub(MINUTES_KEPT));
    oldest
        .filter(|oldest| *oldest < kept_from)
        .map(|oldest| Resolution::Hour.start_of(oldest))
}

/// A cell with this clock keeps hours that begin at this second or later.
pub fn hours_kept_from(now: i64) -> i64 {
    let kept = i64::try_from(SAMPLES_SECONDS_MAX).unwrap_or(i64::MAX);
    Resolution::Hour.start_of(now.saturating_sub(kept))
}

/// Widens a window to whole minutes, as (first second, last second); to whole hours if its minutes may be merged
/// already.
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

/// The size of a time without its buckets: at most 96 bytes, in a vector that is half full at worst.
const TIME_BYTES: usize = 192;

/// Samples by time, unix seconds, in any order; one histogram for each time.
pub type Samples = Vec<(i64, Histogram)>;

/// Adds samples of a time. Cost: O(times), and a message has few.
pub fn add_samples(samples: &mut Samples, second: i64, more: &Histogram) {
    match samples.iter_mut().find(|(known, _)| *known == second) {
        Some((_, histogram)) => histogram.merge(more),
        None => samples.push((second, more.clone())),
    }
}

/// Adds one sample of a time. Returns by how many bytes the samples have grown.
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

/// Reads a histogram at rest. Invalid bytes are read as an empty one: the sender is our own build.
pub fn samples_from_rest(bytes: &[u8]) -> Histogram {
    Histogram::from_bytes(bytes).unwrap_or_default()
}

/// Histograms at rest by the beginnings of their times, unix seconds; none of them empty, in any order.
pub type SamplesAtRest = Vec<(i64, Vec<u8>)>;

/// Adds the samples of other cells by time. Cost: O(times) for each, and a read has few.
pub fn join_series(into: &mut SamplesAtRest, other: SamplesAtRest) {
    for (start, more) in other {
        match into.iter_mut().find(|(known, _)| *known == start) {
            Some((_, held)) => join_samples(held, more),
            None => into.push((start, more)),
        }
    }
}

/// The samples of one time.
pub fn samples_at(series: &SamplesAtRest, start: i64) -> Histogram {
    let mut known = series.iter().filter(|(known, _)| *known == start);
    known
        .next()
        .map_or_else(Histogram::new, |(_, bytes)| samples_from_rest(bytes))
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
