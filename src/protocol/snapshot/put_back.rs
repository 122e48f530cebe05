//! What a cell that nobody remembers had counted, by the last snapshot.
//!
//! Invariant: nothing is counted twice: what other cells of its datacenter hold is not given to it, and what a later set has observed of
//! it adds nothing.

use super::kept::Kept;
use super::manifest::RunOf;
use crate::core::cluster::root::Root;
use crate::core::counter::id::Datacenter;
use crate::core::counter::merge::CellTotals;
use crate::core::counter::total::{Sum, Value};

/// The last snapshot of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastKept {
    /// The run.
    pub run: RunOf,
    /// What it has of the counter.
    pub kept: Kept,
}

impl LastKept {
    /// Whether it is of the generation that a root names: those begin as the clock in milliseconds.
    pub fn is_of(&self, root: &Root) -> bool {
        let begun_ms = u64::try_from(self.run.begun_ms).unwrap_or(0);
        root.generation <= begun_ms
    }

    /// What a cell had counted. `others` are the cells of its datacenter that can be read.
    pub fn totals(
        &self,
        root: &Root,
        (datacenter, shard): (&Datacenter, u8),
        others: &[(u8, CellTotals)],
    ) -> CellTotals {
        let operations = &root.operations;
        let (added, removed) = operations.baseline(datacenter, shard);
        let mut totals = CellTotals {
            generation: root.generation,
            sequence: 0,
            added,
            removed,
        };
        let parts = &self.kept.datacenters;
        let part = parts.iter().find(|part| part.datacenter == *datacenter);
        // What it was set to since holds all that had been counted then.
        let Some(part) = part.filter(|_| operations.at_ms() <= self.kept.as_of_ms) else {
            return totals;
        };
        let (mut more, mut less) = (part.added, part.removed);
        for (other, counted) in others {
            if *other != shard && counted.generation == root.generation {
                let (added, removed) = operations.baseline(datacenter, *other);
                more = beyond(more, beyond(counted.added.into(), added.into()));
                less = beyond(less, beyond(counted.removed.into(), removed.into()));
            }
        }
        totals.added = totals.added.plus_sum(more);
        totals.removed = totals.removed.plus_sum(less);
        totals
    }
}

/// One sum less another; nothing where that is more.
fn beyond(sum: Sum, other: Sum) -> Sum {
    Value::new(sum, other).not_negative().unwrap_or(Sum::ZERO)
}
