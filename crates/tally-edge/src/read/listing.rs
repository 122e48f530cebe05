//! Counters by their names, with the totals that the directory knows.

use super::counter::unread;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use crate::write::lead_reports::settle_for;
use tally_api::access::Caller;
use tally_api::public::list_json;
use tally_api::query::Query;
use tally_core::counter::id::CounterId;
use tally_shared::{call, partitions};
use tally_wire::messages::ListAll;
use tally_wire::problem::Problem;

/// The parameters of `GET /counters`. With `on` it reads a snapshot.
pub const PARAMETERS: [&str; 6] = ["prefix", "cursor", "limit", "values", "numbers", "on"];

/// `GET /counters`: names in order, page by page, with their values where asked for.
///
/// # Errors
/// `invalid-query`, `quota-exceeded`, `unavailable`.
pub async fn list(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &PARAMETERS)?;
    let prefix = query.get("prefix").unwrap_or_default().to_owned();
    caller.may_list(&prefix)?;
    let limit = query.limit()?;
    let values = query.wants_values()?;
    let strings = query.numbers_as_strings()?;
    let after = query.get("cursor").map(str::to_owned);
    let rounding = context.rounding()?;
    context
        .visitor()
        .read(partitions::count(&context.host).into())?;
    let _waiting = context.waiting();
    settle_for(context).await;
    // One name more than asked for shows whether there is another page.
    let list = ListAll {
        prefix,
        after,
        limit: limit + 1,
        values,
    };
    let mut listed = call(&context.host, &list).await.map_err(unread)?;
    let rows_max = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = listed.rows.len() > rows_max;
    listed.rows.truncate(rows_max);
    let last = listed.rows.last().filter(|_| has_more);
    let cursor = last.map(|(counter, _)| counter.clone());
    let cursor = cursor.as_ref().map(CounterId::as_str);
    Ok(Answer::json(list_json(&listed, cursor, rounding, strings)))
}
