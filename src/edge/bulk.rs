//! `/events` and `/ingest`: bodies are summed per counter as they stream; only when the whole body
//! has been read well is anything counted, one message per cell. A bad line costs that line only.

use std::rc::Rc;

use futures_channel::oneshot;
use worker::Env;

use super::isolate::{BulkMemory, BulkStage, own_shard, shards_of, unique_hash_of, with_waves};
use super::keyed::problem_of;
use super::respond::Answer;
use super::secrets::{Hashing, hashing, known_salt, name_key, prepare};
use super::visit::Visit;
use super::{body, fleet};
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::ledger::KeyedOutcome;
use crate::platform::clock::{now_ms, random, sleep_ms};
use crate::platform::keyed::count_bounded;
use crate::platform::measure;
use crate::platform::setting::number;
use crate::platform::settled::all_settled;
use crate::protocol::access::{Caller, Permission, Scope};
use crate::protocol::batch::Record;
use crate::protocol::batch::by::By;
use crate::protocol::batch::event::parse_line;
use crate::protocol::batch::gather::{CLOCK_SKEW_MS, Gather, Hashes, Limits, Manner, Times};
use crate::protocol::batch::ingest::Ingest;
use crate::protocol::batch::keyed::{BodyKey, KeyedElements, KeyedWrites};
use crate::protocol::batch::plan::{BATCH_COUNTERS_MAX, Plan};
use crate::protocol::batch::report::Report;
use crate::protocol::batch::split::Splitter;
use crate::protocol::batch::wave::{LOOK_EVERY_MS, Stage};
use crate::protocol::bodies::{PIECE_MS_MAX, reading_bytes};
use crate::protocol::keys::{BodyHash, Kind, parse_key, write_key};
use crate::protocol::messages::Fault;
use crate::protocol::metrics::Metric;
use crate::protocol::names::BODY_PIECE_MS;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::query::Query;
use crate::protocol::visitor::{day_of, visitor};
use crate::sketch::{HashKey, hash};

/// Counters whose keyed writes are counted at once, of one body: each is two calls.
const KEYED_AT_ONCE: usize = 48;

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
pub async fn events(visit: &Visit, caller: &Caller) -> Result<Answer, Problem> {
    Query::parse(visit.query(), &[])?;
    bulk(visit, caller, Records::Events).await
}

/// `POST /ingest`.
///
/// # Errors
/// As [`events`].
pub async fn ingest(visit: &Visit, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(visit.query(), &["format", "key", "unique"])?;
    let ingest = Ingest::from_query(query.get("format"), query.get("key"), query.get("unique"))?;
    bulk(visit, caller, Records::Logs(ingest)).await
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
    visit: &Visit,
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
    visit.visitor().admit(&record.key)
}

/// Adds one record of a body to what it sums to.
fn take(
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
    let salt = known_salt(day).or_else(|| known_salt(today));
    let (Some(salt), Some(address)) = (salt, by.address) else {
        let detail =
            "visitors cannot be told apart now; nothing of this line was counted, try again";
        return Err(Problem::new(Code::Unavailable, detail));
    };
    let element = visitor(salt, address, by.user_agent.as_deref().unwrap_or_default());
    gather.add_as(line, record, Some(&element), now_ms, keys);
    Ok(())
}

