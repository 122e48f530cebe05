//! Alerts: creating, reading, silencing and testing them, and their deliveries.
//!
//! Invariant: a caller with scope `admin` on an alert's subject may do all of this, and no other caller learns of the
//! alert.

use super::givers;
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::alerts::answer::{
    AlertSummary, alert_json, alerts_json, deleted_json, deliveries_json, tested_json,
};
use tally_api::alerts::body::{parse_alert, parse_silence};
use tally_api::query::{ListPage, PagedList, Query};
use tally_api::routes::Subject;
use tally_core::alert::backoff::ANSWER_MS_MAX;
use tally_shared::{call, call_within};
use tally_wire::alerts::webhook::Allowed;
use tally_wire::alerts::{ALERTS_MAX, Alert};
use tally_wire::messages::{
    AlertDetails, AlertPutOutcome, AllAlerts, AllDeliveries, DeleteAlert, DeliveriesOf, GetAlert,
    PutAlert, SilenceAlert, TestAlert,
};
use tally_wire::names::ALERTS_ALLOW;
use tally_wire::names::alert::{AlertName, AlertNames};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

/// How long a test may take, milliseconds: as long as its receiver, and the call.
const TEST_MS_MAX: u64 = ANSWER_MS_MAX + 3_000;

/// Succeeds where a caller may do anything with an alert: it administers what the alert watches.
///
/// # Errors
/// `forbidden`.
pub(crate) fn may(caller: &Caller, alert: &Alert) -> Result<(), Problem> {
    caller.may_name(&Subject::Alert(&alert.watched))
}

/// The refusal of an alert for which the caller's part of the table has no room.
pub(crate) fn part_full() -> Problem {
    let what = givers::part_full("alerts of a partition", ALERTS_MAX, "DELETE /alerts/{name}");
    Problem::new(Code::TooManyAlerts, what)
}

fn not_found(name: &AlertName) -> Problem {
    let detail = format!("there is no alert `{name}`; GET /alerts lists the alerts that exist");
    Problem::new(Code::AlertNotFound, detail)
}

fn summary_of(seen: &AlertDetails) -> AlertSummary<'_> {
    AlertSummary {
        name: &seen.name,
        alert: &seen.alert,
        record: &seen.record,
        last: seen.last.as_ref(),
    }
}

fn answer(context: &RequestContext, seen: &AlertDetails) -> Answer {
    Answer::json(alert_json(&summary_of(seen), context.host.now_ms()))
}

/// The alert, whoever administers what it watches.
async fn stored(
    context: &RequestContext,
    caller: &Caller,
    name: &AlertName,
) -> Result<Option<AlertDetails>, Problem> {
    caller.may_somewhere(Scope::Admin, &[])?;
    let get = GetAlert { name: name.clone() };
    Ok(call(&context.host, &get).await?)
}

/// The alert that a caller is about to replace. A refusal does not name what another's alert watches.
async fn seen(
    context: &RequestContext,
    caller: &Caller,
    name: &AlertName,
) -> Result<Option<AlertDetails>, Problem> {
    let seen = stored(context, caller, name).await?;
    if let Some(seen) = &seen
        && may(caller, &seen.alert).is_err()
    {
        // Not what the alert watches: that is for those who administer it.
        let detail = format!("another caller's alert is called {name}: take another name");
        return Err(Problem::new(Code::Forbidden, detail));
    }
    Ok(seen)
}

async fn found(
    context: &RequestContext,
    caller: &Caller,
    name: &AlertName,
) -> Result<AlertDetails, Problem> {
    let found = stored(context, caller, name).await?;
    let found = found.filter(|found| may(caller, &found.alert).is_ok());
    found.ok_or_else(|| not_found(name))
}

/// `PUT /alerts/{name}`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `webhook-not-allowed`, `forbidden`, `too-many-alerts`,
/// `unavailable`.
pub async fn put(
    context: &RequestContext,
    caller: &Caller,
    name: AlertName,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let body = body::read_small(context).await?;
    let allowed = Allowed::of(context.host.setting(ALERTS_ALLOW).as_deref());
    let put = parse_alert(&body, &allowed)?;
    may(caller, &put.alert)?;
    let over = seen(context, caller, &name).await?.map(|seen| seen.alert);
    let put = PutAlert {
        name,
        put,
        over,
        once: None,
        gift: caller.gift(),
    };
    match call(&context.host, &put).await? {
        AlertPutOutcome::Created(seen) => Ok(answer(context, &seen).with_status(201)),
        AlertPutOutcome::Replaced(seen) => Ok(answer(context, &seen)),
        AlertPutOutcome::Full => Err(Problem::new(
            Code::TooManyAlerts,
            "delete an alert that is not needed any more, or watch a prefix by one: DELETE /alerts/{name}",
        )),
        AlertPutOutcome::PartFull => Err(part_full()),
        AlertPutOutcome::NeedsSecret => Err(Problem::new(
            Code::InvalidBody,
            "a new alert needs a secret, which its deliveries are signed with: echo whsec_$(openssl rand -base64 32)",
        )),
        AlertPutOutcome::Changed => Err(Problem::new(
            Code::Unavailable,
            "another request changed the alert at the same time; try again",
        )),
    }
}

