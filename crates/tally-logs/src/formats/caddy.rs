//! Lines of Caddy's JSON log.
//!
//! Identified by a logger of access logs, `http.log.access` or one below it. Caddy writes lines with the same `request`
//! as `http.log.error`, and with `debug` as `http.handlers.reverse_proxy`: they are about requests that have a line of
//! their own. A line without a logger, as of a changed encoder, is one of access if it has a status and no message but
//! `handled request`. Source: Caddy, "Log format" and "How logging works".

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hit::{Hit, Unread, said, visitor};
use crate::json::{FirstText, Object, Text, object, plain_of, text_of};
use crate::time::parse_any;

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    logger: Option<&'a RawValue>,
    #[serde(borrow)]
    msg: Option<&'a RawValue>,
    #[serde(borrow)]
    ts: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request: Object<Request<'a>>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    uri: Option<Text<'a>>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    client_ip: Option<&'a RawValue>,
    #[serde(borrow)]
    remote_ip: Option<&'a RawValue>,
    #[serde(borrow)]
    remote_addr: Option<&'a RawValue>,
    #[serde(borrow, default)]
    headers: Object<Headers<'a>>,
}

/// Caddy writes a header as a list. A filter of its configuration may write a text in its place.
#[derive(Deserialize)]
struct Headers<'a> {
    #[serde(borrow, default, rename = "Referer")]
    referrer: FirstText<'a>,
    #[serde(borrow, default, rename = "User-Agent")]
    user_agent: FirstText<'a>,
}

/// Returns the request of a line; `None` for a line of another logger.
///
/// # Errors
/// [`Unread`] that says what is missing.
pub fn read(line: &[u8]) -> Result<Option<Hit<'_>>, Unread> {
    let wire: Wire<'_> = object(line)?;
    let (logger, msg) = (text_of(wire.logger), text_of(wire.msg));
    let is_access = match wire.logger {
        Some(_) => logger == "http.log.access" || logger.starts_with("http.log.access."),
        None => wire.status.is_some() && (wire.msg.is_none() || msg == "handled request"),
    };
    let is_other = wire.ts.is_some() && (wire.logger.is_some() || wire.msg.is_some());
    if !is_access && is_other {
        return Ok(None);
    }
    let request = wire
        .request
        .0
        .filter(|_| is_access)
        .ok_or(Unread::Why("the line has no `request`, or no `status`"))?;
    let at_ms = parse_any(plain_of(wire.ts)).ok_or(Unread::Why(
        "`ts` is neither a real date nor a unix time since 1990",
    ))?;
    let uri = request.uri.map(|text| text.0);
    let mut hit = Hit::at(
        at_ms,
        uri.filter(|uri| !uri.is_empty())
            .ok_or("the request has no target"),
    );
    let address = request
        .client_ip
        .or(request.remote_ip)
        .or(request.remote_addr);
    hit.visitor = visitor(&text_of(address));
    hit.method = text_of(request.method);
    hit.status = Cow::Borrowed(plain_of(wire.status));
    if let Some(headers) = request.headers.0 {
        hit.referrer = said(headers.referrer.0.unwrap_or_default());
        hit.user_agent = Some(said(headers.user_agent.0.unwrap_or_default()));
    }
    Ok(Some(hit))
}
