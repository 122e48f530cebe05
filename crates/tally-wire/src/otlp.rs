//! Where the metrics of a deployment are pushed: the settings of OTLP/HTTP.
//!
//! Invariant: what is read here goes into a request as it is. So a name of a header is a token that Tally does not set
//! itself, and a value has no control characters.

use crate::segment::percent_decoded;

/// The most pairs of a setting, and its longest text, bytes.
const PAIRS_MAX: usize = 16;
const TEXT_BYTES_MAX: usize = 4_096;

/// Headers that a request has by itself.
const OWN_HEADERS: [&str; 10] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Reads pairs such as `authorization=Basic%20abc,x-scope=1`. Source: W3C Baggage, as `OTEL_EXPORTER_OTLP_HEADERS` and
/// `OTEL_RESOURCE_ATTRIBUTES` use it: values are percent-encoded.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let read = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let (value, has_bare) = percent_decoded(value.trim());
        let (name, value) = (name.trim(), String::from_utf8(value).ok()?);
        let is_plain = !name.is_empty() && !value.chars().any(char::is_control);
        (!has_bare && is_plain).then(|| (name.to_owned(), value))
    };
    let pairs: Vec<_> = text.split(',').map(read).collect::<Option<_>>()?;
    (pairs.len() <= PAIRS_MAX).then_some(pairs)
}

/// The headers of a push, with lower-case names; `None` where the text has no such pairs.
pub fn headers(text: &str) -> Option<Vec<(String, String)>> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let mut pairs = pairs(text)?;
    for (name, value) in &mut pairs {
        name.make_ascii_lowercase();
        let is_free = !OWN_HEADERS.contains(&name.as_str());
        if !is_free || !name.bytes().all(is_token) || !value.is_ascii() {
            return None;
        }
    }
    Some(pairs)
}

/// The attributes of the resource; `None` where the text has no such pairs.
pub fn attributes(text: &str) -> Option<Vec<(String, String)>> {
    pairs(text)
}
