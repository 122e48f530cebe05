//! The content of a flush, its changes, and the reasons to refuse it.

use serde::{Deserialize, Serialize};

use std::collections::{BTreeMap, BTreeSet};

use super::autoscale::shard_of_element;
use super::dimensions::DimensionLog;
use super::history::{DirtyPages, Resolution};
use super::ledger::{KeySource, NewRecord, WriteKey};
use super::numbered_writes::Numbers;
use super::samples::{Samples, add_samples};
use super::settings::{SHARDS_MAX, TtlTerms, UniqueHash};
use crate::sketch::{Class, HashId, Source, Token, TopValues, Uniques, redis_token_of};

/// How much newer than a flush its generation may be, milliseconds, if the lane has seen no generation: the write
/// itself may create the counter, by the root's clock. It is less than the time after which a first attempt is given
/// up. So if the counter is deleted after the second attempt was acknowledged, the generation that then begins is too
/// new for the first attempt, however long the network held it back.
const GENERATION_AHEAD_MS: i64 = 2_000;

/// Returns the newest generation that a flush may count in, if a lane that has seen no generation sends it at `now_ms`,
/// unix milliseconds. The number of a generation is at least the clock, in milliseconds, at its beginning.
pub fn newest_at(now_ms: i64) -> u64 {
    let newest = now_ms.saturating_add(GENERATION_AHEAD_MS);
    u64::try_from(newest).unwrap_or(0).max(1)
}

/// The parts of a unique element's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Element {
    /// Its shard if there were [`SHARDS_MAX`] of them. It gives the element's class for any number of shards, also if
    /// its sender chose another shard.
    pub lot: u8,
    /// The part that sketches use.
    pub token: Token,
}

impl Element {
    /// The element of a 64-bit hash.
    pub fn of(hash: u64) -> Self {
        Self::with_token(hash, Token::from_hash(hash))
    }

    /// The element of a hash by the hash function with this id.
    pub fn by(id: HashId, hash: u64) -> Self {
        match id {
            HashId::REDIS => Self::with_token(hash, redis_token_of(hash)),
            _ => Self::of(hash),
        }
    }

    fn with_token(hash: u64, token: Token) -> Self {
        let lot = shard_of_element(hash, SHARDS_MAX);
        Self { lot, token }
    }

    /// The source of its token, if elements are spread over this many shards. Elements by Redis's hash are estimated
    /// together, so they have no classes: those would only take room.
    pub fn source(self, hash: HashId, shards: u8) -> Source {
        if hash == HashId::REDIS {
            return Source::of_all(hash);
        }
        let class = Class::of_shard(self.lot % shards.max(1), shards);
        let class = class.unwrap_or(Class::ALL);
        Source { hash, class }
    }
}

/// The content of a flush.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Load+")]
pub struct Load {
    /// Sum of all increments.
    pub added: u128,
    /// Sum of all decrements.
    pub removed: u128,
    /// Increments stamped by the edge: (unix second, amount), clamped to the cell's clock.
    pub live: Vec<(i64, u128)>,
    /// Increments of the past, from logs: (unix second, amount), taken as they are.
    pub past: Vec<(i64, u128)>,
    /// Unique elements: (unix second of one of their increments, element), clamped to the cell's clock.
    pub tokens: Vec<(i64, Element)>,
    /// Elements of the past, from logs and of keyed writes: (unix second, element), taken as they are.
    pub past_tokens: Vec<(i64, Element)>,
    /// The hash function of all elements.
    pub hash: HashId,
    /// The number of its writes, as their lane counts them. It is used only to measure load.
    pub writes: u32,
    /// The newest generation that it may count in, by its lane; 0 for the living one.
    pub newest: u64,
    /// Samples by the unix second of their increments, clamped to the cell's clock.
    pub samples: Samples,
    /// Registers that were counted elsewhere at unknown times: they are added to all time, and to no window.
    pub imported: Uniques,
    /// The dimensions of its increments.
    pub dimensions: DimensionLog,
    /// The time to live of the counter, if this load creates it.
    pub ttl_if_new: Option<TtlTerms>,
}

impl Load {
    /// Whether it carries unique elements.
    pub fn has_tokens(&self) -> bool {
        !(self.tokens.is_empty() && self.past_tokens.is_empty() && self.imported.is_empty())
    }

