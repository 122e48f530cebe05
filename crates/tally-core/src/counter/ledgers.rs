//! The ledgers of one object, each with a separate budget, so that a full ledger takes no room from the others.
//!
//! Invariants: slots of public keys are odd and all others even, so a slot tells the source of its records. The name of
//! a key contains its sender, so a record stays in the ledger in which it was made.

use super::ledger::{KeySource, Ledger};

/// How long records of public keys are kept, seconds, or less by the deployment's setting: callers without an API key
/// are not promised a day.
pub const PUBLIC_KEPT_SECONDS: i64 = 3_600;

/// The most records of public keys of one cell. One address may write 60 times at once and then once a second to a
/// counter. Records are kept for an hour and a quarter, so one address has 4,560. 109 addresses fill the ledger, and it
/// is empty an hour and a quarter after they stop.
pub const PUBLIC_RECORDS_MAX: u64 = 500_000;

/// The bits of a fingerprint that mark, in a queue, the source of its key: all are set for a public key.
const MARK: u64 = 0xffff << 48;

/// The fingerprint of a queued write, marked with the source of its key.
pub fn marked(fingerprint: u64, keys: KeySource) -> u64 {
    match keys {
        KeySource::Public => fingerprint | MARK,
        _ => fingerprint & !(1 << 63),
    }
}

/// Whether a fingerprint is marked as that of a public key.
pub fn is_marked(fingerprint: u64) -> bool {
    fingerprint & MARK == MARK
}

/// The limits of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerLimits {
    /// The source of its keys.
    pub keys: KeySource,
    /// How long records are kept, milliseconds.
    pub kept_ms: i64,
    /// The most records.
    pub records_max: u64,
}

impl LedgerLimits {
    /// The limits for public keys, if others are kept for `kept_ms`. `longer_ms` is added to the promised time.
    pub fn public(kept_ms: i64, longer_ms: i64, records_max: u64) -> Self {
        let kept_ms = kept_ms.min(PUBLIC_KEPT_SECONDS * 1_000 + longer_ms);
        Self {
            keys: KeySource::Public,
            // A quarter of the time is a multiple of 250 ms, which is even: so the slots are odd.
            kept_ms: kept_ms | 1,
            records_max,
        }
    }
}

/// Whether a slot has records of public keys.
pub fn is_public(slot: i64) -> bool {
    slot % 2 != 0
}

/// The ledgers of one object, by the source of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledgers {
    clients: Ledger,
    drawn: Ledger,
    public: Ledger,
}

impl Ledgers {
    /// The ledger that new records of these keys are counted in.
    pub fn of(&self, keys: KeySource) -> &Ledger {
        match keys {
            KeySource::Drawn => &self.drawn,
            KeySource::Public => &self.public,
            KeySource::Clients | KeySource::Numbered => &self.clients,
        }
    }

    /// As [`Ledgers::of`].
    pub fn of_mut(&mut self, keys: KeySource) -> &mut Ledger {
        match keys {
            KeySource::Drawn => &mut self.drawn,
            KeySource::Public => &mut self.public,
            KeySource::Clients | KeySource::Numbered => &mut self.clients,
        }
    }

    /// The slots in which a record may lie whose key was drawn, or sent by any caller.
    pub fn slots(&self, keys: KeySource) -> Vec<i64> {
        match keys {
            KeySource::Drawn => self.drawn.slots().collect(),
            _ => (self.clients.slots()).chain(self.public.slots()).collect(),
        }
    }

    /// Adds a record from another object to the count of its slot.
    pub fn take(&mut self, slot: i64) {
        let keys = if is_public(slot) {
            KeySource::Public
        } else {
            KeySource::Clients
        };
        self.of_mut(keys).take(slot);
    }

    /// The number of records.
    pub fn records(&self) -> u64 {
        self.clients.records() + self.drawn.records() + self.public.records()
    }

    /// Makes room for a record, and returns its slot; `None` where its ledger is full.
    pub fn admit(&mut self, limits: LedgerLimits, now_ms: i64) -> Option<i64> {
        let ledger = self.of_mut(limits.keys);
        ledger.admit(now_ms, limits.kept_ms, limits.records_max)
    }

    /// Keeps a record as if it were made now. Returns its slot from now on, which may be the same: the number of
    /// records does not change.
    pub fn renew(&mut self, slot: i64, limits: LedgerLimits, now_ms: i64) -> i64 {
        let ledger = self.of_mut(limits.keys);
        let renewed = ledger.renew(slot, now_ms, limits.kept_ms);
        renewed.unwrap_or(slot)
    }

    /// Drops slots that were kept long enough, as [`Ledger::expire`].
    pub fn expire(&mut self, now_ms: i64) -> Option<i64> {
        let ledgers = [&mut self.clients, &mut self.drawn, &mut self.public];
        let expired = ledgers.map(|ledger| ledger.expire(now_ms));
        expired.into_iter().flatten().max()
    }

    /// When the oldest records may be deleted, unix milliseconds.
    pub fn due_at_ms(&self) -> Option<i64> {
        let due = [&self.clients, &self.drawn, &self.public].map(Ledger::due_at_ms);
        due.into_iter().flatten().min()
    }
}
