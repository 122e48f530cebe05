//! `/api/event`: events that are acknowledged once they are durable in an inbox, and counted soon after.
//!
//! Invariant: events of one isolate reach an inbox in appends, one in flight at a time, each with a nonce of
//! its own lane; an append of unknown outcome is sent again to the same inbox under the same nonce only.

use std::cell::RefCell;
use std::collections::HashMap;

use worker::Env;

use super::body;
use super::isolate::{hash_key, own_shard};
use super::read;
use super::respond::Answer;
use super::visit::Visit;
use crate::counter::id::CounterId;
use crate::counter::joiner::{Joiner, WAIT_MS_MAX};
use crate::counter::nonces::Nonce;
use crate::counter::queue::{Event, INBOXES_PER_DATACENTER, InboxId};
use crate::platform::clock::{now_ms, random, sleep_ms};
use crate::platform::settled::all_settled;
use crate::platform::{call, measure};
use crate::protocol::access::{Caller, Scope};
use crate::protocol::bodies::parse_queued;
use crate::protocol::keys::{Kind, fingerprint, parse_key, write_key};
use crate::protocol::messages::{Append, Appended, DeadLetters, Fault, Read, ReadDead, Wanted};
use crate::protocol::metrics::Metric;
use crate::protocol::names;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::public::{Told, count_json, dead_letters_json, queued_json};
use crate::protocol::query::{LIST_LIMIT, Query};
use crate::sketch::hash;

/// Time for the first attempt of an append, and for its retry.
const ATTEMPTS_MS: [u64; 2] = [2_500, 2_000];

/// How long a request goes on carrying what others gather: the platform ends what outlives its answer by
/// 30 s, and the next that waits takes over.
const FLY_MS_MAX: i64 = 3_000;

/// How often a request looks whether its append has landed.
const LOOK_EVERY_MS: u64 = 2;

/// The most inboxes that one isolate knows; an isolate serves few datacenters.
const INBOXES_MAX: usize = 64;

type Outcome = Result<(), Problem>;

thread_local! {
    static JOINERS: RefCell<HashMap<InboxId, Joiner<Outcome>>> = RefCell::default();
}

fn with<T>(inbox: &InboxId, work: impl FnOnce(&mut Joiner<Outcome>) -> T) -> T {
    JOINERS.with_borrow_mut(|joiners| {
        if joiners.len() >= INBOXES_MAX && !joiners.contains_key(inbox) {
            joiners.retain(|_, joiner| !joiner.is_idle());
        }
        let new = || Joiner::new(random());
        work(joiners.entry(inbox.clone()).or_insert_with(new))
    })
}

/// Flies appends until nothing is gathered, or for a while.
async fn fly(env: Env, to: InboxId, mut nonce: Nonce, mut events: Vec<Event>) {
    let begun_ms = now_ms();
    loop {
        let outcome = send(&env, &to, nonce, events).await;
        let next = with(&to, |joiner| {
            joiner.land(nonce, outcome);
            (now_ms() - begun_ms <= FLY_MS_MAX)
                .then(|| joiner.take(now_ms(), random))
                .flatten()
        });
        match next {
            Some(next) => (nonce, events) = next,
            None => return,
        }
    }
}

async fn send(env: &Env, to: &InboxId, nonce: Nonce, events: Vec<Event>) -> Outcome {
    let append = Append {
        to: to.clone(),
        nonce,
        events,
    };
    let mut is_unknown = false;
    for milliseconds in ATTEMPTS_MS {
        match call::object_within(env, &names::inbox(to), &append, milliseconds).await {
            Ok(Appended::Logged) => return Ok(()),
            Err(Fault::Unavailable(_)) => is_unknown = true,
            // The attempt before may be on its way still, and be logged.
            _ if is_unknown => break,
            Ok(Appended::Full) => {
                return Err(Problem::new(
                    Code::Overloaded,
                    "too many events wait in the queue; this one was not taken, try again",
                ));
            }
            Err(fault) => return Err(fault.into()),
        }
    }
    Err(Fault::Unavailable("the queue did not answer".to_owned()).into())
}

