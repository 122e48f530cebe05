//! `/api/event`: events that are acknowledged once they are durable, in a queue or an inbox, and counted soon after.
//!
//! Invariant: an event is acknowledged only when it is durable in its queue. Events of one isolate reach an inbox in
//! appends, one in flight at a time, each with a nonce of its lane. An append of unknown outcome is sent again only
//! to the same inbox under the same nonce.

use std::rc::Rc;

use super::producer;
use crate::kit::body;
use crate::kit::isolate::own_shard;
use crate::kit::lanes::{self, LaneKind, Lanes, complete};
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use crate::read::counter as read;
use crate::write::keyed_writes::{count_keyed, problem_of};
use tally_api::access::Caller;
use tally_api::bodies::parse_queued;
use tally_api::idempotency_keys::KeyKind;
use tally_api::metrics::Metric;
use tally_api::public::{SummedCounter, count_json, dead_letters_json, queued_json};
use tally_api::query::{LIST_LIMIT, ListPage, PagedList, Query};
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::{KeySource, KeyedOutcome, WriteKey};
use tally_core::counter::ledgers::marked;
use tally_core::counter::nonces::Nonce;
use tally_core::counter::queue::queued_events::{
    EventBatch, INBOX_LIMITS, NameEvent, QUEUE_LIMITS, QueuedEvents,
};
use tally_core::counter::queue::write_outcome::{WriteOutcome, verdict};
use tally_core::counter::queue::{INBOXES_PER_DATACENTER, InboxId, QueuedDelivery};
use tally_host::Host;
use tally_shared::concurrency::{all_in_order, all_settled};
use tally_shared::{call, call_within, metrics};
use tally_wire::messages::{Append, AppendResult, DeadLetters, Fault, Read, ReadDead, ReadParts};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

/// Time for the first attempt of an append, and for its retry.
const ATTEMPTS_MS: [u64; 2] = [2_500, 2_000];

/// How long an event with a key may take to be counted at once.
const COUNT_MS_MAX: u64 = 1_500;

/// The most inboxes that are asked at once.
const INBOXES_AT_ONCE: usize = 64;

type Outcome = Result<(), Problem>;

/// The kind of lanes to inboxes; the deployment's queue is one of them.
struct Queues;

impl LaneKind for Queues {
    type Target = InboxId;
    type Batchable = EventBatch;
    /// The outcome of each send of the batch.
    type Outcome = Rc<[Outcome]>;
    type Watcher = ();

    fn lost() -> Self::Outcome {
        Rc::default()
    }

    fn notify((): (), _: &Self::Outcome) {}

    async fn send(host: &Host, to: &InboxId, nonce: Nonce, batch: EventBatch) {
        let messages = batch.into_messages();
        let outcomes = if to.is_queue() {
            let sends = messages.chunks(QUEUE_LIMITS.messages_max);
            let sent = all_in_order(sends.map(|some| producer::send(host, some))).await;
            sent.into_iter().map(|sent| Ok(sent?)).collect()
        } else {
            Rc::from([append(host, to, nonce, messages).await])
        };
        Lanes::<Self>::with(host, |lanes| {
            if let Some(lane) = lanes.known(to) {
                complete::<Self>(host, lane, nonce, outcomes);
            }
        });
    }
}

