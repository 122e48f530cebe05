//! Puts events into the deployment's queue, if there is one: the sessions that this needs, and the numbers of the
//! messages.
//!
//! Invariants: each message has its key before it is first sent, so a batch of unknown outcome may be sent again. The
//! root of the counter knows the session of each message, see [`tally_core::counter::queue::sessions`].

use std::cell::RefCell;
use std::rc::Rc;

use crate::kit::request_context::RequestContext;
use tally_core::cluster::generation_lease::{HeldGenerations, LeaseCheck};
use tally_core::counter::id::CounterId;
use tally_core::counter::numbered_writes::{NUMBERED, WriteNumbers};
use tally_core::counter::queue::queued_events::QueuedEvents;
use tally_core::counter::queue::sessions::{IDLE_MS, RETRY_MS, Session, Sessions};
use tally_host::{Host, State};
use tally_shared::call;
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{CloseSession, Fault, OpenSession};
use tally_wire::problem::Problem;
use tally_wire::queued::Message;

/// Time for the first attempt of a batch, and for its retry.
const ATTEMPTS_MS: [u64; 2] = [2_500, 2_000];

/// How often a root is asked that does not answer, or answers too late to be relied on.
const ASK_TRIES: usize = 2;

/// How long one request closes sessions, milliseconds: the platform ends a request 30 s after its answer.
const CLOSING_MS: i64 = 28_000;

/// How long before its end another request takes over, milliseconds: until an event that comes now is idle, with a
/// call, another one, and the time between two looks.
const TAKES_OVER_MS: i64 = IDLE_MS + RETRY_MS + 3_000;

/// How often idle sessions are searched for.
const LOOK_EVERY_MS: u64 = 1_000;

/// The most sessions that are closed at once: the platform opens six connections for one request.
const CLOSED_AT_ONCE: usize = 6;

/// The most calls of one request that close sessions. The platform allows at least 1,000 calls of a request. The next
/// event continues.
const CLOSED_MAX: usize = 900;

/// The sessions of this isolate.
#[derive(Default)]
struct Sender {
    leases: HeldGenerations,
    numbering: WriteNumbers,
    sessions: Sessions,
    /// Until when a request closes sessions, unix milliseconds.
    closing_until_ms: i64,
}

struct Sending(RefCell<Sender>);

impl State for Sending {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

fn with<T>(host: &Host, work: impl FnOnce(&mut Sender) -> T) -> T {
    work(&mut host.state::<Sending>().0.borrow_mut())
}

/// The living generation of a counter, which is created if need be. Its root knows from then on that reads of it may
/// lack what is queued. An event that joins the queue's lane without an await after it is of a session that is open.
///
/// # Errors
/// `unavailable` where the root does not answer.
pub async fn generation_of(context: &RequestContext, counter: &CounterId) -> Result<u64, Problem> {
    let host = &context.host;
    let mut fault = Fault::Unavailable("the counter's root took too long".to_owned());
    for _ in 0..=ASK_TRIES {
        let requested_ms = host.now_ms();
        let (lane, session, look) = with(host, |sender| {
            let lane = (sender.numbering).lane(counter, requested_ms, &mut || host.random());
            let (session, generation) = sender.sessions.of_next(counter, lane, requested_ms);
            // One of the callers asks before the answer is too old, so that the others need not wait.
            let look = match generation {
                0 => LeaseCheck::Ask,
                _ => sender.leases.look(counter, requested_ms),
            };
            (lane.0, session, look)
        });
        close_later(context);
        if let LeaseCheck::Known(generation) = look {
            return Ok(generation);
        }
        let open = OpenSession {
            counter: counter.clone(),
            lane,
            session,
        };
        match call(host, &open).await {
            Ok(generation) => with(host, |sender| {
                let is_open = sender.sessions.record_answer(counter, session, generation);
                if let Some(generation) = generation.filter(|_| is_open) {
                    sender.leases.keep(counter, generation, requested_ms);
                }
            }),
            Err(failed) => fault = failed,
        }
    }
    Err(fault.into())
}

/// Gives an event its key.
pub fn name(host: &Host, event: &mut QueuedEvents) {
    let now_ms = host.now_ms();
    event.key = with(host, |sender| {
        (sender.numbering).next(&event.counter, now_ms, &mut || host.random())
    });
    event.fingerprint = NUMBERED;
}

/// Sends a batch to the queue.
///
/// # Errors
/// `Unavailable`; it is then unknown whether the queue has it.
pub async fn send(host: &Host, messages: &[QueuedEvents]) -> Result<(), Fault> {
    let batch = messages.iter().cloned().map(Message::write);
    let batch: Rc<[Vec<u8>]> = batch.collect::<Result<_, Fault>>()?;
    for milliseconds in ATTEMPTS_MS {
        let attempt = host.platform().enqueue(batch.clone());
        if let Some(Ok(())) = host.within_ms(milliseconds, attempt).await {
            with(host, |sender| {
                for message in messages {
                    sender.sessions.accept(&message.counter, message.key);
                }
            });
            return Ok(());
        }
    }
    let unknown = "the queue did not answer".to_owned();
    Err(Fault::Unavailable(unknown))
}

/// Makes sure that a request closes the sessions of this isolate, if there are any, when they become idle.
pub fn close_later(context: &RequestContext) {
    let now_ms = context.host.now_ms();
    let until_ms = now_ms + CLOSING_MS;
    let is_needed = with(&context.host, |sender| {
        let left_ms = sender.closing_until_ms - now_ms;
        let is_enough = (TAKES_OVER_MS..=CLOSING_MS).contains(&left_ms);
        let is_needed = !is_enough && !sender.sessions.is_empty();
        if is_needed {
            sender.closing_until_ms = until_ms;
        }
        is_needed
    });
    if is_needed {
        context.wait_until(close_idle(context.host.clone(), until_ms));
    }
}

/// Closes sessions at their roots once they are idle, until there are none, or for a limited time.
async fn close_idle(host: Host, until_ms: i64) {
    let close = |(counter, session): (CounterId, Session)| {
        let host = &host;
        async move {
            let close = CloseSession {
                counter,
                lane: session.lane,
                session: session.number,
                accepted: session.accepted,
            };
            if call(host, &close).await.is_ok() {
                with(host, |sender| sender.sessions.closed(close.session));
            }
        }
    };
    let mut closed = 0;
    while host.now_ms() <= until_ms && closed < CLOSED_MAX {
        let now_ms = host.now_ms();
        let idle = with(&host, |sender| sender.sessions.idle(now_ms, CLOSED_AT_ONCE));
        if idle.is_empty() {
            if with(&host, |sender| sender.sessions.is_empty()) {
                break;
            }
            host.sleep_ms(LOOK_EVERY_MS).await;
            continue;
        }
        closed += idle.len();
        all_settled(idle.into_iter().map(close), CLOSED_AT_ONCE).await;
    }
    with(&host, |sender| sender.closing_until_ms = 0);
}
