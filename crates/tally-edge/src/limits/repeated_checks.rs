//! Repeated checks of limits: their answers are taken from memory.
//!
//! Invariants: a request is recognised only if it is identical byte by byte, has no body, and enters in the same
//! datacenter. A cached refusal is answered only within the millisecond of the first answer. A check of a key for which
//! this isolate holds a lease is admitted from that, by its cached parse, for [`KNOWN_MS`]. Both end when this isolate
//! gets to know a change.

use std::cell::RefCell;
use std::rc::Rc;

use super::local_quota;
use super::policies;
use super::resolved_check::ResolvedCheck;
use super::verdicts;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::{Listener, REQUEST_ID};
use tally_api::limits::LIMIT_HEADER;
use tally_api::metrics::Metric;
use tally_api::routes::RouteName;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::Datacenter;
use tally_core::limit::meter::Verdict;
use tally_host::http::{Body, Response, StaticHead};
use tally_host::{Host, State};
use tally_shared::metrics;
use tally_wire::problem::Code;

/// The most recognised requests: 2 KB each.
const REPEATS_MAX: usize = 64;

/// How long a check that is admitted from a local quota is not resolved again. A change of its policy takes effect that
/// much later.
const KNOWN_MS: i64 = 100;

/// How an answer may be repeated to the same request without looking again.
pub enum Repeatable {
    /// It is a refusal from memory.
    Refused(ResolvedCheck, Verdict),
    /// The check was admitted from the isolate's part.
    LocalQuota(ResolvedCheck),
}

enum Repeat {
    /// A refusal, and its text.
    Refused(ResolvedCheck, Rc<str>, Verdict),
    LocalQuota(ResolvedCheck),
}

struct CachedCheck {
    here: Datacenter,
    since_ms: i64,
    until_ms: i64,
    /// [`policies::changes`] when it was answered.
    policies: u64,
    repeat: Repeat,
    head: Rc<StaticHead>,
}

/// Recognised requests, by their text.
struct Repeats(RefCell<BoundedMap<String, CachedCheck, REPEATS_MAX>>);

impl State for Repeats {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// The answer to a recognised request.
pub fn again(context: &RequestContext) -> Option<Response> {
    let repeats = context.host.state::<Repeats>();
    let mut all = repeats.0.borrow_mut();
    // All recognised requests are checks.
    if all.is_empty() || context.method() != "POST" || context.request.has_body() {
        return None;
    }
    let known = all.get(context.request.text())?;
    let is_current = known.policies == policies::changes(&context.host);
    if !is_current || !(known.since_ms..known.until_ms).contains(&context.host.now_ms()) {
        all.remove(context.request.text());
        return None;
    }
    if known.here != context.datacenter() {
        return None;
    }
    let mut changed = vec![(REQUEST_ID, context.id().to_owned())];
    let (text, refusal) = match &known.repeat {
        Repeat::Refused(resolved, text, verdict) => {
            metrics::count(&context.host, Metric::LimitDenialCached);
            verdicts::record(context, resolved, Some(*verdict));
            (text.clone(), Some(Code::QuotaExceeded))
        }
        Repeat::LocalQuota(resolved) => {
            let verdict = local_quota::take(context, resolved)?;
            verdicts::record(context, resolved, Some(verdict));
            let result = resolved.result(&known.here, Some(verdict));
            changed.push((LIMIT_HEADER, result.limit_item().unwrap_or_default()));
            (result.to_json().into(), None)
        }
    };
    metrics::answered(&context.host, RouteName::Check, 0, refusal);
    Some(Response {
        head: known.head.clone(),
        changed,
        body: Body::Text(text),
    })
}

impl Listener for Repeatable {
    fn look(&self, context: &RequestContext, response: &Response) {
        // The time is a part of an answer that took longer.
        if context.request.has_body() || context.age_ms() > 0 {
            return;
        }
        store(context, self, response);
    }
}

/// Stores how a request was answered.
fn store(context: &RequestContext, repeatable: &Repeatable, response: &Response) {
    let since_ms = context.host.now_ms();
    let (until_ms, repeat) = match (repeatable, &response.body) {
        (Repeatable::Refused(resolved, verdict), Body::Text(text)) => (
            since_ms + 1,
            Repeat::Refused(resolved.clone(), text.clone(), *verdict),
        ),
        (Repeatable::LocalQuota(resolved), _) => {
            (since_ms + KNOWN_MS, Repeat::LocalQuota(resolved.clone()))
        }
        _ => return,
    };
    let repeats = context.host.state::<Repeats>();
    let known = CachedCheck {
        here: context.datacenter(),
        since_ms,
        until_ms,
        policies: policies::changes(&context.host),
        repeat,
        head: response.head.clone(),
    };
    let text = context.request.text().to_owned();
    repeats.0.borrow_mut().insert(text, known);
}

/// Forgets all of them: something was given back.
pub fn forget(host: &Host) {
    host.state::<Repeats>().0.borrow_mut().clear();
}
