//! How much visitors without a key may write: a limit for each visitor and counter, in one isolate's memory.
//!
//! Invariants: at most [`VISITORS_MAX`] are held; a visitor is a hash by a key that never leaves the isolate, so no address is
//! held or can be found from what is; one is only forgotten once nothing of it counts. Where there is no room a write is let
//! in: the limit keeps one visitor from filling a counter, and must not lose the views of all others.
//!
//! Isolates do not ask each other: a visitor whose requests reach n of them may write n times as much.

use std::collections::HashMap;

use super::meter::Meter;
use super::policy::{Algorithm, Policy};

/// Writes that a visitor may make to a counter at once, and again in each minute: one a second on average.
pub const WRITES_PER_MINUTE: u64 = 60;

/// Visitors of counters that are held: 100 bytes each at most, so 2 MB.
pub const VISITORS_MAX: usize = 20_000;

/// How often it is looked which may be forgotten, where there is no room: 20,000 · 20 ns = 0.4 ms each time.
const SWEEP_EVERY_MS: i64 = 1_000;

/// The visitors that have written lately.
#[derive(Clone, Debug)]
pub struct Visitors {
    policy: Policy,
    meters: HashMap<u64, Meter>,
    swept_ms: i64,
}

impl Default for Visitors {
    fn default() -> Self {
        Self {
            policy: Policy {
                algorithm: Algorithm::TokenBucket,
                ..Policy::sliding(WRITES_PER_MINUTE, 60)
            },
            meters: HashMap::new(),
            swept_ms: i64::MIN,
        }
    }
}

impl Visitors {
    /// Nothing where this visitor may write now, which is then used.
    ///
    /// # Errors
    /// Milliseconds until it may, at least 1.
    pub fn write(&mut self, visitor: u64, now_ms: i64) -> Result<(), u64> {
        if self.meters.len() >= VISITORS_MAX && !self.meters.contains_key(&visitor) {
            self.sweep(now_ms);
            if self.meters.len() >= VISITORS_MAX {
                return Ok(());
            }
        }
        let policy = &self.policy;
        let meter = self.meters.entry(visitor);
        let verdict = meter
            .or_insert_with(|| Meter::new(policy))
            .check(policy, now_ms, 1);
        if verdict.is_allowed {
            Ok(())
        } else {
            Err(verdict.retry_after_ms)
        }
    }

    /// How many visitors are held.
    pub fn len(&self) -> usize {
        self.meters.len()
    }

    /// Whether none are held.
    pub fn is_empty(&self) -> bool {
        self.meters.is_empty()
    }

    fn sweep(&mut self, now_ms: i64) {
        if now_ms.saturating_sub(self.swept_ms) < SWEEP_EVERY_MS {
            return;
        }
        self.swept_ms = now_ms;
        let policy = &self.policy;
        self.meters
            .retain(|_, meter| meter.idle_at_ms(policy) > now_ms);
    }
}
