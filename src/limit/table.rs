//! The keys of one partition. Times are wall times: the table keeps a clock that never goes back.
//!
//! Invariants: at most [`KEYS_MAX`] keys and [`BYTES_MAX`] bytes are held; a key is only dropped once nothing of it counts;
//! checks of one call are all admitted or consume nothing; what was consumed by a reservation is given back at most once.

use super::lease::{Answer, Request};
use super::meter::Verdict;
use super::policy::Policy;

/// The most keys: at 320 bytes for one with few buckets they fill [`BYTES_MAX`].
pub const KEYS_MAX: u32 = 100_000;

/// The most bytes that keys may take: a quarter of an isolate's 128 MiB.
pub const BYTES_MAX: u64 = 32 << 20;

/// One check of a call.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// The policy's name, without control characters.
    pub name: &'a str,
    /// The policy as it is now.
    pub policy: &'a Policy,
    /// The key, without control characters.
    pub key: &'a str,
    /// What the call costs, 1 to the policy's capacity.
    pub cost: u64,
}

/// No room for another key or reservation: time must act. The policy's `on_error` says what to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Why nothing was reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not all were admitted: the verdict of each.
    Over(Vec<Verdict>),
    /// No room.
    Full,
    /// It was cancelled before it came.
    Cancelled,
}

/// A reservation's name, chosen at random by who asks for it.
pub type ReservationId = [u8; 16];

/// How long a reservation may be cancelled, and how long a cancelled one is remembered.
pub const RESERVED_MS_MAX: i64 = 10_000;

/// What one commit writes, in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The number of the row to insert; numbers rise.
    pub row: u64,
    /// Its body.
    pub body: Vec<u8>,
    /// Rows below this number are to be deleted in the same transaction.
    pub delete_below: u64,
}

/// What the table holds, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Keys.
    pub keys: u64,
    /// Bytes, estimated from above.
    pub bytes: u64,
}

/// The keys of one partition.
#[derive(Clone, Debug, Default)]
pub struct Table {}

impl Table {
    /// The verdict about one check; an admitted one is consumed. Cost: O(1), and bounded work to drop idle keys.
    ///
    /// # Errors
    /// [`Full`] where the key is new and there is no room for it.
    pub fn check(&mut self, check: &Check<'_>, wall_ms: i64) -> Result<Verdict, Full> {
        todo!()
    }

    /// What [`Self::check`] would say, as it stands before the call; nothing changes.
    pub fn peek(&self, check: &Check<'_>, wall_ms: i64) -> Verdict {
        todo!()
    }

    /// The verdict of each check: if all are admitted they are consumed, else nothing is. Costs of checks of the same key add.
    /// Cost: O(n²) for n checks.
    ///
    /// # Errors
    /// [`Full`] where there is no room for all keys; nothing is consumed.
    pub fn check_all(&mut self, checks: &[Check<'_>], wall_ms: i64) -> Result<Vec<Verdict>, Full> {
        todo!()
    }

    /// Gives back the cost of the check, never more than is used. Returns how it stands then.
    pub fn refund(&mut self, check: &Check<'_>, wall_ms: i64) -> Verdict {
        todo!()
    }

    /// Forgets what a key has used. Leases of a global limit go on.
    pub fn reset(&mut self, name: &str, key: &str, wall_ms: i64) {
        todo!()
    }

    /// As [`Self::check_all`], and remembers for [`RESERVED_MS_MAX`] what was consumed, so that it can be cancelled. A repeat
    /// gets the verdicts as they are now, and consumes nothing.
    ///
    /// # Errors
    /// A [`Refusal`]; nothing is consumed.
    pub fn reserve(
        &mut self,
        id: ReservationId,
        checks: &[Check<'_>],
        wall_ms: i64,
    ) -> Result<Vec<Verdict>, Refusal> {
        todo!()
    }

    /// Gives back what was reserved, as far as it still counts, once. If the reservation has not come, it will be refused.
    pub fn cancel(&mut self, id: ReservationId, wall_ms: i64) {
        todo!()
    }

    /// Forgets a reservation: what it consumed stays consumed.
    pub fn confirm(&mut self, id: ReservationId, wall_ms: i64) {
        todo!()
    }

    /// Answers a holder of leases for a key of a global limit. [`Answer::must_commit`] says whether the table must be
    /// committed before the answer is sent.
    ///
    /// # Errors
    /// [`Full`] where there is no room for the key.
    pub fn ask(
        &mut self,
        name: &str,
        policy: &Policy,
        key: &str,
        request: &Request,
        wall_ms: i64,
    ) -> Result<Answer, Full> {
        todo!()
    }

    /// Whether anything has changed since the last commit.
    pub fn is_dirty(&self) -> bool {
        todo!()
    }

    /// What is to be written next; nothing where all is written. Its body is at most `super::log::BODY_BYTES_MAX`; call it
    /// until it returns nothing. Whatever it returned must be written, or the table be thrown away and loaded again.
    pub fn commit(&mut self) -> Option<Commit> {
        todo!()
    }

    /// Takes in a stored row; rows in ascending order.
    ///
    /// # Errors
    /// [`super::log::Broken`] where it cannot be read; what could be is kept.
    pub fn load(&mut self, row: u64, body: &[u8], wall_ms: i64) -> Result<(), super::log::Broken> {
        todo!()
    }

    /// How much it holds.
    pub fn size(&self) -> Size {
        todo!()
    }
}
