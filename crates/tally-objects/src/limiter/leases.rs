//! A limiter of a datacenter decides global limits from its lease, and requests more quota.
//!
//! Invariant: it admits only from its lease, which ends with its memory. A spent lease is a refusal, whether or not the
//! global limiter answers. An error happens only before anything is lent.

use std::rc::Rc;

use super::object::{LimiterCore, NamedDemand};
use tally_core::cluster::spread::LimiterCounts;
use tally_core::limit::borrowers::{Borrowers, DueRequest};
use tally_core::limit::lease::{self, Admission};
use tally_core::limit::table::Full;
use tally_host::Host;
use tally_shared::concurrency::all_settled;
use tally_shared::lease_requests::lend;
use tally_shared::memory::{self, MemoryKind};
use tally_shared::{call, call_within};
use tally_wire::messages::{
    CheckAnswer, CheckKeys, DemandKind, DemandOutcome, Fault, ForwardCheck, KeyDemand, RecallLease,
};
use tally_wire::names::LimiterAddress;

/// How long another limiter, mostly the global one, may take to answer, milliseconds: a round trip around the world is
/// 0.3 s, and a recall there may take two more.
const LEASE_MS_MAX: u64 = 1_500;

/// How long a check waits for the global limiter and, below, the interval at which it looks whether another check's
/// request was answered, milliseconds.
const WAIT_MS_MAX: i64 = 2_000;
const LOOK_EVERY_MS: u64 = 2;

/// How long a refund waits for a request that was sent before it, milliseconds: a round trip around the world, and a
/// recall.
const REFUND_WAIT_MS_MAX: i64 = 1_000;

/// The most requests of one check to the global limiter: other checks may have taken what an answer granted.
const REQUESTS_MAX: u32 = 8;

