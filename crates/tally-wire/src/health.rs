//! The health of the directory's partitions, as an edge has last seen it.
//!
//! Invariant: for any rate of requests, each partition is checked at most once in a period of (number of partitions) ×
//! [`LOOK_EVERY_MS`]. While there are requests, all partitions are checked within that period.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::problem::{Code, Problem};

/// The time between checks, of one partition each, milliseconds: at most 16 calls a second from an isolate.
pub const LOOK_EVERY_MS: i64 = 62;

/// A fault that only the operator can repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ailment {
    /// A setting of the aggregator is not allowed: the sentence that says so.
    NotConfigured(String),
    /// Why stored data cannot be read.
    Unreadable(String),
    /// Why storage takes no writes.
    Unwritable(String),
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
            Ailment::Unwritable(why) => {
                let detail = format!(
                    "storage takes no writes: {why}; the log of the server names the folder and what to do"
                );
                Self::new(Code::Unavailable, detail)
            }
        }
    }
}

/// The time between writes that show whether storage takes them, milliseconds.
pub const WRITE_EVERY_MS: i64 = 1_000;

/// Whether storage takes writes, as an edge has last seen it.
///
/// Invariant: for any rate of requests there is at most one write in [`WRITE_EVERY_MS`], and until the first one has
/// succeeded, storage counts as unwritable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteHealth {
    begun_ms: i64,
    outcome: Result<(), String>,
}

impl Default for WriteHealth {
    fn default() -> Self {
        Self {
            begun_ms: i64::MIN,
            outcome: Err("the first write has not ended yet".to_owned()),
        }
    }
}

impl WriteHealth {
    /// Whether a write is due. It is then begun.
    pub fn begin(&mut self, now_ms: i64) -> bool {
        let due_ms = self.begun_ms.saturating_add(WRITE_EVERY_MS);
        // A clock that stepped back makes a write due.
        if (self.begun_ms..due_ms).contains(&now_ms) {
            return false;
        }
        self.begun_ms = now_ms;
        true
    }

    /// Records the outcome of a write.
    pub fn record(&mut self, outcome: Result<(), String>) {
        self.outcome = outcome;
    }

    /// The fault, if there is one.
    pub fn ailment(&self) -> Option<Ailment> {
        self.outcome.clone().err().map(Ailment::Unwritable)
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
