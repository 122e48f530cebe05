//! Messages about roots that move between partitions of the directory, and about the number of partitions.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::names::Address;
use tally_core::cluster::sizes::Sizes;
use tally_core::counter::id::CounterId;

calls! {
    GiveRoot => RootHandover, "/give-root", |it| Address::Directory(it.from);
    RootTaken => (), "/root-taken", |it| Address::Directory(it.from);
    CallRoot => Vec<u8>, "/call-root", |it| Address::Directory(it.to);
    AnnounceSizes => bool, "/directory-swept", |it| Address::Directory(it.partition);
    SizesOf => Sizes, "/directory-sizes", |_| Address::Directory(0);
    CallPartition => PartitionAnswer, "/in-partition", |it| Address::Directory(it.partition);
}

/// A value of a row that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Column {
    /// Nothing.
    Null,
    /// A whole number.
    Whole(i64),
    /// A text, or a whole number that JavaScript cannot hold exactly.
    Text(String),
    /// Bytes, without a frame.
    Bytes(Vec<u8>),
}

/// A row of a root: the number of its table, and its columns.
pub type RootRow = (u8, Vec<Column>);

/// The position after which there are more rows of a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootCursor {
    /// Claims of keys: of this slot after this key, and of later slots.
    Claims(i64, Vec<u8>),
    /// Operations after this one, likewise.
    Operations(i64, Vec<u8>),
    /// Everything else: the page of this number.
    Rest(u32),
}

/// A root's place → a former one: stop serving the root, and hand over its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveRoot {
    /// The counter, or the board.
    pub counter: CounterId,
    /// The receiver.
    pub from: u32,
    /// The sender.
    pub to: u32,
    /// The partition counts that the sender acts by.
    pub sizes: Sizes,
    /// Partitions that have said, by the same counts, that they have no rows of it.
    pub nothing_at: Vec<u32>,
    /// The rows from here on, under this seal; `None` to begin.
    pub from_row: Option<(u64, RootCursor)>,
}

/// A partition's rows of a root. The partition does not serve the root any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootHandover {
    /// There are none.
    Nothing,
    /// They were handed to this partition. It is not known whether it has stored them: ask it first.
    ToAnother(u32),
    /// The partition counts have changed since: find the root's place again.
    Outdated(Sizes),
    /// Rows.
    Rows {
        /// The seal, until [`RootTaken`].
        seal: u64,
        /// The rows.
        rows: Vec<RootRow>,
        /// The position of the next page, if there is one.
        next: Option<RootCursor>,
        /// The spreads of leads over tablets at the former place, in stored form.
        spreads: Vec<u8>,
    },
}

/// A root's place → the former one: everything is stored here, delete the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootTaken {
    /// The counter, or the board.
    pub counter: CounterId,
    /// The former place.
    pub from: u32,
    /// The seal of the transfer.
    pub seal: u64,
}

/// A partition → another: a call for a root. The answer is what the caller reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRoot {
    /// Where the root belongs.
    pub to: u32,
    /// By which partition counts.
    pub sizes: Sizes,
    /// How often the call has been forwarded.
    pub forwarded: u8,
    /// The path of the call; empty where the root must only be brought there.
    pub path: String,
    /// The message; it begins with the name of the root.
    pub message: Vec<u8>,
}

/// The first partition → another: announces these partition counts. The answer says whether no root is left there that
/// belongs elsewhere by these counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnounceSizes {
    /// The partition.
    pub partition: u32,
    /// The partition counts.
    pub sizes: Sizes,
}

/// A partition → the first: asks for the current partition counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizesOf {
    /// The number of partitions in the sender's setting.
    pub set: u32,
}

/// A call to one of all partitions. It is used where the number of partitions is not the default, or is
/// being changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPartition {
    /// The partition.
    pub partition: u32,
    /// Whether no root may leave the partition for a moment, so that all partitions can be asked between two moves.
    pub holds: bool,
    /// The path of the call.
    pub path: String,
    /// The message.
    pub message: Vec<u8>,
}

/// The answer of one of all partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionAnswer {
    /// The partition counts that it acts by.
    pub sizes: Sizes,
    /// The sum of the seals of all roots that have left the partition, and that of all roots that have come, since the
    /// first change that is not over.
    pub moved: (u64, u64),
    /// Whether roots moved while it answered.
    pub is_torn: bool,
    /// The answer of the call.
    pub answer: Vec<u8>,
}
