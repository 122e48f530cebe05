//! What a counter's owner may set, and when that ends the counter.

use serde::{Deserialize, Serialize};

use super::total::Value;
use crate::sketch::HashId;

/// The most shards of one datacenter. 64 objects of about 1,000 requests/s each.
pub const SHARDS_MAX: u8 = 64;

/// The longest time to live: 10 years in seconds.
pub const TTL_SECONDS_MAX: u64 = 10 * 366 * 86_400;

/// From when a time to live runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TtlMode {
    /// From the moment that the setting was put.
    #[default]
    Fixed,
    /// From the last write, or from the setting where that is later.
    Sliding,
}

/// A time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ttl {
    /// 1 to [`TTL_SECONDS_MAX`].
    pub seconds: u64,
    /// From when it runs.
    pub mode: TtlMode,
    /// When it was set, unix milliseconds.
    pub set_at_ms: i64,
}

impl Ttl {
    /// When the counter ends, unix milliseconds, if its last write was at `last_write_ms`.
    pub fn expires_at_ms(&self, last_write_ms: i64) -> i64 {
        let from = match self.mode {
            TtlMode::Fixed => self.set_at_ms,
            TtlMode::Sliding => self.set_at_ms.max(last_write_ms),
        };
        from.saturating_add(self.length_ms())
    }

    /// The time to live in milliseconds.
    pub fn length_ms(&self) -> i64 {
        i64::try_from(self.seconds.saturating_mul(1_000)).unwrap_or(i64::MAX)
    }
}

/// The hash that a counter's unique elements go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UniqueHash {
    /// The deployment's, which has a secret key.
    #[default]
    Keyed,
    /// That of Redis, which all know, and which estimates as Redis does.
    Redis,
}

impl UniqueHash {
    /// Whether elements of this hash may be counted.
    pub fn takes(self, hash: HashId) -> bool {
        (hash == HashId::REDIS) == (self == Self::Redis)
    }
}

/// A counter's settings; each `PUT` replaces all of them and has a higher number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How often settings were put; the higher number wins wherever two meet.
    pub number: u64,
    /// Shards of a datacenter: a power of two, 1 to [`SHARDS_MAX`]; `None` leaves it to Tally.
    pub shards: Option<u8>,
    /// When the counter ends by itself; `None` for never.
    pub ttl: Option<Ttl>,
    /// What no decrement may take the value below; `None` for no such bound.
    pub floor: Option<Value>,
    /// The hash of its unique elements.
    pub unique_hash: UniqueHash,
}

impl Settings {
    /// Shards that a datacenter spreads its writes over.
    pub fn shards(&self) -> u8 {
        self.shards.unwrap_or(1)
    }
}
