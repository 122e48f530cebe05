//! What a watcher names: a counter, or a board of which it wants the first members, one member, or both.

use serde::{Deserialize, Serialize};

use crate::core::counter::id::CounterId;

/// What is watched. Counters come first in their order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Topic {
    /// A counter.
    Counter(CounterId),
    /// A board.
    Board(WatchedBoard),
}

/// What of a board is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WatchedBoard {
    /// The board.
    pub board: CounterId,
    /// How many of its first members.
    pub top: u32,
    /// A member besides.
    pub member: Option<CounterId>,
}

impl From<CounterId> for Topic {
    fn from(counter: CounterId) -> Self {
        Self::Counter(counter)
    }
}

impl Topic {
    /// The name by which access is asked for, and by which its lookout is found.
    pub fn name(&self) -> &CounterId {
        match self {
            Self::Counter(counter) => counter,
            Self::Board(watched) => &watched.board,
        }
    }

    /// Bytes of the names in it.
    pub fn len(&self) -> usize {
        let member = match self {
            Self::Board(watched) => watched.member.as_ref(),
            Self::Counter(_) => None,
        };
        self.name().as_str().len() + member.map_or(0, |member| member.as_str().len())
    }

    /// Whether it has no names, which no topic is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
