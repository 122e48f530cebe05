//! How the world comes to rest, and what must hold then.
//!
//! Invariant: here nothing is lost, and all arrives in order; so whatever waits gets its answer.

use super::place::Place;
use super::world::{EDGES, Step, World};
use super::{CELLS, reader};

/// More deliveries than anything here takes to come to rest.
const REST_MAX: usize = 20_000;

/// Time that passes while everything rests: as long as anybody waits for anything.
const REST_TICK_MS: i64 = 20;
const REST_TICKS_MAX: usize = 500;

/// How often a client sends a keyed write again that nothing disturbs.
const TRIES_MAX: usize = 4;

impl World {
    /// What arrives next where nothing is lost and nothing overtakes.
    pub fn next_arrival(&self) -> Option<Step> {
        let network = self.air.network.borrow();
        let answer = (!network.answers.is_empty()).then_some(Step::Answer(0));
        answer.or((!network.requests.is_empty()).then_some(Step::Deliver(0)))
    }

    /// Lets everything arrive, in order.
    pub fn rest(&mut self) {
        let mut ticks = 0;
        for _ in 0..REST_MAX {
            self.run();
            let is_stopped = self.air.oracle.borrow().is_stopped;
            match self.next_arrival() {
                Some(step) => self.step(step),
                None if is_stopped => self.step(Step::Resume),
                None if self.is_at_rest() => return,
                None => {
                    ticks += 1;
                    assert!(ticks < REST_TICKS_MAX, "somebody waits for ever");
                    self.step(Step::Tick(REST_TICK_MS));
                }
            }
        }
        panic!("it never comes to rest");
    }

    fn is_at_rest(&self) -> bool {
        let objects = self.places.iter().all(Place::is_at_rest) && self.home.is_at_rest();
        objects && self.tasks.is_empty()
    }

    /// Lets everything arrive but the first so many requests and answers.
    pub fn rest_behind(&mut self, requests: usize, answers: usize) {
        for _ in 0..REST_MAX {
            let network = self.air.network.borrow();
            let (asked, answered) = (network.requests.len(), network.answers.len());
            drop(network);
            match (asked > requests, answered > answers) {
                (_, true) => self.step(Step::Answer(answers)),
                (true, false) => self.step(Step::Deliver(requests)),
                (false, false) => return,
            }
        }
        panic!("it never comes to rest");
    }

    /// What is on its way: (requests, answers).
    pub fn under_way(&self) -> (usize, usize) {
        let network = self.air.network.borrow();
        (network.requests.len(), network.answers.len())
    }

    /// Brings everything to rest and back to one shard, and compares with the plain integer.
    pub fn check(mut self) {
        for place in &self.places {
            place.core.refused_writes.set(0);
        }
        self.air.is_holding.set(false);
        self.rest();
        self.retry_keyed();
        // Whatever an isolate believes, its write is counted somewhere, well.
        self.write_everywhere();
        for datacenter in 0..self.air.datacenters {
            while self.places[datacenter * CELLS].core.spread() > 1 {
                self.step(Step::Halve(datacenter));
                self.rest();
            }
            self.step(Step::Alarm(datacenter));
            self.rest();
            let lead = &self.places[datacenter * CELLS].core;
            assert!(!lead.has_to_seal(), "a shard was left unsealed");
        }
        self.step(Step::RootAlarm);
        self.rest();
        assert!(!self.home.has_to_tell(), "a lead was not told");
        self.write_everywhere();
        for about_times in [false, true] {
            self.begin(None, reader::read(self.air.clone(), about_times, true));
            self.rest();
        }
        for place in &mut self.places {
            // Memory, and what a crash leaves of it.
            let oracle = self.air.oracle.borrow();
            oracle.check_cell(place.core.place, &place.core.state.borrow());
            drop(oracle);
            place.crash();
        }
    }

    /// Every client of a keyed write gets its last answer.
    fn retry_keyed(&mut self) {
        let wishes: Vec<(u8, bool)> = self.wishes.borrow().keys().copied().collect();
        for (key, is_other) in wishes {
            for _ in 0..TRIES_MAX {
                if !self.wishes.borrow()[&(key, is_other)] {
                    self.send_keyed(key % EDGES, key, is_other);
                    self.rest();
                }
            }
            let is_answered = self.wishes.borrow()[&(key, is_other)];
            assert!(is_answered, "key {key} is never answered");
            // And once more from elsewhere: the answer stays.
            self.send_keyed((key + 1) % EDGES, key, is_other);
            self.rest();
        }
    }

    fn write_everywhere(&mut self) {
        for edge in 0..EDGES {
            self.step(Step::Write {
                edge,
                added: 1,
                removed: 0,
            });
            self.rest();
        }
    }
}
