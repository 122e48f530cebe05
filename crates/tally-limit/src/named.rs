//! Named calls of one key: holds, and checks and refunds that their caller may repeat.
//!
//! Invariants: a name does its work at most once, and a repeat gets the first answer. What is held is the sum of the
//! open holds. A hold ends once: it is settled, or its time is over. What is settled is charged in that moment, so
//! it counts no earlier than it was admitted; the rest was never charged. So at every instant used and held are
//! together at most the capacity, as of leases: see [`crate::lender`].
//!
//! Life of a hold: it opens with its verdict. It is settled at an amount, or it ends by itself at its amount or at
//! nothing. Its name is known for [`KNOWN_MS`] after that, and for [`CLOSED_MS`] if its caller cannot repeat it.

use serde::{Deserialize, Serialize};

use super::lender::Lender;
use super::meter::{NEVER_MS, Verdict};
use super::policy::{Algorithm, LIMIT_MAX, Policy};

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

/// The most calls of a key that are known: 8,192 of 72 bytes are 0.6 MB. One account has at most as many as all
/// others have left. A call looks at each name of its key: 5 µs.
pub const CALLS_MAX: usize = 8_192;

/// The most calls of a key in one row: 60 bytes each.
pub(super) const CALLS_OF_ROW_MAX: usize = 4_096;

/// Forgetting is done for all calls of this time at once, milliseconds.
const FORGET_EACH_MS: i64 = 10_000;

/// How soon a refused call may try again if open holds are in its way, milliseconds: one may be settled at any time.
const HELD_WAIT_MS: u64 = 1_000;

/// What a named call does. A part of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
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
    pub work: Work,
}

impl NamedCall {
    /// Whether its name is known afterwards.
    fn is_kept(&self) -> bool {
        self.is_repeatable || matches!(self.work, Work::Hold { .. })
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

/// What became of a call. Stored: append, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum State {
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
}

/// A call that is known. A stored format and a part of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownCall {
    name: CallName,
    request: u64,
    /// When it was opened, or has ended.
    at_ms: i64,
    /// When the hold ends by itself.
    ends_ms: i64,
    /// The row with its newest state; 0 if it has changed since.
    #[serde(skip)]
    pub(super) row: u64,
    account: u32,
    held: u32,
    remaining: u32,
    reset_ms: u32,
    /// The wait of a refusal, or what a settlement has charged.
    other: u32,
    state: State,
    is_repeatable: bool,
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn wide(value: u32) -> u64 {
    match value {
        u32::MAX => NEVER_MS,
        value => value.into(),
    }
}

impl KnownCall {
    fn is_open(&self) -> bool {
        matches!(self.state, State::Open | State::OpenReturning)
    }

    /// What all of these hold.
    pub(super) fn held(all: &[Self]) -> u64 {
        let open = all.iter().filter(|known| known.is_open());
        open.fold(0, |sum, known| sum.saturating_add(known.held.into()))
    }

