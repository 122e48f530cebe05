//! The keyed lines of a bulk body: what is counted under keys, and what is sent after the keys are decided.
//!
//! Invariants: an element of a keyed line is sent only after the line's key was decided, because a refused line must
//! change nothing. If the element then cannot be stored, the line fails although it was counted; a retry counts nothing
//! and stores the element. A body makes a bounded number of calls, however many leads hold its keys.

use std::collections::BTreeMap;

use super::addressed::{Addressed, RehashedElements};
use super::gathered::{CountingMode, GatheredCounter, Times, element_second};
use super::hashes::Hashed;
use super::lines::LineNumbers;
use super::report::BatchReport;
use tally_core::counter::autoscale::shard_of_element;
use tally_core::counter::flush::Load;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeyedWrite, WriteKey};
use tally_core::sketch::Histogram;
use tally_wire::names::CellAddress;
use tally_wire::problem::Problem;

/// The key of a whole body, and the hash of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyKey {
    /// The key's name.
    pub key: WriteKey,
    /// Hash of the body and of the call that it came with.
    pub fingerprint: u64,
}

/// The element of a keyed write.
#[derive(Clone, Copy, Debug)]
struct Element {
    /// The index of its write.
    write: usize,
    /// In unix seconds.
    second: i64,
    hashed: Hashed,
}

/// The keyed writes of one counter of a body.
#[derive(Debug)]
pub struct KeyedWrites {
    /// The counter.
    pub counter: CounterId,
    /// The writes.
    pub writes: Vec<KeyedWrite>,
    /// The lines that each of them counts, in the same order.
    pub(super) lines: Vec<LineNumbers>,
    /// Sorted by the index of their writes.
    elements: Vec<Element>,
    shards: u8,
    manner: CountingMode,
    /// Whether the writes may only be answered, not counted, because their times are out of range.
    pub is_recall: bool,
}

impl KeyedWrites {
    /// Takes the keyed records out of a counter's sum. These are every record with an id and, where the body has a key,
    /// all the others together. Only plain lines are left in the sum. Returns what is to be counted, and what is only
    /// to be answered.
    pub(super) fn take(
        counter: &CounterId,
        gathered: &mut GatheredCounter,
        shards: u8,
        manner: CountingMode,
        key: Option<BodyKey>,
    ) -> [Self; 2] {
        let times = manner.times;
        let empty = |is_recall: bool| Self {
            counter: counter.clone(),
            writes: Vec::new(),
            lines: Vec::new(),
            elements: Vec::new(),
            shards,
            manner,
            is_recall,
        };
        let [mut keyed, mut recalled] = [false, true].map(empty);
        for record in std::mem::take(&mut gathered.identified) {
            let elements = record.element.map(|hashed| (record.second, hashed));
            let bucket = vec![(record.second, record.delta)];
            let mut write = write(record.key, record.fingerprint, record.delta, bucket, times);
            let sample = record.sample.map(Histogram::of);
            write.samples = sample.map(|one| (record.second, one)).into_iter().collect();
            write.dimensions = record.dimensions;
            write.ttl_if_new = record.ttl_if_new;
            let group = if record.is_skewed {
                &mut recalled
            } else {
                &mut keyed
            };
            group.push(write, LineNumbers::of([record.line]), elements);
        }
        if let Some(body) = key.filter(|_| !gathered.lines.is_empty()) {
            let added = std::mem::take(&mut gathered.added);
            let buckets = std::mem::take(&mut gathered.buckets).into_iter().collect();
            let mut write = write(body.key, body.fingerprint, added, buckets, times);
            write.samples = std::mem::take(&mut gathered.samples);
            write.dimensions = gathered.dimensions.log().clone();
            write.ttl_if_new = gathered.ttl_if_new;
            let lines = std::mem::take(&mut gathered.lines);
            keyed.push(write, lines, std::mem::take(&mut gathered.tokens));
        }
        [keyed, recalled]
    }

