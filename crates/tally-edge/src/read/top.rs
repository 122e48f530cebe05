//! The counters that have most, or the rank of one of them, from the directory's data.

use super::counter::not_found;
use super::gathered::{ManyAnswer, ManyQuestion, gather, mixed_up};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::public::{TopPage, top_json};
use tally_api::query::TopQuery;
use tally_wire::messages::AskTop;
use tally_wire::problem::Problem;
use tally_wire::rights::Scope;

/// How old a shared top may be, milliseconds: the directory's data is older.
const SHARED_MS_MAX: i64 = 1_000;

/// How old one of a range may be: leads are asked for it, by the thousand.
const RANGE_SHARED_MS_MAX: i64 = 10_000;

/// `GET /top` of counters, or of the one of an id.
///
/// # Errors
/// `invalid-query`, `counter-not-found`, `quota-exceeded`, `unavailable`.
pub async fn top(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let now = context.host.now_ms().div_euclid(1_000);
    let query = TopQuery::parse(context.query(), now)?;
    if let Some(counter) = &query.counter {
        caller.may(Scope::Read, counter.as_str())?;
    }
    caller.may_list(&query.order.prefix)?;
    let rounding = context.rounding()?;
    let request = AskTop {
        order: query.order.clone(),
        limit: query.limit,
        counter: query.counter.clone(),
        range: query.range,
    };
    let shared_ms = query.range.map_or(SHARED_MS_MAX, |_| RANGE_SHARED_MS_MAX);
    let found = gather(context, ManyQuestion::Top(request), Some(shared_ms)).await?;
    let ManyAnswer::Top(top, begun_ms) = &*found.gathered else {
        return Err(mixed_up());
    };
    if let Some(counter) = query.counter.as_ref().filter(|_| top.rows.is_empty()) {
        return Err(not_found(counter));
    }
    let page = TopPage {
        query,
        begun_ms: *begun_ms,
        now_ms: context.host.now_ms(),
        rounding,
    };
    Ok(Answer::json(top_json(top, &page)))
}
