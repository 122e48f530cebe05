//! `/events` and `/ingest`: the records of a body, and the answer to its sender.
//!
//! Invariant: a bad line costs that line only, and every line that is not counted is reported. A body of which no line
//! was counted is refused.

use std::cell::Cell;
use std::rc::Rc;

use super::counting::Counting;
use super::reader::{BulkHashes, BulkReader};
use crate::kit::body::BulkBody;
use crate::kit::hash_keys::{hashing, prepare};
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use tally_protocol::access::{Caller, Permission};
use tally_protocol::batch::BulkRecord;
use tally_protocol::batch::by::Actor;
use tally_protocol::batch::event::parse_line;
use tally_protocol::batch::gather::{CountingMode, Times};
use tally_protocol::batch::ingest::Ingest;
use tally_protocol::batch::keyed::CallBudget;
use tally_protocol::batch::plan::body_calls_max;
use tally_protocol::batch::sections::{SECTION_BYTES_MAX, Sections};
use tally_protocol::batch::split::Splitter;
use tally_protocol::bodies::PIECE_MS_MAX;
use tally_protocol::keys::{BodyHash, KeyKind};
use tally_protocol::metrics::Metric;
use tally_protocol::names::{BODY_PIECE_MS, SUBREQUESTS};
use tally_protocol::problem::{Code, Problem};
use tally_protocol::query::Query;
use tally_protocol::routes::RouteName;
use tally_protocol::visitor::day_of;
use tally_shared::metrics;

/// The kind of records of a body.
pub enum Records {
    /// Of `/events`.
    Events,
    /// Of `/ingest`.
    Logs(Ingest),
}

impl Records {
    /// Reads one; `None` for a line that is no record.
    ///
    /// # Errors
    /// Those of its line.
    pub fn read<'a>(
        &self,
        record: &'a [u8],
    ) -> Result<Option<(BulkRecord<'a>, Actor<'a>)>, Problem> {
        match self {
            Self::Events => parse_line(record).map(Some),
            Self::Logs(ingest) => {
                let record = ingest.read(record)?;
                Ok(record.map(|record| (record, Actor::default())))
            }
        }
    }

    /// Whether a record that is no event writes to a board.
    pub fn writes_to_board(&self, record: &[u8]) -> bool {
        let name: &[u8] = b"\"board\"";
        matches!(self, Self::Events) && record.windows(name.len()).any(|part| part == name)
    }

    /// The splitter for such a body.
    pub fn splitter(&self) -> Splitter {
        match self {
            Self::Events => Splitter::detect(),
            Self::Logs(ingest) => ingest.splitter(),
        }
    }

    /// The permissions that each needs where no key is sent. Logs are of the past.
    pub const fn needs(&self) -> &'static [Permission] {
        match self {
            Self::Events => &[],
            Self::Logs(_) => &[Permission::Ingest],
        }
    }

    fn acknowledged(&self) -> Metric {
        match self {
            Self::Events => Metric::AcknowledgedEvent,
            Self::Logs(_) => Metric::AcknowledgedLog,
        }
    }

    /// The call of a body, and its query.
    fn request_parts(&self) -> Vec<&[u8]> {
        match self {
            Self::Events => vec![b"events"],
            Self::Logs(ingest) => {
                let query = ingest.query_values();
                let query = query.iter().map(|text| text.as_bytes());
                std::iter::once(&b"ingest"[..]).chain(query).collect()
            }
        }
    }

    /// The day whose visitors the records may have.
    fn day(&self, now_ms: i64) -> Option<i64> {
        match self {
            Self::Events => Some(day_of(now_ms)),
            Self::Logs(_) => None,
        }
    }

    /// Which times they may have.
    pub fn times(&self) -> Times {
        match self {
            Self::Events => Times::Live,
            Self::Logs(_) => Times::Past,
        }
    }
}

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
        keys: context.keys(),
        calls: CallBudget::new(body_calls_max(context.host.number(SUBREQUESTS))),
        begun_ms: Cell::default(),
    };
    let piece_ms = context.host.number(BODY_PIECE_MS).unwrap_or(PIECE_MS_MAX);
    let body = BulkBody::open(context, piece_ms)?;
    let acknowledged = records.acknowledged();
    let reader = BulkReader::new(context, caller, records, keys, body_key)?;
    let (report, is_replay) = reader.read(body, Rc::new(counting)).await?;
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
