//! Refused checks that are asked again within the same millisecond: the answer is the same, whatever it takes to find it.
//!
//! Invariant: an answer is given again only to a request that is the same to the letter, with no body, in the millisecond in which it
//! was refused from memory, and not after this isolate has heard of a change.

use std::cell::RefCell;
use std::collections::HashMap;

use worker::web_sys::Response;

use super::head::Again;
use super::visit::Visit;
use crate::platform::clock::now_ms;
use crate::platform::measure;
use crate::protocol::metrics::Metric;
use crate::protocol::problem::Code;
use crate::protocol::routes::RouteName;

/// Refusals of one millisecond: 1 KB each.
const REFUSALS_MAX: usize = 64;

#[derive(Default)]
struct Refusals {
    at_ms: i64,
    by_request: HashMap<String, Again>,
}

thread_local! {
    static REFUSALS: RefCell<Refusals> = RefCell::default();
}

/// The answer to a request that was refused before in this millisecond.
pub fn again(visit: &Visit) -> Option<worker::Result<Response>> {
    let response = REFUSALS.with_borrow(|refusals| {
        if refusals.by_request.is_empty() || visit.request.has_body() {
            return None;
        }
        let found = refusals.by_request.get(visit.request.text())?;
        (refusals.at_ms == now_ms()).then(|| found.response())
    })?;
    count();
    measure::answered(RouteName::Check, 0, Some(Code::QuotaExceeded));
    Some(response)
}

/// Remembers what a check was answered with that was refused from memory, and the text of that, for this millisecond.
///
/// # Errors
/// The platform's.
pub fn note(visit: &Visit, text: &str, response: &Response) -> worker::Result<()> {
    // What took longer says how long.
    if visit.request.has_body() || visit.age_ms() > 0 {
        return Ok(());
    }
    let again = Again::new(response, text)?;
    REFUSALS.with_borrow_mut(|refusals| {
        let now_ms = now_ms();
        if refusals.at_ms != now_ms || refusals.by_request.len() >= REFUSALS_MAX {
            refusals.by_request.clear();
            refusals.at_ms = now_ms;
        }
        let request = visit.request.text().to_owned();
        refusals.by_request.insert(request, again);
    });
    Ok(())
}

/// Forgets them all: something was given back, or a policy has changed.
pub fn forget() {
    REFUSALS.with_borrow_mut(|refusals| refusals.by_request.clear());
}

/// Counts a check that was refused from memory.
pub fn count() {
    measure::count(Metric::LimitDenialCached);
    measure::count(Metric::LimitRefused);
}
