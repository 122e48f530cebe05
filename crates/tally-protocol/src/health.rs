//! The health of the directory's partitions, as an edge has last seen it.
//!
//! Invariant: for any rate of requests, each partition is checked at most once in a period of (number of partitions) ×
//! [`LOOK_EVERY_MS`]. While there are requests, all partitions are checked within that period.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::problem::{Code, Problem};

/// The time between checks, of one partition each, milliseconds: at most 16 calls a second from an isolate.
pub const LOOK_EVERY_MS: i64 = 62;

/// A fault that only the operator can repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ailment {
    /// A setting of the aggregator is not allowed: the sentence that says so.
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

/// The health of all partitions.
#[derive(Clone, Debug)]
pub struct Health {
    partitions: u32,
    next: u32,
    /// The time of the next check.
    due_ms: i64,
    looked_ms: i64,
    ailments: BTreeMap<u32, Ailment>,
}

impl Health {
    /// The state of so many partitions, of which nothing is known yet. The first check is of the partition `first`.
    /// Isolates are short-lived, so each begins with another partition.
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

    /// The partitions to check now: none, the next one, or all where `has_all`.
    pub fn next_checks(&mut self, now_ms: i64, has_all: bool) -> Vec<u32> {
        // A clock that stepped back makes a check due.
        if (self.looked_ms..self.due_ms).contains(&now_ms) {
            return Vec::new();
        }
        let count = if has_all { self.partitions } else { 1 };
        let partitions = (self.next..self.next + count).map(|index| index % self.partitions);
        let partitions = partitions.collect();
        self.next = (self.next + count) % self.partitions;
        self.looked_ms = now_ms;
        self.due_ms = now_ms.saturating_add(LOOK_EVERY_MS * i64::from(count));
        partitions
    }

    /// Records the answer of a partition. Nothing is recorded for one that does not answer.
    pub fn record(&mut self, partition: u32, ailment: Option<Ailment>) {
        match ailment {
            Some(ailment) => self.ailments.insert(partition, ailment),
            None => self.ailments.remove(&partition),
        };
    }

    /// The fault of one of them, if there is any.
    pub fn ailment(&self) -> Option<&Ailment> {
        self.ailments.values().next()
    }
}
