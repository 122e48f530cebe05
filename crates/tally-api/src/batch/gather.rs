//! Sums records per counter, in one pass. A record is added whole or rejected whole. Memory grows with the distinct
//! counters, stamps and elements, not with the records, and is counted in bytes as it grows, for the caller's budget.
//!
//! Time and the hashes are arguments; elements themselves are not kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher};
use tally_core::order::in_order;

use super::gathered::{GatheredCounter, KeyedRecord, Times};
use super::hashes::{Hashed, Hashes};
use super::report::BatchReport;
use super::{BulkRecord, length};
use crate::access::Sender;
use crate::idempotency_keys::{KeyKind, fingerprint, write_key};
use tally_core::counter::dimensions::{DimensionLog, Stamp};
use tally_core::counter::id::CounterId;
use tally_core::counter::samples::insert_sample;
use tally_core::counter::settings::{TtlMode, UniqueHash};
use tally_core::sketch::redis_hash;
use tally_wire::problem::{Code, Problem};

/// How far a record's time may be from the clock by default, in milliseconds.
pub const CLOCK_SKEW_MS: i64 = 5_000;

/// Older stamps are reduced to their minute. Cells keep seconds for 15 minutes. This is one minute more, so that a
/// second that a cell still keeps is not lost while the message is on its way.
pub const MINUTES_FROM_SECONDS: i64 = 16 * 60;

/// Older stamps are reduced to their hour. Cells keep minutes for 24 hours; this is one hour more.
pub const HOURS_FROM_SECONDS: i64 = 25 * 60 * 60;

/// What a counter uses beside its key and its vectors: about 2 * 176 for its place in a hash table that is half full,
/// 24 + 16 for the key's allocation, 280 for the first leaf of its stamps: 672 in all.
const COUNTER_BYTES: u64 = 672;

/// What one stamp uses: 8 + 16 bytes, in leaves that are half full at worst.
const STAMP_BYTES: u64 = 48;

/// What one token uses.
const TOKEN_BYTES: u64 = 24;

/// What a record with an id uses: 88 bytes, in a vector that is half full at worst.
const IDENTIFIED_BYTES: u64 = 176;

/// With fewer tokens, duplicates are not searched: 64 * 24 = 1,536 bytes.
const TOKENS_COMPACT_MIN: usize = 64;

/// What a batch may hold, and how its times are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Which times a record may give.
    pub times: Times,
    /// How far a record's time may be from the clock, in milliseconds: either way for [`Times::Live`],
    /// ahead for [`Times::Past`].
    pub clock_skew_ms: i64,
}

/// Sums records by counter.
pub struct Gatherer {
    limits: BatchLimits,
    sender: Sender,
    counters: HashMap<String, GatheredCounter, Seeded>,
    memory_bytes: u64,
    report: BatchReport,
    unique_hash_of: Box<dyn Fn(&CounterId) -> UniqueHash>,
}

impl Gatherer {
    /// Returns an empty batch of this sender. `seed` is a random number that changes no result. Because of it no sender
    /// can choose keys that collide in memory.
    pub fn new(limits: BatchLimits, sender: Sender, seed: u64) -> Self {
        let counters = HashMap::with_hasher(Seeded(seed));
        Self {
            limits,
            sender,
            counters,
            memory_bytes: 0,
            report: BatchReport::default(),
            unique_hash_of: Box::new(|_| UniqueHash::Keyed),
        }
    }

    /// The same, where the hash of some counters' elements is known.
    #[must_use]
    pub fn knowing(self, unique_hash_of: impl Fn(&CounterId) -> UniqueHash + 'static) -> Self {
        Self {
            unique_hash_of: Box::new(unique_hash_of),
            ..self
        }
    }

    /// Adds a record, or notes why not. `now_ms` is the clock in unix milliseconds; `hashes` are the keyed hashes.
    /// Costs one look-up, and allocates only for what is new.
    ///
    /// The reasons: `clock-skew` and `invalid-id`.
    pub fn add(&mut self, line: u64, record: &BulkRecord<'_>, now_ms: i64, hashes: &dyn Hashes) {
        self.add_as(line, record, record.unique.as_deref(), now_ms, hashes);
    }

    /// [`Gatherer::add`] of a record whose element is not its `unique`. The element of a visitor changes each day;
    /// `unique` then only records what the body said.
    pub fn add_as(
        &mut self,
        line: u64,
        record: &BulkRecord<'_>,
        element: Option<&[u8]>,
        now_ms: i64,
        hashes: &dyn Hashes,
    ) {
        match self.try_add(line, record, element, now_ms, hashes) {
            Ok(()) => self.report.accepted += 1,
            Err(problem) => self.reject(line, &problem),
        }
    }

