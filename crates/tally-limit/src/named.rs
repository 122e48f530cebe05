//! Named calls of one key: holds, and checks and refunds that their caller may repeat.
//!
//! Invariants: a name does its work at most once, and a repeat gets the first answer. What is held is the sum of the
//! open holds. A hold ends once: it is settled, or its time is over. What is settled is charged in that moment, so
//! it counts no earlier than it was admitted; the rest was never charged. So at every instant used and held are
//! together at most the capacity, as of leases: see [`crate::lender`].
//!
//! Life of a hold: it opens with its verdict. It is settled at an amount, or it ends by itself at its amount or at
//! nothing. Its name is known for [`KNOWN_MS`] after that, and for [`CLOSED_MS`] if its caller cannot repeat it.

pub(super) mod known_calls;

use serde::{Deserialize, Serialize};

use super::meter::{NEVER_MS, Verdict};
use super::policy::{Algorithm, Policy};

/// The name of a call, without meaning: drawn at random, or a keyed hash of an idempotency key.
pub type CallName = [u8; 16];

/// The longest time of a hold: a day.
pub const HOLD_SECONDS_MAX: u64 = 86_400;

/// How long the answer to a call that may be repeated is known, milliseconds.
pub const KNOWN_MS: i64 = 3_600_000;

/// How long a hold without an idempotency key is known after its end, milliseconds.
pub const CLOSED_MS: i64 = 60_000;

/// The age from which answers are forgotten earlier if a key has no room for another call, milliseconds: retries
/// come within seconds.
const CROWDED_MS: i64 = 300_000;

/// The most calls of a key that are known: 8,192 of 76 bytes are 0.6 MB. One account has at most as many as all
/// others have left.
pub const CALLS_MAX: usize = 8_192;

/// The most calls of a key in one row: 60 bytes each.
pub(super) const CALLS_OF_ROW_MAX: usize = 4_096;

/// Forgetting is done for all calls of this time at once, milliseconds.
const FORGET_EACH_MS: i64 = 10_000;

/// What a named call does. A part of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallWork {
    /// Consumes the cost.
    Check,
    /// Gives the cost back.
    Refund,
    /// Holds the cost.
    Hold {
        /// How long, milliseconds.
        length_ms: i64,
        /// Whether all comes back if it is not settled in its time.
        is_returned: bool,
    },
    /// Ends a hold.
    Settle {
        /// Its name.
        hold: CallName,
        /// What was used; all that is held where it is missing.
        amount: Option<u64>,
    },
    /// Takes a hold back as if nobody had asked for it: all of it returns, and its name does its work anew.
    Cancel {
        /// Its name.
        hold: CallName,
    },
}

/// A call with a name. A part of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCall {
    /// The name. Of no meaning for a settlement that cannot be repeated.
    pub name: CallName,
    /// Whether the caller may repeat it: its answer is known for [`KNOWN_MS`].
    pub is_repeatable: bool,
    /// The hash of the request: another one under the same name is refused.
    pub request: u64,
    /// The account whose part of the room it takes, a hash.
    pub account: u32,
    /// What it does.
    pub work: CallWork,
}

impl NamedCall {
    /// Whether its name is known afterwards.
    pub(super) fn is_kept(&self) -> bool {
        self.is_repeatable || matches!(self.work, CallWork::Hold { .. })
    }
}

/// The answer to a named call. A part of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAnswer {
    /// The verdict; of a settlement the state after it.
    pub verdict: Verdict,
    /// What is held, or was until the settlement.
    pub held: u64,
    /// What a settlement has charged.
    pub settled: u64,
    /// How much more was used than there was room for.
    pub over: u64,
    /// When the hold ends by itself, unix milliseconds.
    pub ends_ms: i64,
    /// Whether it was answered before.
    pub is_repeated: bool,
}

/// Why a named call did nothing. A part of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallFault {
    /// Its name was used for another request.
    Reused,
    /// The key has no room for another named call.
    Full,
    /// Its account has as many calls of the key as all others have left.
    PartFull,
    /// There is no such hold of this key, or it ended long ago.
    NoHold,
    /// The hold was settled before.
    Settled,
    /// The time of the hold is over.
    Ended,
}

/// The open holds of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenHolds {
    /// What they hold together.
    pub amount: u64,
    /// How many there are.
    pub count: u64,
    /// When the oldest was opened, unix milliseconds; 0 if there is none.
    pub oldest_ms: i64,
}

impl OpenHolds {
    /// Adds the open holds of other keys.
    pub fn join(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.oldest_ms = match self.count {
            0 => other.oldest_ms,
            _ => self.oldest_ms.min(other.oldest_ms),
        };
        self.amount = self.amount.saturating_add(other.amount);
        self.count = self.count.saturating_add(other.count);
    }
}

