//! Settings of the deployment: variables and secrets, as text.

use worker::js_sys::Reflect;
use worker::{Env, wasm_bindgen::JsValue};

/// A setting; `None` where it is not set. A call into JavaScript, so what is asked for by every request is read once.
///
/// A variable that plain workerd takes from an environment which has none is `null`, and the SDK's own way to one throws
/// at that: every request then failed, without a word why.
pub fn setting(env: &Env, name: &str) -> Option<String> {
    Reflect::get(env, &JsValue::from_str(name))
        .ok()?
        .as_string()
}

/// A setting that is a number; `None` where it is not set, or none.
pub fn number<T: std::str::FromStr>(env: &Env, name: &str) -> Option<T> {
    setting(env, name)?.parse().ok()
}
