//! Which keyed writes a cell has counted, so that a retry changes nothing and gets the first answer.
//!
//! Invariants: a key's increment and its record are written in one commit, so either both are there or neither. A
//! record is kept for the promised time and never deleted early: if the ledger is full, new keyed writes are refused.
//!
//! Records lie on disk, in *slots*. A slot is named by the time when it may be deleted, so a record is kept for the
//! time that was promised when it was made, whatever the setting is later. A slot is deleted as a whole. In memory a
//! cell has only the number of records in each slot.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::callers::account::AccountId;

use super::dimensions::DimensionLog;
use super::id::Datacenter;
use super::samples::Samples;
use super::settings::TtlTerms;
use super::total::{Sum, Value};

/// The most records of one cell: about 100 bytes each on disk, 200 MB of the 10 GB that an object may hold.
pub const RECORDS_MAX: u64 = 2_000_000;

/// How long records of drawn keys are kept, seconds. Only the call that drew a key sends it, for a few seconds. The
/// network may hold a copy back for 90 seconds. The cell may have moved to a place whose clock is two minutes ahead.
pub const DRAWN_KEPT_SECONDS: u64 = 240;

/// The sustained rate of writes with drawn keys that one cell decides, per second. Such writes depend on a floor or a
/// condition.
pub const DRAWN_PER_SECOND: u64 = 1_000;

/// The most records of drawn keys of one cell. They have a budget of their own, so that they take no room from clients'
/// keys. It is three times what that rate needs, because a clock that stepped back keeps them for longer.
pub const DRAWN_RECORDS_MAX: u64 = 1_000_000;

// A record is kept for up to a quarter longer.
const _: () = assert!(
    3 * DRAWN_PER_SECOND * (DRAWN_KEPT_SECONDS + DRAWN_KEPT_SECONDS / 4) <= DRAWN_RECORDS_MAX
);

/// Who may send a write again under its key. That decides what is kept of the write, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum KeySource {
    /// A client. A record is kept for as long as the deployment promises.
    #[default]
    Clients,
    /// The call that drew the key. A record is kept for [`DRAWN_KEPT_SECONDS`].
    Drawn,
    /// An inbox or a queue, until the write is decided. Its number is kept, see [`super::numbered_writes`].
    Numbered,
    /// A caller without an API key. A record is kept in a separate ledger, see [`super::ledgers`].
    Public,
}

/// Refusals are recorded only while the ledger has fewer records than its maximum divided by this. So writes that are
/// refused again and again, as decrements of what is sold out, leave room for a million writes that count.
pub const REFUSALS_PART: u64 = 2;

/// The number of slots in the time that records are kept. Few slots make a lookup cheap, and a slot is deleted at once.
/// So a record is kept for up to a quarter longer than promised.
const SLOTS: i64 = 4;

/// The name of a keyed write within its counter: a keyed hash of the client's text, which may identify a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WriteKey(pub [u8; 16]);

/// How long a key is known before its generation ends, milliseconds: two attempts take 2.5 s.
const LATELY_MS: i64 = 5_000;

/// The most keys that are known, of 24 bytes each.
const KEYS_MAX: usize = 4_096;

/// Drawn keys of writes that were counted lately, oldest first, each with its time in unix milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecentKeys(VecDeque<(WriteKey, i64)>);

/// Drawn keys of generations that have ended, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndedKeys(Vec<(WriteKey, i64)>);

impl RecentKeys {
    /// Adds a key that was counted now.
    pub fn remember(&mut self, key: WriteKey, now_ms: i64) {
        let is_over = |(_, at_ms): &(WriteKey, i64)| now_ms.saturating_sub(*at_ms) > LATELY_MS;
        while self.0.len() >= KEYS_MAX || self.0.front().is_some_and(is_over) {
            self.0.pop_front();
        }
        self.0.push_back((key, now_ms));
    }

    /// The memory of the keys, bytes.
    pub fn bytes(&self) -> usize {
        size_of::<(WriteKey, i64)>() * self.0.len()
    }
}

