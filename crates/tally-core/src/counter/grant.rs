//! Permission to count: generations begin with it.

use serde::{Deserialize, Serialize};

use super::settings::Settings;
use super::total::Value;

/// How long after a grant a cell does not check by its own clock whether the counter has lapsed, milliseconds.
pub const GRANT_TRUSTED_MS: u64 = 1_000;

/// Permission to count, given by the root and handed on by the lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Grant+")]
pub struct Grant {
    /// The counter's generation.
    pub generation: u64,
    /// The counter's settings.
    pub settings: Settings,
    /// The newest write of any datacenter that the granter knows of, unix milliseconds. It extends a sliding time to
    /// live while this cell has no writes.
    pub last_write_ms: i64,
    /// Rises with each change of the root's grants: the grant with the higher revision holds.
    pub revision: u64,
    /// Whether no other datacenter counts and no event is queued. Then this datacenter's totals and `rest` are the
    /// counter's value.
    pub alone: bool,
    /// Whether all writes of the counter are forwarded to this datacenter, so that it may decide by the value.
    pub is_home: bool,
    /// The value without this datacenter's totals, if it is alone or home: the base, less this datacenter's baselines,
    /// and the held totals of others.
    pub rest: Value,
    /// The number of operations, including moves of the home, that `rest` includes.
    pub operations: u64,
    /// The number of shards that writes of the datacenter spread over, by the lead; 0 from the root, because the lead
    /// chooses it unless a setting fixes it.
    pub spread: u8,
}

/// The effect of a grant on a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantOutcome {
    /// The cell was unborn and counts now.
    Born,
    /// The cell continues to count, with newer settings if there are any.
    Renewed,
    /// The cell counts for a newer generation; the rows of the old one must be deleted.
    Replaced,
    /// None: that generation is over. The cell must ask again.
    Outdated,
}

/// The answer of a lead to a shard that may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardGrant {
    /// The shard's grant.
    pub grant: Grant,
    /// Whether the lead kept it as sealed until now.
    pub was_sealed: bool,
    /// Whether the lead did not know the shard before.
    pub is_new: bool,
}
