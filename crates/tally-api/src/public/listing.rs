//! Counters by their names, as the directory knows them.

use serde::Serialize;

use super::rounding::Rounding;
use crate::fields::{CountValue, Exactness, MissingPartitions, Moment};
use crate::json::to_json;
use crate::number::{Estimate, Exact};
use tally_core::cluster::top_order::KnownTotal;
use tally_core::counter::id::CounterId;
use tally_core::counter::total::Value;
use tally_wire::messages::CounterList;

/// What the directory knows of a counter from pushes; `None` before the first.
#[derive(Serialize)]
struct KnownView {
    value: Option<Exact>,
    count: Option<CountValue>,
    uniques: Option<Estimate>,
    as_of: Moment,
}

#[derive(Serialize)]
struct RowView<'a> {
    id: &'a CounterId,
    #[serde(flatten)]
    known: Option<KnownView>,
}

#[derive(Serialize)]
struct ListView<'a> {
    entries: Vec<RowView<'a>>,
    /// Opaque: begins the next page; `null` at the end.
    cursor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<Exactness>,
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    missing_partitions: MissingPartitions<'a>,
}

/// The JSON of `GET /counters`.
pub fn list_json(
    listed: &CounterList,
    cursor: Option<&str>,
    rounding: Rounding,
    strings: bool,
) -> String {
    let exact = |known: &KnownTotal, value| {
        let is_known = known.total.is_known();
        is_known.then(|| Exact::new(value, strings))
    };
    let known = |known: &KnownTotal| KnownView {
        value: exact(known, known.total.value),
        count: exact(known, Value::new(known.total.count, 0)),
        uniques: (known.uniques).map(|uniques| rounding.apply(Estimate::of_known(uniques))),
        as_of: known.total.as_of_ms,
    };
    let entries: Vec<RowView<'_>> = (listed.rows.iter())
        .map(|(id, total)| RowView {
            id,
            known: total.as_ref().map(known),
        })
        .collect();
    let has_values = entries.iter().any(|row| row.known.is_some());
    let is_part = has_values || !listed.missing_partitions.is_empty();
    to_json(&ListView {
        entries,
        cursor,
        exact: is_part.then_some(false),
        missing_partitions: &listed.missing_partitions,
    })
}
