//! NDJSON lines of `/ingest`. A line is an event with a past, and is read as strictly as one.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

use super::BulkRecord;
use super::by::AUTO;
use super::event::{check_event_id, check_unique};
use crate::delta::delta_or_one;
use crate::dimensions::{ByWire, refuse_auto};
use crate::json::Text;
use crate::json::{Time, bytes_of, present, read_object};
use tally_logs::hit::visitor;
use tally_logs::target;
use tally_wire::problem::{Code, Problem};

/// The field that uniques are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueField {
    /// The client's address.
    Ip,
    /// None: no uniques are counted.
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NdjsonWire<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    unique: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    ip: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    at: Option<Time>,
    #[serde(default, deserialize_with = "present")]
    time: Option<Time>,
    #[serde(borrow, default, deserialize_with = "present")]
    idempotency_key: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    by: Option<ByWire<'a>>,
}

/// Returns one NDJSON line of `/ingest`: an event whose counter is `id`, or `path` without its query;
/// whose element is `unique`, or the address `ip` where the query asks for it; and whose time is `at`, or `time`.
/// `delta`, `idempotency_key` and `by` are as of an event.
///
/// # Errors
/// As [`super::event::parse_line`]; `invalid-body` also where both names of a field are given.
pub fn parse_ndjson(json: &[u8], unique_field: UniqueField) -> Result<BulkRecord<'_>, Problem> {
    let wire: NdjsonWire<'_> = read_object(json)?;
    let key = match either("id", wire.id, "path", wire.path)? {
        Either::First(id) => id.0,
        Either::Second(path) => Cow::Owned(path_of(&path.0)),
        Either::Neither => return Err(unfit("`id` or `path` is needed")),
    };
    let delta = delta_or_one(wire.delta)?;
    let unique = match either("unique", wire.unique, "ip", wire.ip)? {
        Either::First(unique) => Some(unique),
        Either::Second(address) if unique_field == UniqueField::Ip => visitor(&address.0).map(Text),
        Either::Second(_) | Either::Neither => None,
    };
    check_unique(unique.as_ref())?;
    if unique.as_ref().is_some_and(|unique| unique.0 == AUTO) {
        return Err(unfit(
            "`\"unique\":\"auto\"` is for visitors of today: send such lines to /events",
        ));
    }
    check_event_id(wire.idempotency_key.as_ref())?;
    let dimensions = ByWire::read(wire.by.as_ref())?;
    refuse_auto(&dimensions)?;
    let at_ms = match either("at", wire.at, "time", wire.time)? {
        Either::First(Time(at_ms)) | Either::Second(Time(at_ms)) => Some(at_ms),
        Either::Neither => None,
    };
    let unique = unique.map(|text| bytes_of(text.0));
    Ok(BulkRecord {
        key,
        delta,
        unique,
        at_ms,
        id: wire.idempotency_key.map(|text| text.0),
        sample: None,
        dimensions,
        ttl_if_new: None,
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

/// Returns the path of a target.
fn path_of(target: &str) -> String {
    target::split(target).0.to_owned()
}

fn unfit(why: &str) -> Problem {
    Problem::new(Code::InvalidBody, why)
}
