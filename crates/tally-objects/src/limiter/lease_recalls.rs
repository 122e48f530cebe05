//! Limiters lend, and the global one recalls unused quota from datacenters before it refuses anything.
//!
//! Invariant: at most one recall of a key is in progress. Its first round takes the quota that each borrower does not
//! need until the next answer could come. The second round takes all. So quota that is refused then was held by no
//! reachable borrower.

use std::rc::Rc;

use super::growth::MovedStep;
use super::object::{LimiterCore, NamedDemand, looked};
use tally_core::counter::id::Datacenter;
use tally_core::limit::lease::{LeaseAnswer, LeaseId, LeaseRequest};
use tally_core::limit::policy::Scope;
use tally_core::limit::table::Full;
use tally_shared::concurrency::all_settled;
use tally_shared::{call, call_within};
use tally_wire::messages::{DemandKind, DemandOutcome, Fault, KeyDemand, LeaseReport, RecallLease};
use tally_wire::names::LimiterAddress;

/// How long a borrower may take, milliseconds: a trip around the world is 0.3 s.
const RECALL_MS_MAX: u64 = 500;

/// How long a limiter may take to answer a forwarded request, milliseconds: a little less than the borrower waits.
const FORWARD_MS_MAX: u64 = 1_300;

/// The borrowers that are asked at once. There are at most [`tally_core::limit::lender::LEASES_MAX`].
const RECALLS_AT_ONCE: usize = 64;

/// The interval at which a request checks whether another one's recall is over, milliseconds.
const LOOK_EVERY_MS: u64 = 2;

impl LimiterCore {
    /// Answers a borrower's request.
    pub(super) async fn on_lease(
        self: &Rc<Self>,
        lease: Result<LeaseReport, Fault>,
    ) -> Result<LeaseAnswer, Fault> {
        let LeaseReport {
            to,
            name,
            policy,
            key,
            request,
            forwarded: forwarder_counts,
            owner,
        } = lease?;
        self.readable()?;
        self.merge_counts(forwarder_counts)?;
        let key_demand = KeyDemand {
            owner,
            ..KeyDemand::of(&key, 1, DemandKind::Look)
        };
        let demand = NamedDemand {
            name: &name,
            policy: &policy,
            key_demand: &key_demand,
        };
        self.may_lend(&to)?;
        // Leases of two limiters would admit the limit twice. After this refusal isolates send each check to their
        // limiter.
        let is_last = forwarder_counts.is_some() || to.datacenter.is_some();
        match self.step_after(&to, &demand, is_last).await? {
            MovedStep::Decide => {}
            MovedStep::NoRoom => return Ok(Full::answer(&request)),
            MovedStep::Refuse => {
                let why =
                    "the number of limiters changes, and this one does not lend the key; try again";
                return Err(Fault::Unavailable(why.to_owned()));
            }
            MovedStep::Forward(home) => {
                let lease = LeaseReport {
                    to: home,
                    name,
                    policy,
                    key,
                    request,
                    forwarded: Some(self.counts()),
                    owner,
                };
                return call_within(&self.host, &lease, FORWARD_MS_MAX).await;
            }
        }
        let answer = self.lend(&to, &demand, &request).await?;
        self.written(answer.must_commit)?;
        Ok(answer)
    }

    /// The table's answer to the request of a borrower.
    fn answer(&self, demand: &NamedDemand<'_>, request: &LeaseRequest) -> LeaseAnswer {
        let mut table = self.table.borrow_mut();
        table.ask(&demand.check(), request, self.host.now_ms())
    }

    /// Answers the request of a borrower, after a recall of unused quota if there is too little.
    async fn lend(
        self: &Rc<Self>,
        to: &LimiterAddress,
        demand: &NamedDemand<'_>,
        request: &LeaseRequest,
    ) -> Result<LeaseAnswer, Fault> {
        let mut answer = self.answer(demand, request);
        if to.datacenter.is_some() || demand.policy.scope != Scope::Global {
            return Ok(answer);
        }
        for takes_all in [false, true] {
            if !answer.is_short(request)
                || !self.recall(demand, Some(&request.lease), takes_all).await
            {
                break;
            }
            self.is_here_still(to, demand)?;
            answer = self.answer(demand, request);
            if takes_all && answer.is_short(request) {
                self.recalled_in_vain(demand, &request.lease);
            }
        }
        Ok(answer)
    }

