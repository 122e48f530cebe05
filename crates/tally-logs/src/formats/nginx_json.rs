//! JSON lines of nginx, by the names that its documentation gives its variables, and those that many a `log_format …
//! escape=json` uses. `uri`, `url` and `path` are no targets: where they are `$uri`, they are decoded and rewritten.
//!
//! Identified by `request_uri` or `request`, with a time (`time_iso8601`, `time_local`, `msec`, `time`, `@timestamp` or
//! `timestamp`) and a `status`. The first of these fields that holds a time counts: many configurations write the
//! duration of the request as `time`. Source: nginx, "ngx_http_log_module" and "Alphabetical index of variables".

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::clf::target_of;
use crate::hit::{Hit, Unread, said, visitor};
use crate::json::{FirstText, first_text, object, plain_of, text_of};
use crate::text::hex;
use crate::time::parse_any;

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    request_uri: FirstText<'a>,
    #[serde(borrow, default)]
    request: FirstText<'a>,
    #[serde(borrow)]
    request_method: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    http_method: Option<&'a RawValue>,
    #[serde(borrow)]
    time_iso8601: Option<&'a RawValue>,
    #[serde(borrow)]
    time_local: Option<&'a RawValue>,
    #[serde(borrow)]
    msec: Option<&'a RawValue>,
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow, rename = "@timestamp")]
    at_timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    remote_addr: Option<&'a RawValue>,
    #[serde(borrow)]
    remote_ip: Option<&'a RawValue>,
    #[serde(borrow)]
    client_ip: Option<&'a RawValue>,
    #[serde(borrow)]
    clientip: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    http_referer: Option<&'a RawValue>,
    #[serde(borrow)]
    http_referrer: Option<&'a RawValue>,
    #[serde(borrow)]
    referer: Option<&'a RawValue>,
    #[serde(borrow)]
    referrer: Option<&'a RawValue>,
    #[serde(borrow)]
    http_user_agent: Option<&'a RawValue>,
    #[serde(borrow)]
    user_agent: Option<&'a RawValue>,
    #[serde(borrow)]
    useragent: Option<&'a RawValue>,
    #[serde(borrow)]
    agent: Option<&'a RawValue>,
    #[serde(borrow)]
    ua: Option<&'a RawValue>,
}

/// Returns the request of a line. nginx escapes no byte above 127, so a line may not be UTF-8: a byte that is no text
/// becomes a mark, as in a log of Caddy. A `log_format` without `escape=json` writes `\x22` for a quote.
///
/// # Errors
/// [`Unread`] that says what is missing.
pub fn read(line: &[u8]) -> Result<Option<Hit<'_>>, Unread> {
    let read = read_utf8(line);
    let bytes = unescaped_hex(line);
    if read.is_ok() || (matches!(bytes, Cow::Borrowed(_)) && std::str::from_utf8(line).is_ok()) {
        return read;
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(read_utf8(text.as_bytes())?.map(Hit::into_owned))
}

/// Returns a line whose `\xHH`, which JSON does not know, are bytes, or escapes of JSON for those that JSON escapes.
fn unescaped_hex(line: &[u8]) -> Cow<'_, [u8]> {
    if !line.windows(2).any(|pair| pair == b"\\x") {
        return Cow::Borrowed(line);
    }
    let (mut whole, mut rest) = (Vec::with_capacity(line.len()), line);
    while let Some((byte, mut after)) = rest.split_first() {
        match (byte, after) {
            (b'\\', [b'x', high, low, behind @ ..]) => {
                match hex(*high, *low) {
                    Some(byte) if byte < b' ' || matches!(byte, b'"' | b'\\') => {
                        whole.extend([b'\\', b'u', b'0', b'0', *high, *low]);
                    }
                    Some(byte) => whole.push(byte),
                    None => whole.extend([b'\\', b'x', *high, *low]),
                }
                after = behind;
            }
            (b'\\', [sign, behind @ ..]) => {
                whole.extend([b'\\', *sign]);
                after = behind;
            }
            _ => whole.push(*byte),
        }
        rest = after;
    }
    Cow::Owned(whole)
}

/// Returns the time of the first field that holds one.
fn at_ms(wire: &Wire<'_>) -> Result<i64, Unread> {
    let times = [
        wire.time_iso8601,
        wire.time_local,
        wire.msec,
        wire.time,
        wire.at_timestamp,
        wire.timestamp,
    ];
    // JSON may write a slash as `\/`.
    times
        .into_iter()
        .flatten()
        .find_map(|json| {
            parse_any(&text_of(Some(json))).or_else(|| parse_any(plain_of(Some(json))))
        })
        .ok_or(Unread::Why(
            "none of `time_iso8601`, `time_local`, `msec`, `time`, `@timestamp` and `timestamp` holds a real date or \
             a unix time since 1990",
        ))
}

fn read_utf8(line: &[u8]) -> Result<Option<Hit<'_>>, Unread> {
    let wire: Wire<'_> = object(line)?;
    let at_ms = at_ms(&wire)?;
    let (uri, request) = (wire.request_uri.0, wire.request.0);
    if wire.status.is_none() || (request.is_none() && uri.is_none()) {
        return Err(Unread::Why(
            "the line has no `request` and no `request_uri`, or no `status`",
        ));
    }
    let request = request.unwrap_or_default();
    let words =
        target_of(request.as_bytes()).map(|target| String::from_utf8_lossy(target).into_owned());
    let target = match uri.filter(|uri| !uri.is_empty()) {
        Some(uri) => Ok(uri),
        None => words.map(Cow::Owned),
    };
    let mut hit = Hit::at(at_ms, target);
    let address = [
        wire.remote_addr,
        wire.remote_ip,
        wire.client_ip,
        wire.clientip,
    ];
    hit.visitor = first_text(&address).and_then(|text| visitor(&text));
    hit.method = match first_text(&[wire.request_method, wire.method, wire.http_method]) {
        Some(method) => method,
        None if hit.target.is_ok() => Cow::Owned(
            request
                .trim_start()
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_owned(),
        ),
        None => Cow::Borrowed(""),
    };
    hit.status = Cow::Borrowed(plain_of(wire.status));
    let referrer = [
        wire.http_referer,
        wire.http_referrer,
        wire.referer,
        wire.referrer,
    ];
    hit.referrer = said(first_text(&referrer).unwrap_or_default());
    let user_agent = [
        wire.http_user_agent,
        wire.user_agent,
        wire.useragent,
        wire.agent,
        wire.ua,
    ];
    hit.user_agent = first_text(&user_agent).map(said);
    Ok(Some(hit))
}
