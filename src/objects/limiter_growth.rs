//! How keys find their new place when the number of limiters changes: a limiter that does not know a key asks the one
//! that had it before what was used of it, and holds that as used now.
//!
//! Invariant: while [`crate::protocol::names::LIMITER_COUNT_BEFORE`] is said, nothing is admitted of an unknown key before its old place was
//! asked, and an old place admits nothing of keys that are no longer its own: edges that have not heard of the change yet
//! are sent on. So a change makes no key admit more, only less for up to a window.

use std::rc::Rc;

use super::leases::ask;
use super::limiter::{Asked, LimiterCore};
use crate::platform::call;
use crate::platform::clock::now_ms;
use crate::protocol::messages::{Demand, Fault, Judged, Wish};
use crate::protocol::names::LimiterAddress;

impl LimiterCore {
    /// Judges a demand that needs nobody else, unless the number of limiters is being changed.
    pub(super) async fn judge_here(
        self: &Rc<Self>,
        to: &LimiterAddress,
        asked: &Asked<'_>,
        waits: bool,
        remote_calls: &mut u32,
    ) -> Judged {
        // A look at an old place is what a new one asks.
        if asked.demand.wish == Wish::Look || self.before(asked).is_none() {
            return self.judge_with_recalls(to, asked).await;
        }
        let home = self.home_of(to, asked);
        if home != *to {
            *remote_calls += 1;
            return ask(&self.env, home, asked, asked.demand.clone()).await;
        }
        if self.must_fetch(to, asked) {
            if !waits && asked.demand.wish == Wish::Consume {
                return Judged::Later;
            }
            *remote_calls += 1;
            if self.fetch_before(to, asked).await.is_err() {
                return Judged::Unreachable;
            }
        }
        self.judge_with_recalls(to, asked).await
    }

    fn before(&self, asked: &Asked<'_>) -> Option<u32> {
        call::limiter_before(&self.env, asked.name, &asked.demand.key)
    }

    pub(super) fn home_of(&self, to: &LimiterAddress, asked: &Asked<'_>) -> LimiterAddress {
        let datacenter = to.datacenter.as_ref();
        call::limiter_of(&self.env, datacenter, asked.name, &asked.demand.key)
    }

    /// Whether isolates may be lent parts of a key: not while keys move, since what they hold could not be told to the new place.
    ///
    /// # Errors
    /// `Unavailable` while they do.
    pub(super) fn may_lend(&self, to: &LimiterAddress, asked: &Asked<'_>) -> Result<(), Fault> {
        if to.datacenter.is_some() && self.before(asked).is_some() {
            let why = "nothing is lent while the number of limiters changes";
            return Err(Fault::Unavailable(why.to_owned()));
        }
        Ok(())
    }

    fn must_fetch(&self, to: &LimiterAddress, asked: &Asked<'_>) -> bool {
        let is_elsewhere = self
            .before(asked)
            .is_some_and(|before| before != to.partition);
        is_elsewhere && !self.knows(asked)
    }

    /// Takes over what was used of a key in its old place, where it is not known here.
    ///
    /// # Errors
    /// `Unavailable` where the old place does not answer, or there is no room.
    pub(super) async fn fetch_before(
        &self,
        to: &LimiterAddress,
        asked: &Asked<'_>,
    ) -> Result<(), Fault> {
        let Some(partition) = self.before(asked).filter(|_| self.must_fetch(to, asked)) else {
            return Ok(());
        };
        let old = LimiterAddress {
            partition,
            ..to.clone()
        };
        // What is lent there counts as used: it may be spent until its leases end.
        let look = Demand {
            times: 0,
            ..Demand::look(&asked.demand.key)
        };
        let judged = ask(&self.env, old, asked, look).await;
        let silent = || Fault::Unavailable("the key's old limiter does not answer".to_owned());
        let verdict = judged.verdict_of(0, 1).ok_or_else(silent)?;
        let used = asked.policy.capacity().saturating_sub(verdict.remaining);
        // Somebody else may have fetched it meanwhile.
        if used > 0 && !self.knows(asked) {
            self.charge(asked, used, now_ms())?;
        }
        Ok(())
    }
}
