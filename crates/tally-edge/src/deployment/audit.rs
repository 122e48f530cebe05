//! The audit log of calls with scope `admin` that change something.
//!
//! Invariant: an entry is written before the call is done, or in the same commit, if the log can be reached. Otherwise
//! the call continues, and the entry is written afterwards, as long as the platform lets the isolate run.

use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::{Caller, Right};
use tally_api::audit::{acts_json, begun, parse_span};
use tally_api::routes::{Route, RouteName};
use tally_host::Host;
use tally_shared::call::answer_of;
use tally_shared::{call, call_within};
use tally_wire::audit::{AuditEntry, CallOutcome};
use tally_wire::messages::{AddAuditEntry, Call, CallAudited, Fault, ListAuditEntries, encode};
use tally_wire::problem::Problem;
use tally_wire::rights::Scope;
use tally_wire::segment::decode_segment;

/// How long a call waits for the log, milliseconds.
const LOG_MS_MAX: u64 = 1_000;

/// When an entry that was not confirmed is sent again, milliseconds after the last attempt.
const AGAIN_MS: [u64; 3] = [1_000, 5_000, 15_000];

/// Whether the call is done by the partition that stores the log, in one commit with its entry.
const fn is_kept_beside_the_log(name: RouteName) -> bool {
    matches!(
        name,
        RouteName::MakeKey
            | RouteName::ChangeKey
            | RouteName::RevokeKey
            | RouteName::RotateKey
            | RouteName::CreateShare
            | RouteName::RevokeShare
            | RouteName::PutPolicy
            | RouteName::DeletePolicy
            | RouteName::PutOverride
            | RouteName::DeleteOverride
    )
}

/// Whether the entry is written by [`act`], once the body says what the call does. Its dry run changes nothing, and has
/// no entry.
const fn has_dry_run(name: RouteName) -> bool {
    matches!(name, RouteName::Restore | RouteName::Repair)
}

/// The target of a call: the id, the prefix or the name in its path. For a member, that of its board and its own.
fn target_of(context: &RequestContext, route: &Route) -> String {
    match &route.right() {
        Right::Counter(_, board) if route.name() == RouteName::RemoveMember => {
            let member = context.path().split('/').nth(4).unwrap_or_default();
            let member = decode_segment(member).unwrap_or_default();
            [board, "/", member.as_str()].concat()
        }
        Right::Counter(_, target) if !target.is_empty() => (*target).to_owned(),
        Right::Limit(_, policy, None) => policy.as_str().to_owned(),
        Right::Limit(_, policy, Some(key)) => [policy.as_str(), "/", key.as_str()].concat(),
        _ => {
            let id = context.path().split('/').nth(2);
            id.unwrap_or_default().to_owned()
        }
    }
}

/// Whether a call must be logged.
pub fn is_logged(caller: &Caller, route: &Route) -> bool {
    let is_act =
        route.right().scope() == Some(Scope::Admin) && !route.name().call().starts_with("GET ");
    is_act && caller.may_somewhere(Scope::Admin, &[]).is_ok()
}

/// Writes the entry of a call that must be logged, before it is done.
pub async fn begin(context: &RequestContext, caller: &Caller, route: &Route) {
    let name = route.name();
    let target = target_of(context, route);
    begin_named(
        context,
        caller,
        name.call(),
        &target,
        is_kept_beside_the_log(name) || has_dry_run(name),
    )
    .await;
}

/// As [`begin`], for a call by its name.
pub async fn begin_named(
    context: &RequestContext,
    caller: &Caller,
    call: &str,
    target: &str,
    is_logged_later: bool,
) {
    let host = &context.host;
    let entry = begun(caller, call, target, host.now_ms(), host.random());
    let account = caller.account().to_owned();
    let add = AddAuditEntry { entry, account };
    context.set_audit_entry(add.clone());
    if !is_logged_later {
        let _ = call_within(host, &add, LOG_MS_MAX).await;
    }
}

/// Sets the target of the present entry, once that is known.
pub fn about(context: &RequestContext, target: &str) {
    context.change_audit_entry(|entry| entry.target = target.to_owned());
}

/// Writes the entry of a call with a dry run, now that its target is known; without a target, the call is a dry run and
/// has no entry.
pub async fn act(context: &RequestContext, target: Option<&str>) {
    let Some(target) = target else {
        drop(context.take_audit_entry());
        return;
    };
    about(context, target);
    if let Some(add) = context.audit_entry() {
        let _ = call_within(&context.host, &add, LOG_MS_MAX).await;
    }
}

/// Sends a call to the partition that stores the log, so that its effect and the entry are one commit.
///
/// # Errors
/// The receiver's error, or `Unavailable`.
pub async fn carry<C: Call>(context: &RequestContext, message: &C) -> Result<C::Answer, Fault> {
    let host = &context.host;
    let Some(AddAuditEntry { entry, account }) = context.audit_entry() else {
        return call(host, message).await;
    };
    let done = CallAudited {
        entry: AuditEntry {
            outcome: CallOutcome::Done,
            ..entry
        },
        path: C::PATH.to_owned(),
        message: encode(message)?,
        account,
    };
    let bytes = call(host, &done).await?;
    context.change_audit_entry(|entry| entry.outcome = CallOutcome::Done);
    answer_of::<C>(host, &bytes)
}

/// Writes the outcome of the present entry.
pub async fn end(context: &RequestContext, answer: &Result<Answer, Problem>) {
    let status = match answer {
        Ok(answer) => answer.status(),
        Err(problem) => problem.code().status(),
    };
    end_as(context, CallOutcome::of(status)).await;
}

/// As [`end`], for a call without such an answer.
pub async fn end_as(context: &RequestContext, outcome: CallOutcome) {
    let Some(AddAuditEntry { entry, account }) = context.take_audit_entry() else {
        return;
    };
    // An outcome that was committed with the call is stored already.
    if entry.outcome == outcome || outcome == CallOutcome::Unknown {
        return;
    }
    let message = AddAuditEntry {
        entry: AuditEntry { outcome, ..entry },
        account,
    };
    let host = context.host.clone();
    if call_within(&host, &message, LOG_MS_MAX).await.is_err() {
        context.wait_until(async move { send_again(&host, &message).await });
    }
}

async fn send_again(host: &Host, message: &AddAuditEntry) {
    for wait_ms in AGAIN_MS {
        host.sleep_ms(wait_ms).await;
        if call_within(host, message, LOG_MS_MAX).await.is_ok() {
            return;
        }
    }
    host.fail("an entry of the audit log could not be written");
}

/// `GET /audit`: the audit log, newest first.
///
/// # Errors
/// `invalid-query`, `unavailable`.
pub async fn list(context: &RequestContext) -> Result<Answer, Problem> {
    let mut span = parse_span(context.query(), context.host.now_ms())?;
    let limit = usize::try_from(span.limit).unwrap_or(usize::MAX);
    // One more than asked for shows whether there is another page.
    span.limit += 1;
    let mut entries = call(&context.host, &ListAuditEntries { span }).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    Ok(Answer::json(acts_json(&entries, has_more)))
}
