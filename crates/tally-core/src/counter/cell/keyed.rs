//! Keyed writes at a cell: each is counted once, and found again.
//!
//! Invariant: a write is counted only together with its record, and only if it has no record yet, or one that struck it
//! out under an earlier claim. In the second case the claim moved to another lead, was struck out there too, and came
//! back.

use super::{Cell, Changes, Refusal};
use crate::counter::ledger::{
    HomeCondition, KeySource, KeyedOutcome, KeyedWrite, Ledger, NewRecord, REFUSALS_PART, Record,
    Recorded, SeenValue, StoredRecord, WriteKey,
};
use crate::counter::ledgers::{LedgerLimits, is_same};
use crate::counter::total::{Sum, Value};

impl Cell {
    /// The counts of the ledger of these keys.
    pub fn ledger(&self, keys: KeySource) -> &Ledger {
        self.ledgers.of(keys)
    }

    /// The slots in which a record of such a key may lie, see
    /// [`Ledgers::slots`](crate::counter::ledgers::Ledgers::slots).
    pub fn record_slots(&self, keys: KeySource) -> Vec<i64> {
        self.ledgers.slots(keys)
    }

    /// Takes the counts of the ledger of these keys over from storage.
    pub fn restore_ledger(&mut self, keys: KeySource, ledger: Ledger) {
        *self.ledgers.of_mut(keys) = ledger;
    }

    /// Records that storage holds numbers that were struck out.
    pub fn restore_numbers(&mut self) {
        self.has_numbers = true;
    }

    /// Lets go of records that were kept long enough; those of the returned slot and older may be deleted.
    pub fn expire_records(&mut self, now_ms: i64) -> Option<i64> {
        self.ledgers.expire(now_ms)
    }

    /// When the oldest records may go, unix milliseconds.
    pub fn records_due_ms(&self) -> Option<i64> {
        self.ledgers.due_at_ms()
    }

