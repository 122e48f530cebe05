//! How a limiter of a datacenter judges limits that hold for the world: from what it was lent, and by asking for more.
//!
//! Invariant: it admits only what it holds. What it holds ends with its memory.

use std::rc::Rc;

use worker::Env;

use super::limiter::{Asked, LimiterCore};
use crate::limit::holders::{Due, Holders};
use crate::limit::lease::Admission;
use crate::limit::meter::Verdict;
use crate::limit::table::Full;
use crate::platform::call;
use crate::platform::clock::{now_ms, random, sleep_ms};
use crate::platform::lend::lend;
use crate::platform::settled::all_settled;
use crate::protocol::messages::{Check, Demand, Fault, Judged, Wish};
use crate::protocol::names::{self, LimiterAddress};

/// How long another limiter may take to answer, most often that of the world: a round trip around it is 0.3 s.
const LEASE_MS_MAX: u64 = 1_000;

/// How long a check waits for the world, and how often it looks whether what somebody else asked for has come.
const WAIT_MS_MAX: i64 = 2_000;
const LOOK_EVERY_MS: u64 = 2;

/// How often a check has the world asked: others may have taken what the answer brought.
const ASKED_TIMES_MAX: u32 = 3;

/// Reports of one second, and how many of them at once. What is left is sent in the next one.
const REPORTS_MAX: usize = 1_000;
const REPORTS_AT_ONCE: usize = 32;

impl LimiterCore {
    fn with_holders<T>(&self, me: &LimiterAddress, work: impl FnOnce(&mut Holders) -> T) -> T {
        let mut holders = self.holders.borrow_mut();
        work(holders.get_or_insert_with(|| {
            let datacenter = me.datacenter.as_ref();
            let name = datacenter.map_or_else(String::new, ToString::to_string);
            Holders::new(&name, random())
        }))
    }

    /// Judges a demand of a limit that holds for the world.
    pub(super) async fn judge_worlds(
        self: &Rc<Self>,
        me: &LimiterAddress,
        asked: &Asked<'_>,
        waits: bool,
        remote_calls: &mut u32,
    ) -> Judged {
        let Demand {
            key, cost, wish, ..
        } = asked.demand;
        if *wish == Wish::Refund {
            let given = self.with_holders(me, |holders| {
                holders.refund(asked.name.as_str(), key.as_str(), *cost, now_ms())
            });
            // What is not heard of now is told again; the rest is the world's to give back.
            if let Some(due) = self.due(me, asked) {
                *remote_calls += 1;
                let _ = self.send(due).await;
            }
            *remote_calls += 1;
            let judged = self.ask_world(asked, cost.saturating_sub(given)).await;
            self.with_holders(me, |holders| {
                holders.hope(asked.name.as_str(), key.as_str());
            });
            return judged;
        }
        if *wish != Wish::Consume {
            *remote_calls += 1;
            return self.ask_world(asked, 0).await;
        }
        let mut admitted = 0;
        let mut first = None;
        while admitted < asked.demand.times {
            let decided = if waits {
                self.admit(me, asked, remote_calls).await
            } else {
                self.try_admit(me, asked)
            };
            match decided {
                Ok(Some(verdict)) if verdict.is_allowed => {
                    admitted += 1;
                    first = first.or(Some(verdict));
                }
                Ok(refused @ Some(_)) => {
                    return Judged::Known {
                        admitted,
                        first,
                        refused,
                    };
                }
                Ok(None) if waits => return Judged::Unreachable,
                Ok(None) if admitted == 0 => return Judged::Later,
                // Those before have consumed: the others are judged by themselves, when they ask again.
                Ok(None) => {
                    return Judged::Known {
                        admitted,
                        first,
                        refused: None,
                    };
                }
                Err(Full) => return Judged::Full,
            }
        }
        if self.ask_soon(me, asked) {
            *remote_calls += 1;
        }
        Judged::Known {
            admitted,
            first,
            refused: None,
        }
    }

