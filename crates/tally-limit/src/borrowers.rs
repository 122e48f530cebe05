//! The leases that one partition of a datacenter holds, or one isolate. Times are wall times.
//!
//! Invariants: at most [`BORROWERS_MAX`] keys are held. A key with a lease, or with a request in flight, is not
//! dropped. No two leases have the same id.
//!
//! The age of a lease is the difference of two readings of the clock. If a step back of the clock is detected, the ages
//! are unknown, and all leases are forfeited. A step back that is shorter than the time since the last reading cannot
//! be detected: such clocks must be slewed.

use std::collections::HashMap;

use super::borrower::Borrower;
use super::lease::{Admission, LeaseAnswer, LeaseId, LeaseRequest};
use super::memory::{LIMITERS_BYTES_MAX, MemoryShare};
use super::meter::Verdict;
use super::owner::Owner;
use super::policy::Policy;
use super::table::{Check, Full, subject};

/// The most keys: 20 MB. All limiters of an isolate hold no more keys than fit into [`LIMITERS_BYTES_MAX`] with their
/// tables.
pub const BORROWERS_MAX: usize = 20_000;

/// The bytes of one key: 500, 384 for the times of spent tokens, and its name of about 100.
pub const HELD_BYTES: u64 = 1_000;

/// The interval at which idle borrowers are searched for while there is no room, milliseconds.
const SWEPT_EVERY_MS: i64 = 100;

/// The size of each borrower's range of lease numbers.
const NUMBERS_EACH: u64 = 1 << 32;

/// A request that is to be sent for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRequest {
    /// The policy's name.
    pub name: String,
    /// The policy that the borrower has.
    pub policy: Policy,
    /// The key.
    pub key: String,
    /// The owner that sent an inline policy.
    pub owner: Owner,
    /// The request to send.
    pub request: LeaseRequest,
}

#[derive(Clone, Debug)]
struct BorrowedKey {
    policy: Policy,
    owner: Owner,
    borrower: Borrower,
}

impl BorrowedKey {
    /// Changes to this policy.
    fn adapt(&mut self, policy: &Policy, now_ms: i64) {
        if self.policy == *policy {
            return;
        }
        let is_narrower =
            policy.limit < self.policy.limit || policy.capacity() < self.policy.capacity();
        if is_narrower || !self.policy.counts_like(policy) || self.policy.scope != policy.scope {
            self.borrower.give_up(now_ms);
        }
        self.policy = policy.clone();
    }

    fn next_request(&mut self, name: &str, key: &str, now_ms: i64) -> Option<DueRequest> {
        let request = self.borrower.next_request(&self.policy, now_ms)?;
        Some(self.due_request(name, key, request))
    }

    fn due_request(&self, name: &str, key: &str, request: LeaseRequest) -> DueRequest {
        DueRequest {
            name: name.to_owned(),
            policy: self.policy.clone(),
            key: key.to_owned(),
            owner: self.owner,
            request,
        }
    }
}

/// The leases of one partition.
#[derive(Clone, Debug)]
pub struct Borrowers {
    name: String,
    incarnation: u64,
    last_ms: i64,
    swept_ms: i64,
    held: HashMap<Box<str>, BorrowedKey>,
    /// The number of borrowers so far.
    begun: u64,
    /// Their part of the isolate's memory.
    memory: MemoryShare,
    scratch: String,
}

impl Borrowers {
    /// No leases. The name is unique for each datacenter and partition. The incarnation is drawn at random when the
    /// object starts. Both are in the id of each lease.
    pub fn new(name: &str, incarnation: u64) -> Self {
        Self {
            name: name.to_owned(),
            incarnation,
            last_ms: i64::MIN,
            swept_ms: i64::MIN,
            held: HashMap::new(),
            begun: 0,
            memory: MemoryShare::default(),
            scratch: String::new(),
        }
    }

    /// The borrowers, with their memory counted together with that of others.
    #[must_use]
    pub fn sharing(self, memory: MemoryShare) -> Self {
        Self { memory, ..self }
    }

    /// The outcome of a call of this cost.
    ///
    /// # Errors
    /// [`Full`] where the key is new and there is no room for it.
    pub fn check(&mut self, check: &Check<'_>, wall_ms: i64) -> Result<Admission, Full> {
        let now_ms = self.read(wall_ms);
        let Check { policy, cost, .. } = *check;
        if let Some(held) = self.find(check.name, check.key) {
            held.adapt(policy, now_ms);
            return Ok(held.borrower.check(policy, now_ms, cost));
        }
        Ok(self.hold(check, now_ms)?.check(policy, now_ms, cost))
    }

