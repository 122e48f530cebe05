//! Lines in Common and Combined Log Format: `address ident user [time] "request" status bytes …`.
//! A line counts if its time and its request can be read; the rest of it is ignored.
//!
//! The request is found by the `[time] "` before it. User names may hold spaces and brackets, but never a bare quote:
//! servers write a quote as `\"` or `\x22`. Source: Apache HTTP Server, "Log Files", Common Log Format and Combined Log
//! Format.

use std::borrow::Cow;

use super::super::problem::{Code, Problem};
use super::BulkRecord;
use super::civil::{CLF_TIME_BYTES, parse_clf_time};
use super::ingest::UniqueField;
use super::log_fields::LoggedRequest;
use tally_core::counter::dimensions::Dimensions;

/// What is counted of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// The request target without its query, as logged, not decoded.
    pub path: &'a str,
    /// The client's address or host name, as logged; `-` if it was not logged.
    pub address: &'a [u8],
    /// When the request came.
    pub unix_seconds: i64,
    /// The request, between its quotes.
    request: &'a [u8],
    /// What follows its closing quote.
    after: &'a [u8],
}

impl<'a> LogLine<'a> {
    /// Returns one line, without its newline.
    ///
    /// # Errors
    /// `invalid-line` that says what is missing; `invalid-id` where the path is not UTF-8.
    pub fn parse(line: &'a [u8]) -> Result<Self, Problem> {
        let address_bytes = line
            .iter()
            .position(|&byte| byte == b' ')
            .unwrap_or(line.len());
        let (address, rest) = line.split_at(address_bytes);
        let (unix_seconds, quoted) = find_request(rest).ok_or_else(|| {
            refused("there is no `[dd/Mon/yyyy:HH:MM:SS ±zzzz] \"` with a real time")
        })?;
        let request = until_quote(quoted).ok_or_else(|| {
            refused("the request has no closing quote, so its target may be cut off")
        })?;
        let path = path_of(target_of(request)?);
        let path = std::str::from_utf8(path)
            .map_err(|_| Problem::new(Code::InvalidId, "the request target is not UTF-8"))?;
        Ok(Self {
            path,
            address,
            unix_seconds,
            request,
            after: quoted.get(request.len() + 1..).unwrap_or_default(),
        })
    }

    /// Returns the request that the line describes. Common Log Format has no referrer and no user agent.
    pub fn hit(&self) -> LoggedRequest<'a> {
        let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).unwrap_or_default();
        let mut words = self.request.trim_ascii().split(|byte| *byte == b' ');
        let (status, rest) = status_of(self.after);
        let (referrer, rest) = quoted_text(rest);
        let (user_agent, _) = quoted_text(rest);
        LoggedRequest {
            target: text(target_of(self.request).unwrap_or_default()),
            method: text(words.next().unwrap_or_default()),
            status: text(status),
            referrer: text(referrer),
            user_agent: text(user_agent),
            country: "",
        }
    }

    /// Returns the line as a record that counts its path once.
    pub fn record(&self, unique: UniqueField) -> BulkRecord<'a> {
        let known = !matches!(self.address, b"" | b"-");
        let counted = unique == UniqueField::Ip && known;
        BulkRecord {
            key: Cow::Borrowed(self.path),
            delta: 1,
            unique: counted.then_some(Cow::Borrowed(self.address)),
            at_ms: self.unix_seconds.checked_mul(1000),
            id: None,
            sample: None,
            dimensions: Dimensions::default(),
        }
    }
}

/// Returns the status (the word after the request) and the text after it; nothing where that word is no number.
fn status_of(after: &[u8]) -> (&[u8], &[u8]) {
    let after = after.trim_ascii_start();
    let end = after.iter().position(|byte| *byte == b' ');
    let (status, rest) = after.split_at(end.unwrap_or(after.len()));
    match status.len() == 3 && status.iter().all(u8::is_ascii_digit) {
        true => (status, rest),
        false => (&[], rest),
    }
}

/// Returns what the next quotes hold, and what follows them.
fn quoted_text(text: &[u8]) -> (&[u8], &[u8]) {
    let open = text.iter().position(|byte| *byte == b'"');
    let rest = open
        .and_then(|open| text.get(open + 1..))
        .unwrap_or_default();
    match until_quote(rest) {
        Some(held) => (held, rest.get(held.len() + 1..).unwrap_or_default()),
        None => (&[], &[]),
    }
}

fn refused(why: &str) -> Problem {
    Problem::new(Code::InvalidLine, why)
}

/// Returns the time, and what follows the quote that opens the request.
fn find_request(line: &[u8]) -> Option<(i64, &[u8])> {
    const FIELD_BYTES: usize = CLF_TIME_BYTES + 4;
    line.windows(FIELD_BYTES)
        .enumerate()
        .find_map(|(at, field)| {
            let time = field.strip_prefix(b"[")?.strip_suffix(b"] \"")?;
            Some((parse_clf_time(time)?, line.get(at + FIELD_BYTES..)?))
        })
}

/// Returns the text before the closing quote. That is the first quote that is not escaped and is followed by a space or
/// by the end. If there is none (the target holds bare quotes, or the line is damaged), it is the first quote that is
/// not escaped.
fn until_quote(text: &[u8]) -> Option<&[u8]> {
    let mut first = None;
    let mut escaped = false;
    for (at, &byte) in text.iter().enumerate() {
        if escaped {
            escaped = false;
        } else if byte == b'\\' {
            escaped = true;
        } else if byte == b'"' {
            if matches!(text.get(at + 1), None | Some(b' ')) {
                return text.get(..at);
            }
            first = first.or(Some(at));
        }
    }
    text.get(..first?)
}

/// Returns the target of `METHOD target HTTP/x`: all that is between the first word and a last word
/// that begins with `HTTP/`, spaces included. HTTP/0.9 has no last word.
fn target_of(request: &[u8]) -> Result<&[u8], Problem> {
    let request = request.trim_ascii();
    if matches!(request, b"" | b"-") {
        return Err(refused("the request is empty: the client sent none"));
    }
    let method_bytes = request
        .iter()
        .position(|&byte| byte == b' ')
        .unwrap_or(request.len());
    let (method, rest) = request.split_at(method_bytes);
    if !method.iter().all(|&byte| is_token(byte)) {
        return Err(refused("the request does not begin with a method"));
    }
    let last_word = rest
        .iter()
        .rposition(|&byte| byte == b' ')
        .map_or(0, |space| space + 1);
    let target = match rest.split_at(last_word) {
        (target, protocol) if protocol.starts_with(b"HTTP/") => target,
        _ => rest,
    };
    match target.trim_ascii() {
        [] => Err(refused("the request has no target")),
        target => Ok(target),
    }
}

/// The bytes of a method (RFC 9110, section 5.6.2). A request with other bytes is no HTTP: TLS sent to a plain port,
/// for example, is logged as `\x16\x03\x01`.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns a target without its query.
pub(crate) fn path_of(target: &[u8]) -> &[u8] {
    let end = target
        .iter()
        .position(|&byte| byte == b'?')
        .unwrap_or(target.len());
    target.get(..end).unwrap_or_default()
}
