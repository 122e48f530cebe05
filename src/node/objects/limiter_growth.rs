//! How keys move when the number of limiters changes: a limiter that does not know a key asks its former limiter for
//! the state, counts what was used as used now, and holds what is lent until its leases are over.
//!
//! Invariant: while [`crate::protocol::names::LIMITER_COUNT_BEFORE`] is set, nothing is admitted for an unknown key
//! before its former limiter has handed it over. A former limiter that did so, or has learnt the new number in another
//! way, admits nothing of keys that no longer belong to it: it forwards them. So a change never admits more of a key,
//! only less for up to a window, and where a datacenter does not answer until its lease is over besides.

use std::rc::Rc;

use super::leases::send_on;
use super::limiter::{LimiterCore, NamedDemand};
use crate::core::cluster::spread::{Home, LimiterCounts};
use crate::core::limit::handover::Handover;
use crate::core::limit::policy::Scope;
use crate::core::limit::table::Full;
use crate::node::shared::{call, call_within};
use crate::protocol::messages::{
    CheckAnswer, DemandKind, DemandOutcome, Fault, ForwardCheck, GiveKey, KeyDemand,
};
use crate::protocol::names::LimiterAddress;

/// How long a former limiter may take to hand a key over.
const HAND_OVER_MS_MAX: u64 = 1_000;

/// Keys that share meters and were taken over: 100 bytes each. Above this number all are forgotten; taken over again,
/// they count as used twice.
pub(super) const TAKEN_OVER_MAX: usize = 10_000;

/// Whether the use of a key at its former limiter counts here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MovedUse {
    /// It does, or there was nothing to take over.
    Over,
    /// There is no room for it: the key must be refused.
    NoRoom,
}

/// What may be done for a demand.
#[derive(Clone, Copy)]
pub(super) struct DemandOptions {
    /// Whether it may wait for other limiters.
    pub(super) waits: bool,
    /// Whether another limiter has forwarded it; it is not forwarded again.
    pub(super) is_sent_on: bool,
}

impl LimiterCore {
    /// Decides a demand that needs no other limiter, unless the number of limiters is being changed.
    pub(super) async fn judge_here(
        self: &Rc<Self>,
        to: &LimiterAddress,
        asked: &NamedDemand<'_>,
        ways: DemandOptions,
        remote_calls: &mut u32,
    ) -> DemandOutcome {
        if self.must_fetch(to, asked) {
            if !ways.waits && asked.demand.wish == DemandKind::Consume {
                return DemandOutcome::Later;
            }
            *remote_calls += 1;
            match self.fetch_before(to, asked).await {
                Ok(MovedUse::Over) => {}
                Ok(MovedUse::NoRoom) => return DemandOutcome::of(Full::verdict(asked.policy)),
                Err(_) => return DemandOutcome::Unreachable,
            }
        }
        if let Some(home) = self.elsewhere(to, asked) {
            if ways.is_sent_on {
                return DemandOutcome::Unreachable;
            }
            *remote_calls += 1;
            return send_on(&self.host, home, asked, self.counts()).await;
        }
        self.judge_with_recalls(to, asked).await
    }

    /// Decides a demand that another limiter has forwarded.
    pub(super) async fn on_sent_on(
        self: &Rc<Self>,
        sent: Result<ForwardCheck, Fault>,
    ) -> Result<CheckAnswer, Fault> {
        let ForwardCheck { check, counts } = sent?;
        self.on_check(Ok(check), Some(counts)).await
    }

    /// Hands a key over to its new limiter. From then on this one decides no key that belongs to another by that
    /// number. What datacenters do not use of it is recalled first: the new limiter could not.
    pub(super) async fn on_hand_over(
        self: &Rc<Self>,
        over: Result<GiveKey, Fault>,
    ) -> Result<Handover, Fault> {
        let GiveKey {
            to,
            name,
            policy,
            key,
            counts,
        } = over?;
        self.readable()?;
        self.hear(Some(counts))?;
        let place = call::limiter_key(&name, &key);
        let home = self
            .spread
            .borrow()
            .home(&place, to.partition, self.host.now_ms());
        if !matches!(home, Home::At(_)) {
            let why = "two limiters know of numbers that exclude each other; try again";
            return Err(Fault::Unavailable(why.to_owned()));
        }
        let demand = KeyDemand::of(&key, 1, DemandKind::Look);
        let asked = NamedDemand {
            name: &name,
            policy: &policy,
            demand: &demand,
        };
        if to.datacenter.is_none() && policy.scope == Scope::Global {
            self.recall(&asked, None, true).await;
            self.written(false)?;
        }
        let table = self.table.borrow();
        Ok(table.hand_over(&asked.check(), self.host.now_ms()))
    }

