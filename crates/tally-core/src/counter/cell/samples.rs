//! Samples and dimensions at a cell: which minutes, and which hours, they belong to.
//!
//! Invariant: they are written in the commit that counts their write, so they are there as often as it is. A cell
//! holds none in memory: the shell merges them into their rows.

use super::{CellState, Changes, Resolution, clamp_stamp};
use crate::counter::dimensions::{DimensionLog, Stamp};
use crate::counter::samples::{Samples, add_samples};

impl CellState {
    /// Adds what must be written of samples that a cell of this clock takes, in unix seconds. No minute begins before
    /// its time, so a window up to now lacks none.
    pub(super) fn apply_samples(samples: &Samples, now: i64, changes: &mut Changes) {
        for (second, histogram) in samples {
            let minute = Resolution::Minute.start_of(clamp_stamp(*second, now).min(now));
            add_samples(&mut changes.samples, minute, histogram);
        }
    }

    /// Adds what must be written of what increments say of themselves, each in the hour of the bucket that counts it.
    pub(super) fn apply_dimensions(log: &DimensionLog, now: i64, changes: &mut Changes) {
        // A log that cannot be read ends where that begins: its sender is our own build.
        let _ = log.each(|entry| {
            let second = match entry.stamp {
                Stamp::Live(second) => clamp_stamp(second, now),
                Stamp::Past(second) => second,
            };
            let hour = Stamp::Past(Resolution::Hour.start_of(second));
            changes.dimensions.push(hour, entry.amount, entry.values);
        });
    }
}
