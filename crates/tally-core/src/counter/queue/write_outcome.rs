//! The outcome of a queued write: counted, retried, or dead.

use serde::{Deserialize, Serialize};

use super::{QUEUE_RETRY_SECONDS_MAX, QueuedDelivery, RETRY_MS};
use crate::counter::ledger::KeyedOutcome;

/// Why events were given up. A stored format: never renumbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadLetterReason {
    /// The counter has been deleted since.
    Ended,
    /// The key was used for another write.
    Reused,
    /// Its row cannot be read, its cell calls it broken, or it could not be delivered in
    /// [`crate::counter::numbered_writes`]' time.
    Broken,
}

/// The outcome of a write that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is counted.
    Done,
    /// It is never counted.
    Dead(DeadLetterReason),
    /// It must be sent again.
    Later,
}

/// The outcome of a write by its cell's answer.
pub fn verdict(outcome: KeyedOutcome) -> WriteOutcome {
    match outcome {
        KeyedOutcome::Counted(_) | KeyedOutcome::Replayed(_) | KeyedOutcome::CountedBefore => {
            WriteOutcome::Done
        }
        KeyedOutcome::Expired => WriteOutcome::Dead(DeadLetterReason::Broken),
        KeyedOutcome::Ended => WriteOutcome::Dead(DeadLetterReason::Ended),
        // An event has no decrement and no bound, so the write that was refused under its key was another one.
        KeyedOutcome::Reused | KeyedOutcome::BelowFloorBefore | KeyedOutcome::Overflow => {
            WriteOutcome::Dead(DeadLetterReason::Reused)
        }
        // The home has moved, or is about to be chosen. An event has no decrement and no condition.
        KeyedOutcome::Full
        | KeyedOutcome::PartFull(_)
        | KeyedOutcome::NeedsView
        | KeyedOutcome::Struck
        | KeyedOutcome::NeedsHome
        | KeyedOutcome::NotWhole
        | KeyedOutcome::Unknown
        | KeyedOutcome::BelowFloor
        | KeyedOutcome::Changed => WriteOutcome::Later,
    }
}

/// How long a batch waits after this many tries, milliseconds.
pub fn retry_after_ms(tries: u32) -> i64 {
    let (first, longest) = RETRY_MS;
    first.saturating_mul(1 << tries.min(16)).min(longest)
}

/// The delay for a message of a queue of the platform after this many deliveries, seconds.
pub fn retry_seconds(deliveries: u32) -> u32 {
    (1 << deliveries.min(16)).min(QUEUE_RETRY_SECONDS_MAX)
}

/// Events that were given up. A stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The counter; empty if it cannot be read.
    pub counter: String,
    /// The sum of the events.
    pub increment: u128,
    /// Why.
    pub death: DeadLetterReason,
    /// When they were given up, unix milliseconds.
    pub at_ms: i64,
}

impl DeadLetter {
    /// The dead letter of an unreadable row.
    pub fn unreadable(at_ms: i64) -> Self {
        Self {
            counter: String::new(),
            increment: 0,
            death: DeadLetterReason::Broken,
            at_ms,
        }
    }

    /// The dead letter of a write that is given up.
    pub fn of(delivery: &QueuedDelivery, death: DeadLetterReason, at_ms: i64) -> Self {
        Self {
            counter: delivery.counter.as_str().to_owned(),
            increment: delivery.write.added,
            death,
            at_ms,
        }
    }
}
