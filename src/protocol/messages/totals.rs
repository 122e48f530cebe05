//! Messages about many counters: their sums, and what partitions of the directory have been told of them, without a call to a counter.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::cluster::total::CounterTotal;
use crate::core::counter::dimensions::DimensionName;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::merge::Range;
use crate::core::counter::total::Value;
use crate::protocol::names::Address;
use crate::protocol::public::Aggregate;

calls! {
    ListRows => Vec<ListedCounter>, "/list-rows", |it| Address::Directory(it.partition);
    ListAll => Listed, "/list-all-rows", |_| Address::Aggregator;
    SumMany => Aggregate, "/sum-many", |_| Address::Aggregator;
    TopOf => PartitionTop, "/top-of", |it| Address::Directory(it.partition);
    AmountOf => Option<TopRow>, "/amount-of", |it| Address::Root(&it.counter);
    AskTop => Top, "/top", |_| Address::Aggregator;
}

/// A counter, and what is known of it where that was asked for.
pub type ListedCounter = (CounterId, Option<KnownTotal>);

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
    /// Name so many counters that have most in them.
    pub top: u32,
    /// Tell the values of this dimension.
    pub by: Option<DimensionName>,
    /// Of those only this one, and how much of it each counter has.
    pub value: Option<String>,
    /// Of this stretch, unix seconds; of all time where there is none.
    pub window: Option<(i64, i64)>,
    /// Ask the leads, however many counters there are.
    pub is_strong: bool,
    /// When the edge began to ask, unix milliseconds.
    pub begun_ms: i64,
}

/// By what counters are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum By {
    /// Their value.
    Value,
    /// What increments added.
    Count,
    /// Their unique elements.
    Uniques,
}

/// Since when what was counted counts: the beginning of an hour or a day, in hours or days of unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Since {
    /// An hour.
    Hour(i64),
    /// A day.
    Day(i64),
}

/// Which counters stand in what order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// What their names begin with.
    pub prefix: String,
    /// By what.
    pub by: By,
    /// Since when; `None` for all time.
    pub since: Option<Since>,
}

/// Aggregator → one partition: the first counters of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopOf {
    /// The partition.
    pub partition: u32,
    /// The order.
    pub order: Order,
    /// At most this many.
    pub limit: u32,
    /// Tell how many have more than this.
    pub above: Option<Value>,
}

/// Aggregator → root: what a counter has in an order; `None` where there is no such counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmountOf {
    /// The counter.
    pub counter: CounterId,
    /// The order.
    pub order: Order,
}

/// Edge → aggregator: the first counters of an order, or where one of them stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskTop {
    /// The order.
    pub order: Order,
    /// At most this many.
    pub limit: u32,
    /// Only this counter, and how many have more.
    pub counter: Option<CounterId>,
}

/// A counter in an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopRow {
    /// The counter.
    pub counter: CounterId,
    /// What it is ordered by; of unique elements their estimate.
    pub amount: Value,
    /// Its unique elements, where it is ordered by them.
    pub uniques: Option<KnownUniques>,
    /// Every write that was acknowledged before is in it, unix milliseconds.
    pub as_of_ms: i64,
}

/// What is known of all counters of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// How many there are, of a window those that counted in it.
    pub counters: u64,
    /// What they have together.
    pub total: Value,
    /// How many have more than was asked for.
    pub above: u64,
    /// The oldest `as_of` of them, unix milliseconds; `None` where there are none.
    pub as_of_ms: Option<i64>,
    /// Since when counts of windows are kept, unix milliseconds; 0 for always.
    pub kept_from_ms: i64,
}

/// The first counters of an order in one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionTop {
    /// The counters, the first one first.
    pub rows: Vec<TopRow>,
    /// All of them.
    pub sums: Sums,
    /// Whether every counter was looked at that the partition has been told of.
    pub is_whole: bool,
}

/// The first counters of an order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Top {
    /// The counters, the first one first.
    pub rows: Vec<TopRow>,
    /// All of them.
    pub sums: Sums,
    /// Partitions of which not every counter was looked at.
    pub missing_partitions: Vec<u32>,
}

impl Sums {
    /// Adds what another partition knows.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let as_of_ms = self.as_of_ms.into_iter().chain(other.as_of_ms).min();
        Self {
            counters: self.counters + other.counters,
            total: self.total.plus(other.total),
            above: self.above + other.above,
            as_of_ms,
            kept_from_ms: self.kept_from_ms.max(other.kept_from_ms),
        }
    }
}

/// Counters of all partitions that answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The counters, in order of their names.
    pub rows: Vec<ListedCounter>,
    /// The partitions that did not answer: their counters are left out.
    pub missing_partitions: Vec<u32>,
}
