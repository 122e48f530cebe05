//! `/api/event`: events that are acknowledged once they are durable, in a queue or an inbox, and counted soon after.
//!
//! Invariant: an event is acknowledged only when it is durable in its queue. Events of one isolate reach an inbox in
//! appends, one in flight at a time, each with a nonce of its own lane. An append of unknown outcome is sent again only
//! to the same inbox under the same nonce.

use std::cell::RefCell;

use super::hash_keys::name_key;
use super::isolate::own_shard;
use super::keyed::{count_keyed, problem_of};
use super::request_context::RequestContext;
use super::respond::Answer;
use super::{body, producer, read};
use crate::core::counter::bounded_map::BoundedMap;
use crate::core::counter::id::CounterId;
use crate::core::counter::ledger::{KeySource, KeyedOutcome, WriteKey};
use crate::core::counter::ledgers::marked;
use crate::core::counter::nonces::Nonce;
use crate::core::counter::queue::{Due, INBOXES_PER_DATACENTER, InboxId, WriteOutcome, verdict};
use crate::core::counter::queue_outbox::{
    INBOX_LIMITS, Producer, QUEUE_LIMITS, QueuedEvents, WAIT_MS_MAX,
};
use crate::core::sketch::hash;
use crate::host::{Host, State};
use crate::node::shared::concurrency::all_settled;
use crate::node::shared::{call, call_within, metrics};
use crate::protocol::access::{Caller, Scope};
use crate::protocol::bodies::parse_queued;
use crate::protocol::keys::{KeyKind, fingerprint, parse_key, write_key};
use crate::protocol::messages::{Append, Appended, DeadLetters, Fault, Read, ReadDead, Wanted};
use crate::protocol::metrics::Metric;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::public::{SummedCounter, count_json, dead_letters_json, queued_json};
use crate::protocol::query::{LIST_LIMIT, Query};

/// Time for the first attempt of an append, and for its retry.
const ATTEMPTS_MS: [u64; 2] = [2_500, 2_000];

/// How long a request sends what others gather: the platform ends a request 30 s after its answer, and the next waiting
/// one takes over.
const SEND_MS_MAX: i64 = 3_000;

/// How often a request checks the outcome of its append.
const LOOK_EVERY_MS: u64 = 2;

/// How long an event with a key may take to be counted at once.
const COUNT_MS_MAX: u64 = 1_500;

/// The most inboxes that one isolate uses; an isolate serves few datacenters.
const INBOXES_MAX: usize = 64;

type Outcome = Result<(), Problem>;

/// The events that this isolate gathers for queues.
#[derive(Default)]
struct Gathering {
    /// By target; the deployment's queue is one of them.
    producers: RefCell<BoundedMap<InboxId, Producer<Outcome>, INBOXES_MAX>>,
}

