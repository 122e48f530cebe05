//! Messages of boards.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::board::key::Key;
use crate::core::board::member::{Refusal, Write};
use crate::core::board::score::Score;
use crate::core::board::settings::Settings;
use crate::core::counter::id::CounterId;
use crate::core::counter::ledger::{Keys, WriteKey};
use crate::protocol::names::Address;

calls! {
    WriteBoard => BoardWritten, "/board-write", |it| Address::Board(&it.board);
    AskBoard => BoardAnswer, "/board-ask", |it| Address::Board(&it.board);
    ConfigureBoard => BoardConfigured, "/board-configure", |it| Address::Board(&it.board);
    EndBoard => bool, "/board-end", |it| Address::Board(&it.board);
    RegisterBoard => (), "/board-register", |it| Address::Root(&it.board);
    ForgetBoard => (), "/board-forget", |it| Address::Root(&it.board);
    ListBoards => Vec<CounterId>, "/board-list", |it| Address::Directory(it.partition);
    ListAllBoards => BoardsListed, "/board-list-all", |_| Address::Aggregator;
}

/// What becomes of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deed {
    /// Its score is written.
    Put(Write),
    /// It is left out of the order, or no longer.
    Hide(bool),
    /// It is removed.
    Remove,
}

/// How a member must be for a write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberIs {
    /// It is there.
    There,
    /// It is as it was when it had this tag.
    Tagged(u64),
}

/// A write to one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberWrite {
    /// The member.
    pub member: Vec<u8>,
    /// What becomes of it.
    pub deed: Deed,
    /// Only if it is so.
    pub condition: Option<MemberIs>,
}

/// A client's key: writes that were sent with it are made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Once {
    /// The key.
    pub key: WriteKey,
    /// Hash of what is asked for.
    pub fingerprint: u64,
    /// Whose key it is.
    pub keys: Keys,
}

/// Edge → board: make these writes, in their order and in one commit. Those that are refused change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteBoard {
    /// The board.
    pub board: CounterId,
    /// The writes.
    pub writes: Vec<MemberWrite>,
    /// Their key, where their client sent one.
    pub once: Option<Once>,
}

/// How a member stands after a write to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stand {
    /// Its score; `None` where it is not there.
    pub score: Option<Score>,
    /// The score that it had before.
    pub previous: Option<Score>,
    /// Its rank, from 1; `None` where it has none.
    pub rank: Option<u64>,
    /// Its tag; `None` where it is not there.
    pub tag: Option<u64>,
}

/// What came of writes: kept with their key, so that a retry gets the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Which life of the board.
    pub generation: u64,
    /// How many changes it has had.
    pub sequence: u64,
    /// When, unix milliseconds.
    pub at_ms: i64,
    /// How many members are ranked.
    pub total: u64,
    /// How many writes were not refused.
    pub accepted: u64,
    /// How many of them changed something.
    pub changed: u64,
    /// The places of those that were refused, and why.
    pub refused: Vec<(u32, Refusal)>,
    /// How the member stands, where there was one write.
    pub stand: Option<Stand>,
}

/// What became of writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardWritten {
    /// They are made.
    Done(Written),
    /// They were made before, under the same key.
    Replayed(Written),
    /// The key was used for other writes.
    Reused,
    /// There is no room for another key.
    Full,
    /// The board that they were made to has been deleted.
    Ended,
}

/// Which members, in the board's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// The lowest score.
    pub min: Option<Score>,
    /// The highest score.
    pub max: Option<Score>,
    /// Only those behind this place.
    pub after: Option<Key>,
    /// How many of them to skip.
    pub skip: u64,
    /// At most so many.
    pub limit: u32,
}

/// What is asked of a board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardQuestion {
    /// Its settings, and how many members it has.
    About,
    /// A stretch of its members.
    Stretch(Stretch),
    /// These members, in this order; those that are not there are left out.
    Members(Vec<Vec<u8>>),
    /// A member, and so many before and behind it.
    Around(Vec<u8>, u32),
    /// The ended periods that are kept.
    Periods,
}

/// Edge → board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskBoard {
    /// The board.
    pub board: CounterId,
    /// The beginning of an ended period, unix seconds; `None` for the one that lives.
    pub period: Option<i64>,
    /// The generation and the sequence that the answer must hold.
    pub at_least: Option<(u64, u64)>,
    /// What is asked.
    pub question: BoardQuestion,
}

/// A member, as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranked {
    /// The member.
    pub member: Vec<u8>,
    /// Its score.
    pub score: Score,
    /// Its tie.
    pub tie: Option<u64>,
    /// Its rank, from 1; `None` where it is hidden.
    pub rank: Option<u64>,
    /// When it goes, unix milliseconds.
    pub expires_ms: Option<i64>,
    /// Its metadata: JSON.
    pub metadata: Option<String>,
    /// Its tag.
    pub tag: u64,
}

/// A period of a board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodOf {
    /// When it begins, unix seconds; 0 for a board without periods, as the end is.
    pub start: i64,
    /// When the next one begins.
    pub end: i64,
    /// How many members are ranked.
    pub total: u64,
}

/// What a board answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardSeen {
    /// Which life of the board.
    pub generation: u64,
    /// How many changes it has had.
    pub sequence: u64,
    /// When, unix milliseconds.
    pub as_of_ms: i64,
    /// Whether it holds nothing that should have expired.
    pub is_exact: bool,
    /// Its settings.
    pub settings: Settings,
    /// The period that it is of.
    pub period: PeriodOf,
    /// How many members a stretch has, wherever it begins and ends.
    pub count: u64,
    /// Whether there are more behind those that are told.
    pub has_more: bool,
    /// The members.
    pub rows: Vec<Ranked>,
    /// The periods that are kept.
    pub periods: Vec<PeriodOf>,
}

/// How a board answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardAnswer {
    /// Well.
    Seen(Box<BoardSeen>),
    /// There is no such board.
    Absent,
    /// It keeps no such period.
    NoPeriod,
    /// It has this generation and sequence, which is less than was asked for.
    NotReached(u64, u64),
}

/// Edge → board: these are its settings from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigureBoard {
    /// The board.
    pub board: CounterId,
    /// The settings.
    pub settings: Settings,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardConfigured {
    /// They hold; whether the board is new.
    Done(Box<BoardSeen>, bool),
    /// It has members, and these would change their order.
    Fixed,
}

/// Edge → board: end. Whether there was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndBoard {
    /// The board.
    pub board: CounterId,
}

/// Board → directory: it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterBoard {
    /// The board.
    pub board: CounterId,
    /// Which life of it.
    pub generation: u64,
}

/// Board → directory: this life of it has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetBoard {
    /// The board.
    pub board: CounterId,
    /// Which life of it.
    pub generation: u64,
}

/// Aggregator → one partition: boards in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListBoards {
    /// The partition.
    pub partition: u32,
    /// What their names begin with.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: u32,
}

/// Edge → aggregator: boards of all partitions in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAllBoards {
    /// What their names begin with.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: u32,
}

/// Boards by their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardsListed {
    /// Their names.
    pub boards: Vec<CounterId>,
    /// Partitions that did not answer.
    pub missing_partitions: Vec<u32>,
}