    /// When something becomes of it by itself: it ends, or is forgotten.
    fn due_ms(&self) -> i64 {
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

    /// The first answer, to a repeat.
    fn again(&self, policy: &Policy, call: &NamedCall) -> Result<CallAnswer, CallFault> {
        if self.request != call.request {
            return Err(CallFault::Reused);
        }
        let other = wide(self.other);
        let (settled, over) = match call.work {
            Work::Settle { amount, .. } => {
                (other, amount.map_or(0, |used| used.saturating_sub(other)))
            }
            _ => (0, 0),
        };
        let is_refusal = self.state == State::Answered && !matches!(call.work, Work::Settle { .. });
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

/// The known calls of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownCalls {
    list: Vec<KnownCall>,
    held: u64,
    /// Nothing becomes of any of them before.
    due_ms: i64,
}

impl KnownCalls {
    fn find(&mut self, name: &CallName) -> Option<&mut KnownCall> {
        // The newest are repeated or settled most often.
        self.list.iter_mut().rev().find(|known| known.name == *name)
    }

    fn push(&mut self, known: KnownCall) {
        if self.list.len() == self.list.capacity() {
            // So that 100,000 holds take no more than a sixteenth beside themselves.
            self.list.reserve_exact(self.list.len() / 16 + 1);
        }
        if known.is_open() {
            self.held = self.held.saturating_add(known.held.into());
        }
        self.due_ms = match self.list.is_empty() {
            true => known.due_ms(),
            false => self.due_ms.min(known.due_ms()),
        };
        self.list.push(known);
    }

    /// Inserts a call that was stored, or handed over. Its newer state takes the place of an older one.
    pub(super) fn put(&mut self, known: KnownCall) {
        if let Some(index) = self.list.iter().rposition(|other| other.name == known.name) {
            let older = self.list.remove(index);
            if older.is_open() {
                self.held = self.held.saturating_sub(older.held.into());
            }
        }
        self.push(known);
    }

    /// Makes room for another call of an account.
    fn make_room(&mut self, account: u32, now_ms: i64) -> Result<(), CallFault> {
        if self.list.len() >= CALLS_MAX {
            // Some at once, because each time all are looked at.
            let mut left = CALLS_MAX / 16;
            self.list.retain(|known| {
                let is_old = known.at_ms.saturating_add(CROWDED_MS) <= now_ms;
                let may_go = !known.is_open() && (is_old || !known.is_repeatable);
                let goes = may_go && left > 0;
                left -= usize::from(goes);
                !goes
            });
        }
        let own = self.list.iter().filter(|known| known.account == account);
        match CALLS_MAX.saturating_sub(self.list.len()) {
            0 => Err(CallFault::Full),
            room if own.count() >= room => Err(CallFault::PartFull),
            _ => Ok(()),
        }
    }

    /// Ends the holds whose time is over, and forgets old answers. Returns when and how much is to be charged, in the
    /// order of the times.
    fn expire(&mut self, now_ms: i64) -> Vec<(i64, u64)> {
        let mut charged = Vec::new();
        for known in self
            .list
            .iter_mut()
            .filter(|known| known.is_open() && known.ends_ms <= now_ms)
        {
            if known.state == State::Open {
                charged.push((known.ends_ms, u64::from(known.held)));
            }
            self.held = self.held.saturating_sub(known.held.into());
            (known.state, known.at_ms, known.row) = (State::Ended, known.ends_ms, 0);
        }
        self.list.retain(|known| known.due_ms() > now_ms);
        self.due_ms = self
            .list
            .iter()
            .map(KnownCall::due_ms)
            .min()
            .unwrap_or(i64::MAX);
        charged.sort_unstable();
        charged
    }

    /// Changed calls, up to [`CALLS_OF_ROW_MAX`], which are stored in this row.
    pub(super) fn take_changed(&mut self, row: u64) -> Vec<KnownCall> {
        let changed = self.list.iter_mut().filter(|known| known.row == 0);
        let taken = changed.take(CALLS_OF_ROW_MAX).map(|known| {
            known.row = row;
            *known
        });
        taken.collect()
    }

    /// Marks those that are stored in a row as changed. Returns whether there are any.
    pub(super) fn change_row(&mut self, row: u64) -> bool {
        let of_row = self.list.iter_mut().filter(|known| known.row == row);
        of_row.map(|known| known.row = 0).count() > 0
    }
}

impl Lender {
    /// What open holds take.
    pub(super) fn held(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| calls.held)
    }

    /// The bytes of the known calls.
    pub(super) fn calls_bytes(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| {
            let list = calls.list.capacity().saturating_mul(size_of::<KnownCall>());
            u64::try_from(size_of::<KnownCalls>().saturating_add(list)).unwrap_or(u64::MAX)
        })
    }

    /// Whether a hold ends by now, or an answer is forgotten.
    pub(super) fn has_due_calls(&self, now_ms: i64) -> bool {
        self.calls
            .as_ref()
            .is_some_and(|calls| calls.due_ms <= now_ms)
    }

    /// Ends holds whose time is over.
    pub(super) fn expire_calls(&mut self, policy: &Policy, now_ms: i64) {
        let Some(calls) = self.calls.as_mut().filter(|calls| calls.due_ms <= now_ms) else {
            return;
        };
        let charged = calls.expire(now_ms);
        if calls.list.is_empty() {
            self.calls = None;
        }
        if policy.algorithm != Algorithm::Concurrency {
            for (ends_ms, amount) in charged {
                self.meter.charge(policy, ends_ms, amount);
            }
        }
    }

    /// The open holds.
    pub fn open_holds(&self, now_ms: i64) -> OpenHolds {
        let mut found = OpenHolds::default();
        let calls = self.calls.iter().flat_map(|calls| calls.list.iter());
        for known in calls.filter(|known| known.is_open() && known.ends_ms > now_ms) {
            found.amount = found.amount.saturating_add(known.held.into());
            found.oldest_ms = match found.count {
                0 => known.at_ms,
                _ => found.oldest_ms.min(known.at_ms),
            };
            found.count = found.count.saturating_add(1);
        }
        found
    }

    /// All known calls, to hand them over.
    pub(super) fn known_calls(&self) -> Vec<KnownCall> {
        self.calls
            .as_ref()
            .map_or_else(Vec::new, |calls| calls.list.clone())
    }

    /// Goes on with a call that was stored in this row, or handed over.
    pub(super) fn put_call(&mut self, row: u64, known: KnownCall) {
        let known = KnownCall { row, ..known };
        self.calls.get_or_insert_default().put(known);
    }

