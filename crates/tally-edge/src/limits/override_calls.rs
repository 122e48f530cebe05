//! Calls that make, read, list and delete overrides. They are in effect here with the next check, and in other isolates
//! within 5 s.

use super::policies::{changed, not_found, unread};
use crate::deployment::audit;
use crate::deployment::givers::part_full;
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::limits::{
    OVERRIDES_MAX, OVERRIDES_OF_ALL_MAX, override_deleted_json, override_json, overrides_json,
    parse_override,
};
use tally_api::query::{Query, wrong_cursor};
use tally_shared::call;
use tally_wire::messages::{
    DeleteOverride, GetPolicy, ListFrom, ListOverrides, OverridePut, OverridesListed, PutOverride,
};
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};

/// `PUT /limits/{policy}/overrides/{pattern}`: creates an override, or replaces it.
///
/// # Errors
/// `policy-not-found`, `invalid-override`, `unknown-field`, `too-many-overrides`, `unavailable`.
pub async fn put(
    context: &RequestContext,
    caller: &Caller,
    name: PolicyName,
    pattern: OverridePattern,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let body = body::read_small(context).await?;
    audit::about(context, &target(&name, &pattern));
    let _waiting = context.waiting();
    let get = GetPolicy {
        name: name.clone(),
        known: None,
    };
    let stored = call(&context.host, &get).await;
    let stored = stored.map_err(|fault| unread(&fault))?;
    let policy = stored.ok_or_else(|| not_found(&name))?.policy;
    let over = parse_override(&body, &policy, context.host.now_ms())?;
    let put = PutOverride {
        policy: name.clone(),
        pattern: pattern.clone(),
        over,
        gift: caller.limit_gift(),
    };
    let outcome = audit::carry(context, &put).await?;
    let is_new = stored_or(outcome, &name)? == OverridePut::Created;
    changed(&context.host, &name);
    let answer = Answer::json(override_json(&name, &policy, &pattern, &over));
    Ok(answer.with_status(if is_new { 201 } else { 200 }))
}

/// Refuses an override that was not stored.
///
/// # Errors
/// `policy-not-found`, `too-many-overrides`.
pub fn stored_or(outcome: OverridePut, name: &PolicyName) -> Result<OverridePut, Problem> {
    let (what, most) = match outcome {
        OverridePut::Created | OverridePut::Replaced => return Ok(outcome),
        OverridePut::NoPolicy => return Err(not_found(name)),
        OverridePut::Full => (format!("policy {name} has"), OVERRIDES_MAX),
        OverridePut::AllFull => (
            "all policies together have".to_owned(),
            OVERRIDES_OF_ALL_MAX,
        ),
        OverridePut::PartFull => {
            let call = "DELETE /limits/{policy}/overrides/{pattern}";
            let what = part_full("overrides", OVERRIDES_OF_ALL_MAX, call);
            return Err(Problem::new(Code::TooManyOverrides, what));
        }
    };
    let detail = format!("{what} {most} overrides; delete some, or join several into a prefix");
    Err(Problem::new(Code::TooManyOverrides, detail))
}

/// `GET /limits/{policy}/overrides/{pattern}`: the override.
///
/// # Errors
/// `policy-not-found`, `override-not-found`, `unavailable`.
pub async fn get(
    context: &RequestContext,
    name: PolicyName,
    pattern: OverridePattern,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let OverridesListed { policy, overrides } =
        listed(context, &name, ListFrom::Only(pattern.clone()), 1).await?;
    match overrides.first() {
        Some((_, over)) => Ok(Answer::json(override_json(&name, &policy, &pattern, over))),
        None => Err(no_override(&name, &pattern)),
    }
}

/// `DELETE /limits/{policy}/overrides/{pattern}`: deletes the override.
///
/// # Errors
/// `policy-not-found`, `override-not-found`, `unavailable`.
pub async fn delete(
    context: &RequestContext,
    name: PolicyName,
    pattern: OverridePattern,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    audit::about(context, &target(&name, &pattern));
    let delete = DeleteOverride {
        policy: name.clone(),
        pattern: pattern.clone(),
    };
    let _waiting = context.waiting();
    let was_there = audit::carry(context, &delete).await?;
    changed(&context.host, &name);
    if was_there {
        return Ok(Answer::json(override_deleted_json(&name, &pattern)));
    }
    listed(context, &name, ListFrom::Start, 1).await?;
    Err(no_override(&name, &pattern))
}

/// `GET /limits/{policy}/overrides`: the overrides of a policy, page by page: of keys, then of prefixes.
///
/// # Errors
/// `policy-not-found`, `invalid-query`, `unavailable`.
pub async fn list(context: &RequestContext, name: PolicyName) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["cursor", "limit"])?;
    let limit = query.limit()?;
    let after = query.get("cursor").map(OverridePattern::parse);
    let after = after.transpose().or_else(|_| wrong_cursor())?;
    let from = after.map_or(ListFrom::Start, ListFrom::After);
    // One more than asked for shows whether there is another page.
    let OverridesListed {
        policy,
        mut overrides,
    } = listed(context, &name, from, limit + 1).await?;
    let overrides_max = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = overrides.len() > overrides_max;
    overrides.truncate(overrides_max);
    let cursor = overrides.last().filter(|_| has_more);
    let cursor = cursor.map(|(pattern, _)| pattern.as_str());
    Ok(Answer::json(overrides_json(
        &name, &policy, &overrides, cursor,
    )))
}

async fn listed(
    context: &RequestContext,
    name: &PolicyName,
    from: ListFrom,
    limit: u32,
) -> Result<OverridesListed, Problem> {
    context.visitor().read(1)?;
    let _waiting = context.waiting();
    let list = ListOverrides {
        policy: name.clone(),
        from,
        limit,
    };
    let listed = call(&context.host, &list).await;
    let listed = listed.map_err(|fault| unread(&fault))?;
    listed.ok_or_else(|| not_found(name))
}

fn no_override(name: &PolicyName, pattern: &OverridePattern) -> Problem {
    let detail = format!("policy {name} has no override {pattern}");
    Problem::new(Code::OverrideNotFound, detail)
}

/// What the audit log says was changed.
fn target(name: &PolicyName, pattern: &OverridePattern) -> String {
    format!("{name}/overrides/{pattern}")
}