async fn append(host: &Host, to: &InboxId, nonce: Nonce, messages: Vec<QueuedEvents>) -> Outcome {
    let append = Append {
        to: to.clone(),
        nonce,
        events: messages.into_iter().map(QueuedEvents::into_event).collect(),
    };
    let mut is_unknown = false;
    for milliseconds in ATTEMPTS_MS {
        match call_within(host, &append, milliseconds).await {
            Ok(AppendResult::Logged) => return Ok(()),
            Err(Fault::Unavailable(_)) => is_unknown = true,
            // The former attempt may still be in flight, and be logged.
            _ if is_unknown => break,
            Ok(AppendResult::Full) => {
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
    let host = context.host.clone();
    let (limits, name): (_, NameEvent) = if to.is_queue() {
        (
            QUEUE_LIMITS,
            Rc::new(move |event| producer::name(&host, event)),
        )
    } else {
        (INBOX_LIMITS, Rc::new(|_| {}))
    };
    let batch = EventBatch::new(event, limits, name);
    let unknown = || {
        Problem::new(
            Code::Unavailable,
            "the queue did not answer in time; the event may or may not be queued, try again with an Idempotency-Key",
        )
    };
    let arrival = lanes::carry::<Queues>(context, &to, batch, context.host.now_ms()).await;
    let arrival = arrival.map_err(|problem| match problem.code() {
        Code::Unavailable => unknown(),
        _ => problem,
    })?;
    let outcome = arrival.outcome.get(limits.send_of(arrival.later));
    outcome.cloned().unwrap_or_else(|| Err(unknown()))
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
    let QueuedDelivery { counter, write, .. } = event.clone().into_delivery();
    let only = std::slice::from_ref(&write);
    let room = context.key_room();
    let counting = count_keyed(&context.host, &counter, &event.datacenter, only, room);
    let outcomes = context.host.within_ms(COUNT_MS_MAX, counting).await?;
    let (_, outcome) = outcomes.into_iter().next()?;
    let outcome = outcome.ok()?;
    match verdict(outcome) {
        WriteOutcome::Done => Some(Ok(matches!(outcome, KeyedOutcome::Replayed(_)))),
        WriteOutcome::Dead(_) => Some(Err(problem_of(outcome))),
        // If other callers have filled the room for public keys, or an account its part, they get no extra room in a
        // queue.
        WriteOutcome::Later if is_own_room(outcome, room.source) => Some(Err(problem_of(outcome))),
        WriteOutcome::Later => None,
    }
}

/// Whether the room that is full is that of some callers only.
fn is_own_room(outcome: KeyedOutcome, source: KeySource) -> bool {
    match outcome {
        KeyedOutcome::Full => source == KeySource::Public,
        KeyedOutcome::PartFull(_) => true,
        _ => false,
    }
}

/// Puts an event into the deployment's queue, or into an inbox if there is no queue. An event with a client's key goes
/// to an inbox as well: writes of a queue are identified by numbers, and only an inbox can be asked for a key.
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
    let key = RequestKey::of(context, caller).await?;
    context.visitor().admit(event.counter.as_str())?;
    if let Some(key) = key {
        event.is_clients = true;
        event.key = key.name(KeyKind::Queued);
        let unmarked = key.request_hash(&[b"event", &[u8::from(strings)]], &bytes);
        event.fingerprint = marked(unmarked, context.keys());
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
        wanted: ReadParts::default(),
    };
    let waiting = context.waiting();
    let seen = read::see(context, &question, query.is_strong()?).await?;
    drop(waiting);
    let sum = seen.sum.ok_or_else(|| read::not_found(&question.counter))?;
    let view = SummedCounter::new(&question.counter, &sum, seen.freshness);
    let answer = Answer::json(count_json(&question.counter, view.value(), strings));
    Ok(answer.fresh(view.is_exact(), view.as_of_ms(), view.staleness_ms()))
}

/// `GET /api/dead-letters`: of all inboxes of a datacenter.
///
/// # Errors
/// `invalid-query`, `unavailable`.
pub async fn dead_letters(context: &RequestContext) -> Result<Answer, Problem> {
    let query = Query::parse(
        context.query(),
        &["datacenter", "cursor", "limit", "numbers"],
    )?;
    let page = ListPage::of(PagedList::DeadLetters, &query)?;
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
    let answers = all_settled(own.chain(unread).map(ask), INBOXES_AT_ONCE).await;
    let mut all = DeadLetters::default();
    for one in answers {
        let one = one.map_err(read::unread)?;
        all.letters.extend(one.letters);
        all.dropped = all.dropped.saturating_add(one.dropped);
    }
    Ok(Answer::json(dead_letters_json(
        all,
        &page,
        query.numbers_as_strings()?,
    )))
}
