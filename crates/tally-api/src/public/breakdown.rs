//! The counts of a dimension's values, in answers.
//!
//! Invariant: the counts of all rows, of the other values and of writes without a value add up to the counter's count
//! of that time. A value that is in no row was counted at most `other.each_max`, and all such values together at most
//! `other.count`.

use serde::Serialize;

use super::counter_view::SummedCounter;
use super::top::{OmittedView, share};
use crate::fields::{
    CountValue, Exactness, MissingPartitions, Moment, Staleness, end_of, moment_of,
};
use crate::json::to_json;
use crate::number::Exact;
use crate::query::BreakdownQuery;
use tally_core::counter::breakdown::Breakdown;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::Part;
use tally_core::counter::total::Value;
use tally_core::order::in_order;
use tally_core::sketch::ValueCount;
use tally_wire::messages::UnreadCounters;
use tally_wire::names::policy::PolicyName;

#[derive(Serialize)]
pub(super) struct SpanView {
    /// Where the first hour or day begins; `null` for all time.
    starts_at: Option<Moment>,
    /// Where the last hour or day ends, or this second.
    ends_at: Moment,
}

impl SpanView {
    pub(super) fn of(query: &BreakdownQuery) -> Self {
        Self {
            starts_at: query.window.map(|(from, _)| moment_of(from)),
            // By a clock that is behind the caller's, the window may not have begun.
            ends_at: end_of(
                query
                    .window
                    .map_or(query.now, |(from, to)| to.min(query.now).max(from)),
            ),
        }
    }
}

#[derive(Serialize)]
struct RowView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    /// As it was sent; a network in the place of an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// How much was counted at least.
    count: CountValue,
    /// Which part of `total` it is; `null` where that says nothing.
    share: Option<f64>,
    /// How much more it may be; left out for 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CountValue>,
}

#[derive(Serialize)]
struct OtherView {
    /// What was counted of values that are not in `rows`.
    count: CountValue,
    /// How much of it may be of values in `rows`.
    error: CountValue,
    /// How much was counted at most of any one value that is not in `rows`.
    each_max: CountValue,
}

#[derive(Serialize)]
pub(super) struct DatacenterCountView<'a> {
    id: &'a Datacenter,
    count: CountValue,
    /// Whether it reported all that it counted.
    reachable: bool,
}

/// The subject of a breakdown, and its accuracy.
#[derive(Default)]
pub(super) struct Subject<'a> {
    pub(super) id: Option<&'a CounterId>,
    pub(super) prefix: Option<&'a str>,
    pub(super) counters: Option<u64>,
    /// The policy whose refused keys are listed.
    pub(super) policy: Option<&'a PolicyName>,
    pub(super) missing_partitions: &'a [u32],
    pub(super) omitted: Option<UnreadCounters>,
    pub(super) datacenters: Option<Vec<DatacenterCountView<'a>>>,
    pub(super) is_exact: bool,
    pub(super) as_of_ms: i64,
    pub(super) staleness_ms: i64,
    pub(super) kept_from: i64,
}

#[derive(Serialize)]
pub(super) struct BreakdownView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a CounterId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a str>,
    /// How many were summed.
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a PolicyName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    window: SpanView,
    /// Since when days are kept, where that is after the beginning of the window.
    kept_from_at: Option<Moment>,
    /// What increments added in the window: all `count`s, the count of `other`, and `none` together.
    total: CountValue,
    /// How many values are known by name: 1,000 at most.
    values: usize,
    /// The values that were counted most, the first one first.
    rows: Vec<RowView<'a>>,
    other: OtherView,
    /// What was counted by increments without this dimension.
    none: CountValue,
    /// The names of all dimensions of the counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<&'a [String]>,
    exact: Exactness,
    as_of: Moment,
    staleness_ms: Staleness,
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    missing_partitions: MissingPartitions<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<OmittedView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    datacenters: Option<Vec<DatacenterCountView<'a>>>,
}

/// The rows of an answer: by count, the largest first, then by name.
fn in_turn(breakdown: &Breakdown) -> Vec<(&str, ValueCount)> {
    let mut rows = Vec::with_capacity(breakdown.values.len());
    rows.extend(breakdown.values.values());
    // They come in order of their names, and the sort keeps the order of equal ones.
    in_order(rows, |one, other| other.1.count.cmp(&one.1.count))
}

