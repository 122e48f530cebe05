//! A view: the known state of a counter outside of its cells, at its root and at its readers.
//!
//! Invariant: a [`View`] is a state-based CRDT, the product of four. The newest generation replaces older ones. Cells
//! merge by (generation, sequence), the report of a datacenter by its progress, and unique elements by union. So
//! merging is commutative, associative and idempotent, and messages may be lost, repeated and reordered.
//!
//! Unique elements are kept once for a counter, not for each datacenter. Readers get the union, and an element has the
//! same class in each datacenter, so a union of unions loses nothing. That is 12 KB at rest for each class of up to 31,
//! instead of that for each of up to 1,024 datacenters. In return the root does not know how many of the elements an
//! unreachable datacenter has seen.
//!
//! Bounds: cells are at most 1,024 datacenters × 64 shards, about 30 bytes each at rest: 2 MB. A counter of 100
//! datacenters and one shard in each takes 3 KB. Those of unique elements are in `sketch::uniques`. Cells beyond the
//! bounds are not merged; the root lets no more datacenters count than that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::root::DATACENTERS_MAX;
use crate::counter::id::Datacenter;
use crate::counter::merge::{CellFacts, CellKey, CellTotals, Vector};
use crate::counter::settings::SHARDS_MAX;
use crate::counter::total::Value;
use crate::sketch::Uniques;

/// The time and progress of a datacenter's known state.
///
/// The greater of two is newer: first by progress, which no clock can disturb, then by time. So after a lead's clock
/// ran ahead, its report counts again with its next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReportOrder {
    /// The number of flushes that all its cells had counted.
    pub progress: u64,
    /// The moment of that state, unix milliseconds by the lead's clock.
    pub as_of_ms: i64,
    /// What its cells report beyond their totals.
    pub facts: CellFacts,
}

/// The known state of a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    generation: u64,
    cells: Vector,
    reports: BTreeMap<Datacenter, ReportOrder>,
    uniques: Uniques,
}

/// A view at rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewAtRest {
    generation: u64,
    cells: Vector,
    reports: BTreeMap<Datacenter, ReportOrder>,
    uniques: Uniques,
}

/// A lead's state of its own datacenter.
#[derive(Clone, Debug)]
pub struct DatacenterState<'a> {
    /// The generation its cells count for.
    pub generation: u64,
    /// The datacenter.
    pub datacenter: &'a Datacenter,
    /// Its cells.
    pub cells: &'a [(u8, CellTotals)],
    /// The moment of that state, unix milliseconds.
    pub as_of_ms: i64,
    /// What its cells report beyond their totals.
    pub facts: CellFacts,
    /// Its unique elements of all time.
    pub uniques: Uniques,
}

impl View {
    /// An empty view of this generation.
    pub fn new(generation: u64) -> Self {
        Self {
            generation,
            ..Self::default()
        }
    }

    /// The view of a lead. Cells of other generations than its own are omitted.
    pub fn of(state: DatacenterState) -> Self {
        let mut view = Self::new(state.generation);
        for &(shard, totals) in state.cells {
            view.merge_cell((state.datacenter.clone(), shard), totals);
        }
        let progress = view.progress_of(state.datacenter);
        let report = ReportOrder {
            progress,
            as_of_ms: state.as_of_ms,
            facts: state.facts,
        };
        view.merge_report(state.datacenter, report);
        view.uniques = state.uniques;
        view
    }

    /// The number of flushes that the known cells of a datacenter have counted.
    fn progress_of(&self, datacenter: &Datacenter) -> u64 {
        let cells = self.cells.cells_of(datacenter);
        cells.iter().fold(0, |sum: u64, (_, totals)| {
            sum.saturating_add(totals.sequence)
        })
    }

    /// Its generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The last known totals of every cell.
    pub fn cells(&self) -> &Vector {
        &self.cells
    }

    /// The datacenters that have reported, in order of their names.
    pub fn datacenters(&self) -> impl Iterator<Item = (&Datacenter, &ReportOrder)> {
        self.reports.iter()
    }

    /// The report of a datacenter, if there is one.
    pub fn report_of(&self, datacenter: &Datacenter) -> Option<ReportOrder> {
        self.reports.get(datacenter).copied()
    }

    /// The unique elements of all time of all datacenters.
    pub fn uniques(&self) -> &Uniques {
        &self.uniques
    }

    /// The sum of all cells, without operations.
    pub fn value(&self) -> Value {
        self.cells.value()
    }

    /// The moment up to which all counts are known, unix milliseconds: that of the oldest report; `None` without
    /// reports.
    pub fn as_of_ms(&self) -> Option<i64> {
        self.reports.values().map(|report| report.as_of_ms).min()
    }

    /// Begins a newer generation with an empty view. True if it was newer.
    pub(super) fn begin(&mut self, generation: u64) -> bool {
        let is_newer = generation > self.generation;
        if is_newer {
            *self = Self::new(generation);
        }
        is_newer
    }

    /// Merges the totals of a cell. True if they were new.
    pub(super) fn merge_cell(&mut self, cell: CellKey, totals: CellTotals) -> bool {
        totals.generation == self.generation
            && cell.1 < SHARDS_MAX
            && self.has_room_for(&cell.0)
            && self.cells.merge_cell(cell, totals)
    }

    /// Merges the report of a datacenter. True if it was new.
    pub(super) fn merge_report(&mut self, datacenter: &Datacenter, report: ReportOrder) -> bool {
        if !self.has_room_for(datacenter) {
            return false;
        }
        match self.reports.get_mut(datacenter) {
            Some(known) if *known >= report => false,
            Some(known) => {
                *known = report;
                true
            }
            None => {
                self.reports.insert(datacenter.clone(), report);
                true
            }
        }
    }

    /// The unique elements, to add to.
    pub(super) fn uniques_mut(&mut self) -> &mut Uniques {
        &mut self.uniques
    }

    fn has_room_for(&self, datacenter: &Datacenter) -> bool {
        self.reports.len() < DATACENTERS_MAX || self.reports.contains_key(datacenter)
    }

    /// Merges another view.
    pub fn merge(&mut self, other: &View) {
        self.begin(other.generation);
        if other.generation < self.generation {
            return;
        }
        for (datacenter, report) in &other.reports {
            self.merge_report(datacenter, *report);
        }
        for (cell, totals) in other.cells.iter() {
            self.merge_cell(cell.clone(), *totals);
        }
        self.uniques.merge(&other.uniques);
    }

    /// The view at rest.
    pub fn at_rest(&self) -> ViewAtRest {
        ViewAtRest {
            generation: self.generation,
            cells: self.cells.clone(),
            reports: self.reports.clone(),
            uniques: self.uniques.clone(),
        }
    }

    /// Restores a view at rest.
    pub fn from_rest(stored: ViewAtRest) -> Self {
        Self {
            generation: stored.generation,
            cells: stored.cells,
            reports: stored.reports,
            uniques: stored.uniques,
        }
    }
}
