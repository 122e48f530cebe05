//! How a limiter of a datacenter decides global limits: from its lease, and by requests for more.
//!
//! Invariant: it admits only what it holds. What it holds ends with its memory. A spent lease is a refusal, whether or
//! not the global limiter answers: an error happens only before anything is lent.

use std::rc::Rc;

use super::limiter::{LimiterCore, NamedDemand};
use crate::core::cluster::spread::LimiterCounts;
use crate::core::limit::borrowers::{Borrowers, DueRequest};
use crate::core::limit::lease::{self, Admission};
use crate::core::limit::table::Full;
use crate::host::Host;
use crate::node::shared::concurrency::all_settled;
use crate::node::shared::lease_requests::lend;
use crate::node::shared::memory::{self, MemoryKind};
use crate::node::shared::{call, call_within};
use crate::protocol::messages::{
    CheckAnswer, CheckKeys, DemandKind, DemandOutcome, Fault, ForwardCheck, KeyDemand, RecallLease,
};
use crate::protocol::names::LimiterAddress;

/// How long another limiter, mostly the global one, may take to answer: a round trip around the world is 0.3 s, and a
/// recall there may take two more.
const LEASE_MS_MAX: u64 = 1_500;

/// How long a check waits for the global limiter, and below, how often it checks whether another check's request was
/// answered.
const WAIT_MS_MAX: i64 = 2_000;
const LOOK_EVERY_MS: u64 = 2;

/// How long a refund waits for a request that left before it: a round trip around the world, and a recall.
const TOLD_MS_MAX: i64 = 1_000;

/// How often a check has the global limiter asked: others may have taken what the answer brought.
const ASKED_TIMES_MAX: u32 = 8;

/// The most reports of one second; and below, how many are sent at once. The rest is sent in the next second.
const REPORTS_MAX: usize = 1_000;
const REPORTS_AT_ONCE: usize = 32;

impl LimiterCore {
    fn with_borrowers<T>(&self, me: &LimiterAddress, work: impl FnOnce(&mut Borrowers) -> T) -> T {
        let mut borrowers = self.borrowers.borrow_mut();
        work(borrowers.get_or_insert_with(|| {
            let datacenter = me.datacenter.as_ref();
            let name = datacenter.map_or_else(String::new, ToString::to_string);
            let memory = memory::share(&self.host, MemoryKind::Limiters);
            Borrowers::new(&name, self.host.random()).sharing(memory)
        }))
    }

    /// Decides a demand of a global limit.
    pub(super) async fn judge_worlds(
        self: &Rc<Self>,
        me: &LimiterAddress,
        asked: &NamedDemand<'_>,
        waits: bool,
        remote_calls: &mut u32,
    ) -> DemandOutcome {
        let KeyDemand { cost, wish, .. } = asked.demand;
        if *wish == DemandKind::Refund {
            return self.refund_worlds(me, asked, remote_calls).await;
        }
        if *wish != DemandKind::Consume {
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
            let refused = match decided {
                Ok(Admission::Decided(verdict)) if verdict.is_allowed => {
                    admitted += 1;
                    first = first.or(Some(verdict));
                    continue;
                }
                Ok(Admission::Decided(verdict)) => Some(verdict),
                Ok(Admission::Away) if admitted == 0 => return DemandOutcome::Unreachable,
                Ok(Admission::Ask) if admitted == 0 => return DemandOutcome::Later,
                Err(Full) if !waits && admitted == 0 => return DemandOutcome::Later,
                // No room for a lease: the global limiter decides each call.
                Err(Full) if admitted == 0 => {
                    *remote_calls += 1;
                    return self.ask_world_to(asked, DemandKind::Consume, *cost).await;
                }
                // The callers before have consumed: the others are decided by themselves, when they ask again.
                Ok(Admission::Ask | Admission::Away) | Err(Full) => None,
            };
            return DemandOutcome::Known {
                admitted,
                first,
                refused,
            };
        }
        if self.ask_soon(me, asked) {
            *remote_calls += 1;
        }
        DemandOutcome::Known {
            admitted,
            first,
            refused: None,
        }
    }

