//! The history of a counter, and reads of ranges that are longer than one message carries: one read for each piece, in
//! order of time.
//!
//! Invariant: the answer is of one generation, and as true as its least true piece. So no message and no view is larger
//! than that of a piece, however many datacenters there are.

use super::counter::{not_found, see_version};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::export::CSV;
use tally_api::public::{HistoryPoints, SummedCounter, Truth};
use tally_api::query::{POINTS_MAX, Query};
use tally_core::counter::id::CounterId;
use tally_core::counter::merge::Range;
use tally_wire::messages::{Fault, Read, ReadParts};
use tally_wire::problem::Problem;

/// Reads a counter for each piece of a range, of at most `points_max` points, and passes each to `each`.
///
/// # Errors
/// `counter-not-found`, `invalid-query`, `unavailable`, `version-not-reached`.
pub async fn read_pieces(
    context: &RequestContext,
    (counter, query): (&CounterId, &Query),
    range: Range,
    (points_max, wanted): (i64, fn(Range) -> ReadParts),
    each: &mut dyn FnMut(&SummedCounter<'_>, Range),
) -> Result<Truth, Problem> {
    let (is_strong, version) = (query.is_strong()?, query.at_least()?);
    let mut question = Read {
        counter: counter.clone(),
        datacenter: query.datacenter()?,
        wanted: ReadParts::default(),
    };
    let width = range.step.seconds();
    let _waiting = context.waiting();
    let (mut from, mut known) = (range.from, None::<Truth>);
    loop {
        let to = range.to.min(from + (points_max - 1) * width);
        let piece = Range { from, to, ..range };
        question.wanted = wanted(piece);
        let seen = see_version(context, &question, is_strong, version.as_ref()).await?;
        let sum = seen.sum.ok_or_else(|| not_found(counter))?;
        let view = SummedCounter::new(counter, &sum, seen.freshness);
        each(&view, piece);
        let own = view.truth();
        let Some(truth) = known.map_or(Some(own), |truth| truth.and(own)) else {
            let what = "the counter was ended and created again during the read; try again";
            return Err(super::fetch::unread(Fault::Unavailable(what.to_owned())));
        };
        if to >= range.to {
            return Ok(truth);
        }
        (from, known) = (to + width, Some(truth));
    }
}

/// `GET /counters/{id}/history`.
///
/// # Errors
/// As [`read_pieces`], and `range-too-large`.
pub async fn history(context: &RequestContext, id: CounterId) -> Result<Answer, Problem> {
    let query = Query::parse(
        context.query(),
        &[
            "from",
            "to",
            "step",
            "consistency",
            "datacenter",
            "at_least",
            "numbers",
            "zeros",
            "format",
        ],
    )?;
    let is_csv = query.is_csv()?;
    let range = query.counter_history(context.host.now_ms().div_euclid(1_000))?;
    let format = query.history_format()?;
    let wanted: fn(Range) -> ReadParts = |piece| ReadParts {
        history: Some(piece),
        totals_only: true,
        ..ReadParts::default()
    };
    let mut points = HistoryPoints::default();
    let add = &mut |view: &SummedCounter<'_>, piece: Range| points.add(view, piece, format);
    let reads = (POINTS_MAX, wanted);
    let truth = read_pieces(context, (&id, &query), range, reads, add).await?;
    let answer = match is_csv {
        true => Answer::text(points.csv()).of_type(CSV),
        false => Answer::json(points.json(&id, range, truth)),
    };
    Ok(answer.fresh(truth.exact, truth.as_of_ms, truth.staleness_ms))
}
