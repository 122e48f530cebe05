//! What a flush carries, what it changes, and why it may be refused.

use serde::{Deserialize, Serialize};

use std::collections::{BTreeMap, BTreeSet};

use super::autoscale::shard_of_element;
use super::dimensions::DimensionLog;
use super::history::{DirtyPages, Resolution};
use super::ledger::{KeySource, NewRecord, WriteKey};
use super::numbers::Numbers;
use super::samples::{Samples, add_samples};
use super::settings::{SHARDS_MAX, UniqueHash};
use crate::sketch::{Class, HashId, Source, Token, TopValues, Uniques, redis_token_of};

/// What the hash of a unique element says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Element {
    /// Its shard, were there [`SHARDS_MAX`] of them: it gives the element's class for any number of shards, whichever
    /// cell its sender took for its shard.
    pub lot: u8,
    /// What sketches see of it.
    pub token: Token,
}

impl Element {
    /// Returns what a 64-bit hash says of its element.
    pub fn of(hash: u64) -> Self {
        Self::with_token(hash, Token::from_hash(hash))
    }

    /// Returns what this hash, of that identity, says of its element.
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

    /// Returns the source of its token, where elements are spread over so many shards. Those of Redis's hash are
    /// estimated all together, so classes would only take room.
    pub fn source(self, hash: HashId, shards: u8) -> Source {
        if hash == HashId::REDIS {
            return Source::of_all(hash);
        }
        let class = Class::of_shard(self.lot % shards.max(1), shards);
        let class = class.unwrap_or(Class::ALL);
        Source { hash, class }
    }
}

/// What a flush carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The hash that all of them went through.
    pub hash: HashId,
    /// How many writes joined in it, as their lane counts them. It only shows how hot the cell is.
    pub writes: u32,
    /// The newest generation that it may count in, as its lane says; 0 for whichever lives.
    pub newest: u64,
    /// Samples by the unix second of their increments, clamped to the cell's clock.
    pub samples: Samples,
    /// Registers that were counted elsewhere, at times that nobody knows: they go to all time, and to no window.
    pub imported: Uniques,
    /// What increments say of themselves, by dimensions.
    pub dimensions: DimensionLog,
}

impl Load {
    /// Whether it carries unique elements.
    pub fn has_tokens(&self) -> bool {
        !(self.tokens.is_empty() && self.past_tokens.is_empty() && self.imported.is_empty())
    }

    /// Adds another load to this one; false and unchanged where a total would pass 2^128 − 1, or where elements of both
    /// went through different hashes.
    pub fn absorb(&mut self, other: &Load) -> bool {
        let added = self.added.checked_add(other.added);
        let removed = self.removed.checked_add(other.removed);
        let (Some(added), Some(removed)) = (added, removed) else {
            return false;
        };
        if other.has_tokens() {
            if self.has_tokens() && self.hash != other.hash {
                return false;
            }
            self.hash = other.hash;
        }
        self.added = added;
        self.removed = removed;
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

/// Why a cell does not count a flush. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A grant is needed first.
    NeedsGrant,
    /// The lane finished with this flush long ago; nobody waits for the answer.
    Stray,
    /// Too many lanes flushed within the last minute.
    TooManyLanes,
    /// The counter's value has a floor, so decrements are decided one by one and not in a flush.
    HasFloor,
    /// The shard is sealed; writes of its datacenter spread over this many shards.
    Moved(u8),
    /// The newest generation that it may count in has ended: this one lives, or at least this one would.
    Newer(u64),
    /// It carries unique elements that did not go through this hash, which is the counter's.
    OtherHash(UniqueHash),
}

/// What must be written together so that a flush is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Whether the hot row changed.
    pub hot: bool,
    /// Pages of buckets that changed; a page that became empty is deleted.
    pub pages: DirtyPages,
    /// Whether the unique elements of all time must be written.
    pub all_time: bool,
    /// Minutes whose unique elements changed: (unix second of the start, all of them at rest).
    pub minutes: Vec<(i64, Vec<u8>)>,
    /// Tokens of minutes, hours and days that are not in memory: the shell merges them into the rows of those.
    pub late_tokens: Vec<(Resolution, i64, Source, Token)>,
    /// Hours, and days, that are over: when all else is written, the shell joins the rows of each hour's minutes into
    /// one, and then those of each day's hours. By step and start, so hours come first.
    pub over: BTreeSet<(Resolution, i64)>,
    /// Records of keyed writes, one for each key. Where there are any, the counts of their ledger are written too.
    pub records: Vec<NewRecord>,
    /// Whose keys theirs are.
    pub keys: KeySource,
    /// Lanes of numbered writes that changed.
    pub numbers: BTreeMap<WriteKey, Numbers>,
    /// Samples by the unix second of their minute's start: the shell merges them into those minutes' rows.
    pub samples: Samples,
    /// Histograms at rest of the samples of hours, by their first seconds: the shell merges them into those hours'
    /// rows.
    pub hour_samples: Vec<(i64, Vec<u8>)>,
    /// What was counted of the values of dimensions, of all time: the shell merges it into those dimensions' rows.
    pub breakdowns: Vec<(String, TopValues)>,
    /// What increments say of themselves, by the hour: the shell appends it to the pending row of the breakdowns.
    pub dimensions: DimensionLog,
}

impl Changes {
    /// Puts a minute's sketch, in the place of what an earlier flush of the same commit put.
    pub fn put_minute(&mut self, minute: i64, uniques: &Uniques) {
        self.minutes.retain(|(known, _)| *known != minute);
        self.minutes.push((minute, uniques.to_bytes()));
    }
}