/// What the keys of a policy hold. A part of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holders {
    /// All of them together.
    pub all: OpenHolds,
    /// How many keys hold anything.
    pub count: u64,
    /// The keys that hold most, the first one first.
    pub keys: Vec<(String, OpenHolds)>,
}

impl Holders {
    /// Adds keys of another table, and leaves so many that hold most.
    pub fn join(&mut self, other: Self, most: usize) {
        self.all.join(&other.all);
        self.count = self.count.saturating_add(other.count);
        self.keys.extend(other.keys);
        self.leave(most);
    }

    /// Leaves so many keys that hold most.
    pub(super) fn leave(&mut self, most: usize) {
        let rank = |(key, open): &(String, OpenHolds)| (u64::MAX - open.amount, key.clone());
        self.keys.sort_by_cached_key(rank);
        self.keys.truncate(most);
    }
}

/// What became of a call. Stored: append, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    /// A hold that is charged if its time ends.
    Open,
    /// A hold that comes back if its time ends.
    OpenReturning,
    /// A hold that was settled.
    Settled,
    /// A hold whose time ended.
    Ended,
    /// Another call, or a hold that was refused.
    Answered,
    /// A hold that was taken back: its name is free.
    Cancelled,
}

/// A call that is known. A stored format and a part of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownCall {
    pub(super) name: CallName,
    pub(super) request: u64,
    /// When it was opened, or has ended.
    pub(super) at_ms: i64,
    /// When the hold ends by itself.
    pub(super) ends_ms: i64,
    /// The row with its newest state; 0 if it has changed since.
    #[serde(skip)]
    pub(super) row: u64,
    pub(super) account: u32,
    pub(super) held: u32,
    pub(super) remaining: u32,
    pub(super) reset_ms: u32,
    /// The wait of a refusal, or what a settlement has charged.
    pub(super) other: u32,
    pub(super) state: State,
    pub(super) is_repeatable: bool,
}

pub(super) fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn wide(value: u32) -> u64 {
    match value {
        u32::MAX => NEVER_MS,
        value => value.into(),
    }
}

impl KnownCall {
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open | State::OpenReturning)
    }

    /// When something becomes of it by itself: it ends, or is forgotten.
    pub(super) fn due_ms(&self) -> i64 {
        if self.is_open() {
            return self.ends_ms;
        }
        let known_ms = if self.is_repeatable {
            KNOWN_MS
        } else {
            CLOSED_MS
        };
        let forgotten_ms = self.at_ms.saturating_add(known_ms);
        let part = forgotten_ms.div_euclid(FORGET_EACH_MS).saturating_add(1);
        part.saturating_mul(FORGET_EACH_MS)
    }

    /// Until when a row with its newest state is needed at most.
    pub(super) fn needed_until_ms(&self) -> i64 {
        self.due_ms().saturating_add(KNOWN_MS)
    }

    /// Whether this is a later state of the same call. A hold that has ended stays so, whatever the clocks say. The
    /// name of a hold that was taken back may hold again.
    pub(super) fn is_later_than(&self, other: &Self) -> bool {
        match other.state {
            State::Settled | State::Ended | State::Answered => false,
            State::Cancelled => self.at_ms > other.at_ms,
            State::Open | State::OpenReturning => !self.is_open() || self.at_ms > other.at_ms,
        }
    }

    /// Whether its name does nothing any more.
    pub(super) fn is_taken(&self) -> bool {
        self.state != State::Cancelled
    }

    /// The first answer, to a repeat.
    pub(super) fn again(&self, policy: &Policy, call: &NamedCall) -> Result<CallAnswer, CallFault> {
        if self.request != call.request {
            return Err(CallFault::Reused);
        }
        let other = wide(self.other);
        let (settled, over) = match call.work {
            CallWork::Settle { amount, .. } => {
                (other, amount.map_or(0, |used| used.saturating_sub(other)))
            }
            _ => (0, 0),
        };
        let is_refusal =
            self.state == State::Answered && !matches!(call.work, CallWork::Settle { .. });
        let retry_after_ms = if is_refusal { other } else { 0 };
        Ok(CallAnswer {
            verdict: Verdict {
                is_allowed: retry_after_ms == 0,
                limit: policy.limit,
                remaining: self.remaining.into(),
                reset_after_ms: wide(self.reset_ms),
                retry_after_ms,
            },
            held: self.held.into(),
            settled,
            over: if policy.algorithm == Algorithm::Concurrency {
                0
            } else {
                over
            },
            ends_ms: self.ends_ms,
            is_repeated: true,
        })
    }
}
