//! Types of fields that mean the same in every answer, under the names of OpenAPI's schemas.

use serde::Serialize;

use crate::number::Exact;

/// Unix milliseconds.
pub type Moment = i64;

/// The moment at which a unix second begins.
pub fn moment_of(second: i64) -> Moment {
    second.saturating_mul(1_000)
}

/// The moment at which a unix second ends.
pub fn end_of(second: i64) -> Moment {
    moment_of(second.saturating_add(1))
}

/// Age of the value when it was sent, milliseconds.
pub type Staleness = i64;

/// Whether every change acknowledged before the read began is included, none twice.
pub type Exactness = bool;

/// A whole number; a decimal string above 2^53 - 1 with `numbers=string`.
pub type Total = Exact;

/// As `Total`, never negative.
pub type CountValue = Exact;

/// Milliseconds.
pub type Latency = u64;

/// The name of a Durable Object.
pub type ObjectName = String;

/// Opaque: what this answer has seen.
pub type VersionText = String;

/// Opaque: which writes of a board an answer includes.
pub type BoardVersionText = String;

/// The range of the unique elements: the window, each end widened to a full minute where it is of the last 24 hours, to
/// a full hour where it is of the last 7 days, otherwise to a full day in UTC. Left out where none are kept.
#[derive(Serialize)]
pub struct UniquesCover {
    starts_at: Moment,
    ends_at: Moment,
}

impl UniquesCover {
    /// The cover from its first to its last second.
    pub fn of((first, last): (i64, i64)) -> Self {
        Self {
            starts_at: moment_of(first),
            ends_at: end_of(last),
        }
    }
}

/// Partitions of the directory whose counters are left out, since they did not answer: of those nothing is promised, so
/// `as_of` of a sum is 0. The field is left out where all answered.
pub type MissingPartitions<'a> = &'a [u32];
