//! One record of `/events`, and the body of one increment. A record is read whole, or it is refused and counts nothing:
//! unknown and repeated fields, `null` and other types are refused.
//!
//! An amount is read from its source text, so that it is exact beyond 2^53.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::BulkRecord;
use super::by::{AUTO, Actor};
use super::plain_event::PlainEvent;
use crate::bodies::ttl_of;
use crate::delta::delta_or_one;
use crate::dimensions::{ByWire, refuse_auto};
use crate::features::left_out;
use crate::json::Text;
use crate::json::{Real, Time, WholeNumber, bytes_of, present, read_object};
use tally_core::counter::dimensions::Dimensions;
use tally_core::counter::settings::TtlTerms;
use tally_core::counter::total::DELTA_MAX;
use tally_core::sketch::Sample;
use tally_logs::time::ms_of_seconds;
use tally_wire::problem::{Code, Problem};

/// The longest element that uniques are counted by, in bytes of UTF-8.
pub const UNIQUE_BYTES_MAX: usize = 1024;

/// The longest idempotency key of a record, in bytes of UTF-8.
pub const EVENT_ID_BYTES_MAX: usize = 255;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventWire<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, default, deserialize_with = "present")]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    unique: Option<Text<'a>>,
    /// When it happened, at most 5 s from the server's clock; now if not given.
    #[serde(default, deserialize_with = "present")]
    at: Option<Time>,
    /// The event's own idempotency key, which belongs to its counter.
    #[serde(borrow, default, deserialize_with = "present")]
    idempotency_key: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    sample: Option<Real>,
    #[serde(borrow, default, deserialize_with = "present")]
    by: Option<ByWire<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    bots: Option<Text<'a>>,
    /// The visitor's address: needed with `"unique":"auto"`, as the request is not the visitor's.
    #[serde(borrow, default, deserialize_with = "present")]
    ip: Option<Text<'a>>,
    /// The visitor's user agent: needed with `"unique":"auto"` and with `"bots":"ignore"`.
    #[serde(borrow, default, deserialize_with = "present")]
    user_agent: Option<Text<'a>>,
    /// The time to live of the counter, if this write creates it; a counter that exists keeps its own.
    #[serde(default, deserialize_with = "present")]
    ttl_seconds: Option<WholeNumber>,
    /// From when the time to live runs: from the creation, or anew from each write. `fixed` if not given.
    #[serde(borrow, default, deserialize_with = "present")]
    ttl_mode: Option<Text<'a>>,
}

/// Returns one record `{"id", "delta"?, "unique"?, "at"?, "idempotency_key"?, "sample"?, "by"?, "ttl_seconds"?,
/// "ttl_mode"?}`. `delta` is a positive
/// whole number or its decimal string, 1 where missing; `at` is a time; for `sample` see [`Sample::new`].
/// The second value says who caused it; where that is a visitor, `unique` is the word `auto` and stands for no element.
///
/// The id is not checked here, see [`BulkRecord::counter_id`]. Allocates only for strings with escapes.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body` (also for an element that is empty or has more than
/// 1,024 bytes, and an idempotency key that is empty or has more than 255) and `invalid-delta`; those of
/// [`Actor::of_line`].
pub fn parse_line(json: &[u8]) -> Result<(BulkRecord<'_>, Actor<'_>), Problem> {
    if let Some(record) = PlainEvent::read(json).and_then(plain_record) {
        return Ok((record, Actor::default()));
    }
    let wire: EventWire<'_> = read_object(json)?;
    let delta = delta_or_one(wire.delta)?;
    check_unique(wire.unique.as_ref())?;
    check_event_id(wire.idempotency_key.as_ref())?;
    let dimensions = ByWire::read(wire.by.as_ref())?;
    refuse_auto(&dimensions)?;
    let by = Actor::read(wire.unique.as_ref(), wire.bots, wire.ip, wire.user_agent)?;
    let record = BulkRecord {
        key: wire.id.0,
        delta,
        unique: wire.unique.map(|text| bytes_of(text.0)),
        at_ms: wire.at.map(|Time(at_ms)| at_ms),
        id: wire.idempotency_key.map(|text| text.0),
        sample: sample_of(wire.sample)?,
        dimensions,
        ttl_if_new: ttl_of(wire.ttl_seconds, mode_of(wire.ttl_mode.as_ref()))?,
    };
    Ok((record, by.of_line()?))
}

