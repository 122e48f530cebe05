//! Which cells a bulk body writes to, and what each gets.
//!
//! Invariants: the amounts of a counter go to one cell, in one load; a body never needs more
//! flushes than [`BATCH_FLUSHES_MAX`], and what would go beyond fails by its lines, before anything
//! of its counter is counted.

use std::collections::BTreeMap;

use super::gather::{Gathered, Times};
use super::report::{LineNumbers, Report};
use crate::counter::flush::Load;
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::ledger::{Keyed, WriteKey};
use crate::counter::split::shard_of_element;
use crate::protocol::names::CellAddress;
use crate::protocol::problem::{Code, Problem};
use crate::sketch::Token;

/// The most flushes of one body: each may be sent twice, and 2 × 4,900 leave 200 of the 10,000
/// subrequests of one invocation for the rest. Only counters of several shards come near it.
pub const BATCH_FLUSHES_MAX: usize = 4_900;

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

/// The key of a whole body, and the hash of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyKey {
    /// The key's name.
    pub key: WriteKey,
    /// Hash of the body.
    pub fingerprint: u64,
}

/// The keyed writes of one counter of a body.
#[derive(Debug)]
pub struct KeyedWrites {
    /// The counter.
    pub counter: CounterId,
    /// The writes.
    pub writes: Vec<Keyed>,
    /// The lines that each of them counts, in the same order.
    lines: Vec<LineNumbers>,
}

/// The most keyed writes that one message carries: each is two rows at the lead, so a message takes about
/// 0.1 s.
pub const KEYED_AT_ONCE_MAX: usize = 2_000;

/// Whose lines fail where elements cannot be stored: a counter's plain ones, its keyed ones, by their index.
#[derive(Clone, Copy, Debug, Default)]
struct Owners {
    plain: Option<usize>,
    keyed: Option<usize>,
}

/// The loads of a body.
#[derive(Debug, Default)]
pub struct Plan {
    keyed: Vec<KeyedWrites>,
    calls: usize,
    counters: Vec<Counted>,
    elements: Vec<Addressed>,
    /// Whose elements each load of them holds.
    counter_of: Vec<Owners>,
    /// Which counter each load of amounts belongs to, once they have been handed out.
    sent: Vec<usize>,
}

