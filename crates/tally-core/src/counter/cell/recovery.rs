//! A cell whose hot row was lost, made again from what others remember of it.
//!
//! Invariant: it never says less than what is remembered, and claims nothing of times that it lost.

use super::FlushRow;
use crate::counter::grant::Grant;
use crate::counter::history::HotHistory;
use crate::counter::merge::{CellFacts, CellTotals};

/// How far the sequence is moved on: whoever has seen a newer state of the cell than the one that is remembered takes
/// the next as newer still. No cell counts so many flushes in the 60 s between two pushes.
pub const SEQUENCE_GAP: u64 = 1 << 32;

/// What is remembered of a cell.
#[derive(Clone, Copy, Debug)]
pub struct CellRecovery {
    /// Under what it counts.
    pub grant: Grant,
    /// What it had counted; zeros where nobody knows.
    pub totals: CellTotals,
    /// What it had reported beyond its totals.
    pub facts: CellFacts,
    /// The most shards that its datacenter is known to have had.
    pub shards: u8,
}

impl FlushRow {
    /// The hot row. A shard is sealed: it asks its lead before it counts. `begins` is when the first bucket of
    /// minutes, hours and days begins that is left, `open_hour` the first hour of which minutes of unique elements
    /// are left, all unix seconds.
    pub fn remembered(
        of: &CellRecovery,
        is_lead: bool,
        begins: [Option<i64>; 3],
        open_hour: Option<i64>,
        now: i64,
    ) -> Self {
        let totals = of.totals;
        Self {
            grant: Some(of.grant),
            sequence: totals.sequence.saturating_add(SEQUENCE_GAP),
            added: totals.added,
            removed: totals.removed,
            facts: of.facts,
            shards_ever: of.shards.max(of.grant.settings.shards()),
            spread: of.grant.spread,
            is_sealed: !is_lead,
            nonces: Default::default(),
            history: HotHistory::remembered(begins, now),
            open_uniques: None,
            open_hour,
            seconds_from: None,
        }
    }
}
