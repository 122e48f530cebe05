//! How a lender does named calls, and counts open holds beside its meter: see [`super::named`].

use super::lender::Lender;
use super::meter::Verdict;
use super::named::{
    CallAnswer, CallFault, CallName, CallWork, KnownCall, NamedCall, OpenHolds, State, narrow,
};
use super::policy::{Algorithm, LIMIT_MAX, Policy};

/// How soon a refused call may try again if open holds are in its way, milliseconds: one may be settled at any time.
const HELD_WAIT_MS: u64 = 1_000;

/// What a call has done.
struct Done {
    verdict: Verdict,
    state: State,
    held: u64,
    settled: u64,
    over: u64,
    ends_ms: i64,
}

impl Lender {
    /// What open holds take.
    pub(super) fn held(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| calls.held())
    }

    /// The bytes of the known calls.
    pub(super) fn calls_bytes(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| calls.bytes())
    }

    /// Whether a hold ends by now, or an answer is forgotten.
    pub(super) fn has_due_calls(&self, now_ms: i64) -> bool {
        self.calls
            .as_ref()
            .is_some_and(|calls| calls.is_due(now_ms))
    }

    /// Ends holds whose time is over.
    pub(super) fn expire_calls(&mut self, policy: &Policy, now_ms: i64) {
        let Some(calls) = self.calls.as_mut().filter(|calls| calls.is_due(now_ms)) else {
            return;
        };
        let charged = calls.expire(now_ms);
        if calls.is_empty() {
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
        let calls = self.calls.iter().flat_map(|calls| calls.iter());
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
            .map_or_else(Vec::new, |calls| calls.iter().copied().collect())
    }

    /// Takes in a call that was stored in this row.
    pub(super) fn put_call(&mut self, row: u64, known: KnownCall) {
        let known = KnownCall { row, ..known };
        self.calls.get_or_insert_default().put(known);
    }

    /// Takes in a call that was handed over.
    pub(super) fn take_call(&mut self, known: KnownCall) {
        let known = KnownCall { row: 0, ..known };
        self.calls.get_or_insert_default().take(known);
    }

    /// Does what a named call asks for, once. `has_room` says whether memory is left for another name. Cost: O(log
    /// known calls of the key), and the cost of what ends.
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
                if known.is_taken() {
                    return known.again(policy, call);
                }
                calls.remove(&call.name);
            }
            calls.make_room(call.account, now_ms)?;
            if !has_room {
                return Err(CallFault::Full);
            }
        }
        let done = self.work(policy, call, cost, now_ms)?;
        if done.state != State::Answered || call.is_repeatable {
            let is_settlement = matches!(call.work, CallWork::Settle { .. });
            let wait_ms = done.verdict.retry_after_ms;
            let known = KnownCall {
                name: call.name,
                request: call.request,
                at_ms: now_ms,
                ends_ms: done.ends_ms,
                row: 0,
                account: call.account,
                held: narrow(done.held),
                remaining: narrow(done.verdict.remaining),
                reset_ms: narrow(done.verdict.reset_after_ms),
                other: narrow(if is_settlement { done.settled } else { wait_ms }),
                state: done.state,
                is_repeatable: call.is_repeatable,
            };
            self.calls.get_or_insert_default().push(known);
        }
        Ok(CallAnswer {
            verdict: done.verdict,
            held: done.held,
            settled: done.settled,
            over: done.over,
            ends_ms: done.ends_ms,
            is_repeated: false,
        })
    }

    /// Does the work of a call that is not known.
    fn work(
        &mut self,
        policy: &Policy,
        call: &NamedCall,
        cost: u64,
        now_ms: i64,
    ) -> Result<Done, CallFault> {
        let mut done = Done {
            verdict: self.peek(policy, now_ms, cost),
            state: State::Answered,
            held: 0,
            settled: 0,
            over: 0,
            ends_ms: now_ms,
        };
        match call.work {
            CallWork::Check => done.verdict = self.check(policy, now_ms, cost),
            CallWork::Refund => {
                self.meter.refund(policy, now_ms, cost);
                done.verdict = self.peek(policy, now_ms, 0);
            }
            CallWork::Hold {
                length_ms,
                is_returned,
            } if done.verdict.is_allowed => {
                done.state = match is_returned {
                    true => State::OpenReturning,
                    false => State::Open,
                };
                done.held = cost.min(LIMIT_MAX);
                done.ends_ms = now_ms.saturating_add(length_ms);
                let verdict = self.with_hold_waits(done.verdict, policy, now_ms, cost, cost);
                let remaining = verdict.remaining.saturating_sub(done.held);
                done.verdict = Verdict {
                    remaining,
                    ..verdict
                };
            }
            CallWork::Hold { .. } => {}
            CallWork::Settle { hold, amount } => {
                let end = (State::Settled, amount);
                (done.held, done.settled, done.over) = self.settle(policy, &hold, end, now_ms)?;
                done.verdict = self.peek(policy, now_ms, 0);
            }
            CallWork::Cancel { hold } => {
                let end = (State::Cancelled, Some(0));
                (done.held, ..) = self.settle(policy, &hold, end, now_ms)?;
                done.verdict = self.peek(policy, now_ms, 0);
            }
        }
        Ok(done)
    }

    /// Ends an open hold. Returns what it held, what is charged, and how much more was used than there is room for.
    fn settle(
        &mut self,
        policy: &Policy,
        hold: &CallName,
        (state, amount): (State, Option<u64>),
        now_ms: i64,
    ) -> Result<(u64, u64, u64), CallFault> {
        let calls = self.calls.as_mut().ok_or(CallFault::NoHold)?;
        let held = calls.end(hold, state, now_ms)?;
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