impl EndedKeys {
    /// Whether it has a key. Each write with a drawn key asks. Cost: O(log keys).
    pub fn has(&self, key: WriteKey) -> bool {
        self.0
            .binary_search_by_key(&key, |(known, _)| *known)
            .is_ok()
    }

    /// Adds the keys of another generation, and keeps the newest of all.
    #[must_use]
    pub fn with(mut self, lately: RecentKeys) -> Self {
        self.0.extend(lately.0);
        self.0.sort_unstable_by_key(|(_, at_ms)| *at_ms);
        let excess = self.0.len().saturating_sub(KEYS_MAX);
        self.0.drain(..excess);
        self.0.sort_unstable_by_key(|(key, _)| *key);
        self
    }

    /// The memory of the keys, bytes.
    pub fn bytes(&self) -> usize {
        size_of::<(WriteKey, i64)>() * self.0.len()
    }
}

/// A write that must count once for any number of repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedWrite {
    /// Its name.
    pub key: WriteKey,
    /// Hash of what it asks for. Another hash under the same key is a fault of the client.
    pub fingerprint: u64,
    /// The generation that it was claimed for; 0 for whichever lives.
    pub generation: u64,
    /// Sum of its increments.
    pub added: u128,
    /// Its decrement.
    pub removed: u128,
    /// Increments by (unix second, amount), clamped to the cell's clock.
    pub live: Vec<(i64, u128)>,
    /// Increments of the past, taken as they are.
    pub past: Vec<(i64, u128)>,
    /// The counter's value as the sender has just seen it. The answer needs it if other cells count too.
    pub seen: Option<SeenValue>,
    /// Counts the write only if the cell, which is the home, has changed nothing since.
    pub condition: Option<HomeCondition>,
    /// Samples of its increments by unix second, clamped to the cell's clock. Events that wait in an inbox have none,
    /// so the stored form omits them; `CountKeyed` of the protocol carries them separately.
    #[serde(skip)]
    pub samples: Samples,
    /// The dimensions of its increments; the stored form omits them as it omits samples, and for the same reason.
    #[serde(skip)]
    pub dimensions: DimensionLog,
    /// Refuses the write if the value would not fit into a signed 64-bit number. The stored form omits it, as above.
    #[serde(skip)]
    pub within_64_bits: bool,
    /// The time to live of the counter, if this write creates it. The stored form omits it, as above.
    #[serde(skip)]
    pub ttl_if_new: Option<TtlTerms>,
}

impl KeyedWrite {
    /// A write that counts nothing, for whichever generation lives.
    pub fn new(key: WriteKey, fingerprint: u64) -> Self {
        Self {
            key,
            fingerprint,
            generation: 0,
            added: 0,
            removed: 0,
            live: Vec::new(),
            past: Vec::new(),
            seen: None,
            condition: None,
            samples: Samples::default(),
            dimensions: DimensionLog::default(),
            within_64_bits: false,
            ttl_if_new: None,
        }
    }
}

/// A counter's value, as a reader saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenValue {
    /// The value.
    pub value: Value,
    /// Whether it was ever set or reset. Then no cell's own total is a lower bound of it.
    pub is_set: bool,
}

impl SeenValue {
    /// The value, or one cell's own total if that is a lower bound and larger: the seen value may be older than what
    /// that cell has just counted.
    pub fn or_own(self, own: Value) -> Value {
        if self.is_set {
            self.value
        } else {
            self.value.or_more(own)
        }
    }
}

/// The state of its home that a conditional write has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeCondition {
    /// The home; the sequence is of its cell.
    pub home: Datacenter,
    /// The generation.
    pub generation: u64,
    /// The sequence of the one cell that counts.
    pub sequence: u64,
    /// The number of set and reset operations, and of moves of the home.
    pub operations: u64,
}

