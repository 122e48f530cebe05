//! The sum of all counters with a common prefix.

use std::cmp::Reverse;

use serde::Serialize;

use super::breakdown::{BreakdownView, SpanView, Subject};
use super::counter_view::{Freshness, Point, SummedCounter, points_of, step_name};
use super::top::{OmittedView, share};
use crate::fields::{
    CountValue, Exactness, MissingPartitions, Moment, Staleness, Total, moment_of,
};
use crate::json::to_json;
use crate::number::Exact;
use crate::query::{BreakdownQuery, HistoryFormat};
use tally_core::counter::breakdown::{Breakdown, join_breakdowns};
use tally_core::counter::id::CounterId;
use tally_core::counter::merge::Range;
use tally_core::counter::total::Value;
use tally_core::sketch::ValueCount;
use tally_wire::messages::{Aggregate, GlobalSum};

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

/// Adds a counter to the sum.
pub fn add_counter(aggregate: &mut Aggregate, id: &CounterId, sum: &GlobalSum) {
    let freshness = Freshness {
        as_of_ms: aggregate.begun_ms,
        now_ms: aggregate.begun_ms,
        fresh: true,
    };
    let counter = SummedCounter::new(id, sum, freshness);
    aggregate.counters += 1;
    aggregate.value = aggregate.value.plus(counter.value());
    aggregate.is_complete = aggregate.is_complete && counter.is_exact();
    aggregate.as_of_ms = aggregate.as_of_ms.min(counter.as_of_ms());
    aggregate.cells = aggregate.cells.saturating_add(sum.cells());
    let mut counted = counter.window_count();
    for (start, count) in counter.points() {
        let held = aggregate.points.entry(*start).or_insert(0);
        *held = held.saturating_add(*count);
        counted = counted.saturating_add(*count);
    }
    aggregate.kept_from = aggregate.kept_from.max(counter.kept_from());
    let mut breakdown = counter.total.breakdown.clone();
    let mut error = 0;
    if let Some(value) = &aggregate.value_named {
        // The other values are not in the answer.
        let of_value = Breakdown::from_rest(&std::mem::take(&mut breakdown)).values;
        let of_value = of_value.get(value);
        (counted, error) = (of_value.count, of_value.error);
        aggregate.of_value.count = aggregate.of_value.count.saturating_add(counted);
        aggregate.of_value.error = aggregate.of_value.error.saturating_add(error);
    }
    aggregate.added = aggregate.added.plus(counter.total.added());
    aggregate.in_window = aggregate.in_window.saturating_add(counter.window_count());
    join_breakdowns(&mut aggregate.breakdown, breakdown);
    if aggregate.top_max > 0 && counted > 0 {
        aggregate.top.insert((Reverse(counted), id.clone(), error));
        if aggregate.top.len() > usize::try_from(aggregate.top_max).unwrap_or(usize::MAX) {
            aggregate.top.pop_last();
        }
    }
}

/// The JSON of `GET /counters/{prefix}*/aggregate`; `is_fresh` says that the fetch began after the reader had
/// asked.
pub fn aggregate_json(
    aggregate: &Aggregate,
    prefix: &str,
    is_fresh: bool,
    now_ms: i64,
    strings: bool,
) -> String {
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
        counters: aggregate.counters,
        value: Exact::new(aggregate.value, strings),
        exact: is_fresh && aggregate.is_complete,
        as_of: aggregate.as_of_ms,
        staleness_ms: aggregate.staleness_ms(now_ms),
        missing_partitions: &aggregate.missing_partitions,
    })
}

/// The JSON of `GET /counters/{prefix}*/aggregate/breakdown`.
pub fn prefix_breakdown_json(
    aggregate: &Aggregate,
    prefix: &str,
    query: &BreakdownQuery,
    is_fresh: bool,
    now_ms: i64,
    strings: bool,
) -> String {
    let subject = Subject {
        prefix: Some(prefix),
        counters: Some(aggregate.counters),
        missing_partitions: &aggregate.missing_partitions,
        omitted: aggregate.omitted,
        is_exact: is_fresh && aggregate.is_complete,
        as_of_ms: aggregate.as_of_ms,
        staleness_ms: aggregate.staleness_ms(now_ms),
        kept_from: aggregate.kept_from,
        ..Subject::default()
    };
    let counted = match query.window {
        Some(_) => Value::new(aggregate.in_window, 0),
        None => Value::new(aggregate.added, 0),
    };
    BreakdownView::json(subject, (counted, &aggregate.breakdown), query, strings)
}

/// The JSON of `GET /counters/{prefix}*/aggregate/breakdown` of one value: the counters that have it.
pub fn prefix_value_json(
    aggregate: &Aggregate,
    prefix: &str,
    query: &BreakdownQuery,
    is_fresh: bool,
    now_ms: i64,
    strings: bool,
) -> String {
    let of = |count: u128| Value::new(count, 0);
    let exact = |count: u128| Exact::new(of(count), strings);
    let ValueCount { count, error } = aggregate.of_value;
    let shown = aggregate
        .top
        .iter()
        .fold(0_u128, |sum, (Reverse(count), ..)| {
            sum.saturating_add(*count)
        });
    let rows = aggregate
        .top
        .iter()
        .map(|(Reverse(own), id, error)| RowView {
            id,
            count: exact(*own),
            share: share(of(*own), of(count)),
            error: (*error > 0).then(|| exact(*error)),
        });
    to_json(&ValueView {
        prefix,
        counters: aggregate.counters,
        by: query.by.as_str(),
        value: aggregate.value_named.as_deref().unwrap_or_default(),
        window: SpanView::of(query),
        kept_from_at: query.kept_after(aggregate.kept_from).map(moment_of),
        total: exact(count),
        error: exact(error),
        rows: rows.collect(),
        other: exact(count.saturating_sub(shown)),
        exact: is_fresh && aggregate.is_complete && error == 0,
        as_of: aggregate.as_of_ms,
        staleness_ms: aggregate.staleness_ms(now_ms),
        missing_partitions: &aggregate.missing_partitions,
        omitted: OmittedView::of(aggregate.omitted, strings),
    })
}

/// The JSON of `GET /counters/{prefix}*/aggregate/history`.
pub fn prefix_history_json<'a>(
    aggregate: &'a Aggregate,
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
        counters: aggregate.counters,
        step: step_name(range),
        kept_from_at: (aggregate.kept_from != i64::MIN).then(|| moment_of(aggregate.kept_from)),
        exact: is_fresh && aggregate.is_complete,
        as_of: aggregate.as_of_ms,
        staleness_ms: aggregate.staleness_ms(now_ms),
        missing_partitions: &aggregate.missing_partitions,
        omitted: OmittedView::of(aggregate.omitted, format.strings),
        points: points_of(&aggregate.points, aggregate.kept_from, range, format),
        top: (aggregate.top_max > 0).then(|| aggregate.top.iter().map(row).collect()),
    })
}
