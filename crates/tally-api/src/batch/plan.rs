//! The cells that a bulk body writes to, and the load of each.
//!
//! Invariants: the amounts of a counter go to one cell, in one load. A body never makes more calls than one invocation
//! may. The calls of a counter are known before it is counted ([`CallsNeeded`]). If too few are left, the counter's
//! lines are rejected.
//!
//! A body with many counters is counted in parts, one after the other. So memory holds the sums, and the loads of one
//! part only.

use std::collections::BTreeMap;

use super::addressed::{Addressed, RehashedElements};
use super::budget::KEYED_AT_ONCE_MAX;
use super::gathered::{CountingMode, GatheredCounter, Times};
use super::hashes::Hashed;
use super::keyed_writes::{BodyKey, KeyedWrites};
use super::lines::LineNumbers;
use super::report::BatchReport;
use tally_core::counter::autoscale::shard_of_element;
use tally_core::counter::flush::Load;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::settings::SHARDS_MAX;
use tally_wire::names::CellAddress;
use tally_wire::problem::Problem;
use tally_wire::shell_limits::CALLS_MAX;

/// Calls of an invocation that are reserved for other uses: secrets, settings, reports.
const OTHER_CALLS: usize = 200;

/// The messages of reports to partitions that are among the reserved calls. More are taken from the calls of the body.
pub const PARTITION_REPORTS: usize = 128;

/// The most counters that are counted at once. The loads of each are about 1 KB.
pub const PART_COUNTERS_MAX: usize = 1_000;

/// The same where tablets host cells: with 64 tablets, 128 counters in a message. About 2 KB each while they are
/// counted, 16 MB.
pub const HOSTED_PART_COUNTERS_MAX: usize = 8_192;

/// The most messages of one part, to cells in so many tablets and to their roots in so many partitions. They carry
/// elements of plain lines, amounts, claims, counts, and elements of keyed lines.
pub fn part_calls_max(tablets: usize, partitions: u32, counters: usize) -> usize {
    let partitions = usize::try_from(partitions).unwrap_or(usize::MAX);
    match tablets {
        0 => 0,
        _ => 4 * tablets.min(counters) + partitions.min(counters),
    }
}

/// Returns the most calls of one body, for flushes and keys, where an invocation may make `invocation` calls. Each call
/// may be sent twice: of 10,000 calls a body gets 4,900.
pub fn body_calls_max(invocation: Option<usize>) -> usize {
    let invocation = invocation.or(usize::try_from(CALLS_MAX).ok());
    invocation.unwrap_or(0).saturating_sub(OTHER_CALLS) / 2
}

/// The calls that a counter of a body needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallsNeeded {
    /// Flushes, with those of keyed lines' elements.
    pub flushes: usize,
    /// A claim and a count for each message of keyed writes, as long as one lead has all keys of a counter.
    pub keyed: usize,
}

impl CallsNeeded {
    /// Returns the calls of a counter with so many shards whose amounts go to shard `own`. Where a tablet hosts its
    /// lead, the lead's load travels with those of other counters. Cost: one step for each of its elements.
    pub fn of(
        gathered: &GatheredCounter,
        shards: u8,
        own: u8,
        has_key: bool,
        is_hosted: bool,
    ) -> Self {
        let mut calls = Self::default();
        let shard_of = |hashed: Hashed| shard_of_element(hashed.of(gathered.unique_hash), shards);
        let tokens = gathered.tokens.iter();
        let of_tokens = tokens.fold(0, |bits, (_, hashed)| bits | bit(shard_of(*hashed)));
        // The number of writes, and the shards of their elements: for writes to be counted, and for writes that are
        // only answered.
        let (mut counted, mut recalled) = ((0_usize, 0_u64), (0_usize, 0_u64));
        for record in &gathered.identified {
            let (writes, bits) = match record.is_skewed {
                true => &mut recalled,
                false => &mut counted,
            };
            *writes += 1;
            *bits |= record.element.map_or(0, |hashed| bit(shard_of(hashed)));
        }
        let of_lead = if is_hosted { bit(0) } else { 0 };
        match (gathered.lines.is_empty(), has_key) {
            (true, _) => {}
            (false, true) => counted = (counted.0 + 1, counted.1 | of_tokens),
            (false, false) => calls.flushes += ones((of_tokens | bit(own)) & !of_lead),
        }
        for (writes, bits) in [counted, recalled] {
            if !is_hosted {
                calls.keyed += 2 * writes.div_ceil(KEYED_AT_ONCE_MAX);
            }
            calls.flushes += ones(bits & !of_lead);
        }
        calls
    }

    /// The sum of both.
    pub fn all(self) -> usize {
        self.flushes + self.keyed
    }
}

/// A shard as a bit: there are at most 64.
fn bit(shard: u8) -> u64 {
    const { assert!(SHARDS_MAX <= 64) };
    1 << (shard % SHARDS_MAX)
}

fn ones(bits: u64) -> usize {
    usize::try_from(bits.count_ones()).unwrap_or(usize::MAX)
}

/// One counter of a body.
#[derive(Debug)]
struct Counted {
    amounts: Addressed,
    lines: LineNumbers,
}

