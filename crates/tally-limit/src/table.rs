//! The keys of one partition. Times are wall times; the table has a clock that never goes back.
//!
//! Invariants: at most [`KEYS_MAX`] keys and about [`BYTES_MAX`] bytes are held, see [`MemoryShare::room`]; a key for
//! which there is no room shares a meter with others of its policy, so it never gets more than its limit, and may get
//! less; a key is only dropped once nothing of it counts; checks of one call are all admitted or consume nothing; what
//! was consumed by a reservation is given back at most once.
//!
//! | module | holds |
//! |---|---|
//! | `slots` | where the keys of a table lie |
//! | `room` | how much room there is, and what a call is answered that finds none |
//! | `reservations`, `reserving` | what was consumed for callers who may yet take it back |
//! | `calling` | holds, and calls that may be repeated |
//! | `sharing` | what becomes of keys for which a table has no room |
//! | [`log`] | how a table is stored: rows of changes, the oldest dropped once nothing in them counts |
//! | `commits` | how a table is written and read, row by row |

mod calling;
mod commits;
pub mod log;
mod reservations;
mod reserving;
mod room;
mod sharing;
mod slots;

use super::clock::Monotone;
use super::lease::{LeaseAnswer, LeaseRequest};
use super::lender::Lender;
use super::memory::MemoryShare;
use super::meter::Verdict;
use super::owner::{Grouping, GroupingOfTable, Owner};
use super::policy::Policy;
use log::Log;
use reservations::Reservations;
use slots::Slots;

pub use reservations::{RESERVED_MS_MAX, ReservationId, ReservationRefusal};
pub use room::{BYTES_MAX, Full, KEYS_MAX, LEASES_BYTES_MIN};

/// One check of a call. Neither names nor keys are looked at, only compared.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// The policy's name, not empty and without control characters: a name with a zero in it would stand for the keys
    /// of another, and a stored table with an empty one may not be read again.
    pub name: &'a str,
    /// The policy as it is now.
    pub policy: &'a Policy,
    /// The key, without control characters at its beginning: one that begins with U+0001 may be judged by a meter that
    /// others share.
    pub key: &'a str,
    /// What the call costs, 1 to the policy's capacity.
    pub cost: u64,
    /// For whom the key is checked; the default is nobody in particular. The key takes room from the part of this
    /// owner.
    pub owner: Owner,
}

impl<'a> Check<'a> {
    /// A check for nobody in particular.
    pub fn of(name: &'a str, policy: &'a Policy, key: &'a str, cost: u64) -> Self {
        Self {
            name,
            policy,
            key,
            cost,
            owner: Owner::default(),
        }
    }
}

/// The writes of one commit, in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The place of the row, which may have an older row that is overwritten.
    pub place: u64,
    /// The number of the row; numbers rise.
    pub row: u64,
    /// Its body.
    pub body: Vec<u8>,
    /// The places of rows to be deleted in the same transaction.
    pub deleted: Vec<u64>,
}

/// The size of the table, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// Keys.
    pub keys: u64,
    /// Bytes, estimated from above.
    pub bytes: u64,
}

/// Writes the name of a key in a table: the policy's name, a zero, the key. Neither has control characters, so names
/// are unique.
pub(super) fn subject(into: &mut String, name: &str, key: &str) {
    into.clear();
    into.push_str(name);
    into.push('\0');
    into.push_str(key);
}

/// The keys of one partition.
#[derive(Clone, Debug)]
pub struct Table {
    pub(super) clock: Monotone,
    pub(super) slots: Slots,
    pub(super) reservations: Reservations,
    /// `None` if the table is not stored.
    pub(super) log: Option<Log>,
    pub(super) dirty: Vec<usize>,
    pub(super) scratch: String,
}

impl Table {
    /// An empty table that is stored: its changes must be committed, or their memory is never freed.
    pub fn stored() -> Self {
        Self {
            log: Some(Log::default()),
            ..Self::in_memory()
        }
    }

    /// An empty table that is not stored: a restart loses everything.
    pub fn in_memory() -> Self {
        Self {
            clock: Monotone::default(),
            slots: Slots::default(),
            reservations: Reservations::default(),
            log: None,
            dirty: Vec::new(),
            scratch: String::new(),
        }
    }

