//! Samples at a cell: which minutes they belong to.
//!
//! Invariant: samples are written in the commit that counts their write, so they are there as often as it is. A cell
//! holds none in memory: the shell merges them into the rows of their minutes.

use super::{Cell, Changes, Step, clamp_stamp};
use crate::core::counter::samples::{Samples, add_samples};

impl Cell {
    /// Notes what must be written of samples that a cell of this clock takes, in unix seconds. No minute begins before
    /// its time, so a window up to now lacks none.
    pub(super) fn apply_samples(samples: &Samples, now: i64, changes: &mut Changes) {
        for (second, histogram) in samples {
            let minute = Step::Minute.start_of(clamp_stamp(*second, now).min(now));
            add_samples(&mut changes.samples, minute, histogram);
        }
    }
}
