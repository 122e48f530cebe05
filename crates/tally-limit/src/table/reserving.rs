//! How a table reserves, cancels and confirms.

use super::reservations::ReservationState;
use crate::meter::Verdict;
use crate::table::{Check, Full, ReservationId, ReservationRefusal, Table};

impl Table {
    /// As [`Self::check_all`], and remembers the consumption for [`super::RESERVED_MS_MAX`], so that it can be
    /// cancelled. A repeat gets the present verdicts, and consumes nothing.
    ///
    /// # Errors
    /// A [`ReservationRefusal`]; nothing is consumed.
    pub fn reserve(
        &mut self,
        id: ReservationId,
        checks: &[Check<'_>],
        wall_ms: i64,
    ) -> Result<Vec<Verdict>, ReservationRefusal> {
        let now_ms = self.clock.read(wall_ms);
        match self.reservations.get(&id, now_ms).cloned() {
            Some(ReservationState::Cancelled) => return Err(ReservationRefusal::Cancelled),
            Some(ReservationState::Held(_) | ReservationState::Confirmed) => {
                let peek = |check: &Check<'_>| self.peek(&Check { cost: 0, ..*check }, wall_ms);
                let verdicts = checks.iter().map(peek);
                return Ok(verdicts.map(admitted).collect());
            }
            None if !self.reservations.has_room() => return Err(ReservationRefusal::Full),
            None => {}
        }
        let verdicts = self
            .all(checks, now_ms)
            .map_err(|Full| ReservationRefusal::Full)?;
        if !verdicts.iter().all(|verdict| verdict.is_allowed) {
            return Err(ReservationRefusal::NotAdmitted(verdicts));
        }
        let mut held = Vec::with_capacity(checks.len());
        for check in checks {
            let slot = self.slot_of(check.name, check.key);
            if let Some(entry) = slot.and_then(|slot| self.slots.get(slot)) {
                held.push((entry.subject.to_string(), check.cost));
            }
        }
        self.reservations
            .insert(id, ReservationState::Held(held), now_ms);
        Ok(verdicts)
    }

    /// Gives back the consumption of a reservation, as far as it still counts, once. If the reservation has not arrived
    /// yet, it will be refused.
    pub fn cancel(&mut self, id: ReservationId, wall_ms: i64) {
        let now_ms = self.clock.read(wall_ms);
        if self.reservations.get(&id, now_ms).is_none() {
            self.reservations
                .insert(id, ReservationState::Cancelled, now_ms);
            return;
        }
        match self.reservations.replace(&id, ReservationState::Cancelled) {
            Some((made_ms, ReservationState::Held(held))) => {
                for (subject, cost) in held {
                    self.give_back(&subject, now_ms, made_ms, cost);
                }
            }
            Some((_, ReservationState::Confirmed)) => {
                self.reservations.replace(&id, ReservationState::Confirmed);
            }
            Some((_, ReservationState::Cancelled)) | None => {}
        }
    }

    fn give_back(&mut self, subject: &str, now_ms: i64, made_ms: i64, cost: u64) {
        let Some(slot) = self.slots.slot_of(subject) else {
            return;
        };
        if let Some(entry) = self.slots.get_mut(slot) {
            entry.lender.expire(&entry.policy, now_ms);
            let meter = entry.lender.meter_mut();
            meter.refund_at(&entry.policy, now_ms, made_ms, cost);
        }
        self.touch(slot);
    }

    /// Makes the consumption of a reservation final.
    pub fn confirm(&mut self, id: ReservationId, wall_ms: i64) {
        let now_ms = self.clock.read(wall_ms);
        if let Some(ReservationState::Held(_)) = self.reservations.get(&id, now_ms) {
            self.reservations.replace(&id, ReservationState::Confirmed);
        }
    }
}

/// The verdict of a reservation that was made before.
fn admitted(verdict: Verdict) -> Verdict {
    Verdict {
        is_allowed: true,
        retry_after_ms: 0,
        ..verdict
    }
}
