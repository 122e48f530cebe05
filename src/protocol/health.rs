//! Which partitions of the directory an edge has looked at, and what it found there.
//!
//! Invariant: however often it is asked, it looks at each partition at most once in [`DIRECTORY_PARTITIONS`] × [`LOOK_EVERY_MS`], and
//! every [`DIRECTORY_PARTITIONS`] looks at all of them.

use std::collections::BTreeMap;

use super::names::DIRECTORY_PARTITIONS;

/// How much time passes between looks at one partition each, milliseconds: 16 calls a second of an isolate at most.
pub const LOOK_EVERY_MS: i64 = 62;

/// What is known of the stored data of all partitions.
#[derive(Clone, Debug)]
pub struct Health {
    next: u32,
    /// When it looks again.
    due_ms: i64,
    looked_ms: i64,
    unreadable: BTreeMap<u32, String>,
}

impl Health {
    /// Nothing known; the first look is at that partition. Isolates are short-lived: each begins elsewhere.
    pub fn new(first: u64) -> Self {
        Self {
            next: u32::try_from(first % u64::from(DIRECTORY_PARTITIONS)).unwrap_or(0),
            due_ms: i64::MIN,
            looked_ms: i64::MIN,
            unreadable: BTreeMap::new(),
        }
    }

    /// The partitions to look at now: none, the next, or where it `has_all` every one.
    pub fn due(&mut self, now_ms: i64, has_all: bool) -> Vec<u32> {
        // A clock that stepped back has nothing to say.
        if (self.looked_ms..self.due_ms).contains(&now_ms) {
            return Vec::new();
        }
        let count = if has_all { DIRECTORY_PARTITIONS } else { 1 };
        let partitions = (self.next..self.next + count).map(|place| place % DIRECTORY_PARTITIONS);
        let partitions = partitions.collect();
        self.next = (self.next + count) % DIRECTORY_PARTITIONS;
        self.looked_ms = now_ms;
        self.due_ms = now_ms.saturating_add(LOOK_EVERY_MS * i64::from(count));
        partitions
    }

    /// Notes what a partition has said: why it cannot read, if it cannot. One that does not answer says nothing.
    pub fn note(&mut self, partition: u32, unreadable: Option<String>) {
        match unreadable {
            Some(why) => self.unreadable.insert(partition, why),
            None => self.unreadable.remove(&partition),
        };
    }

    /// Why stored data cannot be read, where some cannot.
    pub fn unreadable(&self) -> Option<&str> {
        self.unreadable.values().next().map(String::as_str)
    }
}
