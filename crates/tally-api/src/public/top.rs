//! The counters that have most, and the rank of one of them.

use serde::Serialize;

use super::rounding::Rounding;
use crate::fields::{
    CountValue, Exactness, MissingPartitions, Moment, Staleness, Total, end_of, moment_of,
};
use crate::json::to_json;
use crate::number::{Estimate, Exact};
use crate::query::TopQuery;
use tally_core::cluster::top_order::{OrderBy, TopRow, WindowStart};
use tally_core::counter::id::CounterId;
use tally_core::counter::total::Value;
use tally_wire::messages::{Sums, Top, UnreadCounters};

/// The request, and its times.
#[derive(Clone, Debug)]
pub struct TopPage {
    /// What was asked for.
    pub query: TopQuery,
    /// When the directory was asked, unix milliseconds.
    pub begun_ms: i64,
    /// Now, unix milliseconds.
    pub now_ms: i64,
    /// How estimates are rounded.
    pub rounding: Rounding,
}

/// The amount of a counter, under the name of its measure.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Amount {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Option<Exact>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<Option<CountValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uniques: Option<Option<Estimate>>,
}

/// A row; all but the id is `null` or left out where nobody has reported the counter.
#[derive(Serialize)]
struct RowView<'a> {
    rank: Option<u64>,
    id: &'a CounterId,
    #[serde(flatten)]
    amount: Amount,
    /// Which part of `total` it is; `null` where that says nothing.
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<Moment>,
}

/// Counters that were too many to read, or cannot be among the rows, by what they reported to the directory. The field
/// is left out where all were read.
#[derive(Serialize)]
pub(super) struct OmittedView {
    /// How many they are.
    counters: u64,
    /// What they counted together in the range, at most.
    count_max: Total,
    /// What one of them counted, at most. Where the last row has as much, no other belongs among the rows.
    each_max: Total,
}

impl OmittedView {
    pub(super) fn of(omitted: Option<UnreadCounters>, strings: bool) -> Option<Self> {
        omitted.map(|omitted| Self {
            counters: omitted.counters,
            count_max: Exact::new(omitted.count_max, strings),
            each_max: Exact::new(omitted.each_max, strings),
        })
    }
}

#[derive(Serialize)]
struct TopView<'a> {
    prefix: &'a str,
    by: &'static str,
    /// As in the request; `null` for all time.
    window: Option<&'a str>,
    /// Since when it was counted; `null` for all time.
    starts_at: Option<Moment>,
    /// Until when it was counted, where `from` was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_at: Option<Moment>,
    /// Since when the directory counts windows: if it is later than `starts_at`, earlier counts are missing. `null` if
    /// it always did.
    kept_from_at: Option<Moment>,
    exact: Exactness,
    as_of: Moment,
    staleness_ms: Staleness,
    /// How many there are, of a window those that counted in it.
    counters: u64,
    total: Total,
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    missing_partitions: MissingPartitions<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<OmittedView>,
    entries: Vec<RowView<'a>>,
    /// `null`: this list has one page.
    cursor: Option<&'a str>,
}

impl TopPage {
    fn amount(&self, row: &TopRow) -> Amount {
        let is_known = row.is_known();
        let exact = Some(is_known.then(|| Exact::new(row.amount, self.query.strings)));
        match self.query.order.by {
            OrderBy::Value => Amount {
                value: exact,
                ..Amount::default()
            },
            OrderBy::Count => Amount {
                count: exact,
                ..Amount::default()
            },
            OrderBy::Uniques => Amount {
                uniques: Some(is_known.then(|| self.estimate(row))),
                ..Amount::default()
            },
        }
    }

    fn estimate(&self, row: &TopRow) -> Estimate {
        let known = row.uniques.map_or(Estimate::NOTHING, Estimate::of_known);
        self.rounding.apply(known)
    }

    fn row<'a>(&self, rank: u64, row: &'a TopRow, top: &Top) -> RowView<'a> {
        let own = match self.query.order.by {
            OrderBy::Uniques => Value::new(u128::from(self.estimate(row).estimate), 0),
            OrderBy::Value | OrderBy::Count => row.amount,
        };
        let is_known = row.is_known();
        RowView {
            rank: is_known.then_some(rank),
            id: &row.counter,
            amount: self.amount(row),
            // The total is not known if counters were not asked.
            share: share(own, self.total(&top.sums)).filter(|_| is_known && top.omitted.is_none()),
            as_of: is_known.then_some(row.as_of_ms),
        }
    }

    /// The rows of counters. Of one that is asked for by its id, those above it are known by their number.
    fn rows<'a>(&self, top: &'a Top) -> Vec<RowView<'a>> {
        let (mut rank, mut before) = (0, None);
        let mut rows = Vec::new();
        for (position, one) in (top.sums.above + 1..).zip(&top.rows) {
            if before.is_none_or(|before| one.amount.is_below(before)) {
                (rank, before) = (position, Some(one.amount));
            }
            rows.push(self.row(rank, one, top));
        }
        rows
    }

    /// The sum of all amounts; for unique elements the sum of the rounded estimates.
    fn total(&self, sums: &Sums) -> Value {
        if self.query.order.by != OrderBy::Uniques {
            return sums.total;
        }
        let estimate = u64::try_from(sums.total.within_62_bits()).unwrap_or(0);
        let sum = Estimate {
            estimate,
            ..Estimate::NOTHING
        };
        Value::new(u128::from(self.rounding.apply(sum).estimate), 0)
    }

    fn view<'a>(&'a self, top: &'a Top) -> TopView<'a> {
        let as_of_ms = top
            .sums
            .as_of_ms
            .unwrap_or(self.begun_ms)
            .min(self.begun_ms);
        let as_of_ms = if top.missing_partitions.is_empty() {
            as_of_ms
        } else {
            0
        };
        let kept_from_ms = top.sums.kept_from_ms;
        TopView {
            prefix: &self.query.order.prefix,
            by: match self.query.order.by {
                OrderBy::Value => "value",
                OrderBy::Count => "count",
                OrderBy::Uniques => "uniques",
            },
            window: self.query.window.as_deref(),
            starts_at: (self.query.range.map(|(from, _)| from))
                .or_else(|| self.query.order.since.map(WindowStart::seconds))
                .map(moment_of),
            ends_at: (self.query.range.filter(|_| self.query.window.is_none()))
                .map(|(_, to)| end_of(to)),
            kept_from_at: (kept_from_ms > 0).then_some(kept_from_ms),
            exact: false,
            as_of: as_of_ms,
            staleness_ms: self.now_ms.saturating_sub(as_of_ms).max(0),
            counters: top.sums.counters,
            total: Exact::new(self.total(&top.sums), self.query.strings),
            missing_partitions: &top.missing_partitions,
            omitted: OmittedView::of(top.omitted, self.query.strings),
            entries: self.rows(top),
            cursor: None,
        }
    }
}

/// The share of an amount in the total; `None` where that is meaningless.
pub(super) fn share(amount: Value, total: Value) -> Option<f64> {
    let number = |value: Value| value.to_string().parse::<f64>().unwrap_or(0.0);
    let (amount, total) = (number(amount), number(total));
    let is_part = amount >= 0.0 && total > 0.0;
    is_part.then(|| (amount / total * 1e6).round() / 1e6)
}

/// The JSON of `GET /top`. Counters with equal amounts have the same rank.
pub fn top_json(top: &Top, page: &TopPage) -> String {
    to_json(&page.view(top))
}
