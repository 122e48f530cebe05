//! Bodies of settings, and of queued events.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::batch::event::delta_or_one;
use super::batch::json::{Text, present, read_object};
use super::problem::{Code, Problem};
use crate::counter::id::CounterId;
use crate::counter::settings::{SHARDS_MAX, TTL_SECONDS_MAX, TtlMode};

/// The largest body of a call about one counter.
pub const BODY_BYTES_MAX: u64 = 1024 * 1024;

/// The largest bulk body, before and after inflation.
pub const BULK_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// How much of a body that is too large is read, and thrown away, so that the client sees the
/// answer and not a reset connection.
pub const DRAIN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Settings as put: absent or `null` means the default, since a `PUT` replaces all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettingsBody {
    /// Shards of a datacenter, a power of two; `None` for automatic.
    pub shards: Option<u8>,
    /// Time to live in seconds, with its mode; `None` for ever.
    pub ttl: Option<(u64, TtlMode)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<'a> {
    #[serde(borrow, default)]
    shards: Option<&'a RawValue>,
    #[serde(default)]
    ttl_seconds: Option<u64>,
    /// A string first: another type in an enum's place would be called malformed JSON.
    #[serde(default)]
    ttl_mode: Option<String>,
}

/// Reads `{"shards":"auto" or n, "ttl_seconds": n, "ttl_mode": "fixed" or "sliding"}`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`.
pub fn parse_settings(body: &[u8]) -> Result<SettingsBody, Problem> {
    let body = if body.trim_ascii().is_empty() {
        b"{}"
    } else {
        body
    };
    let wire: Wire<'_> = read_object(body)?;
    let refuse = |detail: String| Err(Problem::new(Code::InvalidBody, detail));
    let shards = match wire.shards.map(RawValue::get) {
        None | Some("null" | "\"auto\"") => None,
        Some(text) => match text.parse::<u8>() {
            Ok(count) if count.is_power_of_two() && count <= SHARDS_MAX => Some(count),
            _ => {
                return refuse(format!(
                    "shards must be \"auto\" or a power of two from 1 to {SHARDS_MAX}"
                ));
            }
        },
    };
    let mode = match wire.ttl_mode.as_deref() {
        None => None,
        Some("fixed") => Some(TtlMode::Fixed),
        Some("sliding") => Some(TtlMode::Sliding),
        Some(_) => return refuse("ttl_mode must be \"fixed\" or \"sliding\"".to_owned()),
    };
    let ttl = match (wire.ttl_seconds, mode) {
        (None, None) => None,
        (None, Some(_)) => return refuse("ttl_mode needs ttl_seconds".to_owned()),
        (Some(seconds), mode) if (1..=TTL_SECONDS_MAX).contains(&seconds) => {
            Some((seconds, mode.unwrap_or_default()))
        }
        (Some(_), _) => return refuse(format!("ttl_seconds must be from 1 to {TTL_SECONDS_MAX}")),
    };
    Ok(SettingsBody { shards, ttl })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueuedWire<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow, default, deserialize_with = "present")]
    increment: Option<&'a RawValue>,
}

/// Returns the counter and the amount of `{"key", "increment"?}`; 1 where the amount is missing.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-delta`, `invalid-id`.
pub fn parse_queued(body: &[u8]) -> Result<(CounterId, u128), Problem> {
    let wire: QueuedWire<'_> = read_object(body)?;
    let delta = delta_or_one(wire.increment)?;
    Ok((CounterId::parse(wire.key.0)?, delta))
}