/// `GET /alerts/{name}`.
///
/// # Errors
/// `alert-not-found`, `forbidden`, `unavailable`; as for all functions below.
pub async fn get(
    context: &RequestContext,
    caller: &Caller,
    name: AlertName,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let seen = found(context, caller, &name).await?;
    Ok(answer(context, &seen))
}

/// `GET /alerts`: those that the caller administers.
///
/// # Errors
/// `forbidden`, `unavailable`.
pub async fn list(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let page = ListPage::parse(PagedList::Alerts, context.query())?;
    caller.may_somewhere(Scope::Admin, &[])?;
    let (alerts, missing) = call(&context.host, &AllAlerts {}).await?;
    let alerts = alerts
        .iter()
        .filter(|seen| may(caller, &seen.alert).is_ok());
    let alerts: Vec<AlertSummary<'_>> = alerts.map(summary_of).collect();
    let json = alerts_json(&alerts, &missing, &page, context.host.now_ms());
    Ok(Answer::json(json))
}

/// `DELETE /alerts/{name}`.
///
/// # Errors
/// As [`get`].
pub async fn delete(
    context: &RequestContext,
    caller: &Caller,
    name: AlertName,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    found(context, caller, &name).await?;
    let delete = DeleteAlert { name };
    call(&context.host, &delete).await?;
    Ok(Answer::json(deleted_json(&delete.name)))
}

/// `POST /alerts/{name}/silence`.
///
/// # Errors
/// As [`get`], `invalid-json`, `unknown-field`, `invalid-body`.
pub async fn silence(
    context: &RequestContext,
    caller: &Caller,
    name: AlertName,
) -> Result<Answer, Problem> {
    let body = body::read_small(context).await?;
    let seconds = parse_silence(&body)?;
    Query::parse(context.query(), &[])?;
    found(context, caller, &name).await?;
    let for_ms = i64::try_from(seconds).unwrap_or(0) * 1_000;
    let silence = SilenceAlert { name, for_ms };
    match call(&context.host, &silence).await? {
        Some(seen) => Ok(answer(context, &seen)),
        None => Err(not_found(&silence.name)),
    }
}

/// `POST /alerts/{name}/test`: delivers a test at once, and answers with the result.
///
/// # Errors
/// As [`get`].
pub async fn test(
    context: &RequestContext,
    caller: &Caller,
    name: AlertName,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    found(context, caller, &name).await?;
    let test = TestAlert { name };
    match call_within(&context.host, &test, TEST_MS_MAX).await? {
        Some(delivery) => Ok(Answer::json(tested_json(&delivery))),
        None => Err(not_found(&test.name)),
    }
}

/// `GET /alerts/{alert}/deliveries`: the last ones, newest first; with `*` those of all alerts that the caller
/// administers.
///
/// # Errors
/// As [`get`].
pub async fn deliveries(
    context: &RequestContext,
    caller: &Caller,
    alerts: AlertNames,
) -> Result<Answer, Problem> {
    let page = ListPage::parse(PagedList::Deliveries, context.query())?;
    let name = match alerts {
        AlertNames::One(name) => name,
        AlertNames::All => return all_deliveries(context, caller, &page).await,
    };
    found(context, caller, &name).await?;
    let mut deliveries = call(&context.host, &DeliveriesOf { name }).await?;
    // The alert may have watched something else before, for another.
    deliveries.retain(|(delivery, _)| may(caller, &delivery.event.alert).is_ok());
    Ok(Answer::json(deliveries_json(deliveries, &[], &page)))
}

async fn all_deliveries(
    context: &RequestContext,
    caller: &Caller,
    page: &ListPage,
) -> Result<Answer, Problem> {
    caller.may_somewhere(Scope::Admin, &[])?;
    let of = caller.admin_rights();
    let (deliveries, missing) = call(&context.host, &AllDeliveries { of }).await?;
    Ok(Answer::json(deliveries_json(deliveries, &missing, page)))
}
