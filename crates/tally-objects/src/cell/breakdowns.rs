//! The stored rows of a cell's breakdowns: see [`tally_core::counter::breakdown`].

use std::rc::Rc;

use super::core::CellCore;
use super::row_kinds::Kind;
use super::store::CellStore;
use tally_core::counter::breakdown::{
    BreakdownRows, KEYS_DAYS, RetentionStart, RowKind, append, forget, read,
};
use tally_core::counter::cell::CellState;
use tally_core::counter::dimensions::{DimensionLog, DimensionName};
use tally_wire::messages::Fault;

/// After how long keys of refused checks that are counted now are deleted, milliseconds.
const KEYS_MS: i64 = (KEYS_DAYS + 1) * 86_400_000;

impl BreakdownRows for &CellStore {
    type Fault = Fault;

    fn get(&self, kind: RowKind, start: i64) -> Result<Option<Vec<u8>>, Fault> {
        self.get_bytes(Kind::of_breakdown(kind), start)
    }

    fn first(&self, kind: RowKind, from: i64, before: i64) -> Result<Option<i64>, Fault> {
        let first = self.rows.first_from(Kind::of_breakdown(kind), from)?;
        Ok(first.filter(|start| *start < before))
    }

    fn between(&self, kind: RowKind, from: i64, before: i64) -> Result<Vec<Vec<u8>>, Fault> {
        let rows = (self.rows).between(Kind::of_breakdown(kind), (from, before))?;
        Ok(rows.into_iter().map(|(_, body)| body).collect())
    }

    fn put(&mut self, kind: RowKind, start: i64, body: Vec<u8>) -> Result<(), Fault> {
        self.put_bytes(Kind::of_breakdown(kind), start, body)
    }

    fn delete(&mut self, kind: RowKind, from: i64, before: i64) -> Result<(), Fault> {
        self.rows
            .delete_between(Kind::of_breakdown(kind), (from, before))
    }
}

impl CellStore {
    /// Writes the dimensions of a commit's increments, within that commit.
    pub(super) fn put_dimensions(
        &self,
        cell: &CellState,
        dimensions: &DimensionLog,
        now: i64,
    ) -> Result<(), Fault> {
        if dimensions.is_empty() {
            return Ok(());
        }
        let kept = RetentionStart::at(now, cell.days_kept_from());
        append(&mut &*self, dimensions, kept)
    }

    /// Deletes keys of refused checks that are old enough. Returns when the next are, unix milliseconds.
    ///
    /// # Errors
    /// As [`CellStore::breakdown`].
    pub(super) fn forget_keys(&self, now_ms: i64) -> Result<Option<i64>, Fault> {
        if !self.rows.has_schema() {
            return Ok(None);
        }
        let next_second = forget(&mut &*self, now_ms.div_euclid(1_000))?;
        Ok(next_second.map(|next_second| next_second.saturating_mul(1_000)))
    }

    /// The counts of a dimension's values in a window, or of all time; in stored form, empty for nothing.
    ///
    /// # Errors
    /// `Unavailable`; `Broken` for rows that this build cannot read.
    pub(super) fn breakdown(
        &self,
        name: &DimensionName,
        window: Option<(i64, i64)>,
    ) -> Result<Vec<u8>, Fault> {
        if !self.rows.has_schema() {
            return Ok(Vec::new());
        }
        Ok(read(&self, name.as_str(), window)?.to_rest())
    }
}

impl CellCore {
    fn is_own(&self) -> bool {
        let me = self.address.borrow();
        me.as_ref().is_some_and(|me| me.counter.is_own())
    }

    /// Sets the alarm for the deletion of keys of refused checks, if it was not set since this object started.
    pub(super) fn see_to_keys(self: &Rc<Self>, now_ms: i64) {
        if self.keys_due_ms.get() > now_ms || !self.is_own() {
            return;
        }
        self.keys_due_ms.set(now_ms + KEYS_MS);
        self.arm_at(now_ms + KEYS_MS);
    }

    /// Deletes keys of refused checks that are old enough. Returns when the next are, unix milliseconds.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn forget_keys(&self, now_ms: i64) -> Result<Option<i64>, Fault> {
        match self.is_own() {
            true => self.rows.forget_keys(now_ms),
            false => Ok(None),
        }
    }
}