    /// Takes over another limiter's knowledge of their number: stored before anything is answered.
    pub(super) fn hear(&self, counts: Option<LimiterCounts>) -> Result<(), Fault> {
        let Some(counts) = counts else { return Ok(()) };
        let now_ms = self.host.now_ms();
        let mut spread = self.spread.borrow_mut();
        let mut changed = spread.clone();
        if changed.hear(counts, now_ms, now_ms) {
            self.rows.write_heard(counts, now_ms)?;
            *spread = changed;
        }
        Ok(())
    }

    pub(super) fn counts(&self) -> LimiterCounts {
        self.spread.borrow().counts(self.host.now_ms())
    }

    fn home(&self, to: &LimiterAddress, asked: &NamedDemand<'_>) -> Home {
        let place = call::limiter_key(asked.name, &asked.demand.key);
        self.spread
            .borrow()
            .home(&place, to.partition, self.host.now_ms())
    }

    /// The limiter that decides a key, if it is another.
    pub(super) fn elsewhere(
        &self,
        to: &LimiterAddress,
        asked: &NamedDemand<'_>,
    ) -> Option<LimiterAddress> {
        match self.home(to, asked) {
            Home::At(partition) => Some(LimiterAddress {
                partition,
                ..to.clone()
            }),
            Home::Here | Home::After(_) => None,
        }
    }

    /// Succeeds where a key that was decided here before an await still is.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn is_here_still(
        &self,
        to: &LimiterAddress,
        asked: &NamedDemand<'_>,
    ) -> Result<(), Fault> {
        match self.elsewhere(to, asked) {
            None => Ok(()),
            Some(_) => Err(Fault::Unavailable(
                "the key was handed over to another limiter; try again".to_owned(),
            )),
        }
    }

    /// Whether isolates may be lent parts of a key: not while keys move, because the new limiter could not learn what
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
            let why = "nothing is lent while the number of limiters changes";
            return Err(Fault::Unavailable(why.to_owned()));
        }
        Ok(())
    }

    fn must_fetch(&self, to: &LimiterAddress, asked: &NamedDemand<'_>) -> bool {
        matches!(self.home(to, asked), Home::After(_))
            && !self.knows(asked)
            && !self.taken_over.borrow().contains_key(&taken(asked))
    }

    /// Takes a key over from its former limiter, if it is not known here.
    ///
    /// # Errors
    /// `Unavailable` where the former limiter does not answer.
    pub(super) async fn fetch_before(
        &self,
        to: &LimiterAddress,
        asked: &NamedDemand<'_>,
    ) -> Result<MovedUse, Fault> {
        let Home::After(partition) = self.home(to, asked) else {
            return Ok(MovedUse::Over);
        };
        if !self.must_fetch(to, asked) {
            return Ok(MovedUse::Over);
        }
        let over = GiveKey {
            to: LimiterAddress {
                partition,
                ..to.clone()
            },
            name: asked.name.clone(),
            policy: asked.policy.clone(),
            key: asked.demand.key.clone(),
            counts: self.counts(),
        };
        let handover = call_within(&self.host, &over, HAND_OVER_MS_MAX).await?;
        // Another call may have taken it over meanwhile.
        if !self.must_fetch(to, asked) {
            return Ok(MovedUse::Over);
        }
        let now_ms = self.host.now_ms();
        let taken_over = self
            .table
            .borrow_mut()
            .take_over(&asked.check(), &handover, now_ms);
        if taken_over == Err(Full) {
            return Ok(MovedUse::NoRoom);
        }
        let mut taken_over = self.taken_over.borrow_mut();
        taken_over.insert(taken(asked), ());
        Ok(MovedUse::Over)
    }
}

fn taken(asked: &NamedDemand<'_>) -> super::limiter::LimitKey {
    (asked.name.clone(), asked.demand.key.clone())
}
