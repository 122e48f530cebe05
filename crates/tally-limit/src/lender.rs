//! The lender's side of a limit that is lent in parts: its use, and its outstanding leases. Datacenters borrow parts of
//! a global limit, isolates parts of a limit of their datacenter.
//!
//! Invariant: whenever tokens are granted or admitted, used and outstanding tokens (granted, not reported spent, not
//! returned) and open holds ([`crate::named`]) are together at most the policy's capacity. Times are of the lender's
//! clock, which never goes back.
//!
//! Why all together never admit more than the limit in a window of length W, whatever is lost or crashes: take an
//! interval from s to s + W, and a token that was admitted at a time a in it. From its grant, before a, to its report
//! it is outstanding; from then on it is charged, at a time that is never before a, so a sliding window counts it
//! until a + W ≥ s + W at least. So at s + W every such token is outstanding or used, and together that is at most
//! the limit. For a *fixed* window take its last moment: all admitted in it are then outstanding, or were charged in
//! it. For a *token bucket*, whose debt falls by at most `limit · d` in a time d: what was charged in it is at most
//! debt(end) + limit · d, the rest is outstanding, and the two together with the debt are at most the burst.
//!
//! A report never increases the sum: tokens that it takes from the outstanding ones are charged, or fewer if some of
//! the use is over by now. A lease that is not renewed ends. Its unreported tokens then count as spent at its end. It
//! ends earlier at its borrower, which counts from the sending of the request and subtracts [`drift_ms`]; the lender
//! counts from the answer. So an unreachable datacenter blocks at most its lease, until the lease's end and a window.
//!
//! The numbers of a request are totals of the whole lease, so a repeated or late one changes nothing. A borrower
//! accepts only the answer to its newest request. So if it asks again without knowing an answer, the tokens of that
//! answer are taken back. The state must be stored before an answer is sent that grants tokens or prolongs a lease. A
//! crash can lose only returns beyond that, and the next request reports those again.

use serde::{Deserialize, Serialize};

use super::lease::{
    LeaseAnswer, LeaseId, LeaseRequest, NOT_RECALLED_MS, REPORT_VALID_MS, drift_ms, lease_ms,
};
use super::meter::{Meter, Verdict};
use super::named::known_calls::KnownCalls;
use super::policy::{Algorithm, Durability, Policy, Scope};

/// The most leases of one key of a limit: more than there are datacenters (about 340), with room for some that
/// restarted. 120 bytes each are 60 KB.
pub const LEASES_MAX: usize = 512;

/// The part of the unused quota that is distributed, by the demand of each borrower, percent. The rest is for new
/// borrowers. In a datacenter the limiter itself judges callers without a lease. It may refuse them while others hold
/// unused quota: at most an eighth of what was left.
const SHARED_PERCENT: u64 = 80;
const SHARED_PERCENT_DATACENTER: u64 = 12;

/// A datacenter gets the unlent quota divided by this, whatever the demand of others is: that may be old.
const GRANTED_PART: u64 = 8;

/// How long a borrower waits if there is no room for its lease, milliseconds.
const CROWDED_MS: u64 = 1_000;

/// The lease of one borrower.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lease {
    pub(super) id: LeaseId,
    /// The newest request that was processed.
    pub(super) sequence: u64,
    pub(super) granted: u64,
    spent: u64,
    returned: u64,
    refunded: u64,
    /// The quota that the borrower wants.
    pub(super) wanted: u64,
    pub(super) until_ms: i64,
    /// The length in the answer to the borrower.
    valid_ms: u64,
    /// When its borrower last reported its unspent part, on a recall; see [`NOT_RECALLED_MS`].
    #[serde(skip)]
    pub(super) reported_ms: i64,
}

impl Lease {
    /// A lease with `granted` outstanding tokens, whose borrower has reported nothing.
    pub(super) fn of(id: LeaseId, granted: u64, until_ms: i64) -> Self {
        Self {
            id,
            sequence: 0,
            granted,
            spent: 0,
            returned: 0,
            refunded: 0,
            wanted: 0,
            until_ms,
            valid_ms: 0,
            reported_ms: 0,
        }
    }

    pub(super) fn outstanding(&self) -> u64 {
        self.granted
            .saturating_sub(self.spent)
            .saturating_sub(self.returned)
    }
}

