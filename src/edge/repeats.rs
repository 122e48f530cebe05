//! Checks of limits that are asked again at once: what is known of them is not found out again.
//!
//! Invariants: only a request that is the same to the letter, with no body, and in the same datacenter is known again. A refusal
//! from memory is told again in the millisecond in which it was told; a check of a key of which the isolate holds a part is
//! admitted from what is held, for [`KNOWN_MS`] as it was first understood. Neither is once this isolate has heard of a change.

use std::cell::RefCell;
use std::collections::HashMap;

use worker::web_sys::Response;

use super::asking::Asking;
use super::head::{Again, Head, HeaderList};
use super::lent;
use super::limits;
use super::visit::Visit;
use crate::counter::id::Datacenter;
use crate::limit::meter::Verdict;
use crate::platform::clock::now_ms;
use crate::platform::measure;
use crate::protocol::limits::LIMIT_HEADER;
use crate::protocol::metrics::Metric;
use crate::protocol::problem::Code;
use crate::protocol::routes::RouteName;

/// Requests that are known again: 2 KB each.
const REPEATS_MAX: usize = 64;

/// For how long a check is known that is admitted from what is held: a change of its policy is seen so much later.
const KNOWN_MS: i64 = 100;

/// How an answer may be given again.
#[derive(Clone)]
pub enum Repeatable {
    /// It is a refusal from memory.
    Refused,
    /// The check was admitted from what is held.
    Lent(Asking),
}

enum Repeat {
    Refused(Again),
    Lent(Asking, Head),
}

struct Known {
    here: Datacenter,
    since_ms: i64,
    until_ms: i64,
    repeat: Repeat,
}

thread_local! {
    static KNOWN: RefCell<HashMap<String, Known>> = RefCell::default();
}

/// The answer to a request that is known again.
pub fn again(visit: &Visit) -> Option<worker::Result<Response>> {
    KNOWN.with_borrow_mut(|all| {
        // All that are known are checks.
        if all.is_empty() || visit.method() != "POST" || visit.request.has_body() {
            return None;
        }
        let known = all.get_mut(visit.request.text())?;
        if !(known.since_ms..known.until_ms).contains(&now_ms()) {
            all.remove(visit.request.text());
            return None;
        }
        if known.here != visit.datacenter() {
            return None;
        }
        let here = &known.here;
        match &mut known.repeat {
            Repeat::Refused(again) => {
                count_refused();
                measure::answered(RouteName::Check, 0, Some(Code::QuotaExceeded));
                Some(again.response())
            }
            Repeat::Lent(asking, head) => {
                let verdict = lent::take(visit, asking)?;
                limits::note(Some(verdict));
                measure::answered(RouteName::Check, 0, None);
                Some(admitted(asking, here, head, verdict))
            }
        }
    })
}

fn admitted(
    asking: &Asking,
    here: &Datacenter,
    head: &mut Head,
    verdict: Verdict,
) -> worker::Result<Response> {
    let judgement = asking.judgement(here, Some(verdict));
    let left = judgement.limit_item().unwrap_or_default();
    head.respond(&[LIMIT_HEADER, ":", &left].concat(), &judgement.to_json())
}

/// Remembers how a request was answered.
///
/// # Errors
/// The platform's.
pub fn note(
    visit: &Visit,
    repeatable: Repeatable,
    headers: &HeaderList,
    text: &str,
    response: &Response,
) -> worker::Result<()> {
    // What took longer says how long.
    if visit.request.has_body() || visit.age_ms() > 0 {
        return Ok(());
    }
    let since_ms = now_ms();
    let (until_ms, repeat) = match repeatable {
        Repeatable::Refused => (since_ms + 1, Repeat::Refused(Again::new(response, text)?)),
        Repeatable::Lent(asking) => {
            let head = Head::of(headers)?;
            (since_ms + KNOWN_MS, Repeat::Lent(asking, head))
        }
    };
    KNOWN.with_borrow_mut(|all| {
        if all.len() >= REPEATS_MAX {
            all.clear();
        }
        let known = Known {
            here: visit.datacenter(),
            since_ms,
            until_ms,
            repeat,
        };
        all.insert(visit.request.text().to_owned(), known);
    });
    Ok(())
}

/// Forgets them all: something was given back, or a policy has changed.
pub fn forget() {
    KNOWN.with_borrow_mut(HashMap::clear);
}

/// Counts a check that was refused from memory.
pub fn count_refused() {
    measure::count(Metric::LimitDenialCached);
    measure::count(Metric::LimitRefused);
}
