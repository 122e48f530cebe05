//! The rows of a cell's breakdowns, where they lie: see [`crate::core::counter::breakdown`].

use super::cell_store::{CellStore, Kind};
use crate::core::counter::breakdown::{BreakdownRows, KeptFrom, RowKind, append, read};
use crate::core::counter::cell::Cell;
use crate::core::counter::dimensions::{DimensionLog, DimensionName};
use crate::protocol::messages::Fault;

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
    /// Writes what the increments of a commit say of themselves, within that commit.
    pub(super) fn put_dimensions(
        &self,
        cell: &Cell,
        dimensions: &DimensionLog,
        now: i64,
    ) -> Result<(), Fault> {
        if dimensions.is_empty() {
            return Ok(());
        }
        let kept = KeptFrom::at(now, cell.days_kept_from());
        append(&mut &*self, dimensions, kept)
    }

    /// What was counted of a dimension's values in a window, of all time without one; at rest, empty for nothing.
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
