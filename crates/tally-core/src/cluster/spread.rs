//! The number of limiters that keys are spread over, also while that number changes.
//!
//! Invariant: a limiter judges a key only if the key is placed there by the newest number that the limiter has
//! received. If the key had another limiter before, that one must have handed it over first. The old limiter stores the
//! new number before it answers, whatever number its own isolate was started with. So no two limiters judge one key.
//! `tests/laws/limiters.rs` goes through all interleavings of this code.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::ring::Ring;

/// How long a received number is used, milliseconds: longer than isolates of the previous deployment live.
const VALID_MS: i64 = 3_600_000;

/// The number of limiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimiterCounts {
    /// The present number.
    pub now: u32,
    /// The former number, while it is configured.
    pub before: Option<u32>,
}

/// The rings of these numbers.
#[derive(Clone, Debug)]
pub struct Rings {
    counts: LimiterCounts,
    now: Ring,
    before: Option<Ring>,
}

impl Rings {
    /// Cost: O(p log p) for 100 points of each limiter.
    pub fn new(counts: LimiterCounts) -> Self {
        Self {
            counts,
            now: Ring::new(counts.now),
            before: counts.before.map(Ring::new),
        }
    }

    /// The limiter of a key.
    pub fn now(&self, key: &str) -> u32 {
        self.now.partition_of(key)
    }

    /// The limiter of a key by the former number, while that is configured.
    pub fn before(&self, key: &str) -> Option<u32> {
        Some(self.before.as_ref()?.partition_of(key))
    }

    /// Whether the number is being changed.
    pub fn are_changing(&self) -> bool {
        self.before.is_some()
    }
}

/// The limiter that judges a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// This limiter.
    Here,
    /// This limiter, once that one has handed the key over.
    After(u32),
    /// That limiter.
    At(u32),
}

/// What a limiter does with a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemandStep {
    /// It decides.
    Decide,
    /// It takes the key over from that limiter, and looks again.
    TakeOver(u32),
    /// It forwards the demand to that limiter.
    Forward(u32),
    /// It refuses: the limiter that forwarded the demand knows another number.
    Refuse,
}

/// A limiter's knowledge of the number.
#[derive(Clone, Debug)]
pub struct Spread {
    configured: Rc<Rings>,
    received: Option<(Rc<Rings>, i64)>,
}

impl Spread {
    /// The number with which its isolate was started.
    pub fn new(configured: Rc<Rings>) -> Self {
        Self {
            configured,
            received: None,
        }
    }

    /// Takes the numbers of another limiter, or stored ones. They are newer if their former number is the present one
    /// here. Returns whether they must be stored now, before a key is handed over.
    pub fn receive(&mut self, counts: LimiterCounts, received_ms: i64, now_ms: i64) -> bool {
        let configured = self.configured.counts;
        let is_newer =
            counts.before == Some(configured.now) && configured.before != Some(counts.now);
        // Known numbers are stored too: an isolate of the previous deployment may start here. They do not replace
        // newer ones, which a limiter of the former deployment does not know.
        let is_same = self.counts(now_ms) == counts && configured.before.is_some();
        let until_ms = received_ms.saturating_add(VALID_MS);
        if !(is_newer || is_same) || until_ms <= now_ms {
            return false;
        }
        match &mut self.received {
            Some((rings, known_ms)) if rings.counts == counts => {
                // Stored at most once in half of that time, not with each message.
                if until_ms.saturating_sub(*known_ms) < VALID_MS / 2 {
                    return false;
                }
                *known_ms = until_ms;
            }
            received => *received = Some((Rc::new(Rings::new(counts)), until_ms)),
        }
        true
    }

    /// The rings in force.
    pub fn rings(&self, now_ms: i64) -> &Rings {
        let received = self.received.as_ref();
        let received = received.filter(|(_, until_ms)| now_ms < *until_ms);
        received.map_or(&self.configured, |(rings, _)| rings)
    }

    /// The numbers in force, to send to others.
    pub fn counts(&self, now_ms: i64) -> LimiterCounts {
        self.rings(now_ms).counts
    }

    /// The limiter that judges a key, as far as limiter `me` knows.
    pub fn place_of(&self, key: &str, me: u32, now_ms: i64) -> KeyPlace {
        let rings = self.rings(now_ms);
        match (rings.now(key), rings.before(key)) {
            (home, _) if home != me => KeyPlace::At(home),
            (_, Some(before)) if before != me => KeyPlace::After(before),
            _ => KeyPlace::Here,
        }
    }

    /// What limiter `me` does with a demand. `is_known`: whether anything of the key is used here, or it was taken
    /// over.
    pub fn step(
        &self,
        key: &str,
        me: u32,
        now_ms: i64,
        (is_known, is_forwarded): (impl FnOnce() -> bool, bool),
    ) -> DemandStep {
        match self.place_of(key, me, now_ms) {
            KeyPlace::At(_) if is_forwarded => DemandStep::Refuse,
            KeyPlace::At(home) => DemandStep::Forward(home),
            KeyPlace::After(before) if !is_known() => DemandStep::TakeOver(before),
            KeyPlace::After(_) | KeyPlace::Here => DemandStep::Decide,
        }
    }

    /// Whether limiter `me` may give a key, once it has received and stored the numbers of the limiter that asks. Not
    /// if it decides the key by its own: then the two know of numbers that exclude each other.
    pub fn may_give(&self, key: &str, me: u32, now_ms: i64) -> bool {
        matches!(self.place_of(key, me, now_ms), KeyPlace::At(_))
    }
}
