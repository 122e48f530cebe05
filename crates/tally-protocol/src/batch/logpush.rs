//! Lines of Cloudflare Logpush, and NDJSON lines of `/ingest`. Of a line of Logpush only the few fields that are
//! counted are read, whatever else it holds. An NDJSON line is an event, and is read as strictly as one.
//!
//! No line counts at a time that it does not state: a line of Logpush needs its timestamp.
//! Source: Cloudflare, "Logpush: HTTP requests dataset" and "Logpush: HTTP destination".

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

use super::super::dimensions::{ByWire, refuse_auto};
use super::super::problem::{Code, Problem};
use super::BulkRecord;
use super::by::AUTO;
use super::civil::parse_rfc3339;
use super::clf::path_of;
use super::event::{check_event_id, check_unique, delta_or_one, milliseconds_of};
use super::ingest::UniqueField;
use super::json::{Text, bytes_of, present, read_object};
use super::log_fields::LoggedRequest;
use tally_core::counter::dimensions::Dimensions;

/// What is counted of a Logpush line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogpushLine<'a> {
    /// `ClientRequestPath`, or `ClientRequestURI` without its query.
    pub path: Cow<'a, str>,
    /// `ClientIP`; `None` where missing or empty.
    pub address: Option<Cow<'a, str>>,
    /// `EdgeStartTimestamp`, in unix milliseconds.
    pub at_ms: i64,
    /// `EdgeColoCode`: the datacenter that answered the request.
    pub colo: Option<Cow<'a, str>>,
    /// The fields about its request.
    said: RequestFields<'a>,
}

/// The fields of a line of Logpush about its request, as JSON. A field that is missing or of another type is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RequestFields<'a> {
    target: Cow<'a, str>,
    method: Cow<'a, str>,
    status: &'a str,
    referrer: Cow<'a, str>,
    user_agent: Cow<'a, str>,
    country: Cow<'a, str>,
}

fn text_of(json: Option<&RawValue>) -> Cow<'_, str> {
    let text = json.and_then(|json| serde_json::from_str::<Text<'_>>(json.get()).ok());
    text.map(|text| text.0).unwrap_or_default()
}

#[derive(Deserialize)]
struct LogpushWire<'a> {
    #[serde(borrow, rename = "ClientRequestPath")]
    path: Option<Text<'a>>,
    #[serde(borrow, rename = "ClientRequestURI")]
    uri: Option<Text<'a>>,
    #[serde(borrow, rename = "ClientIP")]
    address: Option<Text<'a>>,
    #[serde(borrow, rename = "EdgeStartTimestamp")]
    start: Option<&'a RawValue>,
    #[serde(borrow, rename = "EdgeColoCode")]
    colo: Option<Text<'a>>,
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
}

impl<'a> LogpushLine<'a> {
    /// Returns one line; `None` for `{"content":"tests"}`, by which Logpush checks a destination.
    ///
    /// # Errors
    /// `invalid-json` and `invalid-body` as of any JSON, `invalid-line` that names what is missing.
    pub fn parse(json: &'a [u8]) -> Result<Option<Self>, Problem> {
        let wire: LogpushWire<'a> = read_object(json)?;
        let target = wire.uri.as_ref().or(wire.path.as_ref());
        let said = RequestFields {
            target: target.map(|text| text.0.clone()).unwrap_or_default(),
            method: text_of(wire.method),
            status: wire.status.map_or("", RawValue::get),
            referrer: text_of(wire.referrer),
            user_agent: text_of(wire.user_agent),
            country: text_of(wire.country),
        };
        let path = match (wire.path, wire.uri) {
            (Some(path), _) if !path.0.is_empty() => path.0,
            (_, Some(uri)) if !uri.0.is_empty() => without_query(uri.0),
            _ if wire
                .content
                .is_some_and(|content| content.get() == "\"tests\"") =>
            {
                return Ok(None);
            }
            _ => {
                return Err(refused(
                    "the line has neither `ClientRequestPath` nor `ClientRequestURI`",
                ));
            }
        };
        let start = wire.start.ok_or_else(|| {
            refused("the line has no `EdgeStartTimestamp`: add this field to the Logpush job")
        })?;
        let at_ms = parse_timestamp(start.get())
            .ok_or_else(|| refused("`EdgeStartTimestamp` is neither RFC 3339 nor a unix time"))?;
        let filled =
            |text: Option<Text<'a>>| text.map(|text| text.0).filter(|text| !text.is_empty());
        Ok(Some(Self {
            path,
            address: filled(wire.address),
            at_ms,
            colo: filled(wire.colo),
            said,
        }))
    }

