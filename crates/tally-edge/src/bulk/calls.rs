//! `/events` and `/ingest`: the records of a body, and the answer to its sender.
//!
//! Invariant: a bad line costs that line only, and every line that is not counted is reported. A body of which no line
//! was counted is refused.

use std::cell::Cell;
use std::rc::Rc;

use super::counting::Counting;
use super::reader::{BulkHashes, BulkReader};
use super::records::Records;
use super::reports::BulkReports;
use crate::kit::body::BulkBody;
use crate::kit::hash_keys::{hashing, prepare};
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::batch::budget::CallBudget;
use tally_api::batch::gathered::CountingMode;
use tally_api::batch::ingest::Ingest;
use tally_api::batch::plan::body_calls_max;
use tally_api::batch::sections::{SECTION_BYTES_MAX, Sections};
use tally_api::bodies::PIECE_MS_MAX;
use tally_api::idempotency_keys::{BodyHash, KeyKind};
use tally_api::metrics::Metric;
use tally_api::query::Query;
use tally_api::routes::RouteName;
use tally_shared::metrics;
use tally_wire::names::{BODY_PIECE_MS, SUBREQUESTS};
use tally_wire::problem::{Code, Problem};

/// `POST /events`.
///
/// # Errors
/// Those of the whole body: `detail` names the part of it that was counted, if any. Those of its lines, if none was
/// counted.
pub async fn events(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    bulk(context, caller, Records::Events).await
}

/// `POST /ingest`.
///
/// # Errors
/// As [`events`].
#[cfg_attr(
    not(feature = "ingest"),
    expect(dead_code, reason = "the call of logs")
)]
pub async fn ingest(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let known = ["format", "id", "unique", "by", "site"];
    let query = Query::parse_for(RouteName::Ingest, context.query(), &known)?;
    let ingest = Ingest::from_query(query.get("format"), query.get("id"), query.get("unique"))?;
    let ingest = ingest.saying(query.get("by"), query.get("site"))?;
    bulk(context, caller, Records::Logs(ingest)).await
}

async fn bulk(
    context: &RequestContext,
    caller: &Caller,
    records: Records,
) -> Result<Answer, Problem> {
    let elements = hashing(context).await?;
    let hash_id = elements.id;
    let key = RequestKey::of(context, caller).await?;
    let names = prepare(&context.host, records.day(context.host.now_ms())).await;
    let keys = BulkHashes { elements, names };
    let mut body_key = None;
    if let Some(key) = &key {
        let hash_of = |name: &[u8]| key.hash(name);
        let key = key.name(KeyKind::Batch);
        let hash = BodyHash::new(&hash_of, &records.request_parts());
        let sections = Sections::new(key, &hash_of, &records.request_parts(), SECTION_BYTES_MAX);
        body_key = Some((hash, sections));
    }
    let counting = Counting {
        datacenter: context.datacenter(),
        manner: CountingMode::new(records.times(), hash_id),
        room: context.key_room(),
        calls: CallBudget::new(body_calls_max(context.host.number(SUBREQUESTS))),
        begun_ms: Cell::default(),
        reports: BulkReports::begin(&context.host),
    };
    let piece_ms = context.host.number(BODY_PIECE_MS).unwrap_or(PIECE_MS_MAX);
    let body = BulkBody::open(context, piece_ms)?;
    let acknowledged = records.acknowledged();
    let reader = BulkReader::new(context, caller, records, keys, body_key)?;
    let counting = Rc::new(counting);
    let read = reader.read(body, counting.clone()).await;
    // Also of a body that could not be read to its end.
    counting.reports.send(context, &counting.calls).await;
    let (report, is_replay) = read?;
    let done = match is_replay {
        true => Metric::Replayed,
        false => acknowledged,
    };
    metrics::reported(&context.host, &report, done);
    if let Some((problem, json)) = report.refusal() {
        return Ok(Answer::from(problem).reported(json));
    }
    let body = serde_json::to_string(&report)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    let answer = Answer::json(body);
    Ok(if is_replay { answer.replayed() } else { answer })
}
