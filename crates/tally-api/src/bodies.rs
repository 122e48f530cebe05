//! Request bodies: their largest size and longest time; the bodies of settings, and of queued events.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::delta::{delta_or_one, parse_value};
use crate::json::Text;
use crate::json::{WholeNumber, present, read_object};
use tally_core::counter::history::SECONDS_KEPT_ALLOWED;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::settings::{SHARDS_MAX, TTL_SECONDS_MAX, TtlMode, TtlTerms, UniqueHash};
use tally_core::counter::total::Value;
use tally_wire::messages::Put;
use tally_wire::problem::{Code, Problem};

/// The largest body of a call about one counter.
pub const BODY_BYTES_MAX: u64 = 1024 * 1024;

/// The largest bulk body, before and after inflation.
pub const BULK_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// How much of a body that is too large is read and dropped. Without that, the client would see a reset connection
/// instead of the answer.
pub const DRAIN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How long each piece of a dropped body may take, milliseconds: a client that sends more slowly may see no answer.
pub const DRAIN_PIECE_MS_MAX: u64 = 2_000;

/// How long each [`PIECE_BYTES`] of a body, and its last piece, may take to arrive, milliseconds. So a body arrives at
/// 52 kbit/s at least. A deployment may set another value.
pub const PIECE_MS_MAX: u64 = 10_000;

/// How much of a body is read at once. Pieces from the network are a few KB, and each read costs a promise. Allocated
/// once for each body that is being read.
pub const PIECE_BYTES: u32 = 64 * 1024;

/// The most that a bulk body uses while it is read, besides its sums, bytes: a piece twice, in the platform and here;
/// the output of gzip, 128 KiB, and the decoder's window, 48 KiB; a partial record of 64 KiB.
const READING_BYTES_MAX: u64 = (2 * 64 + 128 + 48 + 64) * 1024;

