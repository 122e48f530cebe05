//! The counters that have most, and the rank of one of them, from the directory's data.

use super::counter::not_found;
use super::gathered::{ManyAnswer, ManyQuestion, gather, mixed_up};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_core::counter::id::CounterId;
use tally_protocol::access::Caller;
use tally_protocol::messages::{AskTop, Top, TopOrder};
use tally_protocol::problem::{Code, Problem};
use tally_protocol::public::{TopPage, rank_json, top_json};
use tally_protocol::query::{Query, TopQuery};

/// How old a shared top may be, milliseconds: the directory's data is older.
const SHARED_MS_MAX: i64 = 1_000;

/// How old one of a range may be: leads are asked for it, by the thousand.
const RANGE_SHARED_MS_MAX: i64 = 10_000;

/// The parameters that select the time of a top, and the others.
const PARAMETERS: [&str; 6] = ["prefix", "by", "window", "from", "to", "numbers"];

/// `GET /top`.
///
/// # Errors
/// `invalid-query`, `quota-exceeded`, `unavailable`.
pub async fn top(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &[&PARAMETERS[..], &["limit"]].concat())?;
    let limit = query.limit()?;
    let (top, page) = ask(context, caller, &query, limit, None).await?;
    Ok(Answer::json(top_json(&top, &page)))
}

/// `GET /counters/{id}/rank`.
///
/// # Errors
/// `invalid-query`, `counter-not-found`, `quota-exceeded`, `unavailable`.
pub async fn rank(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &PARAMETERS)?;
    let prefix = query.get("prefix").unwrap_or_default();
    if !id.as_str().starts_with(prefix) {
        let detail = "the id does not begin with prefix, so it has no rank there";
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    let (top, page) = ask(context, caller, &query, 1, Some(id.clone())).await?;
    match rank_json(&top, &page) {
        Some(json) => Ok(Answer::json(json)),
        None => Err(not_found(&id)),
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
