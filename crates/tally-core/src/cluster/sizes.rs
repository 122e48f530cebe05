//! How many partitions the directory has, and had while roots may still be where those put them.
//!
//! Invariant: epochs rise. A partition that acts by a number first asks for a root wherever an earlier number may
//! have put it, and the partition that is asked learns the new number by that. So one that knows only an older number
//! still has its roots, and may go on.

use serde::{Deserialize, Serialize};

/// Numbers that are remembered in addition to the one that holds: each may cost a call where a root is looked for.
pub const BEFORE_MAX: usize = 8;

/// The numbers of partitions of a directory. Stored, and sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Rises with each change.
    epoch: u32,
    /// How many partitions there are.
    now: u32,
    /// How many there were, the latest last; empty once all roots have moved.
    before: Vec<u32>,
    /// The epoch of the first change since all roots had moved.
    since: u32,
}

impl Sizes {
    /// A number that was never changed.
    pub fn new(now: u32) -> Self {
        Self {
            epoch: 0,
            now: now.max(1),
            before: Vec::new(),
            since: 0,
        }
    }

    /// The number of the change that led to it.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// How many partitions there are.
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

    /// Whether roots may lie elsewhere than where the number that holds puts them.
    pub fn is_changing(&self) -> bool {
        !self.before.is_empty()
    }

    /// How many partitions may hold roots.
    pub fn span(&self) -> u32 {
        self.before().fold(self.now, u32::max)
    }

    /// Whether it says more than another.
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
