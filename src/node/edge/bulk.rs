//! `/events` and `/ingest`: bodies are summed per counter as they stream; only when the whole body
//! has been read well, and needs no more calls than it may make, is anything counted, one message per cell and part by part.
//! A bad line costs that line only, and every line that is not counted is told.

use std::rc::Rc;

use super::body;
use super::bulk_counting::{self, Counting};
use super::hash_keys::{Hashing, hashing, known_salt, name_key, prepare};
use super::isolate::{BulkMemory, BulkStage, known_of, own_shard};
use super::request_context::RequestContext;
use super::respond::Answer;
use crate::core::counter::id::CounterId;
use crate::core::sketch::{HashId, HashKey, hash};
use crate::host::Host;
use crate::node::shared::metrics;
use crate::protocol::access::{Caller, Permission, Scope};
use crate::protocol::batch::Record;
use crate::protocol::batch::by::By;
use crate::protocol::batch::event::parse_line;
use crate::protocol::batch::gather::{CLOCK_SKEW_MS, Gather, Hashes, Limits, Manner, Times};
use crate::protocol::batch::ingest::Ingest;
use crate::protocol::batch::keyed::BodyKey;
use crate::protocol::batch::plan::{CallsNeeded, body_calls_max};
use crate::protocol::batch::split::Splitter;
use crate::protocol::batch::wave::Stage;
use crate::protocol::bodies::{PIECE_MS_MAX, reading_bytes};
use crate::protocol::keys::{BodyHash, Kind, parse_key, write_key};
use crate::protocol::metrics::Metric;
use crate::protocol::names::{BODY_PIECE_MS, SUBREQUESTS};
use crate::protocol::problem::{Code, Problem};
use crate::protocol::query::Query;
use crate::protocol::visitor::{day_of, visitor};

/// What the records of a body are.
enum Records {
    Events,
    Logs(Ingest),
}

impl Records {
    fn read<'a>(&self, record: &'a [u8]) -> Result<Option<(Record<'a>, By<'a>)>, Problem> {
        match self {
            Self::Events => parse_line(record).map(Some),
            Self::Logs(ingest) => {
                let record = ingest.read(record)?;
                Ok(record.map(|record| (record, By::default())))
            }
        }
    }

    fn splitter(&self) -> Splitter {
        match self {
            Self::Events => Splitter::detect(),
            Self::Logs(ingest) => ingest.splitter(),
        }
    }

    /// What each needs besides the right to increment, where no key is sent. Logs are of the past.
    const fn needs(&self) -> &'static [Permission] {
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

    /// What a body asks for besides what it holds: its call, and the query.
    fn asked(&self) -> Vec<&'static [u8]> {
        match self {
            Self::Events => vec![b"events"],
            Self::Logs(ingest) => {
                let asked = ingest.asked();
                let asked = asked.iter().map(|text| text.as_bytes());
                std::iter::once(&b"ingest"[..]).chain(asked).collect()
            }
        }
    }

    /// The day whose visitors its records may name.
    fn day(&self, now_ms: i64) -> Option<i64> {
        match self {
            Self::Events => Some(day_of(now_ms)),
            Self::Logs(_) => None,
        }
    }

    fn times(&self) -> Times {
        match self {
            Self::Events => Times::Live,
            Self::Logs(_) => Times::Past,
        }
    }
}

/// `POST /events`.
///
/// # Errors
/// Those of the whole body; nothing was counted then.
pub async fn events(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    bulk(context, caller, Records::Events).await
}

/// `POST /ingest`.
///
/// # Errors
/// As [`events`].
pub async fn ingest(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["format", "key", "unique"])?;
    let ingest = Ingest::from_query(query.get("format"), query.get("key"), query.get("unique"))?;
    bulk(context, caller, Records::Logs(ingest)).await
}

/// What a body is hashed with.
struct Keys {
    elements: Hashing,
    /// Not there while the directory does not answer: what has an id or a key is refused then, the rest is counted.
    names: Option<Rc<HashKey>>,
}

impl Hashes for Keys {
    fn element(&self, bytes: &[u8]) -> u64 {
        hash(&self.elements.key, bytes)
    }

    fn name(&self, bytes: &[u8]) -> u64 {
        // Nothing that needs a name gets here without one.
        self.names.as_ref().map_or(0, |names| hash(names, bytes))
    }
}

/// Nothing where a caller without a key may have this record counted, which is then noted against what it may write. All else that could
/// refuse the record is looked at before: what is refused uses nothing.
fn admit(
    context: &RequestContext,
    caller: &Caller,
    gather: &Gather,
    record: &Record<'_>,
    needs: &[Permission],
    now_ms: i64,
) -> Result<(), Problem> {
    let needs = match record.at_ms {
        Some(_) if needs.is_empty() => &[Permission::At],
        _ => needs,
    };
    caller.may_write(&record.key, record.delta, needs)?;
    gather.check(record, now_ms)?;
    context.visitor().admit(&record.key)
}

