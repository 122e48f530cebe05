//! The files of a run, and which runs are kept.
//!
//! Invariant: if a run is kept, its whole chain is kept: the runs before it, back to a full one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::date::date_of;
use tally_core::order::set_of;

/// The most runs of a chain, for any setting of full runs: a value is searched for in a file of each.
pub const CHAIN_MAX: usize = 32;

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOf {
    /// Its name.
    pub file: String,
    /// The name of its first counter.
    pub first: String,
    /// That of its last one.
    pub last: String,
    /// How many it has.
    pub entries: u64,
    /// Its length.
    pub bytes: u64,
}

/// A run, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOf {
    /// Its number in its partition; the next one's is higher.
    pub run: u64,
    /// The run since which it holds the changes; `None` for a full run.
    pub before: Option<u64>,
    /// The day on which it began, counted from 1970-01-01.
    pub day: i64,
    /// When it began, unix milliseconds.
    pub begun_ms: i64,
    /// When it had read the last counter, unix milliseconds.
    pub ended_ms: i64,
    /// How many living counters there were then.
    pub counters: u64,
    /// How many counters are in its files.
    pub entries: u64,
    /// The size of its files.
    pub bytes: u64,
}

/// The files of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The run.
    pub run: RunOf,
    /// Its files, in order of the names in them.
    pub parts: Vec<PartOf>,
}

impl Manifest {
    /// The file that would hold a counter.
    pub fn part_of(&self, id: &str) -> Option<&PartOf> {
        let index = self.parts.partition_point(|part| part.last.as_str() < id);
        let part = self.parts.get(index);
        part.filter(|part| part.first.as_str() <= id)
    }
}

/// The chain of a run, the oldest first. The oldest is a full run. `None` if a run of the chain is missing.
pub fn chain_of(runs: &BTreeMap<u64, RunOf>, run: u64) -> Option<Vec<u64>> {
    let mut chain = Vec::new();
    let mut next = Some(run);
    while let Some(run) = next {
        chain.push(run);
        let before = runs.get(&run)?.before;
        // Numbers must fall, so that this ends.
        if before.is_some_and(|before| before >= run) {
            return None;
        }
        next = before;
    }
    chain.reverse();
    Some(chain)
}

/// The runs to delete: those older than `keep_days`, with two exceptions. One is the first full run of each month, or
/// the first of all where none is full. The other is every run in the chain of a run that is kept.
pub fn thinned(runs: &BTreeMap<u64, RunOf>, today: i64, keep_days: i64) -> Vec<u64> {
    let mut kept = BTreeSet::new();
    let mut months = BTreeSet::new();
    let month_of =
        |run: &RunOf| -> String { date_of(run.day).chars().take("2026-11".len()).collect() };
    let full = runs.values().filter(|run| run.before.is_none());
    let with_full = set_of(full.map(month_of));
    for (number, run) in runs {
        let is_young = run.day > today.saturating_sub(keep_days);
        let month = month_of(run);
        let may_be_first = run.before.is_none() || !with_full.contains(&month);
        let is_first = may_be_first && months.insert(month);
        if is_young || is_first {
            kept.insert(*number);
            kept.extend(chain_of(runs, *number).into_iter().flatten());
        }
    }
    let gone = runs.keys().filter(|run| !kept.contains(run));
    gone.copied().collect()
}
