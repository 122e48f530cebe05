//! Which cells a bulk body writes to, and what each gets.
//!
//! Invariants: the amounts of a counter go to one cell, in one load; a body never needs more
//! calls than [`BATCH_FLUSHES_MAX`], and what would go beyond fails by its lines, before anything
//! of its counter is counted.

use std::collections::BTreeMap;

use super::gather::{Gathered, Manner, Times};
use super::keyed::{BodyKey, Calls, KeyedWrites};
use super::report::{LineNumbers, Report};
use crate::counter::flush::{Element, Load};
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::split::shard_of_element;
use crate::protocol::names::CellAddress;
use crate::protocol::problem::{Code, Problem};

/// The most calls of one body, flushes and what keys need: each may be sent twice, and 2 × 4,900 leave 200 of the 10,000
/// subrequests of one invocation for the rest. Only counters of several shards come near it.
pub const BATCH_FLUSHES_MAX: usize = 4_900;

/// The most counters of one body. The first opening of an object takes plain workerd up to 12 ms on a
/// slow disk (a new file, synced): 3,000 of them take 36 s, well below the 50 s that a body has.
pub const BATCH_COUNTERS_MAX: u64 = 3_000;

/// A load and the cell it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressed {
    /// The cell.
    pub to: CellAddress,
    /// What it carries.
    pub load: Load,
}

/// One counter of a body.
#[derive(Debug)]
struct Counted {
    amounts: Addressed,
    lines: LineNumbers,
}

/// The loads of a body.
#[derive(Debug, Default)]
pub struct Plan {
    keyed: Vec<KeyedWrites>,
    /// Flushes of all loads, those of keyed lines' elements too.
    flushes: usize,
    /// Calls that are planned for keys.
    keyed_calls: usize,
    counters: Vec<Counted>,
    elements: Vec<Addressed>,
    /// Which counter the elements of each load are of.
    counter_of: Vec<usize>,
    /// Which counter each load of amounts belongs to, once they have been handed out.
    sent: Vec<usize>,
}

impl Plan {
    /// Returns the loads of all sums. `shards_of`: shards of a counter; `own_shard`: which of so
    /// many gets the amounts. Lines of counters that are too many for one body fail.
    pub fn new(
        sums: Vec<(CounterId, Gathered)>,
        manner: Manner,
        datacenter: &Datacenter,
        shards_of: impl Fn(&CounterId) -> u8,
        own_shard: impl Fn(u8) -> u8,
        key: Option<BodyKey>,
        report: &mut Report,
    ) -> Self {
        let mut plan = Self::default();
        for (counter, mut gathered) in sums {
            let shards = shards_of(&counter);
            let own = own_shard(shards);
            let manner = gathered.manner(manner);
            let keyed = KeyedWrites::take(&counter, &mut gathered, shards, manner, key);
            let is_plain = gathered.lines.count > 0;
            let mut loads = match is_plain {
                true => loads_of(&gathered, shards, own, manner),
                false => BTreeMap::new(),
            };
            let keyed_calls: usize = keyed.iter().map(KeyedWrites::calls).sum();
            let late_flushes: usize = keyed.iter().map(KeyedWrites::flushes).sum();
            let flushes = plan.flushes + loads.len() + late_flushes;
            let keyed_calls = plan.keyed_calls + keyed_calls;
            if flushes + keyed_calls > BATCH_FLUSHES_MAX {
                let detail = "the counters of the body have too many shards for one request; send this line in another";
                let problem = Problem::new(Code::TooManyCounters, detail);
                report.fail(&gathered.lines, &problem);
                for lines in keyed.iter().flat_map(|some| &some.lines) {
                    report.fail(lines, &problem);
                }
                continue;
            }
            (plan.flushes, plan.keyed_calls) = (flushes, keyed_calls);
            let keyed = keyed.into_iter().filter(|some| !some.writes.is_empty());
            plan.keyed.extend(keyed);
            if !is_plain {
                continue;
            }
            let to = |shard: u8| CellAddress {
                counter: counter.clone(),
                datacenter: datacenter.clone(),
                shard,
            };
            let index = plan.counters.len();
            plan.counters.push(Counted {
                amounts: Addressed {
                    to: to(own),
                    load: loads.remove(&own).unwrap_or_default(),
                },
                lines: gathered.lines,
            });
            for (shard, load) in loads {
                let to = to(shard);
                plan.elements.push(Addressed { to, load });
                plan.counter_of.push(index);
            }
        }
        plan
    }

    /// The calls that the keys of the body may make: those that are planned, and what the flushes leave.
    pub fn calls_for_keys(&self) -> Calls {
        Calls::new(BATCH_FLUSHES_MAX.saturating_sub(self.flushes))
    }

    /// Hands out the keyed writes, of all counters.
    pub fn keyed(&mut self) -> Vec<KeyedWrites> {
        std::mem::take(&mut self.keyed)
    }

    /// Hands out the loads of elements alone, but for those of keyed lines.
    pub fn elements(&mut self) -> Vec<Addressed> {
        std::mem::take(&mut self.elements)
    }

    /// Hands out the loads of amounts, of all counters whose lines have not failed.
    pub fn amounts(&mut self) -> Vec<Addressed> {
        let mut loads = Vec::with_capacity(self.counters.len());
        for (index, counted) in self.counters.iter_mut().enumerate() {
            if counted.lines.count > 0 {
                self.sent.push(index);
                let load = std::mem::take(&mut counted.amounts.load);
                let to = counted.amounts.to.clone();
                loads.push(Addressed { to, load });
            }
        }
        loads
    }

    /// Fails the lines whose elements could not be stored: the load of that number.
    pub fn fail_elements(&mut self, number: usize, problem: &Problem, report: &mut Report) {
        if let Some(&index) = self.counter_of.get(number) {
            self.fail(index, problem, report);
        }
    }

    /// Fails the lines whose amounts could not be counted: the load of that number.
    pub fn fail_amounts(&mut self, number: usize, problem: &Problem, report: &mut Report) {
        if let Some(&index) = self.sent.get(number) {
            self.fail(index, problem, report);
        }
    }

    /// A counter's lines fail once, however many of its cells did.
    fn fail(&mut self, index: usize, problem: &Problem, report: &mut Report) {
        if let Some(counted) = self.counters.get_mut(index) {
            report.fail(&std::mem::take(&mut counted.lines), problem);
        }
    }
}

/// What each shard gets: the elements that are its own, and one of them all amounts.
fn loads_of(gathered: &Gathered, shards: u8, own: u8, manner: Manner) -> BTreeMap<u8, Load> {
    let buckets = gathered.buckets.iter();
    let buckets = buckets.map(|(&second, &amount)| (second, amount)).collect();
    let mut amounts = Load {
        added: gathered.added,
        samples: gathered.samples.clone(),
        ..Load::default()
    };
    match manner.times {
        Times::Live => amounts.live = buckets,
        Times::Past => amounts.past = buckets,
    }
    let mut loads = BTreeMap::new();
    loads.insert(own, amounts);
    for &(second, hashed) in &gathered.tokens {
        let load = loads.entry(shard_of_element(hashed, shards)).or_default();
        load.hash = manner.hash;
        let tokens = match manner.times {
            Times::Live => &mut load.tokens,
            Times::Past => &mut load.past_tokens,
        };
        tokens.push((second, Element::by(manner.hash, hashed)));
    }
    loads
}
