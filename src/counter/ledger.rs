//! Which keyed writes a cell has counted, so that a retry changes nothing and gets the first answer.
//!
//! Invariants: a key's increment and its record are written in one commit, so either both are there or
//! neither; a record is kept for the time that was promised, and never let go early: where the ledger is
//! full, new keyed writes are refused.
//!
//! Records lie on disk, in *slots*. A slot is named by the time when it may go, so a record is kept as it was
//! promised when it was made, whatever the setting is later. A slot goes as a whole. A cell knows in memory
//! only how many records each slot has.

use serde::{Deserialize, Serialize};

use super::total::{Sum, Value};

/// The most records of one cell: about 100 bytes each on disk, 200 MB of the 10 GB that an object may hold.
pub const RECORDS_MAX: u64 = 2_000_000;

/// Parts of the time that records are kept, so that what is looked up lies in few places and what is let go
/// goes at once: a record is kept for up to a quarter longer than promised.
const SLOTS: i64 = 4;

/// The name of a keyed write within its counter: a keyed hash of what the client sent, since that may say
/// who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WriteKey(pub [u8; 16]);

/// A write that must count once, however often it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyed {
    /// Its name.
    pub key: WriteKey,
    /// Hash of what it asks for: another one under the same key is a fault of the client.
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
    /// The counter's value as the sender has just seen it, for the answer where other cells count too.
    pub seen: Option<SeenValue>,
    /// Count it only while the cell, which is home, has changed nothing since.
    pub condition: Option<Unchanged>,
}

/// A counter's value, as somebody saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenValue {
    /// The value.
    pub value: Value,
    /// Whether it was ever set or reset, so that no cell's own total bounds it.
    pub is_set: bool,
}

impl SeenValue {
    /// The value, and never less than one cell holds by itself, where that bounds it: what was seen may be
    /// older than what that cell has just counted.
    pub fn or_own(self, own: Value) -> Value {
        if self.is_set {
            self.value
        } else {
            self.value.or_more(own)
        }
    }
}

/// What a conditional write has seen of its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unchanged {
    /// The generation.
    pub generation: u64,
    /// The sequence of the one cell that counts.
    pub sequence: u64,
    /// Set and reset operations, and moves of the home.
    pub operations: u64,
}

/// What is kept of a keyed write: all that its answer says, so that a retry gets the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Of what it asked for.
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
    /// Set and reset operations that the cell had been told of.
    pub operations: u64,
}

impl Recorded {
    /// The record of a write that is never counted here, because all writes go elsewhere.
    pub fn struck(fingerprint: u64, at_ms: i64) -> Self {
        Self {
            fingerprint,
            generation: 0,
            sequence: 0,
            totals: (Sum::ZERO, Sum::ZERO),
            is_exact: false,
            at_ms,
            operations: 0,
        }
    }

    /// Whether it is of a write that is never counted here.
    pub fn is_struck(&self) -> bool {
        self.generation == 0
    }
}

/// What became of a keyed write.
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
    /// A total would pass 2^128 − 1; nothing was counted.
    Overflow,
    /// The counter's value must be sent along; nothing was counted.
    NeedsView,
    /// The generation that it was claimed for has ended; nothing is counted.
    Ended,
    /// All writes go elsewhere: it is not counted here now, nor ever.
    Struck,
    /// It would take the value below the counter's floor; nothing was counted.
    BelowFloor,
    /// The counter has changed since the version that it names; nothing was counted.
    Changed,
    /// It can be decided only where all writes go, and no such place is known here; nothing was counted.
    NeedsHome,
    /// Home does not know the whole value yet; nothing was counted.
    NotWhole,
    /// It was only asked for, and has not been counted.
    Unknown,
}

/// How many records each slot has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// (slot, records), oldest first.
    slots: Vec<(i64, u64)>,
}

impl Ledger {
    /// The slots that have records, oldest first; at most six, and six of a setting that held before.
    pub fn slots(&self) -> impl Iterator<Item = i64> + '_ {
        self.slots.iter().map(|(slot, _)| *slot)
    }

    /// The slot of a record that is made now: when the youngest record that it can have has been kept long
    /// enough, unix milliseconds.
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
        // A clock that stepped back, or a setting that became shorter, writes into the newest slot, which is
        // kept longer, never shorter.
        let newest = self.slots.last().map_or(i64::MIN, |(slot, _)| *slot);
        let slot = Self::slot_of(now_ms, kept_ms).max(newest);
        self.put(slot);
        Some(slot)
    }

    /// Returns the slot that a record of `slot` moves to so that it is kept as if it were made now; `None`
    /// where it is kept that long already, or no record lies there. A ledger that is full has room for it:
    /// it takes no more than before. Asked for however often, a record moves once a quarter of `kept_ms`.
    pub fn renew(&mut self, slot: i64, now_ms: i64, kept_ms: i64) -> Option<i64> {
        let wanted = Self::slot_of(now_ms, kept_ms);
        if slot >= wanted {
            return None;
        }
        let (_, records) = self.slots.iter_mut().find(|(known, _)| *known == slot)?;
        *records = records.saturating_sub(1);
        self.slots.retain(|(_, records)| *records > 0);
        let newest = self.slots.last().map_or(i64::MIN, |(newest, _)| *newest);
        let renewed = wanted.max(newest);
        self.put(renewed);
        Some(renewed)
    }

    /// Counts one more in a slot that is no older than any other.
    fn put(&mut self, slot: i64) {
        match self.slots.last_mut().filter(|(last, _)| *last == slot) {
            Some((_, records)) => *records += 1,
            None => self.slots.push((slot, 1)),
        }
    }

    /// Lets go of slots whose records have all been kept long enough. Returns the newest of them: it and
    /// those before it may be deleted.
    pub fn expire(&mut self, now_ms: i64) -> Option<i64> {
        let newest = self.slots().filter(|slot| *slot <= now_ms).last();
        self.slots.retain(|(slot, _)| *slot > now_ms);
        newest
    }

    /// When the oldest slot may be let go, unix milliseconds; `None` for an empty ledger.
    pub fn due_at_ms(&self) -> Option<i64> {
        self.slots().next()
    }
}