/// The use and the leases of one key. A stored format. Without leases it is a meter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lender {
    pub(super) meter: Meter,
    pub(super) leases: Vec<Lease>,
    /// Until when nothing is recalled, because the last recall returned too little.
    #[serde(skip)]
    pub(super) recalls_from_ms: i64,
    /// The named calls of the key, which are stored by themselves: see [`crate::table::log`].
    #[serde(skip)]
    pub(super) calls: Option<Box<KnownCalls>>,
}

impl Lender {
    /// An unused lender without leases.
    pub fn new(policy: &Policy) -> Self {
        Self {
            meter: Meter::new(policy),
            leases: Vec::new(),
            recalls_from_ms: 0,
            calls: None,
        }
    }

    /// Tokens that borrowers may still spend.
    pub fn outstanding(&self) -> u64 {
        let leases = self.leases.iter().map(Lease::outstanding);
        leases.fold(0, u64::saturating_add)
    }

    /// The verdict about a call of this cost that is made here.
    pub fn check(&mut self, policy: &Policy, now_ms: i64, cost: u64) -> Verdict {
        self.expire(policy, now_ms);
        if policy.algorithm == Algorithm::Concurrency {
            return self.peek(policy, now_ms, cost);
        }
        let (lent, held) = (self.outstanding(), self.held());
        let taken = lent.saturating_add(held);
        let verdict = self.meter.check_beside(policy, now_ms, cost, taken);
        let verdict = self.with_lease_waits(verdict, policy, now_ms, cost, 0);
        self.with_hold_waits(verdict, policy, now_ms, cost, held)
    }

    /// The verdict that [`Self::check`] would return, with the state before the call; nothing is consumed.
    pub fn peek(&self, policy: &Policy, now_ms: i64, cost: u64) -> Verdict {
        self.peek_beside(policy, now_ms, cost, |_| true)
    }

    /// As [`Self::peek`], if quota that borrowers have just reported as unspent counts as left: it is recalled before a
    /// call is refused.
    pub fn peek_left(&self, policy: &Policy, now_ms: i64, cost: u64) -> Verdict {
        let is_stale = |lease: &Lease| now_ms.saturating_sub(lease.reported_ms) >= REPORT_VALID_MS;
        self.peek_beside(policy, now_ms, cost, is_stale)
    }

    fn peek_beside(
        &self,
        policy: &Policy,
        now_ms: i64,
        cost: u64,
        holds: impl Fn(&Lease) -> bool,
    ) -> Verdict {
        let is_due = self.has_due_calls(now_ms);
        if self.leases.is_empty() && !is_due {
            let held = self.held();
            let verdict = self.meter.peek_beside(policy, now_ms, cost, held);
            return self.with_hold_waits(verdict, policy, now_ms, cost, held);
        }
        // There may be many calls, and they seldom end.
        let mut current = Self {
            meter: self.meter.clone(),
            leases: self.leases.clone(),
            recalls_from_ms: self.recalls_from_ms,
            calls: self.calls.as_ref().filter(|_| is_due).cloned(),
        };
        current.expire(policy, now_ms);
        let held = if is_due { current.held() } else { self.held() };
        let lent = current.leases.iter().filter(|lease| holds(lease));
        let lent = lent.fold(0_u64, |sum, lease| sum.saturating_add(lease.outstanding()));
        let taken = lent.saturating_add(held);
        let verdict = current.meter.peek_beside(policy, now_ms, cost, taken);
        let verdict = current.with_lease_waits(verdict, policy, now_ms, cost, 0);
        current.with_hold_waits(verdict, policy, now_ms, cost, held)
    }

    /// Whether it has leases.
    pub fn lends(&self) -> bool {
        !self.leases.is_empty()
    }

    /// The meter, for refunds and charges apart from leases.
    pub fn meter_mut(&mut self) -> &mut Meter {
        &mut self.meter
    }

    /// Resets the use; leases continue.
    pub fn reset(&mut self, policy: &Policy) {
        self.meter = Meter::new(policy);
    }

    /// Changes to another policy, as [`Meter::adapt`].
    pub fn adapt(&mut self, old: &Policy, new: &Policy, now_ms: i64) {
        self.expire(old, now_ms);
        self.meter.adapt(old, new, now_ms);
    }

    /// Ends expired leases and holds: their unreported tokens count as spent at their end.
    pub fn expire(&mut self, policy: &Policy, now_ms: i64) {
        self.expire_calls(policy, now_ms);
        loop {
            // In the order of their ends, because the meter's time never goes back. There are few leases, and they
            // seldom end.
            let ended = self.leases.iter().enumerate();
            let ended = ended.filter(|(_, lease)| lease.until_ms <= now_ms);
            let Some((index, _)) = ended.min_by_key(|(_, lease)| lease.until_ms) else {
                return;
            };
            let lease = self.leases.remove(index);
            let left = lease.outstanding();
            if left > 0 {
                self.meter.charge(policy, lease.until_ms, left);
            }
        }
    }