    /// Gives back to the lease what was spent of it, and the rest to the global limiter.
    async fn refund_worlds(
        &self,
        me: &LimiterAddress,
        asked: &NamedDemand<'_>,
        remote_calls: &mut u32,
    ) -> DemandOutcome {
        let KeyDemand { key, cost, .. } = asked.demand;
        let given = self.with_borrowers(me, |borrowers| {
            borrowers.refund(asked.name.as_str(), key.as_str(), *cost, self.host.now_ms())
        });
        // At most one request is on its way. One that left before this refund does not tell of it.
        let begun_ms = self.host.now_ms();
        let is_asking = || {
            self.with_borrowers(me, |borrowers| {
                borrowers.is_asking(asked.name.as_str(), key.as_str(), self.host.now_ms())
            })
        };
        while given > 0 && is_asking() && self.host.now_ms() - begun_ms < TOLD_MS_MAX {
            self.host.sleep_ms(LOOK_EVERY_MS).await;
        }
        // What is lost now is reported again; the rest is given back by the global limiter.
        if let Some(due) = self.due(me, asked) {
            *remote_calls += 1;
            let _ = self.send(due).await;
        }
        *remote_calls += 1;
        let judged = self.ask_world(asked, cost.saturating_sub(given)).await;
        self.with_borrowers(me, |borrowers| {
            borrowers.hope(asked.name.as_str(), key.as_str());
        });
        judged
    }

    /// The result of a demand as far as this limiter can decide. A demand that needs a request does not wait here.
    fn try_admit(&self, me: &LimiterAddress, asked: &NamedDemand<'_>) -> Result<Admission, Full> {
        let admission = self.look(me, asked)?;
        if admission == Admission::Ask {
            self.leave(me, asked);
        }
        Ok(admission)
    }

    fn look(&self, me: &LimiterAddress, asked: &NamedDemand<'_>) -> Result<Admission, Full> {
        let now_ms = self.host.now_ms();
        self.with_borrowers(me, |borrowers| borrowers.check(&asked.check(), now_ms))
    }

    fn leave(&self, me: &LimiterAddress, asked: &NamedDemand<'_>) {
        let KeyDemand { key, cost, .. } = asked.demand;
        self.with_borrowers(me, |borrowers| {
            borrowers.leave(asked.name.as_str(), key.as_str(), *cost);
        });
    }

    /// The result of a demand, after the global limiter was asked if needed.
    async fn admit(
        self: &Rc<Self>,
        me: &LimiterAddress,
        asked: &NamedDemand<'_>,
        remote_calls: &mut u32,
    ) -> Result<Admission, Full> {
        let begun_ms = self.host.now_ms();
        let mut asked_times = 0;
        loop {
            let admission = self.look(me, asked)?;
            if admission != Admission::Ask {
                return Ok(admission);
            }
            let _waiting = DemandGuard {
                core: self,
                me,
                asked,
            };
            if self.host.now_ms() - begun_ms > WAIT_MS_MAX || asked_times >= ASKED_TIMES_MAX {
                break;
            }
            match self.due(me, asked) {
                Some(due) => {
                    asked_times += 1;
                    *remote_calls += 1;
                    // A lost answer is seen at the next check.
                    let _ = self.send(due).await;
                }
                // Another check has asked for it.
                None => self.host.sleep_ms(LOOK_EVERY_MS).await,
            }
        }
        let key = asked.demand.key.as_str();
        Ok(self.with_borrowers(me, |borrowers| {
            borrowers.without_lender(asked.name.as_str(), key, self.host.now_ms())
        }))
    }

    fn due(&self, me: &LimiterAddress, asked: &NamedDemand<'_>) -> Option<DueRequest> {
        let key = asked.demand.key.as_str();
        self.with_borrowers(me, |borrowers| {
            borrowers.due(asked.name.as_str(), key, self.host.now_ms())
        })
    }

    /// Sends a request for more after the answer, if it is time; returns whether it is.
    fn ask_soon(self: &Rc<Self>, me: &LimiterAddress, asked: &NamedDemand<'_>) -> bool {
        let Some(due) = self.due(me, asked) else {
            return false;
        };
        let core = self.clone();
        self.object.wait_until(async move {
            // A lost request is repeated.
            let _ = core.send(due).await;
        });
        true
    }

