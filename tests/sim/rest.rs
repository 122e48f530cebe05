//! How the world comes to rest, and what must hold then.
//!
//! Invariant: here nothing is lost, and all arrives in order; so whatever waits gets its answer.

use super::body::Body;
use super::inbox::Inbox;
use super::place::Place;
use super::root::Home;
use super::steps::Step;
use super::world::{Asked, EDGES, World};
use super::{CELLS, reader};

/// More deliveries than anything here takes to come to rest.
const REST_MAX: usize = 20_000;

/// Time that passes while everything rests: as long as anybody waits for anything.
const REST_TICK_MS: i64 = 20;
const REST_TICKS_MAX: usize = 500;

/// More alarms than it takes inboxes to be empty.
const ALARMS_MAX: usize = 200;

/// Longer than readers share a view.
const VIEW_OVER_MS: i64 = 600;

/// How often a client sends a keyed write again that nothing disturbs.
const TRIES_MAX: usize = 4;

impl World {
    /// What arrives next where nothing is lost and nothing overtakes.
    pub fn next_arrival(&self) -> Option<Step> {
        let network = self.network.borrow();
        let answer = (!network.answers.is_empty()).then_some(Step::Answer(0));
        answer.or((!network.requests.is_empty()).then_some(Step::Deliver(0)))
    }

