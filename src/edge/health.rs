//! `/healthz`: whether this edge can do its work.
//!
//! Invariant: however often it is asked, an isolate asks the directory 16 times a second at most, and a probe that asks once a second
//! asks one partition each time. What is said is what nobody but the operator can mend: settings of either Worker that may not be as
//! they are, and stored data that this build cannot read. A part that does not answer is no reason: an edge goes on without it.

use std::cell::RefCell;

use super::isolate;
use super::respond::Answer;
use super::visit::Visit;
use crate::platform::clock::{now_ms, random};
use crate::platform::settled::all_settled;
use crate::platform::{call, openings, setting};
use crate::protocol::health::{Ailment, Health};
use crate::protocol::messages::CheckStorage;
use crate::protocol::names;
use crate::protocol::problem::Problem;

/// How long a partition may take to answer, milliseconds. One that takes longer is not one that cannot read.
const CHECK_MS_MAX: u64 = 1_000;

/// All partitions at once, where all are asked: a probe waits for one round trip.
const PARTITIONS_AT_ONCE: usize = 16;

thread_local! {
    static HEALTH: RefCell<Option<Health>> = const { RefCell::new(None) };
}

/// 200, or why not.
///
/// # Errors
/// `not-configured` for keys that cannot be read and other settings that may not be so, `unavailable` for stored data that cannot be
/// read.
pub async fn health(visit: &Visit) -> Result<Answer, Problem> {
    isolate::access(&visit.env)?;
    setting::check_all(&visit.env)?;
    match ailment(visit).await {
        None => Ok(Answer::json(r#"{"status":"ok"}"#.to_owned())),
        Some(ailment) => Err(ailment.into()),
    }
}

fn with<T>(work: impl FnOnce(&mut Health) -> T) -> T {
    HEALTH.with_borrow_mut(|health| work(health.get_or_insert_with(|| Health::new(random()))))
}

async fn ailment(visit: &Visit) -> Option<Ailment> {
    // A partition lives near whoever asks for it first, and a call to it is paid for: one is asked each time. Where one process has all
    // of them neither is so, and `serve` wants to know of all at its start.
    let has_all = openings::are_bounded(&visit.env);
    let due = with(|health| health.due(now_ms(), has_all));
    let ask = |partition| async move {
        let to = names::directory(partition);
        let told = call::object_within(&visit.env, &to, &CheckStorage {}, CHECK_MS_MAX).await;
        (partition, told)
    };
    let told = all_settled(due.into_iter().map(ask), PARTITIONS_AT_ONCE).await;
    with(|health| {
        for (partition, told) in told {
            if let Ok(ailment) = told {
                health.note(partition, ailment);
            }
        }
        health.ailment().cloned()
    })
}
