//! Merges the states of many cells into one answer.
//!
//! A [`Vector`] is a state-based CRDT: per cell the higher (generation, sequence) wins. So merging is commutative,
//! associative and idempotent, and lost, repeated and reordered messages are harmless. A [`Part`] adds up disjoint
//! cells and is not idempotent: each read makes a new one. Source: Shapiro et al. 2011, "A comprehensive study of
//! convergent and commutative replicated data types", PN-Counter.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::breakdown::join_breakdowns;
use super::dimensions::DimensionName;
use super::history::{Count, Resolution};
use super::id::Datacenter;
use super::samples::{SamplesAtRest, join_series};
use super::total::{CellTotal, Sum, Value};
use crate::sketch::Uniques;

mod facts;

pub use facts::CellFacts;

/// The totals of one cell at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellTotals {
    /// The counter's generation.
    pub generation: u64,
    /// Flushes that the cell had counted.
    pub sequence: u64,
    /// Sum of increments.
    pub added: CellTotal,
    /// Sum of decrements.
    pub removed: CellTotal,
}

/// A cell of a counter: its datacenter and shard.
pub type CellKey = (Datacenter, u8);

/// The last known totals of every cell of a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vector {
    cells: BTreeMap<CellKey, CellTotals>,
}

impl Vector {
    /// Merges the totals of a cell, unless newer ones are known. True if they were new.
    pub fn merge_cell(&mut self, cell: CellKey, totals: CellTotals) -> bool {
        let rank = |totals: &CellTotals| (totals.generation, totals.sequence);
        match self.cells.get_mut(&cell) {
            Some(known) if rank(known) >= rank(&totals) => false,
            Some(known) => {
                *known = totals;
                true
            }
            None => {
                self.cells.insert(cell, totals);
                true
            }
        }
    }

    /// How many cells are known.
    pub fn known(&self) -> usize {
        self.cells.len()
    }

    /// Merges another vector: for each cell the newer totals win.
    pub fn merge(&mut self, other: &Vector) {
        for (cell, totals) in &other.cells {
            self.merge_cell(cell.clone(), *totals);
        }
    }

    /// The counter's value in its newest generation. Older generations do not count.
    pub fn value(&self) -> Value {
        let newest = self.cells.values().map(|totals| totals.generation).max();
        let living = self
            .cells
            .values()
            .filter(|totals| Some(totals.generation) == newest);
        living.fold(Value::default(), |sum, totals| {
            sum.plus(Value::new(totals.added, totals.removed))
        })
    }

    /// The last known totals of a cell.
    pub fn get(&self, cell: &CellKey) -> Option<&CellTotals> {
        self.cells.get(cell)
    }

    /// The cells of a datacenter, by shard.
    pub fn cells_of(&self, datacenter: &Datacenter) -> Vec<(u8, CellTotals)> {
        let all = (datacenter.clone(), u8::MIN)..=(datacenter.clone(), u8::MAX);
        let cells = self.cells.range(all);
        cells
            .map(|((_, shard), totals)| (*shard, *totals))
            .collect()
    }

    /// The cells and their totals, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&CellKey, &CellTotals)> {
        self.cells.iter()
    }
}

/// A range of history in buckets: unix seconds, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Width of the buckets.
    pub step: Resolution,
    /// Start of the first bucket.
    pub from: i64,
    /// Start of the last bucket.
    pub to: i64,
}

/// The question of a reader to the cells of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Question+")]
pub struct Question {
    /// The generation that the root holds. A cell of an older one has missed its end, and drops it.
    pub generation: u64,
    /// Count these seconds: (first, last).
    pub window: Option<(i64, i64)>,
    /// Join the unique elements of these seconds: (first, last), widened as by
    /// [`super::uniques_retention::widened_window`].
    pub uniques: Option<(i64, i64)>,
    /// Name these buckets.
    pub history: Option<Range>,
    /// Omits the sketches: a reader that wants totals alone saves up to 12 KB a cell.
    pub totals_only: bool,
    /// Asks for the distribution of the samples of these seconds: (first, last).
    pub samples: Option<(i64, i64)>,
    /// Asks for the counts of this dimension's values, in the window or else of all time.
    pub breakdown: Option<DimensionName>,
    /// Asks for what each cell stores.
    #[serde(default)]
    pub storage: bool,
    /// The samples by steps of this width instead of all together.
    #[serde(default)]
    pub step: Option<Resolution>,
}

impl Question {
    /// The question for totals and unique elements of all time.
    pub fn plain(generation: u64) -> Self {
        Self {
            generation,
            window: None,
            uniques: None,
            history: None,
            totals_only: false,
            samples: None,
            breakdown: None,
            storage: false,
            step: None,
        }
    }

    /// Whether it is about times, so that the kept part of a sealed shard does not answer it.
    pub fn is_about_times(&self) -> bool {
        self.window.is_some()
            || self.history.is_some()
            || self.samples.is_some()
            || self.breakdown.is_some()
            || self.storage
    }
}

