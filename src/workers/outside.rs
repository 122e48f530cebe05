//! Requests that leave the deployment. The platform resolves names and connects; it decides which addresses it
//! connects to besides.

use worker::js_sys::{Promise, Reflect, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;
use worker::web_sys::{Headers, RequestInit, Response};

use tally_protocol::alerts::Outgoing;

/// Redirects come back as they are: following one would go where nobody has looked.
const REDIRECT: &str = "manual";

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_name = fetch)]
    fn fetch_outside(url: &str, init: &RequestInit) -> Result<Promise, JsValue>;

    type Body;

    #[wasm_bindgen(method, catch)]
    fn cancel(this: &Body) -> Result<Promise, JsValue>;

    type WithBody;

    #[wasm_bindgen(method, getter)]
    fn body(this: &WithBody) -> Option<Body>;
}

/// POSTs, and returns the status of the answer, whose body is not read.
pub(super) async fn post(request: Outgoing) -> Result<u16, JsValue> {
    let headers = Headers::new()?;
    for (name, value) in &request.headers {
        headers.set(name, value)?;
    }
    let init = RequestInit::new();
    init.set_method("POST");
    init.set_headers(&headers);
    init.set_body(&Uint8Array::from(request.body.as_slice()));
    Reflect::set(&init, &"redirect".into(), &REDIRECT.into())?;
    let answered = JsFuture::from(fetch_outside(&request.url, &init)?).await?;
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