/// Returns what a bulk body uses while it is read, besides its sums, bytes: the buffer for its pieces, and four times
/// its announced length.
pub fn reading_bytes(announced: Option<u64>) -> u64 {
    let least = u64::from(PIECE_BYTES);
    announced.map_or(READING_BYTES_MAX, |bytes| {
        bytes
            .saturating_mul(4)
            .saturating_add(least)
            .min(READING_BYTES_MAX)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<'a> {
    /// Objects that a datacenter spreads writes over.
    #[serde(borrow, default)]
    shards: Option<&'a RawValue>,
    /// Time to live; at most 10 years.
    #[serde(default)]
    ttl_seconds: Option<WholeNumber>,
    /// Needs `ttl_seconds`, and is `fixed` if not given with it. `fixed`: from this setting. `sliding`: from the last
    /// change, or from this setting where that is later.
    #[serde(default)]
    ttl_mode: Option<String>,
    /// What no decrement may take the value below: a whole number of up to 128 bits, or its decimal string. It needs a
    /// home; without `home` that is the present home, or the only datacenter that has written, or the first that will.
    #[serde(borrow, default)]
    floor: Option<&'a RawValue>,
    /// The datacenter that all writes are counted at, wherever they enter; `null` for each at its own. While it does
    /// not answer, writes are refused with `unavailable`.
    #[serde(default)]
    home: Option<String>,
    /// The hash of its unique elements; `null`, or left out, for the hash that the counter has: at first `keyed`, which
    /// has a secret key. `redis` is the hash of Redis's HyperLogLog: it is known to all, so whoever chooses elements
    /// can set the estimate at will. It cannot be changed once elements were counted.
    #[serde(default)]
    unique_hash: Option<String>,
    /// How long the finest buckets are kept, 900 to 86,400; `null` for `TALLY_SECONDS_KEPT`.
    #[serde(default)]
    seconds_kept: Option<WholeNumber>,
}

/// Returns a time to live; `None` where neither field is given.
///
/// # Errors
/// `invalid-body`.
pub(super) fn ttl_of(
    seconds: Option<WholeNumber>,
    mode: Option<&str>,
) -> Result<Option<TtlTerms>, Problem> {
    let refuse = |detail: String| Err(Problem::new(Code::InvalidBody, detail));
    let mode = match mode {
        None => None,
        Some("fixed") => Some(TtlMode::Fixed),
        Some("sliding") => Some(TtlMode::Sliding),
        Some(_) => return refuse("ttl_mode must be \"fixed\" or \"sliding\"".to_owned()),
    };
    match (seconds.map(|seconds| seconds.0), mode) {
        (None, None) => Ok(None),
        (None, Some(_)) => refuse("ttl_mode needs ttl_seconds".to_owned()),
        (Some(seconds), mode) if (1..=TTL_SECONDS_MAX).contains(&seconds) => {
            Ok(Some((seconds, mode.unwrap_or_default())))
        }
        (Some(_), _) => refuse(format!("ttl_seconds must be from 1 to {TTL_SECONDS_MAX}")),
    }
}

/// Reads `{"shards":"auto" or n, "ttl_seconds": n, "ttl_mode": "fixed" or "sliding", "floor": n, "home": "FRA",
/// "unique_hash": "keyed" or "redis", "seconds_kept": n}`. Absent or `null` means the default, because a `PUT` replaces
/// all settings. The exception is `unique_hash`: it stays as it is, because what was counted by it cannot be converted.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`.
pub fn parse_settings(body: &[u8]) -> Result<Put, Problem> {
    let body = if body.trim_ascii().is_empty() {
        b"{}"
    } else {
        body
    };
    let wire: Wire<'_> = read_object(body)?;
    let refuse = |detail: String| Err(Problem::new(Code::InvalidBody, detail));
    let shards = match wire.shards.map(RawValue::get) {
        None | Some("null" | "\"auto\"") => None,
        Some(text) => {
            match serde_json::from_str(text).map(|WholeNumber(count)| u8::try_from(count)) {
                Ok(Ok(count)) if count.is_power_of_two() && count <= SHARDS_MAX => Some(count),
                _ => {
                    return refuse(format!(
                        "shards must be \"auto\" or a power of two from 1 to {SHARDS_MAX}"
                    ));
                }
            }
        }
    };
    let ttl = ttl_of(wire.ttl_seconds, wire.ttl_mode.as_deref())?;
    let floor = match wire.floor.map(RawValue::get) {
        None | Some("null") => None,
        Some(text) => match parse_value(text) {
            Some(floor) => Some(floor),
            None => return refuse(format!("floor must be {VALUE_SHAPE}")),
        },
    };
    let home = match wire.home.as_deref().map(Datacenter::parse) {
        None => None,
        Some(Some(home)) => Some(home),
        Some(None) => {
            return refuse(
                "home must be the name of a datacenter, 1 to 16 letters, digits or `-`".to_owned(),
            );
        }
    };
    if (home.is_some() || floor.is_some()) && shards.is_some_and(|shards| shards > 1) {
        return refuse(
            "a counter with a home, or with a floor, has one shard; leave shards out".to_owned(),
        );
    }
    let unique_hash = match wire.unique_hash.as_deref() {
        None => None,
        Some("keyed") => Some(UniqueHash::Keyed),
        Some("redis") => Some(UniqueHash::Redis),
        Some(_) => return refuse("unique_hash must be \"keyed\" or \"redis\"".to_owned()),
    };
    let seconds_kept = match wire
        .seconds_kept
        .map(|WholeNumber(kept)| u32::try_from(kept))
    {
        None => None,
        Some(Ok(kept)) if SECONDS_KEPT_ALLOWED.contains(&kept) => Some(kept),
        Some(_) => return refuse("seconds_kept must be from 900 to 86400".to_owned()),
    };
    Ok(Put {
        shards,
        ttl,
        floor,
        home,
        unique_hash,
        seconds_kept,
    })
}

/// The allowed form of a value in a body.
const VALUE_SHAPE: &str = "a whole number from -(2^128 - 1) to 2^128 - 1, or its decimal string";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValueWire<'a> {
    /// A whole number from -(2^128 - 1) to 2^128 - 1, or its decimal string.
    #[serde(borrow)]
    value: &'a RawValue,
}

/// Returns the value of `{"value": n}`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`.
pub fn parse_set(body: &[u8]) -> Result<Value, Problem> {
    let wire: ValueWire<'_> = read_object(body)?;
    parse_value(wire.value.get())
        .ok_or_else(|| Problem::new(Code::InvalidBody, format!("value must be {VALUE_SHAPE}")))
}

/// Reads the body of a call without parameters: nothing, or an empty object.
///
/// # Errors
/// `invalid-json`, `unknown-field`.
pub fn parse_nothing(body: &[u8]) -> Result<(), Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    if !body.trim_ascii().is_empty() {
        let Nothing {} = read_object(body)?;
    }
    Ok(())
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
