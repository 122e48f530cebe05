//! The answers to writes and to administrative calls, about one counter, several or none.

use std::cmp::Reverse;

use serde::Serialize;

use crate::fields::{CountValue, Moment, Total, VersionText};
use crate::json::to_json;
use crate::number::Exact;
use crate::query::{ListPage, newest_first};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::queue::write_outcome::{DeadLetter, DeadLetterReason};
use tally_core::counter::total::Value;
use tally_core::order::in_order;
use tally_core::sketch::HashId;
use tally_wire::messages::{DeadLetters, Flushed, Revoked};
use tally_wire::names::CellAddress;
use tally_wire::names::alert::AlertName;
use tally_wire::problem::Code;
use tally_wire::rights::KeyId;
use tally_wire::shell_limits::KEY_MS_MAX;
use tally_wire::version::Version;

/// The JSON of `POST /uniques/rotate`.
pub fn rotated_json(before: HashId, now: HashId) -> String {
    #[derive(Serialize)]
    struct RotatedView {
        status: &'static str,
        /// Distinguishes keys, and reveals nothing of them.
        hash_id: HashId,
        previous_hash_id: HashId,
        learned_within_ms: i64,
    }
    to_json(&RotatedView {
        status: "rotated",
        hash_id: now,
        previous_hash_id: before,
        learned_within_ms: KEY_MS_MAX,
    })
}

/// The JSON of a write that was ignored because its user agent is a bot's.
pub fn ignored_json(id: &CounterId) -> String {
    #[derive(Serialize)]
    struct IgnoredView<'a> {
        id: &'a CounterId,
        delta: u8,
        status: &'static str,
    }
    to_json(&IgnoredView {
        id,
        delta: 0,
        status: "bot-ignored",
    })
}

/// The JSON of an increment or decrement.
pub fn write_json(
    cell: &CellAddress,
    delta: u128,
    value: Value,
    exact: bool,
    flushed: &Flushed,
    strings: bool,
) -> String {
    #[derive(Serialize)]
    struct WriteView<'a> {
        id: &'a CounterId,
        delta: CountValue,
        value: Total,
        /// Whether `value` includes every change acknowledged before this one.
        exact: bool,
        /// `bot-ignored`: nothing was changed, as the user agent is a bot's, and there is nothing else to tell.
        status: &'static str,
        datacenter: &'a Datacenter,
        version: VersionText,
    }
    to_json(&WriteView {
        id: &cell.counter,
        delta: Exact::new(Value::new(delta, 0), strings),
        value: Exact::new(value, strings),
        exact,
        status: "ok",
        datacenter: &cell.datacenter,
        version: Version::of_write(cell, flushed).encode(),
    })
}

/// The JSON of `POST /api/event`.
pub fn queued_json(key: &CounterId, increment: u128, strings: bool) -> String {
    #[derive(Serialize)]
    struct QueuedView<'a> {
        status: &'static str,
        key: &'a CounterId,
        increment: CountValue,
    }
    to_json(&QueuedView {
        status: "queued",
        key,
        increment: Exact::new(Value::new(increment, 0), strings),
    })
}

/// The JSON of `GET /api/counter`.
pub fn count_json(key: &CounterId, count: Value, strings: bool) -> String {
    #[derive(Serialize)]
    struct CountView<'a> {
        key: &'a CounterId,
        count: Total,
    }
    to_json(&CountView {
        key,
        count: Exact::new(count, strings),
    })
}