/// The loads of a body, or of a part of it.
#[derive(Debug, Default)]
pub struct Plan {
    keyed: Vec<KeyedWrites>,
    counters: Vec<Counted>,
    elements: Vec<Addressed>,
    /// For each load of elements, the index of its counter.
    counter_of: Vec<usize>,
    /// For each load of amounts that was taken, the index of its counter.
    sent: Vec<usize>,
}

impl Plan {
    /// Returns the loads of all sums. `shards_of`: the shards of a counter; `own_shard`: which of so many gets the
    /// amounts.
    pub fn new(
        sums: Vec<(CounterId, GatheredCounter)>,
        manner: CountingMode,
        datacenter: &Datacenter,
        shards_of: impl Fn(&CounterId) -> u8,
        own_shard: impl Fn(u8) -> u8,
        key: Option<BodyKey>,
    ) -> Self {
        let mut plan = Self::default();
        for (counter, mut gathered) in sums {
            let shards = shards_of(&counter);
            let own = own_shard(shards);
            let manner = gathered.manner(manner);
            let keyed = KeyedWrites::take(&counter, &mut gathered, shards, manner, key);
            let keyed = keyed.into_iter().filter(|some| !some.writes.is_empty());
            plan.keyed.extend(keyed);
            if gathered.lines.is_empty() {
                continue;
            }
            let mut loads = loads_of(&gathered, shards, own, manner);
            let addressed = |shard: u8, (load, rehashed): (Load, RehashedElements)| {
                let to = CellAddress {
                    counter: counter.clone(),
                    datacenter: datacenter.clone(),
                    shard,
                };
                Addressed { to, load, rehashed }
            };
            let index = plan.counters.len();
            plan.counters.push(Counted {
                amounts: addressed(own, loads.remove(&own).unwrap_or_default()),
                lines: gathered.lines,
            });
            for (shard, load) in loads {
                plan.elements.push(addressed(shard, load));
                plan.counter_of.push(index);
            }
        }
        plan
    }

    /// Takes the keyed writes of all counters.
    pub fn keyed(&mut self) -> Vec<KeyedWrites> {
        std::mem::take(&mut self.keyed)
    }

    /// Takes the loads that hold elements only, except those of keyed lines.
    pub fn elements(&mut self) -> Vec<Addressed> {
        std::mem::take(&mut self.elements)
    }

    /// Takes the loads of amounts of all counters whose lines have not failed.
    pub fn amounts(&mut self) -> Vec<Addressed> {
        let mut loads = Vec::with_capacity(self.counters.len());
        for (index, counted) in self.counters.iter_mut().enumerate() {
            if !counted.lines.is_empty() {
                self.sent.push(index);
                loads.push(Addressed {
                    to: counted.amounts.to.clone(),
                    load: std::mem::take(&mut counted.amounts.load),
                    rehashed: std::mem::take(&mut counted.amounts.rehashed),
                });
            }
        }
        loads
    }

    /// Fails the lines whose elements could not be stored: those of the load of that number.
    pub fn fail_elements(&mut self, number: usize, problem: &Problem, report: &mut BatchReport) {
        if let Some(&index) = self.counter_of.get(number) {
            self.fail(index, problem, report);
        }
    }

    /// Fails the lines whose amounts could not be counted: those of the load of that number.
    pub fn fail_amounts(&mut self, number: usize, problem: &Problem, report: &mut BatchReport) {
        if let Some(&index) = self.sent.get(number) {
            self.fail(index, problem, report);
        }
    }

    /// The lines of a counter fail once, even if several of its cells failed.
    fn fail(&mut self, index: usize, problem: &Problem, report: &mut BatchReport) {
        if let Some(counted) = self.counters.get_mut(index) {
            report.fail(&std::mem::take(&mut counted.lines), problem);
        }
    }
}

/// The load of each shard: its own elements, and for one shard all amounts.
fn loads_of(
    gathered: &GatheredCounter,
    shards: u8,
    own: u8,
    manner: CountingMode,
) -> BTreeMap<u8, (Load, RehashedElements)> {
    let CountingMode { times, hash, other } = manner;
    let buckets = gathered.buckets.iter();
    let buckets = buckets.map(|(&second, &amount)| (second, amount)).collect();
    let mut amounts = Load {
        added: gathered.added,
        samples: gathered.samples.clone(),
        dimensions: gathered.dimensions.log().clone(),
        ttl_if_new: gathered.ttl_if_new,
        ..Load::default()
    };
    match times {
        Times::Live => amounts.live = buckets,
        Times::Past => amounts.past = buckets,
    }
    let mut loads = BTreeMap::new();
    loads.insert(own, (amounts, RehashedElements::default()));
    for &(second, hashed) in &gathered.tokens {
        let shard = shard_of_element(hashed.by(hash), shards);
        let (load, rehashed) = loads.entry(shard).or_default();
        load.hash = hash;
        load.ttl_if_new = gathered.ttl_if_new;
        rehashed.hash = other;
        let tokens = match times {
            Times::Live => &mut load.tokens,
            Times::Past => &mut load.past_tokens,
        };
        tokens.push((second, hashed.element(hash)));
        rehashed.elements.push((second, hashed.element(other)));
    }
    loads
}
