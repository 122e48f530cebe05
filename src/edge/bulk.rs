//! `/events` and `/ingest`: bodies are summed per counter as they stream; only when the whole body
//! has been read well is anything counted, one message per cell. A bad line costs that line only.

use std::collections::BTreeMap;

use futures_channel::oneshot;
use worker::Env;

use super::fleet::Addressed;
use super::isolate::{BulkMemory, hash_key, own_shard, shard_of_element, shards_of};
use super::respond::Answer;
use super::visit::Visit;
use super::{body, fleet};
use crate::counter::flush::Load;
use crate::counter::id::{CounterId, Datacenter};
use crate::platform::clock::{now_ms, random};
use crate::protocol::access::{Caller, Scope};
use crate::protocol::batch::Record;
use crate::protocol::batch::event::parse_event;
use crate::protocol::batch::gather::{CLOCK_SKEW_MS, Gather, Gathered, Limits, Times};
use crate::protocol::batch::ingest::Ingest;
use crate::protocol::batch::report::{LineNumbers, Report};
use crate::protocol::batch::split::Splitter;
use crate::protocol::names::CellAddress;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::query::Query;
use crate::sketch::{Token, hash};

/// The most counters of one body. The first opening of an object takes plain workerd up to 12 ms on a
/// slow disk (a new file, synced): 3,000 of them take 36 s, well below the 50 s that a body has.
pub const BATCH_COUNTERS_MAX: u64 = 3_000;

/// The most flushes of one body: each may be sent twice, and 2 × 4,900 leave 200 of the 10,000
/// subrequests of one invocation for the rest. Only counters of several shards come near it.
pub const BATCH_FLUSHES_MAX: usize = 4_900;

/// What the records of a body are.
enum Records {
    Events,
    Logs(Ingest),
}

impl Records {
    fn read<'a>(&self, record: &'a [u8]) -> Result<Option<Record<'a>>, Problem> {
        match self {
            Self::Events => parse_event(record).map(Some),
            Self::Logs(ingest) => ingest.read(record),
        }
    }

    fn splitter(&self) -> Splitter {
        match self {
            Self::Events => Splitter::detect(),
            Self::Logs(ingest) => ingest.splitter(),
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

async fn bulk(visit: &Visit, caller: &Caller, records: Records) -> Result<Answer, Problem> {
    let key = hash_key(&visit.env).await?;
    let hash_of = |element: &[u8]| hash(&key, element);
    let limits = Limits {
        counters_max: BATCH_COUNTERS_MAX,
        times: records.times(),
        clock_skew_ms: CLOCK_SKEW_MS,
    };
    let now_ms = now_ms();
    let mut gather = Gather::new(limits, random());
    let mut memory = BulkMemory::default();
    let take = |gather: &mut Gather, line: u64, record: Result<&[u8], Problem>| match record
        .and_then(|bytes| records.read(bytes))
    {
        Ok(Some(record)) => match caller.may(Scope::Write, &record.key) {
            Ok(()) => gather.add(line, &record, now_ms, &hash_of),
            Err(problem) => gather.reject(line, &problem),
        },
        Ok(None) => {}
        Err(problem) => gather.reject(line, &problem),
    };
    let mut splitter = records.splitter();
    body::read_bulk(&visit.request, |chunk| {
        splitter.push(chunk, |line, record| take(&mut gather, line, record))?;
        memory.hold(gather.memory_bytes())
    })
    .await?;
    splitter.finish(|line, record| take(&mut gather, line, record))?;

    let (sums, report) = gather.finish();
    let times = records.times();
    let (env, datacenter) = (visit.env.clone(), visit.datacenter());
    let (done, doing) = oneshot::channel();
    // Other bodies may have joined what this one flies, so it goes on if the client hangs up.
    visit.wait_until(async move {
        let report = count_all(&env, &datacenter, sums, report, times).await;
        let _ = done.send(report);
    });
    let report = doing.await.map_err(|_| {
        let detail = "the request was ended; whether its lines were counted is unknown to us";
        Problem::new(Code::Unavailable, detail)
    })?;
    let body = serde_json::to_string(&report)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    Ok(Answer::json(body))
}

/// Counts every sum, and moves the lines of those that failed to the rejected ones.
async fn count_all(
    env: &Env,
    datacenter: &Datacenter,
    sums: Vec<(CounterId, Gathered)>,
    mut report: Report,
    times: Times,
) -> Report {
    let mut lines: Vec<LineNumbers> = Vec::with_capacity(sums.len());
    let mut loads = Vec::with_capacity(sums.len());
    // Which of the sums a load belongs to.
    let mut sum_of = Vec::with_capacity(sums.len());
    for (counter, gathered) in sums {
        let shards = shards_of(&counter, datacenter);
        let own = own_shard(shards);
        let flushes = shard_loads(&gathered, shards, own, times);
        if loads.len() + flushes.len() > BATCH_FLUSHES_MAX {
            let detail = "the body's counters have too many shards for one request; send this line in another";
            report.fail(
                &gathered.lines,
                &Problem::new(Code::TooManyCounters, detail),
            );
            continue;
        }
        for (shard, load) in flushes {
            let to = CellAddress {
                counter: counter.clone(),
                datacenter: datacenter.clone(),
                shard,
            };
            loads.push(Addressed { to, load });
            sum_of.push(lines.len());
        }
        lines.push(gathered.lines);
    }
    for (number, problem) in fleet::count_many(env, loads).await {
        let lines = sum_of.get(number).and_then(|sum| lines.get_mut(*sum));
        if let Some(lines) = lines {
            // A counter's lines fail once, however many of its cells did.
            report.fail(&std::mem::take(lines), &problem);
        }
    }
    report
}

/// What each cell of a counter gets. The elements of a shard go to it, all amounts to one cell.
fn shard_loads(gathered: &Gathered, shards: u8, own: u8, times: Times) -> Vec<(u8, Load)> {
    let buckets = gathered.buckets.iter();
    let buckets = buckets.map(|(&second, &amount)| (second, amount)).collect();
    let mut sums = Load {
        added: gathered.added,
        ..Load::default()
    };
    match times {
        Times::Live => sums.live = buckets,
        Times::Past => sums.past = buckets,
    }
    let mut loads = BTreeMap::from([(own, sums)]);
    for &(second, hashed) in &gathered.tokens {
        let load = loads.entry(shard_of_element(hashed, shards)).or_default();
        load.tokens.push((second, Token::from_hash(hashed)));
    }
    loads.into_iter().collect()
}
