//! JSON objects into structs, and JSON errors into problems. How much of the input an error repeats is bounded.

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;

use tally_logs::hit::Unread;
pub(crate) use tally_logs::json::Text;
use tally_logs::json::object;
use tally_logs::time::{TIMES, parse_time};
use tally_wire::problem::{Code, Problem};

/// The longest detail of a JSON error, in characters. Errors quote the input, and one answer carries 100 of them: 100 *
/// 256 = 25,600 characters, instead of 100 records of 64 KiB.
pub const DETAIL_CHARS_MAX: usize = 256;

/// Returns the struct that one JSON object holds. Strings without escapes are borrowed.
///
/// # Errors
/// `invalid-json` for malformed JSON, `unknown-field` (it is named) and `invalid-body` for anything else
/// that does not fit, which includes repeated fields and values that are not an object.
pub fn read_object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    object(bytes).map_err(|unread| problem_of_line(&unread))
}

/// Returns what an unreadable line means to a caller.
pub fn problem_of_line(unread: &Unread) -> Problem {
    match unread {
        Unread::Why(why) => Problem::new(Code::InvalidLine, *why),
        Unread::NotUtf8 => Problem::new(Code::InvalidId, "the request target is not UTF-8"),
        Unread::Empty => Problem::new(Code::InvalidJson, "there is none: send an object: `{…}`"),
        Unread::NoObject => Problem::new(Code::InvalidBody, "send an object: `{…}`"),
        Unread::Json(error) => problem_of(error),
    }
}

/// Returns what a JSON error means to a caller, with the place of the fault in the value.
pub fn problem_of(error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let message = &*without_place(error);
    let code = match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => Code::InvalidJson,
        Category::Data if message.starts_with("unknown field `") => Code::UnknownField,
        Category::Data => Code::InvalidBody,
    };
    let message = in_words(message);
    let mut detail: String = message.chars().take(DETAIL_CHARS_MAX).collect();
    if detail.len() < message.len() {
        detail.push('…');
    }
    match (line, column) {
        (0, _) => {}
        // A record has a line number of its own, so "line 1" would mislead.
        (1, _) => detail.push_str(&format!(" (column {column})")),
        _ => detail.push_str(&format!(" (line {line} of the value, column {column})")),
    }
    Problem::new(code, detail)
}

/// What an error says, without the place in the value.
fn without_place(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let whole = error.to_string();
    whole.strip_suffix(&place).unwrap_or(&whole).to_owned()
}

/// A message without the names of Rust types.
fn in_words(message: &str) -> Cow<'_, str> {
    const EXPECTED: &str = "expected ";
    let Some((start, expected)) = message.rsplit_once(EXPECTED) else {
        return message.into();
    };
    let words = match expected {
        "u32" | "u64" => "a whole number, not negative",
        "i64" => "a whole number",
        "f64" => "a number",
        _ if expected.starts_with("struct ") => "an object",
        _ => return message.into(),
    };
    [start, EXPECTED, words].concat().into()
}

/// Reads a field that may be missing but not `null`: a `null` from a broken client must not count as the default.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// A whole number in any form that JSON allows: `60`, `60.0` and `6e1` are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WholeNumber(pub(crate) u64);

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = WholeNumber;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a whole number from 0 to 2^64 - 1")
            }

            fn visit_u64<E>(self, number: u64) -> Result<WholeNumber, E> {
                Ok(WholeNumber(number))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<WholeNumber, E> {
                // Without a sign before 0. A whole number is written without a point.
                let whole = format!("{}", number + 0.0).parse().ok().map(WholeNumber);
                whole.ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
            }
        }

        // Of what an untagged enum has read, `deserialize_u64` takes no float.
        deserializer.deserialize_f64(Number)
    }
}

/// A number, as the double nearest to its text. `serde_json` reads a tenth of all doubles as a neighbouring double.
/// A number beyond all doubles is infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Real(pub(crate) f64);

impl<'de> Deserialize<'de> for Real {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        match text.parse::<f64>() {
            Ok(number) if is_number => Ok(Self(number)),
            // The same words as for every other field of the wrong type.
            _ => serde_json::from_str::<f64>(text)
                .map(Self)
                .map_err(|error| de::Error::custom(without_place(&error))),
        }
    }
}

/// A time of an export, in unix milliseconds, in any form of [`WholeNumber`]. A time above 63 bits
/// becomes the largest that they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentMoment(pub(crate) i64);

impl<'de> Deserialize<'de> for SentMoment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WholeNumber(at) = WholeNumber::deserialize(deserializer)?;
        Ok(Self(i64::try_from(at).unwrap_or(i64::MAX)))
    }
}

/// A time in a body, in unix milliseconds: a date, a time of RFC 3339, or unix seconds, as in queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) i64);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Given;

        impl Visitor<'_> for Given {
            type Value = Time;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(TIMES)
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Time, E> {
                let time = parse_time(&seconds.to_string(), false).map(Time);
                time.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(seconds), &self))
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Time, E> {
                let time = parse_time(&(seconds + 0.0).to_string(), false).map(Time);
                time.ok_or_else(|| E::invalid_value(de::Unexpected::Float(seconds), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                let time = parse_time(text, false).map(Time);
                time.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Given)
    }
}

/// Returns the string's bytes, borrowed where it is.
pub(crate) fn bytes_of(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// Writing the types of answers cannot fail; if it did, a test would see the empty object.
pub(crate) fn to_json<T: Serialize>(view: &T) -> String {
    serde_json::to_string(view).unwrap_or_else(|_| "{}".to_owned())
}
