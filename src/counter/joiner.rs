//! How queued events of one isolate join into appends to one inbox.
//!
//! Invariants: one append is in flight at a time; each has its own number, and its lane is left for another
//! once what became of one is not known, so that a late copy of it is known by its nonce or never asked for;
//! an outcome stays until it is old, since many look for it.

use std::collections::HashMap;

use super::nonces::Nonce;
use super::queue::{APPEND_ENTRIES_MAX, Event};

/// How long a request waits for its append; after that its flight is given up too.
pub const WAIT_MS_MAX: i64 = 10_000;

/// Outcomes of appends that are remembered, for those who have not looked yet: 10 s of one each 2.5 ms.
const LANDED_MAX: u64 = 4_096;

/// The events of one isolate on their way to one inbox; `T` is what becomes of an append.
#[derive(Clone, Debug)]
pub struct Joiner<T> {
    lane: u64,
    /// Number of the append that is gathered now.
    number: u64,
    gathered: Vec<Event>,
    /// Since when an append is in flight, unix milliseconds.
    flying_since_ms: Option<i64>,
    landed: HashMap<u64, T>,
}

impl<T: Clone> Joiner<T> {
    /// Nothing yet; `lane` is drawn at random.
    pub fn new(lane: u64) -> Self {
        Self {
            lane,
            number: 1,
            gathered: Vec::new(),
            flying_since_ms: None,
            landed: HashMap::new(),
        }
    }

    /// Whether nothing is gathered and nothing in flight.
    pub fn is_idle(&self) -> bool {
        self.flying_since_ms.is_none() && self.gathered.is_empty()
    }

    /// Gathers an event. Returns the number of its append; `None` where that has no room.
    pub fn join(&mut self, event: Event) -> Option<u64> {
        if self.gathered.len() >= APPEND_ENTRIES_MAX {
            return None;
        }
        self.gathered.push(event);
        Some(self.number)
    }

    /// Takes what was gathered, if nothing is in flight. `new_lane` draws another lane at random.
    pub fn take(
        &mut self,
        now_ms: i64,
        new_lane: impl FnOnce() -> u64,
    ) -> Option<(Nonce, Vec<Event>)> {
        if self
            .flying_since_ms
            .is_some_and(|since_ms| now_ms - since_ms > WAIT_MS_MAX)
        {
            // Its request was ended. What becomes of it is unknown, so the lane begins anew.
            self.lane = new_lane();
            self.flying_since_ms = None;
        }
        if self.flying_since_ms.is_some() || self.gathered.is_empty() {
            return None;
        }
        let nonce = Nonce {
            lane: self.lane,
            number: self.number,
        };
        self.number += 1;
        self.flying_since_ms = Some(now_ms);
        Some((nonce, std::mem::take(&mut self.gathered)))
    }

    /// Notes what became of an append.
    pub fn land(&mut self, nonce: Nonce, outcome: T) {
        self.landed.insert(nonce.number, outcome);
        let oldest = nonce.number.saturating_sub(LANDED_MAX);
        if self.landed.len() > usize::try_from(2 * LANDED_MAX).unwrap_or(usize::MAX) {
            self.landed.retain(|number, _| *number > oldest);
        }
        if self.lane == nonce.lane {
            self.flying_since_ms = None;
        }
    }

    /// What became of the append of a number, once that is known.
    pub fn outcome(&self, number: u64) -> Option<T> {
        self.landed.get(&number).cloned()
    }
}
