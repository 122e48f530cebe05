//! The whole of the simulated datacenter, moved by steps.
//!
//! Invariant: the same steps give the same run; there is no clock and no chance in it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use tally::counter::split::Step as Change;

use super::edge::{self, Edge};
use super::network::{Network, unavailable};
use super::oracle::Oracle;
use super::place::{Place, Task, is_over, on_register};
use super::{Air, CELLS, ROOT};

/// 1 May 2026, 00:00:30 UTC.
const BEGIN_MS: i64 = 1_777_593_630_000;

/// Isolates; their lots send them to all shards.
pub const EDGES: u8 = 8;

/// The longest that a step takes: 400 of them stay below the minute for which flushes are remembered.
pub const TICK_MS_MAX: i64 = 100;

/// More deliveries than anything here takes to come to rest.
const REST_MAX: usize = 20_000;

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// An isolate writes, unless its lane is busy.
    Write {
        edge: u8,
        added: u8,
        removed: u8,
    },
    /// An isolate believes what was true once.
    Believe {
        edge: u8,
        doublings: u8,
    },
    /// A request reaches its object.
    Deliver(usize),
    /// An answer reaches its caller.
    Answer(usize),
    LoseRequest(usize),
    LoseAnswer(usize),
    /// A caller gives up; what it sent is still on its way.
    GiveUp(usize),
    Crash(usize),
    /// Storage refuses so many writes of an object.
    Refuse(usize, u32),
    Double,
    Halve,
    Alarm,
    Read {
        about_times: bool,
    },
    /// The root is about to end the counter; and goes on without.
    Suspend,
    Resume,
    Tick(i64),
}

pub struct World {
    air: Rc<Air>,
    places: Vec<Place>,
    edges: Vec<Rc<Edge>>,
    tasks: Vec<Task>,
}

impl World {
    pub fn new() -> Self {
        let air = Rc::new(Air {
            network: RefCell::new(Network::default()),
            oracle: RefCell::new(Oracle::default()),
            now_ms: Cell::new(BEGIN_MS),
            is_ending: Cell::default(),
        });
        let cells = 0..u8::try_from(CELLS).expect("few cells");
        Self {
            places: cells.map(|shard| Place::new(shard, &air)).collect(),
            edges: (0..EDGES).map(Edge::new).collect(),
            tasks: Vec::new(),
            air,
        }
    }

    fn begin(&mut self, task: impl Future<Output = ()> + 'static) {
        self.tasks.push(Box::pin(task));
    }

    /// Lets everybody go on until all wait. Twice without news: a lock may have been given back.
    fn run(&mut self) {
        let mut idle = 0;
        while idle < 2 {
            let before = self.tasks.len();
            self.tasks.retain_mut(|task| !is_over(task));
            let mut ended = self.tasks.len() != before;
            for place in &mut self.places {
                ended |= place.run();
            }
            idle = if ended { 0 } else { idle + 1 };
        }
    }

    fn deliver(&mut self, pick: usize) {
        let mut network = self.air.network.borrow_mut();
        if network.requests.is_empty() {
            return;
        }
        let pick = pick % network.requests.len();
        let request = network.requests.remove(pick);
        drop(network);
        if request.to == ROOT {
            self.begin(on_register(self.air.clone(), request.call));
        } else {
            self.places[request.to].deliver(request);
        }
    }

    fn answer(&mut self, pick: usize) {
        let mut network = self.air.network.borrow_mut();
        if !network.answers.is_empty() {
            let pick = pick % network.answers.len();
            let (call, reply) = network.answers.remove(pick);
            network.end(call, reply);
        }
    }

    fn lose_request(&mut self, pick: usize) {
        let mut network = self.air.network.borrow_mut();
        if !network.requests.is_empty() {
            let pick = pick % network.requests.len();
            let call = network.requests.remove(pick).call;
            network.end(call, Err(unavailable()));
        }
    }

