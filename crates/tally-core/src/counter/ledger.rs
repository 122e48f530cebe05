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

use super::dimensions::DimensionLog;
use super::id::Datacenter;
use super::samples::Samples;
use super::total::{Sum, Value};

/// The most records of one cell: about 100 bytes each on disk, 200 MB of the 10 GB that an object may hold.
pub const RECORDS_MAX: u64 = 2_000_000;

/// How long records of drawn keys are kept, seconds. Nobody but the call that drew a key sends it, for a few seconds. A
/// copy may be held back for 90 seconds, and meet the cell where it has moved to, whose clock is two minutes ahead.
pub const DRAWN_KEPT_SECONDS: u64 = 240;

/// Writes with drawn keys that one cell decides each second, for as long as they come: what is decided by a floor or a
/// condition.
pub const DRAWN_PER_SECOND: u64 = 1_000;

/// The most records of drawn keys of one cell. They have a budget of their own, so that they take no room from clients'
/// keys. It is three times what that rate needs: a clock that stepped back keeps them for longer.
pub const DRAWN_RECORDS_MAX: u64 = 1_000_000;

// A record is kept for up to a quarter longer.
const _: () = assert!(
    3 * DRAWN_PER_SECOND * (DRAWN_KEPT_SECONDS + DRAWN_KEPT_SECONDS / 4) <= DRAWN_RECORDS_MAX
);

/// Who may send a write again under its key, and so what is kept of it, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum KeySource {
    /// A client: a record, for as long as the deployment promises.
    #[default]
    Clients,
    /// The call that drew it: a record for [`DRAWN_KEPT_SECONDS`].
    Drawn,
    /// An inbox or a queue, until it is settled: its number, see [`super::numbers`].
    Numbered,
    /// Anybody, who has shown no API key: a record in a ledger of its own, see [`super::ledgers`].
    Public,
}

/// Refusals are recorded only while the ledger has fewer records than this part of what it may have: what is refused
/// again and again, as decrements of what is sold out, leaves room for a million writes that count.
pub const REFUSALS_PART: u64 = 2;

/// Parts of the time that records are kept, so that what is looked up lies in few places and what is let go
/// goes at once: a record is kept for up to a quarter longer than promised.
const SLOTS: i64 = 4;

/// The name of a keyed write within its counter: a keyed hash of what the client sent, since that may say
/// who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WriteKey(pub [u8; 16]);

/// A write that must count once, however often it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedWrite {
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
    pub condition: Option<HomeCondition>,
    /// Samples of its increments by unix second, clamped to the cell's clock. Events that wait in an inbox have none,
    /// so this is left out of the stored form; `CountKeyed` of the protocol carries it beside.
    #[serde(skip)]
    pub samples: Samples,
    /// What its increments say of themselves; left out of the stored form as samples are, and for the same reason.
    #[serde(skip)]
    pub dimensions: DimensionLog,
    /// Refuse it where the value would need more than 64 bits, with a sign. Left out of the stored form, as above.
    #[serde(skip)]
    pub within_64_bits: bool,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeCondition {
    /// Which home: the sequence is of its cell.
    pub home: Datacenter,
    /// The generation.
    pub generation: u64,
    /// The sequence of the one cell that counts.
    pub sequence: u64,
    /// Set and reset operations, and moves of the home.
    pub operations: u64,
}

impl HomeCondition {
    /// What a lead is to compare: nothing that holds, where it is not the home that was seen. Its cell may have counted
    /// as often by chance.
    pub fn for_lead(&self, lead: &Datacenter) -> Self {
        let is_home = self.home == *lead;
        Self {
            // No cell counts for generation 0.
            generation: if is_home { self.generation } else { 0 },
            ..self.clone()
        }
    }
}

/// What is kept of a keyed write that was counted: all that its answer says, so that a retry gets the same.
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
    /// Set and reset operations that the cell knew of.
    pub operations: u64,
}

/// What is kept under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Recorded", into = "Recorded")]
pub enum Record {
    /// It was counted.
    Counted(Recorded),
    /// All writes went elsewhere.
    Struck {
        /// A claim with at most this number of moves never counts it here. A claim with more moves has come back to
        /// this lead.
        moves: u32,
        /// When it was struck out, unix milliseconds.
        at_ms: i64,
    },
    /// It would have taken the value below the counter's floor, and its client may have been answered so. It is never
    /// counted.
    BelowFloor {
        /// Of what it asked for.
        fingerprint: u64,
        /// When it was refused, unix milliseconds.
        at_ms: i64,
    },
    /// It would have taken the value past 64 bits, likewise.
    Overflow {
        /// Of what it asked for.
        fingerprint: u64,
        /// When it was refused, unix milliseconds.
        at_ms: i64,
    },
}