/// Adds one record of a body to what it sums to.
fn take(
    host: &Host,
    gather: &mut Gather,
    line: u64,
    (record, by): &(Record<'_>, By<'_>),
    now_ms: i64,
    keys: &Keys,
) -> Result<(), Problem> {
    if by.is_ignored(|| None) {
        gather.ignore_bot();
        return Ok(());
    }
    if record.id.is_some() && keys.names.is_none() {
        let detail = "ids cannot be looked up now; nothing of this line was counted, try again";
        return Err(Problem::new(Code::Unavailable, detail));
    }
    if !by.is_auto {
        gather.add(line, record, now_ms, keys);
        return Ok(());
    }
    // A retry is of the day that it says; after the salt of that day is gone, of today.
    let today = day_of(now_ms);
    let day = record.at_ms.map_or(today, day_of);
    let salt = known_salt(host, day).or_else(|| known_salt(host, today));
    let (Some(salt), Some(address)) = (salt, by.address) else {
        let detail =
            "visitors cannot be told apart now; nothing of this line was counted, try again";
        return Err(Problem::new(Code::Unavailable, detail));
    };
    let element = visitor(salt, address, by.user_agent.as_deref().unwrap_or_default());
    gather.add_as(line, record, Some(&element), now_ms, keys);
    Ok(())
}

async fn bulk(
    context: &RequestContext,
    caller: &Caller,
    records: Records,
) -> Result<Answer, Problem> {
    let elements = hashing(&context.host).await?;
    let names = match context.header("idempotency-key") {
        Some(_) => Some(name_key(&context.host).await?),
        None => prepare(&context.host, records.day(context.host.now_ms())).await,
    };
    let keys = Keys { elements, names };
    let hash_of = |name: &[u8]| keys.name(name);
    let calls_max = body_calls_max(context.host.number(SUBREQUESTS));
    let limits = Limits {
        // Each needs a call at least.
        counters_max: u64::try_from(calls_max).unwrap_or(u64::MAX),
        times: records.times(),
        clock_skew_ms: CLOCK_SKEW_MS,
    };
    let now_ms = context.host.now_ms();
    let body_key = match context.header("idempotency-key") {
        Some(header) => Some(write_key(&hash_of, Kind::Batch, parse_key(&header)?)),
        None => None,
    };
    let mut body_hash = body_key.map(|_| BodyHash::new(&hash_of, &records.asked()));
    let host = context.host.clone();
    let hash_of_counter = move |counter: &CounterId| known_of(&host, counter).unique_hash;
    let mut gather = Gather::new(limits, context.host.random()).knowing(hash_of_counter);
    let mut memory = BulkMemory::of(&context.host, context.address().ok());
    let reading_bytes = reading_bytes(body::announced_length(&*context.request));
    memory.hold(reading_bytes)?;
    let reading = BulkStage::enter(&context.host, Stage::Reading);
    let needs = records.needs();
    let take = |gather: &mut Gather, line: u64, record: Result<&[u8], Problem>| {
        let taken = match record.and_then(|bytes| records.read(bytes)) {
            Ok(Some(read)) => caller
                .may(Scope::Write, &read.0.key)
                .and_then(|()| match caller.is_public() {
                    true => admit(context, caller, gather, &read.0, needs, now_ms),
                    false => Ok(()),
                })
                .and_then(|()| take(&context.host, gather, line, &read, now_ms, &keys)),
            Ok(None) => Ok(()),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = taken {
            gather.reject(line, &problem);
        }
    };
    let mut splitter = records.splitter();
    let piece_ms = context.host.number(BODY_PIECE_MS).unwrap_or(PIECE_MS_MAX);
    body::read_bulk(context, piece_ms, |chunk| {
        if let Some(body_hash) = &mut body_hash {
            body_hash.push(&hash_of, chunk);
        }
        splitter.push(chunk, |line, record| take(&mut gather, line, record))?;
        gather.check_counters()?;
        memory.hold(reading_bytes + gather.memory_bytes())
    })
    .await?;
    splitter.finish(|line, record| take(&mut gather, line, record))?;
    gather.check_counters()?;
    memory.hold(gather.memory_bytes())?;

    drop(reading);

    let body_key = body_key.zip(body_hash).map(|(key, body_hash)| BodyKey {
        key,
        fingerprint: body_hash.finish(&hash_of),
    });
    count(context, &records, gather, body_key, keys.elements.id).await
}

/// Counts what was gathered of a body.
async fn count(
    context: &RequestContext,
    records: &Records,
    gather: Gather,
    key: Option<BodyKey>,
    hash_id: HashId,
) -> Result<Answer, Problem> {
    let datacenter = context.datacenter();
    let calls_max = body_calls_max(context.host.number(SUBREQUESTS));
    let (sums, report) = gather.finish();
    let needed = CallsNeeded::of_body(
        &sums,
        |counter| known_of(&context.host, counter).shards_in(&datacenter),
        |shards| own_shard(&context.host, shards),
        key.is_some(),
        calls_max,
    )?;
    let counting = Counting {
        datacenter,
        manner: Manner::new(records.times(), hash_id),
        key,
        keys: context.keys(),
        calls: needed.for_keys(calls_max),
    };
    let (report, is_replay) = bulk_counting::count_body(context, counting, sums, report).await?;
    let done = match is_replay {
        true => Metric::Replayed,
        false => records.acknowledged(),
    };
    metrics::reported(&context.host, &report, done);
    let body = serde_json::to_string(&report)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    let answer = Answer::json(body);
    Ok(if is_replay { answer.replayed() } else { answer })
}
