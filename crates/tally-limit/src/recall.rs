//! Recalls: before it refuses anything, a lender takes back unused quota of borrowers.
//!
//! Invariant: a recall changes no bound. A borrower has not spent returned tokens, and will not spend them. Reports are
//! totals of the lease: the next request repeats a lost report, and a late or repeated one changes nothing.

use super::borrower::Borrower;
use super::lease::{LeaseId, LeaseRequest, NOT_RECALLED_MS};
use super::lender::Lender;
use super::meter::{NEVER_MS, Verdict};
use super::policy::{Policy, Scope};
use super::table::{Check, Table};

/// How long a key is not recalled after a recall that returned too little, milliseconds: otherwise a key with a spent
/// limit would cost a message to each borrower with every check.
const RECALL_EVERY_MS: i64 = 300;

/// A borrower without use for this long needs nothing at once, milliseconds.
const BUSY_MS: i64 = 1_000;

impl Lender {
    /// Corrects the waits of a verdict by the leases. Leased quota returns at the end of the leases at the latest. If
    /// that suffices, a global limit may get it back as soon as the next recall is allowed. Isolates cannot be called,
    /// but hold it for a second only. The requester's own quota, `own`, does not return: `cost` is needed in addition
    /// to it.
    pub(super) fn with_lease_waits(
        &self,
        mut verdict: Verdict,
        policy: &Policy,
        now_ms: i64,
        cost: u64,
        own: u64,
    ) -> Verdict {
        let whole = cost.saturating_add(own);
        if cost > policy.capacity() {
            return verdict;
        }
        let wait_ms = |until_ms: i64| {
            let wait_ms = u64::try_from(until_ms.saturating_sub(now_ms));
            wait_ms.unwrap_or(0).max(1)
        };
        let ends = self.leases.iter().filter(|lease| lease.outstanding() > 0);
        let ends_ms = ends.map(|lease| lease.until_ms);
        let Some((first_ms, last_ms)) = ends_ms.fold(None, |found, end_ms| match found {
            None => Some((end_ms, end_ms)),
            Some((first_ms, last_ms)) => Some((end_ms.min(first_ms), end_ms.max(last_ms))),
        }) else {
            return verdict;
        };
        if verdict.retry_after_ms == NEVER_MS {
            verdict.retry_after_ms = wait_ms(first_ms);
        }
        let would_do = self.meter.used(policy, now_ms).saturating_add(whole) <= policy.capacity();
        if !verdict.is_allowed && would_do {
            let returns_ms = match policy.scope {
                Scope::Global => self.recalls_from_ms.min(last_ms),
                Scope::Datacenter => last_ms,
            };
            verdict.retry_after_ms = verdict.retry_after_ms.min(wait_ms(returns_ms));
        }
        if verdict.reset_after_ms == 0 {
            // Use of now returns after a window and a sixtieth of it.
            let window_ms = policy.window_ms.saturating_add(policy.window_ms / 60);
            verdict.reset_after_ms =
                wait_ms(first_ms).min(u64::try_from(window_ms).unwrap_or(u64::MAX));
        }
        verdict
    }

    /// The outstanding leases except this one: their unneeded quota must be recalled before anything is refused. If a
    /// recall a moment ago returned too little, only the leases that it did not include.
    pub fn recallable(&self, but: Option<&LeaseId>, now_ms: i64) -> Vec<LeaseId> {
        let rests = now_ms < self.recalls_from_ms;
        let out = self.leases.iter().filter(|lease| lease.outstanding() > 0);
        let out = out.filter(|lease| !rests || lease.reported_ms == NOT_RECALLED_MS);
        let others = out.filter(|lease| Some(&lease.id) != but);
        others.map(|lease| lease.id.clone()).collect()
    }

    /// Merges the report of a borrower whose lease was recalled: its spent and returned tokens. The borrower accepts no
    /// answer to a request up to the sequence in the report. With sequence 0 it may still accept the answer in flight.
    pub fn receive_report(&mut self, policy: &Policy, report: &LeaseRequest, now_ms: i64) {
        self.expire(policy, now_ms);
        let mut leases = self.leases.iter();
        let Some(index) = leases.position(|lease| lease.id == report.lease) else {
            return;
        };
        let Some(mut lease) = self.leases.get(index).cloned() else {
            return;
        };
        if report.sequence >= lease.sequence {
            lease.sequence = report.sequence;
            lease.granted = lease.granted.min(report.known_granted);
        }
        self.take_report(policy, report, &mut lease, now_ms);
        lease.wanted = lease.outstanding();
        lease.reported_ms = now_ms;
        self.put(index, lease);
    }