impl HomeCondition {
    /// The condition for a lead to compare. If the lead is not the home that was seen, the condition never holds: its
    /// cell may have the same sequence by chance.
    pub fn for_lead(&self, lead: &Datacenter) -> Self {
        let is_home = self.home == *lead;
        Self {
            // No cell counts for generation 0.
            generation: if is_home { self.generation } else { 0 },
            ..self.clone()
        }
    }
}

/// What is kept of a keyed write that was counted: its whole answer, so that a retry gets the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Hash of what it asked for.
    pub fingerprint: u64,
    /// The generation it was counted in.
    pub generation: u64,
    /// The cell's sequence with it.
    pub sequence: u64,
    /// The counter's totals (added, removed) that it was answered with.
    pub totals: (Sum, Sum),
    /// Whether they are exact.
    pub is_exact: bool,
    /// When it was counted, unix milliseconds.
    pub at_ms: i64,
    /// Set and reset operations that the cell knew of.
    pub operations: u64,
}

/// What is kept under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// It was counted.
    Counted(Recorded),
    /// It was struck out, because all writes went to another lead.
    Struck {
        /// A claim with at most this number of moves never counts it here. A claim with more moves has come back to
        /// this lead.
        moves: u32,
        /// When it was struck out, unix milliseconds.
        at_ms: i64,
    },
    /// It would have taken the value below the counter's floor. Its client may have got that answer, so it is never
    /// counted.
    BelowFloor {
        /// Hash of what it asked for.
        fingerprint: u64,
        /// When it was refused, unix milliseconds.
        at_ms: i64,
    },
    /// It would have taken the value past 64 bits. It is never counted, for the same reason.
    Overflow {
        /// Hash of what it asked for.
        fingerprint: u64,
        /// When it was refused, unix milliseconds.
        at_ms: i64,
    },
}

impl Record {
    /// The record of a write with this refusal; `None` for a refusal without a record, because a late copy is refused
    /// too.
    pub fn of_refusal(outcome: KeyedOutcome, fingerprint: u64, at_ms: i64) -> Option<Self> {
        match outcome {
            KeyedOutcome::BelowFloor => Some(Self::BelowFloor { fingerprint, at_ms }),
            KeyedOutcome::Overflow => Some(Self::Overflow { fingerprint, at_ms }),
            _ => None,
        }
    }
}

/// A record, and its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its slot.
    pub slot: i64,
    /// Its content.
    pub record: Record,
}

/// A record that must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Its key.
    pub key: WriteKey,
    /// Its slot and its content.
    pub kept: StoredRecord,
    /// The slot of the record of the same key that it replaces.
    pub replaces: Option<i64>,
}

/// The outcome of a keyed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyedOutcome {
    /// Counted now.
    Counted(Recorded),
    /// Counted before; this is its record.
    Replayed(Recorded),
    /// The key was used for another write.
    Reused,
    /// There is no room for another record; nothing was counted.
    Full,
    /// The counter's value must be sent along; nothing was counted.
    NeedsView,
    /// The generation that it was claimed for has ended; nothing is counted.
    Ended,
    /// All writes go to another lead: under the claim that it was sent with it is never counted here.
    Struck,
    /// It would take the value below the counter's floor; nothing was counted.
    BelowFloor,
    /// The counter has changed since the version that it names; nothing was counted.
    Changed,
    /// It can be decided only at the home, and no home is known here; nothing was counted.
    NeedsHome,
    /// The home does not know the whole value yet; nothing was counted.
    NotWhole,
    /// It was only looked up, and has not been counted.
    Unknown,
    /// It was refused before, because it would have taken the value below the counter's floor. It is never counted.
    BelowFloorBefore,
    /// It was counted before. Only its number is known.
    CountedBefore,
    /// It is so old that its record may be gone. Whether it was counted is unknown, and it is not counted now.
    Expired,
    /// It would take the value past 64 bits, now or when it was first refused; it is never counted.
    Overflow,
    /// The account has filled its part of the room for claims; nothing was counted.
    PartFull(AccountId),
}

