//! What the value is, with what operations have made of it: the plain integers, and an offset from each
//! operation on.
//!
//! Invariants: a baseline is what its cell had counted at a moment that is not before the operation began; while a
//! datacenter is unsettled the value is nobody's to call exact; with a floor no decrement takes the value below it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use tally::core::cluster::operation::Operations;
use tally::core::cluster::root::Root;
use tally::core::counter::id::Datacenter;
use tally::core::counter::ledger::Keyed;
use tally::core::counter::total::{CellTotal, Sum, Value};
use tally::protocol::messages::GlobalSum;
use tally::protocol::version::Version;

use super::oracle::{Oracle, Totals, sum};
use super::{CELLS, DATACENTERS, datacenter, shard_of};

/// The newest operation.
#[derive(Default)]
struct Newest {
    number: u64,
    /// The moment after which the root began it, and that from which on it holds.
    begun: usize,
    done: usize,
    base: Value,
    unsettled: Vec<Datacenter>,
    /// What each settled cell had counted: (added, removed).
    baselines: BTreeMap<usize, Totals>,
    /// By when each had counted that.
    counted_by: BTreeMap<usize, usize>,
}

/// What the root has made of a counter.
#[derive(Default)]
pub struct Truth {
    /// From each moment on, what the value is besides the plain integers; `None` while that is not known.
    offsets: Vec<(usize, Option<Value>)>,
    /// The same for each state of the operations that the root had.
    known: BTreeMap<(u64, u64, Vec<Datacenter>), Option<Value>>,
    /// The operations of a generation that were done by a moment.
    done: Vec<(u64, u64, usize)>,
    newest: Newest,
    floor: Option<Value>,
    home: Option<Datacenter>,
}

fn is_same(one: Value, other: Value) -> bool {
    !one.is_below(other) && !other.is_below(one)
}

impl Truth {
    /// A generation begins, or nothing lives from now on.
    pub fn begins(&mut self, moment: usize) {
        self.offsets.push((moment, Some(Value::default())));
        self.newest = Newest::default();
        self.floor = None;
        self.home = None;
    }

    fn offset_at(&self, moment: usize) -> Option<Value> {
        let mut before = self.offsets.iter().rev();
        let last = before.find(|(from, _)| *from <= moment);
        last.map_or(Some(Value::default()), |(_, offset)| *offset)
    }
}

/// What the operations say that a cell had counted.
fn baseline(operations: &Operations, place: usize) -> Totals {
    let (added, removed) = operations.baseline(&datacenter(place / CELLS), shard_of(place));
    let number = |total: CellTotal| Sum::from(total).to_string().parse().expect("a number");
    (number(added), number(removed))
}

impl Oracle {
    /// The root has written this.
    pub fn holds(&mut self, root: &Root) {
        self.truth.floor = root.settings.floor;
        self.truth.home = root.home.clone();
    }

    /// Whether all writes of the living counter go to one datacenter, and it does not end by itself.
    pub fn has_home(&self) -> bool {
        let newest = self.generations.values().next_back();
        let ttl = newest.and_then(|life| life.ttls.last());
        self.truth.home.is_some() && ttl.is_some_and(|(_, ttl)| ttl.is_none())
    }

    fn value_at(&self, moment: usize) -> Option<Value> {
        let offset = self.truth.offset_at(moment)?;
        Some(sum(self.total_at(moment)).plus(offset))
    }

    /// A value that is called exact was the counter's at one of these moments.
    pub fn check_value(&self, told: Value, moments: RangeInclusive<usize>, what: &str) {
        let last = *moments.end();
        let mut values = moments.map(|moment| self.value_at(moment));
        let is_true = values.any(|value| value.is_some_and(|value| is_same(value, told)));
        let truth = self.value_at(last).map(|value| value.to_string());
        assert!(is_true, "{what}: {told}, and it is {truth:?}");
    }

    /// A commit has just changed the totals by this.
    pub fn check_floor(&self, moment: usize, delta: Totals) {
        let Some(floor) = self.truth.floor.filter(|_| delta.1 > 0) else {
            return;
        };
        let value = self.value_at(moment).expect("decided by a value");
        assert!(!value.is_below(floor), "{value} is below {floor}");
    }

    /// Home refuses a write for good since the value would be below the floor.
    pub fn refuses_below(&mut self, place: usize, write: &Keyed) {
        self.keys.refused(write.key, write.fingerprint);
        let value = self.value_at(self.moment()).expect("decided by a value");
        let after = value.plus(Value::new(write.added, write.removed));
        let floor = self.truth.floor;
        let is_right = floor.is_some_and(|floor| after.is_below(floor));
        assert!(is_right, "cell {place} refuses {after}, above {floor:?}");
    }

    /// The root is about to write that home has moved, which is numbered as operations are and changes no value.
    pub fn moves_home(&mut self, root: &Root) {
        let (generation, number) = (root.generation, root.operations.number());
        assert_eq!(number, self.truth.newest.number + 1);
        // The move is a moment of its own.
        let total = self.total_at(self.moment());
        self.totals.push(total);
        let offset = self.truth.offset_at(self.moment());
        let state = (generation, number, self.truth.newest.unsettled.clone());
        self.truth.newest.number = number;
        self.truth.known.insert(state, offset);
        let done = (generation, number, self.moment());
        self.truth.done.push(done);
    }

