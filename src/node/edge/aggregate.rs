//! Sums of all counters whose names begin alike.
//!
//! Invariant: default reads of one prefix share a fetch that is under way in this isolate, or a sum whose fetch began at most
//! [`SHARED_MS_MAX`] ago: a sum opens every cell of up to 5,000 counters.

use std::cell::RefCell;

use futures_channel::oneshot;

use super::read::{cells_of, unread};
use super::read_cache::VIEW_MS_MAX;
use super::request_context::RequestContext;
use super::respond::Answer;
use crate::core::counter::bounded_map::BoundedMap;
use crate::host::{Host, State};
use crate::node::shared::call_within;
use crate::node::shared::metrics;
use crate::protocol::messages::{Fault, ReadMany};
use crate::protocol::metrics::Metric;
use crate::protocol::names::DIRECTORY_PARTITIONS;
use crate::protocol::problem::Problem;
use crate::protocol::public::Aggregate;
use crate::protocol::query::Query;

/// How long a sum may take: it opens every cell of up to 5,000 counters.
const FETCH_MS_MAX: u64 = 45_000;

/// How old a sum may be that others are given: as any default read.
const SHARED_MS_MAX: i64 = VIEW_MS_MAX;

/// Prefixes whose sums are shared: about 200 bytes each, and the prefix.
const PREFIXES_MAX: usize = 256;

/// How often a reader looks for a fetch that another request began: it takes 20 ms or more.
const LOOK_EVERY_MS: u64 = 5;

/// What a fetch gave, and how many cells it asked.
type Fetched = Result<(Aggregate, u64), Fault>;

struct Shared {
    begun_ms: i64,
    /// `None` while it is being fetched.
    fetched: Option<Fetched>,
}

impl Shared {
    /// Whether it may be given to a reader that asks now. A fault is told to those who wait for it alone.
    fn is_in_use(&self, now_ms: i64) -> bool {
        let most_ms = match &self.fetched {
            None => i64::try_from(FETCH_MS_MAX).unwrap_or(i64::MAX),
            Some(Ok(_)) => SHARED_MS_MAX,
            Some(Err(_)) => return false,
        };
        now_ms - self.begun_ms <= most_ms
    }
}

/// The sums that this isolate shares, by prefix.
struct Sums(RefCell<BoundedMap<String, Shared, PREFIXES_MAX>>);

impl State for Sums {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// `GET /counters/{prefix}*/aggregate`.
///
/// # Errors
/// `too-many-counters`, `invalid-query`, `quota-exceeded`, `unavailable`.
pub async fn aggregate(context: &RequestContext, prefix: String) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["numbers", "consistency"])?;
    let strings = query.numbers_as_strings()?;
    let is_shared = !query.is_strong()?;
    let waiting = context.waiting();
    let joined = match is_shared {
        true => join(&context.host, &prefix).await,
        false => None,
    };
    metrics::count(
        &context.host,
        match joined {
            Some(_) => Metric::ReadCacheHit,
            None => Metric::ReadCacheMiss,
        },
    );
    let is_own = joined.is_none();
    let fetched = match joined {
        Some(fetched) => fetched,
        None => fetch(context, &prefix, is_shared).await?,
    };
    drop(waiting);
    let (sum, _) = fetched.map_err(unread)?;
    Ok(Answer::json(sum.to_json(
        &prefix,
        is_own,
        context.host.now_ms(),
        strings,
    )))
}

/// What another request fetches now, or has fetched a moment ago.
async fn join(host: &Host, prefix: &str) -> Option<Fetched> {
    let sums = host.state::<Sums>();
    let look = |begun_ms: Option<i64>| {
        let all = sums.0.borrow();
        let known = all.get(prefix)?;
        let is_it = match begun_ms {
            Some(begun_ms) => known.begun_ms == begun_ms,
            None => known.is_in_use(host.now_ms()),
        };
        is_it.then(|| (known.begun_ms, known.fetched.clone()))
    };
    let asked_ms = host.now_ms();
    let (begun_ms, mut fetched) = look(None)?;
    while fetched.is_none() && host.now_ms().abs_diff(asked_ms) <= FETCH_MS_MAX {
        host.sleep_ms(LOOK_EVERY_MS).await;
        (_, fetched) = look(Some(begun_ms))?;
    }
    fetched
}

/// Sums now, for others too where it is shared.
async fn fetch(
    context: &RequestContext,
    prefix: &str,
    is_shared: bool,
) -> Result<Fetched, Problem> {
    context.visitor().read(DIRECTORY_PARTITIONS.into())?;
    let begun_ms = context.host.now_ms();
    if is_shared {
        begin(&context.host, prefix, begun_ms);
    }
    let read = ReadMany {
        prefix: prefix.to_owned(),
    };
    let host = context.host.clone();
    let (done, doing) = oneshot::channel();
    // Others wait for it too, so it goes on if this client hangs up.
    context.wait_until(async move {
        let sums = call_within(&host, &read, FETCH_MS_MAX).await;
        let fetched = sums.map(|sums| {
            let cells = sums.iter().map(|(_, sum)| cells_of(sum)).sum();
            (Aggregate::new(&sums, begun_ms), cells)
        });
        if is_shared {
            end(&host, &read.prefix, begun_ms, &fetched);
        }
        let _ = done.send(fetched);
    });
    let late = || Err(Fault::Unavailable("the read took too long".to_owned()));
    let fetched = doing.await.unwrap_or_else(|_| late());
    if let Ok((_, cells)) = &fetched {
        context.visitor().note_calls(*cells);
    }
    Ok(fetched)
}

fn begin(host: &Host, prefix: &str, begun_ms: i64) {
    let sums = host.state::<Sums>();
    let mut all = sums.0.borrow_mut();
    let prefix = prefix.to_owned();
    if all.make_room(&prefix, |known| known.is_in_use(begun_ms)) {
        let new = Shared {
            begun_ms,
            fetched: None,
        };
        all.insert(prefix, new);
    }
}

fn end(host: &Host, prefix: &str, begun_ms: i64, fetched: &Fetched) {
    let sums = host.state::<Sums>();
    let mut all = sums.0.borrow_mut();
    let known = all.get_mut(prefix);
    if let Some(known) = known.filter(|known| known.begun_ms == begun_ms) {
        known.fetched = Some(fetched.clone());
    }
}
