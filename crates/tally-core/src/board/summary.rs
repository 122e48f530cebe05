//! What is known of a shard elsewhere: how many members it has, and how many stand before some of them. So a rank is
//! known within what lies between two of these, without a call to the shard.
//!
//! Invariant: the number of members before a key lies within what [`BoardSummary::before`] says, at the moment when
//! this was made.

use serde::{Deserialize, Serialize};

use super::key::Key;

/// The most sample keys of a board's summary, all shards together: of 10,000,000 members 2,442 lie between two.
pub const SUMMARY_KEYS_MAX: usize = 4_096;

/// The first members of a board that are known elsewhere.
pub const SUMMARY_TOP: u32 = 1_000;

/// A summary of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardSummary {
    /// How many members are ranked.
    pub total: u64,
    /// Keys in order, with how many members have a lower one.
    pub keys: Vec<(Key, u64)>,
}

impl BoardSummary {
    /// At least and at most how many members have a lower key.
    pub fn before(&self, key: &Key) -> (u64, u64) {
        let behind = self.keys.partition_point(|(known, _)| known <= key);
        let low = self.keys.get(behind.wrapping_sub(1));
        let high = self.keys.get(behind);
        match low {
            Some((known, before)) if known == key => (*before, *before),
            _ => (
                low.map_or(0, |(_, before)| *before),
                high.map_or(self.total, |(_, before)| *before),
            ),
        }
    }

    /// The same from the end that a board is read from: at least and at most how many members stand before a place.
    /// `edge` is the key just behind the place if the highest score is the best, and the place's own key if the lowest
    /// is.
    pub fn better(&self, edge: &Key, is_desc: bool) -> (u64, u64) {
        let (low, high) = self.before(edge);
        if is_desc {
            (
                self.total.saturating_sub(high),
                self.total.saturating_sub(low),
            )
        } else {
            (low, high)
        }
    }
}
