//! Reservations: consumption that callers may still cancel.
//!
//! Invariants: the consumption of a reservation is given back at most once. For [`RESERVED_MS_MAX`] a cancelled
//! reservation consumes nothing, and a repeated one consumes nothing again. Reservations are in memory only: after a
//! crash their consumption stays.

use std::collections::{HashMap, VecDeque};

use crate::meter::Verdict;

/// Why nothing was reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationRefusal {
    /// Not all were admitted: the verdict of each.
    NotAdmitted(Vec<Verdict>),
    /// No room.
    Full,
    /// It was cancelled before it arrived.
    Cancelled,
}

/// The random name of a reservation, chosen by its caller.
pub type ReservationId = [u8; 16];

/// How long a reservation may be cancelled, and how long a cancelled one is remembered, milliseconds.
pub const RESERVED_MS_MAX: i64 = 10_000;

/// The most reservations: 1,000 a second for the 10 s that each is remembered. 100 bytes each, without their checks,
/// are 1 MB.
pub(super) const RESERVATIONS_MAX: usize = 10_000;

/// The most checks of all reservations until they are confirmed or cancelled, most often at once: 13 MB at up to 650
/// bytes.
pub(super) const RESERVED_CHECKS_MAX: usize = 20_000;

/// The state of a reservation.
#[derive(Clone, Debug)]
pub(super) enum ReservationState {
    /// It has consumed this: (subject, cost).
    Held(Vec<(String, u64)>),
    /// Its consumption is final.
    Confirmed,
    /// It is void.
    Cancelled,
}

/// All reservations that may still be repeated or cancelled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    known: HashMap<ReservationId, (i64, ReservationState)>,
    /// When each was made, first to last.
    order: VecDeque<(i64, ReservationId)>,
    /// Checks that are held.
    held: usize,
}

impl ReservationState {
    fn held(&self) -> usize {
        match self {
            Self::Held(checks) => checks.len(),
            Self::Confirmed | Self::Cancelled => 0,
        }
    }
}

impl Reservations {
    /// Drops expired reservations, and returns the state of this one.
    pub(super) fn get(&mut self, id: &ReservationId, now_ms: i64) -> Option<&ReservationState> {
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
    pub(super) fn insert(&mut self, id: ReservationId, state: ReservationState, now_ms: i64) {
        if self.has_room() {
            self.held = self.held.saturating_add(state.held());
            self.known.insert(id, (now_ms, state));
            self.order.push_back((now_ms, id));
        }
    }

    /// Sets another state of a known one. Returns when it was made and its former state.
    pub(super) fn replace(
        &mut self,
        id: &ReservationId,
        state: ReservationState,
    ) -> Option<(i64, ReservationState)> {
        let (made_ms, known) = self.known.get_mut(id)?;
        self.held = self.held.saturating_add(state.held());
        let known = core::mem::replace(known, state);
        self.held = self.held.saturating_sub(known.held());
        Some((*made_ms, known))
    }
}
