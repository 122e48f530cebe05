//! The sum of all counters with a common prefix.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::breakdown::{BreakdownView, SpanView, Subject};
use super::counter_view::{Freshness, Point, SummedCounter, points_of, step_name};
use super::number::Exact;
use super::to_json;
use super::top::{OmittedView, share};
use crate::fields::{
    CountValue, Exactness, MissingPartitions, Moment, Staleness, Total, moment_of,
};
use crate::messages::{GlobalSum, Sums, Top, TopRow, UnreadCounters};
use crate::query::{BreakdownQuery, HistoryFormat};
use tally_core::counter::breakdown::{Breakdown, join_breakdowns};
use tally_core::counter::id::CounterId;
use tally_core::counter::merge::Range;
use tally_core::counter::total::{Sum, Value};
use tally_core::order::in_order;
use tally_core::sketch::ValueCount;

/// The sum of all counters with a common prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregate {
    counters: u64,
    value: Value,
    is_complete: bool,
    begun_ms: i64,
    as_of_ms: i64,
    /// Non-empty buckets, where they were asked for.
    points: BTreeMap<i64, u128>,
    kept_from: i64,
    /// The most counters listed in `top`.
    top_max: u32,
    /// The counters that have most. Of each: its amount in the points, or its count of the named value; its id; and by
    /// how much the amount may be too low.
    top: BTreeSet<(Reverse<u128>, CounterId, u128)>,
    /// The value of a dimension that was asked for, and its sum over all counters.
    value_named: Option<String>,
    of_value: ValueCount,
    /// The sum of increments.
    added: Sum,
    /// The sum of those in the window.
    in_window: u128,
    /// The breakdown that was asked for, at rest; empty for nothing.
    breakdown: Vec<u8>,
    /// The most cells that were asked.
    cells: u64,
    missing_partitions: Vec<u32>,
    /// The counters that were not read.
    omitted: Option<UnreadCounters>,
}

#[derive(Serialize)]
struct RowView<'a> {
    id: &'a CounterId,
    /// How much it counted with this value at least.
    count: CountValue,
    /// Which part of `total` it is.
    share: Option<f64>,
    /// How much more it may be; left out for 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CountValue>,
}

#[derive(Serialize)]
struct ValueView<'a> {
    prefix: &'a str,
    /// How many were summed.
    counters: u64,
    by: &'a str,
    value: &'a str,
    window: SpanView,
    /// Since when days are kept, where that is after the beginning of the window.
    kept_from_at: Option<Moment>,
    /// How much was counted with this value at least, by all counters.
    total: CountValue,
    /// How much more it may be.
    error: CountValue,
    /// The counters that have most of it, the first one first.
    rows: Vec<RowView<'a>>,
    /// What counters that are not in `rows` have of it.
    other: CountValue,
    exact: Exactness,
    as_of: Moment,
    staleness_ms: Staleness,
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    missing_partitions: MissingPartitions<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<OmittedView>,
}

