//! The messages between the borrowers of leases and their lender, of one limit.
//!
//! Invariant: every number that a borrower reports is a total of the whole lease, so a request that is lost, repeated
//! or overtaken does no harm. Both are a part of messages: append fields, never reorder.

use serde::{Deserialize, Serialize};

use super::meter::Verdict;
use super::policy::{Policy, Scope};

/// The shortest lease of a limit, milliseconds: a renewal across the world takes 0.6 s, and may be lost once.
pub const LEASE_MS_MIN: i64 = 3_000;

/// The longest lease of a limit, milliseconds, for windows of many minutes: quota of an unreachable datacenter returns
/// this much later.
pub const LEASE_MS_MAX: i64 = 600_000;

/// How long a lease lasts, in percent of the window. In a world of twenty datacenters that use half of 1,000 per
/// minute, 100 % made 5.7 % of the checks remote, 150 % 4.6 %, 300 % 4.6 % too, and then 0.3 % were refused although
/// there was budget.
const LEASE_PERCENT: i64 = 150;

/// The length of an isolate's lease, milliseconds. A limiter of its datacenter answers within a few milliseconds. Quota
/// that an isolate holds when it ends returns this much later.
pub const ISOLATE_LEASE_MS: i64 = 1_000;

/// How long a lease lasts, milliseconds: for datacenters by the window and within limits.
pub fn lease_ms(policy: &Policy) -> i64 {
    if policy.scope == Scope::Datacenter {
        return ISOLATE_LEASE_MS;
    }
    let length_ms = policy.window_ms.saturating_mul(LEASE_PERCENT) / 100;
    length_ms.clamp(LEASE_MS_MIN, LEASE_MS_MAX)
}

/// How much shorter a time may be by another clock, milliseconds. Drift is 1 % of it: clocks of servers drift by less
/// than 0.1 %. 50 ms are for a clock that is slewed, or stands still while its program computes.
pub fn drift_ms(length_ms: u64) -> u64 {
    (length_ms / 100).saturating_add(50)
}

/// How long the report of a borrower counts as its present state, milliseconds.
pub(super) const REPORT_VALID_MS: i64 = 1_000;

/// The report time of a lease that the last insufficient recall did not include: it grew after that, or was the
/// requester's own.
pub(super) const NOT_RECALLED_MS: i64 = i64::MIN;

/// The name of a lease: who borrows, in which incarnation, and the lease's sequence number within that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseId {
    /// The datacenter, and what else distinguishes borrowers.
    pub borrower: String,
    /// The borrower's incarnation: drawn at random when its object starts.
    pub incarnation: u64,
    /// The sequence number of the lease of this key within the incarnation, from 1.
    pub number: u64,
}

/// Tokens that were spent some time before a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// How long before, milliseconds, by the borrower's clock.
    pub age_ms: u64,
    /// How many.
    pub amount: u64,
}

/// What a borrower reports and asks for. Totals are of the whole lease, so lost, repeated and reordered requests do no
/// harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// The lease that it is about.
    pub lease: LeaseId,
    /// Rises with each request of a borrower, from the number of its first lease.
    pub sequence: u64,
    /// Tokens spent.
    pub spent: u64,
    /// When the newest of them were spent, oldest first.
    pub recent: Vec<Spent>,
    /// Tokens given back.
    pub returned: u64,
    /// Tokens that callers gave back after they had been reported as spent.
    pub refunded: u64,
    /// Tokens that the borrower knows it was granted.
    pub known_granted: u64,
    /// How many more it would like.
    pub want: u64,
    /// How many more it needs at once, or none are of use; at most `want`.
    pub need: u64,
    /// How many calls are waiting for now, at least `need`.
    pub waiting: u64,
}

/// What the lender answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseAnswer {
    /// The sequence number of the request that is answered.
    pub sequence: u64,
    /// Tokens granted in the whole lease.
    pub granted: u64,
    /// How long the lease is valid from when the request was sent, milliseconds by any clock whose drift is allowed
    /// for; 0 where it has ended.
    pub valid_ms: u64,
    /// What nobody holds and nobody has used.
    pub free: u64,
    /// Milliseconds until more is free than now; 0 where all is.
    pub reset_after_ms: u64,
    /// Milliseconds until what was needed would be granted; 0 where it was.
    pub retry_after_ms: u64,
    /// Whether the lender must store its state before it sends this.
    pub must_commit: bool,
}

impl LeaseAnswer {
    /// Whether calls go on waiting that others' tokens could serve: what they hold is to be recalled, and the request
    /// answered again.
    pub fn is_short(&self, request: &LeaseRequest) -> bool {
        let got = self.granted.saturating_sub(request.known_granted);
        self.valid_ms > 0 && got < request.waiting
    }
}

/// What becomes of a call at a borrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is decided.
    Decided(Verdict),
    /// The lender must be asked first: send what [`crate::borrower::Borrower::next_request`] returns, or wait for the
    /// answer to the request on its way, and check again.
    Ask,
    /// Unknown: nothing is lent here, and the lender did not answer a moment ago.
    Away,
}