    /// Makes a borrower of the key that was looked up last and not found.
    fn hold(&mut self, check: &Check<'_>, now_ms: i64) -> Result<&mut Borrower, Full> {
        // This is not done for each call that finds no room: a scan of all costs 0.2 ms.
        if self.is_full() && now_ms >= self.swept_ms.saturating_add(SWEPT_EVERY_MS) {
            self.swept_ms = now_ms;
            self.sweep(now_ms);
        }
        if self.is_full() {
            return Err(Full);
        }
        let bytes = self.memory.bytes().saturating_add(HELD_BYTES);
        self.memory.hold(bytes);
        let first = LeaseId {
            borrower: self.name.clone(),
            incarnation: self.incarnation,
            number: self.begun.saturating_mul(NUMBERS_EACH),
        };
        self.begun = self.begun.saturating_add(1);
        let subject = Box::from(self.scratch.as_str());
        let held = self.held.entry(subject).or_insert_with(|| BorrowedKey {
            policy: check.policy.clone(),
            owner: check.owner,
            borrower: Borrower::new(first),
        });
        Ok(&mut held.borrower)
    }

    fn is_full(&self) -> bool {
        self.held.len() >= BORROWERS_MAX || !self.memory.has_room(LIMITERS_BYTES_MAX)
    }

    /// Drops idle borrowers.
    fn sweep(&mut self, now_ms: i64) {
        self.held.retain(|_, held| !held.borrower.is_idle(now_ms));
        let held = u64::try_from(self.held.len()).unwrap_or(u64::MAX);
        self.memory.hold(held.saturating_mul(HELD_BYTES));
    }

    /// Begins to hold a key whose calls [`Self::take`] admits.
    ///
    /// # Errors
    /// [`Full`] where there is no room for it.
    pub fn begin(&mut self, check: &Check<'_>, wall_ms: i64) -> Result<(), Full> {
        let now_ms = self.read(wall_ms);
        if self.find(check.name, check.key).is_none() {
            self.hold(check, now_ms)?;
        }
        Ok(())
    }

    /// Admits a call of this cost from the lease of a key, see [`Borrower::take`], and returns the request to send now,
    /// if there is one. Neither, if the key was never begun. Tokens under a policy that allowed more, or counted
    /// differently, are returned.
    pub fn take(
        &mut self,
        check: &Check<'_>,
        wall_ms: i64,
    ) -> (Option<Verdict>, Option<DueRequest>) {
        let now_ms = self.read(wall_ms);
        let Check {
            name,
            policy,
            key,
            cost,
            ..
        } = *check;
        let Some(held) = self.find(name, key) else {
            return (None, None);
        };
        held.adapt(policy, now_ms);
        let verdict = held.borrower.take(policy, now_ms, cost);
        (verdict, held.next_request(name, key, now_ms))
    }

    fn read(&mut self, wall_ms: i64) -> i64 {
        if wall_ms < self.last_ms {
            self.held.clear();
            self.memory.hold(0);
        }
        self.last_ms = wall_ms;
        wall_ms
    }

    fn find(&mut self, name: &str, key: &str) -> Option<&mut BorrowedKey> {
        subject(&mut self.scratch, name, key);
        self.held.get_mut(self.scratch.as_str())
    }

    /// Refunds the consumption of a call, at most what the key's lease has spent. Returns the refunded amount.
    pub fn refund(&mut self, name: &str, key: &str, amount: u64, wall_ms: i64) -> u64 {
        let now_ms = self.read(wall_ms);
        self.find(name, key)
            .map_or(0, |held| held.borrower.refund(now_ms, amount))
    }

    /// Ends the wait of a call of this cost, which got [`Admission::Ask`].
    pub fn leave(&mut self, name: &str, key: &str, cost: u64) {
        if let Some(held) = self.find(name, key) {
            held.borrower.leave(cost);
        }
    }

    /// The outcome of a call of a key while the lender does not answer, see [`Borrower::without_lender`].
    pub fn without_lender(&mut self, name: &str, key: &str, wall_ms: i64) -> Admission {
        let now_ms = self.read(wall_ms);
        let held = self.find(name, key);
        held.map_or(Admission::Away, |held| {
            held.borrower.without_lender(&held.policy, now_ms)
        })
    }

