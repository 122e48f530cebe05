//! The number of partitions of the directory, and former numbers by which roots may still be placed.
//!
//! Invariant: epochs rise. A partition that uses a number first asks for a root at its places by earlier numbers. The
//! partition that is asked learns the new number by that. So a partition that knows only an older number still has its
//! roots, and may continue.

use serde::{Deserialize, Serialize};

/// The most former numbers. Each may cost a call when a root is looked up.
pub const BEFORE_MAX: usize = 8;

/// The numbers of partitions of a directory. Stored, and sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Rises with each change.
    epoch: u32,
    /// The present number of partitions.
    now: u32,
    /// Former numbers, the latest last; empty once all roots have moved.
    before: Vec<u32>,
    /// The epoch of the first change since all roots had moved.
    since: u32,
}

impl Sizes {
    /// Sizes with a number that was never changed.
    pub fn new(now: u32) -> Self {
        Self {
            epoch: 0,
            now: now.max(1),
            before: Vec::new(),
            since: 0,
        }
    }

    /// The epoch of the present number.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The present number of partitions.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// The epoch of the first change since all roots had moved: the record of moves belongs to it.
    pub fn since(&self) -> u32 {
        self.since
    }

    /// Returns the former numbers of partitions by which roots may still be placed, the latest first.
    pub fn before(&self) -> impl Iterator<Item = u32> {
        self.before.iter().rev().copied()
    }

    /// Whether roots may be placed by former numbers.
    pub fn is_changing(&self) -> bool {
        !self.before.is_empty()
    }

    /// The number of partitions that may hold roots.
    pub fn span(&self) -> u32 {
        self.before().fold(self.now, u32::max)
    }

    /// Whether it is newer than another.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        let is_fewer = self.before.len() < other.before.len();
        self.epoch > other.epoch || (self.epoch == other.epoch && is_fewer)
    }

    /// Returns the sizes with another number in force; `None` if too many former ones are remembered.
    pub fn changed(&self, now: u32) -> Option<Self> {
        let mut before = self.before.clone();
        before.retain(|number| *number != self.now);
        before.push(self.now);
        before.retain(|number| *number != now);
        let epoch = self.epoch.saturating_add(1);
        (before.len() <= BEFORE_MAX).then_some(Self {
            epoch,
            now: now.max(1),
            before,
            since: match self.is_changing() {
                true => self.since,
                false => epoch,
            },
        })
    }

    /// Returns the sizes without earlier numbers, for use once all roots have moved.
    #[must_use]
    pub fn without_former(&self) -> Self {
        Self {
            before: Vec::new(),
            ..self.clone()
        }
    }
}
