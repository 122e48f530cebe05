//! Rate limits: checks, looks, refunds, and the policies.

use super::answers::{answer_of, unanswered, with_headers, with_members};
use super::asks::{ask, ask_alone, judge_alone};
use super::limiters::{cache_denial, denied, forget_denial};
use super::local_quota;
use super::named_calls::{self, CallNames};
use super::policies;
use super::repeated_checks::Repeatable;
use super::resolved_check::ResolvedCheck;
use super::{verdict_reads, verdicts};
use crate::deployment::audit;
use crate::deployment::givers::part_full;
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use tally_api::access::{Caller, Permission};
use tally_api::limits::{
    CheckRequest, POLICIES_MAX, check_takes, deleted_json, held_members, list_json, parse_check,
    parse_policy, policy_json,
};
use tally_api::metrics::Metric;
use tally_api::query::{Query, wrong_cursor};
use tally_core::counter::id::CounterId;
use tally_core::limit::meter::Verdict;
use tally_core::limit::named::{CallWork, OpenHolds};
use tally_core::limit::policy::Algorithm;
use tally_shared::call;
use tally_shared::metrics;
use tally_wire::messages::{
    DeletePolicy, DemandKind, DemandOutcome, ListPolicies, PolicyPut, PutPolicy,
};
use tally_wire::names;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope as Right;

/// `POST /limits/{policy}/{key}`: admits the call, or refuses it.
///
/// # Errors
/// `invalid-policy`, `invalid-cost`, `cost-exceeds-limit`, `policy-not-found`, `limiter-unavailable`.
pub async fn check(
    context: &RequestContext,
    caller: &Caller,
    name: PolicyName,
    key: CounterId,
) -> Result<Answer, Problem> {
    let right = names::limit_right(&name, Some(&key));
    caller.may_limit(Right::Write, &right)?;
    Query::parse(context.query(), &[])?;
    let body = body::read_small(context).await?;
    let request = parse_check(&body)?;
    may_check(caller, &right, &request)?;
    let here = context.datacenter();
    let resolved = ResolvedCheck::new(context, &here, name, key, request).await?;
    check_takes(&resolved.client_name, &resolved.policy)?;
    context.visitor().admit(&right)?;
    if let Some(sent) = RequestKey::of(context, caller).await? {
        let names = CallNames::new(&sent, true, "check", &resolved, &body);
        return named_calls::take(context, &resolved, names.call(CallWork::Check)).await;
    }
    let (verdict, by) = judge(context, &resolved).await;
    let answer = answer_of(&resolved.result(&here, verdict), "");
    if !caller.may_repeat() {
        return Ok(answer);
    }
    Ok(match (by, verdict) {
        // A shadow policy refuses nobody.
        (JudgedBy::Memory, Some(verdict)) if !resolved.policy.is_shadow => {
            answer.shown_to(Repeatable::Refused(resolved, verdict))
        }
        (JudgedBy::LocalQuota, _) => answer.shown_to(Repeatable::LocalQuota(resolved)),
        _ => answer,
    })
}

/// Where a verdict comes from.
pub enum JudgedBy {
    /// A refusal that the isolate remembers.
    Memory,
    /// An override that admits or refuses everything.
    Override,
    /// The isolate's part of the quota.
    LocalQuota,
    /// The limiter.
    Limiter,
}

/// The verdict about a check, which is recorded. `None` where it is not known.
pub async fn judge(
    context: &RequestContext,
    resolved: &ResolvedCheck,
) -> (Option<Verdict>, JudgedBy) {
    let settled = resolved.settled_verdict(context.host.now_ms());
    let (verdict, by) = if settled.is_some() {
        (settled, JudgedBy::Override)
    } else if let Some(verdict) = denied(&context.host, resolved) {
        metrics::count(&context.host, Metric::LimitDenialCached);
        (Some(verdict), JudgedBy::Memory)
    } else if let Some(verdict) = local_quota::take(context, resolved) {
        (Some(verdict), JudgedBy::LocalQuota)
    } else {
        let verdict = ask(context, resolved).await;
        if let Some(verdict) = verdict.filter(|verdict| !verdict.is_allowed) {
            cache_denial(&context.host, resolved, verdict);
        }
        (verdict, JudgedBy::Limiter)
    };
    verdicts::record(context, resolved, verdict);
    (verdict, by)
}

