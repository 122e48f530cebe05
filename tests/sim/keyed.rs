//! Keyed writes at a lead, as `objects::count`.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tally::core::counter::cell::{Cell, KnownNumbers, NumberedWrites, recall};
use tally::core::counter::flush::{Changes, Refusal};
use tally::core::counter::id::Datacenter;
use tally::core::counter::ledger::{Kept, Keyed, KeyedOutcome, Keys, WriteKey};
use tally::core::counter::ledgers::LedgerLimits;
use tally::core::counter::numbers::Place;
use tally::protocol::messages::{Claimed, Counted, Fault, Holder, Owner};

use super::GRANT_TRIES;
use super::cell::Core;
use super::network::unavailable;

/// A day: no record goes while the world lasts.
pub const LIMITS: LedgerLimits = LedgerLimits {
    keys: Keys::Clients,
    kept_ms: 86_400_000,
    records_max: 1_000,
};

const WHOLE_EVERY_MS: i64 = 20;
const WHOLE_MS_MAX: i64 = 700;
const WHOLE_TRIES: usize = 35;

struct Known<'a> {
    record: &'a dyn Fn(WriteKey) -> Option<Kept>,
    numbers: KnownNumbers<'a>,
}

impl Core {
    pub async fn on_count(
        self: &Rc<Self>,
        writes: Vec<Keyed>,
        moves: Option<u32>,
        keys: Keys,
    ) -> Result<Counted, Fault> {
        let begun_ms = self.air.now_ms.get();
        for _ in 0..GRANT_TRIES + WHOLE_TRIES {
            match self.try_count(&writes, moves, keys) {
                Err(Fault::Refused(Refusal::NeedsGrant)) => match self.obtain_grant().await {
                    Err(Fault::Elsewhere(home)) => return self.strike(&writes, moves, keys, home),
                    outcome => outcome?,
                },
                Ok(counted) if counted.outcomes.contains(&KeyedOutcome::NotWhole) => {
                    self.seal_what_is_left();
                    self.sleep(WHOLE_EVERY_MS).await;
                    if self.air.now_ms.get() - begun_ms > WHOLE_MS_MAX {
                        return Ok(counted);
                    }
                }
                outcome => return outcome,
            }
        }
        Err(unavailable())
    }

    async fn sleep(&self, milliseconds: i64) {
        let until_ms = self.air.now_ms.get() + milliseconds;
        poll_fn(|_| match self.air.now_ms.get() < until_ms {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    fn try_count(
        &self,
        writes: &[Keyed],
        moves: Option<u32>,
        keys: Keys,
    ) -> Result<Counted, Fault> {
        let mut at_ms = 0;
        let limits = LedgerLimits { keys, ..LIMITS };
        let outcomes = self.by_ledger(keys, |state, now_ms, known, changes| {
            at_ms = now_ms;
            let applied = match keys {
                Keys::Numbered => {
                    let known = known.numbers;
                    let numbered = NumberedWrites {
                        writes,
                        moves,
                        now_ms,
                        known,
                    };
                    state.apply_numbered(&numbered, changes)
                }
                _ => state.apply_keyed(writes, moves, limits, now_ms, known.record, changes),
            };
            applied.map_err(Fault::Refused)
        })?;
        let mut oracle = self.air.oracle.borrow_mut();
        for (write, outcome) in writes.iter().zip(&outcomes) {
            match outcome {
                KeyedOutcome::Counted(recorded) => {
                    oracle.counted((self.place, at_ms), write.key, recorded);
                }
                KeyedOutcome::BelowFloor => oracle.refuses_below(self.place, write),
                _ => {}
            }
        }
        drop(oracle);
        Ok(Counted {
            outcomes,
            shards: self.spread(),
            home: None,
        })
    }

    pub fn on_recall(&self, writes: &[Keyed]) -> Counted {
        let slots = self.state.borrow().record_slots(Keys::Clients);
        let rows = self.rows.borrow();
        let known = |key| rows.record(&slots, key);
        Counted {
            outcomes: recall(writes, &known),
            shards: self.spread(),
            home: None,
        }
    }

    fn strike(
        &self,
        writes: &[Keyed],
        moves: Option<u32>,
        keys: Keys,
        home: Datacenter,
    ) -> Result<Counted, Fault> {
        let limits = LedgerLimits { keys, ..LIMITS };
        let outcomes = self.by_ledger(keys, |state, now_ms, known, changes| {
            Ok(match keys {
                Keys::Numbered => {
                    let known = known.numbers;
                    let numbered = NumberedWrites {
                        writes,
                        moves,
                        now_ms,
                        known,
                    };
                    state.strike_numbered(&numbered, &home, changes)
                }
                _ => state.strike(writes, moves, limits, now_ms, known.record, changes),
            })
        })?;
        Ok(Counted {
            outcomes,
            shards: 1,
            home: Some(home),
        })
    }

    pub async fn on_claim(
        self: &Rc<Self>,
        here: Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<Holder>,
    ) -> Result<Claimed, Fault> {
        let struck_at = struck_at.map_or((None, 0), |holder| {
            let is_here = holder.datacenter == here;
            ((!is_here).then_some(holder.datacenter), holder.moves)
        });
        let mut next = None;
        loop {
            let places = self.by_ledger(Keys::Numbered, |state, _, known, changes| {
                let next = next.as_ref();
                Ok(state.place_numbered(&keys, &struck_at, next, known.numbers, changes))
            })?;
            if next.is_none() && places.contains(&None) {
                next = Some(match self.obtain_grant().await {
                    Ok(()) => None,
                    Err(Fault::Elsewhere(home)) => Some(home),
                    Err(fault) => return Err(fault),
                });
                continue;
            }
            let owner = |place: Option<Place>| match place {
                Some((to, moves)) => Owner::Lead(Holder {
                    datacenter: to.unwrap_or_else(|| here.clone()),
                    moves,
                }),
                None => Owner::Full,
            };
            return Ok(Claimed {
                generation: self.state.borrow().generation().unwrap_or(0),
                owners: places.into_iter().map(owner).collect(),
            });
        }
    }

    fn by_ledger<T>(
        &self,
        keys: Keys,
        decide: impl FnOnce(&mut Cell, i64, Known<'_>, &mut Changes) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let now_ms = self.now_ms();
        let newest = self.state.borrow_mut().expire_records(now_ms);
        if let Some(newest) = newest {
            self.write(|rows, state| rows.delete_records(newest, state))?;
        }
        let slots = self.state.borrow().record_slots(keys);
        let mut changes = Changes::default();
        let decided = {
            let rows = self.rows.borrow();
            let known = Known {
                record: &|key| rows.record(&slots, key),
                numbers: &|lane| rows.numbers(lane),
            };
            decide(&mut self.state.borrow_mut(), now_ms, known, &mut changes)?
        };
        self.write(|rows, state| rows.write(state, &changes, now_ms.div_euclid(1_000)))?;
        Ok(decided)
    }
}
