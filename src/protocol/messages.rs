//! Messages between Workers and objects: a call is a type, its answer another, its path a constant.
//!
//! Encoded with postcard (its wire format is stable and specified). Both ends are the same build,
//! except during a deploy: fields are only ever added by a new path.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::metrics::Snapshot;
use super::names::CellAddress;
use super::problem::{Code, Problem};
use crate::cluster::root::Root;
use crate::counter::flush::{Load, Refusal};
use crate::counter::grant::Grant;
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::merge::{CellTotals, Part, Question, Range, Summary};
use crate::counter::nonces::{Nonce, Outcome};
use crate::counter::settings::{Settings, TtlMode};
use crate::counter::total::Sum as Total;

/// A message that has an answer.
pub trait Call: Serialize + DeserializeOwned {
    /// Path of the request that carries it.
    const PATH: &'static str;
    /// What comes back when it went well.
    type Answer: Serialize + DeserializeOwned;
}

macro_rules! calls {
    ($($name:ty => $answer:ty, $path:literal;)*) => {
        $(impl Call for $name {
            const PATH: &'static str = $path;
            type Answer = $answer;
        })*
    };
}

mod keyed;
mod queue;

pub use keyed::{Claim, Claimed, Count, Counted, Owner};
pub use queue::{
    Append, Appended, DeadLetters, Drain, ReadDead, ReadDrained, RegisterInbox, ReleaseInbox,
};

calls! {
    Flush => Flushed, "/flush";
    Hello => Grant, "/hello";
    Report => u8, "/report";
    Seal => Option<Part>, "/seal";
    Configure => (), "/configure";
    Suspend => (), "/suspend";
    Close => (), "/close";
    Ask => Option<CellAnswer>, "/ask";
    Sum => DatacenterSum, "/sum";
    Register => Grant, "/register";
    LookUp => Option<Root>, "/look-up";
    Put => PutAnswer, "/put";
    End => Option<Ended>, "/end";
    List => Vec<(CounterId, Root)>, "/list";
    HashKeyCall => [u8; 16], "/hash-key";
    Read => Option<GlobalSum>, "/read";
    ReadMany => Vec<(CounterId, GlobalSum)>, "/read-many";
    ListAll => Vec<CounterId>, "/list-all";
    Measure => Snapshot, "/measure";
}

/// Why a call was not done. It changed nothing, unless it is `Unavailable`, which is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Something that is needed did not answer; says what.
    Unavailable(String),
    /// The cell did not count the flush.
    Refused(Refusal),
    /// The cell counts for this newer generation: the asker must look at the root again.
    Superseded(u64),
    /// More counters than one call may touch.
    TooMany(u32),
    /// The message cannot be read, or storage is broken; says what.
    Broken(String),
}

impl std::error::Error for Fault {}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unavailable(what) => write!(formatter, "unavailable: {what}"),
            Self::Refused(refusal) => write!(formatter, "refused: {refusal:?}"),
            Self::Superseded(generation) => write!(formatter, "generation {generation} has begun"),
            Self::TooMany(most) => write!(formatter, "more than {most} counters"),
            Self::Broken(what) => write!(formatter, "broken: {what}"),
        }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(Refusal::Overflow) => Problem::new(
                Code::CounterOverflow,
                "a total of the counter would pass 2^128 - 1; nothing was counted, send a smaller delta",
            ),
            Fault::TooMany(most) => Problem::new(
                Code::TooManyCounters,
                format!("more than {most} counters would have to be read; ask for a longer prefix"),
            ),
            Fault::Unavailable(what) => Problem::new(
                Code::Unavailable,
                format!("{what}; whether it was counted is unknown to us, try again"),
            ),
            Fault::Refused(_) | Fault::Superseded(_) => Problem::new(
                Code::Unavailable,
                "the counter is busy; nothing was counted, try again",
            ),
            Fault::Broken(what) => Problem::new(Code::Internal, what),
        }
    }
}

/// Edge → cell: count this, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flush {
    /// The cell; an object learns from it who it is.
    pub to: CellAddress,
    /// The flush's name.
    pub nonce: Nonce,
    /// What it carries.
    pub load: Load,
}

/// The cell has counted it, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flushed {
    /// The generation it was counted in.
    pub generation: u64,
    /// The cell's state right after it.
    pub outcome: Outcome,
    /// Totals (added, removed) of all other cells, where none of them counts any more or ever did,
    /// so that the counter's value is known exactly; else `None`.
    pub elsewhere: Option<(Total, Total)>,
    /// Shards that writes of this datacenter spread over now.
    pub shards: u8,
    /// How long the lane should gather before its next flush.
    pub linger_ms: u32,
}

/// Shard → lead: I exist; may I count?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The lead.
    pub to: CellAddress,
    /// The shard that asks.
    pub shard: u8,
}

