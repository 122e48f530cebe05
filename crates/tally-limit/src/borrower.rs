//! The borrower's side of a limit that is lent in parts: a datacenter, or an isolate, admits from its lease without
//! asking.
//!
//! Invariants: tokens spent and returned are together never more than were granted by an answer to the newest request.
//! No token is spent after the end of the lease, by this clock, counted from the sending of the request. Reported
//! totals only rise.
//!
//! The life of a lease: a call finds no tokens and sends a request. The answer grants some, by the rate of use. More
//! are requested before they run out, and each request reports the spent ones. Before the lease ends it is renewed, or
//! returned if it is hardly used. The tokens of a lease end with it, and the next call begins another lease.

use super::demand::Demand;
use super::lease::{Admission, LeaseAnswer, LeaseId};
use super::lease::{drift_ms, lease_ms};
use super::meter::{NEVER_MS, Verdict};
use super::policy::Policy;
use super::spending::Spending;

/// How long a refusal is cached, milliseconds: others may return tokens meanwhile.
const DRY_MS_MAX: u64 = 1_000;

/// A borrower that is granted less than this part of what it wanted, or gets no answer, sends no voluntary request for
/// [`REST_MS`].
const SCARCE_PART: u64 = 8;
const REST_MS: i64 = 100;

/// How long a lender that did not answer is not asked again for a call, milliseconds.
const AWAY_MS: i64 = 1_000;

/// The assumed round trip until one is measured, milliseconds.
const TRIP_MS_FIRST: i64 = 300;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRequest {
    pub(super) sequence: u64,
    pub(super) sent_ms: i64,
    /// The tokens that it reports as spent.
    pub(super) spent: u64,
    pub(super) need: u64,
    pub(super) want: u64,
    /// Whether it reports returned tokens.
    pub(super) reports_returns: bool,
}

/// A refusal of the lender, cached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CachedRefusal {
    pub(super) need: u64,
    /// Until when it is cached.
    pub(super) until_ms: i64,
    /// When the lender expects to have enough; `i64::MAX` for never.
    pub(super) ends_ms: i64,
}

/// The lease of one key. In memory only: a restart forfeits it.
#[derive(Clone, Debug)]
pub struct Borrower {
    pub(super) lease: LeaseId,
    /// The sequence of the newest request.
    pub(super) sequence: u64,
    pub(super) granted: u64,
    pub(super) spent: u64,
    pub(super) returned: u64,
    pub(super) refunded: u64,
    /// Whether there are returned tokens that no request reports yet.
    pub(super) has_unreported: bool,
    pub(super) until_ms: i64,
    pub(super) valid_ms: i64,
    /// Spent tokens that are not confirmed yet, oldest first.
    pub(super) recent: Spending,
    pub(super) pending: Option<PendingRequest>,
    pub(super) trip_ms: i64,
    /// The largest cost for which there were too few tokens since the last request.
    pub(super) largest: u64,
    /// The sum of the costs of all waiting calls.
    pub(super) waiting: u64,
    /// Whether a call went elsewhere because there were too few tokens here.
    pub(super) is_short: bool,
    /// Until when only the need of waiting calls is requested: the last grant was small.
    pub(super) rests_until_ms: i64,
    pub(super) refusal: CachedRefusal,
    /// Until when the lender is not asked for a call, because it did not answer.
    pub(super) away_until_ms: i64,
    pub(super) demand: Demand,
    pub(super) spent_at_ms: i64,
    pub(super) free: u64,
    pub(super) reset_at_ms: i64,
}

impl Borrower {
    /// A borrower without a lease. Its leases are numbered from this one on. No two borrowers may ever use the same id.
    pub fn new(first: LeaseId) -> Self {
        Self {
            // It differs from those of any other borrower, because answers have only the sequence.
            sequence: first.number,
            lease: first,
            granted: 0,
            spent: 0,
            returned: 0,
            refunded: 0,
            has_unreported: false,
            until_ms: i64::MIN,
            valid_ms: 0,
            recent: Spending::default(),
            pending: None,
            trip_ms: TRIP_MS_FIRST,
            largest: 0,
            waiting: 0,
            is_short: false,
            rests_until_ms: i64::MIN,
            refusal: CachedRefusal::default(),
            away_until_ms: i64::MIN,
            demand: Demand::default(),
            spent_at_ms: i64::MIN,
            free: 0,
            reset_at_ms: 0,
        }
    }

