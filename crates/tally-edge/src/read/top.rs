//! The counters that have most, or the rank of one of them, from the directory's data.

use super::counter::not_found;
use super::gathered::{ManyAnswer, ManyQuestion, gather, mixed_up};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::public::{TopPage, top_json};
use tally_api::query::{Query, TopQuery};
use tally_core::cluster::top_order::TopOrder;
use tally_core::counter::id::CounterId;
use tally_wire::messages::{AskTop, Top};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

/// How old a shared top may be, milliseconds: the directory's data is older.
const SHARED_MS_MAX: i64 = 1_000;

/// How old one of a range may be: leads are asked for it, by the thousand.
const RANGE_SHARED_MS_MAX: i64 = 10_000;

/// The parameters of a top.
const PARAMETERS: [&str; 8] = [
    "id", "prefix", "by", "window", "from", "to", "limit", "numbers",
];

/// `GET /top` of counters, or of the one of an id.
///
/// # Errors
/// `invalid-query`, `counter-not-found`, `quota-exceeded`, `unavailable`.
pub async fn top(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &PARAMETERS)?;
    let limit = query.limit()?;
    let Some(id) = query.one_id()? else {
        let (top, page) = ask(context, caller, &query, limit, None).await?;
        return Ok(Answer::json(top_json(&top, &page)));
    };
    caller.may(Scope::Read, id.as_str())?;
    let prefix = query.get("prefix").unwrap_or_default();
    if !id.as_str().starts_with(prefix) {
        let detail = "the id does not begin with prefix, so it has no rank there";
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    let (top, page) = ask(context, caller, &query, 1, Some(id.clone())).await?;
    match top.rows.is_empty() {
        false => Ok(Answer::json(top_json(&top, &page))),
        true => Err(not_found(&id)),
    }
}

async fn ask(
    context: &RequestContext,
    caller: &Caller,
    query: &Query,
    limit: u32,
    counter: Option<CounterId>,
) -> Result<(Top, TopPage), Problem> {
    let prefix = query.get("prefix").unwrap_or_default().to_owned();
    caller.may_list(&prefix)?;
    let parameters = query.top(context.host.now_ms().div_euclid(1_000))?;
    let TopQuery {
        by,
        window,
        since,
        range,
    } = parameters;
    let strings = query.numbers_as_strings()?;
    let rounding = context.rounding()?;
    let request = AskTop {
        order: TopOrder {
            prefix: prefix.clone(),
            by,
            since,
        },
        limit,
        counter,
        range,
    };
    let shared_ms = range.map_or(SHARED_MS_MAX, |_| RANGE_SHARED_MS_MAX);
    let found = gather(context, ManyQuestion::Top(request), Some(shared_ms)).await?;
    let ManyAnswer::Top(top, begun_ms) = &*found.gathered else {
        return Err(mixed_up());
    };
    let page = TopPage {
        prefix,
        by,
        window: window.map(str::to_owned),
        since,
        range,
        begun_ms: *begun_ms,
        now_ms: context.host.now_ms(),
        rounding,
        strings,
    };
    Ok((top.clone(), page))
}
