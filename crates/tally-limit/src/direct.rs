//! One limit for one caller: a policy and its meter.
//!
//! Invariant: a refused call consumes nothing, and a call `retry_after_ms` later is admitted if none is admitted
//! between.

use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};
use core::time::Duration;

use super::clock::Monotone;
use super::meter::{Meter, NEVER_MS, Verdict};
use super::policy::{Algorithm, Policy, PolicyFault, WINDOW_SECONDS_MAX};

/// How much may be consumed, and in which time. Sliding windows unless [`Quota::allow_burst`] or [`Quota::fixed`]
/// says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota(Policy);

impl Quota {
    /// At most so many in any second.
    pub fn per_second(limit: NonZeroU32) -> Self {
        Self::sliding(limit, 1)
    }

    /// At most so many in any minute.
    pub fn per_minute(limit: NonZeroU32) -> Self {
        Self::sliding(limit, 60)
    }

    /// At most so many in any hour.
    pub fn per_hour(limit: NonZeroU32) -> Self {
        Self::sliding(limit, 3_600)
    }

    /// At most so many in any interval of this length.
    ///
    /// # Errors
    /// Where it is not a whole number of seconds from 1 to [`WINDOW_SECONDS_MAX`]; parts of seconds are 0.
    pub fn per(limit: NonZeroU32, window: Duration) -> Result<Self, PolicyFault> {
        let seconds = match window.subsec_nanos() {
            0 => window.as_secs(),
            _ => 0,
        };
        if !(1..=WINDOW_SECONDS_MAX).contains(&seconds) {
            return Err(PolicyFault {
                field: "window_seconds",
                min: 1,
                max: WINDOW_SECONDS_MAX,
            });
        }
        Ok(Self::sliding(limit, seconds))
    }

    fn sliding(limit: NonZeroU32, seconds: u64) -> Self {
        Self(Policy::sliding(limit.get().into(), seconds))
    }

    /// A bucket of this size that refills evenly (GCRA), in place of a window: never more than `burst`, and the rate,
    /// of any interval.
    pub fn allow_burst(mut self, burst: NonZeroU32) -> Self {
        self.0.algorithm = Algorithm::TokenBucket;
        self.0.burst = burst.get().into();
        self
    }

    /// Windows of the clock in place of sliding ones: twice the limit may pass around a boundary.
    pub fn fixed(mut self) -> Self {
        self.0.algorithm = Algorithm::FixedWindow;
        self
    }

    /// The policy, for a [`Meter`] or a table.
    pub fn policy(&self) -> &Policy {
        &self.0
    }

    /// How long its window is, milliseconds.
    pub fn window_ms(&self) -> i64 {
        self.0.window_ms
    }
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Milliseconds until the same call would be admitted, at least 1; [`NEVER_MS`] where it costs more than the quota.
    pub retry_after_ms: u64,
}

impl Refused {
    /// How long until the same call would be admitted; `None` where it costs more than the quota.
    pub fn retry_after(&self) -> Option<Duration> {
        (self.retry_after_ms != NEVER_MS).then_some(Duration::from_millis(self.retry_after_ms))
    }

    pub(super) fn unless_allowed(verdict: Verdict) -> Result<Verdict, Self> {
        let retry_after_ms = verdict.retry_after_ms;
        match verdict.is_allowed {
            true => Ok(verdict),
            false => Err(Self { retry_after_ms }),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after_ms {
            NEVER_MS => {
                formatter.write_str("the call costs more than the quota: send a smaller one")
            }
            wait_ms => write!(formatter, "over the quota: try again in {wait_ms} ms"),
        }
    }
}

impl core::error::Error for Refused {}

/// One limit for one caller. Clones count apart.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    quota: Quota,
    clock: Monotone,
    meter: Meter,
}

impl RateLimiter {
    /// A limiter of which nothing is used.
    pub fn direct(quota: Quota) -> Self {
        let meter = Meter::new(quota.policy());
        Self {
            quota,
            clock: Monotone::default(),
            meter,
        }
    }

    /// Admits a call at a time, unix milliseconds, and consumes one. A time before that of an earlier call is taken
    /// as that.
    ///
    /// # Errors
    /// [`Refused`] where the quota is used; nothing is consumed. Cost: O(1) if admitted, O(61) if refused.
    pub fn check_at(&mut self, wall_ms: i64) -> Result<Verdict, Refused> {
        self.check_n_at(wall_ms, NonZeroU64::MIN)
    }

    /// As [`Self::check_at`], for a call that costs `cost`: all of it is admitted, or nothing.
    ///
    /// # Errors
    /// As [`Self::check_at`].
    pub fn check_n_at(&mut self, wall_ms: i64, cost: NonZeroU64) -> Result<Verdict, Refused> {
        let now_ms = self.clock.read(wall_ms);
        Refused::unless_allowed(self.meter.check(self.quota.policy(), now_ms, cost.get()))
    }

    /// What [`Self::check_at`] would say; nothing changes.
    pub fn peek_at(&self, wall_ms: i64) -> Verdict {
        let now_ms = self.clock.peek(wall_ms);
        self.meter.peek(self.quota.policy(), now_ms, 1)
    }
}
