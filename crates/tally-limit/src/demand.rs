//! The recent demand of a borrower's callers.
//!
//! Invariant: two counts are kept, of the current period and of the one before. The expected demand is in proportion to
//! them.

use super::lease::lease_ms;
use super::policy::Policy;

/// The largest factor by which a lease grows in the first period, when no earlier demand is known.
const GROWTH: u64 = 4;

/// The demand of the present period, which is as long as a lease, and of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    since_ms: i64,
    current: u64,
    /// Nothing before a first period is over.
    before: Option<u64>,
    is_begun: bool,
}

impl Demand {
    /// Records a call of this cost.
    pub(super) fn record(&mut self, policy: &Policy, now_ms: i64, cost: u64) {
        let period_ms = lease_ms(policy);
        let elapsed_ms = now_ms.saturating_sub(self.since_ms);
        if !self.is_begun || elapsed_ms >= period_ms.saturating_mul(2) {
            *self = Self {
                since_ms: now_ms,
                current: 0,
                before: None,
                is_begun: true,
            };
        } else if elapsed_ms >= period_ms {
            self.since_ms = self.since_ms.saturating_add(period_ms);
            self.before = Some(self.current);
            self.current = 0;
        }
        self.current = self.current.saturating_add(cost);
    }

    /// The expected demand within `length_ms`, rounded down.
    pub(super) fn within(&self, policy: &Policy, now_ms: i64, length_ms: i64) -> u64 {
        let period_ms = wide(lease_ms(policy));
        let elapsed_ms = wide(now_ms.saturating_sub(self.since_ms)).max(1);
        let length_ms = wide(length_ms);
        let current = u128::from(self.current);
        let expected = match self.before {
            None => {
                let straight = current * length_ms / elapsed_ms.min(period_ms);
                straight.min(current * u128::from(GROWTH))
            }
            Some(before) => {
                let left_ms = period_ms.saturating_sub(elapsed_ms);
                let known_ms = elapsed_ms.max(period_ms);
                (u128::from(before) * left_ms / period_ms + current) * length_ms / known_ms
            }
        };
        u64::try_from(expected).unwrap_or(u64::MAX)
    }

    /// Whether nothing was recorded, or the present period began at least two lease lengths ago.
    pub(super) fn is_idle(&self, policy: &Policy, now_ms: i64) -> bool {
        let elapsed_ms = now_ms.saturating_sub(self.since_ms);
        elapsed_ms >= lease_ms(policy).saturating_mul(2) || self.current == 0
    }
}

fn wide(length_ms: i64) -> u128 {
    u128::try_from(length_ms).unwrap_or(0)
}