    /// Does what a named call asks for, once. `has_room` says whether memory is left for another name. Cost: O(known
    /// calls of the key).
    ///
    /// # Errors
    /// A [`CallFault`]; nothing is consumed, held or given back.
    pub fn call(
        &mut self,
        policy: &Policy,
        call: &NamedCall,
        cost: u64,
        has_room: bool,
        now_ms: i64,
    ) -> Result<CallAnswer, CallFault> {
        self.expire(policy, now_ms);
        if call.is_kept() {
            let calls = self.calls.get_or_insert_default();
            if let Some(known) = calls.find(&call.name) {
                return known.again(policy, call);
            }
            calls.make_room(call.account, now_ms)?;
            if !has_room {
                return Err(CallFault::Full);
            }
        }
        let mut state = State::Answered;
        let (mut held, mut settled, mut over, mut ends_ms) = (0, 0, 0, now_ms);
        let verdict = match call.work {
            Work::Check => self.check(policy, now_ms, cost),
            Work::Refund => {
                self.meter.refund(policy, now_ms, cost);
                self.peek(policy, now_ms, 0)
            }
            Work::Hold {
                length_ms,
                is_returned,
            } => {
                let verdict = self.peek(policy, now_ms, cost);
                if verdict.is_allowed {
                    state = if is_returned {
                        State::OpenReturning
                    } else {
                        State::Open
                    };
                    (held, ends_ms) = (cost.min(LIMIT_MAX), now_ms.saturating_add(length_ms));
                }
                let verdict = self.with_hold_waits(verdict, policy, now_ms, cost, held);
                let left = verdict.remaining.saturating_sub(held);
                Verdict {
                    remaining: left,
                    ..verdict
                }
            }
            Work::Settle { hold, amount } => {
                (held, settled, over) = self.settle(policy, &hold, amount, now_ms)?;
                self.peek(policy, now_ms, 0)
            }
        };
        if state != State::Answered || call.is_repeatable {
            let is_settlement = matches!(call.work, Work::Settle { .. });
            let known = KnownCall {
                name: call.name,
                request: call.request,
                at_ms: now_ms,
                ends_ms,
                row: 0,
                account: call.account,
                held: narrow(held),
                remaining: narrow(verdict.remaining),
                reset_ms: narrow(verdict.reset_after_ms),
                other: narrow(if is_settlement {
                    settled
                } else {
                    verdict.retry_after_ms
                }),
                state,
                is_repeatable: call.is_repeatable,
            };
            self.calls.get_or_insert_default().push(known);
        }
        Ok(CallAnswer {
            verdict,
            held,
            settled,
            over,
            ends_ms,
            is_repeated: false,
        })
    }

    /// Ends an open hold. Returns what it held, what is charged, and how much more was used than there is room for.
    fn settle(
        &mut self,
        policy: &Policy,
        hold: &CallName,
        amount: Option<u64>,
        now_ms: i64,
    ) -> Result<(u64, u64, u64), CallFault> {
        let calls = self.calls.as_mut().ok_or(CallFault::NoHold)?;
        let known = calls.find(hold).ok_or(CallFault::NoHold)?;
        match known.state {
            State::Open | State::OpenReturning => {}
            State::Settled => return Err(CallFault::Settled),
            State::Ended => return Err(CallFault::Ended),
            State::Answered => return Err(CallFault::NoHold),
        }
        (known.state, known.at_ms, known.row) = (State::Settled, now_ms, 0);
        let held = u64::from(known.held);
        let due_ms = known.due_ms();
        calls.held = calls.held.saturating_sub(held);
        calls.due_ms = calls.due_ms.min(due_ms);
        if policy.algorithm == Algorithm::Concurrency {
            return Ok((held, 0, 0));
        }
        let used = amount.unwrap_or(held);
        let room = self.free(policy, now_ms).max(held);
        let settled = used.min(room);
        self.meter.charge(policy, now_ms, settled);
        Ok((held, settled, used - settled))
    }

    /// Corrects the waits of a verdict by the open holds: as if they were settled at nothing a moment later.
    pub(super) fn with_hold_waits(
        &self,
        mut verdict: Verdict,
        policy: &Policy,
        now_ms: i64,
        cost: u64,
        held: u64,
    ) -> Verdict {
        if held == 0 || cost > policy.capacity() {
            return verdict;
        }
        if !verdict.is_allowed {
            let lent = self.outstanding();
            let without = self.meter.peek_beside(policy, now_ms, cost, lent);
            let wait_ms = without.retry_after_ms.max(HELD_WAIT_MS);
            verdict.retry_after_ms = verdict.retry_after_ms.min(wait_ms);
        }
        if verdict.reset_after_ms == 0 {
            verdict.reset_after_ms = HELD_WAIT_MS;
        }
        verdict
    }
}
