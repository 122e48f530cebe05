//! The rows of a cell's samples: one for each minute with samples, and one for each hour whose minutes were deleted.
//!
//! Invariant: the rows hold each sample as often as its write was counted, because both are written in one commit; and
//! never twice, because minutes are deleted in the commit that joins their hour. A counter without samples stores no
//! rows.

use super::row_kinds::Kind;
use super::store::CellStore;
use tally_core::counter::flush::Changes;
use tally_core::counter::history::Resolution;
use tally_core::counter::samples::{
    Samples, SamplesAtRest, add_samples, hour_to_fold, hours_kept_from,
};
use tally_core::sketch::Histogram;
use tally_wire::messages::Fault;

/// How many hours' rows are in memory at once: 48 · 56,882 bytes = 2.7 MB.
const HOURS_AT_ONCE: i64 = 48;

impl CellStore {
    /// Adds samples to the rows of their minutes, within the commit of their writes: a row for each minute, nearly
    /// always one. When a new minute begins, old minutes are joined into an hour.
    pub(super) fn merge_samples(&self, changes: &Changes, now: i64) -> Result<(), Fault> {
        for (minute, samples) in &changes.samples {
            let stored = self.get_bytes(Kind::Samples, *minute)?;
            if stored.is_none() {
                self.fold_samples(now)?;
            }
            let mut merged = read(stored.as_deref())?;
            merged.merge(samples);
            self.put_bytes(Kind::Samples, *minute, merged.to_bytes())?;
        }
        Ok(())
    }

    /// Joins the minutes of an hour, if one is due, and deletes old hours.
    fn fold_samples(&self, now: i64) -> Result<(), Fault> {
        let Some(hour) = hour_to_fold(self.rows.first_from(Kind::Samples, 0)?, now) else {
            return Ok(());
        };
        let mut merged = read(self.get_bytes(Kind::HourSamples, hour)?.as_deref())?;
        let end = hour.saturating_add(Resolution::Hour.seconds());
        merged.merge(&self.samples_between(Kind::Samples, hour, end)?);
        self.put_bytes(Kind::HourSamples, hour, merged.to_bytes())?;
        // The hour is that of the oldest minute.
        self.delete_before(Kind::Samples, end)?;
        self.delete_before(Kind::HourSamples, hours_kept_from(now))
    }

    /// The samples of the minutes and hours that begin in a window, merged by steps or all together; in stored form,
    /// empty for none. Cost: a row read and a merge for each, and two queries for each hour with rows by the minute, or
    /// two days with rows by the hour.
    ///
    /// # Errors
    /// `Unavailable`; `Broken` for rows that this build cannot read.
    pub fn window_samples(
        &self,
        (from, to): (i64, i64),
        step: Option<Resolution>,
    ) -> Result<SamplesAtRest, Fault> {
        let mut all = Samples::new();
        let end = to.saturating_add(1);
        if !self.rows.has_schema() {
            return Ok(Vec::new());
        }
        for (kind, hours) in [(Kind::Samples, 1), (Kind::HourSamples, HOURS_AT_ONCE)] {
            let mut first = from;
            // From row to row: for a window of any length, this ends with the stored rows.
            while let Some(row) = self.rows.first_from(kind, first)?.filter(|row| *row < end) {
                let next = Resolution::Hour.start_of(row) + hours * Resolution::Hour.seconds();
                for (start, body) in self.rows.between(kind, (row, next.min(end)))? {
                    let start = step.map_or(0, |step| step.start_of(start));
                    add_samples(&mut all, start, &read(Some(&body))?);
                }
                first = next;
            }
        }
        all.retain(|(_, samples)| !samples.is_empty());
        let at_rest = |(start, samples): (i64, Histogram)| (start, samples.to_bytes());
        Ok(all.into_iter().map(at_rest).collect())
    }

    /// The samples of rows with starts in `from..before`, merged.
    fn samples_between(&self, kind: Kind, from: i64, before: i64) -> Result<Histogram, Fault> {
        let mut all = Histogram::new();
        self.each_between(kind, (from, before), |body| {
            all.merge(&read(Some(body))?);
            Ok(())
        })?;
        Ok(all)
    }
}

/// The histogram of a row; an empty one where there is none.
fn read(body: Option<&[u8]>) -> Result<Histogram, Fault> {
    let broken = |error: tally_core::sketch::HistogramError| Fault::Broken(error.to_string());
    body.map_or_else(
        || Ok(Histogram::new()),
        |bytes| Histogram::from_bytes(bytes).map_err(broken),
    )
}
