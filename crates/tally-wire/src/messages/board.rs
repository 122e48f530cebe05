//! Messages of boards.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::names::Address;
use tally_core::board::key::Key;
use tally_core::board::member::{Member, MemberRefusal, ScoreWrite};
use tally_core::board::placing::{Layout, Placing, ShardAt};
use tally_core::board::score::Score;
use tally_core::board::settings::Settings;
use tally_core::board::summary::BoardSummary;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeySource, WriteKey};
use tally_core::order::put_in_order;

calls! {
    WriteBoard => BoardWritten, "/board-write", |it| Address::Board(&it.board, it.at, it.home.as_ref());
    WriteBoards => Vec<BoardWritten>, "/board-writes", |it| Address::Board(&it.board, it.at, it.home.as_ref());
    AskBoard => BoardAnswer, "/board-ask", |it| Address::Board(&it.board, it.at, it.home.as_ref());
    ConfigureBoard => BoardConfigured, "/board-configure",
        |it| Address::Board(&it.board, ShardAt::default(), it.placing.home.as_ref());
    EndBoard => bool, "/board-end", |it| Address::Board(&it.board, ShardAt::default(), None);
    ReportShard => (), "/board-report", |it| Address::Board(&it.board, ShardAt::default(), None);
    CommandShard => ShardReply, "/board-shard", |it| Address::Board(&it.board, it.at, it.home.as_ref());
    RegisterBoard => (), "/board-register", |it| Address::Root(&it.board);
    ForgetBoard => (), "/board-forget", |it| Address::Root(&it.board);
    ListBoards => Vec<CounterId>, "/board-list", |it| Address::Directory(it.partition);
    ListAllBoards => BoardsListed, "/board-list-all", |_| Address::Aggregator;
}

/// What is done to a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberAction {
    /// Its score is written.
    Put(ScoreWrite),
    /// It is hidden from the order, or shown again.
    Hide(bool),
    /// It is removed.
    Remove,
}

/// The precondition of a write to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberCondition {
    /// It exists.
    There,
    /// Its tag is this.
    Tagged(u64),
}

/// A write to one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberWrite {
    /// The member.
    pub member: Vec<u8>,
    /// What is done to it.
    pub action: MemberAction,
    /// The precondition, if any.
    pub condition: Option<MemberCondition>,
}

impl MemberWrite {
    /// The claim of a key. It records which request the key belongs to, before any write of that request is made. A
    /// claim is the removal of a member that no board has: names are UTF-8, and this one is not. The second byte of its
    /// name spreads claims over all shards.
    pub fn claim_of(key: WriteKey) -> Self {
        let [first, ..] = key.0;
        Self {
            member: vec![CLAIM_BYTE, first],
            action: MemberAction::Remove,
            condition: None,
        }
    }

    /// Whether this is the claim of a key.
    pub fn is_claim(&self) -> bool {
        self.member.first() == Some(&CLAIM_BYTE)
    }
}

/// The first byte of the name that a claim removes. No UTF-8 text has this byte.
const CLAIM_BYTE: u8 = 0xff;

/// A client's key: the writes sent with it are made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnceKey {
    /// The key.
    pub key: WriteKey,
    /// Hash of the request.
    pub fingerprint: u64,
    /// Who drew the key.
    pub keys: KeySource,
}

impl OnceKey {
    /// The key of this key's claim; for the key of a claim, the key that is claimed. So the records of claims and those
    /// of writes have different keys.
    #[must_use]
    pub fn claim(self) -> Self {
        let key = WriteKey(self.key.0.map(|byte| !byte));
        Self { key, ..self }
    }
}

/// Edge → board: makes these writes, in their order and in one commit. Refused writes change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteBoard {
    /// The board.
    pub board: CounterId,
    /// Which object of the board.
    pub at: ShardAt,
    /// The home that the board gets if it begins with this.
    pub home: Option<Datacenter>,
    /// The writes.
    pub writes: Vec<MemberWrite>,
    /// Their key, where the client sent one.
    pub once: Option<OnceKey>,
    /// For each write, the sequence that orders it among equal scores of all shards. Empty where the object assigns its
    /// own.
    pub sequences: Vec<u64>,
}

