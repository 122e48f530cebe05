//! The rows of a cell's unique elements: minutes, past hours, past days.
//!
//! Invariant: an hour, or a day, is joined from its parts in the commit that finds it over, before they are deleted.

use super::row_kinds::Kind;
use super::store::CellStore;
use tally_core::counter::flush::Changes;
use tally_core::counter::history::Resolution;
use tally_core::counter::uniques_retention::{RowSpan, kept_seconds, rows_of};
use tally_core::order::in_order;
use tally_core::sketch::Uniques;
use tally_wire::messages::Fault;

impl CellStore {
    /// Writes the unique elements that a commit changed, except those of all time.
    pub(super) fn put_uniques(&self, changes: &Changes, now: i64) -> Result<(), Fault> {
        for (minute, uniques) in &changes.minutes {
            self.put_bytes(Kind::MinuteUniques, *minute, uniques.clone())?;
        }
        self.merge_late(changes)?;
        for &(step, start) in &changes.over {
            self.join_parts(step, start)?;
        }
        // Not before: an hour that is deleted may be part of a day that has just been joined.
        if !changes.over.is_empty() {
            self.forget(Resolution::Hour, now)?;
            self.forget(Resolution::Day, now)?;
        }
        if changes.all_time {
            self.forget(Resolution::Minute, now)?;
        }
        Ok(())
    }

    fn merge_late(&self, changes: &Changes) -> Result<(), Fault> {
        let late = in_order(changes.late_tokens.clone(), Ord::cmp);
        for tokens in late.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1)) {
            let Some(&(step, start, ..)) = tokens.first() else {
                continue;
            };
            let kind = Kind::of_uniques(step);
            let mut uniques = self.uniques(kind, start)?;
            // `|`, not `||`: every token must be inserted.
            let has_news = tokens.iter().fold(false, |has_news, &(.., source, token)| {
                uniques.insert(source, token) | has_news
            });
            if has_news {
                self.put_bytes(kind, start, uniques.to_bytes())?;
            }
        }
        Ok(())
    }

    /// Joins the rows of an hour's minutes, or of a day's hours, into the hour's or day's row, which may exist already.
    fn join_parts(&self, step: Resolution, start: i64) -> Result<(), Fault> {
        let part = if step == Resolution::Day {
            Resolution::Hour
        } else {
            Resolution::Minute
        };
        let mut whole = self.uniques(Kind::of_uniques(step), start)?;
        let rows = RowSpan {
            step: part,
            from: start,
            before: start.saturating_add(step.seconds()),
        };
        if self.join_rows(rows, &mut whole)? {
            self.put_bytes(Kind::of_uniques(step), start, whole.to_bytes())?;
        }
        Ok(())
    }

    /// Adds the elements of rows; returns whether anything was new.
    fn join_rows(&self, rows: RowSpan, into: &mut Uniques) -> Result<bool, Fault> {
        let mut has_news = false;
        let kind = Kind::of_uniques(rows.step);
        self.each_between(kind, (rows.from, rows.before), |body| {
            has_news |= into.merge(&read_uniques(body)?);
            Ok(())
        })?;
        Ok(has_news)
    }

    /// The unique elements of a span of time, given by its first and its last second. Cost: a row read and a merge for
    /// each minute, hour or day.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn range_uniques(
        &self,
        range: (i64, i64),
        open_hour: Option<i64>,
    ) -> Result<Uniques, Fault> {
        let mut union = Uniques::new();
        if self.rows.has_schema() {
            for rows in rows_of(range, open_hour) {
                self.join_rows(rows, &mut union)?;
            }
        }
        Ok(union)
    }

    pub(super) fn uniques(&self, kind: Kind, start: i64) -> Result<Uniques, Fault> {
        let bytes = self.get_bytes(kind, start)?;
        read_uniques(&bytes.unwrap_or_default())
    }

    fn forget(&self, step: Resolution, now: i64) -> Result<(), Fault> {
        let start = now.saturating_sub(kept_seconds(step));
        self.delete_before(Kind::of_uniques(step), start)
    }
}

fn read_uniques(bytes: &[u8]) -> Result<Uniques, Fault> {
    Uniques::from_bytes(bytes).map_err(|error| Fault::Broken(error.to_string()))
}
