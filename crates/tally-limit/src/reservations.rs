//! Reservations: consumption that callers may still cancel.
//!
//! Invariants: the consumption of a reservation is given back at most once. For [`RESERVED_MS_MAX`] a cancelled
//! reservation consumes nothing, and a repeated one consumes nothing again. Reservations are in memory only: after a
//! crash their consumption stays.

use std::collections::{HashMap, VecDeque};

use super::meter::Verdict;
use super::table::{Check, Full, RESERVED_MS_MAX, ReservationId, ReservationRefusal, Table};

/// The most reservations: 1,000 a second for the 10 s that each is remembered. 100 bytes each, without their checks,
/// are 1 MB.
pub(super) const RESERVATIONS_MAX: usize = 10_000;

/// The most checks of all reservations until they are confirmed or cancelled, most often at once: 13 MB at up to 650
/// bytes.
pub(super) const RESERVED_CHECKS_MAX: usize = 20_000;

/// The state of a reservation.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It has consumed this: (subject, cost).
    Held(Vec<(String, u64)>),
    /// Its consumption is final.
    Confirmed,
    /// It is void.
    Cancelled,
}

/// All reservations that may still be repeated or cancelled.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    known: HashMap<ReservationId, (i64, State)>,
    /// When each was made, first to last.
    order: VecDeque<(i64, ReservationId)>,
    /// Checks that are held.
    held: usize,
}

impl State {
    fn held(&self) -> usize {
        match self {
            Self::Held(checks) => checks.len(),
            Self::Confirmed | Self::Cancelled => 0,
        }
    }
}

impl Reservations {
    /// Drops expired reservations, and returns the state of this one.
    pub(super) fn get(&mut self, id: &ReservationId, now_ms: i64) -> Option<&State> {
        while let Some((made_ms, first)) = self.order.front() {
            if now_ms.saturating_sub(*made_ms) < RESERVED_MS_MAX {
                break;
            }
            if let Some((_, lapsed)) = self.known.remove(first) {
                self.held = self.held.saturating_sub(lapsed.held());
            }
            self.order.pop_front();
        }
        self.known.get(id).map(|(_, state)| state)
    }

    /// Whether there is room for another, after [`Self::get`].
    pub(super) fn has_room(&self) -> bool {
        self.known.len() < RESERVATIONS_MAX && self.held < RESERVED_CHECKS_MAX
    }

    /// Records one that was not known, if there is room.
    pub(super) fn insert(&mut self, id: ReservationId, state: State, now_ms: i64) {
        if self.has_room() {
            self.held = self.held.saturating_add(state.held());
            self.known.insert(id, (now_ms, state));
            self.order.push_back((now_ms, id));
        }
    }

    /// Sets another state of a known one. Returns when it was made and its former state.
    pub(super) fn replace(&mut self, id: &ReservationId, state: State) -> Option<(i64, State)> {
        let (made_ms, known) = self.known.get_mut(id)?;
        self.held = self.held.saturating_add(state.held());
        let known = core::mem::replace(known, state);
        self.held = self.held.saturating_sub(known.held());
        Some((*made_ms, known))
    }
}

impl Table {
    /// As [`Self::check_all`], and remembers the consumption for [`RESERVED_MS_MAX`], so that it can be cancelled. A
    /// repeat gets the present verdicts, and consumes nothing.
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
            Some(State::Cancelled) => return Err(ReservationRefusal::Cancelled),
            Some(State::Held(_) | State::Confirmed) => {
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
        self.reservations.insert(id, State::Held(held), now_ms);
        Ok(verdicts)
    }

    /// Gives back the consumption of a reservation, as far as it still counts, once. If the reservation has not arrived
    /// yet, it will be refused.
    pub fn cancel(&mut self, id: ReservationId, wall_ms: i64) {
        let now_ms = self.clock.read(wall_ms);
        if self.reservations.get(&id, now_ms).is_none() {
            self.reservations.insert(id, State::Cancelled, now_ms);
            return;
        }
        match self.reservations.replace(&id, State::Cancelled) {
            Some((made_ms, State::Held(held))) => {
                for (subject, cost) in held {
                    self.give_back(&subject, now_ms, made_ms, cost);
                }
            }
            Some((_, State::Confirmed)) => {
                self.reservations.replace(&id, State::Confirmed);
            }
            Some((_, State::Cancelled)) | None => {}
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
        if let Some(State::Held(_)) = self.reservations.get(&id, now_ms) {
            self.reservations.replace(&id, State::Confirmed);
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
