//! Snapshots: listing and making them, and former states of counters.
//!
//! Invariant: a value is complete or refused: if a file that it needs is missing or damaged, the answer is 503 and
//! names the file.

use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use crate::read::fetch::unread;
use crate::read::{counter, listing};
use tally_api::access::Caller;
use tally_api::bodies::parse_nothing;
use tally_api::query::{ListPage, PagedList, Query};
use tally_api::snapshot::{
    Days, days_json, list_on_json, on_json, parse_date, snapshot_json, snapshots_json,
};
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_shared::{call, call_within};
use tally_wire::messages::{AllRuns, AskRuns, Fault, ListAllPastStates, ReadPastStates};
use tally_wire::names::{DIRECTORY_PARTITIONS, SNAPSHOTS_BUCKET};
use tally_wire::problem::{Code, Problem};
use tally_wire::snapshot::date_of;

/// How long the request that makes a snapshot waits for its end, the interval of its checks, and the time limit of
/// reading files.
const MADE_MS_MAX: u64 = 10_000;
const LOOK_EVERY_MS: u64 = 250;
pub(super) const FILES_MS_MAX: u64 = 15_000;

pub(super) async fn runs(host: &Host, begins: bool) -> Result<AllRuns, Problem> {
    let all = call_within(host, &AskRuns { begins }, FILES_MS_MAX).await;
    all.map_err(unread)
}

/// Succeeds if the deployment has storage for snapshots.
fn check_files(all: &AllRuns) -> Result<(), Problem> {
    if all
        .partitions
        .iter()
        .any(|(_, partition)| partition.has_files)
    {
        return Ok(());
    }
    let detail = format!(
        "this deployment has no place for snapshots: bind an R2 bucket as {SNAPSHOTS_BUCKET} to its aggregator (tally deploy --snapshots)"
    );
    Err(Problem::new(Code::NotConfigured, detail))
}

fn no_snapshot(of: &str) -> Problem {
    let detail =
        format!("there is no snapshot {of}; GET /snapshots lists the snapshots that exist");
    Problem::new(Code::SnapshotNotFound, detail)
}

/// `GET /snapshots`.
///
/// # Errors
/// `invalid-query`, `unavailable`.
pub async fn list(context: &RequestContext) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["date", "cursor", "limit"])?;
    let day = query.get("date").map(parse_date).transpose()?;
    let page = ListPage::of(PagedList::Snapshots, &query)?;
    let all = runs(&context.host, false).await?;
    Ok(Answer::json(snapshots_json(&all, day, &page)))
}

/// `POST /snapshots`: begins a snapshot, and waits a little for its end. 200 if it is made, 202 if it is still in
/// progress.
///
/// # Errors
/// `not-configured`, `unavailable`.
pub async fn make(context: &RequestContext) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    parse_nothing(&body::read_small(context).await?)?;
    let host = &context.host;
    let _waiting = context.waiting();
    check_files(&runs(host, false).await?)?;
    let begun_ms = host.now_ms();
    let mut all = runs(host, true).await?;
    let is_under_way = |all: &AllRuns| {
        all.partitions
            .iter()
            .any(|(_, partition)| partition.in_progress.is_some())
    };
    while is_under_way(&all) && host.now_ms().abs_diff(begun_ms) < MADE_MS_MAX {
        host.sleep_ms(LOOK_EVERY_MS).await;
        all = runs(host, false).await?;
    }
    // The day on which it began, which may be yesterday.
    let days = all.partitions.iter().filter_map(|(_, partition)| {
        let run = partition.runs.last()?;
        Some(run.day)
    });
    let day = days.max();
    let made = day.and_then(|day| snapshot_json(&all, day));
    Ok(match made.filter(|_| !is_under_way(&all)) {
        Some(made) => Answer::json(made),
        None => Answer::json(snapshots_json(
            &all,
            None,
            &ListPage::first(PagedList::Snapshots),
        ))
        .with_status(202),
    })
}

