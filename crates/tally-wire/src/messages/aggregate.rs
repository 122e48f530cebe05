//! The sum of all counters with a common prefix, as the aggregator makes it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::totals::{Sums, Top, UnreadCounters};
use crate::names::Address;
use tally_core::cluster::top_order::TopRow;
use tally_core::counter::dimensions::DimensionName;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::Range;
use tally_core::counter::total::{Sum, Value};
use tally_core::order::in_order;
use tally_core::sketch::ValueCount;

calls! {
    SumMany => Aggregate, "/sum-many", |_| Address::Aggregator;
}

/// Edge → aggregator: sums every counter whose name begins with `prefix`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SumMany {
    /// The prefix.
    pub prefix: String,
    /// Only the counts of this datacenter.
    pub datacenter: Option<Datacenter>,
    /// Return these buckets.
    pub history: Option<Range>,
    /// List up to so many counters with the largest counts in these buckets.
    pub top: u32,
    /// Return the values of this dimension.
    pub by: Option<DimensionName>,
    /// Return only this value of the dimension, and the count of it in each counter.
    pub value: Option<String>,
    /// Within these unix seconds; of all time where missing.
    pub window: Option<(i64, i64)>,
    /// Ask the leads, for any number of counters.
    pub is_strong: bool,
    /// When the edge sent it, unix milliseconds.
    pub begun_ms: i64,
}

/// The sum of all counters with a common prefix. Part of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregate {
    /// The number of counters.
    pub counters: u64,
    /// Their value.
    pub value: Value,
    /// Whether each of them is exact.
    pub is_complete: bool,
    /// When the fetch began, unix milliseconds.
    pub begun_ms: i64,
    /// Every write acknowledged before this moment is included, unix milliseconds.
    pub as_of_ms: i64,
    /// Non-empty buckets, where they were asked for.
    pub points: BTreeMap<i64, u128>,
    /// The second from which the points are complete.
    pub kept_from: i64,
    /// The most counters listed in `top`.
    pub top_max: u32,
    /// The counters that have most. Of each: its amount in the points, or its count of the named value; its id; and by
    /// how much the amount may be too low.
    pub top: BTreeSet<(Reverse<u128>, CounterId, u128)>,
    /// The value of a dimension that was asked for.
    pub value_named: Option<String>,
    /// Its sum over all counters.
    pub of_value: ValueCount,
    /// The sum of increments.
    pub added: Sum,
    /// The sum of those in the window.
    pub in_window: u128,
    /// The breakdown that was asked for, at rest; empty for nothing.
    pub breakdown: Vec<u8>,
    /// The most cells that were asked.
    pub cells: u64,
    /// Partitions of the directory whose counters are missing.
    pub missing_partitions: Vec<u32>,
    /// The counters that were not read.
    pub omitted: Option<UnreadCounters>,
}

impl Aggregate {
    /// The age of the sum at a moment, milliseconds; at least 0, also if clocks differ.
    pub fn staleness_ms(&self, now_ms: i64) -> i64 {
        now_ms.saturating_sub(self.as_of_ms).max(0)
    }

    /// The sum of no counters yet, of a fetch that began at `begun_ms`. It lists up to `top_max` counters that have
    /// most; where a value of a dimension is given, the counters that have most of this value.
    pub fn new(begun_ms: i64, top_max: u32, value_named: Option<String>) -> Self {
        Self {
            counters: 0,
            value: Value::default(),
            is_complete: true,
            begun_ms,
            as_of_ms: begun_ms,
            points: BTreeMap::new(),
            kept_from: i64::MIN,
            top_max,
            top: BTreeSet::new(),
            value_named,
            of_value: ValueCount::default(),
            added: Sum::ZERO,
            in_window: 0,
            breakdown: Vec::new(),
            cells: 0,
            missing_partitions: Vec::new(),
            omitted: None,
        }
    }