    /// Succeeds where a record could be added: its time and its id are valid.
    ///
    /// # Errors
    /// As [`Gatherer::add`] notes them.
    pub fn check(&self, record: &BulkRecord<'_>, now_ms: i64) -> Result<(), Problem> {
        if record.id.is_none() {
            self.limits.stamp(record.at_ms, now_ms)?;
        }
        if !self.counters.contains_key(&*record.key) {
            record.counter_id()?;
        }
        Ok(())
    }

    /// Notes a record that is ignored because its user agent is a bot's.
    pub fn ignore_bot(&mut self) {
        self.report.bots_ignored += 1;
    }

    /// Notes a record that could not be read.
    pub fn reject(&mut self, line: u64, problem: &Problem) {
        self.report.reject(line, problem);
    }

    /// The bytes that the sums and the numbers of rejected lines use, estimated: growing vectors by what they have
    /// allocated, the rest by named sizes. The errors are not included; there are few.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes + self.report.memory_bytes()
    }

    /// The bytes that the sums alone use.
    pub fn sums_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The distinct counters so far.
    pub fn counters(&self) -> u64 {
        length(self.counters.len())
    }

    /// Takes the sums so far, in the order of their ids; later records begin new sums.
    pub fn take(&mut self) -> Vec<(CounterId, GatheredCounter)> {
        let seed = self.counters.hasher().clone();
        let counters = std::mem::replace(&mut self.counters, HashMap::with_hasher(seed));
        self.memory_bytes = 0;
        let sums: Vec<_> = counters
            .into_iter()
            .filter_map(|(key, mut gathered)| {
                compact(&mut gathered.tokens);
                // Keys were checked when they came in.
                CounterId::parse(key).ok().map(|id| (id, gathered))
            })
            .collect();
        in_order(sums, |(one, _), (other, _)| one.cmp(other))
    }

    /// The report on the records so far. Sums that were taken may fail later.
    pub fn report(&mut self) -> &mut BatchReport {
        &mut self.report
    }

    /// Returns the sums in the order of their ids, and the report.
    pub fn finish(mut self) -> (Vec<(CounterId, GatheredCounter)>, BatchReport) {
        (self.take(), self.report)
    }

    fn try_add(
        &mut self,
        line: u64,
        record: &BulkRecord<'_>,
        element: Option<&[u8]>,
        now_ms: i64,
        hashes: &dyn Hashes,
    ) -> Result<(), Problem> {
        let (stamp, is_skewed) = match self.limits.stamp(record.at_ms, now_ms) {
            Ok(stamp) => (stamp, false),
            // The record may be a retry, which must be answered as the first attempt was.
            Err(_) if record.id.is_some() => (seconds_of(record.at_ms, now_ms), true),
            Err(problem) => return Err(problem),
        };
        let gathered = match self.counters.get_mut(&*record.key) {
            Some(gathered) => gathered,
            None => {
                let id = record.counter_id()?;
                self.memory_bytes += COUNTER_BYTES + length(id.as_str().len());
                let unique_hash = (self.unique_hash_of)(&id);
                let gathered = self.counters.entry(id.into()).or_default();
                gathered.unique_hash = unique_hash;
                gathered
            }
        };
        let hash_element = |element: &[u8]| Hashed {
            keyed: hashes.element(element),
            redis: redis_hash(element),
        };
        let at = match self.limits.times {
            Times::Live => Stamp::Live(stamp),
            Times::Past => Stamp::Past(stamp),
        };
        if let Some(id) = &record.id {
            let mut dimensions = DimensionLog::default();
            dimensions.push(at, record.delta, record.dimensions.iter());
            let said_bytes = length(dimensions.len());
            let name = |bytes: &[u8]| hashes.name(bytes);
            gathered.identified.push(KeyedRecord {
                line,
                key: write_key(&name, self.sender, KeyKind::Event, id),
                fingerprint: fingerprint_of(record, &name),
                second: stamp,
                delta: record.delta,
                element: element.map(hash_element),
                is_skewed,
                sample: record.sample,
                dimensions,
                ttl_if_new: record.ttl_if_new,
            });
            self.memory_bytes += IDENTIFIED_BYTES + said_bytes;
            return Ok(());
        }
        gathered.add(record.delta, record.ttl_if_new);
        let stamps_before = gathered.buckets.len();
        let bucket = gathered.buckets.entry(stamp).or_default();
        *bucket = bucket.saturating_add(record.delta);
        self.memory_bytes += length(gathered.buckets.len() - stamps_before) * STAMP_BYTES;
        if let Some(element) = element {
            let hashed = hash_element(element);
            self.memory_bytes += push_token(&mut gathered.tokens, (stamp, hashed));
        }
        if let Some(sample) = record.sample {
            self.memory_bytes += length(insert_sample(&mut gathered.samples, stamp, sample));
        }
        let said = &mut gathered.dimensions;
        self.memory_bytes += length(said.add(at, record.delta, &record.dimensions));
        self.memory_bytes += gathered.lines.push(line);
        Ok(())
    }
}