    /// The table, still empty, with its room divided by these groups of keys.
    #[must_use]
    pub fn grouped_by(self, grouping: Grouping) -> Self {
        Self {
            slots: self.slots.grouped_by(GroupingOfTable(grouping)),
            ..self
        }
    }

    /// The table, with its memory counted together with that of others.
    #[must_use]
    pub fn sharing(self, memory: MemoryShare) -> Self {
        Self {
            slots: self.slots.sharing(memory),
            ..self
        }
    }

    /// The verdict about one check; an admitted one is consumed. Cost: O(1), and bounded work to drop idle keys.
    ///
    /// # Errors
    /// [`Full`] where the key is new and there is no room for it.
    pub fn check(&mut self, check: &Check<'_>, wall_ms: i64) -> Result<Verdict, Full> {
        let now_ms = self.clock.read(wall_ms);
        self.make_room(&[*check], now_ms);
        let slot = self.enter(check, now_ms)?;
        let entry = self.slots.get_mut(slot).ok_or(Full)?;
        let verdict = entry.lender.check(&entry.policy, now_ms, check.cost);
        if verdict.is_allowed {
            self.touch(slot);
        }
        Ok(verdict)
    }

    /// The verdict that [`Self::check`] would return, with the state before the call; nothing changes.
    pub fn peek(&self, check: &Check<'_>, wall_ms: i64) -> Verdict {
        self.peek_with(check, wall_ms, Lender::peek)
    }

    /// What `look` says of a key, under the policy of the check.
    pub(super) fn peek_with(
        &self,
        check: &Check<'_>,
        wall_ms: i64,
        look: fn(&Lender, &Policy, i64, u64) -> Verdict,
    ) -> Verdict {
        let now_ms = self.clock.peek(wall_ms);
        let slot = self.slot_of(check.name, check.key);
        let entry = slot.and_then(|slot| self.slots.get(slot));
        match entry {
            None => look(&Lender::new(check.policy), check.policy, now_ms, check.cost),
            Some(entry)
                if entry.policy == *check.policy || entry.has_left(check.policy, now_ms) =>
            {
                look(&entry.lender, &entry.policy, now_ms, check.cost)
            }
            Some(entry) => {
                let mut adapted = entry.lender.clone();
                adapted.adapt(&entry.policy, check.policy, now_ms);
                look(&adapted, check.policy, now_ms, check.cost)
            }
        }
    }

