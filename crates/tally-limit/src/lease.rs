//! The messages between the borrowers of leases and their lender, of one limit.
//!
//! Invariant: every number that a borrower reports is a total of the whole lease, so a request that is lost, repeated
//! or overtaken does no harm. Both are a part of messages: append fields, never reorder.

use serde::{Deserialize, Serialize};

use super::meter::Verdict;

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
    /// The lender must be asked first: send what [`super::borrower::Borrower::next_request`] returns, or wait for the
    /// answer to the request on its way, and check again.
    Ask,
    /// Unknown: nothing is lent here, and the lender did not answer a moment ago.
    Away,
}
