//! Permission to count: generations begin with it.

use serde::{Deserialize, Serialize};

use super::settings::Settings;
use super::total::Value;

/// How long a granter's word outweighs a cell's own clock on whether the counter has lapsed.
pub const GRANT_TRUSTED_MS: u64 = 1_000;

/// Permission to count, given by the root and handed on by the lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The counter's generation.
    pub generation: u64,
    /// The counter's settings.
    pub settings: Settings,
    /// Newest write anywhere that the granter knows of, unix milliseconds: it carries a sliding
    /// time to live over quiet stretches of this cell.
    pub last_write_ms: i64,
    /// Rises with whatever the root changes of what it grants: what was granted later holds.
    pub revision: u64,
    /// Whether no other datacenter counts and nothing is queued, so that this one's totals and `rest` are
    /// the counter's value.
    pub alone: bool,
    /// Whether all writes of the counter are forwarded to this datacenter, so that it may decide by the value.
    pub is_home: bool,
    /// The value without this datacenter's totals, where it is alone or home: what a set made of it, and
    /// what others hold that count no more.
    pub rest: Value,
    /// Operations, moves of the home among them, that `rest` has seen.
    pub operations: u64,
    /// Shards that writes of the datacenter spread over, as the lead knows; 0 from the root, which
    /// leaves that to the lead where no setting fixes it.
    pub spread: u8,
}

/// What a grant did to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantOutcome {
    /// It was unborn and counts now.
    Born,
    /// It goes on counting, under newer settings if there are any.
    Renewed,
    /// It counts for a newer generation; the rows of the old one must go.
    Replaced,
    /// Nothing: that generation is over. Ask again.
    Outdated,
}

/// What a lead answers a shard that may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardGrant {
    /// The shard's grant.
    pub grant: Grant,
    /// Whether the lead kept it as sealed until now.
    pub was_sealed: bool,
    /// Whether the lead had not known of it.
    pub is_new: bool,
}