    /// The root has durably done an operation that it began after that moment.
    pub fn operated(&mut self, root: &Root, begun: usize) {
        let operations = &root.operations;
        if operations.number() == self.truth.newest.number {
            if operations.unsettled() != self.truth.newest.unsettled {
                self.settled(root);
            }
            return;
        }
        assert_eq!(operations.number(), self.truth.newest.number + 1);
        // The operation is a moment of its own.
        let total = self.total_at(self.moment());
        self.totals.push(total);
        self.truth.newest = Newest {
            number: operations.number(),
            begun,
            done: self.moment(),
            base: operations.base(),
            ..Newest::default()
        };
        let done = (root.generation, operations.number(), self.moment());
        self.truth.done.push(done);
        self.take_over(root);
        let (floor, value) = (self.truth.floor, self.value_at(self.moment()));
        let is_below = floor.is_some_and(|floor| value.is_some_and(|value| value.is_below(floor)));
        assert!(!is_below, "set to {value:?}, below {floor:?}");
    }

    /// The root has durably settled some datacenter.
    pub fn settled(&mut self, root: &Root) {
        let total = self.total_at(self.moment());
        self.totals.push(total);
        let (before, after) = (self.truth.newest.base, root.operations.base());
        let news: Vec<Datacenter> = std::mem::take(&mut self.truth.newest.unsettled);
        self.take_over(root);
        let is_news = |datacenter: &&Datacenter| root.operations.is_settled(datacenter);
        let news: Vec<&Datacenter> = news.iter().filter(is_news).collect();
        let kept = after.without(0, 0).plus(before.negated());
        if !self.clocks_differ {
            // What its clients began to write after the operation was done.
            let done = self.truth.newest.done;
            let is_news = |place: usize| news.contains(&&datacenter(place / CELLS));
            let counted_by = &self.truth.newest.counted_by;
            let later = self.writes.iter().filter(|write| {
                let is_taken = |at| is_news(write.place) && at <= counted_by[&write.place];
                write.begun >= done && write.commit.is_some_and(|(at, _)| is_taken(at))
            });
            let added = later.map(|write| write.delta.0).sum::<u128>();
            assert!(
                !kept.is_below(Value::new(added, 0)),
                "{added} came after the operation, and {kept} are kept"
            );
        }
    }

    /// Looks at what operations say of each cell, and has it hold from now on.
    fn take_over(&mut self, root: &Root) {
        let (operations, generation) = (&root.operations, root.generation);
        let mut offset = operations.base();
        for place in 0..DATACENTERS.len() * CELLS {
            if !operations.is_settled(&datacenter(place / CELLS)) {
                continue;
            }
            let (added, removed) = baseline(operations, place);
            offset = offset.without(added, removed);
            let known = self.truth.newest.baselines.insert(place, (added, removed));
            if let Some(known) = known {
                assert_eq!(known, (added, removed), "the baseline of cell {place}");
                continue;
            }
            let log = self.cells.get(&(place, generation)).into_iter().flatten();
            let begun = self.truth.newest.begun;
            let mut before = log.clone().filter(|(moment, _)| *moment <= begun);
            let least = before.next_back().map_or((0, 0), |(_, held)| *held);
            let after = log.filter(|(moment, _)| *moment > begun).copied();
            let mut held = std::iter::once((begun, least)).chain(after);
            let at = held.find(|(_, held)| *held == (added, removed));
            let (at, _) = at.unwrap_or_else(|| {
                panic!("cell {place} had not counted {added} − {removed} since {begun}")
            });
            self.truth.newest.counted_by.insert(place, at);
        }
        let unsettled = operations.unsettled().to_vec();
        let offset = unsettled.is_empty().then_some(offset);
        self.truth.offsets.push((self.moment(), offset));
        let state = (generation, operations.number(), unsettled.clone());
        self.truth.known.insert(state, offset);
        self.truth.newest.unsettled = unsettled;
        self.truth.newest.base = operations.base();
    }

    /// No operation was done of which a version does not know.
    pub fn check_not_operated(&self, version: &Version, generation: u64) {
        let mut done = self.truth.done.iter();
        let news = done.find(|(of, number, _)| *of == generation && *number > version.operations());
        assert_eq!(news, None, "an operation was done since {version:?}");
    }

    /// A read that began at that moment has seen every operation that was done by then, and its value is what its
    /// cells have counted, and what operations have made of that.
    pub fn check_operations(&self, begun: usize, read: &GlobalSum, is_complete: bool) {
        let (root, generation) = (&read.root, read.root.generation);
        let done = self.truth.done.iter();
        let mut done = done.filter(|(of, _, moment)| *of == generation && *moment <= begun);
        let number = root.operations.number();
        assert!(done.next_back().is_none_or(|(_, done, _)| *done <= number));
        let is_told =
            |(datacenter, part): &(Datacenter, Option<_>)| read.is_told(datacenter, part.as_ref());
        let is_exact = is_complete && read.datacenters.iter().all(is_told);
        // What has ended is dropped cell by cell.
        if !is_exact || !self.is_living(generation) {
            return;
        }
        let state = (generation, number, root.operations.unsettled().to_vec());
        let offset = match number {
            0 => Value::default(),
            _ => self.truth.known[&state].expect("all are settled"),
        };
        let parts = read
            .datacenters
            .iter()
            .filter_map(|(_, part)| part.as_ref());
        let plain = parts.fold(offset, |plain, part| plain.plus(part.summary.value()));
        let told = read.value();
        assert!(is_same(told, plain), "read as {told}, and it is {plain}");
    }
}
