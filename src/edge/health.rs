//! `/healthz`: whether this edge can do its work.
//!
//! Invariant: however often it is asked, an isolate asks the directory once in [`KNOWN_MS`]. What is said is what nobody
//! but the operator can mend: keys that cannot be read, and stored data that this build cannot read. A part that does not
//! answer is no reason: an edge goes on without it.

use std::cell::RefCell;

use super::isolate;
use super::respond::Answer;
use super::visit::Visit;
use crate::platform::call;
use crate::platform::clock::now_ms;
use crate::platform::settled::all_settled;
use crate::protocol::messages::CheckStorage;
use crate::protocol::names::{self, DIRECTORY_PARTITIONS};
use crate::protocol::problem::{Code, Problem};

/// How long an answer of the directory is believed, milliseconds: 16 calls a second for each isolate at most.
const KNOWN_MS: i64 = 1_000;

/// How long a partition may take to answer, milliseconds. One that takes longer is not one that cannot read.
const CHECK_MS_MAX: u64 = 1_000;

/// All partitions at once: a probe waits for one round trip.
const PARTITIONS_AT_ONCE: usize = 16;

/// What the directory has said.
#[derive(Clone)]
struct Known {
    asked_ms: i64,
    unreadable: Option<String>,
}

thread_local! {
    static KNOWN: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// 200, or why not.
///
/// # Errors
/// `not-configured` for keys that cannot be read, `unavailable` for stored data that cannot.
pub async fn health(visit: &Visit) -> Result<Answer, Problem> {
    isolate::access(&visit.env)?;
    match unreadable(visit).await {
        None => Ok(Answer::json(r#"{"status":"ok"}"#.to_owned())),
        Some(why) => Err(Problem::new(
            Code::Unavailable,
            format!("stored data cannot be read: {why}"),
        )),
    }
}

async fn unreadable(visit: &Visit) -> Option<String> {
    let now_ms = now_ms();
    let known = KNOWN.with_borrow_mut(|known| {
        let known = known.as_mut()?;
        if known.asked_ms.abs_diff(now_ms) < KNOWN_MS.unsigned_abs() {
            return Some(known.unreadable.clone());
        }
        // Those who come while it is asked again are told what was known.
        known.asked_ms = now_ms;
        None
    });
    if let Some(known) = known {
        return known;
    }
    let ask = |partition| async move {
        let to = names::directory(partition);
        call::object_within(&visit.env, &to, &CheckStorage {}, CHECK_MS_MAX).await
    };
    let told = all_settled((0..DIRECTORY_PARTITIONS).map(ask), PARTITIONS_AT_ONCE).await;
    let unreadable = told.into_iter().find_map(|told| told.ok().flatten());
    KNOWN.set(Some(Known {
        asked_ms: now_ms,
        unreadable: unreadable.clone(),
    }));
    unreadable
}
