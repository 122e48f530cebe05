//! Which partitions of the directory an edge has looked at, and what it found there.
//!
//! Invariant: however often it is asked, it looks at each partition at most once in their number × [`LOOK_EVERY_MS`], and in as many
//! looks at all of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::problem::{Code, Problem};

/// How much time passes between looks at one partition each, milliseconds: 16 calls a second of an isolate at most.
pub const LOOK_EVERY_MS: i64 = 62;

/// What only the operator can mend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ailment {
    /// A setting of the aggregator may not be as it is: the sentence that says so.
    NotConfigured(String),
    /// Why stored data cannot be read.
    Unreadable(String),
}

impl From<Ailment> for Problem {
    fn from(ailment: Ailment) -> Self {
        match ailment {
            Ailment::NotConfigured(why) => {
                Self::new(Code::NotConfigured, format!("on the aggregator {why}"))
            }
            Ailment::Unreadable(why) => {
                let detail = format!("stored data cannot be read: {why}");
                Self::new(Code::Unavailable, detail)
            }
        }
    }
}

/// What is known of all partitions.
#[derive(Clone, Debug)]
pub struct Health {
    partitions: u32,
    next: u32,
    /// When it looks again.
    due_ms: i64,
    looked_ms: i64,
    ailments: BTreeMap<u32, Ailment>,
}

impl Health {
    /// Nothing known of so many partitions; the first look is at that partition. Isolates are short-lived: each begins elsewhere.
    pub fn new(partitions: u32, first: u64) -> Self {
        let partitions = partitions.max(1);
        Self {
            partitions,
            next: u32::try_from(first % u64::from(partitions)).unwrap_or(0),
            due_ms: i64::MIN,
            looked_ms: i64::MIN,
            ailments: BTreeMap::new(),
        }
    }

    /// The partitions to look at now: none, the next, or where it `has_all` every one.
    pub fn due(&mut self, now_ms: i64, has_all: bool) -> Vec<u32> {
        // A clock that stepped back has nothing to say.
        if (self.looked_ms..self.due_ms).contains(&now_ms) {
            return Vec::new();
        }
        let count = if has_all { self.partitions } else { 1 };
        let partitions = (self.next..self.next + count).map(|place| place % self.partitions);
        let partitions = partitions.collect();
        self.next = (self.next + count) % self.partitions;
        self.looked_ms = now_ms;
        self.due_ms = now_ms.saturating_add(LOOK_EVERY_MS * i64::from(count));
        partitions
    }

    /// Notes what a partition has said. One that does not answer says nothing.
    pub fn note(&mut self, partition: u32, ailment: Option<Ailment>) {
        match ailment {
            Some(ailment) => self.ailments.insert(partition, ailment),
            None => self.ailments.remove(&partition),
        };
    }

    /// What keeps one of them from its work, if anything does.
    pub fn ailment(&self) -> Option<&Ailment> {
        self.ailments.values().next()
    }
}
