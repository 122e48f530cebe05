//! Reads over many counters that many readers of an isolate share: sums, histories and tops of prefixes.
//!
//! Invariant: readers with the same question share a fetch that is under way in this isolate, or one that began a
//! moment ago. Each reader gets the information whether the fetch began after its own request.

use std::cell::RefCell;
use std::rc::Rc;

use futures_channel::oneshot;

use super::counter::unread;
use crate::kit::request_context::RequestContext;
use crate::write::lead_reports::settle_all;
use tally_api::metrics::Metric;
use tally_core::counter::bounded_map::BoundedMap;
use tally_host::{Host, State};
use tally_shared::metrics;
use tally_shared::{call, call_within, partitions};
use tally_wire::messages::{Aggregate, AskTop, Fault, SumMany, Top, encode};
use tally_wire::names::TABLET_COUNT;
use tally_wire::problem::{Code, Problem};

/// How long a fetch may take: a sum opens every cell of up to 5,000 counters.
const FETCH_MS_MAX: u64 = 45_000;

/// The most shared answers: at most 400 KB each, a history of 10,000 points.
const SHARED_MAX: usize = 64;

/// How often a reader checks a fetch that another request began.
const LOOK_EVERY_MS: u64 = 5;

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

type Fetched = Result<Rc<ManyAnswer>, Fault>;

struct Shared {
    begun_ms: i64,
    shared_ms: i64,
    /// `None` while it is being fetched.
    fetched: Option<Fetched>,
}

impl Shared {
    /// Whether it may be given to a reader that asks now. A fault is given only to those that wait for it.
    fn is_in_use(&self, now_ms: i64) -> bool {
        let limit_ms = match &self.fetched {
            None => i64::try_from(FETCH_MS_MAX).unwrap_or(i64::MAX),
            Some(Ok(_)) => self.shared_ms,
            Some(Err(_)) => return false,
        };
        now_ms - self.begun_ms <= limit_ms
    }
}

/// The shared answers of this isolate.
struct Answers(RefCell<BoundedMap<Vec<u8>, Shared, SHARED_MAX>>);

impl State for Answers {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

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
    let waiting = context.waiting();
    let joined = match shared_ms {
        Some(_) => join(host, &key).await,
        None => None,
    };
    let metric = match joined {
        Some(_) => Metric::ReadCacheHit,
        None => Metric::ReadCacheMiss,
    };
    metrics::count(host, metric);
    let is_own = joined.is_none();
    let fetched = match joined {
        Some(fetched) => fetched,
        None => fetch(context, question, key, shared_ms).await?,
    };
    drop(waiting);
    let gathered = fetched.map_err(unread)?;
    Ok(FetchedAnswer { gathered, is_own })
}

/// Forgets all shared answers: what is requested from now on is fetched anew.
pub fn forget_all(host: &Host) {
    host.state::<Answers>().0.borrow_mut().retain(|_| false);
}

/// The problem of an answer of the wrong kind: two different questions had the same key.
pub fn mixed_up() -> Problem {
    Problem::new(Code::Internal, "two questions have one name")
}

/// The answer that another request is fetching, or has fetched a moment ago.
async fn join(host: &Host, key: &[u8]) -> Option<Fetched> {
    let answers = host.state::<Answers>();
    let look = |begun_ms: Option<i64>| {
        let all = answers.0.borrow();
        let known = all.peek(key)?;
        let is_it = match begun_ms {
            Some(begun_ms) => known.begun_ms == begun_ms,
            None => known.is_in_use(host.now_ms()),
        };
        is_it.then(|| (known.begun_ms, known.fetched.clone()))
    };
    let requested_ms = host.now_ms();
    let (begun_ms, mut fetched) = look(None)?;
    while fetched.is_none() && host.now_ms().abs_diff(requested_ms) <= FETCH_MS_MAX {
        host.sleep_ms(LOOK_EVERY_MS).await;
        (_, fetched) = look(Some(begun_ms))?;
    }
    fetched
}

/// Fetches now, also for others if the answer is shared.
async fn fetch(
    context: &RequestContext,
    question: ManyQuestion,
    key: Vec<u8>,
    shared_ms: Option<i64>,
) -> Result<Fetched, Problem> {
    context
        .visitor()
        .read(partitions::count(&context.host).into())?;
    let begun_ms = context.host.now_ms();
    if let Some(shared_ms) = shared_ms {
        begin(&context.host, &key, begun_ms, shared_ms);
    }
    let host = context.host.clone();
    let (done, doing) = oneshot::channel();
    // Others wait for it too, so it continues if this client hangs up.
    context.wait_until(async move {
        settle_all(&host).await;
        let fetched = question.fetch(&host, begun_ms).await.map(Rc::new);
        if shared_ms.is_some() {
            end(&host, &key, begun_ms, &fetched);
        }
        let _ = done.send(fetched);
    });
    let late = || Err(Fault::Unavailable("the read took too long".to_owned()));
    let fetched = doing.await.unwrap_or_else(|_| late());
    if let Ok(gathered) = &fetched {
        // A tablet is asked once for all its cells.
        let hosts = match context.host.number(TABLET_COUNT).unwrap_or(0) {
            0 => u64::MAX,
            tablets => tablets,
        };
        context.visitor().deduct_calls(gathered.calls().min(hosts));
    }
    Ok(fetched)
}

fn begin(host: &Host, key: &Vec<u8>, begun_ms: i64, shared_ms: i64) {
    let answers = host.state::<Answers>();
    let mut all = answers.0.borrow_mut();
    all.retain(|known| known.is_in_use(begun_ms));
    if all.has_room(key) {
        let new = Shared {
            begun_ms,
            shared_ms,
            fetched: None,
        };
        all.insert(key.clone(), new);
    }
}

fn end(host: &Host, key: &[u8], begun_ms: i64, fetched: &Fetched) {
    let answers = host.state::<Answers>();
    let mut all = answers.0.borrow_mut();
    let known = all.get_mut(key);
    if let Some(known) = known.filter(|known| known.begun_ms == begun_ms) {
        known.fetched = Some(fetched.clone());
    }
}
