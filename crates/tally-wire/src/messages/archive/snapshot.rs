//! Messages of snapshots: making them, and reading them.

use serde::{Deserialize, Serialize};

use crate::messages::call::Call;
use crate::names::Address;
use crate::snapshot::{RunOf, SnapshotCounter};
use tally_core::cluster::top_order::KnownUniques;
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::WriteKey;

calls! {
    BeginRun => (), "/begin-run", |it| Address::Directory(it.partition);
    ListRuns => PartitionRuns, "/list-runs", |it| Address::Directory(it.partition);
    ReadPastStates => Vec<PastState>, "/kept-on", |it| Address::Root(&it.counter);
    ReadOwnPastStates => Vec<PastState>, "/kept-in", |it| Address::Directory(it.partition);
    ListPastStates => PastStatePage, "/kept-rows", |it| Address::Directory(it.partition);
    AskRuns => AllRuns, "/ask-runs", |_| Address::Aggregator;
    ListAllPastStates => PastStateList, "/kept-all", |_| Address::Aggregator;
    ClaimRestore => bool, "/restore-claim", |_| Address::Directory(0);
}

/// Edge → partition 0: binds an idempotency key to one restore. Returns whether the key is that restore's: it was not
/// used before, or for the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRestore {
    /// The name of the key.
    pub key: WriteKey,
    /// The name of the key and the restore.
    pub restore: WriteKey,
}

/// Aggregator → one partition: begins a run, unless one is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginRun {
    /// The partition.
    pub partition: u32,
}

/// Aggregator → one partition: lists its runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRuns {
    /// The partition.
    pub partition: u32,
}

/// A run that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInProgress {
    /// When it began, unix milliseconds.
    pub begun_ms: i64,
    /// Counters in the files that it has written.
    pub entries: u64,
    /// Why it is stopped at present.
    pub why: Option<String>,
}

/// The runs of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionRuns {
    /// Known runs, the oldest first.
    pub runs: Vec<RunOf>,
    /// The run that is under way.
    pub in_progress: Option<RunInProgress>,
    /// Whether storage for files is configured.
    pub has_files: bool,
    /// Whether there is any counter.
    pub has_counters: bool,
    /// The most partitions that there ever were; 0 where that is not known.
    pub ever: u32,
}

/// Edge → aggregator: lists the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskRuns {
    /// Whether to begin one in each partition first.
    pub begins: bool,
}

/// The runs of all partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllRuns {
    /// Those that answered.
    pub partitions: Vec<(u32, PartitionRuns)>,
    /// Those that did not.
    pub missing_partitions: Vec<u32>,
}

/// Edge → root: asks for this counter's state on these days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPastStates {
    /// The counter.
    pub counter: CounterId,
    /// The first day, counted from 1970-01-01.
    pub first: i64,
    /// The last one.
    pub last: i64,
    /// Whether every run in the range is wanted. If not, only the last run on or before the last day is.
    pub is_range: bool,
}

/// Root → another partition: asks for this counter's state in that partition's own runs. The counter's root may have
/// been there on these days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOwnPastStates {
    /// The partition.
    pub partition: u32,
    /// The question.
    pub query: ReadPastStates,
}

/// The state of a counter when a run was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastState {
    /// The run.
    pub run: RunOf,
    /// Its state, without its unique elements; `None` where it did not exist.
    pub kept: Option<SnapshotCounter>,
    /// The estimate of its unique elements.
    pub uniques: Option<KnownUniques>,
}

/// Aggregator → one partition: the state of counters on a day, in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPastStates {
    /// The partition.
    pub partition: u32,
    /// The question.
    pub query: ListAllPastStates,
}

/// A counter's state then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastStateRow {
    /// The counter.
    pub counter: CounterId,
    /// The state.
    pub kept: SnapshotCounter,
    /// The estimate of its unique elements.
    pub uniques: Option<KnownUniques>,
}

/// States of a partition's counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PastStatePage {
    /// The run that they are from; `None` where there is none.
    pub run: Option<RunOf>,
    /// The counters.
    pub rows: Vec<PastStateRow>,
    /// Whether there are more.
    pub has_more: bool,
    /// The most partitions that there ever were; 0 where that is not known.
    pub ever: u32,
}

/// Edge → aggregator: the state of counters on a day, in order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAllPastStates {
    /// The day, counted from 1970-01-01: the last run on or before it is used.
    pub day: i64,
    /// The prefix of names.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// The most counters.
    pub limit: u32,
    /// Whether the unique elements themselves are wanted, and not only estimates.
    pub uniques: bool,
}

/// States of counters of all partitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PastStateList {
    /// The runs that they are from, with their partitions.
    pub runs: Vec<(u32, RunOf)>,
    /// The counters, in order of their names.
    pub rows: Vec<PastStateRow>,
    /// Whether there are more.
    pub has_more: bool,
    /// Partitions that did not answer.
    pub missing_partitions: Vec<u32>,
}
