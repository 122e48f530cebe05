//! The entry points of the platform: one module for two Workers, which a variable distinguishes. One Worker may also be
//! both: then its aggregator is an entrypoint of its own.

use std::cell::OnceCell;
use std::future::Future;
use std::task::{Poll, Waker};

use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::future_to_promise;
use worker::web_sys::{Request, Response, ResponseInit};
use worker::{Env, event, worker_sys};

use super::queue::{MessageBatch, complete, delivered};
use super::request::Incoming;
use super::{edge_host, host, messages, response};
use tally_host::Later;
use tally_host::http::{Background, Context};
use tally_wire::names::{ROLE, ROLE_AGGREGATOR};

thread_local! {
    /// What the default entrypoint of this isolate's Worker is: that never changes.
    static IS_AGGREGATOR: OnceCell<bool> = const { OnceCell::new() };
}

#[event(start)]
fn start() {
    console_error_panic_hook::set_once();
}

/// What lets work go on after a request was answered.
struct RequestContext(worker::Context);

impl Background for RequestContext {
    fn wait_until(&self, work: Later<()>) {
        self.0.wait_until(work);
    }
}

/// A request. Not the SDK's macro, which makes a promise of every answer.
#[wasm_bindgen(
    wasm_bindgen = worker::wasm_bindgen,
    wasm_bindgen_futures = worker::wasm_bindgen_futures,
    js_sys = worker::js_sys
)]
pub fn fetch(request: Request, env: Env, context: worker_sys::Context) -> Result<JsValue, JsValue> {
    let host = edge_host(env.clone());
    let is_aggregator = IS_AGGREGATOR.with(|known| {
        *known.get_or_init(|| host.setting(ROLE).as_deref() == Some(ROLE_AGGREGATOR))
    });
    if is_aggregator {
        return aggregate(request, env, context);
    }
    at_once(async move {
        let request = Box::new(Incoming::new(request));
        let answered = tally_edge::fetch(request, host, background(context)).await;
        answer(response::response(answered))
    })
}

/// A call of the edge to the aggregator.
#[wasm_bindgen(
    wasm_bindgen = worker::wasm_bindgen,
    wasm_bindgen_futures = worker::wasm_bindgen_futures,
    js_sys = worker::js_sys
)]
pub fn aggregate(
    request: Request,
    env: Env,
    context: worker_sys::Context,
) -> Result<JsValue, JsValue> {
    at_once(async move {
        let arrived = messages::read(&env, &request).await;
        let (host, background) = (host(env), background(context));
        let reply = match arrived {
            Ok(arrived) => tally_aggregator::answer(&host, &arrived, &background).await,
            Err(reply) => reply,
        };
        answer(messages::answer(reply))
    })
}

fn background(context: worker_sys::Context) -> Context {
    Context::new(std::rc::Rc::new(RequestContext(worker::Context::new(
        context,
    ))))
}

fn answer(answered: worker::Result<Response>) -> Result<JsValue, JsValue> {
    let response = answered.or_else(|error| {
        worker::console_error!("{error}");
        let init = ResponseInit::new();
        init.set_status(500);
        Response::new_with_opt_str_and_init(Some("INTERNAL SERVER ERROR"), &init)
    });
    Ok(response?.into())
}

/// A batch of the deployment's queue, where it has one. Not the SDK's macro, which ends the whole isolate where
/// a handler fails; this one cannot fail.
#[wasm_bindgen(
    wasm_bindgen = worker::wasm_bindgen,
    wasm_bindgen_futures = worker::wasm_bindgen_futures,
    js_sys = worker::js_sys
)]
pub async fn queue(batch: MessageBatch, env: Env, _context: JsValue) -> Result<JsValue, JsValue> {
    let outcomes = tally_aggregator::consumer::consume(&host(env), &delivered(&batch)).await;
    complete(&batch, outcomes);
    Ok(JsValue::UNDEFINED)
}

/// Returns the result of the future if it is ready without waiting, and otherwise a promise of it. A promise, its two
/// closures, a task and a microtask for each request were a quarter of the time of an answer from memory.
///
/// The future may be polled again by another task, so whatever it waits for must wake the last one that polled it:
/// promises do, and [`super::timer::Timer`] does.
fn at_once(
    future: impl Future<Output = Result<JsValue, JsValue>> + 'static,
) -> Result<JsValue, JsValue> {
    let mut future = Box::pin(future);
    // The next poll registers a waker; nothing can happen before that.
    match future
        .as_mut()
        .poll(&mut std::task::Context::from_waker(Waker::noop()))
    {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Ok(future_to_promise(future).into()),
    }
}