    fn lose_answer(&mut self, pick: usize) {
        let mut network = self.air.network.borrow_mut();
        if !network.answers.is_empty() {
            let pick = pick % network.answers.len();
            let (call, _) = network.answers.remove(pick);
            network.end(call, Err(unavailable()));
        }
    }

    fn decide(&mut self, change: Change) {
        let lead = &self.places[0].core;
        if lead.is_born() {
            lead.decide(change);
        }
    }

    pub fn step(&mut self, step: Step) {
        match step {
            Step::Write {
                edge,
                added,
                removed,
            } => {
                let edge = self.edges[usize::from(edge)].clone();
                if edge.is_free() {
                    let delta = (added.into(), removed.into());
                    self.begin(edge::write(self.air.clone(), edge, delta));
                }
            }
            Step::Believe { edge, doublings } => {
                self.edges[usize::from(edge)].shards.set(1 << doublings);
            }
            Step::Deliver(pick) => self.deliver(pick),
            Step::Answer(pick) => self.answer(pick),
            Step::LoseRequest(pick) => self.lose_request(pick),
            Step::LoseAnswer(pick) => self.lose_answer(pick),
            Step::GiveUp(pick) => self.air.network.borrow_mut().time_out(pick),
            Step::Crash(cell) => self.places[cell].crash(),
            Step::Refuse(cell, times) => self.places[cell].core.refused_writes.set(times),
            Step::Double => self.decide(Change::Double),
            Step::Halve => self.decide(Change::Halve),
            Step::Alarm => self.places[0].core.on_alarm(),
            Step::Read { about_times } => {
                self.begin(edge::read(self.air.clone(), about_times, false));
            }
            Step::Suspend if !self.air.is_ending.get() => {
                self.begin(edge::suspend(self.air.clone()));
            }
            Step::Suspend => {}
            Step::Resume => self.resume(),
            Step::Tick(milliseconds) => {
                self.air.now_ms.set(self.air.now_ms.get() + milliseconds);
            }
        }
        self.run();
    }

    /// The root goes on with the counter, if it has stopped it.
    fn resume(&mut self) {
        let mut oracle = self.air.oracle.borrow_mut();
        if std::mem::take(&mut oracle.is_stopped) {
            self.air.is_ending.set(false);
        }
    }

    /// What arrives next where nothing is lost and nothing overtakes.
    pub fn next_arrival(&self) -> Option<Step> {
        let network = self.air.network.borrow();
        let answer = (!network.answers.is_empty()).then_some(Step::Answer(0));
        answer.or((!network.requests.is_empty()).then_some(Step::Deliver(0)))
    }

    /// Lets everything arrive, in order.
    pub fn rest(&mut self) {
        for _ in 0..REST_MAX {
            self.run();
            match self.next_arrival() {
                Some(step) => self.step(step),
                None if self.air.oracle.borrow().is_stopped => self.resume(),
                None => {
                    let at_rest = self.places.iter().all(Place::is_at_rest);
                    assert!(at_rest && self.tasks.is_empty(), "somebody waits for ever");
                    return;
                }
            }
        }
        panic!("it never comes to rest");
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
        self.rest();
        // Whatever an isolate believes, its write is counted somewhere, well.
        for edge in 0..EDGES {
            self.step(Step::Write {
                edge,
                added: 1,
                removed: 0,
            });
            self.rest();
        }
        while self.places[0].core.spread() > 1 {
            self.step(Step::Halve);
            self.rest();
        }
        self.step(Step::Alarm);
        self.rest();
        assert!(
            !self.places[0].core.has_to_seal(),
            "a shard was left unsealed"
        );
        for edge in 0..EDGES {
            self.step(Step::Write {
                edge,
                added: 1,
                removed: 0,
            });
            self.rest();
        }
        for about_times in [false, true] {
            self.begin(edge::read(self.air.clone(), about_times, true));
            self.rest();
        }
    }
}
