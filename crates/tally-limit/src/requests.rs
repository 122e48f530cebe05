//! The requests of a borrower to its lender.
//!
//! Invariant: at most one request is in flight.

use super::borrower::{Borrower, PendingRequest};
use super::lease::LeaseRequest;
use super::lease::lease_ms;
use super::policy::{Policy, Scope};

/// The time whose use a borrower keeps in stock, milliseconds. To it are added four trips, and a fiftieth of the limit
/// or 50 if that is more, so that one request serves many calls. It keeps no more than it uses within its lease.
const AHEAD_MS: i64 = 2_000;
const PART_OF_CAPACITY: u64 = 50;
const TOKENS_AHEAD_MIN: u64 = 50;

/// When a request without an answer is given up, milliseconds: its sender has ended, because no sender waits for that
/// long.
const PENDING_MS_MAX: i64 = 5_000;

impl Borrower {
    /// The request to send now, if there is one: tokens are asked for before they run out, reported before the lease
    /// ends, and given back when they are not used. At most one is on its way; it ends by [`Self::answered`] or
    /// [`Self::lost`].
    pub fn next_request(&mut self, policy: &Policy, now_ms: i64) -> Option<LeaseRequest> {
        if self.has_pending_request(now_ms) {
            return None;
        }
        if now_ms >= self.until_ms && self.granted > 0 {
            self.begin_anew();
        }
        let tokens = self.tokens(now_ms);
        let expected = self.ahead(policy, now_ms);
        // Tokens that have come meanwhile may suffice.
        let missing = self.largest.saturating_sub(tokens);
        let (need, want) = if missing > 0 {
            let more = expected.saturating_add(self.waiting);
            (missing, more.saturating_sub(tokens).max(missing))
        } else if self.is_low(policy, tokens, now_ms) {
            (0, expected.saturating_sub(tokens))
        } else if self.granted > 0 && now_ms >= self.renewal_ms() && tokens > 0 {
            // Tokens that are not expected to be used are returned; all of them if there was no demand.
            let kept = if self.demand.is_idle(policy, now_ms) {
                0
            } else {
                expected
            };
            self.returned = self.returned.saturating_add(tokens.saturating_sub(kept));
            (0, kept.saturating_sub(tokens))
        } else if self.has_unreported && now_ms >= self.rests_until_ms {
            (0, 0)
        } else {
            return None;
        };
        Some(self.request(now_ms, need, want))
    }

    /// The request that returns all tokens of the lease, because its holder ends; `None` if there is no lease.
    pub fn last_request(&mut self, now_ms: i64) -> Option<LeaseRequest> {
        if now_ms >= self.until_ms {
            return None;
        }
        self.give_up(now_ms);
        Some(self.request(now_ms, 0, 0))
    }

    /// The tokens that it wants to have.
    fn ahead(&self, policy: &Policy, now_ms: i64) -> u64 {
        let expected = self.demand.within(policy, now_ms, lease_ms(policy));
        if policy.scope == Scope::Datacenter {
            return expected;
        }
        let soon_ms = AHEAD_MS.saturating_add(self.trip_ms.saturating_mul(4));
        let soon = self.demand.within(policy, now_ms, soon_ms);
        let least = (policy.capacity() / PART_OF_CAPACITY).max(TOKENS_AHEAD_MIN);
        expected.min(soon.max(least))
    }

    /// Whether an answer may still come.
    pub(super) fn has_pending_request(&self, now_ms: i64) -> bool {
        self.pending
            .is_some_and(|pending| now_ms.saturating_sub(pending.sent_ms) < PENDING_MS_MAX)
    }

    /// Whether the tokens have run out for a call, or may before an answer could come.
    fn is_low(&self, policy: &Policy, tokens: u64, now_ms: i64) -> bool {
        let is_refused = now_ms < self.refusal.until_ms || now_ms < self.rests_until_ms;
        if self.is_short || now_ms >= self.until_ms {
            return self.is_short && !is_refused;
        }
        let meanwhile = self
            .demand
            .within(policy, now_ms, self.trip_ms.saturating_mul(2));
        !is_refused && tokens < meanwhile
    }

    /// When the lease is to be renewed: early enough for a request to fail and be repeated.
    fn renewal_ms(&self) -> i64 {
        let margin_ms = self.trip_ms.saturating_mul(3).max(self.valid_ms / 8);
        self.until_ms
            .saturating_sub(margin_ms.min(self.valid_ms / 2))
    }

    fn request(&mut self, now_ms: i64, need: u64, want: u64) -> LeaseRequest {
        self.sequence = self.sequence.saturating_add(1);
        self.pending = Some(PendingRequest {
            sequence: self.sequence,
            sent_ms: now_ms,
            spent: self.spent,
            need,
            want,
            reports_returns: core::mem::take(&mut self.has_unreported),
        });
        self.largest = 0;
        self.is_short = false;
        self.report(now_ms, need, want)
    }

    /// A request that reports all of the lease.
    pub(super) fn report(&self, now_ms: i64, need: u64, want: u64) -> LeaseRequest {
        LeaseRequest {
            lease: self.lease.clone(),
            sequence: self.sequence,
            spent: self.spent,
            recent: self.recent.report(now_ms),
            returned: self.returned,
            refunded: self.refunded,
            known_granted: self.granted,
            want,
            need,
            waiting: if need > 0 {
                let more = self.waiting.saturating_sub(self.tokens(now_ms));
                more.clamp(need, want)
            } else {
                0
            },
        }
    }

    /// When [`Self::next_request`] must be called again without a call, by this clock; `None` if it need not.
    pub fn due_at_ms(&self) -> Option<i64> {
        if self.pending.is_some() {
            return None;
        }
        if self.has_unreported {
            return Some(self.rests_until_ms);
        }
        let is_out = self.granted > self.spent.saturating_add(self.returned);
        is_out.then(|| self.renewal_ms())
    }
}