    /// The sum of all counters from the pushes that partitions have stored, without a call to any.
    pub fn known(begun_ms: i64, sums: Sums) -> Self {
        Self {
            counters: sums.counters,
            value: sums.total,
            is_complete: false,
            as_of_ms: sums
                .as_of_ms
                .map_or(begun_ms, |as_of_ms| as_of_ms.min(begun_ms)),
            ..Self::new(begun_ms, 0, None)
        }
    }

    /// Adds partitions of the directory whose counters are missing. The answer promises nothing about these counters.
    pub fn lacks(&mut self, partitions: impl IntoIterator<Item = u32>) {
        self.missing_partitions.extend(partitions);
        if !self.missing_partitions.is_empty() {
            self.is_complete = false;
            self.as_of_ms = 0;
            let missing = std::mem::take(&mut self.missing_partitions);
            self.missing_partitions = in_order(missing, Ord::cmp);
            self.missing_partitions.dedup();
        }
    }

    /// Adds the counters that were not read. `as_of_ms` is the time of what the directory knows of them.
    pub fn leaves(&mut self, omitted: Option<UnreadCounters>, as_of_ms: i64) {
        self.omitted = omitted;
        self.is_complete = false;
        self.as_of_ms = self.as_of_ms.min(as_of_ms);
    }

    /// The count of the counter of a rank, from 1; `None` where there are fewer counters.
    pub fn count_at(&self, rank: u32) -> Option<u128> {
        let before = usize::try_from(rank.checked_sub(1)?).ok()?;
        let last = self.top.iter().nth(before);
        last.map(|(Reverse(count), ..)| *count)
    }

    /// The first `limit` counters of a range that begins at the second `from`, and the sum of all counters that were
    /// read. If a counter and its count are given, only the row of that counter.
    pub fn into_top(mut self, from: i64, limit: u32, counter: Option<(CounterId, u128)>) -> Top {
        if let Some((counter, count)) = &counter {
            self.add_own(counter, *count);
        }
        let amount = |count: u128| Value::new(count, 0);
        let row = |counter: CounterId, count: u128| TopRow {
            counter,
            amount: amount(count),
            uniques: None,
            as_of_ms: self.as_of_ms,
        };
        let than = counter.as_ref().map_or(u128::MAX, |(_, count)| *count);
        let above = self.top.iter().filter(|(Reverse(count), ..)| *count > than);
        let sums = Sums {
            counters: self.top.len().try_into().unwrap_or(u64::MAX),
            total: amount(self.in_window),
            above: above.count().try_into().unwrap_or(u64::MAX),
            as_of_ms: Some(self.as_of_ms),
            kept_from_ms: match self.kept_from > from {
                true => self.kept_from.saturating_mul(1_000),
                false => 0,
            },
        };
        let rows_max = usize::try_from(limit).unwrap_or(usize::MAX);
        let rows = match counter {
            Some((counter, count)) => vec![row(counter, count)],
            None => (self.top.into_iter().take(rows_max))
                .map(|(Reverse(count), counter, _)| row(counter, count))
                .collect(),
        };
        Top {
            rows,
            sums,
            missing_partitions: self.missing_partitions,
            omitted: self.omitted,
            cells: self.cells,
        }
    }

    /// Adds a counter that was read by itself, unless it is among those that were read.
    fn add_own(&mut self, counter: &CounterId, count: u128) {
        if count == 0 || self.top.iter().any(|(_, id, _)| id == counter) {
            return;
        }
        self.top.insert((Reverse(count), counter.clone(), 0));
        self.in_window = self.in_window.saturating_add(count);
        if let Some(omitted) = &mut self.omitted {
            omitted.counters = omitted.counters.saturating_sub(1);
            omitted.count_max = omitted.count_max.without(count, 0);
        }
        self.omitted = self.omitted.filter(|omitted| omitted.counters > 0);
    }

    /// The most cells that were asked for it.
    pub fn cells(&self) -> u64 {
        self.cells
    }
}
