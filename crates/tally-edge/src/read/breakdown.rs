//! The counts of a dimension's values.

use super::counter::{not_found, see_version};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::public::SummedCounter;
use tally_api::query::Query;
use tally_core::counter::id::CounterId;
use tally_wire::messages::Read;
use tally_wire::problem::Problem;

/// `GET /counters/{id}/breakdown`.
///
/// # Errors
/// `counter-not-found`, `invalid-query`, `unavailable`, `version-not-reached`.
pub async fn breakdown(context: &RequestContext, id: CounterId) -> Result<Answer, Problem> {
    let query = Query::parse_breakdown(context.query(), &["at_least"])?;
    let selection = query.breakdown(context.host.now_ms().div_euclid(1_000))?;
    let strings = query.numbers_as_strings()?;
    let question = Read {
        counter: id,
        datacenter: query.datacenter()?,
        wanted: selection.wanted(),
    };
    let version = query.at_least()?;
    let _waiting = context.waiting();
    let seen = see_version(context, &question, query.is_strong()?, version.as_ref()).await?;
    let sum = seen.sum.ok_or_else(|| not_found(&question.counter))?;
    let view = SummedCounter::new(&question.counter, &sum, seen.freshness);
    let answer = Answer::json(view.breakdown_json(&selection, strings));
    Ok(answer.fresh(view.is_exact(), view.as_of_ms(), view.staleness_ms()))
}