    /// The verdict as far as this limiter can tell; `None` where the world must be asked.
    fn try_admit(&self, me: &LimiterAddress, asked: &Asked<'_>) -> Result<Option<Verdict>, Full> {
        let Demand { key, cost, .. } = asked.demand;
        let admission = self.with_holders(me, |holders| {
            holders.check(
                asked.name.as_str(),
                asked.policy,
                key.as_str(),
                *cost,
                now_ms(),
            )
        })?;
        Ok(match admission {
            Admission::Decided(verdict) => Some(verdict),
            Admission::Ask => None,
        })
    }

    /// The verdict, after the world was asked where that is needed; `None` where it does not answer.
    async fn admit(
        self: &Rc<Self>,
        me: &LimiterAddress,
        asked: &Asked<'_>,
        remote_calls: &mut u32,
    ) -> Result<Option<Verdict>, Full> {
        let begun_ms = now_ms();
        let mut asked_times = 0;
        loop {
            if let Some(verdict) = self.try_admit(me, asked)? {
                return Ok(Some(verdict));
            }
            if now_ms() - begun_ms > WAIT_MS_MAX || asked_times >= ASKED_TIMES_MAX {
                return Ok(None);
            }
            match self.due(me, asked) {
                Some(due) => {
                    asked_times += 1;
                    *remote_calls += 1;
                    if self.send(due).await.is_err() {
                        return Ok(None);
                    }
                }
                // Somebody else has asked for it.
                None => sleep_ms(LOOK_EVERY_MS).await,
            }
        }
    }

    fn due(&self, me: &LimiterAddress, asked: &Asked<'_>) -> Option<Due> {
        let key = asked.demand.key.as_str();
        self.with_holders(me, |holders| {
            holders.due(asked.name.as_str(), key, now_ms())
        })
    }

    /// Asks for more after the answer, where it is time to; whether it is.
    fn ask_soon(self: &Rc<Self>, me: &LimiterAddress, asked: &Asked<'_>) -> bool {
        let Some(due) = self.due(me, asked) else {
            return false;
        };
        let core = self.clone();
        self.object.wait_until(async move {
            // What is lost is asked for again.
            let _ = core.send(due).await;
        });
        true
    }

    async fn send(&self, due: Due) -> Result<(), Fault> {
        let answer = lend(&self.env, None, &due, LEASE_MS_MAX).await;
        match self.holders.borrow_mut().as_mut() {
            Some(holders) => holders.heard(&due, answer, now_ms()),
            None => Ok(()),
        }
    }

    /// Reports what nobody asks for any more.
    pub(super) async fn report(&self) {
        let due = {
            let mut holders = self.holders.borrow_mut();
            let Some(holders) = holders.as_mut() else {
                return;
            };
            holders.all_due(REPORTS_MAX, now_ms())
        };
        let send = |due: Due| async move {
            // What is lost is reported again.
            let _ = self.send(due).await;
        };
        all_settled(due.into_iter().map(send), REPORTS_AT_ONCE).await;
    }

    /// How a key stands in the world, after so much was given back there.
    async fn ask_world(&self, asked: &Asked<'_>, refund: u64) -> Judged {
        let (wish, cost) = if refund > 0 {
            (Wish::Refund, refund)
        } else {
            (Wish::Look, asked.demand.cost)
        };
        let demand = Demand {
            wish,
            cost,
            ..asked.demand.clone()
        };
        let to = call::limiter_of(&self.env, None, asked.name, &asked.demand.key);
        ask(&self.env, to, asked, demand).await
    }
}

/// Has another limiter judge a demand under the policy of this one.
pub(super) async fn ask(
    env: &Env,
    to: LimiterAddress,
    asked: &Asked<'_>,
    demand: Demand,
) -> Judged {
    let check = Check {
        to,
        policies: vec![(asked.name.clone(), asked.policy.clone())],
        demands: vec![Demand {
            policy: 0,
            ..demand
        }],
        waits: true,
    };
    let to = names::limiter(&check.to);
    let checked = call::object_within(env, &to, &check, LEASE_MS_MAX).await;
    let judged = checked
        .ok()
        .and_then(|checked| checked.judged.into_iter().next());
    judged.unwrap_or(Judged::Unreachable)
}
