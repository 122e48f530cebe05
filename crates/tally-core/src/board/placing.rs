//! Where a board lives: which datacenter is its home, and over how many shards its members are spread.
//!
//! Invariant: the shard of a member depends only on its name and the number of shards. The *group* of a member never
//! changes, and a shard has adjacent groups. So a record of a key moves with its group, and is found in the group's
//! shard.

use serde::{Deserialize, Serialize};

use crate::counter::id::Datacenter;
use crate::sketch::{HashKey, hash};

/// The most shards of a board: one read of a rank asks each. Each takes about 1,000 messages a second and 10,000,000
/// members.
pub const BOARD_SHARDS_MAX: u32 = 16;

/// The number of groups of members: the most shards.
pub const GROUPS: u32 = BOARD_SHARDS_MAX;

/// The most changes of a shard in one millisecond.
const SEQUENCES_EACH_MS: u64 = 1_024;

/// The first sequence of a moment, unix milliseconds, in the shards of a spread board. So sequences of different shards
/// are in order of time.
pub fn first_sequence(now_ms: i64) -> u64 {
    let now_ms = u64::try_from(now_ms).unwrap_or(0);
    now_ms.saturating_mul(SEQUENCES_EACH_MS)
}

/// How many shards a board has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shards {
    /// As its writes and its size require.
    #[default]
    Auto,
    /// This many.
    Fixed(u32),
}

/// Where a board lives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placing {
    /// How many shards it has.
    pub shards: Shards,
    /// Near which datacenter its objects are created; `None` for that of its first write.
    pub home: Option<Datacenter>,
}

/// One of the objects of a board.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ShardAt {
    /// Its layout; layout 0 is the owner, which has all members until the board is first spread.
    pub layout: u64,
    /// Its shard of that layout, from 0.
    pub shard: u32,
}

/// The layout of a board over shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Its number, which rises with each change; 0 before the board is first spread.
    pub number: u64,
    /// How many shards it has.
    pub shards: u32,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            number: 0,
            shards: 1,
        }
    }
}

/// The group of a member.
pub fn group_of(member: &[u8]) -> u32 {
    let number = hash(&HashKey::from([0; 16]), member) % u64::from(GROUPS);
    u32::try_from(number).unwrap_or(0)
}

impl Layout {
    /// The shard of a group.
    pub fn shard_of(self, group: u32) -> ShardAt {
        ShardAt {
            layout: self.number,
            shard: group * self.shards / GROUPS,
        }
    }

    /// The shard of a member.
    pub fn shard_of_member(self, member: &[u8]) -> ShardAt {
        self.shard_of(group_of(member))
    }

    /// All shards.
    pub fn all(self) -> impl Iterator<Item = ShardAt> {
        let layout = self.number;
        (0..self.shards).map(move |shard| ShardAt { layout, shard })
    }
}
