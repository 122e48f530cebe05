//! One limit for many callers, each known by a key.
//!
//! Invariants: a refused call consumes nothing; no key gets more than the quota, and memory is bounded, see
//! [`crate::table`].

use core::num::NonZeroU64;

use super::direct::{Quota, RateLimiter, Refused};
use super::meter::Verdict;
use super::table::{Check, Full, Table};

/// The name of the only policy of the table.
const NAME: &str = "quota";

/// One limit for many keys. Clones count apart.
#[derive(Clone, Debug)]
pub struct KeyedRateLimiter {
    quota: Quota,
    table: Table,
}

impl RateLimiter {
    /// A limiter that counts each key apart, of which nothing is used. It holds up to
    /// [`crate::table::KEYS_MAX`] keys and forgets a key once nothing of it counts. Keys for which there is no room
    /// share meters: they may get less than the quota, and never more.
    ///
    /// ```
    /// use core::num::NonZeroU32;
    /// use tally_limit::{Quota, RateLimiter};
    ///
    /// let quota = Quota::per_second(NonZeroU32::new(1).unwrap());
    /// let mut limiter = RateLimiter::keyed(quota);
    /// assert!(limiter.check_key_at("ada", 0).is_ok());
    /// assert!(limiter.check_key_at("ada", 10).is_err());
    /// assert!(limiter.check_key_at("bob", 10).is_ok());
    /// ```
    pub fn keyed(quota: Quota) -> KeyedRateLimiter {
        KeyedRateLimiter {
            quota,
            table: Table::in_memory(),
        }
    }
}

impl KeyedRateLimiter {
    /// Admits a call of a key at a time, unix milliseconds, and consumes one. A time before that of an earlier call is
    /// taken as that, whatever the key.
    ///
    /// # Errors
    /// [`Refused`] where the quota of the key is used, or all memory is; nothing is consumed. Cost: O(1) if admitted,
    /// O(61) if refused, and bounded work to drop idle keys.
    pub fn check_key_at(&mut self, key: &str, wall_ms: i64) -> Result<Verdict, Refused> {
        self.check_key_n_at(key, wall_ms, NonZeroU64::MIN)
    }

    /// As [`Self::check_key_at`], for a call that costs `cost`: all of it is admitted, or nothing.
    ///
    /// # Errors
    /// As [`Self::check_key_at`].
    pub fn check_key_n_at(
        &mut self,
        key: &str,
        wall_ms: i64,
        cost: NonZeroU64,
    ) -> Result<Verdict, Refused> {
        let policy = self.quota.policy();
        let check = Check::of(NAME, policy, key, cost.get());
        let verdict = self.table.check(&check, wall_ms);
        Refused::unless_allowed(verdict.unwrap_or_else(|Full| Full::verdict(policy)))
    }

    /// What [`Self::check_key_at`] would say, as it stands before the call; nothing changes.
    pub fn peek_key_at(&self, key: &str, wall_ms: i64) -> Verdict {
        let check = Check::of(NAME, self.quota.policy(), key, 1);
        self.table.peek(&check, wall_ms)
    }

    /// How many keys it holds; some of them may be idle.
    pub fn len(&self) -> u64 {
        self.table.size().keys
    }

    /// Whether it holds no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
