//! Which flushes a cell has seen, so that a repeated one changes nothing.
//!
//! Invariant: for every lane that flushed within [`NONCE_KEPT_MS`], the newest number and its answer are known, also
//! after clock steps. A lane has one flush in flight, so an older number can only be a stray copy.

use serde::{Deserialize, Serialize};

use super::total::CellTotal;

/// How long a lane's newest flush is remembered, milliseconds. A lane gives up within 5 s. A minute covers messages
/// that the network delays.
pub const NONCE_KEPT_MS: i64 = 60_000;

/// The most that a time without flushes adds to the age of entries, milliseconds. So a clock that steps forward does
/// not make a cell forget flushes that its lanes may still send again. Lanes that fall silent together with their cell
/// are remembered for longer. If the clock steps back by more, the times of all entries are moved back too: otherwise
/// an entry of now would be old at once when the clock steps forward again.
const GAP_MS_MAX: i64 = 5_000;

/// The most lanes a cell remembers: about 30 bytes each, 120 KB in the hot row.
pub const LANES_MAX: usize = 4_096;

/// The id of one flush: the lane, drawn at random, and the number in the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Nonce {
    /// The lane; random 64 bits.
    pub lane: u64,
    /// Rises with every flush of the lane; a retry keeps it.
    pub number: u64,
}

/// The effect of a flush: the cell's state right after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushEffect {
    /// The cell's sequence after the flush.
    pub sequence: u64,
    /// The cell's added total after the flush.
    pub added: CellTotal,
    /// The cell's removed total after the flush.
    pub removed: CellTotal,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LaneRecord {
    nonce: Nonce,
    at_ms: i64,
    outcome: FlushEffect,
}

/// The newest flush of each recent lane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nonces {
    lanes: Vec<LaneRecord>,
}

/// What is known of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushRecord {
    /// Never seen: count it.
    New,
    /// Counted before, with this outcome.
    Repeated(FlushEffect),
    /// A late copy of a flush that its lane has long finished.
    Stray,
    /// There is no room for another lane, so the flush must not be counted: a repeat would count again.
    Full,
}

impl Nonces {
    /// Looks up whether a flush was seen. Cost: O(lanes of the last minute).
    pub fn look_up(&self, nonce: Nonce, now_ms: i64) -> FlushRecord {
        match self.lanes.iter().find(|seen| seen.nonce.lane == nonce.lane) {
            Some(seen) if seen.nonce.number == nonce.number => FlushRecord::Repeated(seen.outcome),
            Some(seen) if seen.nonce.number > nonce.number => FlushRecord::Stray,
            Some(_) => FlushRecord::New,
            None if self.lanes.len() < LANES_MAX => FlushRecord::New,
            None if self.lanes.iter().any(|seen| is_over(seen, now_ms)) => FlushRecord::New,
            None => FlushRecord::Full,
        }
    }

    /// The number of remembered lanes.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The number of lanes that flushed within the last second. Cost: O(lanes of the last minute).
    pub fn lanes_within_second(&self, now_ms: i64) -> u32 {
        let recent = self.lanes.iter();
        let recent = recent.filter(|seen| now_ms.saturating_sub(seen.at_ms) < 1_000);
        u32::try_from(recent.count()).unwrap_or(u32::MAX)
    }

    /// Whether a flush, or a later one of its lane, was counted.
    pub fn has_seen(&self, nonce: Nonce) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.any(|seen| seen.nonce.lane == nonce.lane && seen.nonce.number >= nonce.number)
    }

    /// Merges newer flushes of another memory; keeps the newest [`LANES_MAX`] lanes. Cost: O(lanes of the one × lanes
    /// of the other).
    pub fn with_newer(mut self, newer: Self) -> Self {
        let is_known = |seen: &LaneRecord| {
            newer
                .lanes
                .iter()
                .any(|new| new.nonce.lane == seen.nonce.lane)
        };
        self.lanes.retain(|seen| !is_known(seen));
        self.lanes.extend(newer.lanes);
        let excess = self.lanes.len().saturating_sub(LANES_MAX);
        self.lanes.drain(..excess);
        self
    }

    /// Remembers a flush that was just counted, and forgets lanes that fell silent.
    pub fn remember(&mut self, nonce: Nonce, outcome: FlushEffect, now_ms: i64) {
        let newest_ms = self.lanes.iter().map(|seen| seen.at_ms).max();
        let gap_ms = newest_ms.map_or(0, |newest_ms| now_ms.saturating_sub(newest_ms));
        let stepped_ms = if gap_ms < -GAP_MS_MAX {
            gap_ms
        } else {
            gap_ms.saturating_sub(GAP_MS_MAX).max(0)
        };
        if stepped_ms != 0 {
            for seen in &mut self.lanes {
                seen.at_ms = seen.at_ms.saturating_add(stepped_ms);
            }
        }
        self.lanes
            .retain(|seen| seen.nonce.lane != nonce.lane && !is_over(seen, now_ms));
        // It is full only of lanes that fell silent together with their cell: the oldest is removed.
        let excess = (self.lanes.len() + 1).saturating_sub(LANES_MAX);
        self.lanes.drain(..excess);
        self.lanes.push(LaneRecord {
            nonce,
            at_ms: now_ms,
            outcome,
        });
    }
}

/// After a small clock step back entries look younger, so they are kept longer, never shorter.
fn is_over(seen: &LaneRecord, now_ms: i64) -> bool {
    now_ms.saturating_sub(seen.at_ms) > NONCE_KEPT_MS
}
