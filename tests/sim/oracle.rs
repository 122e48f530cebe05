//! What the world is compared with: plain integers, noted at every commit.
//!
//! Invariants: a write is counted at most once in a generation, and while that lives; what was acknowledged is in every
//! later complete read, and no read has anything that was not counted before it ended.

use std::collections::BTreeMap;

use tally::cluster::root::Root;
use tally::counter::cell::Cell;
use tally::counter::ledger::{Recorded, WriteKey};
use tally::counter::merge::{CellTotals, Question};
use tally::counter::nonces::Nonce;
use tally::counter::total::{Sum, Value};
use tally::protocol::messages::{Flushed, GlobalSum};

use super::events::Events;
use super::keys::Keys;
use super::truth::Truth;
use super::{CELLS, DATACENTERS};

/// (added, removed).
pub type Totals = (u128, u128);

/// What the client of a write was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Counted,
    /// Nothing was counted, and never will be.
    Refused,
    Unknown,
}

#[derive(Debug)]
pub struct Write {
    pub(super) delta: Totals,
    /// The moment after which it was begun, and that which counted it.
    pub(super) begun: usize,
    pub(super) commit: Option<usize>,
    pub(super) place: usize,
    end: Option<End>,
}

/// From when to when a generation lived, in moments.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    pub(super) born: usize,
    pub(super) ended: Option<usize>,
}

/// The truth. A *moment* is a commit, or the birth or end of a generation.
#[derive(Default)]
pub struct Oracle {
    pub(super) writes: Vec<Write>,
    flushes: BTreeMap<(u64, u64), Vec<usize>>,
    pub keys: Keys,
    pub events: Events,
    pub truth: Truth,
    /// The living counter after each moment; at first there is none.
    pub(super) totals: Vec<Totals>,
    /// Each cell in each generation after each of its commits, with their moments.
    pub(super) cells: BTreeMap<(usize, u64), Vec<(usize, Totals)>>,
    pub(super) generations: BTreeMap<u64, Life>,
    /// Whether the root was told that nobody counts.
    pub is_stopped: bool,
}

pub(super) fn sum(totals: Totals) -> Value {
    Value::new(totals.0, totals.1)
}

fn plus(one: Totals, other: Totals) -> Totals {
    (one.0 + other.0, one.1 + other.1)
}

impl Oracle {
    pub fn begin_write(&mut self, delta: Totals) -> usize {
        self.writes.push(Write {
            delta,
            begun: self.totals.len(),
            place: 0,
            commit: None,
            end: None,
        });
        self.writes.len() - 1
    }

    /// A write goes out in the flush of this name.
    pub fn joined(&mut self, write: usize, nonce: Nonce) {
        let flush = self.flushes.entry((nonce.lane, nonce.number));
        flush.or_default().push(write);
    }

    /// What has happened so far: what a read that begins now must have.
    pub fn moment(&self) -> usize {
        self.totals.len()
    }

    pub(super) fn total_at(&self, moment: usize) -> Totals {
        moment
            .checked_sub(1)
            .map_or((0, 0), |last| self.totals[last])
    }

    /// The root has durably let a generation live.
    pub fn lives(&mut self, root: &Root) {
        let generation = root.generation;
        if self.generations.contains_key(&generation) {
            let ended = self.generations[&generation].ended;
            assert_eq!(ended, None, "generation {generation} lives again");
            self.truth.holds(root);
            return;
        }
        let newest = self.generations.last_key_value();
        assert!(newest.is_none_or(|(newest, life)| *newest < generation && life.ended.is_some()));
        self.totals.push((0, 0));
        let born = self.moment();
        self.generations
            .insert(generation, Life { born, ended: None });
        self.truth.begins(born);
        self.truth.holds(root);
    }

    /// The root has durably ended a generation, and what it had counted with it.
    pub fn ends(&mut self, generation: u64) {
        self.totals.push((0, 0));
        let ended = self.moment();
        let life = self.generations.get_mut(&generation).expect("a generation");
        life.ended = Some(ended);
        self.truth.begins(ended);
    }

    /// Whether a generation lives.
    pub fn is_living(&self, generation: u64) -> bool {
        let life = self.generations.get(&generation);
        life.is_some_and(|life| life.ended.is_none())
    }

    /// The generations that have ended.
    pub fn ended_generations(&self) -> Vec<u64> {
        let ended = self
            .generations
            .iter()
            .filter(|(_, life)| life.ended.is_some());
        ended.map(|(generation, _)| *generation).collect()
    }

