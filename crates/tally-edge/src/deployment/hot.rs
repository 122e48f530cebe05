//! The counters that are written most now.

use super::metrics::ask_fleet;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::public::hot_json;
use tally_api::query::Query;
use tally_core::counter::id::CounterId;
use tally_wire::problem::Problem;

/// `GET /top?by=rate`.
///
/// # Errors
/// `invalid-query`, `unavailable`.
pub async fn hot(context: &RequestContext) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["by", "prefix", "id", "limit", "numbers"])?;
    query.numbers_as_strings()?;
    let prefix = query.get("prefix").unwrap_or_default();
    let id = query.one_id()?;
    let is_asked = |one: &CounterId| {
        one.as_str().starts_with(prefix) && id.as_ref().is_none_or(|id| id == one)
    };
    let limit = usize::try_from(query.limit()?).unwrap_or(usize::MAX);
    let fleet = {
        let _waiting = context.waiting();
        ask_fleet(&context.host, context.datacenter()).await?
    };
    Ok(Answer::json(hot_json(&fleet, limit, is_asked)))
}
