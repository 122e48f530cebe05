//! `POST /limits`: several checks with one verdict.
//!
//! Invariant: all are admitted, or none stays consumed: reservations are returned before the answer. If that message is
//! lost, or the request is ended, they stay consumed: less is admitted, never more. Reservations in a fixed window that
//! may be over when the message arrives also stay consumed.

use futures_util::future::join;

use super::answers::{answer_of_all, with_members};
use super::asks::ask_alone;
use super::calls::may_check;
use super::holds::{self, Decided};
use super::limiters::{CHECK_MS_MAX, forget_denial};
use super::named_calls::replayed_if;
use super::resolved_check::ResolvedCheck;
use super::verdicts;
use crate::deployment::key_budget;
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::limits::batch::CheckBatch;
use tally_api::limits::{
    CheckLine, CheckResult, check_takes, is_allowed, many_json, parse_checks, refused_many_json,
};
use tally_api::metrics::Metric;
use tally_api::query::Query;
use tally_core::limit::meter::Verdict;
use tally_core::limit::table::ReservationId;
use tally_host::Host;
use tally_shared::call_within;
use tally_shared::concurrency::all_in_order;
use tally_shared::metrics;
use tally_wire::messages::{DemandKind, EndReservation, Reserve, Reserved};
use tally_wire::names;
use tally_wire::names::LimiterAddress;
use tally_wire::problem::{Code, Problem};

/// The largest difference between the clocks of a limiter and the edge, milliseconds.
const CLOCKS_MS_MAX: i64 = 500;

/// How long a refund message may be in flight, milliseconds.
const GIVE_BACK_MS_MAX: i64 = 2_500;

/// Checks of one limiter that it decides at once, by their indexes in the call.
struct Group {
    to: LimiterAddress,
    indices: Vec<usize>,
    /// The name of its reservation; `None` where nothing else decides with it.
    id: Option<ReservationId>,
}

/// Admits all of several checks, or none.
///
/// # Errors
/// As [`super::calls::check`], saying which check is wrong.
pub async fn check_many(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let body = body::read_small(context).await?;
    let (lines, hold) = parse_checks(&body)?;
    let here = context.datacenter();
    let mut checks = Vec::with_capacity(lines.len());
    for CheckLine { policy, key, asks } in lines {
        may_check(caller, &names::limit_right(&policy, Some(&key)), &asks)?;
        let resolved = ResolvedCheck::new(context, &here, policy, key, asks).await?;
        if hold.is_some() && resolved.name != resolved.client_name {
            let detail =
                "a hold needs a stored policy: PUT it, and leave its fields out of the check";
            return Err(Problem::new(Code::InvalidPolicy, detail));
        }
        if hold.is_none() {
            check_takes(&resolved.client_name, &resolved.policy)?;
        }
        checks.push(resolved);
    }
    check_sums(&checks)?;
    let count = u64::try_from(checks.len()).unwrap_or(u64::MAX);
    key_budget::spend_body(context, caller, count).await?;
    for resolved in &checks {
        let right = names::limit_right(&resolved.client_name, Some(&resolved.key));
        context.visitor().admit(&right)?;
    }
    let _waiting = context.waiting();
    let is_named = hold.is_some() || context.header("idempotency-key").is_some();
    let decided = if is_named {
        let mut decided = holds::decide(context, caller, &checks, hold, &body).await?;
        stand_by_themselves(&mut decided.verdicts, &checks);
        decided
    } else {
        Decided {
            verdicts: decide(context, &checks).await,
            member: String::new(),
            is_repeated: false,
        }
    };
    let judged = checks.iter().zip(&decided.verdicts);
    for (resolved, verdict) in judged.clone().filter(|_| !decided.is_repeated) {
        verdicts::record(context, resolved, *verdict);
    }
    let results: Vec<CheckResult<'_>> = judged
        .map(|(resolved, verdict)| resolved.result(&here, *verdict))
        .collect();
    let answer = answer_of_all(
        &results,
        || Answer::json(with_members(many_json(&results), &decided.member)),
        || refused_many_json(&results),
    );
    Ok(replayed_if(decided.is_repeated, answer))
}

/// Corrects the verdicts of checks that were not all admitted, and were given back.
fn stand_by_themselves(verdicts: &mut [Option<Verdict>], checks: &[ResolvedCheck]) {
    let mut judged = checks.iter().zip(verdicts.iter());
    if judged.all(|(resolved, verdict)| is_allowed(&resolved.policy, *verdict)) {
        return;
    }
    for index in 0..checks.len() {
        stand_by_itself(verdicts, checks, index);
    }
}

