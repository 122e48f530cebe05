//! Moves of keys when the number of limiters changes. A limiter that does not know a key asks its former limiter for
//! the state. It counts the former use as used now, and reserves lent quota until its leases are over.
//!
//! Invariant: while [`tally_wire::names::LIMITER_COUNT_BEFORE`] is set, nothing is admitted for an unknown key
//! before its former limiter has handed it over. A former limiter that has done so, or has received the new number in
//! another way, forwards checks of keys that no longer belong to it. So a change never admits more of a key. It admits
//! less for up to a window and, if a datacenter does not answer, until its lease is over.

use std::rc::Rc;

use super::leases::forward;
use super::object::{DemandOptions, LimiterCore, NamedDemand};
use tally_core::cluster::spread::{DemandStep, LimiterCounts};
use tally_core::limit::handover::Handover;
use tally_core::limit::policy::Scope;
use tally_core::limit::table::Full;
use tally_shared::{call, call_within};
use tally_wire::messages::{
    CheckAnswer, DemandKind, DemandOutcome, Fault, ForwardCheck, GiveKey, KeyDemand,
};
use tally_wire::names::LimiterAddress;

/// How long a former limiter may take to hand a key over, milliseconds.
const HAND_OVER_MS_MAX: u64 = 1_000;

/// What a limiter does with a demand, once the use of its key at the former limiter counts here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MovedStep {
    /// It decides.
    Decide,
    /// It forwards the demand there.
    Forward(LimiterAddress),
    /// It refuses: the limiter that forwarded the demand knows another number.
    Refuse,
    /// There is no room for what is used: the key must be refused.
    NoRoom,
}

impl LimiterCore {
    /// Decides a demand that needs no other limiter, unless the number of limiters is being changed.
    pub(super) async fn judge_here(
        self: &Rc<Self>,
        to: &LimiterAddress,
        demand: &NamedDemand<'_>,
        options: DemandOptions,
        remote_calls: &mut u32,
    ) -> DemandOutcome {
        if let DemandStep::TakeOver(_) = self.step(to, demand, options.is_forwarded) {
            if !options.waits && demand.key_demand.kind == DemandKind::Consume {
                return DemandOutcome::Later;
            }
            *remote_calls += 1;
        }
        match self.step_after(to, demand, options.is_forwarded).await {
            Ok(MovedStep::Decide) => {}
            Ok(MovedStep::NoRoom) => return DemandOutcome::of(Full::verdict(demand.policy)),
            Ok(MovedStep::Forward(home)) => {
                *remote_calls += 1;
                return forward(&self.host, home, demand, self.counts()).await;
            }
            Ok(MovedStep::Refuse) | Err(_) => return DemandOutcome::Unreachable,
        }
        self.judge_with_recalls(to, demand).await
    }

    /// Decides a demand that another limiter has forwarded.
    pub(super) async fn on_forward_check(
        self: &Rc<Self>,
        message: Result<ForwardCheck, Fault>,
    ) -> Result<CheckAnswer, Fault> {
        let ForwardCheck { check, counts } = message?;
        self.on_check(Ok(check), Some(counts)).await
    }

    /// Hands a key over to its new limiter. From then on this limiter decides no key that belongs to another one by the
    /// new number. Quota that datacenters do not use is recalled first, because the new limiter could not recall it.
    pub(super) async fn on_hand_over(
        self: &Rc<Self>,
        give: Result<GiveKey, Fault>,
    ) -> Result<Handover, Fault> {
        let GiveKey {
            to,
            name,
            policy,
            key,
            counts,
        } = give?;
        self.readable()?;
        self.merge_counts(Some(counts))?;
        let ring_key = call::limiter_key(&name, &key);
        let now_ms = self.host.now_ms();
        let may_give = (self.spread.borrow()).may_give(&ring_key, to.partition, now_ms);
        if !may_give {
            let why = "two limiters know of numbers that exclude each other; try again";
            return Err(Fault::Unavailable(why.to_owned()));
        }
        let key_demand = KeyDemand::of(&key, 1, DemandKind::Look);
        let demand = NamedDemand {
            name: &name,
            policy: &policy,
            key_demand: &key_demand,
        };
        if to.datacenter.is_none() && policy.scope == Scope::Global {
            self.recall(&demand, None, true).await;
            self.written(false)?;
        }
        let table = self.table.borrow();
        Ok(table.hand_over(&demand.check(), self.host.now_ms()))
    }

