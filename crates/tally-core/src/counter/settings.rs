//! The settings of a counter, and when they end it.

use serde::{Deserialize, Serialize};

use super::total::Value;
use crate::sketch::HashId;

/// The most shards of one datacenter. 64 objects of about 1,000 requests/s each.
pub const SHARDS_MAX: u8 = 64;

/// The longest time to live: 10 years in seconds.
pub const TTL_SECONDS_MAX: u64 = 10 * 366 * 86_400;

/// The moment from which a time to live runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TtlMode {
    /// From the moment that the setting was put.
    #[default]
    Fixed,
    /// From the last write, or from the setting if that is later.
    Sliding,
}

/// A time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ttl {
    /// 1 to [`TTL_SECONDS_MAX`].
    pub seconds: u64,
    /// The moment from which it runs.
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

/// A time to live as a caller says it: its seconds, 1 to [`TTL_SECONDS_MAX`], and the moment from which it runs.
pub type TtlTerms = (u64, TtlMode);

/// The hash function of a counter's unique elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UniqueHash {
    /// The deployment's hash, with a secret key.
    #[default]
    Keyed,
    /// Redis's hash, which is public, with Redis's estimates.
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
#[serde(rename = "Settings+")]
pub struct Settings {
    /// The number of `PUT`s so far; of two settings the higher number wins.
    pub number: u64,
    /// Shards of a datacenter: a power of two, 1 to [`SHARDS_MAX`]; `None` leaves it to Tally.
    pub shards: Option<u8>,
    /// When the counter ends by itself; `None` for never.
    pub ttl: Option<Ttl>,
    /// The value that no decrement may go below; `None` for no bound.
    pub floor: Option<Value>,
    /// The hash function of its unique elements.
    pub unique_hash: UniqueHash,
    /// For how many seconds its buckets of one second are kept; `None` for the deployment's default.
    #[serde(default)]
    pub seconds_kept: Option<u32>,
}

impl Settings {
    /// The settings of a counter that a write creates now.
    pub fn of_new(ttl: Option<TtlTerms>, now_ms: i64) -> Self {
        Self {
            number: u64::from(ttl.is_some()),
            ttl: ttl.map(|(seconds, mode)| Ttl {
                seconds,
                mode,
                set_at_ms: now_ms,
            }),
            ..Self::default()
        }
    }

    /// The number of shards that a datacenter spreads its writes over.
    pub fn shards(&self) -> u8 {
        self.shards.unwrap_or(1)
    }
}