    /// The verdict of each check. If all are admitted they are consumed, else nothing is. Costs of checks of the same
    /// key are added; the last of their policies holds. Cost: O(n²) for n checks.
    ///
    /// # Errors
    /// [`Full`] where there is no room for all keys; nothing is consumed.
    pub fn check_all(&mut self, checks: &[Check<'_>], wall_ms: i64) -> Result<Vec<Verdict>, Full> {
        let now_ms = self.clock.read(wall_ms);
        self.all(checks, now_ms)
    }

    pub(super) fn all(&mut self, checks: &[Check<'_>], now_ms: i64) -> Result<Vec<Verdict>, Full> {
        self.make_room(checks, now_ms);
        let mut slots_of_checks = Vec::with_capacity(checks.len());
        for check in checks {
            slots_of_checks.push(self.enter(check, now_ms)?);
        }
        let mut verdicts = Vec::with_capacity(checks.len());
        for (number, (check, slot)) in checks.iter().zip(&slots_of_checks).enumerate() {
            let before = checks.iter().zip(&slots_of_checks).take(number);
            let before = before.filter(|(_, other)| *other == slot);
            let cost = before.fold(check.cost, |sum, (other, _)| sum.saturating_add(other.cost));
            let entry = self.slots.get(*slot).ok_or(Full)?;
            verdicts.push(entry.lender.peek(&entry.policy, now_ms, cost));
        }
        if !verdicts.iter().all(|verdict| verdict.is_allowed) {
            return Ok(verdicts);
        }
        for ((check, slot), verdict) in checks.iter().zip(&slots_of_checks).zip(&mut verdicts) {
            if let Some(entry) = self.slots.get_mut(*slot) {
                *verdict = entry.lender.check(&entry.policy, now_ms, check.cost);
                self.touch(*slot);
            }
        }
        Ok(verdicts)
    }

    fn own_slot(&self, name: &str, key: &str) -> Option<usize> {
        let mut own_subject = String::new();
        subject(&mut own_subject, name, key);
        self.slots.slot_of(&own_subject)
    }

    /// Whether a key has a slot of its own.
    pub fn knows(&self, name: &str, key: &str) -> bool {
        self.own_slot(name, key).is_some()
    }

    /// Whether a key has a use, a lease or a hold that has not expired, in a slot of its own. Any other key may have
    /// been elsewhere since, also if named calls of it are remembered here.
    pub fn has_used(&self, name: &str, key: &str, wall_ms: i64) -> bool {
        let now_ms = self.clock.peek(wall_ms);
        let slot = self.own_slot(name, key);
        let entry = slot.and_then(|slot| self.slots.get(slot));
        entry.is_some_and(|entry| {
            let mut lender = entry.lender.clone();
            lender.expire(&entry.policy, now_ms);
            lender.has_used(&entry.policy, now_ms)
        })
    }

    /// Answers a borrower of leases for a key of a global limit. [`LeaseAnswer::must_commit`] says whether the table
    /// must be committed before the answer is sent. A request without a waiting call changes no policy, because its
    /// borrower may not know a newer one, and gets no grant under another policy. Without room for the key, or for
    /// another lease, nothing is lent: see [`Full::answer`].
    pub fn ask(&mut self, check: &Check<'_>, request: &LeaseRequest, wall_ms: i64) -> LeaseAnswer {
        let now_ms = self.clock.read(wall_ms);
        self.make_room(&[*check], now_ms);
        let known = self.slot_of(check.name, check.key);
        let slot = match known.filter(|_| request.need == 0) {
            Some(slot) => Ok(slot),
            None => self.enter(check, now_ms),
        };
        let has_room = self.slots.has_room_for_lease();
        let entry = slot.map(|slot| (slot, self.slots.get_mut(slot)));
        let Ok((slot, Some(entry))) = entry else {
            return Full::answer(request);
        };
        if !has_room && entry.lender.begins(request) {
            return Full::answer(request);
        }
        let report = (entry.policy != *check.policy).then(|| LeaseRequest {
            want: 0,
            ..request.clone()
        });
        let request = report.as_ref().unwrap_or(request);
        let answer = entry.lender.ask(&entry.policy, request, now_ms);
        self.touch(slot);
        answer
    }

    /// The size of the table.
    pub fn size(&self) -> TableSize {
        TableSize {
            keys: u64::try_from(self.slots.len()).unwrap_or(u64::MAX),
            bytes: self.slots.bytes(),
        }
    }

    /// Drops idle keys: a few, or many if a new key finds no room. It is called before keys are inserted, because a new
    /// key is idle.
    pub(super) fn make_room(&mut self, checks: &[Check<'_>], now_ms: i64) {
        let is_needed = checks.iter().any(|check| {
            subject(&mut self.scratch, check.name, check.key);
            self.slots.slot_of(&self.scratch).is_none()
                && !self.slots.has_room_for(&self.scratch, check.owner)
        });
        self.sweep(is_needed, false, now_ms);
    }

    pub(super) fn adapt(&mut self, slot: usize, policy: &Policy, now_ms: i64) {
        let entry = self.slots.get_mut(slot);
        let entry = entry.filter(|entry| entry.policy != *policy);
        if let Some(entry) = entry.filter(|entry| !entry.has_left(policy, now_ms)) {
            entry.lender.adapt(&entry.policy, policy, now_ms);
            let old = core::mem::replace(&mut entry.policy, policy.clone());
            if !old.counts_like(policy) {
                entry.left = Some(Box::new((old, now_ms)));
            }
            self.touch(slot);
        }
    }

    /// Records that a key has changed.
    pub(super) fn touch(&mut self, slot: usize) {
        self.slots.weigh(slot);
        if self.log.is_none() {
            return;
        }
        let entry = self.slots.get_mut(slot);
        if let Some(entry) = entry.filter(|entry| !entry.is_dirty) {
            entry.is_dirty = true;
            self.dirty.push(slot);
        }
    }

    pub(super) fn sweep(&mut self, is_full: bool, is_loading: bool, now_ms: i64) {
        let log = &mut self.log;
        self.slots.sweep(is_full, is_loading, now_ms, |entry| {
            if let Some(log) = log {
                log.remove(entry.row, u64::from(entry.stored_bytes));
            }
        });
    }
}