impl KeyedOutcome {
    /// Whether it was counted, now or before.
    pub fn is_counted(&self) -> bool {
        matches!(
            self,
            Self::Counted(_) | Self::Replayed(_) | Self::CountedBefore
        )
    }
}

/// The number of records in each slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// (slot, records), oldest first.
    slots: Vec<(i64, u64)>,
}

impl Ledger {
    /// The slots that have records, oldest first: at most six, and six of an earlier setting.
    pub fn slots(&self) -> impl Iterator<Item = i64> + '_ {
        self.slots.iter().map(|(slot, _)| *slot)
    }

    /// The slot of a record that is made now, unix milliseconds. By that time each record of the slot has been kept
    /// long enough.
    pub fn slot_of(now_ms: i64, kept_ms: i64) -> i64 {
        let length_ms = (kept_ms / SLOTS).max(1);
        let end = now_ms.div_euclid(length_ms).saturating_add(1);
        end.saturating_mul(length_ms).saturating_add(kept_ms)
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.slots.iter().map(|(_, records)| records).sum()
    }

    /// Makes room for a record, and returns its slot; `None` where the ledger is full.
    pub fn admit(&mut self, now_ms: i64, kept_ms: i64, records_max: u64) -> Option<i64> {
        if self.records() >= records_max {
            return None;
        }
        // If the clock stepped back, or the setting became shorter, the record goes into the newest slot. It is then
        // kept longer, never shorter.
        let newest = self.slots.last().map_or(i64::MIN, |(slot, _)| *slot);
        let slot = Self::slot_of(now_ms, kept_ms).max(newest);
        self.put(slot);
        Some(slot)
    }

    /// Returns the slot that a record of `slot` moves to so that it is kept as if it were made now; `None` if it is
    /// kept that long already, or if the slot has no record. A full ledger has room for it, because the number of
    /// records does not change. A record moves at most once in a quarter of `kept_ms`, for any number of calls.
    pub fn renew(&mut self, slot: i64, now_ms: i64, kept_ms: i64) -> Option<i64> {
        let wanted = Self::slot_of(now_ms, kept_ms);
        if slot >= wanted {
            return None;
        }
        self.remove(slot).then_some(())?;
        let newest = self.slots.last().map_or(i64::MIN, |(newest, _)| *newest);
        let renewed = wanted.max(newest);
        self.put(renewed);
        Some(renewed)
    }

    /// Takes a record from the count of a slot. Returns whether there was one.
    pub fn remove(&mut self, slot: i64) -> bool {
        let entry = self.slots.iter_mut().find(|(known, _)| *known == slot);
        let is_known = entry.is_some();
        if let Some((_, records)) = entry {
            *records = records.saturating_sub(1);
        }
        self.slots.retain(|(_, records)| *records > 0);
        is_known
    }

    /// Adds a record from another ledger to the count of its slot.
    pub fn take(&mut self, slot: i64) {
        let at = self.slots.partition_point(|(known, _)| *known < slot);
        match self.slots.get_mut(at).filter(|(known, _)| *known == slot) {
            Some((_, records)) => *records += 1,
            None => self.slots.insert(at, (slot, 1)),
        }
    }

    /// Adds a record to the count of a slot that is no older than any other.
    fn put(&mut self, slot: i64) {
        match self.slots.last_mut().filter(|(last, _)| *last == slot) {
            Some((_, records)) => *records += 1,
            None => self.slots.push((slot, 1)),
        }
    }

    /// Drops slots whose records have all been kept long enough. Returns the newest of them: its rows and those of
    /// older slots may be deleted.
    pub fn expire(&mut self, now_ms: i64) -> Option<i64> {
        let newest = self.slots().filter(|slot| *slot <= now_ms).last();
        self.slots.retain(|(slot, _)| *slot > now_ms);
        newest
    }

    /// When the oldest slot may be deleted, unix milliseconds; `None` for an empty ledger.
    pub fn due_at_ms(&self) -> Option<i64> {
        self.slots().next()
    }
}
