//! Reads over many counters that many readers of an isolate share: sums, histories and tops of prefixes.
//!
//! Invariant: readers with the same question share a fetch that is under way in this isolate, or one that began a
//! moment ago. Each reader gets the information whether the fetch began after its own request.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::counter::unread;
use crate::kit::request_context::RequestContext;
use crate::kit::shared_reads::{SharedReads, SharedValue};
use crate::write::lead_reports::settle_all;
use tally_api::metrics::Metric;
use tally_core::isolate::shared_read::{AfterFault, ReadRule, ReadValue};
use tally_host::Host;
use tally_shared::metrics;
use tally_shared::{call, call_within, partitions};
use tally_wire::messages::{Aggregate, AskTop, Fault, SumMany, Top, encode};
use tally_wire::names::TABLET_COUNT;
use tally_wire::problem::{Code, Problem};

/// How long a fetch may take: a sum opens every cell of up to 5,000 counters.
const FETCH_MS_MAX: u64 = 45_000;

/// The most shared answers: at most 400 KB each, a history of 10,000 points.
const SHARED_MAX: usize = 64;

/// How an answer is fetched. Its age is up to the reader; a fault is of those alone that wait for it.
const FETCH: ReadRule = ReadRule {
    fresh_ms: 0,
    usable_ms: 0,
    stale_ms: 0,
    read_ms: FETCH_MS_MAX,
    after_fault: AfterFault::Read,
};

/// A question about many counters.
#[derive(Clone, Debug)]
pub enum ManyQuestion {
    /// Their sum, or their history.
    Sum(SumMany),
    /// The first of them, or the rank of one of them.
    Top(AskTop),
}

/// Its answer.
#[derive(Clone, Debug)]
pub enum ManyAnswer {
    /// A sum or a history.
    Sum(Aggregate),
    /// The first of an order, and when it was asked for, unix milliseconds.
    Top(Top, i64),
}

impl ManyQuestion {
    /// Identifies the question, at any time.
    fn key(&self) -> Result<Vec<u8>, Fault> {
        match self {
            Self::Sum(request) => encode(&SumMany {
                begun_ms: 0,
                ..request.clone()
            }),
            Self::Top(request) => encode(request),
        }
    }

    async fn fetch(self, host: &Host, begun_ms: i64) -> Result<ManyAnswer, Fault> {
        match self {
            Self::Sum(request) => {
                let request = SumMany {
                    begun_ms,
                    ..request
                };
                let sum = call_within(host, &request, FETCH_MS_MAX).await?;
                Ok(ManyAnswer::Sum(sum))
            }
            Self::Top(request) => {
                let top = match request.range {
                    Some(_) => call_within(host, &request, FETCH_MS_MAX).await?,
                    None => call(host, &request).await?,
                };
                Ok(ManyAnswer::Top(top, begun_ms))
            }
        }
    }
}

impl ManyAnswer {
    /// An upper bound of its calls, without those to partitions.
    fn calls(&self) -> u64 {
        match self {
            Self::Sum(sum) => sum.cells(),
            Self::Top(top, _) => top.cells,
        }
    }
}

/// The shared answers of this isolate.
type Answers = SharedReads<Vec<u8>, Rc<ManyAnswer>, SHARED_MAX>;

/// An answer, and whether this reader began its fetch.
pub struct FetchedAnswer {
    /// What was gathered.
    pub gathered: Rc<ManyAnswer>,
    /// Whether no other reader had begun it.
    pub is_own: bool,
}

/// Fetches now, or takes what another reader of this isolate has begun to fetch at most `shared_ms` ago; `None` means a
/// new fetch.
///
/// # Errors
/// `quota-exceeded`, `unavailable`, and the refusals of the calls.
pub async fn gather(
    context: &RequestContext,
    question: ManyQuestion,
    shared_ms: Option<i64>,
) -> Result<FetchedAnswer, Problem> {
    let host = &context.host;
    let key = question.key()?;
    let calls = partitions::count(host).into();
    let read = |host: Host| {
        let question = question.clone();
        let fetched: LocalBoxFuture<'static, _> = Box::pin(async move {
            let begun_ms = host.now_ms();
            settle_all(&host).await;
            let fetched = question.fetch(&host, begun_ms).await?;
            Ok(ReadValue::Kept(Rc::new(fetched)))
        });
        fetched
    };
    let waiting = context.waiting();
    let found = match shared_ms {
        Some(shared_ms) => {
            let rule = ReadRule {
                fresh_ms: shared_ms,
                usable_ms: shared_ms,
                ..FETCH
            };
            Answers::value(context, &key, &rule, calls, read).await
        }
        None => {
            let value = Answers::read_alone(context, &key, calls, read).await;
            value.map(|value| SharedValue {
                value,
                is_own: true,
            })
        }
    };
    drop(waiting);
    let is_own = !matches!(&found, Ok(SharedValue { is_own: false, .. }));
    let metric = match is_own {
        false => Metric::ReadCacheHit,
        true => Metric::ReadCacheMiss,
    };
    metrics::count(host, metric);
    let gathered = found.map_err(|why| why.into_problem(unread))?.value;
    if is_own {
        // A tablet is asked once for all its cells.
        let hosts = match host.number(TABLET_COUNT).unwrap_or(0) {
            0 => u64::MAX,
            tablets => tablets,
        };
        context.visitor().deduct_calls(gathered.calls().min(hosts));
    }
    Ok(FetchedAnswer { gathered, is_own })
}

/// Forgets all shared answers: what is requested from now on is fetched anew.
pub fn forget_all(host: &Host) {
    Answers::with(host, |answers| answers.forget_where(|_| true));
}

/// The problem of an answer of the wrong kind: two different questions had the same key.
pub fn mixed_up() -> Problem {
    Problem::new(Code::Internal, "two questions have one name")
}
