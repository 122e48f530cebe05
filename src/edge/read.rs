//! Reads: strong ones sum every cell now, default ones share a view that is at most 500 ms old.
//!
//! Invariant: at most one fetch per (counter, question) is under way in an isolate, and every
//! answer's `as_of` is the moment its fetch began: what was acknowledged before is included.

use std::collections::HashMap;
use std::rc::Rc;

use futures_channel::oneshot;

use super::isolate::with_reads;
use super::respond::Answer;
use super::views::{Fetched, Question, is_in_use};
use super::visit::Visit;
use crate::counter::id::CounterId;
use crate::counter::total::Value;
use crate::platform::call::{self, CALL_MS_MAX};
use crate::platform::clock::{now_ms, sleep_ms, within_ms};
use crate::protocol::access::{Caller, Scope};
use crate::protocol::messages::{Fault, GlobalSum, Read, Wanted};
use crate::protocol::problem::{Code, Problem};
use crate::protocol::public::{Freshness, Told, union_json};
use crate::protocol::query::{Query, UNION_MAX, WINDOW_UNIQUES_SECONDS_MAX, Window};

/// How often a reader looks for a fetch that another request began.
const LOOK_EVERY_MS: u64 = 2;

/// A sum, or that there is no such counter, with its freshness.
struct Seen {
    sum: Option<Rc<GlobalSum>>,
    freshness: Freshness,
}

