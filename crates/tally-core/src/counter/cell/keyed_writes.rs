//! Keyed writes at a cell: each is counted once, and its outcome can be looked up.
//!
//! Invariant: a write is counted only together with its record, and only if it has no record yet, or one that struck it
//! out under an earlier claim. In the second case the claim moved to another lead, the write was struck out there too,
//! and the claim came back.

use super::{CellState, Changes, Refusal};
use crate::counter::ledger::{
    HomeCondition, KeySource, KeyedOutcome, KeyedWrite, Ledger, NewRecord, REFUSALS_PART, Record,
    Recorded, SeenValue, StoredRecord, WriteKey,
};
use crate::counter::ledgers::LedgerLimits;
use crate::counter::merge::CellFacts;
use crate::counter::total::{Sum, Value};

impl CellState {
    /// The counts of the ledger of these keys.
    pub fn ledger(&self, keys: KeySource) -> &Ledger {
        self.ledgers.of(keys)
    }

    /// The slots in which a record of such a key may lie, see
    /// [`Ledgers::slots`](crate::counter::ledgers::Ledgers::slots).
    pub fn record_slots(&self, keys: KeySource) -> Vec<i64> {
        self.ledgers.slots(keys)
    }

    /// Restores the ledger of these keys from storage.
    pub fn restore_ledger(&mut self, keys: KeySource, ledger: Ledger) {
        *self.ledgers.of_mut(keys) = ledger;
    }

    /// Records that storage holds numbers that were struck out.
    pub fn restore_numbers(&mut self) {
        self.has_numbers = true;
    }

    /// Drops records that were kept long enough from the counts. Rows of the returned slot and older ones may be
    /// deleted.
    pub fn expire_records(&mut self, now_ms: i64) -> Option<i64> {
        self.ledgers.expire(now_ms)
    }

    /// When the oldest records may be deleted, unix milliseconds.
    pub fn records_due_ms(&self) -> Option<i64> {
        self.ledgers.due_at_ms()
    }

    /// Counts keyed writes, each once for any number of repeats, and adds the rows to write to `changes`. Their claims
    /// had moved `moves` times when they were sent; `None` stands for keys that only their sender knows. `known` looks
    /// a key up in storage. Returns the outcomes, in their order.
    ///
    /// # Errors
    /// [`Refusal::NeedsGrant`], also if a write is of a generation that this cell does not know yet. Then nothing has
    /// changed.
    pub fn apply_keyed(
        &mut self,
        writes: &[KeyedWrite],
        moves: Option<u32>,
        limits: LedgerLimits,
        now_ms: i64,
        known: &dyn Fn(WriteKey) -> Option<StoredRecord>,
        changes: &mut Changes,
    ) -> Result<Vec<KeyedOutcome>, Refusal> {
        if let Err(refusal) = self.is_granted(writes, now_ms) {
            // A grant could create the counter again that was deleted.
            let have_ended =
                (writes.iter()).all(|write| self.has_ended_with(limits.keys, write.key));
            return match have_ended {
                true => Ok(vec![KeyedOutcome::Ended; writes.len()]),
                false => Err(refusal),
            };
        }
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

    /// `lifted` is the slot of a record that struck the write out under an earlier claim.
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
        if self.has_ended_with(limits.keys, write.key) {
            return KeyedOutcome::Ended;
        }
        let Some(slot) = self.make_room(lifted, limits, now_ms) else {
            return KeyedOutcome::Full;
        };
        let recorded = self.add_keyed(write, elsewhere, now_ms, changes);
        self.remember_key(limits.keys, write.key, now_ms);
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

    /// The rest of the counter's value, see [`CellState::elsewhere`], if a new write may be counted.
    ///
    /// # Errors
    /// Its outcome, if it may not.
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
        self.facts = self.facts.join(CellFacts::written(now_ms));
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

    /// Records that a write was refused because of the resulting value. An earlier attempt may still be in flight. It
    /// must not be counted later, because the client may have got the refusal. Returns whether the ledger had room.
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

    /// The slot of a record that is made now, and that replaces the one in `replaced`, if any; `None` if the ledger is
    /// full.
    fn make_room(
        &mut self,
        replaced: Option<i64>,
        limits: LedgerLimits,
        now_ms: i64,
    ) -> Option<i64> {
        match replaced {
            Some(slot) => Some(self.ledgers.renew(slot, limits, now_ms)),
            None => self.ledgers.admit(limits, now_ms),
        }
    }

    /// Checks the counter's floor and the write's condition. Returns the outcome if it may not be counted.
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

    /// Strikes out the writes that this cell has not counted, because all writes go to another lead. This claim had
    /// moved `moves` times. A late copy that was sent with this claim or an earlier one is never counted here. Adds the
    /// rows to write to `changes`. Returns the outcomes; a counted write gets its answer. A write that was claimed for
    /// a newer generation waits until this cell has dropped its own, because the record would be dropped with that.
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

/// The outcomes of writes that may only be looked up, not counted. `known` looks a key up in storage. Nothing changes,
/// and no grant is needed.
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

/// The ledger's answer about a write.
enum LedgerAnswer {
    /// The outcome of the write.
    Answered(KeyedOutcome),
    /// The write has no record, or it was struck out under an earlier claim by the record in this slot.
    New(Option<i64>),
}

/// Looks a write up in storage and in the commit that is being made.
fn look_up(
    write: &KeyedWrite,
    moves: Option<u32>,
    known: &dyn Fn(WriteKey) -> Option<StoredRecord>,
    changes: &Changes,
) -> LedgerAnswer {
    let is_this = |new: &&NewRecord| new.key == write.key;
    if let Some(pending) = changes.records.iter().find(is_this) {
        // The writes of a commit were sent with one claim, so none can lift a record that another has made.
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
        Record::Counted(recorded) if recorded.fingerprint == write.fingerprint => {
            KeyedOutcome::Replayed(recorded)
        }
        Record::BelowFloor { fingerprint, .. } if fingerprint == write.fingerprint => {
            KeyedOutcome::BelowFloorBefore
        }
        Record::Overflow { fingerprint, .. } if fingerprint == write.fingerprint => {
            KeyedOutcome::Overflow
        }
        Record::Counted(_) | Record::BelowFloor { .. } | Record::Overflow { .. } => {
            KeyedOutcome::Reused
        }
    }
}
