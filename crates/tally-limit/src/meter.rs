//! The use of one key under one policy, and the verdict about the next call.
//!
//! Invariants: a refused call consumes nothing. A verdict depends only on the state, the policy and the time. The time
//! of a meter never goes back: a call counts as no earlier than the one before it.
//!
//! All algorithms answer two questions: how much is used, and when the use falls to a given amount. Each verdict
//! follows from these answers. The policy of every call is the one that the meter was made or adapted for.

use serde::{Deserialize, Serialize};

use super::buckets::Buckets;
use super::gcra::Gcra;
use super::policy::{Algorithm, Policy};

/// The verdict about a call. Times count from the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether it is admitted.
    pub is_allowed: bool,
    /// The policy's limit for a window.
    pub limit: u64,
    /// How much is left after this call, at most the policy's capacity.
    pub remaining: u64,
    /// Milliseconds until more is left than now, without further consumption; 0 if nothing is used.
    pub reset_after_ms: u64,
    /// 0 if it is admitted. Otherwise the milliseconds, at least 1, until it would be admitted without further
    /// consumption: one millisecond earlier it is refused. [`NEVER_MS`] if it never is.
    pub retry_after_ms: u64,
}

impl Verdict {
    /// This refusal `passed_ms` later, without consumption or refunds meanwhile.
    #[must_use]
    pub fn later(self, passed_ms: u64) -> Self {
        let retry_after_ms = match self.retry_after_ms {
            NEVER_MS => NEVER_MS,
            wait_ms => wait_ms.saturating_sub(passed_ms).max(1),
        };
        Self {
            reset_after_ms: self.reset_after_ms.saturating_sub(passed_ms),
            retry_after_ms,
            ..self
        }
    }
}

/// The wait for a cost above the policy's capacity, milliseconds.
pub const NEVER_MS: u64 = u64::MAX;

/// The use, in the form of the algorithm. Stored: append, never reorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Buckets(Buckets),
    Gcra(Gcra),
}

/// The state of one key. A stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// The time of the newest call.
    at_ms: i64,
    state: State,
}

impl Meter {
    /// An unused meter.
    pub fn new(policy: &Policy) -> Self {
        let state = match policy.algorithm {
            Algorithm::SlidingWindow | Algorithm::FixedWindow | Algorithm::Concurrency => {
                State::Buckets(Buckets::default())
            }
            Algorithm::TokenBucket => State::Gcra(Gcra::default()),
        };
        Self { at_ms: 0, state }
    }

    /// The verdict about a call of this cost; an admitted one is consumed. Cost: O(1) if admitted, O(61) if refused;
    /// O(limit) for a precise window.
    pub fn check(&mut self, policy: &Policy, now_ms: i64, cost: u64) -> Verdict {
        self.check_beside(policy, now_ms, cost, 0)
    }

    /// As [`Self::check`], if others hold `held` of the capacity.
    pub(super) fn check_beside(
        &mut self,
        policy: &Policy,
        now_ms: i64,
        cost: u64,
        held: u64,
    ) -> Verdict {
        let at_ms = self.advance(policy, now_ms);
        let room = policy.capacity().saturating_sub(held);
        if self.used(policy, at_ms).saturating_add(cost) > room {
            return self.peek_beside(policy, now_ms, cost, held);
        }
        self.add(policy, at_ms, at_ms, cost);
        Verdict {
            is_allowed: true,
            retry_after_ms: 0,
            ..self.peek_beside(policy, now_ms, 0, held)
        }
    }

    /// The verdict that [`Self::check`] would return, with the state before the call; nothing is consumed.
    pub fn peek(&self, policy: &Policy, now_ms: i64, cost: u64) -> Verdict {
        self.peek_beside(policy, now_ms, cost, 0)
    }

    /// As [`Self::peek`], if others hold `held` of the capacity.
    pub(super) fn peek_beside(
        &self,
        policy: &Policy,
        now_ms: i64,
        cost: u64,
        held: u64,
    ) -> Verdict {
        let at_ms = now_ms.max(self.at_ms);
        let room = policy.capacity().saturating_sub(held);
        let used = self.used(policy, at_ms);
        let wait_ms = |target| {
            let then_ms = self.falls_at_ms(policy, at_ms, target);
            u64::try_from(then_ms.saturating_sub(now_ms)).unwrap_or(0)
        };
        let (is_allowed, retry_after_ms) = match room.checked_sub(cost) {
            Some(target) if used <= target => (true, 0),
            Some(target) => (false, wait_ms(target).max(1)),
            None => (false, NEVER_MS),
        };
        Verdict {
            is_allowed,
            limit: policy.limit,
            remaining: room.saturating_sub(used),
            // If more than the capacity is used, more is left only once the use falls below the capacity.
            reset_after_ms: used.min(room).checked_sub(1).map_or(0, wait_ms),
            retry_after_ms,
        }
    }

