//! Messages about many counters: their sums, and what partitions of the directory have been told of them, without a call to a counter.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::cluster::total::CounterTotal;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::merge::Range;
use crate::protocol::names::Address;
use crate::protocol::public::Aggregate;

calls! {
    ListRows => Vec<Row>, "/list-rows", |it| Address::Directory(it.partition);
    ListAll => Listed, "/list-all-rows", |_| Address::Aggregator;
    SumMany => Aggregate, "/sum-many", |_| Address::Aggregator;
}

/// A counter, and what is known of it where that was asked for.
pub type Row = (CounterId, Option<KnownTotal>);

/// What a partition has been told of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KnownTotal {
    /// Its totals.
    pub total: CounterTotal,
    /// Its unique elements of all time, if there are any.
    pub uniques: Option<KnownUniques>,
}

/// An estimate of unique elements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownUniques {
    /// The estimate, to the nearest whole element.
    pub estimate: u64,
    /// Its standard error, in elements.
    pub standard_error: f64,
    /// Of how many epochs it is the sum.
    pub epochs: u64,
}

/// Aggregator → one partition: living counters in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRows {
    /// The partition.
    pub partition: u32,
    /// What their names begin with.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
    /// Whether to tell what is known of each.
    pub values: bool,
}

/// Edge → aggregator: counters of all partitions in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAll {
    /// What their names begin with.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
    /// Whether to tell what is known of each.
    pub values: bool,
}

/// Edge → aggregator: sum every counter whose name begins with `prefix`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SumMany {
    /// The prefix.
    pub prefix: String,
    /// Only what this datacenter has counted.
    pub datacenter: Option<Datacenter>,
    /// Name these buckets.
    pub history: Option<Range>,
    /// When the edge began to ask, unix milliseconds.
    pub begun_ms: i64,
}

/// Counters of all partitions that answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The counters, in order of their names.
    pub rows: Vec<Row>,
    /// The partitions that did not answer: their counters are left out.
    pub missing_partitions: Vec<u32>,
}
