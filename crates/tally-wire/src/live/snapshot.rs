//! One counter, as watchers see it: its JSON, its accuracy, and a tag that changes with its content.
//!
//! Invariant: two snapshots with the same tag differ in nothing but times, so a watcher that has one need not be sent
//! the other. Tags are 64 bits: of pairs of different snapshots of a counter, one in 2^64 has equal tags.

use serde::{Deserialize, Serialize};

/// One counter, as its live reader last read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSnapshot {
    /// The content.
    pub shown: Shown,
    /// Whether the last attempt to read it succeeded; where it did not, the content is older.
    pub is_read: bool,
}

/// The content of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shown {
    /// The first read is under way.
    #[default]
    Pending,
    /// No read has succeeded.
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
    /// The same with strings for the numbers that JavaScript cannot hold exactly, where there are any.
    pub members_of_strings: Option<String>,
    /// A hash of the members without times, by which changes are found.
    pub tag: u64,
    /// Whether every write acknowledged before [`ReadCounter::as_of_ms`] is in it.
    pub exact: bool,
    /// Every write acknowledged before this moment is in it, unix milliseconds.
    pub as_of_ms: i64,
}

/// The members of a counter that could not be read yet.
pub const UNKNOWN: &str = r#""value":null,"rate_per_second":null,"uniques":null,"datacenters":{},"exact":false,"as_of":null,"staleness_ms":null"#;

/// Whether a read that began at a moment is too old for a reader that accepts this age, milliseconds. If it seems to
/// have begun in the future, the clock was stepped back, and the read is at least as old as that step.
pub fn is_outdated(begun_ms: i64, now_ms: i64, age_ms_max: u64) -> bool {
    begun_ms.abs_diff(now_ms) >= age_ms_max
}

/// The members of a board that could not be read yet.
pub const UNKNOWN_BOARD: &str =
    r#""total":null,"version":null,"exact":false,"as_of":null,"staleness_ms":null"#;

impl CounterSnapshot {
    /// Notes that it could not be read: the former content stays, and is reported as old.
    pub fn fail(&mut self) {
        self.is_read = false;
        if self.shown == Shown::Pending {
            self.shown = Shown::Unknown;
        }
    }

    /// The tag; equal as long as only times change.
    pub fn tag(&self) -> u64 {
        let tag = Tag::default().with(if self.is_read { b"read" } else { b"not" });
        match &self.shown {
            Shown::Pending | Shown::Unknown => tag.with(b"unknown"),
            Shown::Missing => tag.with(b"missing"),
            Shown::Counter(counter) => tag
                .with(if counter.exact { b"exact" } else { b"close" })
                .with(&counter.tag.to_le_bytes()),
        }
        .value()
    }

    /// Writes the JSON of the counter at a moment in unix milliseconds. Where its watcher asked for it, numbers that
    /// JavaScript cannot hold exactly are strings. `unknown` is the content before the first read.
    pub fn write(&self, at_ms: i64, as_strings: bool, unknown: &str, text: &mut String) {
        let reachable = if self.is_read { "true" } else { "false" };
        match &self.shown {
            Shown::Missing if self.is_read => return text.push_str("null"),
            Shown::Pending | Shown::Unknown | Shown::Missing => text.extend(["{", unknown]),
            Shown::Counter(counter) => {
                // A counter that cannot be read now may have changed since the last read.
                let exact = if counter.exact && self.is_read {
                    "true"
                } else {
                    "false"
                };
                let staleness_ms = at_ms.saturating_sub(counter.as_of_ms).max(0);
                let strings = counter.members_of_strings.as_ref().filter(|_| as_strings);
                let members = strings.unwrap_or(&counter.members);
                text.extend(["{", members, ",\"exact\":", exact]);
                text.extend([",\"as_of\":", &counter.as_of_ms.to_string()]);
                text.extend([",\"staleness_ms\":", &staleness_ms.to_string()]);
            }
        }
        text.extend([",\"reachable\":", reachable, "}"]);
    }
}

/// A hash of the content: FNV-1a, 64 bits. By a collision an adversary could only hide a change of his own counter.
#[derive(Clone, Copy, Debug)]
pub struct Tag(u64);

impl Default for Tag {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Tag {
    /// Hashes more bytes.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        // The length distinguishes ("a", "b") from ("ab", "").
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes();
        Self(bytes.iter().chain(&length).fold(self.0, hash))
    }

    /// The hash.
    pub fn value(self) -> u64 {
        self.0
    }
}
