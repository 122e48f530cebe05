//! Keyed writes at a lead. They are claimed for it at the root, and decided only here.
//!
//! Invariant: a keyed write is answered only after it and its record were written in one commit.

use std::cell::RefCell;
use std::rc::Rc;

use super::core::CellCore;
use super::ledger::DRAWN;
use super::object::GRANT_TRIES;
use tally_api::metrics::Metric;
use tally_core::cluster::claim::ClaimHolder;
use tally_core::counter::cell::CellState;
use tally_core::counter::cell::keyed_writes::recall;
use tally_core::counter::cell::numbered_writes::{KnownNumbers, NumberedWrites};
use tally_core::counter::flush::{Changes, Refusal};
use tally_core::counter::id::Datacenter;
use tally_core::counter::ledger::{KeySource, KeyedOutcome, StoredRecord, WriteKey};
use tally_core::counter::ledgers::{LedgerLimits, PUBLIC_RECORDS_MAX};
use tally_core::counter::numbered_writes::{Numbers, WritePlace};
use tally_shared::metrics;
use tally_wire::messages::{
    Claim, ClaimAnswer, CountKeyed, Counted, Fault, KeyOwner, ReadNumbers, Recall,
};
use tally_wire::names::CellAddress;
use tally_wire::shell_limits::{WHOLE_EVERY_MS, WHOLE_MS_MAX};

/// The checks that fit into [`WHOLE_MS_MAX`].
const WHOLE_TRIES: usize = 35;

/// Reads from storage the record of a key, and the decided numbers of a lane.
pub(super) struct StoredRecords<'a> {
    pub(super) record: &'a dyn Fn(WriteKey) -> Option<StoredRecord>,
    numbers: KnownNumbers<'a>,
}

impl CellCore {
    pub(super) async fn on_count(
        self: &Rc<Self>,
        count: Result<CountKeyed, Fault>,
    ) -> Result<Counted, Fault> {
        let count = count?.received();
        self.readable()?;
        let begun_ms = self.host.now_ms();
        for _ in 0..GRANT_TRIES + WHOLE_TRIES {
            match self.try_count(&count) {
                Err(Fault::Refused(Refusal::NeedsGrant)) => {
                    if self.have_ended(&count).await? {
                        return Ok(self.counted(vec![KeyedOutcome::Ended; count.writes.len()]));
                    }
                    match self.obtain_grant(&count.to, count.ttl_if_new).await {
                        Err(Fault::Elsewhere(home)) => return self.strike(&count, home),
                        outcome => outcome?,
                    }
                }
                Ok(counted) if counted.outcomes.contains(&KeyedOutcome::NotWhole) => {
                    // The home's shards are being sealed: that takes a call to each.
                    self.seal_what_is_left();
                    self.host.sleep_ms(WHOLE_EVERY_MS).await;
                    if self.host.now_ms() - begun_ms > WHOLE_MS_MAX {
                        return Ok(counted);
                    }
                }
                outcome => return outcome,
            }
        }
        Err(Fault::Unavailable(
            "the counter is being ended and created again".to_owned(),
        ))
    }

    /// Whether all writes name a generation that has ended: a grant would create the counter again. Writes with
    /// clients' keys may have been counted before the end, which the ledger knows.
    async fn have_ended(&self, count: &CountKeyed) -> Result<bool, Fault> {
        let named = count.writes.first().map_or(0, |write| write.generation);
        let is_one = count.writes.iter().all(|write| write.generation == named);
        if count.keys != KeySource::Drawn || named == 0 || !is_one {
            return Ok(false);
        }
        self.may_live(&count.to, named).await.map(|lives| !lives)
    }

