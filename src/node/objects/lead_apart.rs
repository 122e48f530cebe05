//! How a lead that has grown hot leaves its tablet for an object of its own, and goes back once it rests.
//!
//! Invariant: the root decides, and notes it durably; then the lead moves as any does, see [`super::lead_moves`]. So whatever is lost or
//! crashes on the way, a lead counts at one place: where the root was not told it stays, and where it has not moved yet it goes on until
//! it is asked for at its new place.
//!
//! Life: a lead of a tablet that cannot be split, or is written under keys, gets many messages for some seconds. It asks its root
//! ([`PlaceLead`]), and has its own object take it over. That one looks once in a while how much was counted since, and goes back by the
//! same way. Edges hear by each answer where the lead is, see [`crate::node::shared::leads_apart`].

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::cell::Core;
use super::cell_store::Kind;
use super::lead_place::Standing;
use crate::core::counter::autoscale::{Heat, LeaveLimits};
use crate::node::shared::call::has_tablets;
use crate::protocol::messages::{Fault, PlaceLead, Stay};
use crate::protocol::names::CellAddress;

/// How often the root is asked: its answer may be lost.
const ASKED_MAX: usize = 2;

/// Whether a lead is about to leave. In memory only.
pub(super) struct Leaving {
    /// `None` where no lead leaves its tablet.
    limits: Option<LeaveLimits>,
    heat: Heat,
    is_under_way: bool,
}

impl Leaving {
    pub(super) fn new(limits: Option<LeaveLimits>) -> Self {
        Self {
            limits,
            heat: Heat::default(),
            is_under_way: false,
        }
    }

    /// Whether it must begin to leave now.
    fn begins(&mut self, per_second: u32, now_ms: i64) -> bool {
        let Some(limits) = self.limits.filter(|_| !self.is_under_way) else {
            return false;
        };
        let begins = self.heat.note(per_second, limits, now_ms);
        if begins {
            // Where it may not leave it asks again after as long.
            self.heat.cool();
            self.is_under_way = true;
        }
        begins
    }
}

/// How much a lead that lives apart had counted when it was looked last. Stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RestLook {
    /// Under which epoch it lives here: what an earlier time has left behind says nothing.
    epoch: u32,
    /// When, unix milliseconds.
    at_ms: i64,
    /// What it had counted.
    sequence: u64,
}

impl Core {
    /// Whether this is a lead in an object of its own, though tablets host others.
    pub(super) fn is_apart(&self) -> bool {
        let me = self.address.borrow();
        let is_lead = me.as_ref().is_some_and(CellAddress::is_lead);
        self.tenancy.is_none() && is_lead && has_tablets(&self.host)
    }

    /// Lead: notes its load, and leaves its tablet if that is too much for long.
    pub(super) fn see_to_heat(self: &Rc<Self>, me: &CellAddress, per_second: u32, now_ms: i64) {
        if self.tenancy.is_none() || !me.is_lead() {
            return;
        }
        if !self.balance.borrow_mut().leaving.begins(per_second, now_ms) {
            return;
        }
        let (core, me) = (self.clone(), me.clone());
        self.object.wait_until(async move {
            core.change_place(&me, true).await;
            core.balance.borrow_mut().leaving.is_under_way = false;
        });
    }

    /// Has the root say that the lead lives elsewhere from now on, and the place there take it over.
    async fn change_place(self: &Rc<Self>, me: &CellAddress, apart: bool) {
        let place = PlaceLead {
            counter: me.counter.clone(),
            datacenter: me.datacenter.clone(),
            apart,
        };
        // Where it may not, or nobody answers, it stays.
        for _ in 0..ASKED_MAX {
            match self.call_root(&place).await {
                Ok(true) => return self.move_on(me).await,
                Ok(false) => return,
                Err(_) => {}
            }
        }
    }

    /// Lead, from its alarm: where it lives apart, goes back to its tablet once it rests, or sees to it that this is looked at again.
    ///
    /// # Errors
    /// `Unavailable` where storage refuses.
    pub(super) async fn see_to_rest(self: &Rc<Self>) -> Result<(), Fault> {
        let limits = self.balance.borrow().leaving.limits;
        let me = self.address.borrow().clone();
        let (Some(limits), Some(me), Some(Stay::Here { epoch, .. })) =
            (limits, me.filter(|_| self.is_apart()), self.lead.stay())
        else {
            return Ok(());
        };
        let now_ms = self.host.now_ms();
        let now = RestLook {
            epoch,
            at_ms: now_ms,
            sequence: self.state.borrow().sequence(),
        };
        let before: Option<RestLook> = self.rows.get(Kind::RestLook, 0)?;
        // A clock that has stepped back, or another generation, begins anew.
        let before = before.filter(|before| {
            before.epoch == epoch && before.at_ms <= now_ms && before.sequence <= now.sequence
        });
        if let Some(before) = before {
            let due_ms = before.at_ms.saturating_add(limits.rest_ms);
            if now_ms < due_ms {
                return self.rows.set_alarm(due_ms).await;
            }
            let counted = now.sequence - before.sequence;
            if limits.is_rest(counted, now_ms - before.at_ms) {
                self.change_place(&me, false).await;
                self.loaded()?;
                if self.standing() != Standing::Here {
                    return Ok(());
                }
            }
        }
        let written = self.rows.put(Kind::RestLook, 0, &now);
        self.written(written)?;
        let due_ms = now_ms.saturating_add(limits.rest_ms);
        self.rows.set_alarm(due_ms).await
    }
}
