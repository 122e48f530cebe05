//! JSON objects of lines, and texts in them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::hit::Unread;
use crate::text::unmarked;

/// A string of an object, borrowed where it has no escapes. (`Option<Cow<str>>` would always copy.)
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// The text of a field that a line may lack: a string, or the first string of a list. `None` for another type.
#[derive(Default)]
pub(crate) struct FirstText<'a>(pub(crate) Option<Cow<'a, str>>);

/// The object of a field that a line may lack. `None` for another type.
pub(crate) struct Object<T>(pub(crate) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// What is read of a value of any type: nothing, unless an implementation says otherwise.
trait OfAny<'de>: Default {
    fn of_text(_: Cow<'de, str>) -> Self {
        Self::default()
    }

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    fn of_object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

impl<'de> OfAny<'de> for FirstText<'de> {
    fn of_text(text: Cow<'de, str>) -> Self {
        Self(Some(text))
    }

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut first = None;
        while let Some(FirstText(text)) = list.next_element()? {
            first = first.or(text);
        }
        Ok(Self(first))
    }
}

impl<'de, T: Deserialize<'de>> OfAny<'de> for Object<T> {
    fn of_object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|read| Self(Some(read)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for FirstText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let FirstText(text) = deserializer.deserialize_any(AnyValue(PhantomData))?;
        Ok(Self(text))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(PhantomData))
    }
}

struct AnyValue<T>(PhantomData<T>);

impl<'de, T: OfAny<'de>> Visitor<'de> for AnyValue<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<T, E> {
        Ok(T::of_text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::of_text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::of_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<T, A::Error> {
        T::of_object(object)
    }
}

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
