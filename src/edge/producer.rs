//! Events on their way into the deployment's queue, where it has one.
//!
//! Invariant: an event is acknowledged only when the queue has accepted the batch that it is in. Each message
//! has its key before it is first sent, so a batch of unknown outcome may be sent again.

use std::cell::RefCell;

use worker::Env;
use worker::js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;

use super::visit::Visit;
use crate::cluster::lease::{Held, Look};
use crate::counter::id::CounterId;
use crate::counter::produce::{Producer, Sent};
use crate::counter::queue::InboxId;
use crate::platform::call;
use crate::platform::clock::{now_ms, sleep_ms, within_ms};
use crate::protocol::messages::{Fault, RegisterInbox};
use crate::protocol::names::QUEUE;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::queued::Message;

/// Time for the first attempt of a batch, and for its retry.
const ATTEMPTS_MS: [u64; 2] = [2_500, 2_000];

/// How long a request waits for its batch.
const WAIT_MS_MAX: i64 = 10_000;

/// How long a request goes on carrying what others gather.
const FLY_MS_MAX: i64 = 3_000;

/// How often a request looks whether its batch has landed.
const LOOK_EVERY_MS: u64 = 2;

/// How often a root is asked that does not answer, or so late that its answer cannot be relied on.
const ASK_TRIES: usize = 2;

#[wasm_bindgen]
extern "C" {
    /// The binding.
    #[derive(Clone)]
    pub type Queue;

    #[wasm_bindgen(method, catch, js_name = sendBatch)]
    fn send_batch(this: &Queue, messages: &Array) -> Result<Promise, JsValue>;
}

/// How a batch ended.
type Outcome = Result<(), Problem>;

thread_local! {
    static PRODUCER: RefCell<Producer<Outcome>> = RefCell::default();
    static LEASES: RefCell<Held> = RefCell::default();
}

fn with<T>(work: impl FnOnce(&mut Producer<Outcome>) -> T) -> T {
    PRODUCER.with_borrow_mut(work)
}

/// The deployment's queue; `None` where it has none.
pub fn bound(env: &Env) -> Option<Queue> {
    let found = Reflect::get(env, &QUEUE.into()).ok()?;
    found.is_object().then(|| found.unchecked_into())
}

/// The living generation of a counter, which is created if need be. Its root knows from then on that reads of
/// it may lack what is queued.
///
/// # Errors
/// `unavailable` where the root does not answer.
pub async fn generation_of(visit: &Visit, counter: &CounterId) -> Result<u64, Problem> {
    let mut fault = Fault::Unavailable("the counter's root took too long".to_owned());
    for _ in 0..=ASK_TRIES {
        // One of those who come asks before the answer is too old, so that the others need not wait.
        if let Look::Known(generation) = LEASES.with_borrow_mut(|held| held.look(counter, now_ms()))
        {
            return Ok(generation);
        }
        let asked_ms = now_ms();
        let register = RegisterInbox {
            counter: counter.clone(),
            inbox: InboxId::of_queue(),
        };
        match call::root(&visit.env, counter, &register).await {
            Ok(generation) => {
                LEASES.with_borrow_mut(|held| held.keep(counter, generation, asked_ms));
            }
            Err(failed) => fault = failed,
        }
    }
    Err(fault.into())
}

/// Puts an event into the queue, together with those that come at the same time.
///
/// # Errors
/// `overloaded` where too many wait: the event was not taken. `unavailable`, after which that is unknown.
pub async fn put(visit: &Visit, queue: Queue, event: Sent) -> Outcome {
    let begun_ms = now_ms();
    let Some(number) = with(|producer| producer.join(event)) else {
        return Err(Problem::new(
            Code::Overloaded,
            "too many events wait here; this one was not taken, try again",
        ));
    };
    while now_ms() - begun_ms <= WAIT_MS_MAX {
        while let Some((taken, messages)) = with(|producer| producer.take(now_ms())) {
            visit.wait_until(fly(queue.clone(), taken, messages));
        }
        if let Some(outcome) = with(|producer| producer.outcome(number)) {
            return outcome;
        }
        sleep_ms(LOOK_EVERY_MS).await;
    }
    Err(unknown())
}

fn unknown() -> Problem {
    Problem::new(
        Code::Unavailable,
        "the queue did not answer in time; whether the event was taken is unknown to us, try again with an Idempotency-Key",
    )
}

/// Flies batches until nothing is gathered, or for a while.
async fn fly(queue: Queue, mut number: u64, mut messages: Vec<Sent>) {
    let begun_ms = now_ms();
    loop {
        let outcome = send(&queue, messages).await;
        let next = with(|producer| {
            producer.land(number, outcome);
            (now_ms() - begun_ms <= FLY_MS_MAX)
                .then(|| producer.take(now_ms()))
                .flatten()
        });
        match next {
            Some(next) => (number, messages) = next,
            None => return,
        }
    }
}

async fn send(queue: &Queue, messages: Vec<Sent>) -> Outcome {
    let batch = Array::new();
    for sent in messages {
        batch.push(&wrap(&Message::write(sent)?).map_err(|_| unknown())?.into());
    }
    for milliseconds in ATTEMPTS_MS {
        let attempt = async { JsFuture::from(queue.send_batch(&batch)?).await };
        if let Some(Ok(_)) = within_ms(milliseconds, attempt).await {
            return Ok(());
        }
    }
    Err(unknown())
}

/// A message as the platform takes it: bytes, which cost nothing to write and need no guess when they are read.
fn wrap(bytes: &[u8]) -> Result<Object, JsValue> {
    let message = Object::new();
    Reflect::set(&message, &"body".into(), &Uint8Array::from(bytes))?;
    Reflect::set(&message, &"contentType".into(), &"bytes".into())?;
    Ok(message)
}
