//! What was counted of a dimension's values, as it is told.
//!
//! Invariant: the counts of all rows, of the others and of what carried no value are together the counter's count of that time.

use serde::Serialize;

use super::number::Exact;
use super::to_json;
use super::told::Told;
use super::top::share;
use crate::core::counter::breakdown::Breakdown;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::total::Value;
use crate::core::sketch::Counted;
use crate::protocol::messages::DatacenterSum;
use crate::protocol::order::in_order;
use crate::protocol::query::BreakdownQuery;

#[derive(Serialize)]
struct StretchView {
    from: Option<i64>,
    to: i64,
}

#[derive(Serialize)]
struct RowView<'a> {
    value: &'a str,
    count: Exact,
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Exact>,
}

#[derive(Serialize)]
struct OtherView {
    count: Exact,
    error: Exact,
}

#[derive(Serialize)]
struct PlaceView<'a> {
    id: &'a Datacenter,
    count: Exact,
    reachable: bool,
}

#[derive(Serialize)]
struct BreakdownView<'a> {
    id: &'a CounterId,
    by: &'a str,
    window: StretchView,
    kept_from: Option<i64>,
    total: Exact,
    values: usize,
    rows: Vec<RowView<'a>>,
    other: OtherView,
    none: Exact,
    dimensions: &'a [String],
    exact: bool,
    as_of: i64,
    staleness_ms: i64,
    datacenters: Vec<PlaceView<'a>>,
}

/// Rows as they are told: the most first; of as many the name decides.
fn in_turn(breakdown: &Breakdown) -> Vec<(&str, Counted)> {
    let mut rows = Vec::with_capacity(breakdown.values.len());
    rows.extend(breakdown.values.values());
    // They come in order of their names, and equal ones stay so.
    in_order(rows, |one, other| other.1.count.cmp(&one.1.count))
}

impl Told<'_> {
    /// What increments added in the time that a breakdown is of.
    fn counted(&self, asked: &BreakdownQuery) -> Value {
        match asked.window {
            Some(_) => Value::new(self.total.window.count, 0),
            None => Value::new(self.total.added, 0),
        }
    }

    /// The JSON of `GET /counters/{id}/breakdown`.
    pub fn breakdown_json(&self, asked: &BreakdownQuery, strings: bool) -> String {
        let breakdown = Breakdown::from_rest(&self.total.breakdown);
        let exact = |value: Value| Exact::new(value, strings);
        let of = |count: u128| Value::new(count, 0);
        let total = self.counted(asked);
        let mut rows = in_turn(&breakdown);
        let hidden = rows.split_off(rows.len().min(asked.limit));
        let sum = |rows: &[(&str, Counted)], part: fn(&Counted) -> u128| {
            let parts = rows.iter().map(|(_, row)| part(row));
            parts.fold(0, u128::saturating_add)
        };
        let rest = breakdown.values.rest();
        let other = sum(&hidden, |row| row.count).saturating_add(rest);
        let of_shown = sum(&rows, |row| row.error).min(rest);
        let is_bounded = breakdown.values.absent_max() > 0;
        let datacenters = self.sum.datacenters.iter().map(|(id, part)| PlaceView {
            id,
            count: exact(self.counted_at(asked, part.as_ref())),
            reachable: self.sum.is_told(id, part.as_ref()),
        });
        to_json(&BreakdownView {
            id: self.id,
            by: asked.by.as_str(),
            window: StretchView {
                from: asked.window.map(|(from, _)| from),
                to: asked.window.map_or(asked.now, |(_, to)| to.min(asked.now)),
            },
            kept_from: asked
                .window
                .map(|_| self.kept_from())
                .filter(|kept| asked.window.is_some_and(|(from, _)| *kept > from)),
            total: exact(total),
            values: breakdown.values.len(),
            rows: rows
                .iter()
                .map(|(value, row)| RowView {
                    value,
                    count: exact(of(row.count)),
                    share: share(of(row.count), total),
                    error: (row.error > 0).then(|| exact(of(row.error))),
                })
                .collect(),
            other: OtherView {
                count: exact(of(other)),
                error: exact(of(of_shown)),
            },
            none: exact(total.plus(Value::new(0, breakdown.values.sum()))),
            dimensions: &breakdown.names,
            exact: self.is_exact() && !is_bounded,
            as_of: self.as_of_ms(),
            staleness_ms: self.staleness_ms(),
            datacenters: datacenters.collect(),
        })
    }

    fn counted_at(&self, asked: &BreakdownQuery, part: Option<&DatacenterSum>) -> Value {
        let summary = part.map(|part| &part.summary);
        match asked.window {
            Some(_) => Value::new(summary.map_or(0, |summary| summary.window.count), 0),
            None => summary.map_or_else(Value::default, |summary| Value::new(summary.added, 0)),
        }
    }
}