    /// Records that a recall returned too little for the borrower of this lease.
    pub fn recalled_in_vain(&mut self, requester: &LeaseId, now_ms: i64) {
        for lease in &mut self.leases {
            lease.reported_ms = if lease.id == *requester {
                NOT_RECALLED_MS
            } else {
                lease.reported_ms.max(0)
            };
        }
        // A recall of a few leases does not make the others wait longer.
        if now_ms >= self.recalls_from_ms {
            self.recalls_from_ms = now_ms.saturating_add(RECALL_EVERY_MS);
        }
    }
}

impl Borrower {
    /// Returns tokens of this lease: all of them, or those that are not needed until the next answer could come.
    /// Returns the report to the lender; `None` if the lease has changed by now, or is over. If that report is lost,
    /// the next request repeats it.
    pub fn recall(
        &mut self,
        policy: &Policy,
        lease: &LeaseId,
        takes_all: bool,
        now_ms: i64,
    ) -> Option<LeaseRequest> {
        if *lease != self.lease || now_ms >= self.until_ms {
            return None;
        }
        let tokens = self.tokens(now_ms);
        let is_busy = now_ms.saturating_sub(self.spent_at_ms) < BUSY_MS;
        let kept = if takes_all || !is_busy {
            0
        } else {
            let meanwhile_ms = self.trip_ms.saturating_mul(4);
            self.demand.within(policy, now_ms, meanwhile_ms)
        };
        let given = tokens.saturating_sub(kept);
        self.returned = self.returned.saturating_add(given);
        // As far as is known here the tokens are free now, so the remaining quota in verdicts does not change.
        self.free = self.free.saturating_add(given);
        // A grant in flight without a waiting call is not accepted any more: others may need it.
        if let Some(pending) = self.pending.filter(|pending| pending.need == 0) {
            self.pending = None;
            self.has_unreported |= pending.reports_returns;
            self.rest(now_ms);
        }
        Some(LeaseRequest {
            sequence: self.pending.map_or(self.sequence, |_| 0),
            ..self.report(now_ms, 0, 0)
        })
    }
}

impl Table {
    /// The leases of a key to be recalled before a call, or the request of a lease, is refused: see
    /// [`Lender::recallable`].
    pub fn recallable(
        &mut self,
        name: &str,
        key: &str,
        but: Option<&LeaseId>,
        wall_ms: i64,
    ) -> Vec<LeaseId> {
        let now_ms = self.clock.read(wall_ms);
        let slot = self.slot_of(name, key);
        let entry = slot.and_then(|slot| self.slots.get(slot));
        entry.map_or_else(Vec::new, |entry| entry.lender.recallable(but, now_ms))
    }

    /// Merges the report of a borrower whose lease was recalled.
    pub fn receive_report(&mut self, name: &str, key: &str, report: &LeaseRequest, wall_ms: i64) {
        let now_ms = self.clock.read(wall_ms);
        if let Some(slot) = self.slot_of(name, key) {
            if let Some(entry) = self.slots.get_mut(slot) {
                entry.lender.receive_report(&entry.policy, report, now_ms);
            }
            self.touch(slot);
        }
    }

    /// The verdict about a key after a recall: see [`Lender::peek_left`].
    pub fn peek_left(&self, check: &Check<'_>, wall_ms: i64) -> Verdict {
        self.peek_with(check, wall_ms, Lender::peek_left)
    }

    /// Records that a recall returned too little for the borrower of this lease: see [`Lender::recallable`].
    pub fn recalled_in_vain(&mut self, name: &str, key: &str, requester: &LeaseId, wall_ms: i64) {
        let now_ms = self.clock.read(wall_ms);
        let slot = self.slot_of(name, key);
        if let Some(entry) = slot.and_then(|slot| self.slots.get_mut(slot)) {
            entry.lender.recalled_in_vain(requester, now_ms);
        }
    }
}
