//! Answers that wait for nothing, in the turn in which they were asked for.
//!
//! Invariant: a future that is polled here may be polled again by another task, so whatever it waits for must wake the
//! last one that polled it: promises do, and [`super::clock::sleep_ms`] does.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use worker::wasm_bindgen::JsValue;
use worker::wasm_bindgen_futures::future_to_promise;

/// Returns what the future gives where it gives it without waiting, else a promise of it. A promise, its two closures,
/// a task and a microtask for each request were a quarter of the time of an answer from memory.
///
/// # Errors
/// What the future fails with.
pub fn at_once(
    future: impl Future<Output = Result<JsValue, JsValue>> + 'static,
) -> Result<JsValue, JsValue> {
    let mut future = Box::pin(future);
    // Whoever polls it next is told of what it waits for; nothing can happen before.
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Ok(future_to_promise(future).into()),
    }
}