/// Succeeds if a caller may consume the cost of a request, by the policy of the request if it has one.
pub fn may_check(caller: &Caller, right: &str, request: &CheckRequest) -> Result<(), Problem> {
    let needs: &[Permission] = match request.policy {
        Some(_) => &[Permission::Policy],
        None => &[],
    };
    caller.may_check(right, request.cost, needs)
}

/// A call about a key that never takes quota: a look, a refund, a reset.
async fn about(
    context: &RequestContext,
    name: PolicyName,
    key: CounterId,
    request: CheckRequest,
    kind: DemandKind,
) -> Result<Answer, Problem> {
    let here = context.datacenter();
    let resolved = ResolvedCheck::new(context, &here, name, key, request).await?;
    if kind == DemandKind::Refund {
        check_takes(&resolved.client_name, &resolved.policy)?;
    }
    let _waiting = context.waiting();
    let judged = match kind {
        // What was admitted without a limit has consumed nothing.
        DemandKind::Refund if resolved.is_unlimited() => DemandOutcome::Unreachable,
        DemandKind::Refund => give_back(context, &resolved).await,
        // Open holds stay, and such a key has nothing else to reset.
        DemandKind::Forget if resolved.policy.algorithm == Algorithm::Concurrency => {
            judge_alone(context, &resolved, DemandKind::Look).await
        }
        _ => judge_alone(context, &resolved, kind).await,
    };
    forget_denial(&context.host, &resolved.to, &resolved.name, &resolved.key);
    if judged == DemandOutcome::Full {
        let detail = "the limiter has no room for this key alone, which shares a meter with others: nothing is given back of that, \
            since what the key has used of it is not known; it comes back with time";
        return Err(Problem::new(Code::MeterShared, detail));
    }
    let settled = resolved.settled_verdict(context.host.now_ms());
    let Some(verdict) = settled.or_else(|| judged.verdict_of(0, resolved.cost)) else {
        return Err(unanswered());
    };
    let result = resolved.result(&here, Some(verdict));
    let held = match judged {
        DemandOutcome::Looked(_, open) => held_members(&open),
        _ if resolved.policy.algorithm == Algorithm::Concurrency => {
            held_members(&OpenHolds::default())
        }
        _ => String::new(),
    };
    let answer = Answer::json(with_members(result.to_json(), &held));
    Ok(with_headers(answer, &[result]))
}

/// Gives back what a check has consumed: to the isolate's part, and the rest to the limiter.
pub async fn give_back(context: &RequestContext, resolved: &ResolvedCheck) -> DemandOutcome {
    let returned = local_quota::refund(&context.host, resolved);
    if returned < resolved.cost {
        let rest = ResolvedCheck {
            cost: resolved.cost - returned,
            ..resolved.clone()
        };
        return judge_alone(context, &rest, DemandKind::Refund).await;
    }
    let Some(verdict) = ask_alone(context, resolved, DemandKind::Look).await else {
        return DemandOutcome::Unreachable;
    };
    // The limiter gets it with the next report, within a second.
    let remaining = verdict.remaining.saturating_add(returned);
    DemandOutcome::of(Verdict {
        remaining: remaining.min(resolved.policy.capacity()),
        ..verdict
    })
}

/// `GET /limits/{policy}/{key}`: the state of the key; consumes nothing.
///
/// # Errors
/// `policy-not-found`, `limiter-unavailable`.
pub async fn peek(
    context: &RequestContext,
    name: PolicyName,
    key: CounterId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    context.visitor().read(1)?;
    about(
        context,
        name,
        key,
        CheckRequest::default(),
        DemandKind::Look,
    )
    .await
}

/// `DELETE /limits/{policy}/{key}`: resets the use of the key.
///
/// # Errors
/// As [`peek`].
pub async fn forget(
    context: &RequestContext,
    name: PolicyName,
    key: CounterId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    about(
        context,
        name,
        key,
        CheckRequest::default(),
        DemandKind::Forget,
    )
    .await
}

