//! Sums of one counter: fetched now, or shared with others who ask for the same.
//!
//! Invariant: at most one fetch per (counter, question) that others may share is under way in an isolate, and every sum's `as_of` is
//! the moment its fetch began. Whoever has it fetched pays for the calls that it takes.

use std::rc::Rc;

use futures_channel::oneshot;

use super::last_seen;
use super::read_cache::{Fetched, Question, is_in_use, with_reads};
use super::request_context::RequestContext;
use crate::node::shared::call;
use crate::node::shared::call::CALL_MS_MAX;
use crate::node::shared::metrics;
use crate::protocol::messages::{Fault, GlobalSum, ReadDrained};
use crate::protocol::metrics::Metric;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::public::Freshness;

/// How often a reader looks for a fetch that another request began.
const LOOK_EVERY_MS: u64 = 2;

/// A sum, or that there is no such counter, with its freshness.
pub struct Seen {
    /// The sum.
    pub sum: Option<Rc<GlobalSum>>,
    /// How true it is.
    pub freshness: Freshness,
}

/// Sums now: what queues have acknowledged is counted first.
///
/// # Errors
/// `quota-exceeded`, `unavailable`.
pub async fn fetch_now(context: &RequestContext, question: &Question) -> Result<Seen, Problem> {
    context.visitor().read(1)?;
    let as_of_ms = context.host.now_ms();
    let drained = ReadDrained {
        read: question.clone(),
    };
    let sum = call(&context.host, &drained).await.map_err(unread)?;
    context
        .visitor()
        .note_calls(sum.as_ref().map_or(0, GlobalSum::cells));
    let freshness = Freshness {
        as_of_ms,
        now_ms: context.host.now_ms(),
        fresh: true,
    };
    Ok(Seen {
        sum: sum.map(Rc::new),
        freshness,
    })
}

/// What a reader is told of a fault: unlike a write it may simply be tried again.
pub fn unread(fault: Fault) -> Problem {
    match fault {
        Fault::Unavailable(what) => Problem::new(Code::Unavailable, format!("{what}; try again")),
        other => other.into(),
    }
}

/// What the fetch of another reader gives that began at that moment; `None` where it was forgotten, or takes longer than a call may.
async fn fetched_by_another(
    context: &RequestContext,
    question: &Question,
    begun_ms: i64,
    asked_ms: i64,
) -> Option<Result<Seen, Problem>> {
    while context.host.now_ms() - asked_ms <= i64::try_from(CALL_MS_MAX).unwrap_or(i64::MAX) {
        let fetched = with_reads(&context.host, |reads| {
            let view = reads
                .view(question)
                .filter(|view| view.begun_ms == begun_ms);
            view.map(|view| view.fetched.clone())
        })?;
        if let Some(fetched) = fetched {
            let freshness = Freshness {
                as_of_ms: begun_ms,
                now_ms: context.host.now_ms(),
                fresh: false,
            };
            let seen = |sum| Seen { sum, freshness };
            return Some(fetched.map(seen).map_err(unread));
        }
        context.host.sleep_ms(LOOK_EVERY_MS).await;
    }
    None
}

/// Reads through the cache: a view whose fetch began after that moment.
///
/// # Errors
/// As [`fetch_now`].
pub async fn fetch_shared(
    context: &RequestContext,
    question: &Question,
    after_ms: i64,
) -> Result<Seen, Problem> {
    let asked_ms = context.host.now_ms();
    // A view that somebody fetches now, or that is young enough, serves this reader too.
    let shared = with_reads(&context.host, |reads| {
        reads
            .view(question)
            .filter(|view| is_in_use(view, asked_ms) && view.begun_ms > after_ms)
            .map(|view| view.begun_ms)
    });
    metrics::count(
        &context.host,
        match shared {
            Some(_) => Metric::ReadCacheHit,
            None => Metric::ReadCacheMiss,
        },
    );
    if let Some(begun_ms) = shared
        && let Some(seen) = fetched_by_another(context, question, begun_ms, asked_ms).await
    {
        return seen;
    }
    // What a write is answered with was paid for by the write.
    let payer = (!question.wanted.is_passing).then(|| context.visitor());
    if let Some(payer) = payer {
        payer.read(1)?;
    }
    let begun_ms = context.host.now_ms();
    with_reads(&context.host, |reads| reads.begin(question, begun_ms));
    let (done, doing) = oneshot::channel();
    let (host, asked) = (context.host.clone(), question.clone());
    context.wait_until(async move {
        let fetched: Fetched = call(&host, &asked).await.map(|sum| sum.map(Rc::new));
        with_reads(&host, |reads| reads.end(&asked, begun_ms, fetched.clone()));
        let _ = done.send(fetched);
    });
    let late = || Fault::Unavailable("the read took too long".to_owned());
    let fetched = context
        .host
        .within_ms(CALL_MS_MAX, doing)
        .await
        .ok_or_else(late)
        .map_err(unread)?;
    let fetched = fetched.map_err(|_| unread(late()))?;
    let freshness = Freshness {
        as_of_ms: begun_ms,
        now_ms: context.host.now_ms(),
        fresh: true,
    };
    let sum = fetched.map_err(unread)?;
    if let Some(payer) = payer {
        payer.note_calls(sum.as_deref().map_or(0, GlobalSum::cells));
    }
    Ok(Seen { sum, freshness })
}

/// Reads a sum now, or through the cache. A default read is answered by what is known without its root, where that does not answer.
///
/// # Errors
/// `unavailable`.
pub async fn see(
    context: &RequestContext,
    question: &Question,
    strong: bool,
) -> Result<Seen, Problem> {
    if strong {
        return fetch_now(context, question).await;
    }
    if let Some(absence) = last_seen::absence(&context.host, question) {
        return Ok(absence);
    }
    match fetch_shared(context, question, i64::MIN).await {
        Ok(seen) => {
            last_seen::remember(&context.host, question, &seen);
            Ok(seen)
        }
        Err(problem) if problem.code() == Code::Unavailable => {
            let known = last_seen::without_root(context, question).await;
            known.ok_or(problem)
        }
        Err(problem) => Err(problem),
    }
}
