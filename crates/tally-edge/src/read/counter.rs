//! Reads: strong ones sum every cell now, default ones share a view that is at most 500 ms old.
//!
//! Invariant: every answer's `as_of` is the moment its fetch began (see [`mod@super::fetch`]): what was acknowledged
//! before is included. A reader with a version takes any view that covers it, else joins or begins later fetches until
//! one does.

use std::rc::Rc;

use super::cache;
use super::fetch::{fetch_now, fetch_shared, fetch_within};
use super::last_seen;
use crate::kit::media_ranges::weighted;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::metrics::Metric;
use tally_api::public::{Freshness, SummedCounter};
use tally_api::query::{Query, Window};
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::SeenValue;
use tally_shared::{call, known_cells, metrics};
use tally_wire::messages::{Explain, Explained, Fault, GlobalSum, Read, ReadParts, not_reached};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;
use tally_wire::version::Version;

pub use super::cache::FetchedSum;
pub use super::fetch::{see, unread};

/// The parameters of `GET /counters/{id}`. With `on` it reads a snapshot.
pub const PARAMETERS: [&str; 8] = [
    "consistency",
    "datacenter",
    "window",
    "at",
    "at_least",
    "numbers",
    "explain",
    "on",
];

/// How long a reader waits for a version, from its request on, milliseconds. Only its first sum may take longer, as any
/// read may: an unresponsive datacenter is given up after 3 s, and then there is an answer.
const VERSION_MS_MAX: u64 = 2_000;

/// The first and the longest pause before an incomplete sum is repeated, milliseconds. Each is double the one before:
/// 25 + 50 + 100 + 200 + 4 × 400 ms, so at most ten sums in 2 s.
const PAUSE_MS: (u64, u64) = (25, 400);

/// Reads until the sum covers the required version, if there is one.
pub async fn see_version(
    context: &RequestContext,
    question: &Read,
    strong: bool,
    wanted: Option<&Version>,
) -> Result<FetchedSum, Problem> {
    let Some(wanted) = wanted else {
        return see(context, question, strong).await;
    };
    let began_ms = context.host.now_ms();
    let mut seen = see(context, question, strong).await?;
    // Missing parts are fetched from their datacenters; the read does not wait for a push.
    let mut question = question.clone();
    question.wanted.reads_all = true;
    let question = &question;
    // A missing counter means that its generation has ended, if the reader had asked by then.
    let mut is_final = seen.freshness.fresh;
    let mut pause_ms = 0;
    loop {
        match &seen.sum {
            Some(sum) => {
                let version = Version::of_sum(sum);
                if version.lacks(sum.root.generation, wanted).is_none() {
                    return Ok(seen);
                }
            }
            None if is_final => return Ok(seen),
            None => {}
        }
        let left_ms = VERSION_MS_MAX.saturating_sub(context.host.now_ms().abs_diff(began_ms));
        if left_ms <= pause_ms {
            break;
        }
        if pause_ms > 0 {
            context.host.sleep_ms(pause_ms).await;
        }
        let again = async {
            if strong {
                fetch_now(context, question).await
            } else {
                fetch_shared(context, question, seen.freshness.as_of_ms).await
            }
        };
        match context.host.within_ms(left_ms - pause_ms, again).await {
            Some(Ok(later)) => {
                seen = later;
                is_final = true;
            }
            Some(Err(problem)) if problem.code() != Code::Unavailable => return Err(problem),
            _ => {}
        }
        pause_ms = (2 * pause_ms).clamp(PAUSE_MS.0, PAUSE_MS.1);
    }
    Err(match &seen.sum {
        Some(sum) => not_reached(wanted, sum, VERSION_MS_MAX),
        None => unread(Fault::Unavailable("the read took too long".to_owned())),
    })
}

/// The problem of a read of a missing counter.
pub fn not_found(id: &CounterId) -> Problem {
    Problem::new(
        Code::CounterNotFound,
        format!(
            "nothing has been counted as {:?}; a write creates it",
            id.as_str()
        ),
    )
}

/// How long a durable write waits for the value of its answer, milliseconds: a round trip takes 350 ms between the
/// farthest places. If a datacenter or the root is still unreachable then, the answer holds the last known sum.
pub const VALUE_MS_MAX: u64 = 400;

/// A counter from the isolate's views, at most half a second old, or `None` if that takes too long.
async fn sum_now(context: &RequestContext, id: &CounterId) -> Option<Rc<GlobalSum>> {
    let question = Read {
        counter: id.clone(),
        datacenter: None,
        // A write is no reader: the value in its answer makes no lead push.
        wanted: ReadParts {
            is_passing: true,
            ..ReadParts::default()
        },
    };
    let seen = fetch_within(context, &question, VALUE_MS_MAX).await;
    seen?.sum
}

/// A counter's newest sum for the answer to a write: one that is read in time, else the last one that was read here.
/// `None` if none was read here.
pub async fn sum_for_answer(context: &RequestContext, id: &CounterId) -> Option<Rc<GlobalSum>> {
    let sum = sum_now(context, id).await;
    // Another read may have begun later than the shared one.
    let last = last_seen::sum(&context.host, id).map(|(sum, _)| sum);
    last.or(sum)
}

