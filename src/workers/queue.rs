//! The deployment's queue, where it has one.

use worker::Env;
use worker::js_sys::{Array, ArrayBuffer, Object, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;

use tally_host::{Delivered, MessageOutcome};
use tally_wire::names::QUEUE;

#[wasm_bindgen]
extern "C" {
    /// The binding.
    pub(super) type Queue;

    #[wasm_bindgen(method, catch, js_name = sendBatch)]
    fn send_batch(this: &Queue, messages: &Array) -> Result<Promise, JsValue>;

    /// A batch as the platform gives it. Read without the SDK's wrappers, which panic where it throws.
    pub type MessageBatch;

    #[wasm_bindgen(method, getter)]
    fn messages(this: &MessageBatch) -> Array;

    type Message;

    #[wasm_bindgen(method, getter)]
    fn body(this: &Message) -> JsValue;

    #[wasm_bindgen(method, getter)]
    fn attempts(this: &Message) -> Option<u32>;

    #[wasm_bindgen(method, catch)]
    fn ack(this: &Message) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch)]
    fn retry(this: &Message, options: &Object) -> Result<(), JsValue>;
}

/// The queue, where one is bound.
pub(super) fn bound(env: &Env) -> Option<Queue> {
    let found = Reflect::get(env, &QUEUE.into()).ok()?;
    found.is_object().then(|| found.unchecked_into())
}

/// Puts messages into it: bytes, which cost nothing to write and need no guess when they are read.
pub(super) async fn send(queue: &Queue, messages: &[Vec<u8>]) -> Result<(), JsValue> {
    let batch = Array::new();
    for bytes in messages {
        let message = Object::new();
        Reflect::set(
            &message,
            &"body".into(),
            &Uint8Array::from(bytes.as_slice()),
        )?;
        Reflect::set(&message, &"contentType".into(), &"bytes".into())?;
        batch.push(&message);
    }
    JsFuture::from(queue.send_batch(&batch)?).await?;
    Ok(())
}

/// Takes a batch apart.
pub(super) fn delivered(batch: &MessageBatch) -> Vec<Delivered> {
    let delivered = |message: JsValue| {
        let message: Message = message.unchecked_into();
        Delivered {
            body: bytes_of(&message.body()),
            attempts: message.attempts().unwrap_or(1),
        }
    };
    batch.messages().iter().map(delivered).collect()
}

/// Only bytes are read: another value might be converted to a very large number of them.
fn bytes_of(body: &JsValue) -> Option<Vec<u8>> {
    let bytes = match body.dyn_ref::<ArrayBuffer>() {
        Some(buffer) => Uint8Array::new(buffer),
        None => body.dyn_ref::<Uint8Array>()?.clone(),
    };
    Some(bytes.to_vec())
}

/// Acknowledges or retries each message of a batch.
pub(super) fn complete(batch: &MessageBatch, outcomes: Vec<MessageOutcome>) {
    for (message, fate) in batch.messages().iter().zip(outcomes) {
        let message: Message = message.unchecked_into();
        // Where that fails, the platform delivers the message again by itself.
        let _ = match fate {
            MessageOutcome::Acknowledged => message.ack(),
            MessageOutcome::Again { seconds } => try_again(&message, seconds),
        };
    }
}

fn try_again(message: &Message, seconds: u32) -> Result<(), JsValue> {
    let options = Object::new();
    Reflect::set(&options, &"delaySeconds".into(), &seconds.into())?;
    message.retry(&options)
}
