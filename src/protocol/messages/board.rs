//! Messages of boards.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::board::key::Key;
use crate::core::board::member::{Member, MemberRefusal, Write};
use crate::core::board::placing::{Layout, Placing, ShardAt};
use crate::core::board::score::Score;
use crate::core::board::settings::Settings;
use crate::core::board::summary::Summary;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::ledger::{Keys, WriteKey};
use crate::protocol::names::Address;

calls! {
    WriteBoard => BoardWritten, "/board-write", |it| Address::Board(&it.board, it.at, it.home.as_ref());
    WriteBoards => Vec<BoardWritten>, "/board-writes", |it| Address::Board(&it.board, it.at, it.home.as_ref());
    AskBoard => BoardAnswer, "/board-ask", |it| Address::Board(&it.board, it.at, it.home.as_ref());
    ConfigureBoard => BoardConfigured, "/board-configure", |it| Address::Board(&it.board, ShardAt::default(), it.placing.home.as_ref());
    EndBoard => bool, "/board-end", |it| Address::Board(&it.board, ShardAt::default(), None);
    ReportShard => (), "/board-report", |it| Address::Board(&it.board, ShardAt::default(), None);
    CommandShard => ShardReply, "/board-shard", |it| Address::Board(&it.board, it.at, it.home.as_ref());
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
    /// Which of its objects.
    pub at: ShardAt,
    /// Where the board lives, or its writer, should it begin with this.
    pub home: Option<Datacenter>,
    /// The writes.
    pub writes: Vec<MemberWrite>,
    /// Their key, where their client sent one.
    pub once: Option<Once>,
}

impl WriteBoard {
    /// Writes to the owner of a board.
    pub fn new(board: &CounterId, writes: Vec<MemberWrite>, once: Option<Once>) -> Self {
        Self {
            board: board.clone(),
            at: ShardAt::default(),
            home: None,
            writes,
            once,
        }
    }
}

/// Edge → board: make the writes of several requests, in one commit. Each is answered as if it had come alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteBoards {
    /// The board.
    pub board: CounterId,
    /// Which of its objects.
    pub at: ShardAt,
    /// As in [`WriteBoard`].
    pub home: Option<Datacenter>,
    /// The writes of each request, with their key.
    pub requests: Vec<(Vec<MemberWrite>, Option<Once>)>,
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
    pub refused: Vec<(u32, MemberRefusal)>,
    /// How the member stands, where there was one write.
    pub stand: Option<Stand>,
}

impl Written {
    /// What came of these writes and of others, which went to other members. A refused place stays that of its own writes.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.refused.extend(other.refused);
        self.refused.sort_by_key(|(place, _)| *place);
        Self {
            generation: self.generation.max(other.generation),
            sequence: self.sequence.max(other.sequence),
            at_ms: self.at_ms.max(other.at_ms),
            total: self.total.max(other.total),
            accepted: self.accepted + other.accepted,
            changed: self.changed + other.changed,
            refused: self.refused,
            stand: None,
        }
    }
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
    /// These and others were made before, under the same key, when the board was not spread: what came of all of them.
    ReplayedWhole(Written),
    /// The members live in this layout; nothing was written.
    Spread(Layout),
    /// This object has no members, any more or yet; nothing was written.
    Stale,
    /// Members are being moved; nothing was written, and it may be tried again at once.
    Moving,
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

/// A place in the order of a board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardPlace {
    /// That of a key.
    Key(Key),
    /// The first of a score.
    Score(Score),
}

impl BoardPlace {
    /// The key that ends what stands before it: from that on upwards where the highest score is the best, below it otherwise.
    pub fn edge(&self, is_desc: bool) -> Key {
        match (self, is_desc) {
            (Self::Key(key), false) => key.clone(),
            (Self::Key(key), true) => key.clone().next(),
            (Self::Score(score), false) => Key::first_of(*score),
            (Self::Score(score), true) => Key::behind(*score),
        }
    }
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
    /// The first so many, and these members besides; those that are not there are left out.
    Live(u32, Vec<Vec<u8>>),
    /// How many members of this shard stand before each of these places.
    Better(Vec<BoardPlace>),
    /// The members of this shard that stand next to a place: so many before it, and so many behind.
    Near(Key, u32),
    /// A summary of this shard: its first members, and how many stand before some of the others.
    Summary,
}

/// Edge → board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskBoard {
    /// The board.
    pub board: CounterId,
    /// Which of its objects.
    pub at: ShardAt,
    /// Where the board lives, as far as known.
    pub home: Option<Datacenter>,
    /// The beginning of an ended period, unix seconds; `None` for the one that lives.
    pub period: Option<i64>,
    /// The generation and the sequence that the answer must hold.
    pub at_least: Option<(u64, u64)>,
    /// What is asked.
    pub question: BoardQuestion,
}

