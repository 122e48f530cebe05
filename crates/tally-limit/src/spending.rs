//! When tokens of a lease were spent, as far as no report has reached its lender.
//!
//! Invariants: at most [`PARTS_MAX`] parts, oldest first; none is reported as older than it is.

use super::lease::Spent;

/// The most parts in which spending is reported, each of a sixteenth of a lease.
const PARTS_MAX: usize = 16;
const PARTS: i64 = 16;

/// What was spent in a part of a lease. It is reported as of its end.
#[derive(Clone, Copy, Debug)]
struct Part {
    from_ms: i64,
    until_ms: i64,
    amount: u64,
}

/// What was spent and not yet confirmed.
#[derive(Clone, Debug, Default)]
pub(super) struct Spending {
    parts: Vec<Part>,
}

impl Spending {
    /// Records that so much is spent now, of a lease of this length.
    pub(super) fn record(&mut self, lease_ms: i64, now_ms: i64, amount: u64) {
        let is_full = self.parts.len() >= PARTS_MAX;
        match self.parts.last_mut() {
            Some(part) if is_full || now_ms.saturating_sub(part.from_ms) < lease_ms / PARTS => {
                part.until_ms = now_ms;
                part.amount = part.amount.saturating_add(amount);
            }
            _ => self.parts.push(Part {
                from_ms: now_ms,
                until_ms: now_ms,
                amount,
            }),
        }
    }

    /// What a request says of it, oldest first.
    pub(super) fn report(&self, now_ms: i64) -> Vec<Spent> {
        let age_ms = |at_ms: i64| u64::try_from(now_ms.saturating_sub(at_ms)).unwrap_or(0);
        let parts = self.parts.iter().map(|part| Spent {
            age_ms: age_ms(part.until_ms),
            amount: part.amount,
        });
        parts.collect()
    }

    /// Forgets all but the newest of this sum: the report of the others was taken in.
    pub(super) fn confirm(&mut self, mut kept: u64) {
        let mut from = self.parts.len();
        while kept > 0 && from > 0 {
            from -= 1;
            if let Some(part) = self.parts.get_mut(from) {
                part.amount = part.amount.min(kept);
                kept -= part.amount;
            }
        }
        self.parts.drain(..from);
    }

    /// Forgets all: the lease is over.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }
}
