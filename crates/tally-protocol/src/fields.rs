//! Types of fields that mean the same in every answer, under the names of OpenAPI's schemas.

use crate::public::Exact;

/// Unix milliseconds.
pub type Moment = i64;

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

/// The first and the last second, unix time, that the unique elements are of: the window, each end widened to a full
/// minute where it is of the last 24 hours, to a full hour where it is of the last 7 days, else to a full day in UTC.
/// Left out where none are kept.
pub type UniquesCover = (i64, i64);

/// Partitions of the directory whose counters are left out, since they did not answer: of those nothing is promised, so
/// `as_of` of a sum is 0. The field is left out where all answered.
pub type MissingPartitions<'a> = &'a [u32];