    /// Returns the request that the line describes.
    pub fn hit(&self) -> LoggedRequest<'_> {
        let RequestFields {
            target,
            method,
            status,
            referrer,
            user_agent,
            country,
        } = &self.said;
        LoggedRequest {
            target,
            method,
            status,
            referrer,
            user_agent,
            country,
        }
    }

    /// Returns the line as a record that counts its path once.
    pub fn record(self, unique: UniqueField) -> BulkRecord<'a> {
        let unique = self
            .address
            .filter(|_| unique == UniqueField::Ip)
            .map(bytes_of);
        BulkRecord {
            key: self.path,
            delta: 1,
            unique,
            at_ms: Some(self.at_ms),
            id: None,
            sample: None,
            dimensions: Dimensions::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NdjsonWire<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    key: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    increment: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    unique: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    ip: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    at: Option<u64>,
    #[serde(borrow, default, deserialize_with = "present")]
    time: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    by: Option<ByWire<'a>>,
}

/// Returns one NDJSON line of `/ingest`: an event whose counter is `key`, or `path` without its query;
/// whose element is `unique`, or `ip` where the query asks for it; and whose time is `at` in unix
/// milliseconds, or `time` in RFC 3339. `increment`, `id` and `by` are as of an event.
///
/// # Errors
/// As [`super::event::parse_line`]; `invalid-body` also where both names of a field are given.
pub fn parse_ndjson(json: &[u8], unique_field: UniqueField) -> Result<BulkRecord<'_>, Problem> {
    let wire: NdjsonWire<'_> = read_object(json)?;
    let key = match either("key", wire.key, "path", wire.path)? {
        Either::First(key) => key.0,
        Either::Second(path) => without_query(path.0),
        Either::Neither => return Err(unfit("`key` or `path` is needed")),
    };
    let delta = delta_or_one(wire.increment)?;
    let unique = match either("unique", wire.unique, "ip", wire.ip)? {
        Either::First(unique) => Some(unique),
        Either::Second(address) => Some(address).filter(|_| unique_field == UniqueField::Ip),
        Either::Neither => None,
    };
    check_unique(unique.as_ref())?;
    if unique.as_ref().is_some_and(|unique| unique.0 == AUTO) {
        return Err(unfit(
            "`\"unique\":\"auto\"` is for visitors of today: send such lines to /events",
        ));
    }
    check_event_id(wire.id.as_ref())?;
    let dimensions = ByWire::read(wire.by.as_ref())?;
    refuse_auto(&dimensions)?;
    let at_ms = match either("at", wire.at, "time", wire.time)? {
        Either::First(at) => Some(milliseconds_of(at)),
        Either::Second(time) => {
            Some(parse_rfc3339(&time.0).ok_or_else(|| unfit("`time` is not an RFC 3339 time"))?)
        }
        Either::Neither => None,
    };
    let unique = unique.map(|text| bytes_of(text.0));
    Ok(BulkRecord {
        key,
        delta,
        unique,
        at_ms,
        id: wire.id.map(|text| text.0),
        sample: None,
        dimensions,
    })
}

enum Either<A, B> {
    First(A),
    Second(B),
    Neither,
}

fn either<A, B>(
    first_name: &str,
    first: Option<A>,
    second_name: &str,
    second: Option<B>,
) -> Result<Either<A, B>, Problem> {
    match (first, second) {
        (Some(_), Some(_)) => Err(unfit(&format!(
            "give `{first_name}` or `{second_name}`, not both"
        ))),
        (Some(first), None) => Ok(Either::First(first)),
        (None, Some(second)) => Ok(Either::Second(second)),
        (None, None) => Ok(Either::Neither),
    }
}

/// Returns the unix milliseconds of a JSON value: RFC 3339, or a number (or its string) whose size tells its unit.
/// Seconds end at 10^11 (the year 5138), where milliseconds begin; microseconds begin at 10^14 and nanoseconds at
/// 10^17: each in March 1973. Finer parts are cut off.
pub fn parse_timestamp(json: &str) -> Option<i64> {
    let text = json
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(json);
    if let Some(at_ms) = parse_rfc3339(text) {
        return Some(at_ms);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    match whole.parse::<i64>().ok()? {
        seconds @ 0..100_000_000_000 => Some(seconds * 1000 + milliseconds(fraction)),
        at_ms @ 100_000_000_000..100_000_000_000_000 => Some(at_ms),
        microseconds @ 100_000_000_000_000..100_000_000_000_000_000 => Some(microseconds / 1000),
        nanoseconds => Some(nanoseconds / 1_000_000),
    }
}

/// Returns the first three digits of a fraction as milliseconds.
fn milliseconds(fraction: &str) -> i64 {
    fraction
        .bytes()
        .chain(*b"000")
        .take(3)
        .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
}

fn without_query(target: Cow<'_, str>) -> Cow<'_, str> {
    let bytes = path_of(target.as_bytes()).len();
    match target {
        Cow::Borrowed(target) => Cow::Borrowed(target.get(..bytes).unwrap_or(target)),
        Cow::Owned(mut target) => {
            target.truncate(bytes);
            Cow::Owned(target)
        }
    }
}

fn refused(why: &str) -> Problem {
    Problem::new(Code::InvalidLine, why)
}

fn unfit(why: &str) -> Problem {
    Problem::new(Code::InvalidBody, why)
}
