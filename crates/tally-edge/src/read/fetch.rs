//! Sums of one counter: fetched now, or shared with others who ask for the same.
//!
//! Invariant: every sum's `as_of` is the moment when its fetch began. Shared fetches begin as
//! [`mod@tally_core::isolate::views`] says. The budget of the request that began a fetch pays for its calls.

use std::cell::OnceCell;
use std::rc::Rc;

use futures_channel::oneshot;

use super::cache::{FetchedSum, SumEnd, SumResult, with_views};
use super::last_seen;
use crate::kit::request_context::RequestContext;
use tally_api::metrics::Metric;
use tally_api::public::Freshness;
use tally_core::isolate::views::{NotEnded, RENEW_MS, ViewLookup};
use tally_host::Host;
use tally_shared::call;
use tally_shared::call::CALL_MS_MAX;
use tally_shared::metrics;
use tally_wire::messages::{Fault, GlobalSum, Read, ReadDrained, ReadEach};
use tally_wire::problem::{Code, Problem};

/// How often a reader checks a fetch that another request began.
const LOOK_EVERY_MS: u64 = 2;

/// Sums now: acknowledged events of queues are counted first.
///
/// # Errors
/// `quota-exceeded`, `unavailable`.
pub async fn fetch_now(context: &RequestContext, question: &Read) -> Result<FetchedSum, Problem> {
    context.visitor().read(1)?;
    let as_of_ms = context.host.now_ms();
    let drained = ReadDrained {
        read: question.clone(),
    };
    let sum = call(&context.host, &drained).await.map_err(unread)?;
    let freshness = Freshness {
        as_of_ms,
        now_ms: context.host.now_ms(),
        fresh: true,
    };
    let seen = FetchedSum {
        sum: sum.map(Rc::new),
        freshness,
    };
    deduct_calls(context, &seen);
    Ok(seen)
}

/// The problem of a failed read: unlike a write it may simply be repeated.
pub fn unread(fault: Fault) -> Problem {
    match fault {
        Fault::Unavailable(what) => Problem::new(Code::Unavailable, format!("{what}; try again")),
        other => other.into(),
    }
}

/// Reads through the cache: a view whose fetch began after that moment.
///
/// # Errors
/// As [`fetch_now`].
pub async fn fetch_shared(
    context: &RequestContext,
    question: &Read,
    after_ms: i64,
) -> Result<FetchedSum, Problem> {
    let fetched = fetch_or_fault(context, question, after_ms).await?;
    fetched.map_err(unread)
}

/// As [`fetch_shared`]; a failed fetch returns its fault.
async fn fetch_or_fault(
    context: &RequestContext,
    question: &Read,
    after_ms: i64,
) -> Result<Result<FetchedSum, Fault>, Problem> {
    let requested_ms = context.host.now_ms();
    let look = with_views(&context.host, |reads| {
        reads.look(question, after_ms, requested_ms)
    });
    metrics::count(
        &context.host,
        match look {
            ViewLookup::Fetch => Metric::ReadCacheMiss,
            _ => Metric::ReadCacheHit,
        },
    );
    // The read for the answer to a write was paid for by the write.
    let payer = (!question.wanted.is_passing).then(|| context.visitor());
    match look {
        ViewLookup::Take(begun_ms, sum, is_due) => {
            // A caller that cannot pay for a new one gets the cached one.
            if is_due && payer.is_none_or(|payer| payer.read(1).is_ok()) {
                drop(fetch(context, question, requested_ms));
            }
            Ok(seen(context, (begun_ms, Ok(Some(sum))), false))
        }
        ViewLookup::Wait(begun_ms) => wait(context, question, begun_ms, false, None).await,
        ViewLookup::Fetch => {
            if let Some(payer) = payer {
                payer.read(1)?;
            }
            let (ended, own) = fetch(context, question, requested_ms);
            // By then another fetch may have begun that ends earlier.
            let alone_ms = RENEW_MS.unsigned_abs();
            context.host.within_ms(alone_ms, ended).await;
            let seen = wait(context, question, requested_ms, true, Some(own)).await?;
            if let (Some(_), Ok(seen)) = (payer, &seen) {
                deduct_calls(context, seen);
            }
            Ok(seen)
        }
    }
}