    /// Answers a borrower. The newest request may be answered again, after others have returned the quota that it
    /// needs. Cost: O(leases + the request's `recent`).
    pub fn ask(&mut self, policy: &Policy, request: &LeaseRequest, now_ms: i64) -> LeaseAnswer {
        self.expire(policy, now_ms);
        let known = self
            .leases
            .iter()
            .position(|lease| lease.id == request.lease);
        let Some(index) = known.or_else(|| self.admit(request)) else {
            return self.answer(policy, request, None, now_ms);
        };
        let Some(mut lease) = self.leases.get(index).cloned() else {
            return self.answer(policy, request, None, now_ms);
        };
        let is_new = request.sequence > lease.sequence;
        if is_new {
            // Takes back the tokens of an answer that the borrower did not receive.
            lease.granted = lease.granted.min(request.known_granted);
            self.take_report(policy, request, &mut lease, now_ms);
            lease.wanted = lease.outstanding().saturating_add(request.want);
            lease.sequence = request.sequence;
            self.put(index, lease.clone());
        }
        let got = lease.granted.saturating_sub(request.known_granted);
        if is_new || request.sequence == lease.sequence && got < request.waiting {
            let rest = LeaseRequest {
                want: request.want.saturating_sub(got),
                need: request.need.saturating_sub(got),
                waiting: request.waiting.saturating_sub(got),
                ..request.clone()
            };
            let granted = self.grant(policy, &rest, &lease, now_ms);
            lease.granted = lease.granted.saturating_add(granted);
            if granted > 0 {
                lease.reported_ms = NOT_RECALLED_MS;
            }
            let valid_ms = lease_ms(policy);
            lease.until_ms = now_ms.saturating_add(valid_ms);
            lease.valid_ms = u64::try_from(valid_ms).unwrap_or(0);
            self.put(index, lease.clone());
        }
        self.answer(policy, request, Some(&lease), now_ms)
    }

    pub(super) fn put(&mut self, index: usize, lease: Lease) {
        if let Some(there) = self.leases.get_mut(index) {
            *there = lease;
        }
    }

    /// Whether a request begins a lease.
    pub(super) fn begins(&self, request: &LeaseRequest) -> bool {
        let is_known = |lease: &Lease| lease.id == request.lease;
        request.known_granted == 0 && !self.leases.iter().any(is_known)
    }

    /// Returns the index of a new lease; `None` if it began before and has ended, or if there are too many.
    fn admit(&mut self, request: &LeaseRequest) -> Option<usize> {
        if request.known_granted > 0 || self.leases.len() >= LEASES_MAX {
            return None;
        }
        let lease = Lease::of(request.lease.clone(), 0, i64::MAX);
        self.leases.push(lease);
        self.leases.len().checked_sub(1)
    }

    /// Merges the borrower's report about its lease.
    pub(super) fn take_report(
        &mut self,
        policy: &Policy,
        request: &LeaseRequest,
        lease: &mut Lease,
        now_ms: i64,
    ) {
        let spent = request.spent.saturating_sub(lease.spent);
        let spent = spent.min(lease.outstanding());
        lease.spent = lease.spent.saturating_add(spent);
        self.charge_recent(policy, request, spent, now_ms);
        let returned = request.returned.saturating_sub(lease.returned);
        let returned = returned.min(lease.outstanding());
        lease.returned = lease.returned.saturating_add(returned);
        let refunded = request.refunded.saturating_sub(lease.refunded);
        lease.refunded = lease.refunded.saturating_add(refunded);
        if refunded > 0 {
            self.meter.refund(policy, now_ms, refunded);
        }
    }

    /// Charges the newest `spent` tokens of a request, at times that are never before their true ones.
    fn charge_recent(&mut self, policy: &Policy, request: &LeaseRequest, spent: u64, now_ms: i64) {
        let mut left = spent;
        for recent in request.recent.iter().rev() {
            let amount = recent.amount.min(left);
            left -= amount;
            let age_ms = recent.age_ms.saturating_sub(drift_ms(recent.age_ms));
            let age_ms = i64::try_from(age_ms).unwrap_or(0);
            let spent_ms = now_ms.saturating_sub(age_ms);
            self.meter.charge_at(policy, now_ms, spent_ms, amount);
        }
        self.meter.charge(policy, now_ms, left);
    }

