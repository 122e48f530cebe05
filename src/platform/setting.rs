//! Settings of the deployment: variables and secrets, as text.

use worker::js_sys::{JSON, Reflect};
use worker::{Env, wasm_bindgen::JsValue};

use crate::protocol::problem::Problem;
use crate::protocol::settings;

/// A setting, without white space around it; `None` where it is not set, or empty. A call into JavaScript, so what is asked for by
/// every request is read once.
///
/// A variable that plain workerd takes from an environment which has none is `null`, and the SDK's own way to one throws
/// at that: every request then failed, without a word why. One that a configuration says without quotes is a number, or an
/// object: its JSON is the text.
pub fn setting(env: &Env, name: &str) -> Option<String> {
    let value = Reflect::get(env, &JsValue::from_str(name)).ok()?;
    if value.is_undefined() || value.is_null() {
        return None;
    }
    let text = match value.as_string() {
        Some(text) => text,
        None => JSON::stringify(&value).ok()?.as_string()?,
    };
    // Some editors write a byte order mark into a file of keys.
    let text = text.trim_start_matches('\u{feff}').trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A setting that is a number; `None` where it is not set, or may not be so.
pub fn number<T: TryFrom<u64>>(env: &Env, name: &str) -> Option<T> {
    let number = settings::number(name, &setting(env, name)?)?;
    number.try_into().ok()
}

/// Nothing where all settings of this Worker may be so.
///
/// # Errors
/// `not-configured`, see [`settings::check_all`].
pub fn check_all(env: &Env) -> Result<(), Problem> {
    settings::check_all(|name| setting(env, name))
}