    /// Tokens that may be spent now.
    pub fn tokens(&self, now_ms: i64) -> u64 {
        if now_ms >= self.until_ms {
            return 0;
        }
        self.granted
            .saturating_sub(self.spent)
            .saturating_sub(self.returned)
    }

    /// What becomes of a call of this cost. A call that gets [`Admission::Ask`] waits until [`Self::leave`], and may
    /// then be checked again. Times are of the borrower's own clock, and must not go back. The remaining quota in the
    /// verdict is that of the lender's last answer.
    pub fn check(&mut self, policy: &Policy, now_ms: i64, cost: u64) -> Admission {
        if cost > policy.capacity() {
            return Admission::Decided(self.verdict(policy, now_ms, NEVER_MS));
        }
        let tokens = self.tokens(now_ms);
        let missing = cost.saturating_sub(tokens);
        if missing == 0 {
            self.demand.record(policy, now_ms, cost);
            self.spend(policy, now_ms, cost);
            return Admission::Decided(self.verdict(policy, now_ms, 0));
        }
        if now_ms < self.refusal.until_ms && missing >= self.refusal.need {
            self.demand.record(policy, now_ms, cost);
            let wait_ms = match self.refusal.ends_ms {
                i64::MAX => NEVER_MS,
                ends_ms => u64::try_from(ends_ms.saturating_sub(now_ms)).unwrap_or(0),
            };
            return Admission::Decided(self.verdict(policy, now_ms, wait_ms.max(1)));
        }
        if now_ms < self.away_until_ms {
            self.demand.record(policy, now_ms, cost);
            return self.without_lender(policy, now_ms);
        }
        self.largest = self.largest.max(cost);
        self.waiting = self.waiting.saturating_add(cost);
        Admission::Ask
    }

    /// Ends the wait of a call of this cost, which got [`Admission::Ask`].
    pub fn leave(&mut self, cost: u64) {
        self.waiting = self.waiting.saturating_sub(cost);
        if self.waiting == 0 {
            self.largest = 0;
        }
    }

    /// The outcome of a call for which there are too few tokens while the lender does not answer. A spent lease is a
    /// refusal, because no more than it may be admitted here. Without a lease the verdict is unknown.
    pub fn without_lender(&self, policy: &Policy, now_ms: i64) -> Admission {
        if now_ms >= self.until_ms {
            return Admission::Away;
        }
        let wait_ms = u64::try_from(self.away_until_ms.saturating_sub(now_ms));
        let wait_ms = wait_ms.unwrap_or(0).max(1);
        Admission::Decided(self.verdict(policy, now_ms, wait_ms))
    }

    /// Admits a call of this cost from the lease. `None` if there are too few tokens: the call must be judged
    /// elsewhere, and more tokens are requested meanwhile. The remaining quota in the verdict is that of the lender's
    /// last answer.
    pub fn take(&mut self, policy: &Policy, now_ms: i64, cost: u64) -> Option<Verdict> {
        self.demand.record(policy, now_ms, cost);
        if cost > self.tokens(now_ms) {
            self.is_short = true;
            return None;
        }
        self.spend(policy, now_ms, cost);
        Some(self.verdict(policy, now_ms, 0))
    }

    /// The verdict with this wait; 0 for an admitted call.
    fn verdict(&self, policy: &Policy, now_ms: i64, retry_after_ms: u64) -> Verdict {
        let remaining = self.free.saturating_add(self.tokens(now_ms));
        let remaining = remaining.min(policy.capacity());
        // After that time it is the end of the lease, when the lender gets a report and answers.
        let reset_after_ms = match self.reset_at_ms.saturating_sub(now_ms) {
            _ if remaining == policy.capacity() => 0,
            reset_after_ms if reset_after_ms > 0 => reset_after_ms,
            _ => self.until_ms.saturating_sub(now_ms).max(1),
        };
        Verdict {
            is_allowed: retry_after_ms == 0,
            limit: policy.limit,
            remaining,
            reset_after_ms: u64::try_from(reset_after_ms).unwrap_or(0),
            retry_after_ms,
        }
    }

    fn spend(&mut self, policy: &Policy, now_ms: i64, amount: u64) {
        self.spent = self.spent.saturating_add(amount);
        self.spent_at_ms = now_ms;
        self.recent.record(lease_ms(policy), now_ms, amount);
    }