    /// A cell has counted this much more, as its number `sequence`. Returns the moment.
    fn commit(&mut self, place: usize, generation: u64, sequence: u64, delta: Totals) -> usize {
        assert!(
            !self.is_stopped,
            "cell {place} counts after all were stopped"
        );
        let life = self
            .generations
            .get(&generation)
            .expect("a generation of the root");
        assert_eq!(
            life.ended, None,
            "cell {place} counts for an ended generation"
        );
        let total = plus(self.total_at(self.moment()), delta);
        self.totals.push(total);
        let moment = self.moment();
        self.check_floor(moment, delta);
        let log = self.cells.entry((place, generation)).or_default();
        let held = log.last().map_or((0, 0), |(_, held)| *held);
        log.push((moment, plus(held, delta)));
        assert_eq!(sequence, u64::try_from(log.len()).expect("few commits"));
        moment
    }

    fn commits_of(&self, place: usize, generation: u64) -> u64 {
        let log = self.cells.get(&(place, generation));
        u64::try_from(log.map_or(0, Vec::len)).expect("few commits")
    }

    /// A cell answers a flush. Where it calls the counter's value exact, that is the value right after it.
    pub fn flushed(&mut self, place: usize, nonce: Nonce, flushed: &Flushed) {
        let (generation, own) = (flushed.generation, flushed.outcome);
        if own.sequence <= self.commits_of(place, generation) {
            return; // A repetition.
        }
        let writes = &self.flushes[&(nonce.lane, nonce.number)];
        let deltas = writes.iter().map(|write| self.writes[*write].delta);
        let delta = deltas.fold((0, 0), plus);
        let writes = writes.clone();
        let moment = self.commit(place, generation, own.sequence, delta);
        let born = self.generations[&generation].born;
        for number in writes {
            let write = &mut self.writes[number];
            // What was counted before has ended with its generation, and the memory of its flush too.
            let is_first = write.commit.is_none_or(|before| before < born);
            assert!(is_first, "a write was counted twice: {write:?}");
            write.commit = Some(moment);
            write.place = place;
        }
        let (_, held) = self.cells[&(place, generation)].last().expect("a commit");
        assert_eq!(
            (own.added, own.removed),
            *held,
            "cell {place} lost something"
        );
        if let Some(elsewhere) = flushed.elsewhere {
            assert!(
                !self.events.has_waiting(generation),
                "called exact while events wait"
            );
            let told =
                Value::new(own.added, own.removed).plus(Value::new(elsewhere.0, elsewhere.1));
            self.check_value(told, moment..=moment, "called exact");
        }
    }

    /// A lead has counted a keyed write.
    pub fn counted(&mut self, place: usize, key: WriteKey, recorded: &Recorded) {
        let generation = recorded.generation;
        let delta = self.keys.counted(key, recorded);
        let moment = self.commit(place, generation, recorded.sequence, delta);
        if recorded.is_exact {
            let told = Value::new(recorded.totals.0, recorded.totals.1);
            self.check_value(told, moment..=moment, "a keyed write's value");
        }
    }

    /// What a cell holds, in memory or on disk, is what it has counted.
    pub fn check_cell(&self, place: usize, state: &Cell) {
        let Some(generation) = state.generation() else {
            return;
        };
        let part = state
            .answer(&Question::plain(generation))
            .expect("its own generation");
        self.check_totals(place, &part.totals);
        let all = self.commits_of(place, generation);
        assert_eq!(part.totals.sequence, all, "cell {place} forgot a commit");
    }

    fn check_totals(&self, place: usize, told: &CellTotals) {
        assert!(
            told.sequence <= self.commits_of(place, told.generation),
            "cell {place} is ahead"
        );
        let log = self.cells.get(&(place, told.generation));
        let number = usize::try_from(told.sequence).expect("few commits");
        let held = number
            .checked_sub(1)
            .map_or((0, 0), |last| log.expect("a log")[last].1);
        assert_eq!((told.added, told.removed), held, "cell {place} at {number}");
    }

    /// A client got its answer. A value that is called exact was the counter's at some moment after the
    /// write was counted: one whose flush was repeated may be told the moment of the repetition.
    pub fn ended(&mut self, number: usize, end: End, flushed: Option<&Flushed>) {
        let write = &mut self.writes[number];
        write.end = Some(end);
        let commit = write.commit;
        match end {
            End::Counted => assert!(commit.is_some(), "acknowledged, not counted: {write:?}"),
            End::Refused => assert!(commit.is_none(), "counted though refused: {write:?}"),
            End::Unknown => {}
        }
        let told = flushed.and_then(|flushed| Some((flushed.outcome, flushed.elsewhere?)));
        if let (Some((own, elsewhere)), Some(commit)) = (told, commit) {
            let value =
                Value::new(own.added, own.removed).plus(Value::new(elsewhere.0, elsewhere.1));
            self.check_value(value, commit..=self.moment(), "a value that never was");
        }
    }

