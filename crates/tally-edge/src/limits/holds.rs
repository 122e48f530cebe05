//! Holds: quota that is reserved before the work, and settled after it.
//!
//! Invariant: a hold ends once, at its limiter: by the first settlement or release that arrives, or by its time.
//! Several holds of one call have one id. Either all are opened, or those that were opened are released.

use super::answers::with_headers;
use super::named_calls::{self, CallNames, give_back, replayed_if, run};
use super::resolved_check::ResolvedCheck;
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::limits::{
    CheckRequest, HoldId, HoldRequest, call_problem, hold_member, is_allowed, parse_hold,
    parse_settlement, settled_json,
};
use tally_api::query::Query;
use tally_core::counter::id::CounterId;
use tally_core::limit::meter::Verdict;
use tally_core::limit::named::{CallAnswer, CallName, CallWork, NamedCall};
use tally_shared::concurrency::all_in_order;
use tally_wire::names::limit_right;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope as Right;

/// How long checks of one call hold what they take until all are admitted, milliseconds. It counts as used after that
/// too, so a settlement that is lost changes nothing.
const CHECKED_MS: i64 = 10_000;

/// `POST /limits/{policy}/{key}/holds`: reserves an amount.
///
/// # Errors
/// As [`super::calls::check`]; `hold-not-found` and its kin never.
pub async fn hold(
    context: &RequestContext,
    caller: &Caller,
    name: PolicyName,
    key: CounterId,
) -> Result<Answer, Problem> {
    let right = limit_right(&name, Some(&key));
    caller.may_limit(Right::Write, &right)?;
    Query::parse(context.query(), &[])?;
    let body = body::read_small(context).await?;
    let request = parse_hold(&body)?;
    caller.may_check(&right, request.amount, &[])?;
    let here = context.datacenter();
    let asks = CheckRequest {
        cost: request.amount,
        policy: None,
    };
    let resolved = ResolvedCheck::new(context, &here, name, key, asks).await?;
    context.visitor().admit(&right)?;
    let (sent, is_sent) = RequestKey::or_drawn(context, caller).await?;
    let names = CallNames::new(&sent, is_sent, "hold", &resolved, &body);
    let work = CallWork::Hold {
        length_ms: request.length_ms(&resolved.policy),
        is_returned: request.is_returned,
    };
    named_calls::take(context, &resolved, names.call(work)).await
}

/// `POST /limits/{policy}/{key}/holds/{hold}/settle`: what was used stays, the rest comes back.
///
/// # Errors
/// `invalid-cost`, `policy-not-found`, `hold-not-found`, `hold-settled`, `hold-ended`, `limiter-unavailable`.
pub async fn settle(
    context: &RequestContext,
    caller: &Caller,
    name: PolicyName,
    key: CounterId,
    hold: HoldId,
) -> Result<Answer, Problem> {
    let amount = parse_settlement(&body::read_small(context).await?)?;
    end(context, caller, name, key, hold, amount).await
}

/// `DELETE /limits/{policy}/{key}/holds/{hold}`: gives all of it back.
///
/// # Errors
/// As [`settle`].
pub async fn release(
    context: &RequestContext,
    caller: &Caller,
    name: PolicyName,
    key: CounterId,
    hold: HoldId,
) -> Result<Answer, Problem> {
    end(context, caller, name, key, hold, Some(0)).await
}

async fn end(
    context: &RequestContext,
    caller: &Caller,
    name: PolicyName,
    key: CounterId,
    hold: HoldId,
    amount: Option<u64>,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let here = context.datacenter();
    let asks = CheckRequest::default();
    let resolved = ResolvedCheck::new(context, &here, name, key, asks).await?;
    let right = limit_right(&resolved.client_name, Some(&resolved.key));
    context.visitor().admit(&right)?;
    let (sent, is_sent) = RequestKey::or_drawn(context, caller).await?;
    let asked = format!("{hold} {amount:?}");
    let names = CallNames::new(&sent, is_sent, "settle", &resolved, asked.as_bytes());
    let work = CallWork::Settle {
        hold: hold.0,
        amount,
    };
    let done = give_back(context, &resolved, names.call(work)).await?;
    let settled = resolved.settled_verdict(context.host.now_ms());
    let result = resolved.result(&here, settled.or(Some(done.verdict)));
    let answer = Answer::json(settled_json(hold, &done, &result));
    let answer = with_headers(answer, &[result]);
    Ok(replayed_if(done.is_repeated, answer))
}

/// What became of several checks under one name.
pub struct Decided {
    /// The verdict of each; `None` where its limiter could not be reached.
    pub verdicts: Vec<Option<Verdict>>,
    /// The member of the answer that names the hold; empty where nothing is held.
    pub member: String,
    /// Whether it is the first answer, repeated.
    pub is_repeated: bool,
}

