//! Messages between Workers and objects. A call is a type with a constant path, an answer type, and the address of its
//! receiver.
//!
//! Messages are encoded with postcard, whose wire format is stable and specified. During a rollout, one end may be of
//! the previous build. A change of a message's bytes needs a message of a new name, or another protocol.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::names::{Address, CellAddress};
use tally_core::cluster::root::Root;
use tally_core::cluster::tablets::LeadPlace;
use tally_core::counter::cell::Cell;
use tally_core::counter::flush::Load;
use tally_core::counter::grant::Grant;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{Part, Question};
use tally_core::counter::nonces::{FlushEffect, Nonce};
use tally_core::counter::settings::TtlTerms;
use tally_core::counter::total::Sum as Total;

/// The protocol of this build: the set of messages and the content of their bytes. It rises with each release that
/// changes them.
///
/// The path of a message of protocol N is `/N`, then the path that its type names. A receiver answers [`Fault::Later`]
/// to a newer protocol than its own. The sender then knows that nothing was done, and sends the message again in the
/// previous protocol. A build understands its own protocol and the previous one, from [`PROTOCOL_MIN`] on, and answers
/// in the protocol of the request. The calls of a [`Batch`], and the call in a [`CallLead`], have the protocol of the
/// message that carries them.
pub const PROTOCOL: u8 = 3;

/// The protocol that is used with receivers that understand no newer one.
pub const PROTOCOL_BEFORE: u8 = PROTOCOL - 1;

/// The first protocol that builds understand: that of 0.2.0.
pub const PROTOCOL_MIN: u8 = 3;

/// The path of a message in a given protocol.
pub fn path_in(protocol: u8, path: &str) -> String {
    format!("/{protocol}{path}")
}

/// The protocol of a message by its path, 0 if the path names none, and the path that its type names.
pub fn protocol_of(path: &str) -> (u8, &str) {
    let rest = path.strip_prefix('/').unwrap_or(path);
    let numbered = rest.find('/').and_then(|end| rest.split_at_checked(end));
    let numbered = numbered.and_then(|(number, rest)| Some((number.parse().ok()?, rest)));
    numbered.unwrap_or((0, path))
}

/// A message and its answer.
pub trait Call: Serialize + DeserializeOwned {
    /// Path of the request that carries it.
    const PATH: &'static str;
    /// The answer of a successful call.
    type Answer: Serialize + DeserializeOwned;

    /// The receiver.
    fn to(&self) -> Address<'_>;
}

macro_rules! calls {
    ($($name:ty => $answer:ty, $path:literal, |$message:pat_param| $to:expr;)*) => {
        $(impl Call for $name {
            const PATH: &'static str = $path;
            type Answer = $answer;

            fn to(&self) -> Address<'_> {
                let $message = self;
                $to
            }
        })*
    };
}

mod alert;
mod api_key;
pub mod batch;
mod board;
mod converge;
mod explain;
mod export;
pub mod fault;
mod fleet;
mod keyed;
mod lead_moves;
mod limit;
mod live;
mod operate;
mod queue;
mod read;
mod redis;
mod repair;
mod root_moves;
mod secrets;
mod share;
mod snapshot;
mod totals;