    /// Adds another load to this one. Returns false, without any change, if a total would exceed 2^128 − 1, or if the
    /// two loads have elements by different hash functions, or different times to live.
    pub fn absorb(&mut self, other: &Load) -> bool {
        let added = self.added.checked_add(other.added);
        let removed = self.removed.checked_add(other.removed);
        let (Some(added), Some(removed)) = (added, removed) else {
            return false;
        };
        if self
            .ttl_if_new
            .is_some_and(|own| other.ttl_if_new.is_some_and(|new| own != new))
        {
            return false;
        }
        if other.has_tokens() {
            if self.has_tokens() && self.hash != other.hash {
                return false;
            }
            self.hash = other.hash;
        }
        self.added = added;
        self.removed = removed;
        self.ttl_if_new = self.ttl_if_new.or(other.ttl_if_new);
        for &(second, amount) in &other.live {
            match self.live.last_mut() {
                Some((last, held)) if *last == second => *held = held.saturating_add(amount),
                _ => self.live.push((second, amount)),
            }
        }
        self.past.extend_from_slice(&other.past);
        self.tokens.extend_from_slice(&other.tokens);
        self.past_tokens.extend_from_slice(&other.past_tokens);
        for (second, histogram) in &other.samples {
            add_samples(&mut self.samples, *second, histogram);
        }
        self.imported.merge(&other.imported);
        self.dimensions.append(&other.dimensions);
        true
    }
}

/// Why a cell does not count a flush. The cell has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A grant is needed first.
    NeedsGrant,
    /// The lane finished with this flush long ago; no request waits for the answer.
    Stray,
    /// Too many lanes flushed within the last minute.
    TooManyLanes,
    /// The counter has a floor, so decrements are decided one by one and not in a flush.
    HasFloor,
    /// The shard is sealed; writes of its datacenter spread over this many shards.
    Moved(u8),
    /// The newest generation that it may count in has ended. This generation lives, or the next one is at least this.
    Newer(u64),
    /// It has unique elements by another hash function than the counter's, which is this one.
    OtherHash(UniqueHash),
}

/// The rows that must be written in one commit so that a flush is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Whether the hot row changed.
    pub hot: bool,
    /// Pages of buckets that changed; a page that became empty is deleted.
    pub pages: DirtyPages,
    /// Seconds that have left memory, and their counts: the cell's object adds them to the rows of their hours.
    pub seconds: Vec<(i64, u128)>,
    /// The rows of seconds that begin before this second are deleted: `i64::MAX` for all of them.
    pub seconds_from: Option<i64>,
    /// Whether the unique elements of all time must be written.
    pub all_time: bool,
    /// Minutes whose unique elements changed: (unix second of the start, all of them at rest).
    pub minutes: Vec<(i64, Vec<u8>)>,
    /// Tokens of minutes, hours and days that are not in memory: the cell's object merges them into their rows.
    pub late_tokens: Vec<(Resolution, i64, Source, Token)>,
    /// Hours and days that are over. After all other rows are written, the cell's object joins the rows of each hour's
    /// minutes into one, and then those of each day's hours. By step and start, so hours come first.
    pub over: BTreeSet<(Resolution, i64)>,
    /// Records of keyed writes, one for each key. If there are any, the counts of their ledger are written too.
    pub records: Vec<NewRecord>,
    /// The source of the keys of these records.
    pub keys: KeySource,
    /// Lanes of numbered writes that changed.
    pub numbers: BTreeMap<WriteKey, Numbers>,
    /// Samples by the unix second of their minute's start: the cell's object merges them into those minutes' rows.
    pub samples: Samples,
    /// Histograms at rest of the samples of hours, by their first seconds: the cell's object merges them into those
    /// hours' rows.
    pub hour_samples: Vec<(i64, Vec<u8>)>,
    /// Counts of dimensions' values, of all time: the cell's object merges them into those dimensions' rows.
    pub breakdowns: Vec<(String, TopValues)>,
    /// The dimensions of increments, by the hour: the cell's object appends them to the pending row of the breakdowns.
    pub dimensions: DimensionLog,
}

impl Changes {
    /// Sets a minute's sketch, and replaces that of an earlier flush of the same commit.
    pub fn put_minute(&mut self, minute: i64, uniques: &Uniques) {
        self.minutes.retain(|(known, _)| *known != minute);
        self.minutes.push((minute, uniques.to_bytes()));
    }
}