/// Shard → lead: my load. The answer is the number of shards that writes spread over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The lead.
    pub to: CellAddress,
    /// Flushes a second.
    pub per_second: u32,
}

/// Lead → shard: count nothing until I let you, and give me your part to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The shard.
    pub to: CellAddress,
    /// The generation.
    pub generation: u64,
}

/// Root → lead → shards: the counter's settings, or who else counts, have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configure {
    /// The cell.
    pub to: CellAddress,
    /// What holds now.
    pub grant: Grant,
}

/// Root → lead: this generation is about to end; count nothing for it before asking again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspend {
    /// The lead.
    pub to: CellAddress,
    /// The generation.
    pub generation: u64,
}

/// Root → lead → shards: this generation has ended; drop it, storage included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {
    /// The cell.
    pub to: CellAddress,
    /// The generation that ended.
    pub generation: u64,
}

/// Lead → shard: your part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The shard.
    pub to: CellAddress,
    /// The question.
    pub question: Question,
}

/// One cell's part, with its sketch of the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellAnswer {
    /// The part.
    pub part: Part,
    /// Sketch of the window at rest; empty for none.
    pub window_uniques: Vec<u8>,
}

/// Aggregator or root → lead: sum your datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The lead.
    pub to: CellAddress,
    /// The question.
    pub question: Question,
}

/// A datacenter's sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatacenterSum {
    /// The sum of the shards that answered.
    pub summary: Summary,
    /// What each of them had counted.
    pub cells: Vec<(u8, CellTotals)>,
    /// Shards that writes spread over.
    pub shards: u8,
    /// Shards that did not answer; the sum lacks them.
    pub missing: Vec<u8>,
}

/// Lead → root: my datacenter has a write of this counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter.
    pub datacenter: Datacenter,
}

/// Anyone → root: what do you know?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookUp {
    /// The counter.
    pub counter: CounterId,
}

/// Edge → root: replace the settings, creating the counter if need be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Put {
    /// The counter.
    pub counter: CounterId,
    /// Shards, or `None` for automatic.
    pub shards: Option<u8>,
    /// Time to live in seconds and its mode, or `None` for ever.
    pub ttl: Option<(u64, TtlMode)>,
}

/// The settings are in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutAnswer {
    /// Whether the counter is new.
    pub created: bool,
    /// The settings.
    pub settings: Settings,
    /// Datacenters that could not be told yet; the root keeps trying.
    pub pending: Vec<Datacenter>,
}

/// Edge → root: end the counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The counter.
    pub counter: CounterId,
}

/// The counter has ended; `None` instead where there was none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The generation that ended.
    pub generation: u64,
    /// Datacenters that could not be told yet; the root keeps trying.
    pub pending: Vec<Datacenter>,
}

/// Aggregator → one partition: living counters in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// What their names begin with.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
}

/// Edge → partition 0: the deployment's own key for the hash of unique elements, made once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashKeyCall {}

/// What a client wants to know; the root's generation is added on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Count these seconds: (first, last).
    pub window: Option<(i64, i64)>,
    /// Name these buckets.
    pub history: Option<Range>,
    /// Leave the sketches out.
    pub totals_only: bool,
}

impl Wanted {
    /// The question for the cells of a generation.
    pub fn of(self, generation: u64) -> Question {
        Question {
            generation,
            window: self.window,
            history: self.history,
            totals_only: self.totals_only,
        }
    }
}

/// Edge → aggregator: sum a counter; `None` where it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// The counter.
    pub counter: CounterId,
    /// Only this datacenter.
    pub datacenter: Option<Datacenter>,
    /// What to sum.
    pub wanted: Wanted,
}

/// A counter summed over the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobalSum {
    /// The root that was read.
    pub root: Root,
    /// Each datacenter's sum; `None` for one that did not answer.
    pub datacenters: Vec<(Datacenter, Option<DatacenterSum>)>,
    /// Whether every event is in it that an inbox had acknowledged when the read began.
    pub is_drained: bool,
}

/// Edge → aggregator: sum every counter whose name begins with `prefix`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadMany {
    /// The prefix.
    pub prefix: String,
}

/// Edge → aggregator: names of counters, from all partitions, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAll {
    /// The prefix.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
}

/// Edge → aggregator: the counters of the isolate that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {}

/// Encodes a message. Never fails for the types above: they hold no maps of unknown length.
///
/// # Errors
/// `Broken` should postcard refuse all the same.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, Fault> {
    postcard::to_allocvec(message)
        .map_err(|error| Fault::Broken(format!("a message cannot be encoded: {error}")))
}

/// Decodes a message.
///
/// # Errors
/// `Broken` for bytes that are no such message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    postcard::from_bytes(bytes)
        .map_err(|error| Fault::Broken(format!("a message cannot be decoded: {error}")))
}
