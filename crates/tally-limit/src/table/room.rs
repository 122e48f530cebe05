//! How much room a table has, and what a call is answered that finds none.

use crate::lease::{LeaseAnswer, LeaseRequest};
use crate::memory::LIMITERS_BYTES_MAX;
use crate::meter::Verdict;
use crate::policy::Policy;

/// The most keys of one limiter: at 320 bytes for one with few buckets they fill [`BYTES_MAX`].
pub const KEYS_MAX: u32 = 75_000;

/// The most bytes that the keys of a limiter may take: all that limiters may in their isolate. A key with all its
/// buckets has about 1,400, one with leases at all datacenters 60,000. Where there is no room for another key, those
/// that are there keep times in fewer buckets, so that they grow no more.
pub const BYTES_MAX: u64 = LIMITERS_BYTES_MAX;

/// The bytes of leases that a limiter may hold whatever its keys take: 4,300 of 120 bytes. Beyond it a lease begins
/// only while there is room in [`BYTES_MAX`]. So the leases of eight limiters of an isolate take at most 4 MB
/// more, and one list of 60 KB that has just grown. A borrower that gets none must wait, as where
/// [`crate::lender::LEASES_MAX`] is reached.
pub const LEASES_BYTES_MIN: u64 = 512 << 10;

/// How long a check waits that found no room, milliseconds.
const FULL_MS: u64 = 1_000;

/// No room for another key or reservation, nor for a meter that keys share: time must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Full {
    /// The verdict of a check whose key has no slot: it is refused.
    pub fn verdict(policy: &Policy) -> Verdict {
        Verdict {
            is_allowed: false,
            limit: policy.limit,
            remaining: 0,
            reset_after_ms: FULL_MS,
            retry_after_ms: FULL_MS,
        }
    }

    /// The answer to the borrower of such a key: nothing is lent, and its calls are refused.
    pub fn answer(request: &LeaseRequest) -> LeaseAnswer {
        LeaseAnswer {
            sequence: request.sequence,
            granted: 0,
            valid_ms: 0,
            free: 0,
            reset_after_ms: FULL_MS,
            retry_after_ms: FULL_MS,
            must_commit: false,
        }
    }
}
