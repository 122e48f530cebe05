//! The leases that one partition of a datacenter holds. Times are wall times: it keeps a clock that never goes back.
//!
//! Invariant: at most [`HOLDERS_MAX`] keys are held, and a key whose lease may still be reported is not dropped.

use super::lease::{Admission, Answer, Request};
use super::policy::Policy;
use super::table::Full;

/// The most keys: about 400 bytes each, so 16 MB.
pub const HOLDERS_MAX: usize = 40_000;

/// A request that is to be sent for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The policy's name.
    pub name: String,
    /// The policy that the holder has.
    pub policy: Policy,
    /// The key.
    pub key: String,
    /// What to send.
    pub request: Request,
}

/// The leases of one partition.
#[derive(Clone, Debug)]
pub struct Holders {}

impl Holders {
    /// None. The name and the incarnation go into each lease.
    pub fn new(holder: &str, incarnation: u64) -> Self {
        todo!()
    }

    /// What becomes of a call of this cost.
    ///
    /// # Errors
    /// [`Full`] where the key is new and there is no room for it.
    pub fn check(
        &mut self,
        name: &str,
        policy: &Policy,
        key: &str,
        cost: u64,
        wall_ms: i64,
    ) -> Result<Admission, Full> {
        todo!()
    }

    /// Gives back what a call had consumed, never more than the key's lease has spent. Returns how much that was.
    pub fn refund(&mut self, name: &str, key: &str, amount: u64, wall_ms: i64) -> u64 {
        todo!()
    }

    /// The request to send now for this key, if there is one; ask after each check of it.
    pub fn due(&mut self, name: &str, key: &str, wall_ms: i64) -> Option<Request> {
        todo!()
    }

    /// Requests of keys that nobody has checked for a while, at most so many; keys without a lease are dropped.
    /// Ask by a timer, about once a second while [`Self::is_empty`] is false. Cost: O(keys).
    pub fn all_due(&mut self, most: usize, wall_ms: i64) -> Vec<Due> {
        todo!()
    }

    /// Takes in the answer to a request.
    pub fn answered(&mut self, name: &str, key: &str, answer: &Answer, wall_ms: i64) {
        todo!()
    }

    /// Notes that a request failed.
    pub fn lost(&mut self, name: &str, key: &str, sequence: u64) {
        todo!()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        todo!()
    }
}
