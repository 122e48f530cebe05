//! Objects that hold more than one counter, by the names that operators use.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Address, LimiterAddress, TabletAddress};
use tally_core::board::placing::ShardAt;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::queue::InboxId;

/// An object that holds more than one counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectAt {
    /// A partition of the directory.
    Partition(u32),
    /// A tablet.
    Tablet(TabletAddress),
    /// A limiter.
    Limiter(LimiterAddress),
    /// An inbox.
    Inbox(InboxId),
    /// The owner of a board, or one of its shards.
    Board(CounterId, ShardAt),
    /// The owner of all keys of Redis's dialect.
    Redis,
}

/// The name of the global limiters, in place of a datacenter's name.
const GLOBAL: &str = "world";

impl ObjectAt {
    /// The address of the object.
    pub fn address(&self) -> Address<'_> {
        match self {
            Self::Partition(number) => Address::Directory(*number),
            Self::Tablet(tablet) => Address::Tablet(tablet),
            Self::Limiter(limiter) => Address::Limiter(limiter),
            Self::Inbox(inbox) => Address::Inbox(inbox),
            Self::Board(board, at) => Address::Board(board, *at, None),
            Self::Redis => Address::Keyspace,
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        let (kind, rest) = name.split_once('/').unwrap_or((name, ""));
        let (first, last) = rest.split_once('/').unwrap_or((rest, ""));
        let datacenter = || Datacenter::parse(first);
        Some(match kind {
            "redis" if rest.is_empty() => Self::Redis,
            "partition" => Self::Partition(rest.parse().ok()?),
            "tablet" => Self::Tablet(TabletAddress {
                datacenter: datacenter()?,
                number: last.parse().ok()?,
            }),
            "limiter" => Self::Limiter(LimiterAddress {
                datacenter: match first {
                    GLOBAL => None,
                    _ => Some(datacenter()?),
                },
                partition: last.parse().ok()?,
            }),
            "inbox" => Self::Inbox(InboxId {
                datacenter: datacenter()?,
                number: last.parse().ok()?,
            }),
            "board" => Self::Board(CounterId::parse(rest).ok()?, ShardAt::default()),
            "board-shard" => {
                let (shard, board) = last.split_once('/')?;
                let at = ShardAt {
                    layout: first.parse().ok()?,
                    shard: shard.parse().ok()?,
                };
                Self::Board(CounterId::parse(board).ok()?, at)
            }
            _ => return None,
        })
    }
}

impl fmt::Display for ObjectAt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(number) => write!(formatter, "partition/{number}"),
            Self::Tablet(TabletAddress { datacenter, number }) => {
                write!(formatter, "tablet/{datacenter}/{number}")
            }
            Self::Limiter(LimiterAddress {
                datacenter,
                partition,
            }) => {
                let datacenter = datacenter.as_ref().map_or(GLOBAL, Datacenter::as_str);
                write!(formatter, "limiter/{datacenter}/{partition}")
            }
            Self::Inbox(InboxId { datacenter, number }) => {
                write!(formatter, "inbox/{datacenter}/{number}")
            }
            Self::Board(board, ShardAt { layout: 0, .. }) => write!(formatter, "board/{board}"),
            Self::Board(board, ShardAt { layout, shard }) => {
                write!(formatter, "board-shard/{layout}/{shard}/{board}")
            }
            Self::Redis => formatter.write_str("redis"),
        }
    }
}