    /// Lets everything arrive, in order.
    pub fn rest(&mut self) {
        let mut ticks = 0;
        for _ in 0..REST_MAX {
            self.run();
            let is_stopped = self.airs.iter().any(|air| air.oracle.borrow().is_stopped);
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
        let cells = self.places.iter().all(Place::is_at_rest);
        let roots = self.homes.iter().all(Home::is_at_rest);
        let inboxes = self.inboxes.iter().all(Inbox::is_at_rest);
        cells && roots && inboxes && self.tasks.is_empty()
    }

    /// Lets everything arrive but the first so many requests and answers.
    pub fn rest_behind(&mut self, requests: usize, answers: usize) {
        for _ in 0..REST_MAX {
            let network = self.network.borrow();
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
        let network = self.network.borrow();
        (network.requests.len(), network.answers.len())
    }

    /// Brings everything to rest and back to one shard, and compares with the plain integers.
    pub fn check(mut self) {
        for place in &self.places {
            place.core.refused_writes.set(0);
        }
        for inbox in &self.inboxes {
            inbox.rows.borrow().refused_writes.set(0);
        }
        for air in self.airs.iter() {
            air.is_holding.set(false);
        }
        self.rest();
        self.retry_deeds();
        self.settle_roots();
        // Before settings are put that all cells hear of.
        self.decide_at_home();
        self.end_settings();
        self.settle_roots();
        self.retry_keyed();
        self.retry_bodies();
        self.empty_inboxes();
        // Whatever an isolate believes, its write is counted somewhere, well.
        self.write_everywhere();
        for lead in 0..self.places.len() / CELLS {
            while self.places[lead * CELLS].core.spread() > 1 {
                self.step(Step::Halve(lead));
                self.rest();
            }
            self.step(Step::Alarm(lead));
            self.rest();
            let lead = &self.places[lead * CELLS].core;
            assert!(!lead.has_to_seal(), "a shard was left unsealed");
        }
        self.settle_roots();
        self.write_everywhere();
        for air in self.airs.clone().iter() {
            for about_times in [false, true] {
                self.begin(None, reader::read(air.clone(), about_times, true));
                self.rest();
            }
        }
        for place in &mut self.places {
            // Memory, and what a crash leaves of it.
            let core = place.core.clone();
            let oracle = core.air.oracle.borrow();
            oracle.check_cell(core.place, &core.state.borrow());
            let generation = core.state.borrow().generation();
            let samples = core.rows.borrow().window_samples(0, i64::MAX);
            oracle.check_samples(core.place, generation, &samples);
            drop(oracle);
            place.crash();
        }
    }

    /// Every counter has settings again that leave all to Tally, and every cell knows.
    fn end_settings(&mut self) {
        for counter in 0..self.airs.len() {
            self.step(Step::Put {
                counter,
                shards: None,
                ttl: None,
            });
            self.rest();
            self.step(Step::RootAlarm(counter));
            self.rest();
        }
    }

    /// Lets the alarms of roots ring: nobody is left to be told, or to be heard of.
    fn settle_roots(&mut self) {
        for counter in 0..self.airs.len() {
            self.step(Step::RootAlarm(counter));
            self.rest();
            assert!(!self.homes[counter].has_to_tell(), "a lead was not told");
        }
    }

    /// Lets alarms ring until every inbox has counted all that it has.
    fn empty_inboxes(&mut self) {
        for _ in 0..ALARMS_MAX {
            let alarms = self.inboxes.iter().map(Inbox::alarm_ms);
            let next = (0..)
                .zip(alarms)
                .filter_map(|(inbox, at)| Some((at?, inbox)));
            let Some((at_ms, inbox)) = next.min() else {
                let is_empty = |inbox: &Inbox| inbox.rows.borrow().is_empty();
                let are_empty = self.inboxes.iter().all(is_empty);
                assert!(are_empty, "an inbox has something left and no alarm");
                return;
            };
            let wait_ms = (at_ms - self.now_ms.get()).max(0);
            self.step(Step::Tick(wait_ms));
            self.step(Step::InboxAlarm(inbox));
            self.rest();
        }
        panic!("an inbox is never empty");
    }

    /// Every client of a keyed write or event gets its last answer.
    fn retry_keyed(&mut self) {
        let wishes: Vec<Asked> = self.wishes.borrow().keys().copied().collect();
        for asked in wishes {
            let (_, key, ..) = asked;
            for _ in 0..TRIES_MAX {
                if !self.wishes.borrow()[&asked] {
                    self.send_keyed(key % EDGES, asked);
                    self.rest();
                    // A log may be full.
                    self.empty_inboxes();
                }
            }
            let is_answered = self.wishes.borrow()[&asked];
            assert!(is_answered, "{asked:?} is never answered");
            // And once more from elsewhere: the answer stays.
            self.send_keyed((key + 1) % EDGES, asked);
            self.rest();
        }
    }

    /// Every body with a key is sent until all that it holds is answered for, and once more.
    fn retry_bodies(&mut self) {
        let bodies: Vec<Body> = self.bodies.borrow().keys().copied().collect();
        for body in bodies {
            for edge in 0..2 {
                self.send_body(edge, body);
                self.rest();
            }
            assert!(self.bodies.borrow()[&body], "{body:?} is never answered");
        }
    }

    /// Where a counter has a home, what was just seen is a condition that holds, for an isolate that knows the home.
    fn decide_at_home(&mut self) {
        for counter in 0..self.airs.len() {
            // An isolate that believes in another home learns from its first failure.
            let is_decided = (0..2).any(|_| self.is_decided(counter));
            let has_home = self.airs[counter].oracle.borrow().has_home();
            assert!(is_decided || !has_home, "home does not decide");
        }
    }

    fn is_decided(&mut self, counter: usize) -> bool {
        let (edge, reader) = (0, 1);
        let write = None;
        // Nobody shares a view from before.
        self.step(Step::Tick(VIEW_OVER_MS));
        self.step(Step::ReadAs {
            counter,
            edge,
            reader,
            write,
        });
        self.rest();
        let (pick, key) = (reader.into(), None);
        self.step(Step::WriteIf {
            counter,
            edge,
            pick,
            key,
        });
        self.rest();
        self.airs[counter].oracle.borrow().keys.is_drawn_used()
    }

    fn write_everywhere(&mut self) {
        for counter in 0..self.airs.len() {
            for edge in 0..EDGES {
                self.step(Step::Write {
                    counter,
                    edge,
                    added: 1,
                    removed: 0,
                });
                self.rest();
            }
        }
    }
}