    /// Counts keyed writes, each once however often it comes, and adds to `changes` what must be written. Their
    /// claims had moved `moves` times when they were sent; `None` stands for keys that only their sender knows.
    /// `known` looks a key up in storage. Returns what became of each, in their order.
    ///
    /// # Errors
    /// [`Refusal::NeedsGrant`], also where a write is of a generation that this cell does not know yet;
    /// nothing has changed then.
    pub fn apply_keyed(
        &mut self,
        writes: &[KeyedWrite],
        moves: Option<u32>,
        limits: LedgerLimits,
        now_ms: i64,
        known: &dyn Fn(WriteKey) -> Option<StoredRecord>,
        changes: &mut Changes,
    ) -> Result<Vec<KeyedOutcome>, Refusal> {
        self.is_granted(writes, now_ms)?;
        changes.keys = limits.keys;
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            outcomes.push(match look_up(write, moves, known, changes) {
                LedgerAnswer::Answered(outcome) => outcome,
                LedgerAnswer::New(lifted) => {
                    let outcome = self.count_keyed(write, lifted, limits, now_ms, changes);
                    let record = Record::of_refusal(outcome, write.fingerprint, now_ms);
                    let has_room = record.is_none_or(|record| {
                        let refused = (write.key, record);
                        self.refuse(refused, lifted, limits, now_ms, changes)
                    });
                    if has_room {
                        outcome
                    } else {
                        KeyedOutcome::Full
                    }
                }
            });
        }
        Ok(outcomes)
    }

    /// `lifted` is the slot of a record that struck it out under an earlier claim.
    fn count_keyed(
        &mut self,
        write: &KeyedWrite,
        lifted: Option<i64>,
        limits: LedgerLimits,
        now_ms: i64,
        changes: &mut Changes,
    ) -> KeyedOutcome {
        let elsewhere = match self.check(write) {
            Ok(elsewhere) => elsewhere,
            Err(refused) => return refused,
        };
        let Some(slot) = self.make_room(lifted, limits, now_ms) else {
            return KeyedOutcome::Full;
        };
        let recorded = self.add_keyed(write, elsewhere, now_ms, changes);
        changes.records.push(NewRecord {
            key: write.key,
            kept: StoredRecord {
                slot,
                record: Record::Counted(recorded),
            },
            replaces: lifted,
        });
        KeyedOutcome::Counted(recorded)
    }

    /// Whether these writes may be decided now.
    pub(super) fn is_granted(&self, writes: &[KeyedWrite], now_ms: i64) -> Result<(), Refusal> {
        let is_ahead = writes.iter().any(|write| self.is_before(write));
        if self.needs_grant(now_ms) || is_ahead {
            return Err(Refusal::NeedsGrant);
        }
        Ok(())
    }

    /// Whether a write is of a generation that this cell does not know yet.
    pub(super) fn is_before(&self, write: &KeyedWrite) -> bool {
        self.generation().unwrap_or(0) < write.generation
    }

    /// What others hold, see [`Cell::elsewhere`], where a new write may be counted.
    ///
    /// # Errors
    /// What is answered to it where it may not.
    pub(super) fn check(&self, write: &KeyedWrite) -> Result<Option<(Sum, Sum)>, KeyedOutcome> {
        let generation = self.generation().unwrap_or(0);
        if write.generation != 0 && write.generation != generation {
            return Err(KeyedOutcome::Ended);
        }
        self.decide(write)?;
        let elsewhere = self.elsewhere();
        if elsewhere.is_none() && (write.seen.is_none() || write.within_64_bits) {
            return Err(KeyedOutcome::NeedsView);
        }
        if let Some((added, removed)) = elsewhere.filter(|_| write.within_64_bits) {
            let own = Value::new(
                self.added.plus(write.added),
                self.removed.plus(write.removed),
            );
            if own.plus(Value::new(added, removed)).to_i64().is_none() {
                return Err(KeyedOutcome::Overflow);
            }
        }
        Ok(elsewhere)
    }

    /// Counts a write that was checked.
    pub(super) fn add_keyed(
        &mut self,
        write: &KeyedWrite,
        elsewhere: Option<(Sum, Sum)>,
        now_ms: i64,
        changes: &mut Changes,
    ) -> Recorded {
        self.added = self.added.plus(write.added);
        self.removed = self.removed.plus(write.removed);
        self.sequence += 1;
        self.last_write_ms = self.last_write_ms.max(now_ms);
        changes.hot = true;
        let now = now_ms.div_euclid(1_000);
        self.apply_amounts(&write.live, &write.past, now, changes);
        Self::apply_samples(&write.samples, now, changes);
        Self::apply_dimensions(&write.dimensions, now, changes);
        let (totals, is_exact) = match (elsewhere, write.seen) {
            (Some((others_added, others_removed)), _) => {
                let totals = (
                    others_added.plus(self.added.into()),
                    others_removed.plus(self.removed.into()),
                );
                (totals, true)
            }
            (None, seen) => {
                let seen = seen.unwrap_or_default();
                let whole = SeenValue {
                    value: seen.value.plus(Value::new(write.added, write.removed)),
                    ..seen
                };
                (
                    whole.or_own(Value::new(self.added, self.removed)).totals(),
                    false,
                )
            }
        };
        Recorded {
            fingerprint: write.fingerprint,
            generation: self.generation().unwrap_or(0),
            sequence: self.sequence,
            totals,
            is_exact,
            at_ms: now_ms,
            operations: self.grant().map_or(0, |grant| grant.operations),
        }
    }

    /// Records that a write was refused by what the value would be: an attempt before that is still on its way is not
    /// counted once there is room for it, as its client may have been answered so. Returns whether the ledger had room.
    fn refuse(
        &mut self,
        (key, record): (WriteKey, Record),
        replaces: Option<i64>,
        limits: LedgerLimits,
        now_ms: i64,
        changes: &mut Changes,
    ) -> bool {
        let limits = LedgerLimits {
            records_max: limits.records_max / REFUSALS_PART,
            ..limits
        };
        let Some(slot) = self.make_room(replaces, limits, now_ms) else {
            return false;
        };
        changes.records.push(NewRecord {
            key,
            kept: StoredRecord { slot, record },
            replaces,
        });
        true
    }

    /// The slot of a record that is made now, in the place of the one in `replaced` if there is one; `None` where the
    /// ledger is full.
    fn make_room(
        &mut self,
        replaced: Option<i64>,
        limits: LedgerLimits,
        now_ms: i64,
    ) -> Option<i64> {
        match replaced {
            Some(slot) => self.ledgers.renew(slot, limits, now_ms),
            None => self.ledgers.admit(limits, now_ms),
        }
    }

    /// Whether a write may be counted by what the value is, and has been.
    fn decide(&self, write: &KeyedWrite) -> Result<(), KeyedOutcome> {
        let grant = self.grant().unwrap_or_default();
        let floor = grant.settings.floor.filter(|_| write.removed > 0);
        if floor.is_none() && write.condition.is_none() {
            return Ok(());
        }
        if !grant.is_home {
            return Err(KeyedOutcome::NeedsHome);
        }
        let own = (grant.generation, self.sequence, grant.operations);
        let has_changed =
            |seen: &HomeCondition| (seen.generation, seen.sequence, seen.operations) != own;
        if write.condition.as_ref().is_some_and(has_changed) {
            return Err(KeyedOutcome::Changed);
        }
        let value = self.value_at_home().ok_or(KeyedOutcome::NotWhole)?;
        let after = value.plus(Value::new(write.added, write.removed));
        if floor.is_some_and(|floor| after.is_below(floor)) {
            return Err(KeyedOutcome::BelowFloor);
        }
        Ok(())
    }

    /// Strikes writes out that this cell has not counted, because all writes go elsewhere: a late copy of what was sent
    /// with this claim, which had moved `moves` times, or with an earlier one is never counted here. What must be
    /// written is added to `changes`. Returns what became of each: what was counted is answered. One that was claimed
    /// for a newer generation than this cell's waits until it has dropped its own, as what it strikes out would go
    /// with that.
    pub fn strike(
        &mut self,
        writes: &[KeyedWrite],
        moves: Option<u32>,
        limits: LedgerLimits,
        now_ms: i64,
        known: &dyn Fn(WriteKey) -> Option<StoredRecord>,
        changes: &mut Changes,
    ) -> Vec<KeyedOutcome> {
        changes.keys = limits.keys;
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            let replaces = match look_up(write, moves, known, changes) {
                LedgerAnswer::Answered(outcome) => {
                    outcomes.push(outcome);
                    continue;
                }
                LedgerAnswer::New(replaces) => replaces,
            };
            if self.generation().is_some() && self.is_before(write) {
                outcomes.push(KeyedOutcome::NotWhole);
                continue;
            }
            let Some(slot) = self.make_room(replaces, limits, now_ms) else {
                outcomes.push(KeyedOutcome::Full);
                continue;
            };
            let record = Record::Struck {
                moves: moves.unwrap_or(0),
                at_ms: now_ms,
            };
            changes.records.push(NewRecord {
                key: write.key,
                kept: StoredRecord { slot, record },
                replaces,
            });
            outcomes.push(KeyedOutcome::Struck);
        }
        outcomes
    }
}

