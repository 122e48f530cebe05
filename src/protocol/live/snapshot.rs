//! One counter, as watchers see it: its JSON, how true it is, and a tag that tells whether anything has changed.
//!
//! Invariant: two sights with one tag differ in nothing but times, so a watcher that has the one need not be told of the other.
//! Tags are 64 bits: of two sights of a counter that differ, one pair in 2^64 has the same.

use serde::{Deserialize, Serialize};

/// One counter, as a lookout saw it last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSnapshot {
    /// What there is.
    pub shown: Shown,
    /// Whether the last attempt to read it succeeded; where it did not, what is shown is of before.
    pub is_read: bool,
}

/// What there is of a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shown {
    /// It is being read for the first time.
    #[default]
    Pending,
    /// It was never read, and could not be.
    Unknown,
    /// There is no such counter.
    Missing,
    /// It was read.
    Counter(ReadCounter),
}

/// A counter that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadCounter {
    /// Members of its JSON object, from `value` on, without those that this type holds.
    pub members: String,
    /// The same with strings for the numbers that JavaScript would not hold, where there are any.
    pub members_of_strings: Option<String>,
    /// Tells whether they have changed, times left out.
    pub tag: u64,
    /// Whether every write acknowledged before [`ReadCounter::as_of_ms`] is in it.
    pub exact: bool,
    /// Every write acknowledged before this moment is in it, unix milliseconds.
    pub as_of_ms: i64,
}

/// The members of a counter that could not be read yet.
pub const UNKNOWN: &str = r#""value":null,"rate_per_second":null,"uniques":null,"datacenters":{},"exact":false,"as_of":null,"staleness_ms":null"#;

/// Whether what was read at a moment is too old for who takes it up to an age, milliseconds. What seems to be read later than now is from before a
/// step of the clock: as old as that is long.
pub fn is_outdated(begun_ms: i64, now_ms: i64, age_ms_max: u64) -> bool {
    begun_ms.abs_diff(now_ms) >= age_ms_max
}

/// The members of a board that could not be read yet.
pub const UNKNOWN_BOARD: &str =
    r#""total":null,"version":null,"exact":false,"as_of":null,"staleness_ms":null"#;

impl CounterSnapshot {
    /// Notes that it could not be read: what was seen before stays, and is said to be of before.
    pub fn fail(&mut self) {
        self.is_read = false;
        if self.shown == Shown::Pending {
            self.shown = Shown::Unknown;
        }
    }

    /// The same while nothing but times has changed.
    pub fn tag(&self) -> u64 {
        let tag = Tag::default().with(if self.is_read { b"read" } else { b"not" });
        match &self.shown {
            Shown::Pending | Shown::Unknown => tag.with(b"unknown"),
            Shown::Missing => tag.with(b"missing"),
            Shown::Counter(told) => tag
                .with(if told.exact { b"exact" } else { b"close" })
                .with(&told.tag.to_le_bytes()),
        }
        .value()
    }

    /// Writes the JSON of the counter, as it is told at a moment in unix milliseconds; with strings for numbers that JavaScript would
    /// not hold, where its watcher asked for them. `unknown` is what is told of what was never read.
    pub fn write(&self, at_ms: i64, as_strings: bool, unknown: &str, text: &mut String) {
        let reachable = if self.is_read { "true" } else { "false" };
        match &self.shown {
            Shown::Missing if self.is_read => return text.push_str("null"),
            Shown::Pending | Shown::Unknown | Shown::Missing => text.extend(["{", unknown]),
            Shown::Counter(told) => {
                // What cannot be read now may have changed since it was.
                let exact = if told.exact && self.is_read {
                    "true"
                } else {
                    "false"
                };
                let staleness_ms = at_ms.saturating_sub(told.as_of_ms).max(0);
                let strings = told.members_of_strings.as_ref().filter(|_| as_strings);
                let members = strings.unwrap_or(&told.members);
                text.extend(["{", members, ",\"exact\":", exact]);
                text.extend([",\"as_of\":", &told.as_of_ms.to_string()]);
                text.extend([",\"staleness_ms\":", &staleness_ms.to_string()]);
            }
        }
        text.extend([",\"reachable\":", reachable, "}"]);
    }
}

/// A hash of what is shown: FNV-1a, 64 bits. No adversary gains by a collision but not to be told of his own counter.
#[derive(Clone, Copy, Debug)]
pub struct Tag(u64);

impl Default for Tag {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Tag {
    /// With more bytes.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        // The length keeps ("a", "b") apart from ("ab", "").
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes();
        Self(bytes.iter().chain(&length).fold(self.0, hash))
    }

    /// The hash.
    pub fn value(self) -> u64 {
        self.0
    }
}