impl Plan {
    /// Returns the loads of all sums. `shards_of`: shards of a counter; `own_shard`: which of so
    /// many gets the amounts. Lines of counters that are too many for one body fail.
    pub fn new(
        sums: Vec<(CounterId, Gathered)>,
        times: Times,
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
            let keyed = keyed_of(&counter, &mut gathered, times, key);
            let is_plain = gathered.lines.count > 0;
            let mut loads = loads_of(&gathered, shards, own, times);
            let is_mixed = is_plain && !keyed.writes.is_empty();
            // A claim and a count for each message, and one more for the elements of the own shard.
            let keyed_calls =
                2 * keyed.writes.len().div_ceil(KEYED_AT_ONCE_MAX) + usize::from(is_mixed);
            if plan.calls + loads.len() + keyed_calls > BATCH_FLUSHES_MAX {
                let detail = "the counters of the body have too many shards for one request; send this line in another";
                let problem = Problem::new(Code::TooManyCounters, detail);
                report.fail(&gathered.lines, &problem);
                for lines in &keyed.lines {
                    report.fail(lines, &problem);
                }
                continue;
            }
            plan.calls += loads.len() + keyed_calls;
            let mut owners = Owners::default();
            if !keyed.writes.is_empty() {
                owners.keyed = Some(plan.keyed.len());
                plan.keyed.push(keyed);
            }
            let to = |shard: u8| CellAddress {
                counter: counter.clone(),
                datacenter: datacenter.clone(),
                shard,
            };
            if is_plain {
                owners.plain = Some(plan.counters.len());
                let mut load = loads.remove(&own).unwrap_or_default();
                if is_mixed {
                    // Where the amounts fail, keyed lines count all the same: their elements must not fail along.
                    let tokens = std::mem::take(&mut load.tokens);
                    loads.insert(
                        own,
                        Load {
                            tokens,
                            ..Load::default()
                        },
                    );
                }
                let amounts = Addressed { to: to(own), load };
                let lines = gathered.lines;
                plan.counters.push(Counted { amounts, lines });
            }
            // What is left for the own shard may be nothing.
            for (shard, load) in loads
                .into_iter()
                .filter(|(_, load)| !load.tokens.is_empty())
            {
                let to = to(shard);
                plan.elements.push(Addressed { to, load });
                plan.counter_of.push(owners);
            }
        }
        plan
    }

    /// Hands out the keyed writes, of all counters whose lines have not failed.
    pub fn keyed(&mut self) -> Vec<KeyedWrites> {
        let mut keyed = std::mem::take(&mut self.keyed);
        keyed.retain(|some| !some.writes.is_empty());
        keyed
    }

    /// Hands out the loads of elements alone.
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
        let owners = self.counter_of.get(number).copied().unwrap_or_default();
        if let Some(index) = owners.plain {
            self.fail(index, problem, report);
        }
        if let Some(keyed) = owners.keyed.and_then(|index| self.keyed.get_mut(index)) {
            keyed.writes.clear();
            for lines in std::mem::take(&mut keyed.lines) {
                report.fail(&lines, problem);
            }
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

impl KeyedWrites {
    /// Fails the lines of the write of that number.
    pub fn fail(&self, number: usize, problem: &Problem, report: &mut Report) {
        if let Some(lines) = self.lines.get(number) {
            report.fail(lines, problem);
        }
    }
}

/// Takes what is keyed out of a counter's sum: every record with an id, and all the others together where
/// the body has a key. Only elements are left of it then.
fn keyed_of(
    counter: &CounterId,
    gathered: &mut Gathered,
    times: Times,
    key: Option<BodyKey>,
) -> KeyedWrites {
    let mut keyed = KeyedWrites {
        counter: counter.clone(),
        writes: Vec::new(),
        lines: Vec::new(),
    };
    let write = |key: WriteKey, fingerprint: u64, added: u128, buckets: Vec<(i64, u128)>| {
        let (live, past) = match times {
            Times::Live => (buckets, Vec::new()),
            Times::Past => (Vec::new(), buckets),
        };
        Keyed {
            key,
            fingerprint,
            generation: 0,
            added,
            removed: 0,
            live,
            past,
            // The answer to a body names no values.
            seen: Some(Default::default()),
            condition: None,
        }
    };
    for record in std::mem::take(&mut gathered.identified) {
        let bucket = vec![(record.second, record.delta)];
        let record_write = write(record.key, record.fingerprint, record.delta, bucket);
        keyed.writes.push(record_write);
        keyed.lines.push(LineNumbers::one(record.line));
    }
    if let Some(body) = key.filter(|_| gathered.lines.count > 0) {
        let added = std::mem::take(&mut gathered.added);
        let buckets = std::mem::take(&mut gathered.buckets).into_iter().collect();
        keyed
            .writes
            .push(write(body.key, body.fingerprint, added, buckets));
        keyed.lines.push(std::mem::take(&mut gathered.lines));
    }
    keyed
}

/// What each shard gets: the elements that are its own, and one of them all amounts.
fn loads_of(gathered: &Gathered, shards: u8, own: u8, times: Times) -> BTreeMap<u8, Load> {
    let buckets = gathered.buckets.iter();
    let buckets = buckets.map(|(&second, &amount)| (second, amount)).collect();
    let mut amounts = Load {
        added: gathered.added,
        ..Load::default()
    };
    match times {
        Times::Live => amounts.live = buckets,
        Times::Past => amounts.past = buckets,
    }
    let mut loads = BTreeMap::new();
    loads.insert(own, amounts);
    for &(second, hashed) in &gathered.tokens {
        let load = loads.entry(shard_of_element(hashed, shards)).or_default();
        load.tokens.push((second, Token::from_hash(hashed)));
    }
    loads
}
