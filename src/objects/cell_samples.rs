//! The rows of a cell's samples: one for each minute that has some.
//!
//! Invariant: a minute's row holds each of its samples as often as the write was counted that brought it, since both
//! are written in one commit. What a counter without samples pays is nothing.

use super::cell_store::{CellStore, Kind};
use super::store::blob;
use crate::counter::flush::Changes;
use crate::counter::history::{MINUTES_KEPT, Step};
use crate::counter::samples::{samples_at_rest, samples_from_rest};
use crate::protocol::messages::Fault;
use crate::sketch::Histogram;

impl CellStore {
    /// Adds samples to the rows of their minutes, within the commit of their writes: a row for each minute, nearly
    /// always one. Rows that were kept long enough go when a new minute begins.
    pub(super) fn merge_samples(&self, changes: &Changes, now: i64) -> Result<(), Fault> {
        for (minute, samples) in &changes.samples {
            let stored = self.get_bytes(Kind::Samples, *minute)?;
            let mut merged = match &stored {
                Some(bytes) => {
                    let broken =
                        |error: crate::sketch::HistogramError| Fault::Broken(error.to_string());
                    Histogram::from_bytes(bytes).map_err(broken)?
                }
                None => {
                    self.delete_samples_before(now - MINUTES_KEPT)?;
                    Histogram::new()
                }
            };
            merged.merge(samples);
            self.put_bytes(Kind::Samples, *minute, merged.to_bytes())?;
        }
        Ok(())
    }

    /// The samples of the minutes that a window covers, merged; at rest, empty for none. Partly covered minutes
    /// count in full. Cost: one row read and a merge per minute with samples; an hour of them is in memory at once,
    /// at most 61 · 56,882 bytes = 3.5 MB.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn window_samples(&self, from: i64, to: i64) -> Result<Vec<u8>, Fault> {
        let mut all = Histogram::new();
        let mut from = Step::Minute.start_of(from);
        while from <= to && self.has_schema.get() {
            let before = Step::Hour
                .start_of(from)
                .saturating_add(Step::Hour.seconds());
            let rows = self.store.run(
                "SELECT body FROM rows WHERE kind = ? AND start >= ? AND start < ? AND start <= ?",
                vec![
                    Kind::Samples.number(),
                    from.into(),
                    before.into(),
                    to.into(),
                ],
            )?;
            for body in rows.iter().filter_map(|row| row.first()).filter_map(blob) {
                all.merge(&samples_from_rest(body));
            }
            from = before;
        }
        Ok(samples_at_rest(&all))
    }

    fn delete_samples_before(&self, start: i64) -> Result<(), Fault> {
        let values = vec![Kind::Samples.number(), start.into()];
        self.store
            .run("DELETE FROM rows WHERE kind = ? AND start < ?", values)?;
        Ok(())
    }
}