/// `POST /limits/{policy}/{key}/refund`: gives back what a check has consumed.
///
/// # Errors
/// As [`check`].
pub async fn refund(
    context: &RequestContext,
    caller: &Caller,
    name: PolicyName,
    key: CounterId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let body = body::read_small(context).await?;
    let request = parse_check(&body)?;
    if let Some(sent) = RequestKey::of(context, caller).await? {
        let here = context.datacenter();
        let resolved = ResolvedCheck::new(context, &here, name, key, request).await?;
        check_takes(&resolved.client_name, &resolved.policy)?;
        let names = CallNames::new(&sent, true, "refund", &resolved, &body);
        return named_calls::correct(context, &resolved, names.call(CallWork::Refund)).await;
    }
    about(context, name, key, request, DemandKind::Refund).await
}

/// `PUT /limits/{policy}`: creates a policy, or replaces it.
///
/// # Errors
/// `invalid-policy`, `unknown-field`, `too-many-policies`, `unavailable`.
pub async fn put_policy(
    context: &RequestContext,
    caller: &Caller,
    name: PolicyName,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let policy = parse_policy(&body::read_small(context).await?)?;
    let put = PutPolicy {
        name: name.clone(),
        policy: policy.clone(),
        once: None,
        gift: caller.limit_gift(),
    };
    let _waiting = context.waiting();
    let ticket = policies::begin(&context.host);
    let is_new = match audit::carry(context, &put).await? {
        PolicyPut::Created => true,
        PolicyPut::Replaced => false,
        PolicyPut::Full => {
            let detail = "delete a policy that is not used, or send policies with the checks";
            return Err(Problem::new(Code::TooManyPolicies, detail));
        }
        PolicyPut::PartFull => {
            let what = part_full("policies", POLICIES_MAX, "DELETE /limits/{policy}");
            return Err(Problem::new(Code::TooManyPolicies, what));
        }
    };
    let answer = Answer::json(policy_json(&name, &policy));
    if is_new {
        policies::made(&context.host, &name, policy, ticket);
        return Ok(answer.with_status(201));
    }
    policies::changed(&context.host, &name);
    Ok(answer)
}

/// `GET /limits/{policy}`: the policy; with `include` also what it did.
///
/// # Errors
/// `invalid-query`, `range-too-large`, `policy-not-found`, `unavailable`.
pub async fn get_policy(context: &RequestContext, name: PolicyName) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &verdict_reads::PARAMETERS)?;
    let included = match query.get("include") {
        Some(_) => verdict_reads::included(context, &name, &query).await?,
        None => {
            Query::parse(context.query(), &[])?;
            String::new()
        }
    };
    context.visitor().read(1)?;
    let _waiting = context.waiting();
    let read = policies::read_policy(&context.host, &name).await;
    match read.map_err(|fault| policies::unread(&fault))? {
        Some(cached) => Ok(Answer::json(with_members(
            policy_json(&name, &cached.policy),
            &included,
        ))),
        None => Err(policies::not_found(&name)),
    }
}

/// `DELETE /limits/{policy}`: deletes the policy. Checks that name it are refused from then on, in other isolates a few
/// seconds later.
///
/// # Errors
/// `policy-not-found`, `unavailable`.
pub async fn delete_policy(context: &RequestContext, name: PolicyName) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let delete = DeletePolicy { name: name.clone() };
    let _waiting = context.waiting();
    let was_there = audit::carry(context, &delete).await?;
    policies::forget(&context.host, &name);
    verdicts::forget(context, &name).await;
    if was_there {
        Ok(Answer::json(deleted_json(&name)))
    } else {
        Err(policies::not_found(&name))
    }
}

/// `GET /limits`: the policies that the caller may see, in order of their names, page by page.
///
/// # Errors
/// `invalid-query`, `unavailable`.
pub async fn list_policies(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["cursor", "limit"])?;
    caller.may_limit(Right::Read, names::LIMIT_RIGHTS)?;
    let limit = query.limit()?;
    let after = query.get("cursor").map(PolicyName::parse);
    let after = after.transpose().or_else(|_| wrong_cursor())?;
    context.visitor().read(1)?;
    let _waiting = context.waiting();
    // One more than asked for shows whether there is another page.
    let list = ListPolicies {
        after,
        limit: limit + 1,
    };
    let mut policies = call(&context.host, &list)
        .await
        .map_err(|fault| policies::unread(&fault))?;
    let policies_max = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = policies.len() > policies_max;
    policies.truncate(policies_max);
    let cursor = policies.last().filter(|_| has_more);
    let cursor = cursor.map(|(name, _)| name.as_str());
    Ok(Answer::json(list_json(&policies, cursor)))
}
