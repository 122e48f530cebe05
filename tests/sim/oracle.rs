//! What the world is compared with: plain integers, noted at every commit.
//!
//! Invariants: a write is counted at most once, and while its generation lives; what was acknowledged is in every
//! later complete read, and no read has anything that was not counted before it ended. Only a flush whose lane had
//! seen no generation may count once more where one has begun since: a cell that crashed has forgotten it.

use std::collections::{BTreeMap, BTreeSet};

use tally::core::cluster::root::Root;
use tally::core::counter::cell::Cell;
use tally::core::counter::id::Datacenter;
use tally::core::counter::ledger::{Recorded, WriteKey};
use tally::core::counter::merge::{CellTotals, Question};
use tally::core::counter::nonces::Nonce;
use tally::core::counter::settings::Ttl;
use tally::core::counter::total::Value;
use tally::core::sketch::{HashId, Token};
use tally::protocol::messages::Flushed;

use super::CELLS;
use super::events::Events;
use super::keys::Keys;
use super::truth::Truth;

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
    pub delta: Totals,
    /// The moment after which it was begun, and the cell that counted it.
    pub begun: usize,
    pub place: usize,
    pub element: Option<(HashId, Token)>,
    /// The moment that counted it, and in which generation.
    pub commit: Option<(usize, u64)>,
    pub end: Option<End>,
}

/// From when to when a generation lived, in moments.
#[derive(Clone, Debug, Default)]
pub struct Life {
    pub born: usize,
    pub ended: Option<usize>,
    /// The times to live that were set, each with the moment from which on.
    pub ttls: Vec<(usize, Option<Ttl>)>,
    /// What was counted when, by the clock of whoever did: (moment, unix milliseconds).
    pub stamps: Vec<(usize, i64)>,
    /// Datacenters that were not stopped before the end, since their clocks stop them.
    pub unstopped: Vec<usize>,
}

/// The truth. A *moment* is a commit, or the birth or end of a generation.
#[derive(Default)]
pub struct Oracle {
    pub writes: Vec<Write>,
    flushes: BTreeMap<(u64, u64), Vec<usize>>,
    /// Flushes whose lanes had not seen the generation that they may count in.
    blind: BTreeSet<(u64, u64)>,
    pub keys: Keys,
    pub events: Events,
    pub truth: Truth,
    /// The living counter after each moment; at first there is none.
    pub totals: Vec<Totals>,
    /// Each cell in each generation after each of its commits, with their moments.
    pub cells: BTreeMap<(usize, u64), Vec<(usize, Totals)>>,
    pub generations: BTreeMap<u64, Life>,
    /// Whether a clock was ever stepped.
    pub clocks_differ: bool,
    /// Whether the root was told that nobody counts.
    pub is_stopped: bool,
    /// By when each version had been told last.
    pub seen_by: BTreeMap<String, usize>,
}

pub fn sum(totals: Totals) -> Value {
    Value::new(totals.0, totals.1)
}

pub fn plus(one: Totals, other: Totals) -> Totals {
    (one.0 + other.0, one.1 + other.1)
}

