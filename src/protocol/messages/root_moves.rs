//! Messages of roots that move from one partition of the directory to another, and of the number of partitions.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::cluster::sizes::Sizes;
use crate::core::counter::id::CounterId;
use crate::protocol::names::Address;

calls! {
    GiveRoot => GivenRoot, "/give-root", |it| Address::Directory(it.from);
    RootTaken => (), "/root-taken", |it| Address::Directory(it.from);
    CallRoot => Vec<u8>, "/call-root", |it| Address::Directory(it.to);
    SweptOf => bool, "/directory-swept", |it| Address::Directory(it.partition);
    SizesOf => Sizes, "/directory-sizes", |_| Address::Directory(0);
    InPartition => Within, "/in-partition", |it| Address::Directory(it.partition);
}

/// A value of a row that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Column {
    /// Nothing.
    Null,
    /// A whole number.
    Whole(i64),
    /// A text, or a whole number that JavaScript does not hold.
    Text(String),
    /// Bytes, without a frame.
    Bytes(Vec<u8>),
}

/// A row of a root: the number of its table, and its columns.
pub type RootRow = (u8, Vec<Column>);

/// After which rows of a root there are more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootCursor {
    /// Claims of keys after this one, of this slot and those after it.
    Claims(i64, Vec<u8>),
    /// Operations after this one, likewise.
    Operations(i64, Vec<u8>),
    /// Everything else: the page of this number.
    Rest(u32),
}

/// A root's place → one where it may be: do nothing more for it, and give me what you have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveRoot {
    /// The counter, or the board.
    pub counter: CounterId,
    /// Who is asked.
    pub from: u32,
    /// Who asks.
    pub to: u32,
    /// By which numbers.
    pub sizes: Sizes,
    /// Partitions that have said by these numbers that they have nothing of it.
    pub nothing_at: Vec<u32>,
    /// The rows from here on, under this seal; `None` to begin.
    pub from_row: Option<(u64, RootCursor)>,
}

/// What a partition has of a root. Nothing is done there for it any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GivenRoot {
    /// Nothing.
    Nothing,
    /// It was given to this partition, and it is not known whether that has taken it: ask there first.
    ToAnother(u32),
    /// The numbers have changed since: look again where the root belongs.
    Outdated(Sizes),
    /// Rows.
    Rows {
        /// The seal, until [`RootTaken`].
        seal: u64,
        /// The rows.
        rows: Vec<RootRow>,
        /// Where there are more, if there are.
        next: Option<RootCursor>,
        /// Over how many tablets leads were spread by the giver, at rest.
        spreads: Vec<u8>,
        /// Since when the giver keeps windows, unix milliseconds; 0 for always.
        kept_from_ms: i64,
    },
}

/// A root's place → the one that gave it: all is stored here, forget it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootTaken {
    /// The counter, or the board.
    pub counter: CounterId,
    /// Who gave it.
    pub from: u32,
    /// The seal under which it was given.
    pub seal: u64,
}

/// A partition → another: a call that was meant for a root. The answer is what the caller reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRoot {
    /// Where the root belongs.
    pub to: u32,
    /// By which numbers.
    pub sizes: Sizes,
    /// How often the call has been sent on.
    pub sent_on: u8,
    /// Names the call; empty where the root must only be there.
    pub path: String,
    /// The message; it begins with the name of the root.
    pub message: Vec<u8>,
}

/// The first partition → another: these numbers hold. The answer is whether it has no root left that belongs elsewhere by them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweptOf {
    /// The partition.
    pub partition: u32,
    /// The numbers.
    pub sizes: Sizes,
}

/// A partition → the first: which numbers hold?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizesOf {
    /// How many partitions there are by the setting of the one that asks.
    pub set: u32,
}

/// Asks one partition something that all are asked, where their number is not the one of a build before, or changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InPartition {
    /// The partition.
    pub partition: u32,
    /// Whether no root may leave it for a moment, so that all can be asked between two moves.
    pub holds: bool,
    /// Names the call.
    pub path: String,
    /// The message.
    pub message: Vec<u8>,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Within {
    /// By which numbers it acts.
    pub sizes: Sizes,
    /// The sum of the seals of all roots that have left it since the first change that is not over, and of those that came.
    pub moved: (u64, u64),
    /// Whether roots moved while it answered.
    pub is_torn: bool,
    /// The answer of the call.
    pub answer: Vec<u8>,
}
