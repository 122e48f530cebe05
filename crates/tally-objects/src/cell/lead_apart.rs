//! How a hot lead leaves its tablet for an object of its own, and returns once it is idle.
//!
//! Invariant: the root decides, and stores its decision durably; then the lead moves as any other, see
//! [`super::lead_moves`]. So a lead counts at one place in spite of losses and crashes. If the root is not reached, the
//! lead stays. It counts here until its new place takes it over.
//!
//! Life: a lead in a tablet that cannot be split, or gets keyed writes, gets many messages for some seconds. It asks
//! its root to be placed elsewhere ([`PlaceLead`]), and has its own object take it over. There it checks from time to
//! time how much was counted since, and returns in the same way. Each answer names the lead's place to the edge, see
//! [`tally_shared::leads_apart`].

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::core::CellCore;
use super::lead_role::LeadRole;
use super::row_kinds::Kind;
use tally_shared::call::has_tablets;
use tally_wire::messages::{Fault, LeadPresence, PlaceLead};
use tally_wire::names::CellAddress;

/// How often the root is asked to place the lead elsewhere: an answer may be lost.
const TRIES_MAX: usize = 2;

/// The count of a lead outside its tablet at the last check. Stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RestCheck {
    /// The epoch of its presence here: values of an earlier epoch are ignored.
    epoch: u32,
    /// When, unix milliseconds.
    at_ms: i64,
    /// Its count then.
    sequence: u64,
}

impl CellCore {
    /// Whether this is a lead in an object of its own, although tablets host others.
    pub(super) fn is_apart(&self) -> bool {
        let me = self.address.borrow();
        let is_lead = me.as_ref().is_some_and(CellAddress::is_lead);
        self.tenancy.is_none() && is_lead && has_tablets(&self.host)
    }

    /// Lead: records its load, and leaves its tablet if the load stays too high.
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

    /// Asks the root to place the lead elsewhere, and the object there to take it over.
    async fn change_place(self: &Rc<Self>, me: &CellAddress, apart: bool) {
        let request = PlaceLead {
            counter: me.counter.clone(),
            datacenter: me.datacenter.clone(),
            apart,
        };
        // If the root refuses or does not answer, the lead stays.
        for _ in 0..TRIES_MAX {
            match self.call_root(&request).await {
                Ok(true) => return self.move_on(me).await,
                Ok(false) => return,
                Err(_) => {}
            }
        }
    }

    /// Lead, from its alarm: if it is outside its tablet, it returns once it is idle, or sets the alarm for the next
    /// check.
    ///
    /// # Errors
    /// `Unavailable` where storage refuses.
    pub(super) async fn see_to_rest(self: &Rc<Self>) -> Result<(), Fault> {
        let limits = self.balance.borrow().leaving.limits;
        let me = self.address.borrow().clone();
        let (Some(limits), Some(me), Some(LeadPresence::Here { epoch, .. })) =
            (limits, me.filter(|_| self.is_apart()), self.lead.presence())
        else {
            return Ok(());
        };
        let now_ms = self.host.now_ms();
        let now = RestCheck {
            epoch,
            at_ms: now_ms,
            sequence: self.state.borrow().sequence(),
        };
        let before: Option<RestCheck> = self.rows.get(Kind::RestLook, 0)?;
        // After a step back of the clock, or in another generation, the check begins anew.
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
                if self.lead_role() != LeadRole::Here {
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
