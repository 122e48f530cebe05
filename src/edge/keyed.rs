//! Keyed writes: claimed at the root, then counted by the lead that has the key, each once.
//!
//! Invariant: a key is counted by nobody but the lead that its claim names, so that a retry finds it from
//! any datacenter, after any split. Every call here may be repeated without harm.

use super::read;
use super::respond::Answer;
use super::visit::Visit;
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::ledger::{Keyed, KeyedOutcome, Recorded};
use crate::counter::nonces::Outcome;
use crate::counter::total::Value;
pub use crate::platform::keyed::count_keyed;
use crate::protocol::messages::Flushed;
use crate::protocol::names::CellAddress;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::public::write_json;

/// Counts one keyed write, and returns its answer: the first one again, if it was counted before.
///
/// # Errors
/// As [`problem_of`] says.
pub async fn count_one(
    visit: &Visit,
    counter: &CounterId,
    mut write: Keyed,
    strings: bool,
) -> Result<Answer, Problem> {
    let here = visit.datacenter();
    let delta = write.added.max(write.removed);
    let mut landed = count_keyed(&visit.env, counter, &here, std::slice::from_ref(&write)).await;
    if let Some((_, Ok(KeyedOutcome::NeedsView))) = landed.first() {
        // Others count too: the answer's value is what is seen of the whole now, and this write.
        write.seen = Some(read::value_seen(visit, counter).await.totals());
        landed = count_keyed(&visit.env, counter, &here, std::slice::from_ref(&write)).await;
    }
    let none = || Problem::new(Code::Internal, "a write was not answered");
    let (lead, outcome) = landed.pop().ok_or_else(none)?;
    let (recorded, is_replay) = match outcome.map_err(Problem::from)? {
        KeyedOutcome::Counted(recorded) => (recorded, false),
        KeyedOutcome::Replayed(recorded) => (recorded, true),
        other => return Err(problem_of(other)),
    };
    let answer = Answer::json(answer_json(counter, &lead, delta, &recorded, strings));
    Ok(if is_replay { answer.replayed() } else { answer })
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
        outcome: Outcome {
            sequence: recorded.sequence,
            added: 0,
            removed: 0,
        },
        elsewhere: None,
        shards: 1,
        linger_ms: 0,
    };
    let (added, removed) = recorded.totals;
    let value = Value::new(added, removed);
    let cell = CellAddress::lead(counter, lead);
    write_json(&cell, delta, value, recorded.is_exact, &flushed, strings)
}

/// What a client is told of a keyed write that was not counted.
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
        KeyedOutcome::Overflow => Problem::new(
            Code::CounterOverflow,
            "a total of the counter would pass 2^128 - 1; nothing was counted, send a smaller delta",
        ),
        KeyedOutcome::Ended => Problem::new(
            Code::CounterEnded,
            "the counter that this key wrote to has been deleted since; send another key to count in the new one",
        ),
        KeyedOutcome::NeedsView | KeyedOutcome::Counted(_) | KeyedOutcome::Replayed(_) => {
            Problem::new(
                Code::Unavailable,
                "the counter is busy; nothing was counted, try again",
            )
        }
    }
}
