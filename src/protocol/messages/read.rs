//! Messages of reading and listing: from the edge to the aggregator, and from there to the roots.

use serde::{Deserialize, Serialize};

use super::{Call, DatacenterSum};
use crate::cluster::root::Root;
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::merge::{Question, Range};
use crate::protocol::metrics::Snapshot;

calls! {
    List => Vec<(CounterId, Root)>, "/list";
    Read => Option<GlobalSum>, "/read";
    ReadMany => Vec<(CounterId, GlobalSum)>, "/read-many";
    ListAll => Vec<CounterId>, "/list-all";
    Measure => Snapshot, "/measure";
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
