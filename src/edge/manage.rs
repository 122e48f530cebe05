//! Settings, endings, listings.

use std::collections::BTreeMap;

use super::body;
use super::isolate::with_reads;
use super::read::unread;
use super::respond::Answer;
use super::visit::Visit;
use crate::counter::id::CounterId;
use crate::platform::call;
use crate::platform::clock::now_ms;
use crate::platform::measure;
use crate::protocol::access::Caller;
use crate::protocol::bodies::parse_settings;
use crate::protocol::messages::{End, ListAll, Put, Read, ReadMany, Wanted};
use crate::protocol::metrics::Metric;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::public::{Freshness, Told, aggregate_json, deleted_json, list_json};
use crate::protocol::query::Query;

/// How long an aggregate may take: it opens every cell of up to 5,000 counters.
const AGGREGATE_MS_MAX: u64 = 45_000;

/// `PUT /counters/{id}`: replaces the settings, creating the counter if need be.
///
/// # Errors
/// `invalid-body`, `unknown-field`, `unavailable`.
pub async fn put(visit: &Visit, id: CounterId) -> Result<Answer, Problem> {
    let strings = Query::parse(visit.query(), &["numbers"])?.numbers_as_strings()?;
    let bytes = body::read_small(&visit.request).await?;
    let settings = parse_settings(&bytes)?;
    let put = Put {
        counter: id.clone(),
        shards: settings.shards,
        ttl: settings.ttl,
    };
    let _waiting = visit.waiting();
    let answer = call::root(&visit.env, &id, &put).await?;
    with_reads(|reads| reads.forget(&id));

    let as_of_ms = now_ms();
    let question = Read {
        counter: id.clone(),
        datacenter: None,
        wanted: Wanted::default(),
    };
    let sum = call::aggregator(&visit.env, &question).await?;
    let sum = sum.ok_or_else(|| {
        Problem::new(
            Code::CounterNotFound,
            "the counter was deleted right after it was set",
        )
    })?;
    let freshness = Freshness {
        as_of_ms,
        now_ms: now_ms(),
        fresh: true,
    };
    let told = Told::new(&id, &sum, freshness);
    measure::count(Metric::AcknowledgedPut);
    let status = if answer.created { 201 } else { 200 };
    Ok(Answer::json(told.to_json(strings, None, true)).with_status(status))
}

/// `DELETE /counters/{id}`: ends the counter, storage included.
///
/// # Errors
/// `counter-not-found`, `unavailable`.
pub async fn delete(visit: &Visit, id: CounterId) -> Result<Answer, Problem> {
    Query::parse(visit.query(), &[])?;
    let _waiting = visit.waiting();
    let ended = call::root(
        &visit.env,
        &id,
        &End {
            counter: id.clone(),
        },
    )
    .await?;
    with_reads(|reads| reads.forget(&id));
    match ended {
        Some(ended) => {
            measure::count(Metric::AcknowledgedDelete);
            Ok(Answer::json(deleted_json(&id, &ended.pending)))
        }
        None => Err(Problem::new(
            Code::CounterNotFound,
            format!("there is no counter {:?} to delete", id.as_str()),
        )),
    }
}

/// `GET /counters`: names in order, page by page.
///
/// # Errors
/// `invalid-query`, `unavailable`.
pub async fn list(visit: &Visit, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(visit.query(), &["prefix", "cursor", "limit"])?;
    let prefix = query.get("prefix").unwrap_or_default().to_owned();
    caller.may_list(&prefix)?;
    let limit = query.limit()?;
    let after = query.get("cursor").map(str::to_owned);
    let _waiting = visit.waiting();
    // One name more than asked for tells whether there is another page.
    let list = ListAll {
        prefix,
        after,
        limit: limit + 1,
    };
    let mut counters = call::aggregator(&visit.env, &list).await.map_err(unread)?;
    let has_more = counters.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    counters.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let cursor = counters.last().filter(|_| has_more).map(CounterId::as_str);
    Ok(Answer::json(list_json(&counters, cursor)))
}

/// `GET /counters/{prefix}*/aggregate`: the sum of all counters whose names begin so.
///
/// # Errors
/// `too-many-counters`, `invalid-query`, `unavailable`.
pub async fn aggregate(visit: &Visit, prefix: &str) -> Result<Answer, Problem> {
    let strings = Query::parse(visit.query(), &["numbers"])?.numbers_as_strings()?;
    let as_of_ms = now_ms();
    let read = ReadMany {
        prefix: prefix.to_owned(),
    };
    let _waiting = visit.waiting();
    let sums = call::aggregator_within(&visit.env, &read, AGGREGATE_MS_MAX)
        .await
        .map_err(unread)?;
    let mut listed = BTreeMap::new();
    listed.extend(sums);
    let sums = listed;
    let freshness = Freshness {
        as_of_ms,
        now_ms: now_ms(),
        fresh: true,
    };
    Ok(Answer::json(aggregate_json(
        prefix, &sums, freshness, strings,
    )))
}
