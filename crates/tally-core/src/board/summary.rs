//! A summary of a shard for other datacenters: the number of its members, and the number before some of them. So a rank
//! is known without a call to the shard, up to the distance of two such members.
//!
//! Invariant: at the moment when the summary was made, the number of members before a key is within the bounds of
//! [`BoardSummary::before`].

use serde::{Deserialize, Serialize};

use super::key::Key;

/// The most sample keys of a board's summary, all shards together: of 10,000,000 members 2,442 lie between two.
pub const SUMMARY_KEYS_MAX: usize = 4_096;

/// The number of a board's first members that a summary has.
pub const SUMMARY_TOP: u32 = 1_000;

/// A summary of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardSummary {
    /// How many members are ranked.
    pub total: u64,
    /// Keys in order, each with the number of members that have a lower one.
    pub keys: Vec<(Key, u64)>,
}

impl BoardSummary {
    /// The bounds of the number of members with a lower key.
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

    /// The bounds of the number of members before a place, in the order in which the board is read. `edge` is the key
    /// just after the place if the highest score is the best, and the place's own key if the lowest is.
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
