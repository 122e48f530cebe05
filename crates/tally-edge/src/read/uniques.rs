//! Unions and intersections of unique elements, over counters; and the rotation of their hash key.

use super::counter::not_found;
use super::fetch::see_each;
use crate::kit::body;
use crate::kit::hash_keys;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::bodies::parse_nothing;
use tally_api::public::{SummedCounter, intersection_json, rotated_json, union_json};
use tally_api::query::{Query, UNION_MAX, Window};
use tally_core::counter::id::CounterId;
use tally_wire::messages::Read;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

/// `GET /uniques`.
///
/// # Errors
/// `counter-not-found`, `invalid-query`, `hash-mismatch`, `unavailable`.
pub async fn uniques(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(
        context.query(),
        &["id", "window", "at", "consistency", "op", "format"],
    )?;
    if query.get("format").is_some() {
        let detail = "format can only be `hll`; leave it out for the estimate";
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    let window = query.uniques_window(context.host.now_ms().div_euclid(1_000))?;
    let mut ids = Vec::new();
    for text in query.all("id") {
        let id = CounterId::parse(text)?;
        caller.may(Scope::Read, id.as_str())?;
        if !ids.contains(&id) {
            ids.push(id);
        }
        if ids.len() > UNION_MAX {
            break;
        }
    }
    let code = match ids.len() {
        0 => Some(Code::InvalidQuery),
        count => (count > UNION_MAX).then_some(Code::TooManyCounters),
    };
    if let Some(code) = code {
        let detail = format!("name 1 to {UNION_MAX} counters: ?id=a&id=b");
        return Err(Problem::new(code, detail));
    }
    let strong = query.is_strong()?;
    let intersects = query.intersects()?;
    if intersects && ids.len() != 2 {
        let detail = "an intersection is of two different counters: ?id=a&id=b&op=intersection";
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    let rounding = context.rounding()?;
    let read = |id: &CounterId| Read {
        counter: id.clone(),
        datacenter: None,
        wanted: Window::wanted(window),
    };
    let questions: Vec<Read> = ids.iter().map(read).collect();
    let _waiting = context.waiting();
    let mut sums = Vec::new();
    for (id, seen) in ids.iter().zip(see_each(context, &questions, strong).await?) {
        let sum = seen.sum.ok_or_else(|| not_found(id))?;
        sums.push((sum, seen.freshness));
    }
    let mut views: Vec<SummedCounter<'_>> = ids
        .iter()
        .zip(&sums)
        .map(|(id, (sum, freshness))| SummedCounter::new(id, sum, *freshness).rounded(rounding))
        .collect();
    if intersects && let (Some(other), Some(one)) = (views.pop(), views.pop()) {
        return intersection_json(&ids, (one, other), window).map(Answer::json);
    }
    union_json(&ids, &views, window).map(Answer::json)
}

/// `POST /uniques/rotate`: elements are hashed with a new key from now on, in a new epoch.
///
/// # Errors
/// `hash-key-set`, `invalid-json`, `unknown-field`, `unavailable`.
pub async fn rotate(context: &RequestContext) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    parse_nothing(&body::read_small(context).await?)?;
    let waiting = context.waiting();
    let (before, now) = hash_keys::rotate(&context.host).await?;
    drop(waiting);
    Ok(Answer::json(rotated_json(before, now)))
}
