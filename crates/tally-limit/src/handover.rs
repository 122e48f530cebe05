//! How a key goes to another lender: with what was used of it, and with what is lent.
//!
//! Invariant: what a borrower of the old lender may still spend is outstanding at the new one until the borrower's
//! lease is over, and counts as spent then. So the new lender's sum holds it as the old lender's did: see
//! [`crate::lender`]. Its borrowers begin new leases there.

use serde::{Deserialize, Serialize};

use super::lease::LeaseId;
use super::lender::{LEASES_MAX, Lease, Lender};
use super::named::KnownCall;
use super::policy::Policy;
use super::table::{Check, Full, Table};

/// What a lender hands over with a key that it lends no more. A part of messages: append fields, never reorder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// What is used. It may be more than a limit that was lowered since, which may be raised again.
    pub used: u64,
    /// How much is lent.
    pub outstanding: u64,
    /// How long until the last lease ends, milliseconds.
    pub held_ms: u64,
    /// The named calls of the key.
    pub calls: Vec<KnownCall>,
}

impl Lender {
    /// How much is lent, and for how many milliseconds at most.
    fn outstanding_leases(&self, now_ms: i64) -> (u64, u64) {
        let live = self.leases.iter().filter(|lease| lease.until_ms > now_ms);
        live.fold((0, 0), |(sum, held_ms), lease| {
            let left_ms = u64::try_from(lease.until_ms.saturating_sub(now_ms)).unwrap_or(0);
            (
                sum.saturating_add(lease.outstanding()),
                held_ms.max(left_ms),
            )
        })
    }

    /// Counts as used what was used, and holds what is outstanding as the lease of nobody.
    fn take_over(
        &mut self,
        policy: &Policy,
        used: u64,
        outstanding: u64,
        until_ms: i64,
        now_ms: i64,
    ) {
        self.expire(policy, now_ms);
        if used > 0 {
            self.meter.charge(policy, now_ms, used);
        }
        if outstanding > 0 {
            let nobody = LeaseId {
                borrower: String::new(),
                incarnation: 0,
                number: 0,
            };
            self.leases.push(Lease::of(nobody, outstanding, until_ms));
        }
    }
}

impl Table {
    /// What the next lender of a key must know; nothing changes.
    pub fn hand_over(&self, check: &Check<'_>, wall_ms: i64) -> Handover {
        let now_ms = self.clock.peek(wall_ms);
        let slot = self.slot_of(check.name, check.key);
        let Some(entry) = slot.and_then(|slot| self.slots.get(slot)) else {
            return Handover::default();
        };
        let mut lender = entry.lender.clone();
        lender.expire(&entry.policy, now_ms);
        let (outstanding, held_ms) = lender.outstanding_leases(now_ms);
        Handover {
            used: lender.meter.used(&entry.policy, now_ms),
            outstanding,
            held_ms,
            calls: match entry.is_shared() {
                true => Vec::new(),
                false => lender.known_calls(),
            },
        }
    }

    /// Goes on with a key that another lender has handed over.
    ///
    /// # Errors
    /// [`Full`] where there is no room for the key, or for what is lent of it: it must be refused.
    pub fn take_over(
        &mut self,
        check: &Check<'_>,
        handover: &Handover,
        wall_ms: i64,
    ) -> Result<(), Full> {
        if *handover == Handover::default() {
            return Ok(());
        }
        let outstanding = handover.outstanding;
        let now_ms = self.clock.read(wall_ms);
        self.make_room(&[*check], now_ms);
        if outstanding > 0 && !self.slots.has_room_for_lease() {
            return Err(Full);
        }
        let slot = self.enter(check, now_ms)?;
        let entry = self.slots.get_mut(slot).ok_or(Full)?;
        if outstanding > 0 && entry.lender.leases.len() >= LEASES_MAX {
            return Err(Full);
        }
        let until_ms = i64::try_from(handover.held_ms).unwrap_or(i64::MAX);
        let until_ms = now_ms.saturating_add(until_ms);
        if entry.is_shared() && !handover.calls.is_empty() {
            return Err(Full);
        }
        let lender = &mut entry.lender;
        for call in &handover.calls {
            lender.take_call(*call);
        }
        lender.take_over(&entry.policy, handover.used, outstanding, until_ms, now_ms);
        self.touch(slot);
        Ok(())
    }
}