pub use alert::{
    AlertDetails, AlertPutOutcome, AllAlerts, AllDeliveries, DeleteAlert, DeliveriesListed,
    DeliveriesOf, EndAlerts, GetAlert, ListAlerts, ListDeliveries, PutAlert, SilenceAlert,
    TestAlert,
};
pub use api_key::{
    AddAuditEntry, CallAudited, FindApiKey, FindHeldKey, ListAuditEntries, ListKeys, MakeKey,
    ReplaceKey, RevokeKey, Revoked, UseKey,
};
pub use batch::{Batch, BatchedCall, Receiver};
pub use board::{
    AskBoard, BoardAnswer, BoardConfigured, BoardPosition, BoardQuestion, BoardSeen, BoardWritten,
    BoardsListed, CommandShard, ConfigureBoard, EndBoard, ForgetBoard, ListAllBoards, ListBoards,
    MemberAction, MemberCondition, MemberOutcome, MemberRange, MemberStanding, MemberWrite,
    MovedMember, MovedRecord, OnceKey, PeriodOf, Ranked, RegisterBoard, ReportShard, ShardCommand,
    ShardMeasure, ShardReply, ShardState, WriteBoard, WriteBoards,
};
pub use converge::{AskGrant, PushView, ReportLead, ViewAnswer, ViewOf, WatchLead};
pub use explain::{Explain, Explained, InboxTrace, LeadTrace, ReadTrace};
pub use export::{
    ExportPage, ExportReply, ExportedCounter, Install, InstallOutcome, ReadContents, ReadOut,
};
pub use fault::{Fault, decode, encode, later};
pub use fleet::{AskFleet, CountsTaken, FleetOf, ReportCounts, ReportSizes};
pub use keyed::{
    Claim, ClaimAnswer, ClaimHolder, CountKeyed, Counted, FindClaims, KeyOwner, Recall, ttl_if_new,
};
pub use lead_moves::{
    CallLead, GiveLead, LeadHandover, LeadLocation, LeadPresence, LeadTaken, LocateLead, PlaceLead,
};
pub use limit::{
    CheckAnswer, CheckKeys, DeleteOverride, DeletePolicy, DemandKind, DemandOutcome,
    EndReservation, FindOverride, ForwardCheck, GetPolicy, GiveKey, KeyDemand, KnownOverrides,
    LeaseReport, ListAllOverrides, ListFrom, ListHolders, ListOverrides, ListPolicies,
    OverrideFound, OverrideNews, OverridePut, OverridesListed, PolicyPut, PutOverride, PutPolicy,
    RecallLease, Reserve, Reserved, StoredPolicy,
};
pub use live::{Join, Look};
pub use operate::{
    Done, IfExists, Operate, Operation, OperationCondition, OperationKey, OperationOutcome, Put,
    Reconcile, RestoreSource, StoreAnswer, StoredAnswer,
};
pub use queue::{
    Append, AppendResult, AskInbox, CloseSession, DeadLetters, Drain, LetInboxesGo, OpenSession,
    ReadDead, ReadDrained, ReadNumbers, RegisterInbox, ReleaseInbox, TakeOver,
};
pub use read::{CheckStorage, GlobalSum, List, Read, ReadEach, ReadMetrics, ReadParts, WriteProof};
pub use redis::{
    AttemptName, Attempts, FindKey, KeyFound, RunCommands, RunSorted, SortedRan, Subscribe,
};
pub use repair::{
    CellPart, CellRepaired, DamagedTable, ListDatacenters, ListNames, RememberedCell, RepairCell,
    RepairObject, RepairRoot, RootPart, RootRepaired, TotalsFrom,
};
pub use root_moves::{
    AnnounceSizes, CallPartition, CallRoot, Column, GiveRoot, PartitionAnswer, RootCursor,
    RootHandover, RootRow, RootTaken, SizesOf,
};
pub use secrets::{GetSecrets, RotateKey, Secrets};
pub use share::{DeleteShare, GetShare, ListShares, PutShare, SharePut};
pub use snapshot::{
    AllRuns, AskRuns, BeginRun, ListAllPastStates, ListPastStates, ListRuns, PartitionRuns,
    PastState, PastStateList, PastStatePage, PastStateRow, ReadOwnPastStates, ReadPastStates,
    RunInProgress,
};
pub use totals::{
    AmountOf, AskTop, CounterList, KnownTotal, KnownUniques, ListAll, ListRows, ListedCounter,
    OrderBy, PartitionTop, SumMany, Sums, Top, TopOf, TopOrder, TopRow, UnreadCounters,
    WindowStart,
};

calls! {
    Flush => Flushed, "/flush", |it| Address::Cell(&it.to);
    Hello => Grant, "/hello", |it| Address::Cell(&it.to);
    LoadReport => u8, "/report", |it| Address::Cell(&it.to);
    Seal => Option<Part>, "/seal", |it| Address::Cell(&it.to);
    Configure => (), "/configure", |it| Address::Cell(&it.to);
    Suspend => (), "/suspend", |it| Address::Cell(&it.to);
    Close => (), "/close", |it| Address::Cell(&it.to);
    Ask => Option<Part>, "/ask", |it| Address::Cell(&it.to);
    SumDatacenter => Part, "/sum", |it| Address::Cell(&it.to);
    Register => Grant, "/register", |it| Address::Root(&it.counter);
    LookUp => Option<Root>, "/look-up", |it| Address::Root(&it.counter);
}