    /// Merges the counts that another limiter has sent. They are stored before anything is answered by them.
    pub(super) fn merge_counts(&self, counts: Option<LimiterCounts>) -> Result<(), Fault> {
        let Some(counts) = counts else { return Ok(()) };
        let now_ms = self.host.now_ms();
        let mut spread = self.spread.borrow_mut();
        let mut changed = spread.clone();
        if changed.receive(counts, now_ms, now_ms) {
            self.rows.write_received_counts(counts, now_ms)?;
            *spread = changed;
        }
        Ok(())
    }

    pub(super) fn counts(&self) -> LimiterCounts {
        self.spread.borrow().counts(self.host.now_ms())
    }

    /// What is done now with a demand.
    pub(super) fn step(
        &self,
        to: &LimiterAddress,
        demand: &NamedDemand<'_>,
        is_forwarded: bool,
    ) -> DemandStep {
        let now_ms = self.host.now_ms();
        let (name, key) = (demand.name, &demand.key_demand.key);
        let is_known = || {
            self.table
                .borrow()
                .has_used(name.as_str(), key.as_str(), now_ms)
                || self.taken_over.borrow_mut().get(&taken(demand)).is_some()
        };
        let ring_key = call::limiter_key(name, key);
        let spread = self.spread.borrow();
        spread.step(&ring_key, to.partition, now_ms, (is_known, is_forwarded))
    }

    /// Succeeds if this limiter still decides a key that it decided before an await.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn is_here_still(
        &self,
        to: &LimiterAddress,
        demand: &NamedDemand<'_>,
    ) -> Result<(), Fault> {
        match self.step(to, demand, false) {
            DemandStep::Decide | DemandStep::TakeOver(_) => Ok(()),
            DemandStep::Forward(_) | DemandStep::Refuse => Err(Fault::Unavailable(
                "the key was handed over to another limiter; try again".to_owned(),
            )),
        }
    }

    /// Whether isolates may be lent parts of a key: not while keys move, because the new limiter would not know what
    /// they hold.
    ///
    /// # Errors
    /// `Unavailable` while they do.
    pub(super) fn may_lend(&self, to: &LimiterAddress) -> Result<(), Fault> {
        if to.datacenter.is_some()
            && self
                .spread
                .borrow()
                .rings(self.host.now_ms())
                .are_changing()
        {
            let why = "no lease is given while the number of limiters changes";
            return Err(Fault::Unavailable(why.to_owned()));
        }
        Ok(())
    }

    /// What is done with a demand, after its key was taken over if it must be.
    ///
    /// # Errors
    /// `Unavailable` where the former limiter does not answer.
    pub(super) async fn step_after(
        &self,
        to: &LimiterAddress,
        demand: &NamedDemand<'_>,
        is_forwarded: bool,
    ) -> Result<MovedStep, Fault> {
        let mut step = self.step(to, demand, is_forwarded);
        if let DemandStep::TakeOver(before) = step {
            if self.take_over(to, demand, before).await? == Err(Full) {
                return Ok(MovedStep::NoRoom);
            }
            // The number may have changed meanwhile.
            step = self.step(to, demand, is_forwarded);
        }
        Ok(match step {
            DemandStep::Decide | DemandStep::TakeOver(_) => MovedStep::Decide,
            DemandStep::Refuse => MovedStep::Refuse,
            DemandStep::Forward(partition) => MovedStep::Forward(LimiterAddress {
                partition,
                ..to.clone()
            }),
        })
    }

    /// Takes a key over from its former limiter.
    async fn take_over(
        &self,
        to: &LimiterAddress,
        demand: &NamedDemand<'_>,
        partition: u32,
    ) -> Result<Result<(), Full>, Fault> {
        let give = GiveKey {
            to: LimiterAddress {
                partition,
                ..to.clone()
            },
            name: demand.name.clone(),
            policy: demand.policy.clone(),
            key: demand.key_demand.key.clone(),
            counts: self.counts(),
        };
        let handover = call_within(&self.host, &give, HAND_OVER_MS_MAX).await?;
        // Another call may have taken it over meanwhile.
        if !matches!(self.step(to, demand, false), DemandStep::TakeOver(_)) {
            return Ok(Ok(()));
        }
        let now_ms = self.host.now_ms();
        let check = demand.check();
        let taken_over = self.table.borrow_mut().take_over(&check, &handover, now_ms);
        if taken_over.is_ok() {
            self.taken_over.borrow_mut().insert(taken(demand), ());
        }
        Ok(taken_over)
    }
}

fn taken(demand: &NamedDemand<'_>) -> super::object::LimitKey {
    (demand.name.clone(), demand.key_demand.key.clone())
}