impl Aggregate {
    /// The age of the sum at a moment, milliseconds; at least 0, also if clocks differ.
    fn staleness_ms(&self, now_ms: i64) -> i64 {
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

    /// Adds a counter.
    pub fn add(&mut self, id: &CounterId, sum: &GlobalSum) {
        let freshness = Freshness {
            as_of_ms: self.begun_ms,
            now_ms: self.begun_ms,
            fresh: true,
        };
        let counter = SummedCounter::new(id, sum, freshness);
        self.counters += 1;
        self.value = self.value.plus(counter.value());
        self.is_complete = self.is_complete && counter.is_exact();
        self.as_of_ms = self.as_of_ms.min(counter.as_of_ms());
        self.cells = self.cells.saturating_add(sum.cells());
        let mut counted = counter.window_count();
        for (start, count) in counter.points() {
            let held = self.points.entry(*start).or_insert(0);
            *held = held.saturating_add(*count);
            counted = counted.saturating_add(*count);
        }
        self.kept_from = self.kept_from.max(counter.kept_from());
        let mut breakdown = counter.total.breakdown.clone();
        let mut error = 0;
        if let Some(value) = &self.value_named {
            // The other values are not in the answer.
            let of_value = Breakdown::from_rest(&std::mem::take(&mut breakdown)).values;
            let of_value = of_value.get(value);
            (counted, error) = (of_value.count, of_value.error);
            self.of_value.count = self.of_value.count.saturating_add(counted);
            self.of_value.error = self.of_value.error.saturating_add(error);
        }
        self.added = self.added.plus(counter.total.added());
        self.in_window = self.in_window.saturating_add(counter.window_count());
        join_breakdowns(&mut self.breakdown, breakdown);
        if self.top_max > 0 && counted > 0 {
            self.top.insert((Reverse(counted), id.clone(), error));
            if self.top.len() > usize::try_from(self.top_max).unwrap_or(usize::MAX) {
                self.top.pop_last();
            }
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

    /// The JSON of `GET /counters/{prefix}*/aggregate`; `is_fresh` says that the fetch began after the reader had
    /// asked.
    pub fn to_json(&self, prefix: &str, is_fresh: bool, now_ms: i64, strings: bool) -> String {
        #[derive(Serialize)]
        struct AggregateView<'a> {
            prefix: &'a str,
            /// How many were summed.
            counters: u64,
            value: Total,
            exact: Exactness,
            as_of: Moment,
            staleness_ms: Staleness,
            #[serde(skip_serializing_if = "<[u32]>::is_empty")]
            missing_partitions: MissingPartitions<'a>,
        }
        to_json(&AggregateView {
            prefix,
            counters: self.counters,
            value: Exact::new(self.value, strings),
            exact: is_fresh && self.is_complete,
            as_of: self.as_of_ms,
            staleness_ms: self.staleness_ms(now_ms),
            missing_partitions: &self.missing_partitions,
        })
    }

    /// The JSON of `GET /counters/{prefix}*/aggregate/breakdown`.
    pub fn breakdown_json(
        &self,
        prefix: &str,
        query: &BreakdownQuery,
        is_fresh: bool,
        now_ms: i64,
        strings: bool,
    ) -> String {
        let subject = Subject {
            prefix: Some(prefix),
            counters: Some(self.counters),
            missing_partitions: &self.missing_partitions,
            omitted: self.omitted,
            is_exact: is_fresh && self.is_complete,
            as_of_ms: self.as_of_ms,
            staleness_ms: self.staleness_ms(now_ms),
            kept_from: self.kept_from,
            ..Subject::default()
        };
        let counted = match query.window {
            Some(_) => Value::new(self.in_window, 0),
            None => Value::new(self.added, 0),
        };
        BreakdownView::json(subject, (counted, &self.breakdown), query, strings)
    }

    /// The JSON of `GET /counters/{prefix}*/aggregate/breakdown` of one value: the counters that have it.
    pub fn value_json(
        &self,
        prefix: &str,
        query: &BreakdownQuery,
        is_fresh: bool,
        now_ms: i64,
        strings: bool,
    ) -> String {
        let of = |count: u128| Value::new(count, 0);
        let exact = |count: u128| Exact::new(of(count), strings);
        let ValueCount { count, error } = self.of_value;
        let shown = self.top.iter().fold(0_u128, |sum, (Reverse(count), ..)| {
            sum.saturating_add(*count)
        });
        let rows = self.top.iter().map(|(Reverse(own), id, error)| RowView {
            id,
            count: exact(*own),
            share: share(of(*own), of(count)),
            error: (*error > 0).then(|| exact(*error)),
        });
        to_json(&ValueView {
            prefix,
            counters: self.counters,
            by: query.by.as_str(),
            value: self.value_named.as_deref().unwrap_or_default(),
            window: SpanView::of(query),
            kept_from_at: query.kept_after(self.kept_from).map(moment_of),
            total: exact(count),
            error: exact(error),
            rows: rows.collect(),
            other: exact(count.saturating_sub(shown)),
            exact: is_fresh && self.is_complete && error == 0,
            as_of: self.as_of_ms,
            staleness_ms: self.staleness_ms(now_ms),
            missing_partitions: &self.missing_partitions,
            omitted: OmittedView::of(self.omitted, strings),
        })
    }

    /// The JSON of `GET /counters/{prefix}*/aggregate/history`.
    pub fn history_json<'a>(
        &'a self,
        prefix: &'a str,
        range: Range,
        is_fresh: bool,
        now_ms: i64,
        format: HistoryFormat,
    ) -> String {
        #[derive(Serialize)]
        struct TopView<'a> {
            id: &'a CounterId,
            count: CountValue,
        }
        #[derive(Serialize)]
        struct HistoryView<'a> {
            prefix: &'a str,
            /// How many were summed.
            counters: u64,
            step: &'static str,
            /// Since when points of this step are complete; `null` where nothing was let go.
            kept_from_at: Option<Moment>,
            exact: Exactness,
            as_of: Moment,
            staleness_ms: Staleness,
            #[serde(skip_serializing_if = "<[u32]>::is_empty")]
            missing_partitions: MissingPartitions<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            omitted: Option<OmittedView>,
            points: Vec<Point>,
            /// The counters that have most in the points, where `top` asks for them; those without any are left out.
            #[serde(skip_serializing_if = "Option::is_none")]
            top: Option<Vec<TopView<'a>>>,
        }
        let row = |(Reverse(count), id, _): &'a (Reverse<u128>, CounterId, u128)| TopView {
            id,
            count: Exact::new(Value::new(*count, 0), format.strings),
        };
        to_json(&HistoryView {
            prefix,
            counters: self.counters,
            step: step_name(range),
            kept_from_at: (self.kept_from != i64::MIN).then(|| moment_of(self.kept_from)),
            exact: is_fresh && self.is_complete,
            as_of: self.as_of_ms,
            staleness_ms: self.staleness_ms(now_ms),
            missing_partitions: &self.missing_partitions,
            omitted: OmittedView::of(self.omitted, format.strings),
            points: points_of(&self.points, self.kept_from, range, format),
            top: (self.top_max > 0).then(|| self.top.iter().map(row).collect()),
        })
    }
}