    /// Consumes an amount that was spent elsewhere, even if it is too much.
    pub fn charge(&mut self, policy: &Policy, now_ms: i64, amount: u64) {
        let at_ms = self.advance(policy, now_ms);
        self.add(policy, at_ms, at_ms, amount);
    }

    /// Consumes an amount that was spent elsewhere before now, if it still counts. A token bucket counts it as spent
    /// now.
    pub fn charge_at(&mut self, policy: &Policy, now_ms: i64, spent_ms: i64, amount: u64) {
        let at_ms = self.advance(policy, now_ms);
        self.add(policy, at_ms, spent_ms, amount);
    }

    /// Refunds an amount that was consumed at an unknown time within the window. The oldest use is reduced, so that the
    /// rest never counts as older than it is. Returns the refunded amount, at most the use.
    pub fn refund(&mut self, policy: &Policy, now_ms: i64, amount: u64) -> u64 {
        let at_ms = self.advance(policy, now_ms);
        match &mut self.state {
            State::Buckets(buckets) => buckets.take(policy, at_ms, i64::MIN, amount),
            State::Gcra(gcra) => gcra.take(policy, 0, amount),
        }
    }

    /// Refunds an amount that was consumed at this time, as far as it still counts. Returns the refunded amount.
    pub fn refund_at(
        &mut self,
        policy: &Policy,
        now_ms: i64,
        consumed_ms: i64,
        amount: u64,
    ) -> u64 {
        let at_ms = self.advance(policy, now_ms);
        match &mut self.state {
            State::Buckets(_) if !Buckets::counts(policy, at_ms, consumed_ms) => 0,
            State::Buckets(buckets) => buckets.take(policy, at_ms, consumed_ms, amount),
            State::Gcra(gcra) => gcra.take(policy, at_ms.saturating_sub(consumed_ms), amount),
        }
    }

    /// Changes to another policy. The use is kept: exactly if algorithm and window are the same, otherwise as if it had
    /// been used now.
    pub fn adapt(&mut self, old: &Policy, new: &Policy, now_ms: i64) {
        let at_ms = self.advance(old, now_ms);
        if !old.counts_like(new) {
            let used = self.used(old, at_ms);
            *self = Self::new(new);
            self.charge(new, at_ms, used);
        }
    }

    /// The use. The policy's capacity less this is left, or nothing if this is larger.
    pub fn used(&self, policy: &Policy, now_ms: i64) -> u64 {
        let at_ms = now_ms.max(self.at_ms);
        match &self.state {
            State::Buckets(buckets) => buckets.used(policy, at_ms),
            State::Gcra(gcra) => gcra
                .after(policy, at_ms.saturating_sub(self.at_ms))
                .used(policy),
        }
    }

    /// When the meter equals an unused one, unix milliseconds: from then on it may be dropped.
    pub fn idle_at_ms(&self, policy: &Policy) -> i64 {
        self.falls_at_ms(policy, self.at_ms, 0)
    }

    /// Joins times into few buckets, none at an earlier time: quota returns later, never earlier.
    pub(super) fn compact(&mut self) {
        if let State::Buckets(buckets) = &mut self.state {
            buckets.compact();
        }
    }

    /// The bytes that it occupies besides its own size.
    pub fn heap_bytes(&self) -> u64 {
        match &self.state {
            State::Buckets(buckets) => buckets.heap_bytes(),
            State::Gcra(_) => 0,
        }
    }

    /// Advances the state to now. Returns its time, which is never before that of the newest call.
    fn advance(&mut self, policy: &Policy, now_ms: i64) -> i64 {
        let at_ms = now_ms.max(self.at_ms);
        match &mut self.state {
            State::Buckets(buckets) => buckets.expire(policy, at_ms),
            State::Gcra(gcra) => *gcra = gcra.after(policy, at_ms.saturating_sub(self.at_ms)),
        }
        self.at_ms = at_ms;
        at_ms
    }

    /// Consumes, after the state was advanced to now.
    fn add(&mut self, policy: &Policy, now_ms: i64, spent_ms: i64, amount: u64) {
        match &mut self.state {
            State::Buckets(buckets) => buckets.add(policy, now_ms, spent_ms, amount),
            State::Gcra(gcra) => gcra.add(policy, amount),
        }
    }

    /// The first time, not before now, at which no more than this is used.
    fn falls_at_ms(&self, policy: &Policy, now_ms: i64, target: u64) -> i64 {
        match &self.state {
            State::Buckets(buckets) => buckets.falls_at_ms(policy, now_ms, target),
            State::Gcra(gcra) => {
                let gcra = gcra.after(policy, now_ms.saturating_sub(self.at_ms));
                now_ms.saturating_add(gcra.falls_in_ms(policy, target))
            }
        }
    }
}
