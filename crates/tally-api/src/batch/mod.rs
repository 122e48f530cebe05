//! Bulk bodies, read as they stream. For a body of any size, memory holds one piece of it, at most one partial record,
//! and the sums of one section.
//!
//! ```text
//! chunk ─► decode ─► split ─► event | ingest (`tally_logs`, ndjson) ─► gather ─► one sum per counter and section
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`decode`] | the encoding of a body, by its content encoding or its first bytes |
//! | [`inflate`] | gzip, bounded after inflation |
//! | [`split`] | bytes into records: lines, or the elements of one JSON array |
//! | [`event`] | records of `/events`, and the body of one increment |
//! | `plain_event` | the most common form of a record of `/events`, in one pass |
//! | [`by`] | who caused a write |
//! | [`ingest`] | the queries of `/ingest`: which format, which fields |
//! | [`ndjson`] | NDJSON lines of `/ingest` |
//! | [`gather`], [`gathered`] | records into one sum per counter |
//! | [`hashes`] | the hashes of elements and idempotency keys |
//! | [`plan`] | the cells that a body writes to, and the load of each |
//! | [`keyed_writes`] | the lines that have keys, and the elements of those that count |
//! | [`lines`] | sets of line numbers |
//! | [`report`] | what was accepted, what was rejected and why |
//! | [`report_queue`] | when the counters of bodies are reported to their roots, and which together |
//! | [`sections`] | where a body is cut, so that memory holds the sums of a part |
//! | [`addressed`] | loads and the cells they go to |
//! | [`budget`] | the calls of a body |

use std::borrow::Cow;

use tally_core::counter::dimensions::Dimensions;
use tally_core::counter::id::CounterId;
use tally_core::counter::settings::TtlTerms;
use tally_core::sketch::Sample;
use tally_wire::problem::Problem;

pub mod addressed;
pub mod budget;
pub mod by;
pub mod decode;
pub mod event;
pub mod gather;
pub mod gathered;
pub mod hashes;
pub mod inflate;
pub mod ingest;
pub mod keyed_writes;
pub mod lines;
pub mod ndjson;
mod plain_event;
pub mod plan;
pub mod report;
pub mod report_queue;
pub mod sections;
pub mod split;

/// What one record of a bulk body asks to count, in any format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRecord<'a> {
    /// The counter's id as sent. It is checked where it is first needed, see [`BulkRecord::counter_id`]: a batch that
    /// names a counter a thousand times checks its id once.
    pub key: Cow<'a, str>,
    /// How much to add, 1 or more.
    pub delta: u128,
    /// The element that uniques are counted by.
    pub unique: Option<Cow<'a, [u8]>>,
    /// When it happened, in unix milliseconds; `None` is now.
    pub at_ms: Option<i64>,
    /// The record's own idempotency key.
    pub id: Option<Cow<'a, str>>,
    /// The value that percentiles are of.
    pub sample: Option<Sample>,
    /// Its dimensions.
    pub dimensions: Dimensions,
    /// The time to live of the counter, if this creates it.
    pub ttl_if_new: Option<TtlTerms>,
}

impl BulkRecord<'_> {
    /// Returns the counter that the record names.
    ///
    /// # Errors
    /// `invalid-id`, as [`CounterId::parse`] says.
    pub fn counter_id(&self) -> Result<CounterId, Problem> {
        Ok(CounterId::parse(&*self.key)?)
    }
}

/// Returns a length in memory as the 64-bit number that it is counted in.
pub(crate) fn length(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}