async fn fetch_now(visit: &Visit, question: &Question) -> Result<Seen, Problem> {
    let as_of_ms = now_ms();
    let sum = call::aggregator(&visit.env, question)
        .await
        .map_err(unread)?;
    let freshness = Freshness {
        as_of_ms,
        now_ms: now_ms(),
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

/// Reads through the cache.
async fn fetch_shared(visit: &Visit, question: &Question) -> Result<Seen, Problem> {
    let asked_ms = now_ms();
    // A view that somebody fetches now, or that is young enough, serves this reader too.
    let shared = with_reads(|reads| {
        reads
            .view(question)
            .filter(|view| is_in_use(view, asked_ms))
            .map(|view| view.begun_ms)
    });
    if let Some(begun_ms) = shared {
        while now_ms() - asked_ms <= i64::try_from(CALL_MS_MAX).unwrap_or(i64::MAX) {
            let fetched = with_reads(|reads| {
                reads
                    .view(question)
                    .filter(|view| view.begun_ms == begun_ms)
                    .map(|view| view.fetched.clone())
            });
            match fetched {
                Some(Some(fetched)) => {
                    let freshness = Freshness {
                        as_of_ms: begun_ms,
                        now_ms: now_ms(),
                        fresh: false,
                    };
                    return Ok(Seen {
                        sum: fetched.map_err(unread)?,
                        freshness,
                    });
                }
                Some(None) => sleep_ms(LOOK_EVERY_MS).await,
                // It was forgotten meanwhile: fetch anew.
                None => break,
            }
        }
    }
    let begun_ms = now_ms();
    with_reads(|reads| reads.begin(question, begun_ms));
    let (done, doing) = oneshot::channel();
    let (env, asked) = (visit.env.clone(), question.clone());
    visit.wait_until(async move {
        let fetched: Fetched = call::aggregator(&env, &asked)
            .await
            .map(|sum| sum.map(Rc::new));
        with_reads(|reads| reads.end(&asked, begun_ms, fetched.clone()));
        let _ = done.send(fetched);
    });
    let late = || Fault::Unavailable("the read took too long".to_owned());
    let fetched = within_ms(CALL_MS_MAX, doing)
        .await
        .ok_or_else(late)
        .map_err(unread)?;
    let fetched = fetched.map_err(|_| unread(late()))?;
    let freshness = Freshness {
        as_of_ms: begun_ms,
        now_ms: now_ms(),
        fresh: true,
    };
    Ok(Seen {
        sum: fetched.map_err(unread)?,
        freshness,
    })
}

async fn see(visit: &Visit, question: &Question, strong: bool) -> Result<Seen, Problem> {
    if strong {
        fetch_now(visit, question).await
    } else {
        fetch_shared(visit, question).await
    }
}

fn not_found(id: &CounterId) -> Problem {
    Problem::new(
        Code::CounterNotFound,
        format!(
            "nothing has been counted as {:?}; a write creates it",
            id.as_str()
        ),
    )
}

/// How long a write that is durable already waits for the value to answer with.
const VALUE_MS_MAX: u64 = 1_000;

/// A counter's value as the isolate sees it, at most half a second old, or `None` where the view is
/// of another generation or takes too long.
pub async fn value_now(visit: &Visit, id: &CounterId, generation: u64) -> Option<Value> {
    let question = Read {
        counter: id.clone(),
        datacenter: None,
        wanted: Wanted::default(),
    };
    let seen = within_ms(VALUE_MS_MAX, fetch_shared(visit, &question))
        .await?
        .ok()?;
    let sum = seen.sum.filter(|sum| sum.root.generation == generation)?;
    Some(Told::new(id, &sum, seen.freshness).value())
}

/// `GET /counters/{id}`.
///
/// # Errors
/// `counter-not-found`, `invalid-query`, `unavailable`.
pub async fn counter(visit: &Visit, id: CounterId) -> Result<Answer, Problem> {
    let as_text = accepts_text(visit);
    let asked = format!("{as_text} {}?{}", visit.path(), visit.query());
    if let Some(answer) = with_reads(|reads| reads.answer(&asked, now_ms())) {
        return Ok(answer);
    }
    let (answer, is_shared) = fetch_counter(visit, id, as_text).await?;
    if is_shared {
        with_reads(|reads| reads.keep_answer(asked, &answer, now_ms()));
    }
    Ok(answer)
}

/// The answer, and whether others may be given it too.
async fn fetch_counter(
    visit: &Visit,
    id: CounterId,
    as_text: bool,
) -> Result<(Answer, bool), Problem> {
    let query = Query::parse(
        visit.query(),
        &["consistency", "datacenter", "window", "at", "numbers"],
    )?;
    let window = query.window(now_ms().div_euclid(1_000))?;
    let question = Read {
        counter: id,
        datacenter: query.datacenter()?,
        wanted: Window::wanted(window),
    };
    let strings = query.numbers_as_strings()?;
    let is_strong = query.is_strong()?;
    let seen = see(visit, &question, is_strong).await?;
    let sum = seen.sum.ok_or_else(|| not_found(&question.counter))?;
    let told = Told::new(&question.counter, &sum, seen.freshness);
    let answer = if as_text {
        Answer::text(told.value().to_string())
    } else {
        Answer::json(told.to_json(strings, window, false))
    };
    let answer = answer.fresh(told.is_exact(), told.as_of_ms(), told.staleness_ms());
    // A window moves with time, so its tag would not say what it holds.
    let answer = if window.is_none() {
        answer.tagged(told.etag())
    } else {
        answer
    };
    // Two readers that came within a millisecond see the same view, of the same age.
    Ok((answer, !is_strong && !seen.freshness.fresh))
}

fn accepts_text(visit: &Visit) -> bool {
    visit
        .header("accept")
        .is_some_and(|accept| accept.trim_start().starts_with("text/plain"))
}

/// `GET /counters/{id}/history`.
///
/// # Errors
/// As [`counter`], and `range-too-large`.
pub async fn history(visit: &Visit, id: CounterId) -> Result<Answer, Problem> {
    let query = Query::parse(
        visit.query(),
        &["from", "to", "step", "consistency", "datacenter", "numbers"],
    )?;
    let range = query.history(now_ms().div_euclid(1_000))?;
    let strings = query.numbers_as_strings()?;
    let wanted = Wanted {
        history: Some(range),
        totals_only: true,
        ..Wanted::default()
    };
    let question = Read {
        counter: id,
        datacenter: query.datacenter()?,
        wanted,
    };
    let seen = see(visit, &question, query.is_strong()?).await?;
    let sum = seen.sum.ok_or_else(|| not_found(&question.counter))?;
    let told = Told::new(&question.counter, &sum, seen.freshness);
    let answer = Answer::json(told.history_json(range, strings));
    Ok(answer.fresh(told.is_exact(), told.as_of_ms(), told.staleness_ms()))
}

/// `GET /uniques`.
///
/// # Errors
/// As [`counter`].
pub async fn uniques(visit: &Visit, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(visit.query(), &["id", "window", "at", "consistency"])?;
    let window = query.window(now_ms().div_euclid(1_000))?;
    if window.is_some_and(|window| !window.has_uniques()) {
        let detail = format!(
            "uniques are kept by the minute for {WINDOW_UNIQUES_SECONDS_MAX} seconds; ask for less"
        );
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    let mut ids = Vec::new();
    for text in query.all("id") {
        let id = CounterId::parse(text)?;
        caller.may(Scope::Read, id.as_str())?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    if ids.is_empty() || ids.len() > UNION_MAX {
        let detail = format!("name 1 to {UNION_MAX} counters: ?id=a&id=b");
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    let strong = query.is_strong()?;
    let ask = |id: &CounterId| {
        let question = Read {
            counter: id.clone(),
            datacenter: None,
            wanted: Window::wanted(window),
        };
        async move {
            see(visit, &question, strong)
                .await
                .map(|seen| (question.counter, seen))
        }
    };
    let answers = crate::platform::settled::all_settled(ids.iter().map(ask), UNION_MAX).await;
    let mut seen = answers
        .into_iter()
        .collect::<Result<HashMap<CounterId, Seen>, Problem>>()?;
    let mut sums = Vec::new();
    for id in &ids {
        let Some(Seen {
            sum: Some(sum),
            freshness,
        }) = seen.remove(id)
        else {
            return Err(not_found(id));
        };
        sums.push((sum, freshness));
    }
    let told: Vec<Told<'_>> = ids
        .iter()
        .zip(&sums)
        .map(|(id, (sum, freshness))| Told::new(id, sum, *freshness))
        .collect();
    Ok(Answer::json(union_json(&ids, &told, window)))
}