async fn append(visit: &Visit, to: InboxId, event: Event) -> Outcome {
    let begun_ms = now_ms();
    let joined = with(&to, |joiner| {
        let number = joiner.join(event)?;
        Some((number, joiner.take(begun_ms, random)))
    });
    let Some((number, flight)) = joined else {
        return Err(Problem::new(
            Code::Overloaded,
            "too many events wait here; this one was not taken, try again",
        ));
    };
    let mut flight = flight;
    while now_ms() - begun_ms <= WAIT_MS_MAX {
        if let Some((nonce, events)) = flight {
            visit.wait_until(fly(visit.env.clone(), to.clone(), nonce, events));
        }
        // Others read an outcome too: it stays until it is old.
        let landed = with(&to, |joiner| joiner.outcome(number));
        if let Some(outcome) = landed {
            return outcome;
        }
        sleep_ms(LOOK_EVERY_MS).await;
        flight = with(&to, |joiner| joiner.take(now_ms(), random));
    }
    Err(Problem::new(
        Code::Unavailable,
        "the queue did not answer in time; whether the event was taken is unknown to us, try again with an Idempotency-Key",
    ))
}

/// `POST /api/event`.
///
/// # Errors
/// Any refusal; then the event was not taken, except `unavailable`, which says so.
pub async fn event(visit: &Visit, caller: &Caller) -> Result<Answer, Problem> {
    let strings = Query::parse(visit.query(), &["numbers"])?.numbers_as_strings()?;
    let bytes = body::read_small(&visit.request).await?;
    let (counter, delta) = parse_queued(&bytes)?;
    caller.may(Scope::Write, counter.as_str())?;
    let key = match visit.header("idempotency-key") {
        None => None,
        Some(header) => {
            let secret = hash_key(&visit.env).await?;
            let hashed = |bytes: &[u8]| hash(&secret, bytes);
            let name = write_key(&hashed, Kind::Queued, parse_key(&header)?);
            Some((name, fingerprint(&hashed, &[&delta.to_le_bytes()])))
        }
    };
    let to = InboxId {
        datacenter: visit.datacenter(),
        number: own_shard(INBOXES_PER_DATACENTER),
    };
    let event = Event {
        counter: counter.clone(),
        delta,
        second: now_ms().div_euclid(1_000),
        key,
    };
    let _waiting = visit.waiting();
    append(visit, to, event).await?;
    measure::count(Metric::AcknowledgedQueued);
    Ok(Answer::json(queued_json(&counter, delta, strings)).with_status(202))
}

/// `GET /api/counter?key=`.
///
/// # Errors
/// As [`read::counter`].
pub async fn counter(visit: &Visit, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(visit.query(), &["key", "consistency", "numbers"])?;
    let Some(key) = query.get("key") else {
        let detail = "name the counter: ?key=…";
        return Err(Problem::new(Code::InvalidQuery, detail));
    };
    let id = CounterId::parse(key)?;
    caller.may(Scope::Read, id.as_str())?;
    let strings = query.numbers_as_strings()?;
    let question = Read {
        counter: id,
        datacenter: None,
        wanted: Wanted::default(),
    };
    let waiting = visit.waiting();
    let seen = read::see(visit, &question, query.is_strong()?).await?;
    drop(waiting);
    let sum = seen.sum.ok_or_else(|| read::not_found(&question.counter))?;
    let told = Told::new(&question.counter, &sum, seen.freshness);
    let answer = Answer::json(count_json(&question.counter, told.value(), strings));
    Ok(answer.fresh(told.is_exact(), told.as_of_ms(), told.staleness_ms()))
}

/// `GET /api/dead-letters`: of all inboxes of a datacenter.
///
/// # Errors
/// `invalid-query`, `unavailable`.
pub async fn dead_letters(visit: &Visit) -> Result<Answer, Problem> {
    let query = Query::parse(visit.query(), &["datacenter", "numbers"])?;
    let datacenter = query.datacenter()?.unwrap_or_else(|| visit.datacenter());
    let ask = |number: u8| {
        let inbox = InboxId {
            datacenter: datacenter.clone(),
            number,
        };
        async move {
            let read = ReadDead {
                limit: LIST_LIMIT.1,
            };
            call::object(&visit.env, &names::inbox(&inbox), &read).await
        }
    };
    let _waiting = visit.waiting();
    let asked = all_settled((0..INBOXES_PER_DATACENTER).map(ask), INBOXES_MAX).await;
    let mut all = DeadLetters::default();
    for one in asked {
        let one = one.map_err(read::unread)?;
        all.letters.extend(one.letters);
        all.dropped = all.dropped.saturating_add(one.dropped);
    }
    Ok(Answer::json(dead_letters_json(
        all,
        query.numbers_as_strings()?,
    )))
}