/// The hash of a record's content.
fn fingerprint_of(record: &BulkRecord<'_>, name: &dyn Fn(&[u8]) -> u64) -> u64 {
    let unique = record.unique.as_deref().unwrap_or_default();
    let at_ms = record.at_ms.map(i64::to_le_bytes);
    let at_ms = at_ms.as_ref().map_or(&[][..], |bytes| bytes);
    let delta = record.delta.to_le_bytes();
    let sample = record.sample.map(|sample| sample.bits().to_le_bytes());
    let mut parts: Vec<&[u8]> = vec![&delta, unique, at_ms];
    // Omitted where there is none, so that the hash of a record without samples never changes.
    parts.extend(sample.as_ref().map(|bits| &bits[..]));
    let dimensions = record.dimensions.to_bytes();
    parts.extend((!dimensions.is_empty()).then_some(&dimensions[..]));
    let ttl = record.ttl_if_new.map(|(seconds, mode)| {
        let [mode] = [u8::from(mode == TtlMode::Sliding)];
        [&b"ttl"[..], &seconds.to_le_bytes(), &[mode]].concat()
    });
    parts.extend(ttl.as_deref());
    fingerprint(name, &parts)
}

impl BatchLimits {
    /// Returns the stamp of a record, in unix seconds.
    fn stamp(&self, at_ms: Option<i64>, now_ms: i64) -> Result<i64, Problem> {
        let stamp = seconds_of(at_ms, now_ms);
        let Some(at_ms) = at_ms else {
            return Ok(stamp);
        };
        let skew_ms = self.clock_skew_ms;
        if at_ms > now_ms.saturating_add(skew_ms) {
            let ahead_ms = at_ms.saturating_sub(now_ms);
            return Err(skewed(&format!(
                "{ahead_ms} ms ahead of the clock here, {skew_ms} ms are allowed"
            )));
        }
        if self.times == Times::Live && at_ms < now_ms.saturating_sub(skew_ms) {
            let behind_ms = now_ms.saturating_sub(at_ms);
            return Err(skewed(&format!(
                "{behind_ms} ms behind the clock here, {skew_ms} ms are allowed: send older records to `/ingest`"
            )));
        }
        Ok(stamp)
    }
}

/// The stamp of a time, now where there is none, in unix seconds.
fn seconds_of(at_ms: Option<i64>, now_ms: i64) -> i64 {
    let now_seconds = now_ms.div_euclid(1000);
    at_ms.map_or(now_seconds, |at_ms| {
        coarsen(at_ms.div_euclid(1000), now_seconds)
    })
}

/// Returns a stamp as coarse as its age allows, to keep messages small: its own second up to 16 minutes,
/// then the start of its minute up to 25 hours, then the start of its hour. All in unix seconds.
pub fn coarsen(stamp_seconds: i64, now_seconds: i64) -> i64 {
    let age_seconds = now_seconds.saturating_sub(stamp_seconds);
    let step_seconds = if age_seconds <= MINUTES_FROM_SECONDS {
        1
    } else if age_seconds <= HOURS_FROM_SECONDS {
        60
    } else {
        3600
    };
    stamp_seconds - stamp_seconds.rem_euclid(step_seconds)
}

/// Adds a token, and returns by how many bytes the vector has grown. Before it grows, the vector drops repetitions. It
/// grows only if that did not free half of it. So it holds at most four times its distinct tokens, and a token takes
/// part in few sorts.
fn push_token(tokens: &mut Vec<(i64, Hashed)>, token: (i64, Hashed)) -> u64 {
    if tokens.last() == Some(&token) {
        return 0;
    }
    let before = tokens.capacity();
    if tokens.len() == before && before >= TOKENS_COMPACT_MIN {
        compact(tokens);
        if tokens.len() > before / 2 {
            tokens.reserve_exact(2 * before - tokens.len());
        }
    }
    tokens.push(token);
    length(tokens.capacity().saturating_sub(before)) * TOKEN_BYTES
}

fn compact(tokens: &mut Vec<(i64, Hashed)>) {
    tokens.sort_unstable();
    tokens.dedup();
}

fn skewed(why: &str) -> Problem {
    Problem::new(Code::ClockSkew, format!("the record's time is {why}"))
}

/// Returns the refusal of a write whose time is not within [`CLOCK_SKEW_MS`] of the clock here. It names no unit of the
/// time: `at` is a date, a time or unix seconds.
pub fn skew_of(at_ms: i64, now_ms: i64) -> Option<Problem> {
    let off_ms = at_ms.abs_diff(now_ms);
    let side = if at_ms > now_ms { "ahead of" } else { "behind" };
    (off_ms > CLOCK_SKEW_MS.unsigned_abs()).then(|| {
        Problem::new(
            Code::ClockSkew,
            format!(
                "`at` is {off_ms} ms {side} the clock here, {CLOCK_SKEW_MS} ms are allowed: leave `at` out, or send older \
                 events to `/ingest`"
            ),
        )
    })
}

/// Hashes keys from a seed that senders do not know.
#[derive(Clone)]
struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}
