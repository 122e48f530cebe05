//! `/hot`: the counters that are written most now.

use crate::deployment::metrics::ask_fleet;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_protocol::problem::Problem;
use tally_protocol::public::hot_json;
use tally_protocol::query::Query;

/// `GET /hot`.
///
/// # Errors
/// `invalid-query`, `unavailable`.
pub async fn hot(context: &RequestContext) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["limit"])?;
    let limit = usize::try_from(query.limit()?).unwrap_or(usize::MAX);
    let fleet = {
        let _waiting = context.waiting();
        ask_fleet(&context.host, context.datacenter()).await?
    };
    Ok(Answer::json(hot_json(&fleet, limit)))
}
