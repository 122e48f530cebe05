//! Where the platform enters: one module, two Workers, told apart by a variable.

use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::web_sys::{Request, Response};
use worker::{Context, Env, event, worker_sys};

use crate::aggregator::consumer::{MessageBatch, consume};
use crate::platform::setting::setting;
use crate::platform::turn::at_once;
use crate::protocol::names::{ROLE, ROLE_AGGREGATOR};
use crate::{aggregator, edge};

thread_local! {
    /// An isolate runs one Worker, so its role never changes.
    static IS_AGGREGATOR: std::cell::OnceCell<bool> = const { std::cell::OnceCell::new() };
}

#[event(start)]
fn start() {
    console_error_panic_hook::set_once();
}

/// A request. Not the SDK's macro, which makes a promise of every answer.
#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, wasm_bindgen_futures = worker::wasm_bindgen_futures, js_sys = worker::js_sys)]
pub fn fetch(request: Request, env: Env, context: worker_sys::Context) -> Result<JsValue, JsValue> {
    at_once(async move {
        let answered = answer(request, env, Context::new(context)).await;
        let response = answered.or_else(|error| {
            worker::console_error!("{error}");
            worker::Response::error("INTERNAL SERVER ERROR", 500).map(Response::from)
        });
        Ok(response?.into())
    })
}

async fn answer(request: Request, env: Env, context: Context) -> worker::Result<Response> {
    let is_aggregator = IS_AGGREGATOR.with(|known| {
        *known.get_or_init(|| setting(&env, ROLE).as_deref() == Some(ROLE_AGGREGATOR))
    });
    if is_aggregator {
        aggregator::fetch(request.into(), env)
            .await
            .map(Response::from)
    } else {
        edge::fetch(request, env, context).await
    }
}

/// A batch of the deployment's queue, where it has one. Not the SDK's macro, which ends the whole isolate where
/// a handler fails; this one cannot fail.
#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, wasm_bindgen_futures = worker::wasm_bindgen_futures, js_sys = worker::js_sys)]
pub async fn queue(batch: MessageBatch, env: Env, _context: JsValue) -> Result<JsValue, JsValue> {
    consume(&batch, &env).await;
    Ok(JsValue::UNDEFINED)
}
