//! Requests that leave the deployment. The platform resolves names and connects; it decides which addresses it
//! connects to besides.

use worker::Env;
use worker::js_sys::{Promise, Reflect, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;
use worker::web_sys::{Headers, RequestInit, Response};

use tally_wire::alerts::Outgoing;
use tally_wire::alerts::webhook::Reach;
use tally_wire::names::NAMED_HOSTS;

/// Redirects come back as they are: following one would go where nobody has looked.
const REDIRECT: &str = "manual";

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_name = fetch)]
    fn fetch_outside(url: &str, init: &RequestInit) -> Result<Promise, JsValue>;

    /// A network of the platform.
    pub(super) type Network;

    #[wasm_bindgen(method, catch)]
    fn fetch(this: &Network, url: &str, init: &RequestInit) -> Result<Promise, JsValue>;

    type Body;

    #[wasm_bindgen(method, catch)]
    fn cancel(this: &Body) -> Result<Promise, JsValue>;

    type WithBody;

    #[wasm_bindgen(method, getter)]
    fn body(this: &WithBody) -> Option<Body>;
}

/// The network of the hosts that the operator names; `None` where the platform has no such network.
pub(super) fn bound(env: &Env) -> Option<Network> {
    let value = Reflect::get(env, &JsValue::from_str(NAMED_HOSTS)).ok()?;
    value.is_object().then(|| value.unchecked_into())
}

/// POSTs, and returns the status of the answer, whose body is not read. `named`: the network of the hosts that the
/// operator names.
pub(super) async fn post(request: Outgoing, named: Option<Network>) -> Result<u16, JsValue> {
    let headers = Headers::new()?;
    for (name, value) in &request.headers {
        headers.set(name, value)?;
    }
    let init = RequestInit::new();
    init.set_method("POST");
    init.set_headers(&headers);
    init.set_body(&Uint8Array::from(request.body.as_slice()));
    Reflect::set(&init, &"redirect".into(), &REDIRECT.into())?;
    let answered = match named.filter(|_| request.reach == Reach::Named) {
        Some(network) => network.fetch(&request.url, &init)?,
        None => fetch_outside(&request.url, &init)?,
    };
    let answered = JsFuture::from(answered).await?;
    let response: Response = answered.unchecked_into();
    let status = response.status();
    let with_body: WithBody = response.unchecked_into();
    if let Some(body) = with_body.body() {
        // A body that nobody reads holds its connection.
        JsFuture::from(body.cancel()?).await?;
    }
    Ok(status)
}

/// What a failure says, without the address: that may be secret.
pub(super) fn said(error: &JsValue) -> String {
    let message = Reflect::get(error, &"message".into()).ok();
    let text = message.and_then(|message| message.as_string());
    text.unwrap_or_else(|| "the connection failed".to_owned())
}