/// The most reports of one second and, below, of those sent at once. The rest is sent in the next second.
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
    pub(super) async fn judge_global(
        self: &Rc<Self>,
        me: &LimiterAddress,
        demand: &NamedDemand<'_>,
        waits: bool,
        remote_calls: &mut u32,
    ) -> DemandOutcome {
        let KeyDemand { cost, kind, .. } = demand.key_demand;
        if *kind == DemandKind::Refund {
            return self.refund_global(me, demand, remote_calls).await;
        }
        if let DemandKind::Call(_) = kind {
            *remote_calls += 1;
            return self.ask_global_with(demand, *kind, *cost).await;
        }
        if *kind != DemandKind::Consume {
            *remote_calls += 1;
            return self.ask_global(demand, 0).await;
        }
        let mut admitted = 0;
        let mut first = None;
        while admitted < demand.key_demand.times {
            let decided = if waits {
                self.admit(me, demand, remote_calls).await
            } else {
                self.try_admit(me, demand)
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
                    return self
                        .ask_global_with(demand, DemandKind::Consume, *cost)
                        .await;
                }
                // The callers before this one have consumed. The others are decided separately, when they ask again.
                Ok(Admission::Ask | Admission::Away) | Err(Full) => None,
            };
            return DemandOutcome::Known {
                admitted,
                first,
                refused,
            };
        }
        if self.ask_soon(me, demand) {
            *remote_calls += 1;
        }
        DemandOutcome::Known {
            admitted,
            first,
            refused: None,
        }
    }

    /// Returns a refund to the lease, as far as the lease was spent, and the rest to the global limiter.
    async fn refund_global(
        &self,
        me: &LimiterAddress,
        demand: &NamedDemand<'_>,
        remote_calls: &mut u32,
    ) -> DemandOutcome {
        let KeyDemand { key, cost, .. } = demand.key_demand;
        let refunded = self.with_borrowers(me, |borrowers| {
            borrowers.refund(
                demand.name.as_str(),
                key.as_str(),
                *cost,
                self.host.now_ms(),
            )
        });
        // At most one request is in flight. If it left before this refund, it does not report the refund.
        let begun_ms = self.host.now_ms();
        let is_request_pending = || {
            self.with_borrowers(me, |borrowers| {
                borrowers.has_pending_request(
                    demand.name.as_str(),
                    key.as_str(),
                    self.host.now_ms(),
                )
            })
        };
        while refunded > 0
            && is_request_pending()
            && self.host.now_ms() - begun_ms < REFUND_WAIT_MS_MAX
        {
            self.host.sleep_ms(LOOK_EVERY_MS).await;
        }
        // If this report is lost, it is repeated. The global limiter refunds the rest.
        if let Some(request) = self.due_request(me, demand) {
            *remote_calls += 1;
            let _ = self.send(request).await;
        }
        *remote_calls += 1;
        let outcome = self.ask_global(demand, cost.saturating_sub(refunded)).await;
        self.with_borrowers(me, |borrowers| {
            borrowers.forget_refusal(demand.name.as_str(), key.as_str());
        });
        outcome
    }

    /// The result of a demand as far as this limiter can decide. A demand that needs a request does not wait here.
    fn try_admit(&self, me: &LimiterAddress, demand: &NamedDemand<'_>) -> Result<Admission, Full> {
        let admission = self.look(me, demand)?;
        if admission == Admission::Ask {
            self.leave(me, demand);
        }
        Ok(admission)
    }

    fn look(&self, me: &LimiterAddress, demand: &NamedDemand<'_>) -> Result<Admission, Full> {
        let now_ms = self.host.now_ms();
        self.with_borrowers(me, |borrowers| borrowers.check(&demand.check(), now_ms))
    }

    fn leave(&self, me: &LimiterAddress, demand: &NamedDemand<'_>) {
        let KeyDemand { key, cost, .. } = demand.key_demand;
        self.with_borrowers(me, |borrowers| {
            borrowers.leave(demand.name.as_str(), key.as_str(), *cost);
        });
    }

    /// The result of a demand, after the global limiter was asked if needed.
    async fn admit(
        self: &Rc<Self>,
        me: &LimiterAddress,
        demand: &NamedDemand<'_>,
        remote_calls: &mut u32,
    ) -> Result<Admission, Full> {
        let begun_ms = self.host.now_ms();
        let mut request_count = 0;
        loop {
            let admission = self.look(me, demand)?;
            if admission != Admission::Ask {
                return Ok(admission);
            }
            let _waiting = DemandGuard {
                core: self,
                me,
                demand,
            };
            if self.host.now_ms() - begun_ms > WAIT_MS_MAX || request_count >= REQUESTS_MAX {
                break;
            }
            match self.due_request(me, demand) {
                Some(request) => {
                    request_count += 1;
                    *remote_calls += 1;
                    // A lost answer is seen at the next check.
                    let _ = self.send(request).await;
                }
                // Another check has sent the request.
                None => self.host.sleep_ms(LOOK_EVERY_MS).await,
            }
        }
        let key = demand.key_demand.key.as_str();
        Ok(self.with_borrowers(me, |borrowers| {
            borrowers.without_lender(demand.name.as_str(), key, self.host.now_ms())
        }))
    }

    fn due_request(&self, me: &LimiterAddress, demand: &NamedDemand<'_>) -> Option<DueRequest> {
        let key = demand.key_demand.key.as_str();
        self.with_borrowers(me, |borrowers| {
            borrowers.next_request(demand.name.as_str(), key, self.host.now_ms())
        })
    }

    /// Sends a request for more quota in the background, if one is due. Returns whether one was.
    fn ask_soon(self: &Rc<Self>, me: &LimiterAddress, demand: &NamedDemand<'_>) -> bool {
        let Some(request) = self.due_request(me, demand) else {
            return false;
        };
        let core = self.clone();
        self.object.wait_until(async move {
            // A lost request is repeated.
            let _ = core.send(request).await;
        });
        true
    }

    async fn send(&self, request: DueRequest) -> Result<(), Fault> {
        let answer = lend(&self.host, None, &request, LEASE_MS_MAX).await;
        match self.borrowers.borrow_mut().as_mut() {
            Some(borrowers) => borrowers.receive_outcome(&request, answer, self.host.now_ms()),
            None => Ok(()),
        }
    }

    /// Reports on keys that are no longer checked.
    pub(super) async fn report(&self) {
        let requests = {
            let mut borrowers = self.borrowers.borrow_mut();
            let Some(borrowers) = borrowers.as_mut() else {
                return;
            };
            borrowers.due_requests(REPORTS_MAX, self.host.now_ms())
        };
        self.send_all(requests).await;
    }

    /// Returns all leases to the global limiters, because the process stops.
    pub(super) async fn return_leases(&self) {
        let now_ms = self.host.now_ms();
        let borrowers = self.borrowers.take();
        let requests = borrowers.map(|borrowers| borrowers.into_last_requests(now_ms));
        self.send_all(requests.unwrap_or_default()).await;
    }

    async fn send_all(&self, requests: Vec<DueRequest>) {
        let send = |request: DueRequest| async move {
            // A lost report is repeated.
            let _ = self.send(request).await;
        };
        all_settled(requests.into_iter().map(send), REPORTS_AT_ONCE).await;
    }

    /// The global state of a key, after a refund of this amount there.
    async fn ask_global(&self, demand: &NamedDemand<'_>, refund: u64) -> DemandOutcome {
        let (kind, cost) = if refund > 0 {
            (DemandKind::Refund, refund)
        } else {
            (DemandKind::Look, demand.key_demand.cost)
        };
        self.ask_global_with(demand, kind, cost).await
    }

    async fn ask_global_with(
        &self,
        demand: &NamedDemand<'_>,
        kind: DemandKind,
        cost: u64,
    ) -> DemandOutcome {
        let key_demand = KeyDemand {
            kind,
            cost,
            times: 1,
            ..demand.key_demand.clone()
        };
        let to = call::limiter_of(&self.host, None, demand.name, &demand.key_demand.key);
        ask(&self.host, to, demand, key_demand).await
    }

    /// Returns the rest of a lease to the global limiter.
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
    demand: &'a NamedDemand<'a>,
}