impl AskBoard {
    /// A question to the owner of a board, about the period that lives.
    pub fn new(board: &CounterId, question: BoardQuestion) -> Self {
        Self {
            board: board.clone(),
            at: ShardAt::default(),
            home: None,
            period: None,
            at_least: None,
            question,
        }
    }
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
    /// The members that were asked for besides.
    pub members: Vec<Ranked>,
    /// How many members stand before each place that was asked for; of a stretch, before its first.
    pub better: Vec<u64>,
    /// Where the board lives.
    pub placing: Placing,
    /// How it is spread.
    pub layout: Layout,
    /// The sequence of each of its shards, where it is spread over several.
    pub sequences: Vec<u64>,
    /// The summaries that were asked for: one of each shard.
    pub summaries: Vec<Summary>,
    /// How far a rank may be higher than that of its row, where this is not exact: by the place of the row.
    pub slack: Vec<u64>,
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
    /// The members live in this layout.
    Spread(Layout),
    /// This object has no members, any more or yet.
    Stale,
    /// Members are being moved; ask again.
    Moving,
}

/// Edge → board: these are its settings from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigureBoard {
    /// The board.
    pub board: CounterId,
    /// The settings.
    pub settings: Settings,
    /// Where it lives.
    pub placing: Placing,
    /// Where whoever says so is: its home, where none is named.
    pub here: Datacenter,
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

/// Shard → owner: so many messages come here each second, or there is so much here, that there should be more shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportShard {
    /// The board.
    pub board: CounterId,
    /// The shard.
    pub at: ShardAt,
}

/// Owner → shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandShard {
    /// The board.
    pub board: CounterId,
    /// The shard.
    pub at: ShardAt,
    /// Where the board lives.
    pub home: Option<Datacenter>,
    /// What it is to do.
    pub command: ShardCommand,
}

/// A member on its way from one shard to another: the beginning of its period, its name, and what is kept of it; `None` where it is gone.
pub type MovedMember = (i64, Vec<u8>, Option<Member>);

/// A record of a key on its way: its slot, its key, and its stored bytes.
pub type MovedRecord = (i64, Vec<u8>, Vec<u8>);

/// What a shard is to do. The number of a move is that of the layout to which members are moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardCommand {
    /// This is the board from now on: a life of it that is new begins with no members.
    Begin(ShardIs),
    /// This life has ended.
    End(u64),
    /// Say how much there is, and how much is asked.
    Measure,
    /// Note from now on which members change. Answered with the periods that there are.
    Note(u64),
    /// Give the members of a period behind a name: the first page.
    Give(u64, i64, Option<Vec<u8>>),
    /// Give the members that have changed, behind this number of a change: the first page.
    GiveChanged(u64, u64),
    /// Change nothing any more.
    Seal(u64),
    /// Give the records of keys behind this slot and key: the first page.
    GiveRecords(u64, i64, Vec<u8>),
    /// The move is given up: go on.
    Unseal(u64),
    /// Begin to take members of these periods, each with its end.
    Receive(ShardIs, Vec<(i64, i64)>),
    /// Take these members. The second number rises with each such message, so one that comes late changes nothing.
    Take(u64, u64, Vec<MovedMember>),
    /// Take these records.
    TakeRecords(u64, Vec<MovedRecord>),
    /// All has been taken: be a shard from now on, in the period that begins and ends so.
    Finish(u64, (i64, i64)),
    /// The layout has ended: delete all.
    Drop,
}

/// What a shard is told of its board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardIs {
    /// The layout that it is of.
    pub layout: Layout,
    /// The life of the board.
    pub generation: u64,
    /// The owner's sequence: what was said before does not hold any more.
    pub sequence: u64,
    /// Its settings.
    pub settings: Settings,
    /// Where it lives.
    pub placing: Placing,
}

/// What a shard answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardReply {
    /// It is done.
    Done,
    /// It is none of this move, or has lost what it took: give it up.
    Lost,
    /// So much there is.
    Measured(ShardMeasure),
    /// The periods that there are, each with its end; the last is the one that lives.
    Periods(Vec<(i64, i64)>),
    /// Members, and whether there are more.
    Members(Vec<MovedMember>, bool),
    /// Members that have changed, the number of the last change, and whether there are more.
    Changed(Vec<MovedMember>, u64, bool),
    /// Records, and whether there are more.
    Records(Vec<MovedRecord>, bool),
}

/// How much there is in a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardMeasure {
    /// Members, hidden ones included.
    pub members: u64,
    /// About what they take on disk.
    pub bytes: u64,
    /// Messages a second, lately.
    pub per_second: u32,
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