/// Edge → cell: count this, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flush {
    /// The cell; an object learns its own address from it.
    pub to: CellAddress,
    /// The flush's nonce.
    pub nonce: Nonce,
    /// Its content.
    pub load: Load,
}

/// The cell has counted it durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flushed {
    /// The generation it was counted in.
    pub generation: u64,
    /// The cell's state right after it.
    pub outcome: FlushEffect,
    /// Totals (added, removed) of all other cells, if each of them has stopped counting or never counted: the counter's
    /// value is then known exactly. Otherwise `None`.
    pub elsewhere: Option<(Total, Total)>,
    /// Over how many shards writes of this datacenter are now spread.
    pub shards: u8,
    /// How long the lane should gather before its next flush.
    pub linger_ms: u32,
    /// How many set and reset operations the cell knows.
    pub operations: u64,
    /// Whether the lead that counted it has an object of its own, although tablets host others.
    pub is_apart: bool,
}

impl Flushed {
    /// A cell's answer right after it has applied a flush, before it decides how long to gather.
    pub fn after(cell: &Cell, outcome: FlushEffect) -> Self {
        Self {
            generation: cell.generation().unwrap_or(0),
            outcome,
            elsewhere: cell.elsewhere_after(&outcome),
            shards: cell.spread(),
            linger_ms: 0,
            operations: cell.grant().map_or(0, |grant| grant.operations),
            is_apart: false,
        }
    }
}

/// Shard → lead: registers a shard and asks whether it may count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The lead.
    pub to: CellAddress,
    /// The shard that asks.
    pub shard: u8,
    /// The time to live of the counter, if it is created.
    pub ttl_if_new: Option<TtlTerms>,
}

/// Shard → lead: its load. The answer is the number of shards over which writes are spread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// The lead.
    pub to: CellAddress,
    /// Flushes a second.
    pub per_second: u32,
}

/// Lead → shard: stop counting until told otherwise, and hand over your part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The shard.
    pub to: CellAddress,
    /// The generation.
    pub generation: u64,
}

/// Root → lead → shards: the counter's settings, or the set of datacenters that count it, have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configure {
    /// The cell.
    pub to: CellAddress,
    /// The grant from now on.
    pub grant: Grant,
}

/// Root → lead: this generation is about to end; count nothing for it without asking again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspend {
    /// The lead.
    pub to: CellAddress,
    /// The generation.
    pub generation: u64,
}

/// Root → lead → shards: this generation has ended; delete it, storage included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {
    /// The cell.
    pub to: CellAddress,
    /// The generation that ended.
    pub generation: u64,
}

/// Lead → shard: asks for its part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The shard.
    pub to: CellAddress,
    /// The question.
    pub question: Question,
}

/// Aggregator or root → lead: asks for the sum of its datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SumDatacenter {
    /// The lead.
    pub to: CellAddress,
    /// The question.
    pub question: Question,
    /// Whether the answer says how long each shard took.
    pub explains: bool,
}

impl SumDatacenter {
    /// A question without an explanation.
    pub fn new(to: CellAddress, question: Question) -> Self {
        Self {
            to,
            question,
            explains: false,
        }
    }
}

/// Lead → root: my datacenter has a write of this counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter.
    pub datacenter: Datacenter,
    /// The grant that the lead holds. It is the only copy if the root has lost its row.
    pub holds: Option<Grant>,
    /// The place of the lead that asks; `None` where it does not know.
    pub place: Option<LeadPlace>,
    /// The number of the newest spread for which it is known that the lead is nowhere else.
    pub located_epoch: Option<u32>,
    /// The time to live of the counter, if it is created.
    pub ttl_if_new: Option<TtlTerms>,
}

/// Any → root: asks for the root's row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookUp {
    /// The counter.
    pub counter: CounterId,
}
