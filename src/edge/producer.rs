//! The deployment's queue, where it has one: what an isolate must know before it puts events there, and how.
//!
//! Invariant: each message has its key before it is first sent, so a batch of unknown outcome may be sent again.

use std::cell::RefCell;

use worker::Env;
use worker::js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;

use super::visit::Visit;
use crate::cluster::lease::{Held, Look};
use crate::counter::id::CounterId;
use crate::counter::produce::Sent;
use crate::counter::queue::InboxId;
use crate::platform::call;
use crate::platform::clock::{now_ms, within_ms};
use crate::protocol::messages::{Fault, RegisterInbox};
use crate::protocol::names::QUEUE;
use crate::protocol::problem::Problem;
use crate::protocol::queued::Message;

/// Time for the first attempt of a batch, and for its retry.
const ATTEMPTS_MS: [u64; 2] = [2_500, 2_000];

/// How often a root is asked that does not answer, or so late that its answer cannot be relied on.
const ASK_TRIES: usize = 2;

#[wasm_bindgen]
extern "C" {
    /// The binding.
    type Queue;

    #[wasm_bindgen(method, catch, js_name = sendBatch)]
    fn send_batch(this: &Queue, messages: &Array) -> Result<Promise, JsValue>;
}

thread_local! {
    static LEASES: RefCell<Held> = RefCell::default();
}

fn bound(env: &Env) -> Option<Queue> {
    let found = Reflect::get(env, &QUEUE.into()).ok()?;
    found.is_object().then(|| found.unchecked_into())
}

/// Whether the deployment has a queue.
pub fn is_bound(env: &Env) -> bool {
    bound(env).is_some()
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

/// Sends a batch to the queue.
///
/// # Errors
/// `Unavailable`, after which it is unknown whether the queue has it.
pub async fn send(env: &Env, messages: Vec<Sent>) -> Result<(), Fault> {
    let unknown = || Fault::Unavailable("the queue did not answer".to_owned());
    let queue = bound(env).ok_or_else(unknown)?;
    let batch = Array::new();
    for sent in messages {
        let message = wrap(&Message::write(sent)?).map_err(|_| unknown())?;
        batch.push(&message);
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