impl Record {
    /// What is kept of a write that was refused so; `None` where nothing is, since a late copy is refused too.
    pub fn of_refusal(outcome: KeyedOutcome, fingerprint: u64, at_ms: i64) -> Option<Self> {
        match outcome {
            KeyedOutcome::BelowFloor => Some(Self::BelowFloor { fingerprint, at_ms }),
            KeyedOutcome::Overflow => Some(Self::Overflow { fingerprint, at_ms }),
            _ => None,
        }
    }
}

/// What the operations of a record at rest say that was not counted.
const AT_REST_STRUCK: u64 = 0;
const AT_REST_BELOW_FLOOR: u64 = 1;
const AT_REST_OVERFLOW: u64 = 2;

/// The form at rest: the generation of what was not counted is 0, which no generation is; its operations say why,
/// and its sequence the moves.
impl From<Record> for Recorded {
    fn from(record: Record) -> Self {
        let uncounted = |at_ms: i64| Self {
            fingerprint: 0,
            generation: 0,
            sequence: 0,
            totals: (Sum::ZERO, Sum::ZERO),
            is_exact: false,
            at_ms,
            operations: AT_REST_STRUCK,
        };
        match record {
            Record::Counted(recorded) => recorded,
            Record::Struck { moves, at_ms } => Self {
                sequence: moves.into(),
                ..uncounted(at_ms)
            },
            Record::BelowFloor { fingerprint, at_ms } => Self {
                fingerprint,
                operations: AT_REST_BELOW_FLOOR,
                ..uncounted(at_ms)
            },
            Record::Overflow { fingerprint, at_ms } => Self {
                fingerprint,
                // A build before this one reads that it was struck out for good.
                sequence: u32::MAX.into(),
                operations: AT_REST_OVERFLOW,
                ..uncounted(at_ms)
            },
        }
    }
}

impl From<Recorded> for Record {
    fn from(rest: Recorded) -> Self {
        let Recorded {
            fingerprint, at_ms, ..
        } = rest;
        match (rest.generation, rest.operations) {
            (1.., _) => Self::Counted(rest),
            (0, AT_REST_BELOW_FLOOR) => Self::BelowFloor { fingerprint, at_ms },
            (0, AT_REST_OVERFLOW) => Self::Overflow { fingerprint, at_ms },
            (0, _) => Self::Struck {
                moves: u32::try_from(rest.sequence).unwrap_or(u32::MAX),
                at_ms,
            },
        }
    }
}

/// A record, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its slot.
    pub slot: i64,
    /// What it says.
    pub record: Record,
}

/// A record that must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Its key.
    pub key: WriteKey,
    /// Where it is to lie, and what it says.
    pub kept: StoredRecord,
    /// The slot of the record of the same key that it takes the place of.
    pub replaces: Option<i64>,
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
    /// The counter's value must be sent along; nothing was counted.
    NeedsView,
    /// The generation that it was claimed for has ended; nothing is counted.
    Ended,
    /// All writes go elsewhere: it is never counted here by the claim that it was sent with.
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
    /// It was refused before, as it would have taken the value below the counter's floor, and is never counted.
    BelowFloorBefore,
    /// It was counted before, which is known by its number alone.
    CountedBefore,
    /// It is so old that its record may be gone. Whether it was counted is unknown, and it is not counted now.
    Expired,
    /// It would take the value past 64 bits, now or when it was first refused; it is never counted.
    Overflow,
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
        self.remove(slot).then_some(())?;
        let newest = self.slots.last().map_or(i64::MIN, |(newest, _)| *newest);
        let renewed = wanted.max(newest);
        self.put(renewed);
        Some(renewed)
    }

    /// Counts one less in a slot. Returns whether there was one.
    pub fn remove(&mut self, slot: i64) -> bool {
        let entry = self.slots.iter_mut().find(|(known, _)| *known == slot);
        let is_known = entry.is_some();
        if let Some((_, records)) = entry {
            *records = records.saturating_sub(1);
        }
        self.slots.retain(|(_, records)| *records > 0);
        is_known
    }

    /// Counts one more in a slot, which came from another ledger.
    pub fn take(&mut self, slot: i64) {
        let at = self.slots.partition_point(|(known, _)| *known < slot);
        match self.slots.get_mut(at).filter(|(known, _)| *known == slot) {
            Some((_, records)) => *records += 1,
            None => self.slots.insert(at, (slot, 1)),
        }
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