/// Reads through the cache. Waits for a fetch until `limit_ms` after it began; `None` if no fetch has ended by then.
pub async fn fetch_within(
    context: &RequestContext,
    question: &Read,
    limit_ms: u64,
) -> Option<FetchedSum> {
    let now_ms = context.host.now_ms();
    let look = with_views(&context.host, |reads| {
        reads.look(question, i64::MIN, now_ms)
    });
    let waited_ms = match look {
        ViewLookup::Wait(begun_ms) => now_ms.abs_diff(begun_ms),
        ViewLookup::Take(..) | ViewLookup::Fetch => 0,
    };
    let left_ms = limit_ms.saturating_sub(waited_ms);
    let seen = fetch_shared(context, question, i64::MIN);
    context.host.within_ms(left_ms, seen).await?.ok()
}

fn seen(
    context: &RequestContext,
    (begun_ms, fetched): SumEnd,
    fresh: bool,
) -> Result<FetchedSum, Fault> {
    let freshness = Freshness {
        as_of_ms: begun_ms,
        now_ms: context.host.now_ms(),
        fresh,
    };
    Ok(FetchedSum {
        sum: fetched?,
        freshness,
    })
}

/// The end of a fetch that the own request began.
type OwnFetch = Rc<OnceCell<SumEnd>>;

/// Begins a fetch, which others may share. Returns a receiver that fires when it has ended, and its end.
fn fetch(
    context: &RequestContext,
    question: &Read,
    begun_ms: i64,
) -> (oneshot::Receiver<()>, OwnFetch) {
    let (done, ended) = oneshot::channel();
    let own = OwnFetch::default();
    let own_fetch = own.clone();
    with_views(&context.host, |reads| reads.begin(question, begun_ms));
    let (host, question) = (context.host.clone(), question.clone());
    context.wait_until(async move {
        let fetched = call(&host, &question).await.map(|sum| sum.map(Rc::new));
        let _ = own_fetch.set((begun_ms, fetched.clone()));
        end(&host, &question, begun_ms, fetched);
        let _ = done.send(());
    });
    (ended, own)
}

fn end(host: &Host, question: &Read, begun_ms: i64, fetched: SumResult) {
    let now_ms = host.now_ms();
    let sum = fetched.as_ref().ok().cloned().flatten();
    let is_taken = with_views(host, |reads| reads.end(question, begun_ms, now_ms, fetched));
    if let Some(sum) = sum.filter(|_| is_taken) {
        last_seen::remember(host, question, &sum, begun_ms);
    }
}

/// Begins one fetch for the questions that are not being fetched. Returns for each question whether it is among them.
fn fetch_together(
    context: &RequestContext,
    questions: &[Read],
    begun_ms: i64,
) -> Result<Vec<bool>, Problem> {
    let host = &context.host;
    let is_new = |question: &Read| {
        last_seen::absence(host, question).is_none()
            && matches!(
                with_views(host, |reads| reads.look(question, i64::MIN, begun_ms)),
                ViewLookup::Fetch
            )
    };
    let are_new: Vec<bool> = questions.iter().map(is_new).collect();
    let new = questions
        .iter()
        .zip(&are_new)
        .filter(|(_, is_new)| **is_new);
    let reads: Vec<Read> = new.map(|(question, _)| question.clone()).collect();
    if reads.is_empty() {
        return Ok(are_new);
    }
    let count = u64::try_from(reads.len()).unwrap_or(u64::MAX);
    context.visitor().read(count)?;
    metrics::add(host, Metric::ReadCacheMiss, count);
    for question in &reads {
        with_views(host, |cache| cache.begin(question, begun_ms));
    }
    let each = ReadEach {
        reads,
        is_strong: false,
    };
    let host = host.clone();
    context.wait_until(async move {
        match call(&host, &each).await {
            Ok(sums) => {
                for (question, sum) in each.reads.iter().zip(sums) {
                    end(&host, question, begun_ms, sum.map(|sum| sum.map(Rc::new)));
                }
            }
            Err(fault) => {
                for question in &each.reads {
                    end(&host, question, begun_ms, Err(fault.clone()));
                }
            }
        }
    });
    Ok(are_new)
}

