//! What an isolate knows of the cells of one counter, beyond the sum that it has read.
//!
//! Invariant: totals of cells only grow, and a sequence says which of two is newer. So an acknowledged write that a sum
//! lacks is added to it once, and one that the sum includes is not added again.

use crate::messages::{Flushed, GlobalSum};
use crate::names::CellAddress;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::{CellKey, CellTotals, Vector};
use tally_core::counter::total::Value;

/// The most cells of one counter that are known: 64 shards here, or the datacenters that a sum lacked.
pub const CELLS_MAX: usize = 128;

/// The newest totals of cells of one counter, all of one generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownCells {
    generation: u64,
    cells: Vector,
}

/// A write that a cell has acknowledged.
pub struct AcknowledgedWrite<'a> {
    /// Its cell.
    pub cell: &'a CellAddress,
    /// The cell's answer to its flush.
    pub flushed: &'a Flushed,
    /// The part of the flush after the write: (added, removed).
    pub later: (u128, u128),
    /// What it added and removed.
    pub own: Value,
}

impl Flushed {
    /// The totals of the cell after the flush.
    pub fn totals(&self) -> CellTotals {
        CellTotals {
            generation: self.generation,
            sequence: self.outcome.sequence,
            added: self.outcome.added,
            removed: self.outcome.removed,
        }
    }
}

impl KnownCells {
    /// Records the totals of a cell, unless newer ones are known. A newer generation drops the cells of an older one.
    pub fn record(&mut self, cell: CellKey, totals: CellTotals) {
        if totals.generation > self.generation {
            self.cells = Vector::default();
            self.generation = totals.generation;
        }
        let has_room = self.cells.known() < CELLS_MAX || self.cells.get(&cell).is_some();
        if totals.generation == self.generation && has_room {
            self.cells.merge_cell(cell, totals);
        }
    }

    /// The value of a sum with all that is known here. A sum of another generation stays as it is.
    pub fn value_with(&self, sum: &GlobalSum) -> Value {
        let generation = sum.root.generation;
        let cells = self.cells.iter();
        let cells = cells.filter(|(_, totals)| totals.generation == generation);
        cells.fold(sum.value(), |value, (cell, totals)| {
            value_with_cell(value, sum, cell, *totals)
        })
    }

    /// The value for the answer to a write: the sum, all that is known here of other cells, and the write's own cell at
    /// the moment of the write, if the sum has nothing newer of it. Without a sum of the write's generation, only the
    /// known cells are added up.
    pub fn answer_to(&self, write: &AcknowledgedWrite<'_>, sum: Option<&GlobalSum>) -> Value {
        let own: CellKey = (write.cell.datacenter.clone(), write.cell.shard);
        let totals = write.flushed.totals();
        let at_write =
            Value::new(totals.added, totals.removed).without(write.later.0, write.later.1);
        let cells = self.cells.iter();
        let others =
            cells.filter(|(cell, known)| known.generation == totals.generation && **cell != own);
        let Some(sum) = sum.filter(|sum| sum.root.generation == totals.generation) else {
            return others.fold(at_write, |value, (_, known)| {
                value.plus(Value::new(known.added, known.removed))
            });
        };
        let value = others.fold(sum.value(), |value, (cell, known)| {
            value_with_cell(value, sum, cell, *known)
        });
        if !sum.root.operations.is_reconciled(&own.0) {
            // No counts of this datacenter are in the value yet.
            return value.plus(write.own);
        }
        let seen = totals_in(sum, None, &own.0, own.1);
        if seen.is_some_and(|seen| seen.sequence > totals.sequence) {
            return value;
        }
        let (added, removed) = sum.root.operations.baseline(&own.0, own.1);
        if totals.added <= added && totals.removed <= removed {
            // The last operation has observed all of the batch: the value has no later writes to take away.
            return value;
        }
        let value = value_with_cell(value, sum, &own, totals);
        value.without(write.later.0, write.later.1)
    }
}

/// A value of a sum, where a cell has these totals unless the sum has newer ones.
fn value_with_cell(
    value: Value,
    sum: &GlobalSum,
    (datacenter, shard): &CellKey,
    totals: CellTotals,
) -> Value {
    let seen = totals_in(sum, None, datacenter, *shard);
    if seen.is_some_and(|seen| seen.sequence >= totals.sequence) {
        return value;
    }
    let beyond = |totals: CellTotals| {
        let operations = &sum.root.operations;
        operations.beyond(datacenter, &vec![(*shard, totals)])
    };
    let (added, removed) = seen.map_or_else(Value::default, beyond).totals();
    value.plus(beyond(totals)).without(added, removed)
}

/// The totals of a cell in a sum; `at` is where its datacenter is expected.
fn totals_in(
    sum: &GlobalSum,
    at: Option<usize>,
    datacenter: &Datacenter,
    shard: u8,
) -> Option<CellTotals> {
    let is_it = |entry: &&(Datacenter, _)| entry.0 == *datacenter;
    let expected = at.and_then(|at| sum.datacenters.get(at)).filter(is_it);
    let (_, part) = expected.or_else(|| sum.datacenters.iter().find(is_it))?;
    let mut cells = part.as_ref()?.cells.iter();
    let cell = cells.find(|(other, _)| *other == shard)?;
    Some(cell.1)
}

/// The cells of which an earlier sum has newer totals than a later one of the same generation: their datacenter has
/// stopped answering.
pub fn lost(earlier: &GlobalSum, later: &GlobalSum) -> Vec<(CellKey, CellTotals)> {
    let mut lost = Vec::new();
    if earlier.root.generation != later.root.generation {
        return lost;
    }
    for (at, (datacenter, part)) in earlier.datacenters.iter().enumerate() {
        for (shard, totals) in part.iter().flat_map(|part| &part.cells) {
            let now = totals_in(later, Some(at), datacenter, *shard);
            if now.is_none_or(|now| now.sequence < totals.sequence) {
                lost.push(((datacenter.clone(), *shard), *totals));
            }
        }
    }
    lost
}
