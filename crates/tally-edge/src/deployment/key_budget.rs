//! The budgets of a caller: that of its key, and those of the keys above it. Each is a global limit, decided as those
//! of policies are.
//!
//! Invariants: a request that is refused for its budget has counted nothing, and has used nothing of the budget. The
//! headers of its answer are about the budget that refused.

use crate::kit::request_context::RequestContext;
use crate::limits::limiters::{cache_denial, denied, forget_denial};
use crate::limits::resolved_check::ResolvedCheck;
use crate::limits::{asks, calls};
use tally_api::access::Caller;
use tally_core::counter::id::CounterId;
use tally_core::limit::meter::Verdict;
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
        cost => {
            let spent = use_all(context, caller, cost, cost).await;
            spent.map_err(|refusal| refusal.problem(0))
        }
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
    let Err(refusal) = use_all(context, caller, whole - 1, whole).await else {
        return Ok(());
    };
    for (index, budget) in caller.budgets().enumerate() {
        let verdict = give_back(context, budget, 1).await?;
        if index == refusal.index
            && let Some(verdict) = verdict
        {
            show(context, &check_of(context, budget, 1)?, Some(verdict));
        }
    }
    Err(refusal.problem(1))
}

/// Why a budget refuses.
enum Refused {
    /// It never has as much as the request needs.
    Never,
    /// It has only so much left, before what the request itself gets back; that may change after these seconds.
    UsedUp { left: u64, seconds: u64 },
    /// It is not known.
    Broken(Problem),
}

/// The refusal of a request by a budget.
struct BudgetRefusal {
    why: Refused,
    /// What the request needs of the budget.
    whole: u64,
    rate: u32,
    /// Which of the caller's budgets it is.
    index: usize,
    /// Whether it is the budget of a key above the caller's.
    is_above: bool,
}

impl BudgetRefusal {
    /// The problem of a request that gets back so much.
    fn problem(self, returned: u64) -> Problem {
        let (whole, rate) = (self.whole, self.rate);
        let budget = match self.is_above {
            true => "budget of a key above this one of",
            false => "key's budget of",
        };
        match self.why {
            Refused::Never => {
                let detail = format!(
                    "this needs {whole} of the {budget} {rate} a minute, which it never has at once; nothing more was counted, send it in parts"
                );
                Problem::new(Code::CostExceedsLimit, detail)
            }
            Refused::UsedUp { left, seconds } => {
                let detail = match left + returned {
                    0 => format!("the {budget} {rate} a minute is used up"),
                    left => {
                        format!(
                            "this needs {whole} of the {budget} {rate} a minute: {left} are left"
                        )
                    }
                };
                let detail = format!("{detail}; this was not done, try again in {seconds} s");
                let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
                Problem::new(Code::QuotaExceeded, detail).with_retry_after(seconds)
            }
            Refused::Broken(problem) => problem,
        }
    }
}

/// Uses so much of the caller's own budget, and of those of the keys above it, for a request that needs `whole` of
/// each. What was used is given back where a later one refuses.
async fn use_all(
    context: &RequestContext,
    caller: &Caller,
    cost: u64,
    whole: u64,
) -> Result<(), BudgetRefusal> {
    let own = caller.holder().and_then(|holder| holder.budget.as_ref());
    for (index, budget) in caller.budgets().enumerate() {
        let Err(why) = use_up(context, budget, cost, whole).await else {
            continue;
        };
        let mut refusal = BudgetRefusal {
            why,
            whole,
            rate: budget.rate_per_minute,
            index,
            is_above: own != Some(budget),
        };
        for used in caller.budgets().take(index) {
            if let Err(problem) = give_back(context, used, cost).await {
                refusal.why = Refused::Broken(problem);
            }
        }
        return Err(refusal);
    }
    Ok(())
}

/// Gives back what a refused request has used. Returns the state of the budget then, if it is known.
async fn give_back(
    context: &RequestContext,
    budget: &KeyBudget,
    cost: u64,
) -> Result<Option<Verdict>, Problem> {
    let resolved = check_of(context, budget, cost)?;
    let judged = calls::give_back(context, &resolved).await;
    forget_denial(&context.host, &resolved.to, &resolved.name, &resolved.key);
    Ok(judged.verdict_of(0, resolved.cost))
}

/// Shows a budget in the headers of the answer.
fn show(context: &RequestContext, resolved: &ResolvedCheck, verdict: Option<Verdict>) {
    let here = context.datacenter();
    let result = resolved.result(&here, verdict);
    let policy = result.policy_item().unwrap_or_default();
    context.set_budget_headers(policy, result.limit_item());
}

/// Uses so much of a budget, for a request that needs `whole` of it.
async fn use_up(
    context: &RequestContext,
    budget: &KeyBudget,
    cost: u64,
    whole: u64,
) -> Result<(), Refused> {
    if whole > u64::from(budget.rate_per_minute) {
        return Err(Refused::Never);
    }
    let resolved = check_of(context, budget, cost).map_err(Refused::Broken)?;
    let verdict = match denied(&context.host, &resolved) {
        Some(verdict) => Some(verdict),
        None => asks::ask(context, &resolved).await,
    };
    show(context, &resolved, verdict);
    let here = context.datacenter();
    let result = resolved.result(&here, verdict);
    let Some(seconds) = result.retry_after_seconds() else {
        return Ok(());
    };
    if let Some(verdict) = verdict {
        cache_denial(&context.host, &resolved, verdict);
    }
    let left = verdict.map_or(0, |verdict| verdict.remaining);
    Err(Refused::UsedUp { left, seconds })
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
