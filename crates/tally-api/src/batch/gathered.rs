//! The sum of a body for one counter, and how cells count it.

use std::collections::BTreeMap;

use super::hashes::Hashed;
use super::lines::LineNumbers;
use super::report::BatchReport;
use tally_core::counter::cell::clamp_stamp;
use tally_core::counter::dimensions::{DimensionLog, Dimensions, Stamp};
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::samples::Samples;
use tally_core::counter::settings::{TtlTerms, UniqueHash};
use tally_core::sketch::{HashId, Sample};
use tally_wire::problem::Problem;

/// Which times a record may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Near the clock, on either side: `/events`.
    Live,
    /// Any past: `/ingest`.
    Past,
}

/// How cells count the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountingMode {
    /// Which times the records have.
    pub times: Times,
    /// The hash by which its elements are sent first.
    pub hash: HashId,
    /// The hash by which they are sent again, if the cell answers that it uses this one.
    pub other: HashId,
}

impl CountingMode {
    /// Elements are sent by the deployment's key, of this identity, unless it is known that the counter uses Redis's
    /// hash.
    pub fn new(times: Times, keyed: HashId) -> Self {
        Self {
            times,
            hash: keyed,
            other: HashId::REDIS,
        }
    }
}

/// What a batch adds to one counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatheredCounter {
    /// The sum of all its records.
    pub added: u128,
    /// The same sum by stamp, in unix seconds (see [`super::gather::coarsen`]).
    pub buckets: BTreeMap<i64, u128>,
    /// The stamps and hashes of its elements, except those of records with an id; sorted, each pair once.
    pub tokens: Vec<(i64, Hashed)>,
    /// The records that the sum came from, except those with an id.
    pub lines: LineNumbers,
    /// Records with an id of their own, each counted once by itself.
    pub identified: Vec<KeyedRecord>,
    /// The samples of its records by stamp, except those of records with an id.
    pub samples: Samples,
    /// The dimensions of its records, except those of records with an id.
    pub dimensions: GatheredDimensions,
    /// The hash of its elements, as far as known.
    pub unique_hash: UniqueHash,
    /// The time to live of the counter, if the body creates it: of the first of its records without an id that has one.
    pub ttl_if_new: Option<TtlTerms>,
}

impl GatheredCounter {
    /// Adds the amount of a record without an id, and its time to live if it is the first that has one.
    pub(super) fn add(&mut self, delta: u128, ttl_if_new: Option<TtlTerms>) {
        // No overflow: 2^65 records would be needed.
        self.added = self.added.saturating_add(delta);
        self.ttl_if_new = self.ttl_if_new.or(ttl_if_new);
    }

    /// How this sum is counted, in a body with the mode `of_body`.
    pub(super) fn manner(&self, of_body: CountingMode) -> CountingMode {
        let CountingMode { times, hash, other } = of_body;
        if self.unique_hash.takes(hash) {
            return of_body;
        }
        CountingMode {
            times,
            hash: other,
            other: hash,
        }
    }

    /// Fails all its lines.
    pub fn fail(&self, problem: &Problem, report: &mut BatchReport) {
        report.fail(&self.lines, problem);
        for record in &self.identified {
            report.fail(&LineNumbers::of([record.line]), problem);
        }
    }
}

/// A record with an idempotency key of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRecord {
    /// Its number in the body.
    pub line: u64,
    /// The name of its id.
    pub key: WriteKey,
    /// Hash of what it asks for.
    pub fingerprint: u64,
    /// Its stamp, unix seconds.
    pub second: i64,
    /// What it adds.
    pub delta: u128,
    /// Hashes of its element.
    pub element: Option<Hashed>,
    /// Whether its time is out of range. Such a record is not counted now, and is answered only if it was counted
    /// before.
    pub is_skewed: bool,
    /// The value that percentiles are of.
    pub sample: Option<Sample>,
    /// Its dimensions.
    pub dimensions: DimensionLog,
    /// The time to live of the counter, if this creates it.
    pub ttl_if_new: Option<TtlTerms>,
}

/// A log of dimensions. It is summed whenever it has doubled, so that it grows only with what is distinct.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatheredDimensions {
    log: DimensionLog,
    summed: usize,
}

/// The growth of a log below which summing it is not worth its cost, in bytes.
const SUMMED_BYTES_MIN: usize = 4 * 1_024;

impl GatheredDimensions {
    /// Adds the dimensions of a record. Returns by how many bytes the log has grown, at least 0.
    pub fn add(&mut self, stamp: Stamp, amount: u128, dimensions: &Dimensions) -> usize {
        if dimensions.is_empty() {
            return 0;
        }
        let before = self.log.len();
        self.log.push(stamp, amount, dimensions.iter());
        let grown = self.log.len().saturating_sub(self.summed);
        if grown > self.summed.max(SUMMED_BYTES_MIN)
            && let Ok(summed) = self.log.summed()
        {
            self.log = summed;
            self.summed = self.log.len();
        }
        self.log.len().saturating_sub(before)
    }

    /// The dimensions of the records.
    pub fn log(&self) -> &DimensionLog {
        &self.log
    }
}

/// The unix second of an element whose write was given `second` and was counted at `counted`. It is at most `counted`,
/// because a retry must not bring an element into a later window. For a live write it is at least the earliest second
/// at which a cell accepts the write's amount.
pub fn element_second(times: Times, second: i64, counted: i64) -> i64 {
    let second = match times {
        Times::Live => clamp_stamp(second, counted),
        Times::Past => second,
    };
    second.min(counted)
}
