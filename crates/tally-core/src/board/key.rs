//! A member's place in the order of a board: score, tie, member, each compared byte by byte.
//!
//! Invariant: the order of keys is that of SQLite's row value (place, member) of two blobs.

use serde::{Deserialize, Serialize};

use super::score::Score;

/// The bytes of a score, and of a tie, in a key.
const PART_BYTES: usize = 8;

/// A place in the order. There need not be a member at it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The score, and the tie if the board has ties, in bytes of equal order.
    pub sort_key: Vec<u8>,
    /// The member.
    pub member: Vec<u8>,
}

impl Key {
    /// The key of a member. Among equal scores `tie` decides before the name.
    pub fn new(score: Score, tie: Option<u64>, member: &[u8]) -> Self {
        let mut sort_key = score.ordered().to_be_bytes().to_vec();
        sort_key.extend(tie.map(u64::to_be_bytes).into_iter().flatten());
        Self {
            sort_key,
            member: member.to_vec(),
        }
    }

    /// The first possible place of a member with that score.
    pub fn first_of(score: Score) -> Self {
        Self::new(score, None, b"")
    }

    /// The first place behind all members of that score.
    pub fn behind(score: Score) -> Self {
        // No overflow: the highest score is infinity, whose number is below the maximum.
        let sort_key = score.ordered().saturating_add(1).to_be_bytes().to_vec();
        Self {
            sort_key,
            member: Vec::new(),
        }
    }

    /// The next place.
    #[must_use]
    pub fn next(mut self) -> Self {
        self.member.push(0);
        self
    }

    /// The score; `None` if the key has none.
    pub fn score(&self) -> Option<Score> {
        Score::of_ordered(self.number_at(0)?)
    }

    /// The tie, if it has one.
    pub fn tie(&self) -> Option<u64> {
        self.number_at(PART_BYTES)
    }

    fn number_at(&self, at: usize) -> Option<u64> {
        let bytes = self.sort_key.get(at..at + PART_BYTES)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }
}
