//! The budgets of a caller: that of its key, and those of the keys above it. Each is a global limit, decided as those
//! of policies are.
//!
//! Invariant: a request that is refused for its budget has counted nothing, and has used nothing of the budget.

use crate::kit::request_context::RequestContext;
use crate::limits::limiters::{cache_denial, denied, forget_denial};
use crate::limits::resolved_check::ResolvedCheck;
use crate::limits::{asks, calls};
use tally_api::access::Caller;
use tally_core::counter::id::CounterId;
use tally_core::limit::owner::Owner;
use tally_core::limit::policy::{Policy, Scope};
use tally_shared::call;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::KeyBudget;

/// The window of a budget.
const WINDOW_SECONDS: u64 = 60;

/// Its name in headers.
const SHOWN: &str = "key";

/// Its name in limiters: no client's policy can have it.
const COUNTED: &str = "key~k60";

/// Uses so much of the caller's budgets: one for a request. If the rest of a budget is not known, the request is
/// admitted.
///
/// # Errors
/// `quota-exceeded`; `cost-exceeds-limit` for more than a minute's budget.
pub async fn spend(context: &RequestContext, caller: &Caller, cost: u64) -> Result<(), Problem> {
    match cost {
        0 => Ok(()),
        cost => use_all(context, caller, cost, cost).await,
    }
}

/// Uses what a body with this many writes, checks or commands needs: one for each. The request itself has used the
/// first one, which is refunded if the body is refused.
///
/// # Errors
/// As [`spend`].
pub async fn spend_body(
    context: &RequestContext,
    caller: &Caller,
    whole: u64,
) -> Result<(), Problem> {
    if whole <= 1 {
        return Ok(());
    }
    let spent = use_all(context, caller, whole - 1, whole).await;
    if spent.is_err() {
        for budget in caller.budgets() {
            give_back(context, budget, 1).await?;
        }
    }
    spent
}

/// Uses so much of the caller's own budget, and of those of the keys above it, for a request that needs `whole` of
/// each. What was used is given back where a later one refuses.
async fn use_all(
    context: &RequestContext,
    caller: &Caller,
    cost: u64,
    whole: u64,
) -> Result<(), Problem> {
    for (index, budget) in caller.budgets().enumerate() {
        let Err(problem) = use_up(context, budget, cost, whole).await else {
            continue;
        };
        for used in caller.budgets().take(index) {
            give_back(context, used, cost).await?;
        }
        return Err(problem);
    }
    Ok(())
}

/// Gives back what a refused request has used.
async fn give_back(context: &RequestContext, budget: &KeyBudget, cost: u64) -> Result<(), Problem> {
    let resolved = check_of(context, budget, cost)?;
    let judged = calls::give_back(context, &resolved).await;
    forget_denial(&context.host, &resolved.to, &resolved.name, &resolved.key);
    if let Some(verdict) = judged.verdict_of(0, resolved.cost) {
        let here = context.datacenter();
        let result = resolved.result(&here, Some(verdict));
        context.set_budget_headers(
            result.policy_item().unwrap_or_default(),
            result.limit_item(),
        );
    }
    Ok(())
}

/// Uses so much of a budget, for a request that needs `whole` of it.
async fn use_up(
    context: &RequestContext,
    budget: &KeyBudget,
    cost: u64,
    whole: u64,
) -> Result<(), Problem> {
    let rate = budget.rate_per_minute;
    if whole > u64::from(rate) {
        let detail = format!(
            "this needs {whole} of the key's budget of {rate} a minute, which it never has at once; nothing more was counted, send it in parts"
        );
        return Err(Problem::new(Code::CostExceedsLimit, detail));
    }
    let resolved = check_of(context, budget, cost)?;
    let verdict = match denied(&context.host, &resolved) {
        Some(verdict) => Some(verdict),
        None => asks::ask(context, &resolved).await,
    };
    let here = context.datacenter();
    let result = resolved.result(&here, verdict);
    context.set_budget_headers(
        result.policy_item().unwrap_or_default(),
        result.limit_item(),
    );
    let Some(seconds) = result.retry_after_seconds() else {
        return Ok(());
    };
    if let Some(verdict) = verdict {
        cache_denial(&context.host, &resolved, verdict);
    }
    let detail = format!(
        "the key's budget of {rate} a minute is used up; this was not done, try again in {seconds} s"
    );
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    Err(Problem::new(Code::QuotaExceeded, detail).with_retry_after(seconds))
}

fn check_of(
    context: &RequestContext,
    budget: &KeyBudget,
    cost: u64,
) -> Result<ResolvedCheck, Problem> {
    let internal = |what: &str| Problem::new(Code::Internal, what);
    let name = PolicyName::try_from(COUNTED.to_owned()).map_err(internal)?;
    let key = CounterId::parse(budget.subject.clone())?;
    let policy = Policy {
        scope: Scope::Global,
        ..Policy::sliding(budget.rate_per_minute.into(), WINDOW_SECONDS)
    };
    let here = context.datacenter();
    Ok(ResolvedCheck {
        client_name: PolicyName::parse(SHOWN)?,
        to: call::limiter_of(&context.host, Some(&here), &name, &key),
        name,
        policy: policy.into(),
        over: None,
        key,
        cost,
        owner: Owner::default(),
    })
}
