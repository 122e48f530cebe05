//! Messages about many counters: their sums, and what partitions of the directory know of them without calling any
//! counter.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::names::Address;
use tally_core::cluster::top_order::{KnownTotal, TopOrder, TopRow};
use tally_core::counter::id::CounterId;
use tally_core::counter::total::Value;

calls! {
    ListRows => Vec<ListedCounter>, "/list-rows", |it| Address::Directory(it.partition);
    ListAll => CounterList, "/list-all-rows", |_| Address::Aggregator;
    TopOf => PartitionTop, "/top-of", |it| Address::Directory(it.partition);
    AmountOf => Option<TopRow>, "/amount-of", |it| Address::Root(&it.counter);
    AskTop => Top, "/top", |_| Address::Aggregator;
}

/// A counter, and its known totals where those were asked for.
pub type ListedCounter = (CounterId, Option<KnownTotal>);

/// Aggregator → one partition: living counters in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRows {
    /// The partition.
    pub partition: u32,
    /// The prefix of their names.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// The most counters.
    pub limit: u32,
    /// Whether to include the known totals of each.
    pub values: bool,
}

/// Edge → aggregator: counters of all partitions in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAll {
    /// The prefix of their names.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// The most counters.
    pub limit: u32,
    /// Whether to include the known totals of each.
    pub values: bool,
}

/// Aggregator → one partition: asks for the first counters of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopOf {
    /// The partition.
    pub partition: u32,
    /// The order.
    pub order: TopOrder,
    /// The most counters.
    pub limit: u32,
    /// Count the counters that have more than this.
    pub above: Option<Value>,
}

/// Aggregator → root: asks for a counter's amount in an order; `None` where there is no such counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmountOf {
    /// The counter.
    pub counter: CounterId,
    /// The order.
    pub order: TopOrder,
}

/// Edge → aggregator: asks for the first counters of an order, or for the rank of one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskTop {
    /// The order.
    pub order: TopOrder,
    /// The most counters.
    pub limit: u32,
    /// Only this counter, and how many have more than it.
    pub counter: Option<CounterId>,
    /// The first and the last second of a window that the directory does not store: leads are asked.
    pub range: Option<(i64, i64)>,
}

/// Sums over all counters of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// How many counters there are; in a window, how many counted in it.
    pub counters: u64,
    /// The sum of their amounts.
    pub total: Value,
    /// How many have more than the amount in the question.
    pub above: u64,
    /// The oldest `as_of` of them, unix milliseconds; `None` where there are none.
    pub as_of_ms: Option<i64>,
    /// Since when the days of the range are kept, unix milliseconds; 0 for all of it.
    pub kept_from_ms: i64,
}

/// The first counters of an order in one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionTop {
    /// The counters, in order.
    pub rows: Vec<TopRow>,
    /// Sums over all of them.
    pub sums: Sums,
}

/// The first counters of an order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Top {
    /// The counters, in order.
    pub rows: Vec<TopRow>,
    /// Sums over all of them.
    pub sums: Sums,
    /// The partitions that did not answer: their counters are missing.
    pub missing_partitions: Vec<u32>,
    /// The counters that were not read, where counters were read.
    pub omitted: Option<UnreadCounters>,
    /// The most cells that were asked for it.
    pub cells: u64,
}

/// Counters that were not read, and upper bounds of their counts in the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadCounters {
    /// How many.
    pub counters: u64,
    /// The bound of the sum of their counts.
    pub count_max: Value,
    /// The bound of the count of each.
    pub each_max: Value,
}

impl Sums {
    /// Adds the sums of another partition.
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
pub struct CounterList {
    /// The counters, in order of their names.
    pub rows: Vec<ListedCounter>,
    /// The partitions that did not answer: their counters are missing.
    pub missing_partitions: Vec<u32>,
}