    /// Returns the tokens of a key's lease, see [`Borrower::recall`].
    pub fn recall(
        &mut self,
        name: &str,
        key: &str,
        lease: &LeaseId,
        takes_all: bool,
        wall_ms: i64,
    ) -> Option<LeaseRequest> {
        let now_ms = self.read(wall_ms);
        let BorrowedKey {
            policy, borrower, ..
        } = self.find(name, key)?;
        borrower.recall(policy, lease, takes_all, now_ms)
    }

    /// Drops the cached refusal of a key, after a refund elsewhere.
    pub fn forget_refusal(&mut self, name: &str, key: &str) {
        if let Some(held) = self.find(name, key) {
            held.borrower.forget_refusal();
        }
    }

    /// Whether a request for this key is in flight.
    pub fn has_pending_request(&mut self, name: &str, key: &str, wall_ms: i64) -> bool {
        let now_ms = self.read(wall_ms);
        self.find(name, key)
            .is_some_and(|held| held.borrower.has_pending_request(now_ms))
    }

    /// The request to send now for this key, if there is one. To be called after each check of it.
    pub fn next_request(&mut self, name: &str, key: &str, wall_ms: i64) -> Option<DueRequest> {
        let now_ms = self.read(wall_ms);
        self.find(name, key)?.next_request(name, key, now_ms)
    }

    /// At most `limit` requests of keys whose lease nears its end without checks, or that have unreported returns. Keys
    /// without a lease are dropped. To be called by a timer, about once a second while [`Self::is_empty`] is false.
    /// Cost: O(keys).
    pub fn due_requests(&mut self, limit: usize, wall_ms: i64) -> Vec<DueRequest> {
        let now_ms = self.read(wall_ms);
        self.sweep(now_ms);
        let is_due = |held: &BorrowedKey| {
            let due_at_ms = held.borrower.due_at_ms();
            due_at_ms.is_some_and(|due_ms| due_ms <= now_ms)
        };
        let due = self.held.iter_mut().filter(|(_, held)| is_due(held));
        let mut due: Vec<_> = due.collect();
        due.sort_unstable_by_key(|(subject, _)| *subject);
        let requests = due.into_iter().filter_map(|(subject, held)| {
            let (name, key) = subject.split_once('\0')?;
            held.next_request(name, key, now_ms)
        });
        requests.take(limit).collect()
    }

    /// Ends all leases. Returns the requests that return what is left of them.
    pub fn into_last_requests(mut self, wall_ms: i64) -> Vec<DueRequest> {
        let now_ms = self.read(wall_ms);
        let last = |(subject, mut held): (Box<str>, BorrowedKey)| {
            let (name, key) = subject.split_once('\0')?;
            let request = held.borrower.last_request(now_ms)?;
            Some(held.due_request(name, key, request))
        };
        core::mem::take(&mut self.held)
            .into_iter()
            .filter_map(last)
            .collect()
    }

    /// Processes the answer to a request.
    pub fn answered(&mut self, name: &str, key: &str, answer: &LeaseAnswer, wall_ms: i64) {
        let now_ms = self.read(wall_ms);
        if let Some(held) = self.find(name, key) {
            held.borrower.answered(answer, now_ms);
        }
    }

    /// Merges the outcome of a request, and passes on its fault.
    ///
    /// # Errors
    /// That of the outcome.
    pub fn receive_outcome<E>(
        &mut self,
        due_request: &DueRequest,
        outcome: Result<LeaseAnswer, E>,
        wall_ms: i64,
    ) -> Result<(), E> {
        match outcome {
            Ok(answer) => {
                self.answered(&due_request.name, &due_request.key, &answer, wall_ms);
                Ok(())
            }
            Err(fault) => {
                self.lost(
                    &due_request.name,
                    &due_request.key,
                    due_request.request.sequence,
                    wall_ms,
                );
                Err(fault)
            }
        }
    }

    /// Gives up a request that failed.
    pub fn lost(&mut self, name: &str, key: &str, sequence: u64, wall_ms: i64) {
        let now_ms = self.read(wall_ms);
        if let Some(held) = self.find(name, key) {
            held.borrower.lost(sequence, now_ms);
        }
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