impl WriteBoard {
    /// Writes to the owner of a board.
    pub fn new(board: &CounterId, writes: Vec<MemberWrite>, once: Option<OnceKey>) -> Self {
        Self {
            board: board.clone(),
            at: ShardAt::default(),
            home: None,
            writes,
            once,
            sequences: Vec::new(),
        }
    }
}

/// Edge → board: makes the writes of several requests in one commit. Each request is answered as if it were alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteBoards {
    /// The board.
    pub board: CounterId,
    /// Which object of the board.
    pub at: ShardAt,
    /// As in [`WriteBoard`].
    pub home: Option<Datacenter>,
    /// The writes of each request, with their key.
    pub requests: Vec<(Vec<MemberWrite>, Option<OnceKey>)>,
}

/// A member's standing after a write to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStanding {
    /// Its score; `None` where it does not exist.
    pub score: Option<Score>,
    /// The score that it had before.
    pub previous: Option<Score>,
    /// Its rank, from 1; `None` where it has none.
    pub rank: Option<u64>,
    /// Its tag; `None` where it does not exist.
    pub tag: Option<u64>,
}

/// The result of writes. It is stored with their key, so that a retry gets the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberOutcome {
    /// The generation of the board.
    pub generation: u64,
    /// The number of its changes.
    pub sequence: u64,
    /// When, unix milliseconds.
    pub at_ms: i64,
    /// How many members are ranked.
    pub total: u64,
    /// How many writes were accepted.
    pub accepted: u64,
    /// How many of them changed something.
    pub changed: u64,
    /// The indexes of refused writes, and why.
    pub refused: Vec<(u32, MemberRefusal)>,
    /// The member's standing after a single write. After several writes, an empty standing says that expired members
    /// were counted.
    pub stand: Option<MemberStanding>,
}

impl MemberOutcome {
    /// Joins these results with those of writes to other members. A refused write keeps its index within its own list.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.refused.extend(other.refused);
        put_in_order(&mut self.refused, |(one, _), (other, _)| one.cmp(other));
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

/// The answer to writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardWritten {
    /// They are made.
    Done(MemberOutcome),
    /// They were made before, under the same key.
    Replayed(MemberOutcome),
    /// The key was used for other writes.
    Reused,
    /// There is no room for another key.
    Full,
    /// The board that they were made to has been deleted.
    Ended,
    /// These and other writes were made before under the same key, when the board was not spread. Holds the result of
    /// all of them.
    ReplayedWhole(MemberOutcome),
    /// The members are in this layout; nothing was written.
    Spread(Layout),
    /// This object has no members yet, or no longer has any; nothing was written.
    Stale,
    /// Members are being moved. Nothing was written; the call may be repeated at once.
    Moving,
}

/// A range of members, in the board's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRange {
    /// The lowest score.
    pub min: Option<Score>,
    /// The highest score.
    pub max: Option<Score>,
    /// Only those after this position.
    pub after: Option<Key>,
    /// How many of them to skip.
    pub skip: u64,
    /// At most so many.
    pub limit: u32,
}

/// A position in the order of a board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardPosition {
    /// The position of a key.
    Key(Key),
    /// The first position of a score.
    Score(Score),
}

impl BoardPosition {
    /// The key that bounds the members before this position. Where the highest score is the best, these are the keys
    /// from it upwards; otherwise the keys below it.
    pub fn edge(&self, is_desc: bool) -> Key {
        match (self, is_desc) {
            (Self::Key(key), false) => key.clone(),
            (Self::Key(key), true) => key.clone().next(),
            (Self::Score(score), false) => Key::first_of(*score),
            (Self::Score(score), true) => Key::behind(*score),
        }
    }
}

