//! Unique elements from and for Redis: the string in which it stores HyperLogLogs.
//!
//! Invariant: an import only merges registers into those of a counter, so it may be repeated at will, and an unknown
//! outcome does no harm. It counts no hit, and adds to no window, because the times of its elements are unknown.

use crate::kit::body;
use crate::kit::isolate::cache_unique_hash;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use crate::read::counter::{not_found, see, see_version, unread};
use crate::write::unique_elements;
use tally_api::access::Caller;
use tally_api::public::{SummedCounter, hll_of, imported_json, not_of_redis, parse_hll};
use tally_api::query::{Query, Window};
use tally_core::counter::id::CounterId;
use tally_core::counter::settings::UniqueHash;
use tally_shared::call;
use tally_wire::messages::{LookUp, Read, ReadParts};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

/// Media type of the string.
const OCTETS: &str = "application/octet-stream";

/// `GET /uniques?format=hll`.
///
/// # Errors
/// `counter-not-found`, `hash-mismatch`, `invalid-query`, `unauthorized`, `unavailable`, `version-not-reached`.
pub async fn export(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(
        context.query(),
        &[
            "format",
            "id",
            "window",
            "at",
            "consistency",
            "datacenter",
            "at_least",
        ],
    )?;
    let Some(id) = query.one_id()? else {
        let detail = "format=hll is of one counter: ?id=a&format=hll";
        return Err(Problem::new(Code::InvalidQuery, detail));
    };
    caller.may(Scope::Read, id.as_str())?;
    let window = query.uniques_window(context.host.now_ms().div_euclid(1_000))?;
    if !context.rounding()?.is_off() {
        let detail = "readers without a key get rounded uniques, and registers cannot be rounded: send a key";
        return Err(Problem::new(Code::Unauthorized, detail));
    }
    let question = Read {
        counter: id,
        datacenter: query.datacenter()?,
        wanted: Window::wanted(window),
    };
    let version = query.at_least()?;
    let _waiting = context.waiting();
    let seen = see_version(context, &question, query.is_strong()?, version.as_ref()).await?;
    let sum = seen.sum.ok_or_else(|| not_found(&question.counter))?;
    let view = SummedCounter::new(&question.counter, &sum, seen.freshness);
    let answer = Answer::bytes(OCTETS, hll_of(&view, window)?.to_bytes());
    Ok(answer.fresh(view.is_exact(), view.as_of_ms(), view.staleness_ms()))
}

/// `PUT /counters/{id}/uniques/hll`: merges a string into a counter that exists.
///
/// # Errors
/// `counter-not-found`, `invalid-hll`, `hash-mismatch`, `body-too-large`, `unavailable`.
pub async fn import(context: &RequestContext, id: CounterId) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let hll = parse_hll(&body::read_small(context).await?)?;
    context.visitor().admit(id.as_str())?;
    let _waiting = context.waiting();
    // A flush would create the counter, by the deployment's own hash: that is a setting, which its owner must choose.
    let counter = id.clone();
    let root = call(&context.host, &LookUp { counter })
        .await
        .map_err(unread)?;
    let unique_hash = root.map(|root| root.settings.unique_hash);
    match unique_hash {
        Some(UniqueHash::Redis) => cache_unique_hash(&context.host, &id, UniqueHash::Redis),
        Some(UniqueHash::Keyed) => return Err(not_of_redis(&id)),
        None => {
            let detail = format!(
                "there is no counter {:?}; create it by PUT /counters/{{id}} with {{\"unique_hash\":\"redis\"}}",
                id.as_str()
            );
            return Err(Problem::new(Code::CounterNotFound, detail));
        }
    }
    unique_elements::merge(context, &id, &hll).await?;
    let question = Read {
        counter: id,
        datacenter: None,
        wanted: ReadParts::default(),
    };
    let seen = see(context, &question, true).await?;
    let sum = seen.sum.ok_or_else(|| not_found(&question.counter))?;
    let view =
        SummedCounter::new(&question.counter, &sum, seen.freshness).rounded(context.rounding()?);
    let answer = Answer::json(imported_json(&view));
    Ok(answer.fresh(view.is_exact(), view.as_of_ms(), view.staleness_ms()))
}