    /// Answers which writes were counted; counts nothing.
    pub(super) fn on_recall(&self, recall_call: Result<Recall, Fault>) -> Result<Counted, Fault> {
        let Recall { writes, .. } = recall_call?;
        self.readable()?;
        let state = self.state.borrow();
        let slots = state.record_slots(KeySource::Clients);
        let broken: RefCell<Option<Fault>> = RefCell::default();
        let known = |key: WriteKey| -> Option<StoredRecord> {
            self.rows.record(&slots, key).unwrap_or_else(|fault| {
                broken.replace(Some(fault));
                None
            })
        };
        let outcomes = recall(&writes, &known);
        match broken.take() {
            Some(fault) => Err(fault),
            None => Ok(self.counted(outcomes)),
        }
    }

    /// Load, decide, write: no await, so nothing can run in between.
    fn try_count(self: &Rc<Self>, count: &CountKeyed) -> Result<Counted, Fault> {
        let now_ms = self.host.now_ms();
        let CountKeyed { writes, moves, .. } = count;
        let is_of_now = self.state.borrow().check_newest(count.newest, now_ms);
        is_of_now.map_err(Fault::Refused)?;
        let limits = self.limits_of(count.keys);
        let (outcomes, changes) = self.decide(now_ms, count.keys, |state, known, changes| {
            let applied = match count.keys {
                KeySource::Numbered => {
                    state.apply_numbered(&numbered(count, now_ms, known.numbers), changes)
                }
                _ => state.apply_keyed(writes, *moves, limits, now_ms, known.record, changes),
            };
            applied.map_err(Fault::Refused)
        })?;
        if changes.hot {
            self.record_change(now_ms);
            metrics::committed(&self.host, 1);
            self.record_writes(&count.to, count.writes.len(), now_ms);
        }
        Ok(self.counted(outcomes))
    }

    fn counted(&self, outcomes: Vec<KeyedOutcome>) -> Counted {
        Counted {
            outcomes,
            shards: self.state.borrow().spread(),
            home: None,
            is_apart: self.is_apart(),
            totals: self.state.borrow().totals(),
        }
    }

    /// Strikes writes out, because all writes go to the home: they will not be counted here under their present claims,
    /// unless they already were.
    fn strike(self: &Rc<Self>, count: &CountKeyed, home: Datacenter) -> Result<Counted, Fault> {
        let now_ms = self.host.now_ms();
        let CountKeyed { writes, moves, .. } = count;
        let limits = self.limits_of(count.keys);
        let (outcomes, _) = self.decide(now_ms, count.keys, |state, known, changes| {
            Ok(match count.keys {
                KeySource::Numbered => {
                    state.strike_numbered(&numbered(count, now_ms, known.numbers), &home, changes)
                }
                _ => state.strike(writes, *moves, limits, now_ms, known.record, changes),
            })
        })?;
        Ok(Counted {
            outcomes,
            shards: 1,
            home: Some(home),
            is_apart: self.is_apart(),
            totals: None,
        })
    }

    /// Answers where numbered writes are counted. Their sender asks this lead first.
    pub(super) async fn on_claim(
        self: &Rc<Self>,
        claim: Result<Claim, Fault>,
    ) -> Result<ClaimAnswer, Fault> {
        let claim = claim?;
        self.readable()?;
        let me = CellAddress::lead(&claim.counter, &claim.datacenter);
        let here = &me.datacenter;
        let struck_at = claim.struck_at.as_ref().map_or((None, 0), |holder| {
            let is_here = holder.datacenter == *here;
            let to = (!is_here).then(|| holder.datacenter.clone());
            (to, holder.moves)
        });
        let mut next = None;
        loop {
            let (holders, _) = self.decide(
                self.host.now_ms(),
                KeySource::Numbered,
                |state, known, changes| {
                    let (keys, next) = (&claim.keys, next.as_ref());
                    Ok(state.place_numbered(keys, &struck_at, next, known.numbers, changes))
                },
            )?;
            if next.is_none() && holders.contains(&None) {
                next = Some(match self.obtain_grant(&me, claim.ttl_if_new).await {
                    Ok(()) => None,
                    Err(Fault::Elsewhere(home)) => Some(home),
                    Err(fault) => return Err(fault),
                });
                continue;
            }
            let owner = |holder: Option<WritePlace>| match holder {
                Some((to, moves)) => KeyOwner::Lead(ClaimHolder {
                    datacenter: to.unwrap_or_else(|| here.clone()),
                    moves,
                }),
                None => KeyOwner::Full,
            };
            return Ok(ClaimAnswer {
                generation: self.state.borrow().generation().unwrap_or(0),
                owners: holders.into_iter().map(owner).collect(),
            });
        }
    }

