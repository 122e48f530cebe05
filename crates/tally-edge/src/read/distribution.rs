//! The distribution of a counter's samples.

use super::counter::{not_found, see_version};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_core::counter::id::CounterId;
use tally_protocol::messages::{Read, ReadParts};
use tally_protocol::problem::Problem;
use tally_protocol::public::SummedCounter;
use tally_protocol::query::Query;

/// `GET /counters/{id}/distribution`.
///
/// # Errors
/// `counter-not-found`, `invalid-query`, `unavailable`, `version-not-reached`.
pub async fn distribution(context: &RequestContext, id: CounterId) -> Result<Answer, Problem> {
    let query = Query::parse(
        context.query(),
        &[
            "window",
            "at",
            "consistency",
            "datacenter",
            "at_least",
            "numbers",
        ],
    )?;
    let window = query.samples_window(context.host.now_ms().div_euclid(1_000))?;
    let strings = query.numbers_as_strings()?;
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