    /// Refunds the consumption of a call, at most what the lease has spent. Returns the refunded amount.
    pub fn refund(&mut self, now_ms: i64, amount: u64) -> u64 {
        if now_ms >= self.until_ms {
            return 0;
        }
        let amount = amount.min(self.spent.saturating_sub(self.refunded));
        self.refunded = self.refunded.saturating_add(amount);
        if amount > 0 {
            self.has_unreported = true;
            // Others may wait for the tokens, so they are reported even after a small grant.
            self.rests_until_ms = i64::MIN;
            self.forget_refusal();
        }
        amount
    }

    /// Drops the cached refusal after a refund.
    pub fn forget_refusal(&mut self) {
        self.refusal = CachedRefusal::default();
        self.away_until_ms = i64::MIN;
    }

    /// Returns all tokens because the policy has changed: more are granted only under the new one. An answer in flight
    /// is void.
    pub fn give_up(&mut self, now_ms: i64) {
        let tokens = self.tokens(now_ms);
        self.returned = self.returned.saturating_add(tokens);
        self.has_unreported |=
            tokens > 0 || self.pending.is_some_and(|pending| pending.reports_returns);
        self.pending = None;
        self.forget_refusal();
    }

    /// Processes an answer. Only the answer to the newest request has an effect.
    pub fn answered(&mut self, answer: &LeaseAnswer, now_ms: i64) {
        let Some(pending) = self
            .pending
            .filter(|pending| pending.sequence == answer.sequence)
        else {
            return;
        };
        self.pending = None;
        self.away_until_ms = i64::MIN;
        self.trip_ms = now_ms.saturating_sub(pending.sent_ms).max(1);
        self.free = answer.free;
        self.reset_at_ms = at_ms(now_ms, answer.reset_after_ms);
        if answer.retry_after_ms > 0 {
            self.refusal = CachedRefusal {
                need: pending.need.max(1),
                until_ms: at_ms(now_ms, answer.retry_after_ms.min(DRY_MS_MAX)),
                ends_ms: at_ms(now_ms, answer.retry_after_ms),
            };
        }
        let more = answer.granted.saturating_sub(self.granted);
        // Later returns are reported at once.
        if more < pending.want / SCARCE_PART && !self.has_unreported {
            self.rest(now_ms);
        }
        if answer.valid_ms == 0 {
            self.begin_anew();
            return;
        }
        self.granted = answer.granted;
        self.valid_ms = i64::try_from(answer.valid_ms).unwrap_or(0);
        let valid_ms = answer.valid_ms.saturating_sub(drift_ms(answer.valid_ms));
        self.until_ms = at_ms(pending.sent_ms, valid_ms);
        self.recent
            .confirm(self.spent.saturating_sub(pending.spent));
    }

    /// Sends no voluntary request for a while, longer if the lender is far away.
    pub(super) fn rest(&mut self, now_ms: i64) {
        let rest_ms = REST_MS.max(self.trip_ms.saturating_mul(4));
        self.rests_until_ms = now_ms.saturating_add(rest_ms);
    }

    /// Ends the lease: no token of it may be spent, and the lender counts all of it as spent.
    pub(super) fn begin_anew(&mut self) {
        self.lease.number = self.lease.number.saturating_add(1);
        (self.granted, self.spent, self.returned, self.refunded) = (0, 0, 0, 0);
        self.has_unreported = false;
        self.until_ms = i64::MIN;
        self.recent.clear();
    }

    /// Gives up a request: its answer is not awaited any more.
    pub fn lost(&mut self, sequence: u64, now_ms: i64) {
        let pending = self.pending.filter(|pending| pending.sequence == sequence);
        if let Some(pending) = pending {
            self.pending = None;
            self.has_unreported |= pending.reports_returns;
            self.rest(now_ms);
            if pending.need > 0 {
                self.away_until_ms = now_ms.saturating_add(AWAY_MS);
            }
        }
    }

    /// Whether it may be dropped: it has no tokens, and no request in flight.
    pub fn is_idle(&self, now_ms: i64) -> bool {
        !self.has_pending_request(now_ms) && now_ms >= self.until_ms
    }
}

fn at_ms(from_ms: i64, after_ms: u64) -> i64 {
    from_ms.saturating_add(i64::try_from(after_ms).unwrap_or(i64::MAX))
}