    /// Decides a demand. The global limiter recalls unused quota before it reports a state, or refuses a call.
    pub(super) async fn judge_with_recalls(
        &self,
        to: &LimiterAddress,
        demand: &NamedDemand<'_>,
    ) -> DemandOutcome {
        let lends = to.datacenter.is_none() && demand.policy.scope == Scope::Global;
        let kind = demand.key_demand.kind;
        if lends && kind == DemandKind::Look {
            self.recall(demand, None, false).await;
            let (table, check, now_ms) = (self.table.borrow(), demand.check(), self.host.now_ms());
            return looked(&table, &check, table.peek_left(&check, now_ms), now_ms);
        }
        if lends && kind != DemandKind::Consume && kind.takes() {
            return self.call_with_recalls(to, demand).await;
        }
        let mut outcome = self.judge(demand);
        for takes_all in [false, true] {
            let is_refused = matches!(
                outcome,
                DemandOutcome::Known {
                    refused: Some(_),
                    ..
                }
            );
            if !lends || kind != DemandKind::Consume || !is_refused {
                break;
            }
            if !self.recall(demand, None, takes_all).await {
                break;
            }
            if self.is_here_still(to, demand).is_err() {
                return DemandOutcome::Unreachable;
            }
            outcome = self.judge(demand);
        }
        outcome
    }

    /// Does a named call after the recalls that it needs: it is done once, so its first verdict is its last.
    async fn call_with_recalls(
        &self,
        to: &LimiterAddress,
        demand: &NamedDemand<'_>,
    ) -> DemandOutcome {
        for takes_all in [false, true] {
            let now_ms = self.host.now_ms();
            let verdict = self.table.borrow().peek(&demand.check(), now_ms);
            if verdict.is_allowed || !self.recall(demand, None, takes_all).await {
                break;
            }
            if self.is_here_still(to, demand).is_err() {
                return DemandOutcome::Unreachable;
            }
        }
        self.judge(demand)
    }

    fn recalled_in_vain(&self, demand: &NamedDemand<'_>, borrower: &LeaseId) {
        let (name, key) = (demand.name.as_str(), demand.key_demand.key.as_str());
        let mut table = self.table.borrow_mut();
        table.recalled_in_vain(name, key, borrower, self.host.now_ms());
    }

    /// Recalls the quota of a key from other leases, or waits for a recall in progress. Returns whether there was
    /// anything to recall.
    pub(super) async fn recall(
        &self,
        demand: &NamedDemand<'_>,
        except: Option<&LeaseId>,
        takes_all: bool,
    ) -> bool {
        let (name, key) = (demand.name, &demand.key_demand.key);
        let limit_key = (name.clone(), key.clone());
        if self.recalling.borrow().contains(&limit_key) {
            // The loop ends, because each call of a recall has a deadline.
            while self.recalling.borrow().contains(&limit_key) {
                self.host.sleep_ms(LOOK_EVERY_MS).await;
            }
            return true;
        }
        let leases = {
            let mut table = self.table.borrow_mut();
            table.recallable(name.as_str(), key.as_str(), except, self.host.now_ms())
        };
        if leases.is_empty() {
            return false;
        }
        let _recalling = RecallGuard::begin(self, limit_key);
        let recalls = leases.into_iter().filter_map(|lease| {
            let datacenter = Datacenter::parse(&lease.borrower)?;
            Some(RecallLease {
                to: call::limiter_of(&self.host, Some(&datacenter), name, key),
                name: name.clone(),
                key: key.clone(),
                lease,
                takes_all,
            })
        });
        let recalls: Vec<_> = recalls.map(|recall| self.recall_one(recall)).collect();
        all_settled(recalls, RECALLS_AT_ONCE).await;
        true
    }

    async fn recall_one(&self, recall: RecallLease) {
        let report = call_within(&self.host, &recall, RECALL_MS_MAX).await;
        // A lost report comes with the borrower's next request.
        if let Ok(Some(report)) = report {
            let (name, key) = (recall.name.as_str(), recall.key.as_str());
            self.table
                .borrow_mut()
                .receive_report(name, key, &report, self.host.now_ms());
        }
    }
}

/// A recall in progress, until this is dropped for whatever reason.
struct RecallGuard<'a> {
    core: &'a LimiterCore,
    limit_key: super::object::LimitKey,
}

impl<'a> RecallGuard<'a> {
    fn begin(core: &'a LimiterCore, limit_key: super::object::LimitKey) -> Self {
        core.recalling.borrow_mut().insert(limit_key.clone());
        Self { core, limit_key }
    }
}

impl Drop for RecallGuard<'_> {
    fn drop(&mut self) {
        self.core.recalling.borrow_mut().remove(&self.limit_key);
    }
}
