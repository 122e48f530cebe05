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
use tally_core::cluster::spread::{KeyPlace, LimiterCounts};
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

/// Whether the use of a key at its former limiter counts here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MovedUse {
    /// It counts here, or there was nothing to take over.
    TakenOver,
    /// There is no room for it: the key must be refused.
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
        if self.must_fetch(to, demand) {
            if !options.waits && demand.key_demand.kind == DemandKind::Consume {
                return DemandOutcome::Later;
            }
            *remote_calls += 1;
            match self.fetch_before(to, demand).await {
                Ok(MovedUse::TakenOver) => {}
                Ok(MovedUse::NoRoom) => return DemandOutcome::of(Full::verdict(demand.policy)),
                Err(_) => return DemandOutcome::Unreachable,
            }
        }
        if let Some(home) = self.elsewhere(to, demand) {
            if options.is_forwarded {
                return DemandOutcome::Unreachable;
            }
            *remote_calls += 1;
            return forward(&self.host, home, demand, self.counts()).await;
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
        let home = self
            .spread
            .borrow()
            .place_of(&ring_key, to.partition, self.host.now_ms());
        if !matches!(home, KeyPlace::At(_)) {
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

    fn place_of(&self, to: &LimiterAddress, demand: &NamedDemand<'_>) -> KeyPlace {
        let ring_key = call::limiter_key(demand.name, &demand.key_demand.key);
        self.spread
            .borrow()
            .place_of(&ring_key, to.partition, self.host.now_ms())
    }

    /// The limiter that decides a key, if it is another.
    pub(super) fn elsewhere(
        &self,
        to: &LimiterAddress,
        demand: &NamedDemand<'_>,
    ) -> Option<LimiterAddress> {
        match self.place_of(to, demand) {
            KeyPlace::At(partition) => Some(LimiterAddress {
                partition,
                ..to.clone()
            }),
            KeyPlace::Here | KeyPlace::After(_) => None,
        }
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
        match self.elsewhere(to, demand) {
            None => Ok(()),
            Some(_) => Err(Fault::Unavailable(
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

    fn must_fetch(&self, to: &LimiterAddress, demand: &NamedDemand<'_>) -> bool {
        matches!(self.place_of(to, demand), KeyPlace::After(_))
            && !self.knows(demand)
            && self.taken_over.borrow_mut().get(&taken(demand)).is_none()
    }

    /// Takes a key over from its former limiter, if it is not known here.
    ///
    /// # Errors
    /// `Unavailable` where the former limiter does not answer.
    pub(super) async fn fetch_before(
        &self,
        to: &LimiterAddress,
        demand: &NamedDemand<'_>,
    ) -> Result<MovedUse, Fault> {
        let KeyPlace::After(partition) = self.place_of(to, demand) else {
            return Ok(MovedUse::TakenOver);
        };
        if !self.must_fetch(to, demand) {
            return Ok(MovedUse::TakenOver);
        }
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
        if !self.must_fetch(to, demand) {
            return Ok(MovedUse::TakenOver);
        }
        let now_ms = self.host.now_ms();
        let taken_over = self
            .table
            .borrow_mut()
            .take_over(&demand.check(), &handover, now_ms);
        if taken_over == Err(Full) {
            return Ok(MovedUse::NoRoom);
        }
        let mut taken_over = self.taken_over.borrow_mut();
        taken_over.insert(taken(demand), ());
        Ok(MovedUse::TakenOver)
    }
}

fn taken(demand: &NamedDemand<'_>) -> super::object::LimitKey {
    (demand.name.clone(), demand.key_demand.key.clone())
}
