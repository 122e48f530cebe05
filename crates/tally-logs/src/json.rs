//! JSON objects of lines, and texts in them.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::hit::Unread;
use crate::text::unmarked;

/// A string of an object, borrowed where it has no escapes. (`Option<Cow<str>>` would always copy.)
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// Returns the struct that one JSON object holds. Strings without escapes are borrowed. A mark before it is none of it.
///
/// # Errors
/// For text that is no JSON, for values that are no object, and for objects that do not fit, which includes repeated
/// fields.
pub fn object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Unread> {
    let bytes = unmarked(bytes);
    // A derived struct would also be read from an array, by position.
    let first = bytes.trim_ascii_start().first();
    if first.is_none() {
        return Err(Unread::Empty);
    }
    if first != Some(&b'{') {
        return Err(match serde_json::from_slice::<IgnoredAny>(bytes) {
            Ok(_) => Unread::NoObject,
            Err(error) => Unread::Json(error),
        });
    }
    // UTF-8 is checked once for the whole text, so that strings need no checks of their own. Text that is not UTF-8 is
    // still parsed, so that the error names the place.
    let read = match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(bytes),
    };
    read.map_err(Unread::Json)
}

/// Returns a field's text; nothing for a field that is missing or of another type.
pub(crate) fn text_of(json: Option<&RawValue>) -> Cow<'_, str> {
    first_text(&[json]).unwrap_or_default()
}

/// Returns the text of the first of these fields that is a text.
pub(crate) fn first_text<'a>(fields: &[Option<&'a RawValue>]) -> Option<Cow<'a, str>> {
    let text = |json: &&'a RawValue| serde_json::from_str::<Text<'a>>(json.get()).ok();
    fields.iter().flatten().find_map(text).map(|text| text.0)
}

/// Returns a field's text or number, as text.
pub(crate) fn plain_of(json: Option<&RawValue>) -> &str {
    crate::time::unquoted(json.map_or("", RawValue::get))
}