/// A question to a board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardQuestion {
    /// Its settings, and how many members it has.
    About,
    /// A range of its members.
    Range(MemberRange),
    /// These members, in this order; those that do not exist are omitted.
    Members(Vec<Vec<u8>>),
    /// A member, and so many before and after it.
    Around(Vec<u8>, u32),
    /// The ended periods that are stored.
    Periods,
    /// The first so many, and these members besides; those that do not exist are omitted.
    Live(u32, Vec<Vec<u8>>),
    /// How many members of this shard are before each of these positions.
    Better(Vec<BoardPosition>),
    /// The members of this shard next to a position: so many before it, and so many after.
    Near(Key, u32),
    /// A summary of this shard: its first members, and how many are before some of the others.
    Summary,
    /// Hidden members after a name, in the order of their names, and at most so many.
    Hidden(Vec<u8>, u32),
}

/// Edge → board: a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskBoard {
    /// The board.
    pub board: CounterId,
    /// Which object of the board.
    pub at: ShardAt,
    /// The home of the board, as far as known.
    pub home: Option<Datacenter>,
    /// The beginning of an ended period, unix seconds; `None` for the current one.
    pub period: Option<i64>,
    /// The generation and the sequence that the answer must include.
    pub at_least: Option<(u64, u64)>,
    /// The question.
    pub question: BoardQuestion,
}

impl AskBoard {
    /// A question to the owner of a board, about the current period.
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

/// A member in an answer.
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
    /// When it expires, unix milliseconds.
    pub expires_ms: Option<i64>,
    /// Its metadata: JSON.
    pub metadata: Option<String>,
    /// Its tag.
    pub tag: u64,
}

/// A period of a board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodOf {
    /// When it begins, unix seconds. For a board without periods, beginning and end are 0.
    pub start: i64,
    /// When the next one begins.
    pub end: i64,
    /// How many members are ranked.
    pub total: u64,
}

/// The answer of a board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardSeen {
    /// The generation of the board.
    pub generation: u64,
    /// The number of its changes.
    pub sequence: u64,
    /// When, unix milliseconds.
    pub as_of_ms: i64,
    /// Whether all expired members have been removed.
    pub is_exact: bool,
    /// Its settings.
    pub settings: Settings,
    /// The period that it is about.
    pub period: PeriodOf,
    /// The size of the whole range that was asked for.
    pub count: u64,
    /// Whether there are more members after those in the answer.
    pub has_more: bool,
    /// The members.
    pub rows: Vec<Ranked>,
    /// The stored periods.
    pub periods: Vec<PeriodOf>,
    /// The members asked for besides.
    pub members: Vec<Ranked>,
    /// How many members are before each position that was asked for; for a range, before its first.
    pub better: Vec<u64>,
    /// Its number of shards, and its home.
    pub placing: Placing,
    /// Its layout.
    pub layout: Layout,
    /// The sequence of each of its shards, where there are several.
    pub sequences: Vec<u64>,
    /// The summary of each shard, where asked for.
    pub summaries: Vec<BoardSummary>,
    /// For each row, how much higher its rank may be, where ranks are not exact.
    pub slack: Vec<u64>,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardAnswer {
    /// The content.
    Seen(Box<BoardSeen>),
    /// There is no such board.
    Absent,
    /// There is no such period.
    NoPeriod,
    /// It has this generation and sequence, which is less than required.
    NotReached(u64, u64),
    /// The members are in this layout.
    Spread(Layout),
    /// This object has no members yet, or no longer has any.
    Stale,
    /// Members are being moved; the call may be repeated.
    Moving,
}

/// Edge → board: replaces its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigureBoard {
    /// The board.
    pub board: CounterId,
    /// The settings.
    pub settings: Settings,
    /// Its number of shards, and its home.
    pub placing: Placing,
    /// The sender's datacenter: the home, where none is named.
    pub here: Datacenter,
}

/// The answer to new settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardConfigured {
    /// They apply; the flag says whether the board is new.
    Done(Box<BoardSeen>, bool),
    /// It has members, and these would change their order.
    Fixed,
}

/// Edge → board: deletes it. The answer says whether there was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndBoard {
    /// The board.
    pub board: CounterId,
    /// Only if the board has this generation; `None` for any.
    pub generation: Option<u64>,
}