/// Takes, or holds, all that several checks ask for, or nothing, once: each is held under its name. Then all are
/// settled, or stay held, or are released. A repeat finds the same verdicts, and goes on with what an earlier try left
/// open because it did not know an answer.
///
/// # Errors
/// `invalid-body` for two holds of one key; those of [`call_problem`].
pub async fn decide(
    context: &RequestContext,
    caller: &Caller,
    checks: &[ResolvedCheck],
    hold: Option<HoldRequest>,
    body: &[u8],
) -> Result<Decided, Problem> {
    let (sent, is_sent) = RequestKey::or_drawn(context, caller).await?;
    let names = CallNames::of(&sent, is_sent, "checks", "", body);
    if hold.is_some() {
        all_differ(checks)?;
    }
    // The same name for each key, so that a limiter recognises it among other checks.
    let name_of = |index: usize| {
        let mut name = names.name;
        name[0] ^= u8::try_from(alike_before(checks, index)).unwrap_or(u8::MAX);
        name
    };
    let holding = checks.iter().enumerate().map(|(index, resolved)| {
        let is_check = hold.is_none() && resolved.is_unlimited();
        let work = CallWork::Hold {
            length_ms: hold.map_or(CHECKED_MS, |hold| hold.length_ms(&resolved.policy)),
            is_returned: hold.is_some_and(|hold| hold.is_returned),
        };
        let mut call = names.call(if is_check { CallWork::Check } else { work });
        call.name = name_of(index);
        run(context, resolved, call)
    });
    let done = all_in_order(holding).await;
    let fault = done.iter().flatten().find_map(|done| done.err());
    let answers: Vec<Option<CallAnswer>> = done.into_iter().map(|done| done?.ok()).collect();
    let verdicts: Vec<_> = answers
        .iter()
        .map(|done| done.map(|done| done.verdict))
        .collect();
    let outcome = outcome_of(checks, &verdicts, fault.is_some());
    let is_admitted = outcome == Outcome::Admitted;
    if let Some(end) = outcome.end(hold.is_some(), is_sent) {
        let ends = checks.iter().zip(&answers).enumerate();
        let ends = ends.filter(|(_, (_, done))| end.is_about(**done));
        let ending = ends.map(|(index, (resolved, _))| {
            let work = end.of(name_of(index));
            end_one(context, resolved, names.end(work))
        });
        all_in_order(ending).await;
    }
    if let Some(fault) = fault {
        return Err(call_problem(fault));
    }
    let held = answers.iter().flatten().filter(|done| done.held > 0);
    let ends_ms = held.map(|done| done.ends_ms).min();
    let ends_ms = ends_ms.filter(|_| is_admitted && hold.is_some());
    Ok(Decided {
        verdicts,
        member: ends_ms.map_or_else(String::new, |ends_ms| {
            hold_member(HoldId(names.name), None, ends_ms)
        }),
        is_repeated: answers.iter().flatten().any(|done| done.is_repeated),
    })
}

/// What is known of several checks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// All were admitted.
    Admitted,
    /// One was refused, as it is for every repeat.
    Refused,
    /// One has a fault, so none is done.
    Faulty,
    /// One was not decided, and none refused.
    Unknown,
}

/// How several holds end.
#[derive(Clone, Copy)]
enum End {
    /// All count as used.
    Use,
    /// All return. A repeat finds the same verdicts.
    Return,
    /// All return. A repeat holds anew.
    Forget,
}

impl Outcome {
    /// How the holds end now; `None` where they stay open. Those that are unknown stay open for a repeat, which the
    /// client may have sent already.
    fn end(self, is_held: bool, is_repeatable: bool) -> Option<End> {
        match self {
            Self::Admitted => (!is_held).then_some(End::Use),
            Self::Refused => Some(End::Return),
            Self::Faulty => Some(End::Forget),
            Self::Unknown => (!is_repeatable).then_some(End::Return),
        }
    }
}

impl End {
    /// Whether it ends what was answered so; `None` is not known. What has a fault, or is a repeat of what another
    /// request has, may belong to a call that was admitted.
    fn is_about(self, done: Option<CallAnswer>) -> bool {
        match (self, done) {
            (Self::Forget, done) => done.is_some_and(|done| done.held > 0 && !done.is_repeated),
            (_, done) => done.is_none_or(|done| done.held > 0),
        }
    }

    fn of(self, hold: CallName) -> CallWork {
        let amount = match self {
            Self::Use => None,
            Self::Return => Some(0),
            Self::Forget => return CallWork::Cancel { hold },
        };
        CallWork::Settle { hold, amount }
    }
}

fn outcome_of(checks: &[ResolvedCheck], verdicts: &[Option<Verdict>], has_fault: bool) -> Outcome {
    let judged = || checks.iter().zip(verdicts);
    let admits = |(resolved, verdict): (&ResolvedCheck, &Option<Verdict>)| {
        is_allowed(&resolved.policy, *verdict)
    };
    let mut known = judged().filter(|(_, verdict)| verdict.is_some());
    match (has_fault, known.all(admits), judged().all(admits)) {
        (true, ..) => Outcome::Faulty,
        (_, false, _) => Outcome::Refused,
        (_, _, false) => Outcome::Unknown,
        (_, _, true) => Outcome::Admitted,
    }
}

/// Ends a hold of several. One that cannot be reached ends by itself.
async fn end_one(context: &RequestContext, resolved: &ResolvedCheck, end: NamedCall) {
    let _ = give_back(context, resolved, end).await;
}

/// How many checks of the key of this one come before it; there are at most 100.
fn alike_before(checks: &[ResolvedCheck], index: usize) -> usize {
    let before = checks.iter().take(index);
    let resolved = checks.get(index);
    let alike = before.filter(|other| resolved.is_some_and(|resolved| resolved.is_alike(other)));
    alike.count()
}

fn all_differ(checks: &[ResolvedCheck]) -> Result<(), Problem> {
    match (0..checks.len()).find(|index| alike_before(checks, *index) > 0) {
        None => Ok(()),
        Some(index) => {
            let detail = format!(
                "check {}: a hold names each key of a policy once",
                index + 1
            );
            Err(Problem::new(Code::InvalidBody, detail))
        }
    }
}