async fn bulk(visit: &Visit, caller: &Caller, records: Records) -> Result<Answer, Problem> {
    let elements = hashing(&visit.env).await?;
    let names = match visit.header("idempotency-key") {
        Some(_) => Some(name_key(&visit.env).await?),
        None => prepare(&visit.env, records.day(now_ms())).await,
    };
    let keys = Keys { elements, names };
    let hash_of = |name: &[u8]| keys.name(name);
    let limits = Limits {
        counters_max: BATCH_COUNTERS_MAX,
        times: records.times(),
        clock_skew_ms: CLOCK_SKEW_MS,
    };
    let now_ms = now_ms();
    let body_key = match visit.header("idempotency-key") {
        Some(header) => Some(write_key(&hash_of, Kind::Batch, parse_key(&header)?)),
        None => None,
    };
    let mut body_hash = body_key.map(|_| BodyHash::new(&hash_of, &records.asked()));
    let mut gather = Gather::new(limits, random()).knowing(unique_hash_of);
    let mut memory = BulkMemory::of(visit.address().ok());
    let reading_bytes = reading_bytes(visit.request.announced_length());
    memory.hold(reading_bytes)?;
    let reading = BulkStage::enter(Stage::Reading);
    let needs = records.needs();
    let take = |gather: &mut Gather, line: u64, record: Result<&[u8], Problem>| {
        let taken = match record.and_then(|bytes| records.read(bytes)) {
            Ok(Some(read)) => caller
                .may(Scope::Write, &read.0.key)
                .and_then(|()| match caller.is_public() {
                    true => admit(visit, caller, gather, &read.0, needs, now_ms),
                    false => Ok(()),
                })
                .and_then(|()| take(gather, line, &read, now_ms, &keys)),
            Ok(None) => Ok(()),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = taken {
            gather.reject(line, &problem);
        }
    };
    let mut splitter = records.splitter();
    let piece_ms = number(&visit.env, BODY_PIECE_MS).unwrap_or(PIECE_MS_MAX);
    body::read_bulk(&visit.request, piece_ms, |chunk| {
        if let Some(body_hash) = &mut body_hash {
            body_hash.push(&hash_of, chunk);
        }
        splitter.push(chunk, |line, record| take(&mut gather, line, record))?;
        memory.hold(reading_bytes + gather.memory_bytes())
    })
    .await?;
    splitter.finish(|line, record| take(&mut gather, line, record))?;
    memory.hold(gather.memory_bytes())?;

    drop(reading);

    let body_key = body_key.zip(body_hash).map(|(key, body_hash)| BodyKey {
        key,
        fingerprint: body_hash.finish(&hash_of),
    });
    let (sums, report) = gather.finish();
    let has_company = gather_with_others(sums.len()).await;
    let flying = BulkStage::enter(Stage::Flying);
    let manner = Manner {
        times: records.times(),
        hash: keys.elements.id,
    };
    let acknowledged = records.acknowledged();
    let (env, datacenter) = (visit.env.clone(), visit.datacenter());
    let (done, doing) = oneshot::channel();
    // Other bodies may have joined what this one flies, so it goes on if the client hangs up.
    visit.wait_until(async move {
        let shards = |counter: &CounterId| shards_of(counter, &datacenter);
        let mut report = report;
        let plan = Plan::new(
            sums,
            manner,
            &datacenter,
            shards,
            own_shard,
            body_key,
            &mut report,
        );
        let counted = count_all(&env, &datacenter, plan, report, has_company).await;
        drop(flying);
        let _ = done.send(counted);
    });
    let waiting = visit.waiting();
    let (report, is_replay) = doing.await.map_err(|_| {
        let detail = "the request was ended; its lines may or may not have been counted";
        Problem::new(Code::Unavailable, detail)
    })?;
    drop(waiting);
    let done = if is_replay {
        Metric::Replayed
    } else {
        acknowledged
    };
    measure::reported(&report, done);
    let body = serde_json::to_string(&report)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    let answer = Answer::json(body);
    Ok(if is_replay { answer.replayed() } else { answer })
}

/// Waits for other bodies, so that they share flushes. Whether there were any.
async fn gather_with_others(counters: usize) -> bool {
    let counters = u64::try_from(counters).unwrap_or(u64::MAX);
    let Some(place) = with_waves(|waves| waves.place(counters, now_ms())) else {
        return false;
    };
    let _gathering = BulkStage::enter(Stage::Gathering);
    while !with_waves(|waves| waves.may_go(place, now_ms())) {
        sleep_ms(LOOK_EVERY_MS).await;
    }
    true
}

/// Counts every sum, and moves the lines of those that failed to the rejected ones. True besides if all that
/// was counted had been counted before.
async fn count_all(
    env: &Env,
    datacenter: &Datacenter,
    mut plan: Plan,
    mut report: Report,
    has_company: bool,
) -> (Report, bool) {
    // Elements of plain lines first: they may be sent twice without harm, so where one of their cells fails, its
    // lines fail with nothing counted, and sending them again counts nothing twice.
    for (number, problem) in fleet::count_many(env, plan.elements(), has_company).await {
        plan.fail_elements(number, &problem, &mut report);
    }
    let keyed = plan.keyed();
    let plain = plan.amounts();
    let mut is_replay = plain.is_empty() && !keyed.is_empty();
    for (number, problem) in fleet::count_many(env, plain, has_company).await {
        plan.fail_amounts(number, &problem, &mut report);
    }
    let calls = &plan.calls_for_keys();
    let count = |some: KeyedWrites| async move {
        let (counter, writes) = (&some.counter, &some.writes);
        let landed = count_bounded(env, counter, datacenter, writes, calls, some.is_recall).await;
        (some, landed)
    };
    let mut elements = KeyedElements::default();
    for (some, landed) in all_settled(keyed.into_iter().map(count), KEYED_AT_ONCE).await {
        let mut counted = vec![None; landed.len()];
        for (number, ((_, outcome), counted)) in landed.into_iter().zip(&mut counted).enumerate() {
            is_replay &= matches!(outcome, Ok(KeyedOutcome::Replayed(_)));
            match outcome {
                Ok(KeyedOutcome::Replayed(record) | KeyedOutcome::Counted(record)) => {
                    *counted = Some(record.at_ms.div_euclid(1_000));
                }
                Ok(other) => some.fail(number, &problem_of(other), &mut report),
                Err(Fault::TooMany(_)) => some.fail(number, &too_many_leads(), &mut report),
                Err(fault) => some.fail(number, &fault.into(), &mut report),
            }
        }
        elements.add(some, datacenter, &counted);
    }
    for (number, problem) in fleet::count_many(env, elements.loads(), false).await {
        elements.fail(number, &problem, &mut report);
    }
    (report, is_replay)
}

fn too_many_leads() -> Problem {
    Problem::new(
        Code::TooManyCounters,
        "the keys of the body were used in too many datacenters for one request; send this line in another",
    )
}
