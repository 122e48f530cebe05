//! Over how many limiters keys are spread, also while that number is changed.
//!
//! Invariant: a limiter judges a key only where the newest number that it has received says so. If the key had another
//! limiter before, that one must have handed it over first. The old limiter keeps the new number before it answers,
//! whatever number its own isolate was started with. So no two limiters judge one key.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::ring::Ring;

/// How long a number that others sent is used, milliseconds: longer than isolates of the deployment before live.
const VALID_MS: i64 = 3_600_000;

/// How many limiters there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimiterCounts {
    /// Now.
    pub now: u32,
    /// Before the number was changed, while that is configured.
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

    /// The one that had it before the number was changed, while that is configured.
    pub fn before(&self, key: &str) -> Option<u32> {
        Some(self.before.as_ref()?.partition_of(key))
    }

    /// Whether the number is being changed.
    pub fn are_changing(&self) -> bool {
        self.before.is_some()
    }
}

/// Where a key is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// At this limiter.
    Here,
    /// At this limiter, once that one has handed the key over.
    After(u32),
    /// At that limiter.
    At(u32),
}

/// What one limiter knows of the number.
#[derive(Clone, Debug)]
pub struct Spread {
    configured: Rc<Rings>,
    received: Option<(Rc<Rings>, i64)>,
}

impl Spread {
    /// By what its isolate was started with.
    pub fn new(configured: Rc<Rings>) -> Self {
        Self {
            configured,
            received: None,
        }
    }

    /// Takes in what another limiter, or this one when it stored it, says of the number. It is newer where the number
    /// there was changed from the one here. Returns whether it must be stored now: before anything is handed over.
    pub fn receive(&mut self, counts: LimiterCounts, received_ms: i64, now_ms: i64) -> bool {
        let configured = self.configured.counts;
        let is_newer =
            counts.before == Some(configured.now) && configured.before != Some(counts.now);
        // What is known already must be so too once an isolate of before starts here.
        let is_same = counts == configured && configured.before.is_some();
        let until_ms = received_ms.saturating_add(VALID_MS);
        if !(is_newer || is_same) || until_ms <= now_ms {
            return false;
        }
        match &mut self.received {
            Some((rings, known_ms)) if rings.counts == counts => {
                // Not with each message.
                if until_ms.saturating_sub(*known_ms) < VALID_MS / 2 {
                    return false;
                }
                *known_ms = until_ms;
            }
            received => *received = Some((Rc::new(Rings::new(counts)), until_ms)),
        }
        true
    }

    /// The rings that hold.
    pub fn rings(&self, now_ms: i64) -> &Rings {
        let received = self.received.as_ref();
        let received = received.filter(|(_, until_ms)| now_ms < *until_ms);
        received.map_or(&self.configured, |(rings, _)| rings)
    }

    /// The numbers that hold, to send to others.
    pub fn counts(&self, now_ms: i64) -> LimiterCounts {
        self.rings(now_ms).counts
    }

    /// Where a key is judged, as far as the limiter of this number knows.
    pub fn home(&self, key: &str, me: u32, now_ms: i64) -> Home {
        let rings = self.rings(now_ms);
        match (rings.now(key), rings.before(key)) {
            (home, _) if home != me => Home::At(home),
            (_, Some(before)) if before != me => Home::After(before),
            _ => Home::Here,
        }
    }
}