/// The sum of increments in the time of a breakdown.
fn counted(total: &Part, query: &BreakdownQuery) -> Value {
    match query.window {
        Some(_) => Value::new(total.window.count, 0),
        None => Value::new(total.added(), 0),
    }
}

impl BreakdownView<'_> {
    /// The JSON of a breakdown of a sum.
    pub(super) fn json(
        subject: Subject<'_>,
        (counted, breakdown): (Value, &[u8]),
        query: &BreakdownQuery,
        strings: bool,
    ) -> String {
        let breakdown = Breakdown::from_rest(breakdown);
        let exact = |value: Value| Exact::new(value, strings);
        let of = |count: u128| Value::new(count, 0);
        let sum_of_values = of(breakdown.values.sum());
        // The import of a counter that was set brings values that were counted before the set, but not the count of
        // that time.
        let total = counted.or_more(sum_of_values);
        let mut rows = in_turn(&breakdown);
        let hidden = rows.split_off(rows.len().min(query.limit));
        let sum = |rows: &[(&str, ValueCount)], part: fn(&ValueCount) -> u128| {
            let parts = rows.iter().map(|(_, row)| part(row));
            parts.fold(0, u128::saturating_add)
        };
        let rest = breakdown.values.rest();
        let other = sum(&hidden, |row| row.count).saturating_add(rest);
        let of_shown = sum(&rows, |row| row.error).min(rest);
        let has_values = subject.policy.is_none();
        let absent_max = breakdown.values.absent_max();
        let hidden_max = hidden.iter().map(|(_, row)| row.count_max()).max();
        let each_max = absent_max.max(hidden_max.unwrap_or(0)).min(other);
        to_json(&BreakdownView {
            id: subject.id,
            prefix: subject.prefix,
            counters: subject.counters,
            policy: subject.policy,
            by: has_values.then(|| query.by.as_str()),
            window: SpanView::of(query),
            kept_from_at: query.kept_after(subject.kept_from).map(moment_of),
            total: exact(total),
            values: breakdown.values.len(),
            rows: rows
                .iter()
                .map(|(value, row)| RowView {
                    value: has_values.then_some(value),
                    key: (!has_values).then_some(value),
                    count: exact(of(row.count)),
                    share: share(of(row.count), total),
                    error: (row.error > 0).then(|| exact(of(row.error))),
                })
                .collect(),
            other: OtherView {
                count: exact(of(other)),
                error: exact(of(of_shown)),
                each_max: exact(of(each_max)),
            },
            none: exact(total.plus(sum_of_values.negated())),
            dimensions: has_values.then_some(&breakdown.names),
            exact: subject.is_exact && absent_max == 0,
            as_of: subject.as_of_ms,
            staleness_ms: subject.staleness_ms,
            missing_partitions: subject.missing_partitions,
            omitted: OmittedView::of(subject.omitted, strings),
            datacenters: subject.datacenters,
        })
    }
}

impl SummedCounter<'_> {
    /// The JSON of `GET /counters/{id}/breakdown`.
    pub fn breakdown_json(&self, query: &BreakdownQuery, strings: bool) -> String {
        let datacenters = self
            .sum
            .datacenters
            .iter()
            .map(|(id, part)| DatacenterCountView {
                id,
                count: Exact::new(self.counted_at(query, part.as_ref()), strings),
                reachable: self.sum.is_reported(id, part.as_ref()),
            });
        let subject = Subject {
            id: Some(self.id),
            datacenters: Some(datacenters.collect()),
            is_exact: self.is_exact(),
            as_of_ms: self.as_of_ms(),
            staleness_ms: self.staleness_ms(),
            kept_from: self.kept_from(),
            ..Subject::default()
        };
        BreakdownView::json(subject, self.broken_down(query), query, strings)
    }

    /// The sum of increments in the time of a breakdown, and the breakdown at rest.
    pub(super) fn broken_down(&self, query: &BreakdownQuery) -> (Value, &[u8]) {
        (counted(&self.total, query), &self.total.breakdown)
    }

    fn counted_at(&self, query: &BreakdownQuery, part: Option<&Part>) -> Value {
        part.map_or_else(Value::default, |part| counted(part, query))
    }
}
