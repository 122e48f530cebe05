//! The distribution of a counter's samples.

use super::counter::{not_found, see_version};
use super::history::read_pieces;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::public::SummedCounter;
use tally_api::query::Query;
use tally_core::counter::id::CounterId;
use tally_core::counter::merge::Range;
use tally_wire::messages::{Read, ReadParts};
use tally_wire::problem::Problem;

/// The most steps of one read: their histograms have at most 60 × 56,882 bytes = 3.4 MB in a message.
const STEPS_AT_ONCE: i64 = 60;

/// `GET /counters/{id}/distribution`.
///
/// # Errors
/// `counter-not-found`, `invalid-query`, `range-too-large`, `unavailable`, `version-not-reached`.
pub async fn distribution(context: &RequestContext, id: CounterId) -> Result<Answer, Problem> {
    let query = Query::parse(
        context.query(),
        &[
            "window",
            "at",
            "step",
            "from",
            "to",
            "consistency",
            "datacenter",
            "at_least",
            "numbers",
        ],
    )?;
    let now = context.host.now_ms().div_euclid(1_000);
    let strings = query.numbers_as_strings()?;
    if let Some(steps) = query.samples_series(now)? {
        return series(context, &id, &query, steps, strings).await;
    }
    let window = query.samples_window(now)?;
    let question = Read {
        counter: id,
        datacenter: query.datacenter()?,
        wanted: ReadParts {
            samples: Some(window.whole),
            totals_only: true,
            ..ReadParts::default()
        },
    };
    let version = query.at_least()?;
    let _waiting = context.waiting();
    let seen = see_version(context, &question, query.is_strong()?, version.as_ref()).await?;
    let sum = seen.sum.ok_or_else(|| not_found(&question.counter))?;
    let view = SummedCounter::new(&question.counter, &sum, seen.freshness);
    let answer = Answer::json(view.distribution_json(window, strings));
    Ok(answer.fresh(view.is_exact(), view.as_of_ms(), view.staleness_ms()))
}

/// The samples by steps.
async fn series(
    context: &RequestContext,
    id: &CounterId,
    query: &Query,
    (range, kept_from): (Range, i64),
    strings: bool,
) -> Result<Answer, Problem> {
    let wanted: fn(Range) -> ReadParts = |piece| ReadParts {
        samples: Some((piece.from, piece.to + piece.step.seconds() - 1)),
        step: Some(piece.step),
        totals_only: true,
        ..ReadParts::default()
    };
    let mut points = Vec::new();
    // What is not kept is not read, but for one step, which says how true the answer is.
    let first = range.from.max(kept_from).min(range.to);
    let kept = Range {
        from: first,
        ..range
    };
    let mut before = Some(Range {
        to: first - range.step.seconds(),
        ..range
    });
    let add = &mut |view: &SummedCounter<'_>, piece: Range| {
        for range in before.take().into_iter().chain([piece]) {
            view.add_sampled_steps(&mut points, range, (kept_from, strings));
        }
    };
    let reads = (STEPS_AT_ONCE, wanted);
    let truth = read_pieces(context, (id, query), kept, reads, add).await?;
    let answer = Answer::json(SummedCounter::series_json(
        id,
        (range, kept_from),
        &points,
        truth,
    ));
    Ok(answer.fresh(truth.exact, truth.as_of_ms, truth.staleness_ms))
}
