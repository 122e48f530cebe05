//! Settings as the platform has them: variables and secrets of the environment of a Worker.

use worker::Env;
use worker::js_sys::{JSON, Reflect};
use worker::wasm_bindgen::JsValue;

/// Plain workerd passes a variable that is not set as `null`, on which the SDK's own getter throws. A value that a
/// configuration has without quotes is a number or an object: its JSON is the text.
pub(super) fn read(env: &Env, name: &str) -> Option<String> {
    let value = Reflect::get(env, &JsValue::from_str(name)).ok()?;
    if value.is_undefined() || value.is_null() {
        return None;
    }
    match value.as_string() {
        Some(text) => Some(text),
        None => JSON::stringify(&value).ok()?.as_string(),
    }
}