    async fn send(&self, due: DueRequest) -> Result<(), Fault> {
        let answer = lend(&self.host, None, &due, LEASE_MS_MAX).await;
        match self.borrowers.borrow_mut().as_mut() {
            Some(borrowers) => borrowers.heard(&due, answer, self.host.now_ms()),
            None => Ok(()),
        }
    }

    /// Reports on keys that nobody asks for any more.
    pub(super) async fn report(&self) {
        let due = {
            let mut borrowers = self.borrowers.borrow_mut();
            let Some(borrowers) = borrowers.as_mut() else {
                return;
            };
            borrowers.all_due(REPORTS_MAX, self.host.now_ms())
        };
        let send = |due: DueRequest| async move {
            // A lost report is repeated.
            let _ = self.send(due).await;
        };
        all_settled(due.into_iter().map(send), REPORTS_AT_ONCE).await;
    }

    /// The global state of a key, after so much was given back there.
    async fn ask_world(&self, asked: &NamedDemand<'_>, refund: u64) -> DemandOutcome {
        let (wish, cost) = if refund > 0 {
            (DemandKind::Refund, refund)
        } else {
            (DemandKind::Look, asked.demand.cost)
        };
        self.ask_world_to(asked, wish, cost).await
    }

    async fn ask_world_to(
        &self,
        asked: &NamedDemand<'_>,
        wish: DemandKind,
        cost: u64,
    ) -> DemandOutcome {
        let demand = KeyDemand {
            wish,
            cost,
            times: 1,
            ..asked.demand.clone()
        };
        let to = call::limiter_of(&self.host, None, asked.name, &asked.demand.key);
        ask(&self.host, to, asked, demand).await
    }

    /// Returns what a lease holds, to the global limiter.
    pub(super) fn on_recall(
        &self,
        recall: Result<RecallLease, Fault>,
    ) -> Result<Option<lease::LeaseRequest>, Fault> {
        let RecallLease {
            name,
            key,
            lease,
            takes_all,
            ..
        } = recall?;
        let mut borrowers = self.borrowers.borrow_mut();
        Ok(borrowers.as_mut().and_then(|borrowers| {
            borrowers.recall(
                name.as_str(),
                key.as_str(),
                &lease,
                takes_all,
                self.host.now_ms(),
            )
        }))
    }
}

/// A waiting demand, until this is dropped for whatever reason.
struct DemandGuard<'a> {
    core: &'a LimiterCore,
    me: &'a LimiterAddress,
    asked: &'a NamedDemand<'a>,
}

impl Drop for DemandGuard<'_> {
    fn drop(&mut self) {
        self.core.leave(self.me, self.asked);
    }
}

/// Asks another limiter to decide a demand under the policy of this one.
pub(super) async fn ask(
    host: &Host,
    to: LimiterAddress,
    asked: &NamedDemand<'_>,
    demand: KeyDemand,
) -> DemandOutcome {
    let check = check_of(to, asked, demand);
    judged_of(call_within(host, &check, LEASE_MS_MAX).await)
}

/// Asks another limiter to decide what this one does not.
pub(super) async fn send_on(
    host: &Host,
    to: LimiterAddress,
    asked: &NamedDemand<'_>,
    counts: LimiterCounts,
) -> DemandOutcome {
    let check = check_of(to, asked, asked.demand.clone());
    judged_of(call_within(host, &ForwardCheck { check, counts }, LEASE_MS_MAX).await)
}

fn check_of(to: LimiterAddress, asked: &NamedDemand<'_>, demand: KeyDemand) -> CheckKeys {
    CheckKeys {
        to,
        policies: vec![(asked.name.clone(), asked.policy.clone())],
        demands: vec![KeyDemand {
            policy: 0,
            ..demand
        }],
        waits: true,
    }
}

fn judged_of(checked: Result<CheckAnswer, Fault>) -> DemandOutcome {
    let judged = checked
        .ok()
        .and_then(|checked| checked.outcomes.into_iter().next());
    judged.unwrap_or(DemandOutcome::Unreachable)
}
