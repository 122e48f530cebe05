//! What a watcher names: a counter, or a board with its first members, one member, or both.

use serde::{Deserialize, Serialize};

use tally_core::counter::id::CounterId;

/// A topic. Counters come first in the order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Topic {
    /// A counter.
    Counter(CounterId),
    /// A board.
    Board(WatchedBoard),
}

/// The watched part of a board.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WatchedBoard {
    /// The board.
    pub board: CounterId,
    /// How many of its first members.
    pub top: u32,
    /// One member besides.
    pub member: Option<CounterId>,
}

impl From<CounterId> for Topic {
    fn from(counter: CounterId) -> Self {
        Self::Counter(counter)
    }
}

impl Topic {
    /// The name by which access is checked and the live reader is found.
    pub fn name(&self) -> &CounterId {
        match self {
            Self::Counter(counter) => counter,
            Self::Board(watched) => &watched.board,
        }
    }

    /// The bytes of its names.
    pub fn len(&self) -> usize {
        let member = match self {
            Self::Board(watched) => watched.member.as_ref(),
            Self::Counter(_) => None,
        };
        self.name().as_str().len() + member.map_or(0, |member| member.as_str().len())
    }

    /// Whether it has no names; false for every topic.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