impl Oracle {
    pub fn begin_write(&mut self, delta: Totals, element: Option<(HashId, Token)>) -> usize {
        self.writes.push(Write {
            delta,
            begun: self.totals.len(),
            place: 0,
            element,
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

    /// A flush goes out that may count in a generation which its lane has not seen.
    pub fn is_blind(&mut self, nonce: Nonce) {
        self.blind.insert((nonce.lane, nonce.number));
    }

    /// What has happened so far: what a read that begins now must have.
    pub fn moment(&self) -> usize {
        self.totals.len()
    }

    pub fn total_at(&self, moment: usize) -> Totals {
        moment
            .checked_sub(1)
            .map_or((0, 0), |last| self.totals[last])
    }

    /// The root has durably let a generation live.
    pub fn lives(&mut self, root: &Root) {
        let (generation, ttl) = (root.generation, root.settings.ttl);
        let moment = self.moment();
        if let Some(life) = self.generations.get_mut(&generation) {
            assert_eq!(life.ended, None, "generation {generation} lives again");
            if life.ttls.last().is_none_or(|(_, last)| *last != ttl) {
                life.ttls.push((moment, ttl));
            }
            self.holds(root);
            return;
        }
        let newest = self.generations.last_key_value();
        assert!(newest.is_none_or(|(newest, life)| *newest < generation && life.ended.is_some()));
        self.totals.push((0, 0));
        let born = self.moment();
        let life = Life {
            born,
            ttls: vec![(moment, ttl)],
            ..Life::default()
        };
        self.generations.insert(generation, life);
        self.truth.begins(born);
        self.holds(root);
    }

    /// The root has durably ended a generation, and what it had counted with it. Those datacenters were not
    /// stopped before.
    pub fn ends(&mut self, generation: u64, unstopped: &[Datacenter]) {
        self.totals.push((0, 0));
        let ended = self.moment();
        let life = self.generations.get_mut(&generation).expect("a generation");
        life.ended = Some(ended);
        self.truth.begins(ended);
        life.unstopped = unstopped.iter().map(super::number_of).collect();
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
    fn commit(
        &mut self,
        (place, at_ms): (usize, i64),
        generation: u64,
        sequence: u64,
        delta: Totals,
    ) -> usize {
        assert!(
            !self.is_stopped,
            "cell {place} counts after all were stopped"
        );
        let total = self.total_at(self.moment());
        let life = self.generations.get_mut(&generation).expect("of the root");
        life.stamps.push((self.totals.len() + 1, at_ms));
        // Clocks that are all true stop everybody in time.
        let counts_on = self.clocks_differ && life.unstopped.contains(&(place / CELLS));
        assert!(
            life.ended.is_none() || counts_on,
            "cell {place} counts for an ended generation"
        );
        let is_living = life.ended.is_none();
        self.totals
            .push(if is_living { plus(total, delta) } else { total });
        let moment = self.moment();
        if is_living {
            self.check_floor(moment, delta);
        }
        let log = self.cells.entry((place, generation)).or_default();
        let held = log.last().map_or((0, 0), |(_, held)| *held);
        log.push((moment, plus(held, delta)));
        assert_eq!(sequence, u64::try_from(log.len()).expect("few commits"));
        moment
    }

    /// A lead has durably taken over a shard's part: a change of its own that counts nothing.
    pub fn keeps_part(&mut self, place: usize, generation: u64) {
        let total = self.total_at(self.moment());
        self.totals.push(total);
        let moment = self.moment();
        let log = self.cells.entry((place, generation)).or_default();
        let held = log.last().map_or((0, 0), |(_, held)| *held);
        log.push((moment, held));
    }

    fn commits_of(&self, place: usize, generation: u64) -> u64 {
        let log = self.cells.get(&(place, generation));
        u64::try_from(log.map_or(0, Vec::len)).expect("few commits")
    }

    /// A cell answers a flush. Where it calls the counter's value exact, that is the value right after it.
    pub fn flushed(&mut self, at: (usize, i64), nonce: Nonce, flushed: &Flushed) {
        let (place, _) = at;
        let (generation, own) = (flushed.generation, flushed.outcome);
        if own.sequence <= self.commits_of(place, generation) {
            return; // A repetition.
        }
        let writes = &self.flushes[&(nonce.lane, nonce.number)];
        let deltas = writes.iter().map(|write| self.writes[*write].delta);
        let delta = deltas.fold((0, 0), plus);
        let writes = writes.clone();
        let is_blind = self.blind.contains(&(nonce.lane, nonce.number));
        let moment = self.commit(at, generation, own.sequence, delta);
        for number in writes {
            let write = &mut self.writes[number];
            // What was counted before has ended with its generation.
            let may_again = |(_, before): (_, u64)| is_blind && before < generation;
            let is_first = write.commit.is_none_or(may_again);
            assert!(is_first, "a write was counted twice: {write:?}");
            write.commit = Some((moment, generation));
            write.place = at.0;
        }
        let (_, held) = self.cells[&(place, generation)].last().expect("a commit");
        assert_eq!(
            (own.added, own.removed),
            (held.0.into(), held.1.into()),
            "cell {place} lost something"
        );
        if let Some(elsewhere) = flushed.elsewhere.filter(|_| self.is_living(generation)) {
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
    pub fn counted(&mut self, at: (usize, i64), key: WriteKey, recorded: &Recorded) {
        let generation = recorded.generation;
        let delta = self.keys.counted(key, recorded);
        let moment = self.commit(at, generation, recorded.sequence, delta);
        self.check_condition(key, recorded);
        if recorded.is_exact && self.is_living(generation) {
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

    pub fn check_totals(&self, place: usize, told: &CellTotals) {
        assert!(
            told.sequence <= self.commits_of(place, told.generation),
            "cell {place} is ahead"
        );
        let log = self.cells.get(&(place, told.generation));
        let number = usize::try_from(told.sequence).expect("few commits");
        let held = number
            .checked_sub(1)
            .map_or((0, 0), |last| log.expect("a log")[last].1);
        let held = (held.0.into(), held.1.into());
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
        if let (Some((own, elsewhere)), Some((commit, _))) = (told, commit) {
            let value =
                Value::new(own.added, own.removed).plus(Value::new(elsewhere.0, elsewhere.1));
            self.check_value(value, commit..=self.moment(), "a value that never was");
        }
    }
}