/// Waits for a fetch that began at a moment, or for a later one: another begins if that one takes long, and the request
/// can pay for it. `own` is the fetch that this request began.
///
/// # Errors
/// `quota-exceeded`.
async fn wait(
    context: &RequestContext,
    question: &Read,
    begun_ms: i64,
    fresh: bool,
    mut own: Option<OwnFetch>,
) -> Result<Result<FetchedSum, Fault>, Problem> {
    let pay = || match question.wanted.is_passing {
        true => Ok(()),
        false => context.visitor().read(1),
    };
    let requested_ms = context.host.now_ms();
    loop {
        let now_ms = context.host.now_ms();
        let looked = with_views(&context.host, |reads| {
            reads.wait(question, begun_ms, now_ms)
        });
        match looked {
            Ok(ended) => return Ok(seen(context, ended, fresh)),
            Err(NotEnded::Due) if pay().is_ok() => drop(fetch(context, question, now_ms)),
            Err(NotEnded::Due | NotEnded::Fetching) => {}
            // The cache may never get this fetch. So the request begins one fetch of its own, whose result it gets in
            // any case.
            Err(NotEnded::Unknown) => match &own {
                Some(own) => {
                    if let Some(ended) = own.get() {
                        return Ok(seen(context, ended.clone(), fresh));
                    }
                }
                None => {
                    pay()?;
                    own = Some(fetch(context, question, now_ms).1);
                }
            },
        }
        if now_ms.abs_diff(requested_ms) > CALL_MS_MAX {
            let late = "the read took too long".to_owned();
            return Ok(Err(Fault::Unavailable(late)));
        }
        context.host.sleep_ms(LOOK_EVERY_MS).await;
    }
}

/// Reads a sum now, or through the cache. If the root does not answer, a default read is answered from what is known
/// without it; if stored data cannot be read, only from what this isolate has seen.
///
/// # Errors
/// `unavailable`.
pub async fn see(
    context: &RequestContext,
    question: &Read,
    strong: bool,
) -> Result<FetchedSum, Problem> {
    if strong {
        return fetch_now(context, question).await;
    }
    if let Some(absence) = last_seen::absence(&context.host, question) {
        return Ok(absence);
    }
    let seen = fetch_or_fault(context, question, i64::MIN).await?;
    remembered(context, question, seen).await
}

/// The fetched sum; if its root does not answer, what is known without it. If rows cannot be read, the lead's count
/// is not returned as the counter's: the root is there, and holds what the lead does not know.
async fn remembered(
    context: &RequestContext,
    question: &Read,
    seen: Result<FetchedSum, Fault>,
) -> Result<FetchedSum, Problem> {
    let fault = match seen {
        Ok(seen) => {
            if seen.sum.is_none() {
                last_seen::cache_absence(&context.host, question, seen.freshness.as_of_ms);
            }
            return Ok(seen);
        }
        Err(fault) => fault,
    };
    let is_damaged = matches!(fault, Fault::Unreadable(_));
    let problem = unread(fault);
    if problem.code() != Code::Unavailable {
        return Err(problem);
    }
    let known = match last_seen::seen(&context.host, question) {
        None if !is_damaged => last_seen::of_lead(context, question).await,
        known => known,
    };
    known.ok_or(problem)
}

/// Reads several sums as [`see`], with one message for all that must be fetched.
///
/// # Errors
/// The first error of any of them.
pub async fn see_each(
    context: &RequestContext,
    questions: &[Read],
    strong: bool,
) -> Result<Vec<FetchedSum>, Problem> {
    let requested_ms = context.host.now_ms();
    if strong {
        return fetch_each_now(context, questions, requested_ms).await;
    }
    let are_new = fetch_together(context, questions, requested_ms)?;
    let mut all = Vec::new();
    // The waits are one after the other, because the fetches are already in progress.
    for (question, is_new) in questions.iter().zip(are_new) {
        if !is_new {
            all.push(see(context, question, false).await?);
            continue;
        }
        let seen = wait(context, question, requested_ms, true, None).await?;
        let seen = remembered(context, question, seen).await?;
        deduct_calls(context, &seen);
        all.push(seen);
    }
    Ok(all)
}

async fn fetch_each_now(
    context: &RequestContext,
    questions: &[Read],
    as_of_ms: i64,
) -> Result<Vec<FetchedSum>, Problem> {
    context
        .visitor()
        .read(u64::try_from(questions.len()).unwrap_or(u64::MAX))?;
    let each = ReadEach {
        reads: questions.to_vec(),
        is_strong: true,
    };
    let sums = call(&context.host, &each).await.map_err(unread)?;
    let freshness = Freshness {
        as_of_ms,
        now_ms: context.host.now_ms(),
        fresh: true,
    };
    let seen = |sum: Result<Option<GlobalSum>, Fault>| {
        let sum = sum.map_err(unread)?.map(Rc::new);
        let seen = FetchedSum { sum, freshness };
        deduct_calls(context, &seen);
        Ok(seen)
    };
    sums.into_iter().map(seen).collect()
}

fn deduct_calls(context: &RequestContext, seen: &FetchedSum) {
    let cells = seen.sum.as_deref().map_or(0, GlobalSum::cells);
    context.visitor().deduct_calls(cells);
}
