//! A token bucket that refills evenly: the generic cell rate algorithm, in exact integers.
//!
//! The state is a debt, in tokens · window milliseconds: a token adds `window_ms` to it, a millisecond takes `limit`
//! away, and a call is admitted if the debt stays at or below `burst · window_ms`. That is the theoretical arrival
//! time less the present, in units of `1 / limit` ms, and in these units another limit or burst leaves what is used
//! as it is.
//!
//! Bound: in an interval of length d the debt falls by at most `limit · d`, begins at 0 or above and ends at
//! `burst · window_ms` or below, so no more than `burst + limit · d / window_ms` tokens are admitted.
//!
//! **Source**: ITU-T I.371 (2004), annex A.

use serde::{Deserialize, Serialize};

use super::policy::Policy;

/// What is owed, as of the time of the meter. The largest bucket is 10^9 · 2.592 · 10^9 ≈ 2.6 · 10^18; what was spent
/// elsewhere may be seven times that before the debt stays at 2^64 − 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gcra {
    debt: u64,
}

fn window(policy: &Policy) -> u64 {
    u64::try_from(policy.window_ms).unwrap_or(1).max(1)
}

/// What flows off in so many milliseconds.
fn refilled(policy: &Policy, elapsed_ms: i64) -> u64 {
    u64::try_from(elapsed_ms)
        .unwrap_or(0)
        .saturating_mul(policy.limit)
}

impl Gcra {
    /// The same, so many milliseconds later.
    pub(super) fn after(self, policy: &Policy, elapsed_ms: i64) -> Self {
        Self {
            debt: self.debt.saturating_sub(refilled(policy, elapsed_ms)),
        }
    }

    /// Tokens that are not in the bucket; a part of one counts as one.
    pub(super) fn used(self, policy: &Policy) -> u64 {
        self.debt.div_ceil(window(policy))
    }

    /// Milliseconds until no more than so many tokens are used.
    pub(super) fn falls_in_ms(self, policy: &Policy, target: u64) -> i64 {
        let above = self
            .debt
            .saturating_sub(target.saturating_mul(window(policy)));
        i64::try_from(above.div_ceil(policy.limit.max(1))).unwrap_or(i64::MAX)
    }

    /// Takes tokens out of the bucket.
    pub(super) fn add(&mut self, policy: &Policy, amount: u64) {
        let debt = amount.saturating_mul(window(policy));
        self.debt = self.debt.saturating_add(debt);
    }

    /// Puts tokens back that were taken out so long ago, less what has flowed off since: without them the bucket
    /// might have been full meanwhile. Returns how many whole tokens that were.
    pub(super) fn take(&mut self, policy: &Policy, elapsed_ms: i64, amount: u64) -> u64 {
        let debt = amount.saturating_mul(window(policy));
        let debt = debt.saturating_sub(refilled(policy, elapsed_ms));
        let before = self.used(policy);
        self.debt = self.debt.saturating_sub(debt);
        before - self.used(policy)
    }
}
