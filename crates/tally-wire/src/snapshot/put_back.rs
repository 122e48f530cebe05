//! The totals of a cell that no other object remembers, from the last snapshot.
//!
//! Invariant: nothing is counted twice. The cell does not get the counts that other cells of its datacenter hold.
//! Counts that a later set has observed add nothing.

use super::kept::SnapshotCounter;
use super::manifest::RunOf;
use tally_core::cluster::root::Root;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::CellTotals;
use tally_core::counter::total::{Sum, Value};

/// The last snapshot of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSnapshot {
    /// The run.
    pub run: RunOf,
    /// The counter's state in it.
    pub kept: SnapshotCounter,
}

impl LastSnapshot {
    /// Whether the snapshot is of the generation that a root names. The first part of a generation is the clock in
    /// milliseconds.
    pub fn is_of(&self, root: &Root) -> bool {
        let begun_ms = u64::try_from(self.run.begun_ms).unwrap_or(0);
        root.generation <= begun_ms
    }

    /// The totals of a cell. `others` are the readable cells of its datacenter.
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
        // A later set includes all that had been counted at its time.
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

/// One sum less another; `None` where the other is larger.
fn beyond(sum: Sum, other: Sum) -> Sum {
    Value::new(sum, other).not_negative().unwrap_or(Sum::ZERO)
}