    /// Answers the decided numbers of lanes.
    pub(super) fn on_read_numbers(
        &self,
        read: Result<ReadNumbers, Fault>,
    ) -> Result<Vec<Numbers>, Fault> {
        let ReadNumbers { lanes, .. } = read?;
        self.readable()?;
        lanes
            .into_iter()
            .map(|lane| self.rows.numbers(lane))
            .collect()
    }

    pub(super) fn limits_of(&self, keys: KeySource) -> LedgerLimits {
        match keys {
            KeySource::Drawn => DRAWN,
            KeySource::Public => {
                LedgerLimits::public(self.ledger_limits.kept_ms, 0, PUBLIC_RECORDS_MAX)
            }
            KeySource::Clients | KeySource::Numbered => self.ledger_limits,
        }
    }

    /// Decides by the ledger, and writes the result in one commit.
    pub(super) fn decide<T>(
        self: &Rc<Self>,
        now_ms: i64,
        keys: KeySource,
        decide: impl FnOnce(&mut CellState, StoredRecords<'_>, &mut Changes) -> Result<T, Fault>,
    ) -> Result<(T, Changes), Fault> {
        self.readable()?;
        self.let_records_go(now_ms)?;
        let newest = |core: &Self| core.state.borrow().ledger(keys).slots().last();
        let newest_before = newest(self);
        let slots = self.state.borrow().record_slots(keys);
        let broken: RefCell<Option<Fault>> = RefCell::default();
        let record = |key: WriteKey| -> Option<StoredRecord> {
            self.rows.record(&slots, key).unwrap_or_else(|fault| {
                broken.replace(Some(fault));
                None
            })
        };
        let numbers = |lane: WriteKey| -> Numbers {
            self.rows.numbers(lane).unwrap_or_else(|fault| {
                broken.replace(Some(fault));
                Numbers::default()
            })
        };
        let known = StoredRecords {
            record: &record,
            numbers: &numbers,
        };
        let mut changes = Changes::default();
        let (decided, written) = {
            let mut state = self.state.borrow_mut();
            let decided = decide(&mut state, known, &mut changes)?;
            // An unreadable record may exist, so nothing of this may be stored.
            let written = match broken.take() {
                Some(fault) => Err(fault),
                None => self.rows.write(&state, &changes, now_ms.div_euclid(1_000)),
            };
            (decided, written)
        };
        if written.is_err() {
            metrics::count(&self.host, Metric::CommitFailed);
        }
        self.written(written)?;
        if newest(self) != newest_before {
            self.arm_for_ledger();
        }
        Ok((decided, changes))
    }

    /// Deletes old records.
    pub(super) fn let_records_go(&self, now_ms: i64) -> Result<(), Fault> {
        let newest = self.state.borrow_mut().expire_records(now_ms);
        match newest {
            Some(newest) => {
                let deleted = self.rows.delete_records(newest, &self.state.borrow());
                self.written(deleted)
            }
            None => Ok(()),
        }
    }

    /// Sets the alarm for when the oldest records may be deleted.
    pub(super) fn arm_for_ledger(self: &Rc<Self>) {
        let due_ms = self.state.borrow().records_due_ms();
        if let Some(due_ms) = due_ms {
            self.arm_at(due_ms);
        }
    }
}

fn numbered<'a>(count: &'a CountKeyed, now_ms: i64, known: KnownNumbers<'a>) -> NumberedWrites<'a> {
    NumberedWrites {
        writes: &count.writes,
        moves: count.moves,
        now_ms,
        known,
    }
}