/// Returns what an event in the common form counts; `None` where something is wrong with it, or its element is a
/// visitor.
fn plain_record(event: PlainEvent<'_>) -> Option<BulkRecord<'_>> {
    let delta = u128::from(event.delta.unwrap_or(1));
    let is_within = |text: Option<&str>, bytes_max| {
        text.is_none_or(|text| (1..=bytes_max).contains(&text.len()))
    };
    let is_right = (1..=DELTA_MAX).contains(&delta)
        && is_within(event.unique, UNIQUE_BYTES_MAX)
        && is_within(event.idempotency_key, EVENT_ID_BYTES_MAX)
        && event.unique != Some(AUTO);
    let at_ms = match event.at {
        Some(seconds) => Some(ms_of_seconds(seconds)?),
        None => None,
    };
    is_right.then(|| BulkRecord {
        key: event.id.into(),
        delta,
        unique: event.unique.map(|text| text.as_bytes().into()),
        at_ms,
        id: event.idempotency_key.map(Cow::Borrowed),
        sample: None,
        dimensions: Dimensions::default(),
        ttl_if_new: None,
    })
}

/// The body of one increment or decrement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncrementBody {
    /// How much, 1 or more.
    pub delta: u128,
    /// The element that uniques are counted by, 1 to 1,024 bytes.
    pub unique: Option<String>,
    /// When it happened, in unix milliseconds; `None` is now.
    pub at_ms: Option<i64>,
    /// The value that percentiles are of, one for the whole delta.
    pub sample: Option<Sample>,
    /// Its dimensions.
    pub dimensions: Dimensions,
    /// Who caused it. For a visitor, `unique` is the word `auto` and stands for no element.
    pub by: Actor<'static>,
    /// The time to live of the counter, if this creates it.
    pub ttl_if_new: Option<TtlTerms>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IncrementWire<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    unique: Option<Text<'a>>,
    /// When it happened, at most 5 s from the server's clock; now if not given.
    #[serde(default, deserialize_with = "present")]
    at: Option<Time>,
    #[serde(default, deserialize_with = "present")]
    sample: Option<Real>,
    #[serde(borrow, default, deserialize_with = "present")]
    by: Option<ByWire<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    bots: Option<Text<'a>>,
    /// With `"unique":"auto"`: the visitor's address, where the request comes from a server; `user_agent` goes with it.
    #[serde(borrow, default, deserialize_with = "present")]
    ip: Option<Text<'a>>,
    /// The visitor's user agent, where the request comes from a server; the request's own if not given.
    #[serde(borrow, default, deserialize_with = "present")]
    user_agent: Option<Text<'a>>,
    /// The time to live of the counter, if this write creates it; a counter that exists keeps its own.
    #[serde(default, deserialize_with = "present")]
    ttl_seconds: Option<WholeNumber>,
    /// From when the time to live runs: from the creation, or anew from each write. `fixed` if not given.
    #[serde(borrow, default, deserialize_with = "present")]
    ttl_mode: Option<Text<'a>>,
}

/// Returns the body `{"delta"?, "unique"?, "at"?, "sample"?, "by"?, "bots"?, "ip"?, "user_agent"?, "ttl_seconds"?,
/// "ttl_mode"?}` of one increment; an empty body is a delta of 1.
///
/// # Errors
/// As [`parse_line`].
pub fn parse_increment(body: &[u8]) -> Result<IncrementBody, Problem> {
    if body.trim_ascii().is_empty() {
        return Ok(IncrementBody {
            delta: 1,
            unique: None,
            at_ms: None,
            sample: None,
            dimensions: Dimensions::default(),
            by: Actor::default(),
            ttl_if_new: None,
        });
    }
    let wire: IncrementWire<'_> = read_object(body)?;
    let delta = delta_or_one(wire.delta)?;
    check_unique(wire.unique.as_ref())?;
    let by = Actor::read(wire.unique.as_ref(), wire.bots, wire.ip, wire.user_agent)?;
    let unique = wire.unique.map(|text| text.0.into_owned());
    Ok(IncrementBody {
        delta,
        unique,
        at_ms: wire.at.map(|Time(at_ms)| at_ms),
        sample: sample_of(wire.sample)?,
        dimensions: ByWire::read(wire.by.as_ref())?,
        by: by.into_owned(),
        ttl_if_new: ttl_of(wire.ttl_seconds, mode_of(wire.ttl_mode.as_ref()))?,
    })
}

fn mode_of<'a>(mode: Option<&'a Text<'_>>) -> Option<&'a str> {
    mode.map(|mode| &*mode.0)
}

/// Returns the sample, if there is one.
fn sample_of(number: Option<Real>) -> Result<Option<Sample>, Problem> {
    if number.is_some() && cfg!(not(feature = "samples")) {
        return Err(left_out("samples"));
    }
    let sample = number.map(|Real(number)| Sample::new(number)).transpose();
    sample.map_err(|refused| Problem::new(Code::InvalidBody, refused.to_string()))
}

pub(crate) fn check_unique(unique: Option<&Text<'_>>) -> Result<(), Problem> {
    check_length("unique", unique, UNIQUE_BYTES_MAX)
}

pub(crate) fn check_event_id(id: Option<&Text<'_>>) -> Result<(), Problem> {
    check_length("idempotency_key", id, EVENT_ID_BYTES_MAX)
}

fn check_length(field: &str, text: Option<&Text<'_>>, bytes_max: usize) -> Result<(), Problem> {
    match text.map(|text| text.0.len()) {
        Some(bytes) if bytes == 0 || bytes > bytes_max => {
            let detail =
                format!("`{field}` has 1 to {bytes_max} bytes of UTF-8, this one has {bytes}");
            Err(Problem::new(Code::InvalidBody, detail))
        }
        _ => Ok(()),
    }
}
