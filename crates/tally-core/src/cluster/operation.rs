//! Set and reset: numbered operations of the root, each with the totals that it observed of every cell.
//!
//! The value is the base that it was set to, plus the counts of each cell beyond its *baseline*: the totals that the
//! operation observed of it. So an increment that an operation has not seen is kept, and a second reset subtracts
//! nothing twice. Cells do not know of operations: their totals only grow, as merging requires.
//!
//! A datacenter that does not answer is *unreconciled*: it adds nothing until it has reported to the root. Then its
//! totals at the time of the operation become its baseline, and its later counts are kept.
//!
//! Invariant: a baseline is never above the totals of its cell.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counter::id::Datacenter;
use crate::counter::merge::{CellKey, CellTotals};
use crate::counter::total::{CellTotal, Sum, Value};

/// The totals of a datacenter's cells, by shard.
pub type Cells = Vec<(u8, CellTotals)>;

/// The effect of all operations on a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// The number of operations, and of moves of the home.
    number: u64,
    /// The time of the last operation, unix milliseconds.
    at_ms: i64,
    /// The base: the value that was set.
    base: Value,
    /// The totals of each cell when it was set: (added, removed).
    baselines: BTreeMap<CellKey, (CellTotal, CellTotal)>,
    /// Datacenters that have not reported since then.
    unreconciled: Vec<Datacenter>,
}

/// The report of an unreconciled datacenter once it can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconciliationReport {
    /// The totals of its cells.
    pub cells: Cells,
    /// Its newest write, unix milliseconds.
    pub last_write_ms: i64,
    /// Its count since the second of the operation, by its own buckets.
    pub since: u128,
}

impl Operations {
    /// The operations of a root whose row was lost: their number, and the base as the one datacenter knows it.
    pub fn adopt(number: u64, base: Value) -> Self {
        Self {
            number,
            base,
            ..Self::default()
        }
    }

    /// The number of operations, and of moves of the home. They are numbered from 1 within a generation.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The time of the last operation, unix milliseconds; 0 if there was none.
    pub fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// The base that was last set: 0 after a reset, or without an operation. It includes the counts that unreconciled
    /// datacenters made after the operation.
    pub fn base(&self) -> Value {
        self.base
    }

    /// Whether the value differs from the totals of cells. A root that was rebuilt from its leads has no time of an
    /// operation.
    pub fn has_base(&self) -> bool {
        self.at_ms > 0 || self.base.size() != 0
    }

    /// The datacenters that the last operation could not observe yet.
    pub fn unreconciled(&self) -> &[Datacenter] {
        &self.unreconciled
    }

    /// Whether the totals of a datacenter are a part of the value.
    pub fn is_reconciled(&self, datacenter: &Datacenter) -> bool {
        !self.unreconciled.contains(datacenter)
    }

    /// Sets the value. `seen` holds the totals of every datacenter; `None` for one that did not answer with all its
    /// cells.
    pub fn set(&mut self, value: Value, seen: Vec<(Datacenter, Option<Cells>)>, now_ms: i64) {
        self.number += 1;
        self.at_ms = now_ms;
        self.base = value;
        self.baselines.clear();
        self.unreconciled.clear();
        for (datacenter, cells) in seen {
            match cells {
                Some(cells) => self.record_baselines(&datacenter, &cells),
                None => self.unreconciled.push(datacenter),
            }
        }
    }

    /// Records that other cells decide from now on. The value does not change. A condition that has seen one cell no
    /// longer holds, because other cells may have counted meanwhile.
    pub fn record_move(&mut self) {
        self.number += 1;
    }

    /// Reconciles a datacenter. Returns whether it was unreconciled.
    ///
    /// Its counts since the operation are kept, by its own clock and by whole seconds, or by minutes if its buckets are
    /// no finer any more. Rounding keeps every increment that was acknowledged after the operation. Decrements have no
    /// times, so all of them count as before it.
    pub fn reconcile(&mut self, datacenter: &Datacenter, report: &ReconciliationReport) -> bool {
        if self.is_reconciled(datacenter) {
            return false;
        }
        self.unreconciled.retain(|other| other != datacenter);
        self.record_baselines(datacenter, &report.cells);
        if report.last_write_ms >= self.at_ms {
            let held: Sum = report
                .cells
                .iter()
                .map(|(_, totals)| totals.added.into())
                .sum();
            let since = Sum::from(report.since).min(held);
            self.base = self.base.plus(Value::new(since, 0));
        }
        true
    }

    fn record_baselines(&mut self, datacenter: &Datacenter, cells: &Cells) {
        for (shard, totals) in cells {
            let cell = (datacenter.clone(), *shard);
            self.baselines.insert(cell, (totals.added, totals.removed));
        }
    }

    /// The counts of a datacenter's cells beyond their baselines; nothing while it is unreconciled. A cell that is
    /// missing adds nothing. Neither does a cell whose known totals are older than its baseline.
    pub fn beyond(&self, datacenter: &Datacenter, cells: &Cells) -> Value {
        if !self.is_reconciled(datacenter) {
            return Value::default();
        }
        cells.iter().fold(Value::default(), |sum, (shard, totals)| {
            let (added, removed) = self.baseline(datacenter, *shard);
            let counted = Value::new(totals.added.max(added), totals.removed.max(removed));
            sum.plus(counted.without(added, removed))
        })
    }

    /// The baseline of a cell: (added, removed); zero if the last operation did not observe it.
    pub fn baseline(&self, datacenter: &Datacenter, shard: u8) -> (CellTotal, CellTotal) {
        // Most counters were never set, and need no key for a look-up.
        if self.baselines.is_empty() {
            return Default::default();
        }
        let known = self.baselines.get(&(datacenter.clone(), shard));
        known.copied().unwrap_or_default()
    }

    /// The sum of the baselines of a datacenter's cells: (added, removed).
    pub fn observed(&self, datacenter: &Datacenter) -> (Sum, Sum) {
        let of_it = self.baselines.iter();
        let of_it = of_it.filter(|((other, _), _)| other == datacenter);
        of_it.fold((Sum::ZERO, Sum::ZERO), |(added, removed), (_, seen)| {
            (added.plus(seen.0.into()), removed.plus(seen.1.into()))
        })
    }

    /// The value without the totals of one datacenter's cells, if no other datacenter counts: the base, less that
    /// datacenter's baselines.
    pub fn rest_of(&self, datacenter: &Datacenter) -> Value {
        let own = self
            .baselines
            .iter()
            .filter(|((other, _), _)| other == datacenter);
        own.fold(self.base, |sum, (_, (added, removed))| {
            sum.without(*added, *removed)
        })
    }
}
