//! Keyed writes: claimed at the root, then counted by the lead that has the key, each once.
//!
//! Invariant: a key is counted only by the lead that its claim names, so that a retry from any datacenter finds it.
//! Every call here may be repeated without harm.

use super::administration;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use crate::read::counter as read;
use crate::read::last_seen;
use tally_api::keyed_routes::KeyRoom;
use tally_api::public::write_json;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeySource, KeyedOutcome, KeyedWrite, Recorded};
use tally_core::counter::nonces::FlushEffect;
use tally_core::counter::total::Value;
pub use tally_shared::keyed_calls::count_keyed;
use tally_shared::keyed_calls::{count_unclaimed, recall_keyed};
use tally_shared::open_objects;
use tally_wire::messages::Flushed;
use tally_wire::names::CellAddress;
use tally_wire::problem::{Code, Problem};

/// How often one write is sent: it may have to bring the value along, or need a home first.
const ROUNDS_MAX: usize = 3;

/// Who may repeat a write under its key.
pub enum KeyedRoute {
    /// A client, anywhere: the key is claimed at the root.
    Claimed(KeyRoom),
    /// Nobody, because the key was drawn here: the write goes to the lead of this datacenter.
    Unclaimed(Datacenter),
    /// A client, but the write may not be counted now, for its time or its condition: it is answered if it was counted
    /// before.
    Recalled,
}

/// Counts one keyed write, and returns its answer: the first one again, if it was counted before, or was finally
/// refused. Also returns the unix second in which it was counted; `None` where it was refused.
///
/// # Errors
/// As [`problem_of`] says.
pub async fn count_one(
    context: &RequestContext,
    counter: &CounterId,
    mut write: KeyedWrite,
    how: &KeyedRoute,
    strings: bool,
) -> Result<(Answer, Option<i64>), Problem> {
    let here = context.datacenter();
    let delta = write.added.max(write.removed);
    open_objects::admit_write(&context.host, &CellAddress::lead(counter, &here)).await?;
    let (mut lead, mut outcome) = (here.clone(), Ok(KeyedOutcome::NotWhole));
    for _ in 0..ROUNDS_MAX {
        let only = std::slice::from_ref(&write);
        let mut outcomes = match how {
            KeyedRoute::Claimed(room) => {
                count_keyed(&context.host, counter, &here, only, *room).await
            }
            KeyedRoute::Recalled => recall_keyed(&context.host, counter, &here, only).await,
            KeyedRoute::Unclaimed(at) => {
                count_unclaimed(&context.host, counter, at, only, KeySource::Drawn).await
            }
        };
        let none = || Problem::new(Code::Internal, "a write was not answered");
        (lead, outcome) = outcomes.pop().ok_or_else(none)?;
        match &outcome {
            // Others count too: the answer's value is the present view of the whole, and this write.
            Ok(KeyedOutcome::NeedsView) => {
                write.seen = Some(read::value_seen(context, counter).await);
            }
            Ok(KeyedOutcome::NeedsHome) => {
                administration::assign_home(context, counter).await?;
            }
            _ => break,
        }
    }
    let (recorded, is_replay) = match outcome.map_err(Problem::from)? {
        KeyedOutcome::Counted(recorded) => {
            last_seen::record_counted(&context.host, counter);
            (recorded, false)
        }
        KeyedOutcome::Replayed(recorded) => (recorded, true),
        KeyedOutcome::BelowFloorBefore if !matches!(how, KeyedRoute::Unclaimed(_)) => {
            let refusal = problem_of(KeyedOutcome::BelowFloorBefore);
            return Ok((Answer::from(refusal).replayed(), None));
        }
        other => return Err(problem_of(other)),
    };
    let answer = Answer::json(answer_json(counter, &lead, delta, &recorded, strings));
    let answer = if is_replay { answer.replayed() } else { answer };
    Ok((answer, Some(recorded.at_ms.div_euclid(1_000))))
}

fn answer_json(
    counter: &CounterId,
    lead: &Datacenter,
    delta: u128,
    recorded: &Recorded,
    strings: bool,
) -> String {
    let flushed = Flushed {
        generation: recorded.generation,
        outcome: FlushEffect {
            sequence: recorded.sequence,
            ..FlushEffect::default()
        },
        elsewhere: None,
        shards: 1,
        linger_ms: 0,
        operations: recorded.operations,
        is_apart: false,
    };
    let (added, removed) = recorded.totals;
    let value = Value::new(added, removed);
    let cell = CellAddress::lead(counter, lead);
    write_json(&cell, delta, value, recorded.is_exact, &flushed, strings)
}

/// The problem of a keyed write that was not counted.
pub fn problem_of(outcome: KeyedOutcome) -> Problem {
    match outcome {
        KeyedOutcome::Reused => Problem::new(
            Code::IdempotencyKeyReused,
            "this key was used for another write; send another key with another write",
        ),
        KeyedOutcome::Full => Problem::new(
            Code::Overloaded,
            "too many keys are remembered for this counter; nothing was counted, try again later or without a key",
        ),
        KeyedOutcome::PartFull(account) => administration::part_full(account),
        KeyedOutcome::Ended => Problem::new(
            Code::CounterEnded,
            "the counter that this key wrote to has been deleted since; send another key to count in the new one",
        ),
        KeyedOutcome::BelowFloor | KeyedOutcome::BelowFloorBefore => Problem::new(
            Code::BelowFloor,
            "the value would fall below the counter's floor; nothing was counted",
        ),
        KeyedOutcome::Changed => Problem::new(
            Code::PreconditionFailed,
            "the counter has changed since the version in If-Match; nothing was counted, read it again",
        ),
        KeyedOutcome::NeedsHome => administration::needs_home(),
        KeyedOutcome::Unknown => Problem::new(
            Code::ClockSkew,
            "`at` is further from our clock than is allowed, and this key counted nothing before; send older events to /ingest",
        ),
        KeyedOutcome::NotWhole
        | KeyedOutcome::Struck
        | KeyedOutcome::NeedsView
        | KeyedOutcome::CountedBefore
        | KeyedOutcome::Expired
        | KeyedOutcome::Overflow
        | KeyedOutcome::Counted(_)
        | KeyedOutcome::Replayed(_) => Problem::new(
            Code::Unavailable,
            "the counter is busy; nothing was counted, try again",
        ),
    }
}