    /// A read that began at that moment found no counter.
    pub fn check_absent(&self, begun: usize) {
        let is_whole = |life: &Life| life.born <= begun && life.ended.is_none();
        let living = self.generations.values().any(is_whole);
        assert!(!living, "a counter that lives is not found");
    }

    /// Looks at a read that began at that moment and ends now.
    pub fn check_read(&self, begun: usize, read: &GlobalSum, about_times: bool) {
        let generation = read.root.generation;
        let life = self.generations[&generation];
        assert!(
            life.ended.is_none_or(|ended| ended > begun),
            "an ended counter is read"
        );
        let mut total = (Sum::ZERO, Sum::ZERO);
        let mut is_complete = true;
        for (number, name) in DATACENTERS.iter().enumerate() {
            let named = |(datacenter, _): &&(_, _)| -> bool { is_named(datacenter, name) };
            let told = read
                .datacenters
                .iter()
                .find(named)
                .map(|(_, sum)| sum.as_ref());
            for shard in 0..CELLS {
                let place = number * CELLS + shard;
                let shard = super::shard_of(place);
                let log = self.cells.get(&(place, generation));
                let before = log
                    .into_iter()
                    .flatten()
                    .take_while(|(moment, _)| *moment <= begun);
                let known = u64::try_from(before.count()).expect("few commits");
                let cells = told.flatten().map_or(&[][..], |sum| &sum.cells);
                let told: Vec<_> = cells.iter().filter(|cell| cell.0 == shard).collect();
                assert!(told.len() <= 1, "cell {place} is in a sum twice");
                let Some((_, told_cell)) = told.first() else {
                    let sum = read
                        .datacenters
                        .iter()
                        .find(named)
                        .map(|(_, sum)| sum.as_ref());
                    let is_missing = matches!(sum, Some(None))
                        || sum
                            .flatten()
                            .is_some_and(|sum| sum.missing.contains(&shard));
                    is_complete &= !is_missing;
                    let may_lack = known == 0 || is_missing || life.ended.is_some();
                    assert!(may_lack, "a sum lacks cell {place}");
                    continue;
                };
                assert_eq!(told_cell.generation, generation, "cell {place}");
                assert!(
                    told_cell.sequence >= known,
                    "cell {place} is told as it was before the read"
                );
                self.check_totals(place, told_cell);
                total = (
                    total.0.plus(told_cell.added.into()),
                    total.1.plus(told_cell.removed.into()),
                );
            }
        }
        let parts = || read.datacenters.iter().filter_map(|(_, sum)| sum.as_ref());
        let added: Sum = parts().map(|sum| sum.summary.added).sum();
        let removed: Sum = parts().map(|sum| sum.summary.removed).sum();
        assert_eq!((added, removed), total);
        self.check_operations(begun, read, is_complete);
        if about_times && is_complete && life.ended.is_none() {
            // The window covers all of the time that such a world takes.
            let windows = parts().map(|sum| sum.summary.window.count);
            let window: Sum = windows.map(Sum::from).sum();
            let (least, most) = (
                self.total_at(begun.max(life.born)).0,
                self.total_at(self.moment()).0,
            );
            assert!(window >= least.into(), "a window lacks something");
            assert!(window <= most.into(), "a window has too much");
        }
    }

    /// Compares with the plain integers once everything is at rest and every client has its answer.
    pub fn check_rest(&self, read: &GlobalSum) {
        let is_whole = |sum: &tally::protocol::messages::DatacenterSum| sum.missing.is_empty();
        let mut parts = read.datacenters.iter().map(|(_, sum)| sum.as_ref());
        assert!(
            parts.all(|sum| sum.is_some_and(is_whole)),
            "the last read is complete"
        );
        self.check_read(self.moment(), read, false);
        self.events.check_rest();
        let born = self.generations[&read.root.generation].born;
        let mut plain = self.keys.check_rest(read.root.generation);
        for write in &self.writes {
            match (write.end.expect("every client has an answer"), write.commit) {
                (End::Counted, None) => panic!("lost: {write:?}"),
                (End::Refused, Some(_)) => panic!("counted though refused: {write:?}"),
                (_, Some(commit)) if commit > born => plain = plus(plain, write.delta),
                _ => {}
            }
        }
        let parts = read.datacenters.iter().filter_map(|(_, sum)| sum.as_ref());
        let told = parts.fold(Value::default(), |told, sum| told.plus(sum.summary.value()));
        assert_eq!(told.to_string(), sum(plain).to_string(), "at rest");
        assert!(read.root.operations.unsettled().is_empty(), "at rest");
        self.check_value(read.value(), self.moment()..=self.moment(), "at rest");
    }
}

fn is_named(datacenter: &tally::counter::id::Datacenter, name: &str) -> bool {
    datacenter.as_str() == name
}