/// Refuses checks of one key that could never be admitted together; a shadow check is not counted in.
pub fn check_sums(checks: &[ResolvedCheck]) -> Result<(), Problem> {
    let enforced = || checks.iter().filter(|resolved| !resolved.policy.is_shadow);
    for resolved in enforced() {
        let of_key = enforced().filter(|other| resolved.is_alike(other));
        let sum = of_key.fold(0_u64, |sum, other| sum.saturating_add(other.cost));
        resolved.check_cost(sum).map_err(|problem| {
            let detail = format!("the costs of one key add up to {sum}: {}", problem.detail());
            Problem::new(problem.code(), detail)
        })?;
    }
    Ok(())
}

/// Whether a check is a shadow check of a key that has an enforced check in the same call.
fn only_watches_another(checks: &[ResolvedCheck], index: usize) -> bool {
    let is_enforced = |other: &ResolvedCheck| !other.policy.is_shadow;
    checks.get(index).is_some_and(|resolved| {
        let mut others = checks.iter().filter(|other| is_enforced(other));
        resolved.policy.is_shadow && others.any(|other| resolved.is_alike(other))
    })
}

/// The checks without a verdict: those that limiters reserve, and those that are asked for alone.
fn grouped(checks: &[ResolvedCheck], verdicts: &[Option<Verdict>]) -> (Vec<Group>, Vec<usize>) {
    let mut groups: Vec<Group> = Vec::new();
    let mut alone: Vec<usize> = Vec::new();
    for (index, resolved) in checks.iter().enumerate() {
        if verdicts.get(index).is_some_and(Option::is_some) {
            continue;
        }
        // A shadow check must not prevent the others from being consumed.
        if resolved.is_global() || resolved.policy.is_shadow {
            alone.push(index);
            continue;
        }
        match groups.iter_mut().find(|group| group.to == resolved.to) {
            Some(group) => group.indices.push(index),
            None => groups.push(Group {
                to: resolved.to.clone(),
                indices: vec![index],
                id: None,
            }),
        }
    }
    (groups, alone)
}

/// The verdict of each check, after all were admitted, or after the admitted ones were given back.
pub async fn decide(context: &RequestContext, checks: &[ResolvedCheck]) -> Vec<Option<Verdict>> {
    let begun_ms = context.host.now_ms();
    let settled = checks.iter();
    let settled = settled.map(|resolved| resolved.settled_verdict(begun_ms));
    let mut verdicts: Vec<Option<Verdict>> = settled.collect();
    let (mut groups, alone) = grouped(checks, &verdicts);
    let mut settled = checks.iter().zip(&verdicts);
    let is_blocked = settled
        .any(|(resolved, verdict)| verdict.is_some() && !is_allowed(&resolved.policy, *verdict));
    if groups.len() + alone.len() > 1 || is_blocked {
        let id = context.host.random_key().0;
        groups.iter_mut().for_each(|group| group.id = Some(id));
    }
    let reserving = reserve_all(context, checks, &mut groups);
    let consume = |indices: &[usize]| {
        let checks = indices.iter().filter_map(|index| checks.get(*index));
        let checks: Vec<_> = checks.collect();
        all_in_order(
            checks
                .into_iter()
                .map(|resolved| ask_alone(context, resolved, DemandKind::Consume)),
        )
    };
    // A shadow check that came first would take quota that the enforced checks of its key need.
    let is_late = |index: &usize| only_watches_another(checks, *index);
    let (late, mut alone): (Vec<usize>, Vec<usize>) = alone.into_iter().partition(is_late);
    let (reserved, mut consumed) = join(reserving, consume(&alone)).await;
    consumed.extend(consume(&late).await);
    alone.extend(late);

    for (group, reserved) in groups.iter().zip(&reserved) {
        for (index, verdict) in group.indices.iter().zip(&reserved.verdicts) {
            put(&mut verdicts, *index, *verdict);
        }
    }
    for (index, verdict) in alone.iter().zip(&consumed) {
        put(&mut verdicts, *index, *verdict);
    }
    let mut decided = checks.iter().zip(&verdicts);
    let is_admitted = decided.all(|(resolved, verdict)| is_allowed(&resolved.policy, *verdict));
    end_all(context, &groups, is_admitted).await;
    if !is_admitted {
        let consumed = alone.iter().zip(&consumed);
        let consumed = consumed.filter(|(_, verdict)| verdict.is_some_and(|one| one.is_allowed));
        let returned =
            give_back(context, checks, consumed.map(|(index, _)| *index), begun_ms).await;
        for resolved in checks {
            forget_denial(&context.host, &resolved.to, &resolved.name, &resolved.key);
        }
        let reserved = groups.iter().zip(&reserved);
        let reserved =
            reserved.filter(|(group, reserved)| group.id.is_some() && reserved.is_reserved);
        let given_back = reserved.flat_map(|(group, _)| group.indices.iter().copied());
        for index in given_back.chain(returned) {
            stand_by_itself(&mut verdicts, checks, index);
        }
    }
    verdicts
}

