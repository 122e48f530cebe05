//! The ledgers of one object, each with a budget of its own: whose keys fill theirs take no room from others.
//!
//! Invariants: slots of public keys are odd and all others even, so a slot says whose record lies in it; a record
//! that is there is found whoever sends its key.

use super::ledger::{KeySource, Ledger};

/// How long records of public keys are kept, seconds, where the deployment does not say less: callers without an API
/// key are not promised a day.
pub const PUBLIC_KEPT_SECONDS: i64 = 3_600;

/// The most records of public keys of one cell. One address may write 60 times at once and then once a second to a
/// counter, so it has 4,560 within the hour and a quarter that they are kept: 109 addresses fill it, and it is empty an
/// hour and a quarter after they stop.
pub const PUBLIC_RECORDS_MAX: u64 = 500_000;

/// The bits of a fingerprint that say on its way through a queue whose key it is with: all are set for a public one.
const MARK: u64 = 0xffff << 48;

/// The fingerprint of a queued write, with the mark of whose key it has.
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

/// Whether two fingerprints are of one request, whoever sent it.
pub fn is_same(one: u64, other: u64) -> bool {
    (one ^ other) & !MARK == 0
}

/// What a ledger is bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerLimits {
    /// Whose keys.
    pub keys: KeySource,
    /// How long records are kept, milliseconds.
    pub kept_ms: i64,
    /// The most records.
    pub records_max: u64,
}

impl LedgerLimits {
    /// Those of public keys, where others are kept so long. `longer_ms` is added to what is promised.
    pub fn public(kept_ms: i64, longer_ms: i64, records_max: u64) -> Self {
        let kept_ms = kept_ms.min(PUBLIC_KEPT_SECONDS * 1_000 + longer_ms);
        Self {
            keys: KeySource::Public,
            // A quarter of it is a multiple of 250 ms, which is even: so the slots are odd.
            kept_ms: kept_ms | 1,
            records_max,
        }
    }
}

/// Whether a slot is of public keys.
pub fn is_public(slot: i64) -> bool {
    slot % 2 != 0
}

/// The ledgers of one object, by whose keys they count.
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

    /// The slots in which a record of such a key may lie. A client's key is the same key, whoever sends it.
    pub fn slots(&self, keys: KeySource) -> Vec<i64> {
        match keys {
            KeySource::Drawn => self.drawn.slots().collect(),
            _ => (self.clients.slots()).chain(self.public.slots()).collect(),
        }
    }

    /// Counts a record that came from another object in its slot.
    pub fn take(&mut self, slot: i64) {
        let keys = if is_public(slot) {
            KeySource::Public
        } else {
            KeySource::Clients
        };
        self.of_mut(keys).take(slot);
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.clients.records() + self.drawn.records() + self.public.records()
    }

    /// Makes room for a record, and returns its slot; `None` where its ledger is full.
    pub fn admit(&mut self, limits: LedgerLimits, now_ms: i64) -> Option<i64> {
        let ledger = self.of_mut(limits.keys);
        ledger.admit(now_ms, limits.kept_ms, limits.records_max)
    }

    /// Has a record be kept as if it were made now. Returns the slot that it lies in from now on, which may be the
    /// same: it takes no more room than before. `None` where it was a public key's, now is not, and there is no room
    /// for it.
    pub fn renew(&mut self, slot: i64, limits: LedgerLimits, now_ms: i64) -> Option<i64> {
        // A public key may renew what is not in its ledger: the slots there stay even.
        let even_ms = (limits.kept_ms + 1) & !1;
        let (keys, kept_ms) = match (is_public(slot), limits.keys) {
            (true, KeySource::Public) => (KeySource::Public, limits.kept_ms),
            (true, _) => {
                let renewed = self.admit(limits, now_ms)?;
                self.public.remove(slot);
                return Some(renewed);
            }
            (false, KeySource::Drawn) => (KeySource::Drawn, limits.kept_ms),
            (false, _) => (KeySource::Clients, even_ms),
        };
        let renewed = self.of_mut(keys).renew(slot, now_ms, kept_ms);
        Some(renewed.unwrap_or(slot))
    }

    /// Lets go of what was kept long enough, as [`Ledger::expire`].
    pub fn expire(&mut self, now_ms: i64) -> Option<i64> {
        let ledgers = [&mut self.clients, &mut self.drawn, &mut self.public];
        let expired = ledgers.map(|ledger| ledger.expire(now_ms));
        expired.into_iter().flatten().max()
    }

    /// When the oldest records may go, unix milliseconds.
    pub fn due_at_ms(&self) -> Option<i64> {
        let due = [&self.clients, &self.drawn, &self.public].map(Ledger::due_at_ms);
        due.into_iter().flatten().min()
    }
}
