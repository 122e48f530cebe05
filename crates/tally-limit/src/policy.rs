//! What is promised to a key: how much in which time, and what happens where it cannot be known.
//!
//! Invariant: a policy that passes [`Policy::check`] has only values for which no arithmetic of this folder
//! overflows: `limit_max · window_ms_max = 10^9 · 2.592 · 10^9 ≈ 2.6 · 10^18`, below 2^63.

#[cfg(feature = "std")]
pub mod overrides;

use serde::{Deserialize, Serialize};

/// The largest limit, burst and cost.
pub const LIMIT_MAX: u64 = 1_000_000_000;

/// The longest window: 30 days of 86,400 seconds.
pub const WINDOW_SECONDS_MAX: u64 = 2_592_000;

/// The largest limit that may be kept precisely: 1,000 times of 8 bytes are 8 KB for a key.
pub const PRECISE_LIMIT_MAX: u64 = 1_000;

/// The shortest window with leases for isolates: a lease is for a second, and what they report counts up
/// to 0.13 s later than it was spent.
pub const ISOLATE_LEASE_WINDOW_MS_MIN: i64 = 10_000;

/// The smallest limit, or burst, with leases for isolates: a smaller one lets through at most 100 calls a
/// second, which its limiter judges itself, and its answers say exactly what is left.
pub const ISOLATE_LEASE_CAPACITY_MIN: u64 = 1_000;

/// How calls are counted. The numbers of the variants are stored: append, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// At most the limit in any interval of the window's length.
    SlidingWindow,
    /// At most the limit in each window of the clock.
    FixedWindow,
    /// A bucket that refills evenly (GCRA).
    TokenBucket,
    /// At most the limit at once: only holds take of it, and all that they hold comes back. The window is the time of
    /// a hold that names none.
    Concurrency,
}

/// The words of a field and their values; the first is the default.
pub type Words<T> = &'static [(&'static str, T)];

/// All algorithms by their names. The initials are in names of keys, so they differ, and none is `p`: that is a precise
/// window.
pub const ALGORITHMS: Words<Algorithm> = &[
    ("sliding-window", Algorithm::SlidingWindow),
    ("fixed-window", Algorithm::FixedWindow),
    ("token-bucket", Algorithm::TokenBucket),
    ("concurrency", Algorithm::Concurrency),
];

/// The word of a value; none for a value that has no word.
pub fn word_of<T: Copy + PartialEq>(value: T, known: Words<T>) -> &'static str {
    let found = known.iter().find(|(_, known)| *known == value);
    found.map_or("", |(word, _)| word)
}

/// Where a limit holds. Stored: append, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// In each datacenter by itself.
    Datacenter,
    /// In all datacenters together.
    Global,
}

/// What a caller is answered where the limiter cannot be reached. Stored: append, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnError {
    /// The call is allowed.
    Open,
    /// The call is refused.
    Closed,
}

/// When a verdict is stored. Stored: append, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Durability {
    /// With the next commit: a crash may forget what was consumed since the last one.
    Memory,
    /// Before it is answered.
    Commit,
}

/// A policy. A stored format and a part of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// How much may be consumed in a window, 1 to [`LIMIT_MAX`].
    pub limit: u64,
    /// The window, 1 second to 30 days, in milliseconds; whole seconds.
    pub window_ms: i64,
    /// How it is counted.
    pub algorithm: Algorithm,
    /// What a full token bucket holds, 1 to [`LIMIT_MAX`]; other algorithms do not look at it.
    pub burst: u64,
    /// Where it holds.
    pub scope: Scope,
    /// What to answer where the limiter cannot be reached.
    pub on_error: OnError,
    /// Whether it only watches: verdicts are answered and not enforced.
    pub is_shadow: bool,
    /// Whether a sliding window keeps each time; for limits up to [`PRECISE_LIMIT_MAX`].
    pub is_precise: bool,
    /// When verdicts are stored.
    pub durability: Durability,
}

/// What is wrong with a policy. The caller must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyFault {
    /// The field, as it is called in public JSON.
    pub field: &'static str,
    /// The least value that it may have; 0 and 1 stand for false and true.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

impl Policy {
    /// A sliding window in each datacenter, open on errors, in memory first. Not checked: see [`Policy::check`].
    pub fn sliding(limit: u64, window_seconds: u64) -> Self {
        Self {
            limit,
            window_ms: i64::try_from(window_seconds.saturating_mul(1_000)).unwrap_or(i64::MAX),
            algorithm: Algorithm::SlidingWindow,
            burst: limit,
            scope: Scope::Datacenter,
            on_error: OnError::Open,
            is_shadow: false,
            is_precise: false,
            durability: Durability::Memory,
        }
    }

    /// Nothing where every value is within its range.
    ///
    /// # Errors
    /// The first field that is not, and its range.
    pub fn check(&self) -> Result<(), PolicyFault> {
        let fault = |field, min, max| Err(PolicyFault { field, min, max });
        if !(1..=LIMIT_MAX).contains(&self.limit) {
            return fault("limit", 1, LIMIT_MAX);
        }
        let window_ms = u64::try_from(self.window_ms).unwrap_or(0);
        if window_ms % 1_000 != 0 || !(1..=WINDOW_SECONDS_MAX).contains(&(window_ms / 1_000)) {
            return fault("window_seconds", 1, WINDOW_SECONDS_MAX);
        }
        if self.algorithm == Algorithm::TokenBucket && !(1..=LIMIT_MAX).contains(&self.burst) {
            return fault("burst", 1, LIMIT_MAX);
        }
        let may_be_precise = self.algorithm == Algorithm::SlidingWindow;
        if self.is_precise && !may_be_precise {
            return fault("precise", 0, 0);
        }
        if self.is_precise && self.limit > PRECISE_LIMIT_MAX {
            return fault("limit", 1, PRECISE_LIMIT_MAX);
        }
        Ok(())
    }

    /// The largest cost that can ever be admitted: the burst of a token bucket, else the limit.
    pub fn capacity(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket => self.burst,
            Algorithm::SlidingWindow | Algorithm::FixedWindow | Algorithm::Concurrency => {
                self.limit
            }
        }
    }

    /// Whether isolates may be lent parts of it, for keys that are hot: not where each time is kept.
    pub fn may_lease_to_isolates(&self) -> bool {
        self.scope == Scope::Datacenter
            && self.algorithm != Algorithm::Concurrency
            && !self.is_precise
            && self.window_ms >= ISOLATE_LEASE_WINDOW_MS_MIN
            && self.capacity() >= ISOLATE_LEASE_CAPACITY_MIN
    }

    /// Whether what was consumed at the first time may be given back at the second: not in another of the clock's
    /// windows, where it would be taken from what others use.
    pub fn may_give_back(&self, consumed_ms: i64, now_ms: i64) -> bool {
        let window = |at_ms: i64| at_ms.div_euclid(self.window_ms.max(1));
        self.algorithm != Algorithm::FixedWindow || window(consumed_ms) == window(now_ms)
    }

    /// Whether both count in the same way, so that what one has counted goes on under the other.
    pub(crate) fn counts_like(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm
            && self.window_ms == other.window_ms
            && self.is_precise == other.is_precise
    }
}