/// Gives back what checks have consumed, if their windows are still open. Returns which checks those were.
async fn give_back(
    context: &RequestContext,
    checks: &[ResolvedCheck],
    indices: impl Iterator<Item = usize>,
    begun_ms: i64,
) -> Vec<usize> {
    let latest_ms = context.host.now_ms() + GIVE_BACK_MS_MAX + CLOCKS_MS_MAX;
    let consumed = indices.filter_map(|index| Some((index, checks.get(index)?)));
    let (indices, returns): (Vec<usize>, Vec<_>) = consumed
        .filter(|(_, resolved)| {
            let policy = &resolved.policy;
            policy.may_give_back(begun_ms - CLOCKS_MS_MAX, latest_ms)
        })
        .map(|(index, resolved)| (index, ask_alone(context, resolved, DemandKind::Refund)))
        .unzip();
    all_in_order(returns).await;
    indices
}

/// Confirms or cancels the reservations.
async fn end_all(context: &RequestContext, groups: &[Group], is_admitted: bool) {
    let ends = groups.iter().filter_map(|group| {
        Some(EndReservation {
            to: group.to.clone(),
            id: group.id?,
            is_cancelled: !is_admitted,
        })
    });
    let ends: Vec<EndReservation> = ends.collect();
    if ends.is_empty() {
        return;
    }
    let host = context.host.clone();
    let ending = async move {
        all_in_order(ends.iter().map(|end| send_end(&host, end))).await;
    };
    if is_admitted {
        // Consumption stays, whether or not the limiters receive this.
        context.wait_until(ending);
    } else {
        ending.await;
    }
}

/// Corrects verdicts after everything that this call consumed was returned: adds back what the check, and the checks of
/// its key before it, had consumed.
fn stand_by_itself(verdicts: &mut [Option<Verdict>], checks: &[ResolvedCheck], index: usize) {
    let (Some(resolved), Some(Some(verdict))) = (checks.get(index), verdicts.get_mut(index)) else {
        return;
    };
    if verdict.is_allowed {
        let before = checks.iter().take(index + 1);
        let before = before.filter(|other| resolved.is_alike(other));
        let consumed = before.fold(0_u64, |sum, other| sum.saturating_add(other.cost));
        let remaining = verdict.remaining.saturating_add(consumed);
        verdict.remaining = remaining.min(resolved.policy.capacity());
    }
}

fn put(verdicts: &mut [Option<Verdict>], index: usize, verdict: Option<Verdict>) {
    if let Some(known) = verdicts.get_mut(index) {
        *known = verdict;
    }
}

/// Reserves at each limiter, and again at the limiters that it names for keys it does not decide because their number
/// is being changed.
async fn reserve_all(
    context: &RequestContext,
    checks: &[ResolvedCheck],
    groups: &mut Vec<Group>,
) -> Vec<Reserved> {
    let first = groups.iter().map(|group| reserve(context, checks, group));
    let mut all = all_in_order(first).await;
    if all.iter().all(|reserved| reserved.homes.is_empty()) {
        return all;
    }
    let mut moved: Vec<Group> = Vec::new();
    // A new name, because one of these may have reserved others under the first.
    let id = Some(context.host.random_key().0);
    for (group, reserved) in groups.iter_mut().zip(&all) {
        if reserved.homes.is_empty() {
            continue;
        }
        for (index, partition) in group.indices.drain(..).zip(&reserved.homes) {
            let to = LimiterAddress {
                partition: *partition,
                ..group.to.clone()
            };
            match moved.iter_mut().find(|other| other.to == to) {
                Some(other) => other.indices.push(index),
                None => moved.push(Group {
                    to,
                    indices: vec![index],
                    id,
                }),
            }
        }
    }
    all.extend(all_in_order(moved.iter().map(|group| reserve(context, checks, group))).await);
    groups.extend(moved);
    all
}

async fn reserve(context: &RequestContext, checks: &[ResolvedCheck], group: &Group) -> Reserved {
    let chosen = group.indices.iter().filter_map(|index| checks.get(*index));
    let CheckBatch {
        policies, demands, ..
    } = CheckBatch::each(chosen.map(|resolved| {
        let demand = resolved.demand(DemandKind::Consume);
        (&resolved.name, &*resolved.policy, demand)
    }));
    let reserve = Reserve {
        to: group.to.clone(),
        id: group.id,
        policies,
        demands,
    };
    metrics::count(&context.host, Metric::LimitMessage);
    let reserved = call_within(&context.host, &reserve, CHECK_MS_MAX).await;
    reserved.unwrap_or_else(|_| Reserved {
        verdicts: vec![None; group.indices.len()],
        is_reserved: false,
        homes: Vec::new(),
    })
}

/// Sends the end of a reservation. If it is lost, the reservation stays consumed.
async fn send_end(host: &Host, end: &EndReservation) {
    let _ = call_within(host, end, CHECK_MS_MAX).await;
}
