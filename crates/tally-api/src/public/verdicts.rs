//! The results of a policy's checks, and its refused keys, in answers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::breakdown::{BreakdownView, Subject};
use super::counter_view::{SummedCounter, points_of, step_name};
use crate::fields::{CountValue, Moment, Staleness, moment_of};
use crate::json::to_json;
use crate::number::Exact;
use crate::query::{BreakdownQuery, HistoryFormat};
use tally_core::counter::breakdown::keys_kept_from;
use tally_core::counter::merge::Range;
use tally_core::counter::total::Value;
use tally_wire::names::VerdictKind;
use tally_wire::names::policy::PolicyName;

/// The counters of a policy by result; `None` for one that has counted nothing.
pub type Kinds<'a> = [Option<SummedCounter<'a>>; VerdictKind::ALL.len()];

/// The policy, and when it was read.
#[derive(Clone, Copy, Debug)]
pub struct VerdictCounts<'a> {
    /// The policy.
    pub policy: &'a PolicyName,
    /// All checks decided before this time are included, except those that isolates lost. Unix milliseconds.
    pub as_of_ms: i64,
    /// Now, unix milliseconds.
    pub now_ms: i64,
}

/// When it begins, and how many were allowed, refused, and had no verdict.
#[derive(Serialize)]
struct Step(
    Moment,
    Option<CountValue>,
    Option<CountValue>,
    Option<CountValue>,
);

#[derive(Serialize)]
struct HistoryView<'a> {
    policy: &'a PolicyName,
    step: &'static str,
    /// When the first step begins.
    starts_at: Moment,
    /// When the last step ends.
    ends_at: Moment,
    /// Since when points of this step are complete; `null` where nothing was let go.
    kept_from_at: Option<Moment>,
    /// Checks that were allowed, of all points.
    allowed: CountValue,
    /// Checks that were refused.
    refused: CountValue,
    /// Checks for which no limiter could be reached: `on_error` answered.
    error: CountValue,
    /// Isolates may hold checks that they have not sent.
    exact: bool,
    as_of: Moment,
    staleness_ms: Staleness,
    /// Allowed, refused, and without a verdict, in each step; `null` before `kept_from_at`.
    points: Vec<Step>,
}

impl VerdictCounts<'_> {
    fn staleness_ms(&self) -> i64 {
        self.now_ms.saturating_sub(self.as_of_ms).max(0)
    }

    /// The JSON of `history` in a policy.
    pub fn history_json(&self, kinds: &Kinds<'_>, range: Range, format: HistoryFormat) -> String {
        let kept_from = kinds.iter().flatten().map(SummedCounter::kept_from).max();
        let kept_from = kept_from.unwrap_or(i64::MIN);
        let nothing = BTreeMap::new();
        // All three have the same points; empty ones are omitted together.
        let all = HistoryFormat {
            zeros: true,
            ..format
        };
        let counted = |kind: &Option<SummedCounter<'_>>| {
            let counted = kind.as_ref().map_or(&nothing, SummedCounter::points);
            let count = counted.range(range.from.max(kept_from)..=range.to);
            let count = count.fold(0, |sum: u128, (_, count)| sum.saturating_add(*count));
            (
                Exact::new(Value::new(count, 0), format.strings),
                points_of(counted, kept_from, range, all),
            )
        };
        let [(allowed, first), (refused, second), (error, third)] = kinds.each_ref().map(counted);
        let points = first.into_iter().zip(second).zip(third);
        let points = points.map(|(((start, allowed), (_, refused)), (_, error))| {
            Step(start, allowed, refused, error)
        });
        let has_some = |starts_at: Moment| {
            let start = starts_at.div_euclid(1_000);
            let mut kinds = kinds.iter().flatten();
            start >= kept_from && kinds.any(|kind| kind.points().contains_key(&start))
        };
        to_json(&HistoryView {
            policy: self.policy,
            step: step_name(range),
            starts_at: moment_of(range.from),
            ends_at: moment_of(range.to + range.step.seconds()),
            kept_from_at: (kept_from != i64::MIN).then(|| moment_of(kept_from)),
            allowed,
            refused,
            error,
            exact: false,
            as_of: self.as_of_ms,
            staleness_ms: self.staleness_ms(),
            points: points
                .filter(|Step(start, ..)| format.zeros || has_some(*start))
                .collect(),
        })
    }

    /// The JSON of `refused` in a policy.
    pub fn refused_json(
        &self,
        counter: Option<&SummedCounter<'_>>,
        query: &BreakdownQuery,
        strings: bool,
    ) -> String {
        let subject = Subject {
            policy: Some(self.policy),
            as_of_ms: self.as_of_ms,
            staleness_ms: self.staleness_ms(),
            kept_from: keys_kept_from(query.now),
            ..Subject::default()
        };
        let nothing = (Value::default(), &[][..]);
        let summed = counter.map_or(nothing, |counter| counter.broken_down(query));
        BreakdownView::json(subject, summed, query, strings)
    }
}