/// A counter's value with what this isolate has had acknowledged; empty if no view comes in time.
pub async fn value_seen(context: &RequestContext, id: &CounterId) -> SeenValue {
    let sum = sum_for_answer(context, id).await;
    sum.map_or_else(SeenValue::default, |sum| SeenValue {
        value: known_cells::value_with(&context.host, id, &sum),
        is_set: sum.root.operations.number() > 0,
    })
}

/// `GET /counters/{id}`.
///
/// # Errors
/// `counter-not-found`, `invalid-query`, `unavailable`, `version-not-reached`.
pub async fn counter(context: &RequestContext, id: CounterId) -> Result<Answer, Problem> {
    let as_text = accepts_text(context);
    let sees_all = context.rounding()?.is_off();
    let cache_key = format!(
        "{as_text} {sees_all} {}?{}",
        context.path(),
        context.query()
    );
    let host = &context.host;
    if let Some(answer) = cache::answer(host, &cache_key, host.now_ms()) {
        metrics::count(host, Metric::ReadCacheHit);
        return Ok(answer);
    }
    let (answer, is_shared) = fetch_counter(context, id, as_text).await?;
    if is_shared {
        cache::keep_answer(host, cache_key, &answer, host.now_ms());
    }
    Ok(answer)
}

/// The answer, and whether others may get it too.
async fn fetch_counter(
    context: &RequestContext,
    id: CounterId,
    as_text: bool,
) -> Result<(Answer, bool), Problem> {
    let query = Query::parse(context.query(), &PARAMETERS)?;
    let window = query.window(context.host.now_ms().div_euclid(1_000))?;
    let question = Read {
        counter: id,
        datacenter: query.datacenter()?,
        wanted: Window::wanted(window),
    };
    let strings = query.numbers_as_strings()?;
    let is_strong = query.is_strong()?;
    let version = query.at_least()?;
    if let Some(storage) = query.explains()? {
        let wanted = ReadParts {
            storage,
            ..question.wanted
        };
        let read = Read { wanted, ..question };
        let answer = explained(context, read, is_strong, strings, window).await?;
        return Ok((answer, false));
    }
    let waiting = context.waiting();
    let seen = see_version(context, &question, is_strong, version.as_ref()).await?;
    drop(waiting);
    let sum = seen.sum.ok_or_else(|| not_found(&question.counter))?;
    let view =
        SummedCounter::new(&question.counter, &sum, seen.freshness).rounded(context.rounding()?);
    let answer = if as_text {
        Answer::text(view.value().to_string())
    } else {
        Answer::json(view.to_json(strings, window, None))
    };
    let answer = answer.fresh(view.is_exact(), view.as_of_ms(), view.staleness_ms());
    // A window moves with time, so a tag would not identify its content.
    let answer = if window.is_none() {
        let mut tag = view.etag();
        if as_text {
            // Another body than the JSON of the same state. `If-Match` ignores it.
            tag.pop();
            tag.push_str("-text\"");
        }
        answer.tagged(tag)
    } else {
        answer
    };
    // Two readers within a millisecond get the same view, of the same age. A version is rarely sent twice, and too long
    // to store.
    let is_shared = !is_strong && version.is_none() && !seen.freshness.fresh;
    Ok((answer, is_shared))
}

/// A read with an explanation. What cells store is for admins. Nothing is shared, so that the explanation is of this
/// read.
async fn explained(
    context: &RequestContext,
    read: Read,
    strong: bool,
    strings: bool,
    window: Option<Window>,
) -> Result<Answer, Problem> {
    if read.wanted.storage {
        context.caller()?.may(Scope::Admin, read.counter.as_str())?;
    }
    context.visitor().read(1)?;
    let as_of_ms = context.host.now_ms();
    let waiting = context.waiting();
    let id = read.counter.clone();
    let explained = call(&context.host, &Explain { read, strong }).await;
    drop(waiting);
    let Explained { sum, trace } = explained.map_err(unread)?.ok_or_else(|| not_found(&id))?;
    context.visitor().deduct_calls(sum.cells());
    let freshness = Freshness {
        as_of_ms,
        now_ms: context.host.now_ms(),
        fresh: true,
    };
    let view = SummedCounter::new(&id, &sum, freshness).rounded(context.rounding()?);
    let answer = Answer::json(view.explained_json(strings, window, &trace));
    Ok(answer.fresh(view.is_exact(), view.as_of_ms(), view.staleness_ms()))
}

/// Whether `Accept` names text first, and not by the weight 0, which refuses it.
fn accepts_text(context: &RequestContext) -> bool {
    context.header("accept").is_some_and(|accept| {
        let (media, weight) = weighted(accept.split(',').next().unwrap_or_default());
        media.eq_ignore_ascii_case("text/plain") && weight > 0.0
    })
}