/// `GET /counters/{id}?on=`: the state of a counter on a day, or on some.
///
/// # Errors
/// `invalid-query`, `snapshot-not-found`, `counter-not-found`, `unavailable`.
pub async fn counter_on(context: &RequestContext, id: CounterId) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &counter::PARAMETERS)?;
    alone(&query, &["on", "numbers"])?;
    let strings = query.numbers_as_strings()?;
    let on = query.get("on").unwrap_or_default();
    let days = Days::parse(on, context.host.now_ms())?;
    let rounding = context.rounding()?;
    let charge = u64::try_from(days.last - days.first + 1).unwrap_or(1);
    context.visitor().read(charge)?;
    let _waiting = context.waiting();
    let request = ReadPastStates {
        counter: id.clone(),
        first: days.first,
        last: days.last,
        is_range: days.is_range,
    };
    let states = call_within(&context.host, &request, FILES_MS_MAX).await;
    let states = states.map_err(unread)?;
    if days.is_range {
        return Ok(Answer::json(days_json(
            &id, days, &states, rounding, strings,
        )));
    }
    let date = date_of(days.last);
    let then = states
        .first()
        .ok_or_else(|| no_snapshot(&format!("of {date} or before")))?;
    let json = on_json(&id, then, rounding, strings).ok_or_else(|| {
        let taken = date_of(then.run.day);
        let detail = format!(
            "there was no counter {:?} in the snapshot of {taken}",
            id.as_str()
        );
        Problem::new(Code::CounterNotFound, detail)
    })?;
    Ok(Answer::json(json))
}

/// Refuses parameters that do not apply to former states.
fn alone(query: &Query, known: &[&str]) -> Result<(), Problem> {
    let others = [
        "consistency",
        "datacenter",
        "window",
        "at",
        "at_least",
        "explain",
        "values",
    ];
    let other = others
        .into_iter()
        .find(|name| !known.contains(name) && query.get(name).is_some());
    other.map_or(Ok(()), |other| {
        let detail = format!("on reads the state of a past day; send it without {other}");
        Err(Problem::new(Code::InvalidQuery, detail))
    })
}

/// `GET /counters?on=`: the state of counters on a day.
///
/// # Errors
/// `invalid-query`, `snapshot-not-found`, `unavailable`.
pub async fn list_on(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &listing::PARAMETERS)?;
    caller.may_list(query.get("prefix").unwrap_or_default())?;
    alone(&query, &[])?;
    let on = query.get("on").unwrap_or_default();
    let days = Days::parse(on, context.host.now_ms())?;
    if days.is_range {
        let detail = "a list is of one day: on=2026-11-01";
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    let strings = query.numbers_as_strings()?;
    let rounding = context.rounding()?;
    let request = ListAllPastStates {
        day: days.last,
        prefix: query.get("prefix").unwrap_or_default().to_owned(),
        after: query.get("cursor").map(str::to_owned),
        limit: query.limit()?,
        uniques: false,
    };
    context.visitor().read(DIRECTORY_PARTITIONS.into())?;
    let _waiting = context.waiting();
    let listed = call_within(&context.host, &request, FILES_MS_MAX).await;
    let listed = listed.map_err(unread)?;
    if listed.runs.is_empty() {
        return Err(no_snapshot(&format!("of {} or before", date_of(days.last))));
    }
    let last = listed.rows.last().filter(|_| listed.has_more);
    let cursor = last.map(|row| row.counter.as_str());
    Ok(Answer::json(list_on_json(
        &listed, cursor, rounding, strings,
    )))
}

/// A page of former states with all their data, for a restore.
///
/// # Errors
/// `snapshot-not-found`, `unavailable`.
pub(super) async fn page(
    context: &RequestContext,
    request: &ListAllPastStates,
) -> Result<tally_wire::messages::PastStateList, Problem> {
    let listed = call(&context.host, request).await.map_err(unread)?;
    if let [first, ..] = listed.missing_partitions.as_slice() {
        let why = format!("partition {first} of the directory does not answer");
        return Err(unread(Fault::Unavailable(why)));
    }
    if !listed.runs.iter().any(|(_, run)| run.day == request.day) {
        return Err(no_snapshot(&format!("of {}", date_of(request.day))));
    }
    Ok(listed)
}
