//! Lines of Cloudflare Logpush. Only the few fields that are counted are read, whatever else a line holds.
//!
//! Identified by `ClientRequestURI` or `ClientRequestPath`, with `EdgeStartTimestamp`: no line counts at a time that it
//! does not state. What a Worker fetches on its way is no request of a client (`WorkerSubrequest`, and a
//! `ClientRequestSource` of `edgeWorker…`). Source: Cloudflare, "Logpush: HTTP requests dataset" and "Logpush: HTTP
//! destination".

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hit::{Hit, Unread, said, visitor};
use crate::json::{Text, object, plain_of, text_of};
use crate::time::parse_timestamp;

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, rename = "ClientRequestPath")]
    path: Option<Text<'a>>,
    #[serde(borrow, rename = "ClientRequestURI")]
    uri: Option<Text<'a>>,
    #[serde(borrow, rename = "ClientIP")]
    address: Option<&'a RawValue>,
    #[serde(borrow, rename = "EdgeStartTimestamp")]
    start: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow, rename = "ClientRequestMethod")]
    method: Option<&'a RawValue>,
    #[serde(borrow, rename = "EdgeResponseStatus")]
    status: Option<&'a RawValue>,
    #[serde(borrow, rename = "ClientRequestReferer")]
    referrer: Option<&'a RawValue>,
    #[serde(borrow, rename = "ClientRequestUserAgent")]
    user_agent: Option<&'a RawValue>,
    #[serde(borrow, rename = "ClientCountry")]
    country: Option<&'a RawValue>,
    #[serde(borrow, rename = "ClientRequestSource")]
    source: Option<&'a RawValue>,
    #[serde(borrow, rename = "WorkerSubrequest")]
    subrequest: Option<&'a RawValue>,
}

/// Returns the request of a line; `None` for a line that is no request of a client, such as `{"content":"tests"}`, by
/// which Logpush checks a destination.
///
/// # Errors
/// [`Unread`] that says what is missing.
pub fn read<'a>(line: &'a [u8]) -> Result<Option<Hit<'a>>, Unread> {
    let wire: Wire<'a> = object(line)?;
    let filled = |text: Option<Text<'a>>| text.map(|text| text.0).filter(|text| !text.is_empty());
    let (path, uri) = (filled(wire.path), filled(wire.uri));
    let Some(target) = uri.or_else(|| path.clone()) else {
        return match plain_of(wire.content) {
            "tests" => Ok(None),
            _ => Err(Unread::Why(
                "the line has neither `ClientRequestPath` nor `ClientRequestURI`",
            )),
        };
    };
    if plain_of(wire.subrequest) == "true" || plain_of(wire.source).starts_with("edgeWorker") {
        return Ok(None);
    }
    let start = wire.start.ok_or(Unread::Why(
        "the line has no `EdgeStartTimestamp`: add this field to the Logpush job",
    ))?;
    let at_ms = parse_timestamp(start.get()).ok_or(Unread::Why(
        "`EdgeStartTimestamp` is neither RFC 3339 nor a unix time since 1990",
    ))?;
    let mut hit = Hit::at(at_ms, Ok(target));
    hit.path = path.filter(|_| hit.target.is_ok());
    hit.visitor = visitor(&text_of(wire.address));
    hit.method = text_of(wire.method);
    hit.status = Cow::Borrowed(plain_of(wire.status));
    hit.referrer = said(text_of(wire.referrer));
    hit.user_agent = wire.user_agent.map(|json| said(text_of(Some(json))));
    hit.country = said(text_of(wire.country));
    Ok(Some(hit))
}
