//! Recalls: before it refuses anything, a lender takes back what borrowers do not use.
//!
//! Invariant: a recall changes no bound. What a borrower gives back it has not spent and will not spend. Reports hold
//! totals of the lease: the next request repeats what a lost one said, and a late or repeated one changes nothing.

use super::borrower::Borrower;
use super::lease::{LeaseId, LeaseRequest};
use super::lender::Lender;
use super::meter::{NEVER_MS, Verdict};
use super::policy::{Policy, Scope};
use super::table::{Check, Table};

/// How long nothing is recalled of a key after a recall that did not bring what was needed: a key whose limit is used
/// up would cost a message to each borrower with every check.
const RECALL_EVERY_MS: i64 = 300;

/// A borrower that used nothing for so long needs nothing at once.
const BUSY_MS: i64 = 1_000;

/// How long what a borrower said of its lease is taken for what it holds.
pub(super) const HEARD_MS: i64 = 1_000;

/// Of a lease that the last recall in vain did not ask for what it holds: it grew since, or was its asker's own.
pub(super) const UNASKED_MS: i64 = i64::MIN;

impl Lender {
    /// Corrects the waits of a verdict by the leases. What leases hold returns at their end at the latest. If that
    /// would suffice, a global limit may have it back as soon as the next recall is allowed. Isolates cannot be called,
    /// but hold it for a second only. What the asker itself holds, `own`, does not return: it lacks `cost` beside that.
    pub(super) fn timed(
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
        if verdict.reset_ms == 0 {
            // What is spent now returns after a window and a sixtieth of it.
            let window_ms = policy.window_ms.saturating_add(policy.window_ms / 60);
            verdict.reset_ms = wait_ms(first_ms).min(u64::try_from(window_ms).unwrap_or(u64::MAX));
        }
        verdict
    }

    /// The leases of which something is out, but this one: what their borrowers do not need is to be recalled before
    /// anything is refused. While the last recall brought too little, a moment ago, only those that it did not ask.
    pub fn recallable(&self, but: Option<&LeaseId>, now_ms: i64) -> Vec<LeaseId> {
        let rests = now_ms < self.recalls_from_ms;
        let out = self.leases.iter().filter(|lease| lease.outstanding() > 0);
        let out = out.filter(|lease| !rests || lease.heard_ms == UNASKED_MS);
        let others = out.filter(|lease| Some(&lease.id) != but);
        others.map(|lease| lease.id.clone()).collect()
    }

    /// Takes in what a borrower told when its lease was recalled: what it has spent, and what it gives back. Answers
    /// to requests up to the one that is named are void there; one that is named by no number may still be taken in.
    pub fn hear(&mut self, policy: &Policy, report: &LeaseRequest, now_ms: i64) {
        self.settle(policy, now_ms);
        let mut leases = self.leases.iter();
        let Some(place) = leases.position(|lease| lease.id == report.lease) else {
            return;
        };
        let Some(mut lease) = self.leases.get(place).cloned() else {
            return;
        };
        if report.sequence >= lease.sequence {
            lease.sequence = report.sequence;
            lease.granted = lease.granted.min(report.known_granted);
        }
        self.take_report(policy, report, &mut lease, now_ms);
        lease.wish = lease.outstanding();
        lease.heard_ms = now_ms;
        self.put(place, lease);
    }

    /// Notes that a recall did not bring what the borrower of this lease needed.
    pub fn recalled_in_vain(&mut self, asker: &LeaseId, now_ms: i64) {
        for lease in &mut self.leases {
            lease.heard_ms = if lease.id == *asker {
                UNASKED_MS
            } else {
                lease.heard_ms.max(0)
            };
        }
        // A recall of a few leases does not make the others wait longer.
        if now_ms >= self.recalls_from_ms {
            self.recalls_from_ms = now_ms.saturating_add(RECALL_EVERY_MS);
        }
    }
}

impl Borrower {
    /// Gives back what this lease holds: all of it, or what is not needed until the next answer could come. Returns
    /// what to tell the lender; nothing where the lease is another by now, or over. What is lost on the way is told
    /// by the next request.
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
        // Nobody holds it now, as far as is known here: what verdicts tell of the rest stays as it was.
        self.free = self.free.saturating_add(given);
        // What is on its way for nobody is not taken any more: it may be what the others lack.
        if let Some(pending) = self.pending.filter(|pending| pending.need == 0) {
            self.pending = None;
            self.is_untold |= pending.tells;
            self.rest(now_ms);
        }
        Some(LeaseRequest {
            sequence: self.pending.map_or(self.sequence, |_| 0),
            ..self.told(now_ms, 0, 0)
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
        let place = self.place(name, key);
        let entry = place.and_then(|place| self.slots.get(place));
        entry.map_or_else(Vec::new, |entry| entry.lender.recallable(but, now_ms))
    }

    /// Takes in what a borrower told when its lease was recalled.
    pub fn hear(&mut self, name: &str, key: &str, report: &LeaseRequest, wall_ms: i64) {
        let now_ms = self.clock.read(wall_ms);
        if let Some(place) = self.place(name, key) {
            if let Some(entry) = self.slots.get_mut(place) {
                entry.lender.hear(&entry.policy, report, now_ms);
            }
            self.touch(place);
        }
    }

    /// How a key stands after a recall: see [`Lender::peek_left`].
    pub fn peek_left(&self, check: &Check<'_>, wall_ms: i64) -> Verdict {
        let now_ms = self.clock.peek(wall_ms);
        let place = self.place(check.name, check.key);
        match place.and_then(|place| self.slots.get(place)) {
            Some(entry) if entry.policy == *check.policy => {
                entry.lender.peek_left(&entry.policy, now_ms, check.cost)
            }
            _ => self.peek(check, wall_ms),
        }
    }

    /// Notes that a recall did not bring what the borrower of this lease needed: see [`Lender::recallable`].
    pub fn recalled_in_vain(&mut self, name: &str, key: &str, asker: &LeaseId, wall_ms: i64) {
        let now_ms = self.clock.read(wall_ms);
        let place = self.place(name, key);
        if let Some(entry) = place.and_then(|place| self.slots.get_mut(place)) {
            entry.lender.recalled_in_vain(asker, now_ms);
        }
    }
}