/// The share of an answer that some cells give: one cell, the cells of a datacenter, or all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Part+")]
pub struct Part {
    /// The totals of each of them, by shard. A cell that answers alone does not know its shard: 0.
    pub cells: Vec<(u8, CellTotals)>,
    /// Over how many shards writes are spread; 0 from a single cell.
    pub shards: u8,
    /// Shards that did not answer; the part has their last known totals, or none.
    pub missing: Vec<u8>,
    /// Its source and time.
    pub origin: Origin,
    /// What the cells report beyond their totals.
    pub facts: CellFacts,
    /// Unique elements of all time.
    pub uniques: Uniques,
    /// Unique elements of the window.
    pub window_uniques: Uniques,
    /// The window's count.
    pub window: Count,
    /// Non-empty buckets: the unix second at which each begins, and its count.
    pub points: BTreeMap<i64, u128>,
    /// The unix second from which those buckets are complete; `None` if none were removed.
    pub kept_from: Option<i64>,
    /// The samples that were asked for, by the beginnings of their steps, unix seconds, or all of them as of 0.
    pub samples: SamplesAtRest,
    /// The breakdown that was asked for, at rest; empty for nothing.
    pub breakdown: Vec<u8>,
    /// The other shards as the lead saw them, in order, if the question explains; otherwise empty.
    pub trace: Vec<ShardReadTrace>,
    /// What each cell stores, at rest, by shard, if the question is about that; otherwise empty.
    #[serde(default)]
    pub storage: Vec<(i64, Vec<u8>)>,
}

/// The source and time of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Its cells were asked during this read.
    #[default]
    Queried,
    /// Its lead pushed it at this time, unix milliseconds, and continues to push changes.
    Pushed(i64),
    /// It does not answer. The part was last known at this time, unix milliseconds.
    Known(i64),
}

/// A shard, as its lead saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardReadTrace {
    /// The shard.
    pub shard: u8,
    /// How long it took, milliseconds; `None` where the lead stores its part and did not ask.
    pub latency_ms: Option<u64>,
    /// Whether writes no longer spread to it.
    pub is_sealed: bool,
}

impl Default for Part {
    fn default() -> Self {
        Self {
            cells: Vec::new(),
            shards: 0,
            missing: Vec::new(),
            origin: Origin::Queried,
            facts: CellFacts::default(),
            uniques: Uniques::new(),
            window_uniques: Uniques::new(),
            window: Count::default(),
            points: BTreeMap::new(),
            kept_from: None,
            samples: Vec::new(),
            breakdown: Vec::new(),
            trace: Vec::new(),
            storage: Vec::new(),
        }
    }
}

impl Part {
    /// Adds the part of other cells, none of which is in this one. Whence this part comes stays as it is.
    pub fn add(&mut self, other: Part) {
        self.cells.extend(other.cells);
        self.facts = self.facts.join(other.facts);
        join(&mut self.uniques, other.uniques);
        join(&mut self.window_uniques, other.window_uniques);
        self.window = self.window.plus(other.window);
        for (start, count) in other.points {
            let held = self.points.entry(start).or_insert(0);
            *held = held.saturating_add(count);
        }
        self.kept_from = self.kept_from.max(other.kept_from);
        join_series(&mut self.samples, other.samples);
        join_breakdowns(&mut self.breakdown, other.breakdown);
        self.storage.extend(other.storage);
    }

    /// The part of a cell, which is this shard.
    #[must_use]
    pub fn of_shard(mut self, own: u8) -> Self {
        for (shard, _) in &mut self.cells {
            *shard = own;
        }
        for (shard, _) in &mut self.storage {
            *shard = i64::from(own);
        }
        self
    }

    /// The sum of increments.
    pub fn added(&self) -> Sum {
        self.cells
            .iter()
            .map(|(_, cell)| Sum::from(cell.added))
            .sum()
    }

    /// The value of the cells.
    pub fn value(&self) -> Value {
        let cells = self.cells.iter();
        cells.fold(Value::default(), |sum, (_, cell)| {
            sum.plus(Value::new(cell.added, cell.removed))
        })
    }

    /// Whether the datacenter itself says that this is all it has: it was asked, or has just pushed.
    pub fn is_current(&self) -> bool {
        self.missing.is_empty() && !matches!(self.origin, Origin::Known(_))
    }

    /// Its approximate size in memory, without its cells.
    pub fn bytes(&self) -> usize {
        self.uniques.rest_bytes()
            + self.window_uniques.rest_bytes()
            + self
                .samples
                .iter()
                .map(|(_, bytes)| bytes.len() + 32)
                .sum::<usize>()
            + self.breakdown.len()
            + 24 * self.points.len()
    }
}

/// Merges unique elements, without a copy if there were none.
pub fn join(into: &mut Uniques, other: Uniques) {
    if into.is_empty() {
        *into = other;
    } else {
        into.merge(&other);
    }
}