    fn push(
        &mut self,
        write: KeyedWrite,
        lines: LineNumbers,
        elements: impl IntoIterator<Item = (i64, Hashed)>,
    ) {
        let index = self.writes.len();
        let elements = elements.into_iter().map(|(second, hashed)| Element {
            write: index,
            second,
            hashed,
        });
        self.elements.extend(elements);
        self.writes.push(write);
        self.lines.push(lines);
    }

    /// Fails the lines of the write of that index.
    pub fn fail(&self, index: usize, problem: &Problem, report: &mut BatchReport) {
        if let Some(lines) = self.lines.get(index) {
            report.fail(lines, problem);
        }
    }
}

fn write(
    key: WriteKey,
    fingerprint: u64,
    added: u128,
    buckets: Vec<(i64, u128)>,
    times: Times,
) -> KeyedWrite {
    let (live, past) = match times {
        Times::Live => (buckets, Vec::new()),
        Times::Past => (Vec::new(), buckets),
    };
    KeyedWrite {
        added,
        live,
        past,
        // The answer to a body names no values.
        seen: Some(Default::default()),
        ..KeyedWrite::new(key, fingerprint)
    }
}

/// The part for one shard: stamps and hashes, and the indexes of their lines.
#[derive(Default)]
struct OfShard {
    elements: Vec<(i64, Hashed)>,
    lines: Vec<usize>,
}

/// The elements of keyed lines that were counted, now or before.
#[derive(Debug, Default)]
pub struct KeyedElements {
    loads: Vec<Addressed>,
    /// Which lines each load is of, by their index in `lines`.
    lines_of: Vec<Vec<usize>>,
    lines: Vec<LineNumbers>,
}

impl KeyedElements {
    /// Adds the elements of those writes of a counter that were counted, by index: `counted` is the unix second of
    /// each. They go to the shards of this datacenter, at the time of [`element_second`]. Cost: a sort of them.
    pub fn add(&mut self, mut writes: KeyedWrites, here: &Datacenter, counted: &[Option<i64>]) {
        let mut by_shard: BTreeMap<u8, OfShard> = BTreeMap::new();
        let mut last = None;
        for element in &writes.elements {
            let Some(counted) = counted.get(element.write).copied().flatten() else {
                continue;
            };
            if last != Some(element.write) {
                last = Some(element.write);
                let lines = writes.lines.get_mut(element.write);
                self.lines
                    .push(lines.map(std::mem::take).unwrap_or_default());
            }
            let index = self.lines.len().saturating_sub(1);
            let hash = writes.manner.hash;
            let shard = shard_of_element(element.hashed.by(hash), writes.shards);
            let of_shard = by_shard.entry(shard).or_default();
            let second = element_second(writes.manner.times, element.second, counted);
            of_shard.elements.push((second, element.hashed));
            if of_shard.lines.last() != Some(&index) {
                of_shard.lines.push(index);
            }
        }
        for (
            shard,
            OfShard {
                mut elements,
                lines,
            },
        ) in by_shard
        {
            elements.sort_unstable();
            elements.dedup();
            let CountingMode { hash, other, .. } = writes.manner;
            let by = |hash| {
                let elements = elements.iter();
                elements.map(move |(second, hashed)| (*second, hashed.element(hash)))
            };
            let load = Load {
                past_tokens: by(hash).collect(),
                hash,
                ..Load::default()
            };
            let rehashed = RehashedElements {
                hash: other,
                elements: by(other).collect(),
            };
            let to = CellAddress {
                counter: writes.counter.clone(),
                datacenter: here.clone(),
                shard,
            };
            self.loads.push(Addressed { to, load, rehashed });
            self.lines_of.push(lines);
        }
    }

    /// Takes the loads.
    pub fn loads(&mut self) -> Vec<Addressed> {
        std::mem::take(&mut self.loads)
    }

    /// Fails the lines whose elements could not be stored: those of the load of that number. A line fails once.
    pub fn fail(&mut self, number: usize, problem: &Problem, report: &mut BatchReport) {
        for index in self.lines_of.get(number).into_iter().flatten() {
            if let Some(lines) = self.lines.get_mut(*index) {
                report.fail(&std::mem::take(lines), problem);
            }
        }
    }
}
