//! Calls with names: a limiter does each once, however often it is sent.
//!
//! Invariant: a name contains the sender, the policy and the key, so no caller reaches the calls of another. A hold has
//! the name of the call that opened it. A key that a caller sends is a name for an hour; a drawn one is known for a
//! minute after the hold, and only its hold's id repeats it.

use super::answers::{answer_of, unanswered, with_headers};
use super::asks::{judge_alone, judge_in_lane};
use super::limiters::forget_denial;
use super::resolved_check::ResolvedCheck;
use super::verdicts;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use tally_api::limits::{HoldId, call_problem, hold_member};
use tally_core::limit::meter::Verdict;
use tally_core::limit::named::{CallAnswer, CallFault, CallName, CallWork, NamedCall};
use tally_wire::messages::{DemandKind, DemandOutcome};
use tally_wire::problem::Problem;

/// What the named calls of one request share.
#[derive(Clone, Copy)]
pub struct CallNames {
    /// The name.
    pub name: CallName,
    is_repeatable: bool,
    request: u64,
    account: u32,
}

impl CallNames {
    /// Those of a call about a key. `call` is its kind; `body` all that a repeat must have in common.
    pub fn new(
        key: &RequestKey,
        is_sent: bool,
        call: &str,
        resolved: &ResolvedCheck,
        body: &[u8],
    ) -> Self {
        let target = [
            "\0",
            resolved.client_name.as_str(),
            "\0",
            resolved.key.as_str(),
        ]
        .concat();
        Self::of(key, is_sent, call, &target, body)
    }

    /// Those of a call about what `target` names.
    pub fn of(key: &RequestKey, is_sent: bool, call: &str, target: &str, body: &[u8]) -> Self {
        let account = key.account_hash().to_le_bytes();
        Self {
            name: key.step_name(&["limit-", call, "\0"].concat(), target).0,
            is_repeatable: is_sent,
            request: key.request_hash(&[call.as_bytes()], body),
            account: u32::from_le_bytes([account[0], account[1], account[2], account[3]]),
        }
    }

    /// The call that does this.
    pub fn call(&self, work: CallWork) -> NamedCall {
        NamedCall {
            name: self.name,
            is_repeatable: self.is_repeatable,
            request: self.request,
            account: self.account,
            work,
        }
    }

    /// The end of a hold, which nobody repeats by a name.
    pub fn end(&self, work: CallWork) -> NamedCall {
        NamedCall {
            is_repeatable: false,
            ..self.call(work)
        }
    }
}

/// Has a named call done by the limiter that decides. `None` where the outcome is not known.
pub async fn run(
    context: &RequestContext,
    resolved: &ResolvedCheck,
    call: NamedCall,
) -> Option<Result<CallAnswer, CallFault>> {
    if let Some(verdict) = settled_verdict(context, resolved, call.work) {
        return Some(Ok(CallAnswer {
            verdict,
            held: 0,
            settled: 0,
            over: 0,
            ends_ms: 0,
            is_repeated: false,
        }));
    }
    let kind = DemandKind::Call(call);
    let outcome = if resolved.is_global() {
        let _waiting = context.waiting();
        judge_alone(context, resolved, kind).await
    } else {
        judge_in_lane(context, resolved, kind).await?.0
    };
    match outcome {
        DemandOutcome::Called(result) => Some(result),
        _ => None,
    }
}

/// The verdict of a call that an override decides without a limiter. A hold of an unlimited key is one all the same,
/// and what was held or used before the key was blocked can still be given back.
fn settled_verdict(
    context: &RequestContext,
    resolved: &ResolvedCheck,
    work: CallWork,
) -> Option<Verdict> {
    let settled = resolved.settled_verdict(context.host.now_ms());
    settled.filter(|verdict| match work {
        CallWork::Check => true,
        CallWork::Hold { .. } => !verdict.is_allowed,
        CallWork::Refund => verdict.is_allowed,
        CallWork::Settle { .. } | CallWork::Cancel { .. } => false,
    })
}

/// Has quota taken or held once, and answers as to a check.
///
/// # Errors
/// Those of [`call_problem`].
pub async fn take(
    context: &RequestContext,
    resolved: &ResolvedCheck,
    call: NamedCall,
) -> Result<Answer, Problem> {
    let done = run(context, resolved, call).await;
    let done = done.transpose().map_err(call_problem)?;
    let verdict = done.map(|done| done.verdict);
    let is_repeated = done.is_some_and(|done| done.is_repeated);
    if !is_repeated {
        verdicts::record(context, resolved, verdict);
    }
    let held = done.filter(|done| done.held > 0);
    let member = held.map_or_else(String::new, |done| {
        hold_member(HoldId(call.name), Some(done.held), done.ends_ms)
    });
    let answer = answer_of(&resolved.result(&context.datacenter(), verdict), &member);
    Ok(replayed_if(is_repeated, answer))
}

/// Has quota given back once. Returns the answer, with the state of the key after that.
///
/// # Errors
/// Those of [`call_problem`]; `limiter-unavailable`.
pub async fn correct(
    context: &RequestContext,
    resolved: &ResolvedCheck,
    call: NamedCall,
) -> Result<Answer, Problem> {
    let done = give_back(context, resolved, call).await?;
    let here = context.datacenter();
    let settled = resolved.settled_verdict(context.host.now_ms());
    let result = resolved.result(&here, settled.or(Some(done.verdict)));
    let answer = with_headers(Answer::json(result.to_json()), &[result]);
    Ok(replayed_if(done.is_repeated, answer))
}

/// As [`run`], of a call that may give back: refusals from memory end.
///
/// # Errors
/// As [`correct`].
pub async fn give_back(
    context: &RequestContext,
    resolved: &ResolvedCheck,
    call: NamedCall,
) -> Result<CallAnswer, Problem> {
    let done = run(context, resolved, call).await;
    forget_denial(&context.host, &resolved.to, &resolved.name, &resolved.key);
    done.ok_or_else(unanswered)?.map_err(call_problem)
}

/// Marks the first answer to a repeat.
pub fn replayed_if(is_repeated: bool, answer: Answer) -> Answer {
    if is_repeated {
        answer.replayed()
    } else {
        answer
    }
}
