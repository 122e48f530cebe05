//! Messages between Workers and objects. A call is a type with a constant path, an answer type, and the address of its
//! receiver.
//!
//! Messages are encoded with postcard, whose wire format is stable and specified. During a rollout, one end may be of
//! the previous build. A change of a message's bytes needs a message of a new name, or another protocol.

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

#[macro_use]
mod call;

mod aggregate;
mod archive;
pub mod batch;
mod board;
mod cell;
mod converge;
mod deployment;
mod explain;
pub mod fault;
mod keyed_writes;
mod lead_moves;
mod limit;
mod live;
mod operate;
mod queue;
mod read;
mod redis;
mod root_moves;
mod seen;
mod totals;
mod url;

pub use aggregate::{Aggregate, SumMany};
pub use archive::{
    AllRuns, AskRuns, BeginRun, CellPart, CellRepaired, ClaimRestore, DamagedTable, ExportPage,
    ExportReply, ExportedCounter, Install, InstallOutcome, ListAllPastStates, ListDatacenters,
    ListNames, ListPastStates, ListRuns, PartitionRuns, PastState, PastStateList, PastStatePage,
    PastStateRow, ReadContents, ReadOut, ReadOwnPastStates, ReadPastStates, RememberedCell,
    RepairCell, RepairObject, RepairRoot, RootPart, RootRepaired, RunInProgress, TotalsFrom,
};
pub use batch::{Batch, BatchedCall, Receiver};
pub use board::{
    AskBoard, BoardAnswer, BoardConfigured, BoardPosition, BoardQuestion, BoardSeen, BoardWritten,
    BoardsListed, CommandShard, ConfigureBoard, EndBoard, ForgetBoard, ListAllBoards, ListBoards,
    MemberAction, MemberCondition, MemberOutcome, MemberRange, MemberStanding, MemberWrite,
    MovedMember, MovedRecord, OnceKey, PeriodOf, Ranked, RegisterBoard, ReportShard, ShardCommand,
    ShardMeasure, ShardReply, ShardState, WriteBoard, WriteBoards,
};
pub use call::Call;
pub use cell::{
    Ask, Close, Configure, Flush, FlushAnswer, Flushed, Hello, LoadReport, LookUp, Register, Seal,
    SumDatacenter, Suspend,
};
pub use converge::{AskGrant, PushView, ReportLead, ViewAnswer, ViewOf, WatchLead};
pub use deployment::{
    AddAuditEntry, AlertDetails, AlertPutOutcome, AllAlerts, AllDeliveries, AskFleet, CallAudited,
    CountsTaken, DeleteAlert, DeleteShare, DeliveriesListed, DeliveriesOf, EffectiveKeys,
    EndAlerts, FindApiKey, FindHeldKey, FleetOf, GetAlert, GetSecrets, GetShare, ListAlerts,
    ListAuditEntries, ListDeliveries, ListKeys, ListShares, MakeKey, PutAlert, PutShare,
    ReplaceKey, ReportCounts, ReportSizes, RevokeKey, Revoked, RotateKey, Secrets, SharePut,
    SilenceAlert, TestAlert, UseKey, WakePush,
};
pub use explain::{Explain, Explained, InboxTrace, LeadTrace, ReadTrace};
pub use fault::{Fault, decode, encode, later};
pub use keyed_writes::{
    Claim, ClaimAnswer, CountKeyed, Counted, FindClaims, KeyOwner, Recall, ttl_if_new,
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
    Arguments, AttemptName, Attempts, Channels, FindKey, KeptSize, KeyFound, RunCommands,
    RunSorted, SetChange, SortedRan, Subscribe,
};
pub use root_moves::{
    AnnounceSizes, CallPartition, CallRoot, Column, GiveRoot, PartitionAnswer, RootCursor,
    RootHandover, RootRow, RootTaken, SizesOf,
};
pub use seen::not_reached;
pub use totals::{
    AmountOf, AskTop, CounterList, ListAll, ListRows, ListedCounter, PartitionTop, Sums, Top,
    TopOf, UnreadCounters,
};
pub use url::{origin, path_within};