/// The JSON of `GET /api/dead-letters`, newest first.
pub fn dead_letters_json(dead: DeadLetters, page: &ListPage, strings: bool) -> String {
    #[derive(Serialize)]
    struct LetterView {
        /// The counter's id; empty where it cannot be read any more.
        id: String,
        delta: Total,
        /// Why.
        code: &'static str,
        /// When it was given up.
        failed_at: Moment,
    }
    #[derive(Serialize)]
    struct LettersView {
        entries: Vec<LetterView>,
        /// Names the next page; `null` on the last.
        cursor: Option<String>,
        /// Older ones that are kept no more: each inbox keeps 10,000.
        dropped: u64,
    }
    let letters = in_order(dead.letters, |one, other| {
        let place = |letter: &DeadLetter| (Reverse(letter.at_ms), letter.increment);
        (place(one), &one.counter).cmp(&(place(other), &other.counter))
    });
    // Letters have no name: one is known by its time, and its place among those of that time.
    let mut before = (i64::MAX, 0_u64);
    let placed = letters.into_iter().map(|letter| {
        let place = if before.0 == letter.at_ms {
            before.1 + 1
        } else {
            0
        };
        before = (letter.at_ms, place);
        (place, letter)
    });
    let (shown, cursor) = page.cut(placed, |(place, letter)| {
        format!("{}/{place:06}", newest_first(letter.at_ms))
    });
    let view = shown.into_iter().map(|(_, letter)| LetterView {
        id: letter.counter,
        delta: Exact::new(Value::new(letter.increment, 0), strings),
        code: match letter.death {
            DeadLetterReason::Ended => Code::CounterEnded,
            DeadLetterReason::Reused => Code::IdempotencyKeyReused,
            DeadLetterReason::Broken => Code::Internal,
        }
        .as_str(),
        failed_at: letter.at_ms,
    });
    to_json(&LettersView {
        entries: view.collect(),
        cursor,
        dropped: dead.dropped,
    })
}

/// The JSON of `DELETE /counters/{id}`.
pub fn deleted_json(id: &CounterId, pending: &[Datacenter]) -> String {
    #[derive(Serialize)]
    struct DeletedView<'a> {
        id: &'a CounterId,
        status: &'static str,
        /// Datacenters that have stopped counting but have not dropped their storage yet; they do so later.
        pending_datacenters: &'a [Datacenter],
    }
    to_json(&DeletedView {
        id,
        status: "deleted",
        pending_datacenters: pending,
    })
}

/// The JSON of `DELETE /shares/{id}`.
pub fn revoked_json(id: &str) -> String {
    to_json(&RevokedView {
        id,
        status: "revoked",
        also: None,
        missing_partitions: &[],
    })
}

#[derive(Serialize)]
struct RevokedView<'a> {
    id: &'a str,
    status: &'static str,
    /// What ended with the key, if anything did: what it gave away, and what those keys gave away.
    #[serde(skip_serializing_if = "Option::is_none")]
    also: Option<FallenView<'a>>,
    /// Partitions of the directory that did not answer. Alerts of the key there end by themselves within about a
    /// minute.
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    missing_partitions: &'a [u32],
}

#[derive(Serialize)]
struct FallenView<'a> {
    keys: Vec<FallenKeyView<'a>>,
    shares: Vec<FallenShareView<'a>>,
    alerts: Vec<&'a str>,
}

#[derive(Serialize)]
struct FallenKeyView<'a> {
    id: String,
    name: &'a str,
}

#[derive(Serialize)]
struct FallenShareView<'a> {
    id: String,
    prefix: &'a str,
}

/// The JSON of `DELETE /keys/{id}`: what ended with the key, if anything did, and the partitions whose alerts are not
/// known.
pub fn revoked_key_json(
    id: KeyId,
    revoked: &Revoked,
    alerts: &[AlertName],
    missing_partitions: &[u32],
) -> String {
    let keys = revoked.keys.iter().map(|(id, name)| FallenKeyView {
        id: id.to_string(),
        name,
    });
    let shares = revoked.shares.iter().map(|(id, prefix)| FallenShareView {
        id: id.to_string(),
        prefix,
    });
    let fallen = FallenView {
        keys: keys.collect(),
        shares: shares.collect(),
        alerts: alerts.iter().map(AlertName::as_str).collect(),
    };
    let is_nothing = fallen.keys.is_empty() && fallen.shares.is_empty() && fallen.alerts.is_empty();
    to_json(&RevokedView {
        id: &id.to_string(),
        status: "revoked",
        also: (!is_nothing).then_some(fallen),
        missing_partitions,
    })
}