    /// The additional grant of a request: its immediate need, and up to its borrower's share of the unused quota.
    fn grant(&self, policy: &Policy, request: &LeaseRequest, lease: &Lease, now_ms: i64) -> u64 {
        let free = self.free(policy, now_ms);
        if request.need > free {
            return 0;
        }
        let wanted_by_all = self.leases.iter().map(|lease| u128::from(lease.wanted));
        let wanted_by_all = wanted_by_all.sum::<u128>().max(1);
        let room = u128::from(free.saturating_add(self.outstanding()));
        let percent = match policy.scope {
            Scope::Global => SHARED_PERCENT,
            Scope::Datacenter => SHARED_PERCENT_DATACENTER,
        };
        let share = room * u128::from(percent) / 100 * u128::from(lease.wanted) / wanted_by_all;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        let share = share.saturating_sub(lease.outstanding());
        let more = match policy.scope {
            Scope::Global => share.max(free / GRANTED_PART).max(request.waiting),
            // A later borrower waits until others renew, so that all together hold no more.
            Scope::Datacenter => {
                let all = u64::try_from(room * u128::from(percent) / 100).unwrap_or(u64::MAX);
                share.min(all.saturating_sub(self.outstanding()))
            }
        };
        request.want.max(request.need).min(more).min(free)
    }

    /// The quota that is neither lent, held nor used.
    pub(super) fn free(&self, policy: &Policy, now_ms: i64) -> u64 {
        let used = self.meter.used(policy, now_ms);
        let room = policy.capacity().saturating_sub(used);
        let room = room.saturating_sub(self.held());
        room.saturating_sub(self.outstanding())
    }

    fn answer(
        &self,
        policy: &Policy,
        request: &LeaseRequest,
        lease: Option<&Lease>,
        now_ms: i64,
    ) -> LeaseAnswer {
        let needs = lease
            .is_none_or(|lease| lease.granted < request.known_granted.saturating_add(request.need));
        let cost = if needs { request.need.max(1) } else { 0 };
        let held = self.held();
        let taken = self.outstanding().saturating_add(held);
        let verdict = self.meter.peek_beside(policy, now_ms, cost, taken);
        let own = lease.map_or(0, Lease::outstanding);
        let verdict = self.with_lease_waits(verdict, policy, now_ms, cost, own);
        let verdict = self.with_hold_waits(verdict, policy, now_ms, cost, held);
        // Grants of a datacenter's limiter are as durable as its policy requires: only with the next commit, if the
        // policy says so.
        let is_kept = policy.scope == Scope::Global || policy.durability == Durability::Commit;
        LeaseAnswer {
            sequence: request.sequence,
            granted: lease.map_or(0, |lease| lease.granted),
            valid_ms: lease.map_or(0, |lease| lease.valid_ms),
            free: verdict.remaining,
            reset_after_ms: verdict.reset_after_ms,
            retry_after_ms: match (needs, lease) {
                (false, _) => 0,
                (true, None) => verdict.retry_after_ms.clamp(1, CROWDED_MS),
                (true, Some(_)) => verdict.retry_after_ms.max(1),
            },
            must_commit: is_kept && lease.is_some_and(|lease| lease.outstanding() > 0),
        }
    }

    /// When nothing is used any more, without further calls, unix milliseconds; never while there are leases, or
    /// calls are known.
    pub fn idle_at_ms(&self, policy: &Policy) -> i64 {
        if self.leases.is_empty() && self.calls.is_none() {
            return self.meter.idle_at_ms(policy);
        }
        i64::MAX
    }

    /// Whether there is a use, a lease or a hold that has not expired.
    pub(super) fn has_used(&self, policy: &Policy, now_ms: i64) -> bool {
        let is_idle = self.leases.is_empty() && self.meter.idle_at_ms(policy) <= now_ms;
        !is_idle || self.open_holds(now_ms).count > 0
    }

    /// The bytes of its leases.
    pub(super) fn lease_bytes(&self) -> u64 {
        let leases = self.leases.capacity().saturating_mul(size_of::<Lease>());
        let names = self
            .leases
            .iter()
            .map(|lease| lease.id.borrower.len())
            .sum();
        u64::try_from(leases.saturating_add(names)).unwrap_or(u64::MAX)
    }

    /// The bytes that it occupies besides its own size.
    pub fn heap_bytes(&self) -> u64 {
        let others = self.meter.heap_bytes().saturating_add(self.lease_bytes());
        others.saturating_add(self.calls_bytes())
    }
}