impl Drop for DemandGuard<'_> {
    fn drop(&mut self) {
        self.core.leave(self.me, self.demand);
    }
}

/// Asks another limiter to decide a demand under the policy of this one.
pub(super) async fn ask(
    host: &Host,
    to: LimiterAddress,
    demand: &NamedDemand<'_>,
    key_demand: KeyDemand,
) -> DemandOutcome {
    let check = check_of(to, demand, key_demand);
    outcome_of(call_within(host, &check, LEASE_MS_MAX).await)
}

/// Forwards a demand to the limiter that decides its key.
pub(super) async fn forward(
    host: &Host,
    to: LimiterAddress,
    demand: &NamedDemand<'_>,
    counts: LimiterCounts,
) -> DemandOutcome {
    let check = check_of(to, demand, demand.key_demand.clone());
    outcome_of(call_within(host, &ForwardCheck { check, counts }, LEASE_MS_MAX).await)
}

fn check_of(to: LimiterAddress, demand: &NamedDemand<'_>, key_demand: KeyDemand) -> CheckKeys {
    CheckKeys {
        to,
        policies: vec![(demand.name.clone(), demand.policy.clone())],
        demands: vec![KeyDemand {
            policy: 0,
            ..key_demand
        }],
        waits: true,
    }
}

fn outcome_of(answer: Result<CheckAnswer, Fault>) -> DemandOutcome {
    let outcome = answer
        .ok()
        .and_then(|answer| answer.outcomes.into_iter().next());
    outcome.unwrap_or(DemandOutcome::Unreachable)
}