/// Shard → owner: there should be more shards, because of the messages a second or the size of what is stored here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportShard {
    /// The board.
    pub board: CounterId,
    /// The shard.
    pub at: ShardAt,
}

/// Owner → shard: a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandShard {
    /// The board.
    pub board: CounterId,
    /// The shard.
    pub at: ShardAt,
    /// The home of the board.
    pub home: Option<Datacenter>,
    /// The command.
    pub command: ShardCommand,
}

/// A member that is moved between shards: the beginning of its period, its name, and its data; `None` where it was
/// removed.
pub type MovedMember = (i64, Vec<u8>, Option<Member>);

/// The record of a key that is moved: its slot, its key, and its stored bytes.
pub type MovedRecord = (i64, Vec<u8>, Vec<u8>);

/// Commands to a shard. The number of a move is the number of the layout that members are moved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardCommand {
    /// Take this state of the board; a new generation begins without members.
    Begin(ShardState),
    /// This generation has ended.
    End(u64),
    /// Report size and load.
    Measure,
    /// Note from now on which members change, and which records are stored. The answer lists the periods.
    TrackChanges(u64),
    /// Return the members of a period after a name: the first page.
    Give(u64, i64, Option<Vec<u8>>),
    /// Return the changed members after this change number: the first page.
    GiveChanged(u64, u64),
    /// Stop all changes.
    Seal(u64),
    /// Return the records of keys after this slot and key: the first page. A slot below 0 asks for noted records only,
    /// in the order in which they were stored. They begin after the record of slot `!slot` and this key, or with the
    /// first if there is no such record.
    GiveRecords(u64, i64, Vec<u8>),
    /// The move is cancelled: resume.
    Unseal(u64),
    /// Begin to receive members of these periods, each with its end.
    Receive(ShardState, Vec<(i64, i64)>),
    /// Store these members. The second number rises with each such message, so a late one changes nothing.
    Take(u64, u64, Vec<MovedMember>),
    /// Store these records.
    TakeRecords(u64, Vec<MovedRecord>),
    /// The transfer is complete: act as a shard from now on, in the period with this beginning and end.
    Finish(u64, (i64, i64)),
    /// The layout has ended: delete everything.
    Drop,
}

/// What a shard knows of its board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardState {
    /// Its layout.
    pub layout: Layout,
    /// The generation of the board.
    pub generation: u64,
    /// The owner's sequence: commands of a lower one no longer apply.
    pub sequence: u64,
    /// Its settings.
    pub settings: Settings,
    /// Its number of shards, and its home.
    pub placing: Placing,
}

/// The answer of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardReply {
    /// It is done.
    Done,
    /// It does not take part in this move, or has lost what it received: cancel the move.
    Lost,
    /// Its size and load.
    Measured(ShardMeasure),
    /// The periods, each with its end; the last is the current one.
    Periods(Vec<(i64, i64)>),
    /// Members, and whether there are more.
    Members(Vec<MovedMember>, bool),
    /// Changed members, the number of the last change, and whether there are more.
    Changed(Vec<MovedMember>, u64, bool),
    /// Records, and whether there are more.
    Records(Vec<MovedRecord>, bool),
}

/// Size and load of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardMeasure {
    /// Members, hidden ones included.
    pub members: u64,
    /// Their approximate size on disk.
    pub bytes: u64,
    /// Messages a second, lately.
    pub per_second: u32,
}

/// Board → directory: the board begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterBoard {
    /// The board.
    pub board: CounterId,
    /// Its generation.
    pub generation: u64,
}

/// Board → directory: this generation has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetBoard {
    /// The board.
    pub board: CounterId,
    /// The generation.
    pub generation: u64,
}

/// Aggregator → one partition: boards in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListBoards {
    /// The partition.
    pub partition: u32,
    /// The prefix of their names.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// The most names.
    pub limit: u32,
}

/// Edge → aggregator: boards of all partitions in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAllBoards {
    /// The prefix of their names.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// The most names.
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