impl State for Gathering {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

/// Works with the events gathered for an inbox or the queue; `None` where too many others are busy.
fn with<T>(host: &Host, to: &InboxId, work: impl FnOnce(&mut Producer<Outcome>) -> T) -> Option<T> {
    let gathering = host.state::<Gathering>();
    let mut producers = gathering.producers.borrow_mut();
    if !producers.make_room(to, |producer| !producer.is_idle()) {
        return None;
    }
    let limits = if to.is_queue() {
        QUEUE_LIMITS
    } else {
        INBOX_LIMITS
    };
    Some(work(producers.entry(to, || Producer::new(limits))))
}

fn take(host: &Host, to: &InboxId) -> Option<(Nonce, Vec<QueuedEvents>)> {
    with(host, to, |producer| {
        producer.take(host.now_ms(), &mut || host.random())
    })?
}

/// Sends batches until nothing is gathered, or for a limited time.
async fn send_batches(host: Host, to: InboxId, mut nonce: Nonce, mut messages: Vec<QueuedEvents>) {
    let begun_ms = host.now_ms();
    loop {
        let outcome = send(&host, &to, nonce, messages).await;
        with(&host, &to, |producer| {
            producer.settle(nonce.number, outcome)
        });
        if host.now_ms() - begun_ms > SEND_MS_MAX {
            return;
        }
        match take(&host, &to) {
            Some(next) => (nonce, messages) = next,
            None => return,
        }
    }
}

async fn send(host: &Host, to: &InboxId, nonce: Nonce, messages: Vec<QueuedEvents>) -> Outcome {
    if to.is_queue() {
        return Ok(producer::send(host, messages).await?);
    }
    let append = Append {
        to: to.clone(),
        nonce,
        events: messages.into_iter().map(QueuedEvents::into_event).collect(),
    };
    let mut is_unknown = false;
    for milliseconds in ATTEMPTS_MS {
        match call_within(host, &append, milliseconds).await {
            Ok(Appended::Logged) => return Ok(()),
            Err(Fault::Unavailable(_)) => is_unknown = true,
            // The attempt before may still be on its way, and be logged.
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

/// Puts an event into its queue, together with those that arrive at the same time.
async fn put(context: &RequestContext, to: InboxId, event: QueuedEvents) -> Outcome {
    let begun_ms = context.host.now_ms();
    let mut name = |event: &mut QueuedEvents| {
        if to.is_queue() {
            producer::name(&context.host, event);
        }
    };
    let Some(Some(number)) = with(&context.host, &to, |producer| {
        producer.join_named(event, &mut name)
    }) else {
        return Err(Problem::new(
            Code::Overloaded,
            "too many events wait here; this one was not taken, try again",
        ));
    };
    while context.host.now_ms() - begun_ms <= WAIT_MS_MAX {
        while let Some((nonce, messages)) = take(&context.host, &to) {
            context.wait_until(send_batches(
                context.host.clone(),
                to.clone(),
                nonce,
                messages,
            ));
        }
        // Others read an outcome too: it stays until it is old.
        let outcome = with(&context.host, &to, |producer| producer.outcome(number));
        if let Some(outcome) = outcome.flatten() {
            return outcome;
        }
        context.host.sleep_ms(LOOK_EVERY_MS).await;
    }
    Err(Problem::new(
        Code::Unavailable,
        "the queue did not answer in time; the event may or may not be queued, try again with an Idempotency-Key",
    ))
}

/// Counts an event with a client's key at once. Returns whether it had been counted before; `None` where the counter
/// cannot decide now, and the event goes to the queue, under the same key.
///
/// # Errors
/// Errors that a queue cannot solve: a key of another write, a counter that has ended, an overflow.
async fn count_now(
    context: &RequestContext,
    event: &QueuedEvents,
) -> Option<Result<bool, Problem>> {
    let Due { counter, write, .. } = event.clone().into_due();
    let only = std::slice::from_ref(&write);
    let whose = event.keys();
    let counting = count_keyed(&context.host, &counter, &event.datacenter, only, whose);
    let outcomes = context.host.within_ms(COUNT_MS_MAX, counting).await?;
    let (_, outcome) = outcomes.into_iter().next()?;
    let outcome = outcome.ok()?;
    match verdict(outcome) {
        WriteOutcome::Done => Some(Ok(matches!(outcome, KeyedOutcome::Replayed(_)))),
        WriteOutcome::Dead(_) => Some(Err(problem_of(outcome))),
        // If other callers have filled the room for public keys, no room in a queue is given to them besides.
        WriteOutcome::Later if (outcome, whose) == (KeyedOutcome::Full, KeySource::Public) => {
            Some(Err(problem_of(outcome)))
        }
        WriteOutcome::Later => None,
    }
}

/// Puts an event into the deployment's queue, or into an inbox where it has none. One with a client's key too: what is
/// counted of a queue is told by numbers, and an inbox can be asked.
async fn enqueue(context: &RequestContext, mut event: QueuedEvents) -> Outcome {
    if !context.host.platform().has_queue() || event.is_clients {
        let to = InboxId {
            datacenter: event.datacenter.clone(),
            number: own_shard(&context.host, INBOXES_PER_DATACENTER),
        };
        return put(context, to, event).await;
    }
    event.generation = producer::generation_of(context, &event.counter).await?;
    put(context, InboxId::of_queue(), event).await
}

/// `POST /api/event`. An event with a key is counted at once if possible, so that its key is answered: by the first
/// answer again, or by a refusal. That costs the two calls of a keyed write, and no queue.
///
/// # Errors
/// Any refusal; then the event was not taken, except `unavailable`, which says so.
pub async fn event(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let strings = Query::parse(context.query(), &["numbers"])?.numbers_as_strings()?;
    let bytes = body::read_small(context).await?;
    let (counter, delta) = parse_queued(&bytes)?;
    caller.may_write(counter.as_str(), delta, &[])?;
    let mut event = QueuedEvents {
        datacenter: context.datacenter(),
        counter,
        generation: 0,
        added: delta,
        second: context.host.now_ms().div_euclid(1_000),
        is_clients: false,
        key: WriteKey([0; 16]),
        fingerprint: 0,
    };
    let answer = Answer::json(queued_json(&event.counter, delta, strings)).with_status(202);
    let header = context.header("idempotency-key");
    let key = header.as_deref().map(parse_key).transpose()?;
    context.visitor().admit(event.counter.as_str())?;
    if let Some(key) = key {
        let secret = name_key(&context.host).await?;
        let hashed = |bytes: &[u8]| hash(&secret, bytes);
        event.is_clients = true;
        event.key = write_key(&hashed, KeyKind::Queued, key);
        let asked = fingerprint(&hashed, &[&delta.to_le_bytes()]);
        event.fingerprint = marked(asked, context.keys());
        let waiting = context.waiting();
        let counted = count_now(context, &event).await;
        drop(waiting);
        if let Some(counted) = counted {
            return Ok(if counted? {
                metrics::count(&context.host, Metric::Replayed);
                answer.replayed()
            } else {
                metrics::count(&context.host, Metric::AcknowledgedQueued);
                answer
            });
        }
    }
    let _waiting = context.waiting();
    enqueue(context, event).await?;
    metrics::count(&context.host, Metric::AcknowledgedQueued);
    Ok(answer)
}

/// `GET /api/counter?key=`.
///
/// # Errors
/// As [`read::counter`].
pub async fn counter(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["key", "consistency", "numbers"])?;
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
    let waiting = context.waiting();
    let seen = read::see(context, &question, query.is_strong()?).await?;
    drop(waiting);
    let sum = seen.sum.ok_or_else(|| read::not_found(&question.counter))?;
    let told = SummedCounter::new(&question.counter, &sum, seen.freshness);
    let answer = Answer::json(count_json(&question.counter, told.value(), strings));
    Ok(answer.fresh(told.is_exact(), told.as_of_ms(), told.staleness_ms()))
}

/// `GET /api/dead-letters`: of all inboxes of a datacenter.
///
/// # Errors
/// `invalid-query`, `unavailable`.
pub async fn dead_letters(context: &RequestContext) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["datacenter", "numbers"])?;
    let datacenter = query.datacenter()?.unwrap_or_else(|| context.datacenter());
    let own = (0..INBOXES_PER_DATACENTER).map(|number| InboxId {
        datacenter: datacenter.clone(),
        number,
    });
    // Letters that cannot be read belong to no known datacenter.
    let unread = context.host.platform().has_queue().then(InboxId::of_queue);
    let ask = |to: InboxId| async move {
        let limit = LIST_LIMIT.1;
        call(&context.host, &ReadDead { to, limit }).await
    };
    let _waiting = context.waiting();
    let asked = all_settled(own.chain(unread).map(ask), INBOXES_MAX).await;
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
