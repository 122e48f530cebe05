//! Unique elements in Redis's format: exports, and the answer to an import.

use serde::Serialize;

use super::counter_view::SummedCounter;
use crate::fields::{Exactness, Moment, Staleness};
use crate::json::to_json;
use crate::number::Estimate;
use crate::query::Window;
use tally_core::counter::id::CounterId;
use tally_core::counter::settings::UniqueHash;
use tally_core::sketch::Hll;
use tally_wire::problem::{Code, Problem};

/// The unique elements of a counter, of a window if there is one, with their registers merged as in Redis.
///
/// # Errors
/// `hash-mismatch` where they were not hashed by Redis's function.
pub fn hll_of(counter: &SummedCounter<'_>, window: Option<Window>) -> Result<Hll, Problem> {
    let settings = counter.sum.root.settings;
    let hll = counter.sketches(window).hll();
    hll.filter(|_| settings.unique_hash == UniqueHash::Redis)
        .ok_or_else(|| not_of_redis(counter.id))
}

/// The refusal for a counter whose unique elements were not hashed by Redis's function.
pub fn not_of_redis(id: &CounterId) -> Problem {
    let detail = format!(
        "unique elements of `{id}` go through a secret key, and Redis knows only its own hash: use a counter without elements that has `\"unique_hash\":\"redis\"`, set by PUT /counters/{{id}}"
    );
    Problem::new(Code::HashMismatch, detail)
}

/// Reads a HyperLogLog string of Redis.
///
/// # Errors
/// `invalid-hll` with the reason, and with the remedy for the line feed that `redis-cli` adds.
pub fn parse_hll(bytes: &[u8]) -> Result<Hll, Problem> {
    Hll::from_bytes(bytes).map_err(|fault| {
        let has_line_feed = bytes
            .strip_suffix(b"\n")
            .is_some_and(|string| Hll::from_bytes(string).is_ok());
        let what_to_do = if has_line_feed {
            "without the line feed at its end it is one: redis-cli adds it unless you pass -D ''"
        } else {
            "send what GET of a HyperLogLog's key answers in Redis, byte for byte"
        };
        let detail = format!("{fault}; nothing was changed; {what_to_do}");
        Problem::new(Code::InvalidHll, detail)
    })
}

/// The JSON of `PUT /counters/{id}/uniques/hll`: the counter's unique elements after it.
pub fn imported_json(counter: &SummedCounter<'_>) -> String {
    #[derive(Serialize)]
    struct ImportedView<'a> {
        id: &'a CounterId,
        /// What `PFCOUNT` answers for it.
        #[serde(flatten)]
        estimate: Estimate,
        exact: Exactness,
        as_of: Moment,
        staleness_ms: Staleness,
    }
    to_json(&ImportedView {
        id: counter.id,
        estimate: counter.uniques(None).unwrap_or(Estimate::NOTHING),
        exact: counter.is_exact(),
        as_of: counter.as_of_ms(),
        staleness_ms: counter.staleness_ms(),
    })
}
