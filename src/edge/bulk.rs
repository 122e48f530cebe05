//! `/events` and `/ingest`: bodies are summed per counter as they stream; only when the whole body
//! has been read well is anything counted, one message per cell. A bad line costs that line only.

use super::isolate::{BulkMemory, hash_key, own_shard, shard_of_element, shards_of};
use super::respond::Answer;
use super::visit::Visit;
use super::{body, lanes};
use crate::counter::flush::Load;
use crate::counter::id::{CounterId, Datacenter};
use crate::platform::clock::{now_ms, random};
use crate::platform::settled::all_settled;
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

/// The most counters of one body. Each costs a call per shard that it touches, and its first write
/// one more: with one shard that stays below the 10,000 subrequests of one invocation.
pub const BATCH_COUNTERS_MAX: u64 = 4_000;

/// Cells that one body writes to at once. The first opening of an object is slow on plain workerd
/// (3.4 ms, one thread), so more would only wait there.
const CELLS_AT_ONCE: usize = 48;

/// How long a body may take once it has been read; what is not begun by then is `unavailable`.
const BATCH_MS_MAX: i64 = 50_000;

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
    let report = count_all(visit, sums, report, records.times()).await;
    let body = serde_json::to_string(&report)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    Ok(Answer::json(body))
}

/// Counts every sum, and moves the lines of those that failed to the rejected ones.
async fn count_all(
    visit: &Visit,
    sums: Vec<(CounterId, Gathered)>,
    mut report: Report,
    times: Times,
) -> Report {
    let datacenter = visit.datacenter();
    let begun_ms = now_ms();
    let count = |(counter, gathered): (CounterId, Gathered)| {
        let datacenter = datacenter.clone();
        async move {
            let outcome = if now_ms() - begun_ms > BATCH_MS_MAX {
                let detail = "the body took too long; this line was not counted, send it again";
                Err(Problem::new(Code::Unavailable, detail))
            } else {
                count_one(visit, counter, datacenter, &gathered, times).await
            };
            (gathered.lines, outcome)
        }
    };
    let outcomes: Vec<(LineNumbers, Result<(), Problem>)> =
        all_settled(sums.into_iter().map(count), CELLS_AT_ONCE).await;
    for (lines, outcome) in outcomes {
        if let Err(problem) = outcome {
            report.fail(&lines, &problem);
        }
    }
    report
}

/// Counts one counter's sum. Elements of other shards go first: they may be sent twice without
/// harm, so a failure there leaves nothing half counted.
async fn count_one(
    visit: &Visit,
    counter: CounterId,
    datacenter: Datacenter,
    gathered: &Gathered,
    times: Times,
) -> Result<(), Problem> {
    let shards = shards_of(&counter, &datacenter);
    let own = own_shard(shards);
    let cell = CellAddress {
        counter,
        datacenter,
        shard: own,
    };
    let mut loads: Vec<Load> = (0..shards).map(|_| Load::default()).collect();
    for &(second, hashed) in &gathered.tokens {
        if let Some(load) = loads.get_mut(usize::from(shard_of_element(hashed, shards))) {
            load.tokens.push((second, Token::from_hash(hashed)));
        }
    }
    let mut sums = std::mem::take(
        loads
            .get_mut(usize::from(own))
            .unwrap_or(&mut Load::default()),
    );
    sums.added = gathered.added;
    let buckets = gathered
        .buckets
        .iter()
        .map(|(&second, &amount)| (second, amount))
        .collect();
    match times {
        Times::Live => sums.live = buckets,
        Times::Past => sums.past = buckets,
    }
    for (shard, load) in (0..shards).zip(loads) {
        if !load.tokens.is_empty() {
            lanes::count(visit, &cell.sibling(shard), &load).await?;
        }
    }
    lanes::count(visit, &cell, &sums).await?;
    Ok(())
}
