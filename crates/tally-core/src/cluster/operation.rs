//! Set and reset: numbered operations of the root, each with what it observed of every cell.
//!
//! The value is what it was set to, and what each cell has counted beyond its *baseline*: what the operation
//! observed of it. So an increment that an operation has not seen is kept, a second reset subtracts nothing twice,
//! and cells need not know of operations: their totals only grow, as merging needs.
//!
//! A datacenter that does not answer is *unreconciled*: it adds nothing until it has reported to the root. Then all
//! that it had counted by the time of the operation becomes its baseline, and what it counted since is kept.
//!
//! Invariant: a baseline is never above what its cell has counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counter::id::Datacenter;
use crate::counter::merge::{CellKey, CellTotals};
use crate::counter::total::{CellTotal, Sum, Value};

/// What a datacenter's cells had counted, by shard.
pub type Cells = Vec<(u8, CellTotals)>;

/// What operations have made of a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// How many there were, and moves of the home.
    number: u64,
    /// When the last one was, unix milliseconds.
    at_ms: i64,
    /// What the value was set to.
    base: Value,
    /// What each cell had counted when it was set: (added, removed).
    baselines: BTreeMap<CellKey, (CellTotal, CellTotal)>,
    /// Datacenters that have not reported since.
    unreconciled: Vec<Datacenter>,
}

/// What an unreconciled datacenter reports once it can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconciliationReport {
    /// What its cells have counted.
    pub cells: Cells,
    /// Its newest write, unix milliseconds.
    pub last_write_ms: i64,
    /// What it has counted since the second of the operation, by its own buckets.
    pub since: u128,
}

impl Operations {
    /// What is left of operations where the root's row was lost: their number, and what they made of the value of
    /// the one datacenter that knows.
    pub fn adopt(number: u64, base: Value) -> Self {
        Self {
            number,
            base,
            ..Self::default()
        }
    }

    /// How many there were, and moves of the home. They are numbered from 1 within a generation.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When the last one was, unix milliseconds; 0 where there was none.
    pub fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// What the value was last set to; 0 by a reset, and where there was none. What unreconciled datacenters
    /// turned out to have counted after it is in it.
    pub fn base(&self) -> Value {
        self.base
    }

    /// Whether the value is more than what cells have counted. A root that was put back from its leads knows of no
    /// time.
    pub fn has_base(&self) -> bool {
        self.at_ms > 0 || self.base.size() != 0
    }

    /// Datacenters that the last operation could not observe yet.
    pub fn unreconciled(&self) -> &[Datacenter] {
        &self.unreconciled
    }

    /// Whether what a datacenter holds is part of the value.
    pub fn is_reconciled(&self, datacenter: &Datacenter) -> bool {
        !self.unreconciled.contains(datacenter)
    }

    /// Sets the value. `seen` holds what every datacenter had counted; `None` for one that did not answer with
    /// all its cells.
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

    /// Records that other cells decide from now on, which changes no value: what was seen of one of them says nothing
    /// of what others have counted meanwhile.
    pub fn record_move(&mut self) {
        self.number += 1;
    }

    /// Reconciles a datacenter. Returns whether it was unreconciled.
    ///
    /// What it counted since the operation is kept, by whole seconds (by minutes, where its buckets are no finer
    /// any more) and by its own clock, in favour of what was acknowledged after the operation. Decrements
    /// carry no times, so all of them count as before it.
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

    /// What cells of a datacenter have counted beyond their baselines; nothing while it is unreconciled. A
    /// cell that is not among them adds and takes away nothing, and so does one that is known as it was before its
    /// baseline.
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

    /// What the last operation observed that a cell had counted: (added, removed); nothing where it observed none of
    /// it.
    pub fn baseline(&self, datacenter: &Datacenter, shard: u8) -> (CellTotal, CellTotal) {
        // Most counters were never set: they pay for no key.
        if self.baselines.is_empty() {
            return Default::default();
        }
        let known = self.baselines.get(&(datacenter.clone(), shard));
        known.copied().unwrap_or_default()
    }

    /// What the last operation observed that all cells of a datacenter had counted: (added, removed).
    pub fn observed(&self, datacenter: &Datacenter) -> (Sum, Sum) {
        let of_it = self.baselines.iter();
        let of_it = of_it.filter(|((other, _), _)| other == datacenter);
        of_it.fold((Sum::ZERO, Sum::ZERO), |(added, removed), (_, seen)| {
            (added.plus(seen.0.into()), removed.plus(seen.1.into()))
        })
    }

    /// The value without the totals of one datacenter's cells, if no other's counted: what it was set to, less that
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