/// What became of writes that may only be answered, not counted. `known` looks a key up in storage. Nothing
/// changes, and no grant is needed: what was counted was counted.
pub fn recall(
    writes: &[KeyedWrite],
    known: &dyn Fn(WriteKey) -> Option<StoredRecord>,
) -> Vec<KeyedOutcome> {
    let nothing = Changes::default();
    let recalled = writes
        .iter()
        .map(|write| match look_up(write, None, known, &nothing) {
            LedgerAnswer::New(_) | LedgerAnswer::Answered(KeyedOutcome::Struck) => {
                KeyedOutcome::Unknown
            }
            LedgerAnswer::Answered(outcome) => outcome,
        });
    recalled.collect()
}

/// What the ledger knows of a write.
enum LedgerAnswer {
    /// What is answered to it.
    Answered(KeyedOutcome),
    /// Nothing; or it was struck out under an earlier claim, by the record in this slot.
    New(Option<i64>),
}

/// Looks a write up, in storage and in the commit that is being made.
fn look_up(
    write: &KeyedWrite,
    moves: Option<u32>,
    known: &dyn Fn(WriteKey) -> Option<StoredRecord>,
    changes: &Changes,
) -> LedgerAnswer {
    let is_this = |new: &&NewRecord| new.key == write.key;
    if let Some(pending) = changes.records.iter().find(is_this) {
        // The writes of a commit were sent with one claim, so none can lift what another has struck out.
        return LedgerAnswer::Answered(recorded_outcome(write, pending.kept.record));
    }
    match known(write.key) {
        None => LedgerAnswer::New(None),
        Some(StoredRecord {
            slot,
            record: Record::Struck { moves: struck, .. },
        }) if moves.unwrap_or(0) > struck => LedgerAnswer::New(Some(slot)),
        Some(kept) => LedgerAnswer::Answered(recorded_outcome(write, kept.record)),
    }
}

/// The answer to a write that has a record.
fn recorded_outcome(write: &KeyedWrite, record: Record) -> KeyedOutcome {
    match record {
        Record::Struck { .. } => KeyedOutcome::Struck,
        Record::Counted(recorded) if is_same(recorded.fingerprint, write.fingerprint) => {
            KeyedOutcome::Replayed(recorded)
        }
        Record::BelowFloor { fingerprint, .. } if is_same(fingerprint, write.fingerprint) => {
            KeyedOutcome::BelowFloorBefore
        }
        Record::Overflow { fingerprint, .. } if is_same(fingerprint, write.fingerprint) => {
            KeyedOutcome::Overflow
        }
        Record::Counted(_) | Record::BelowFloor { .. } | Record::Overflow { .. } => {
            KeyedOutcome::Reused
        }
    }
}
