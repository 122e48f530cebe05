//! What one key has used under one policy, and the verdict about the next call.
//!
//! Invariants: what is refused consumes nothing; a verdict depends on the state, the policy and the time alone; the time never
//! runs back in a meter: a call is taken to be no earlier than the one before it.
//!
//! The policy of every call is the one that the meter was made or adapted for.

use serde::{Deserialize, Serialize};

use super::policy::Policy;

/// What becomes of a call. Times count from the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether it is admitted.
    pub is_allowed: bool,
    /// The policy's limit for a window.
    pub limit: u64,
    /// How much is left after this call.
    pub remaining: u64,
    /// Milliseconds until more is left than now, if nobody consumes; 0 where all is there.
    pub reset_ms: u64,
    /// 0 where it is admitted, else milliseconds, at least 1, until it would be, if nobody consumes: a
    /// millisecond earlier it is refused. [`NEVER_MS`] where it never is.
    pub retry_after_ms: u64,
}

/// How long one waits for a cost above the policy's capacity.
pub const NEVER_MS: u64 = u64::MAX;

/// The state of one key. A stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    at_ms: i64,
}

impl Meter {
    /// A meter of which nothing is used.
    pub fn new(policy: &Policy) -> Self {
        todo!()
    }

    /// The verdict about a call of this cost; an admitted one is consumed.
    pub fn check(&mut self, policy: &Policy, now_ms: i64, cost: u64) -> Verdict {
        todo!()
    }

    /// What [`Self::check`] would say of a call of this cost, as it stands before the call; nothing is consumed.
    pub fn peek(&self, policy: &Policy, now_ms: i64, cost: u64) -> Verdict {
        todo!()
    }

    /// Consumes although it may be too much: what was spent elsewhere.
    pub fn charge(&mut self, policy: &Policy, now_ms: i64, amount: u64) {
        todo!()
    }

    /// Consumes what was spent elsewhere at a time before, and is not yet over.
    pub fn charge_at(&mut self, policy: &Policy, now_ms: i64, at_ms: i64, amount: u64) {
        todo!()
    }

    /// Gives back what was consumed at a time that is not known: of the oldest, so that what stays is never taken for older than it
    /// is. Returns how much that was: never more than is used.
    pub fn refund(&mut self, policy: &Policy, now_ms: i64, amount: u64) -> u64 {
        todo!()
    }

    /// Gives back what was consumed at this time, as far as it still counts. Returns how much that was.
    pub fn refund_at(&mut self, policy: &Policy, now_ms: i64, at_ms: i64, amount: u64) -> u64 {
        todo!()
    }

    /// Goes on under another policy. What is used stays used: to the letter where only limit or burst changed, else as
    /// if it had been used now.
    pub fn adapt(&mut self, old: &Policy, new: &Policy, now_ms: i64) {
        todo!()
    }

    /// How much is used: what is left is the policy's capacity less this.
    pub fn used(&self, policy: &Policy, now_ms: i64) -> u64 {
        todo!()
    }

    /// When the meter is as a fresh one, unix milliseconds: from then on it may be dropped.
    pub fn idle_at_ms(&self, policy: &Policy) -> i64 {
        todo!()
    }

    /// Bytes that it occupies beside its own size.
    pub fn heap_bytes(&self) -> u64 {
        todo!()
    }
}
