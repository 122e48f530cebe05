//! The whole of the simulated world, moved by steps.
//!
//! Invariant: the same steps give the same run; there is no clock and no chance in it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use tally::counter::ledger::WriteKey;
use tally::counter::split::Step as Change;
use tally::protocol::version::Version;

use super::client::{self, Wish};
use super::edge::{self, Edge};
use super::network::{Message, Network, unavailable};
use super::oracle::Oracle;
use super::place::{Place, Task, is_over};
use super::reader::{self, Reader};
use super::root::Home;
use super::{Air, CELLS};

/// 1 May 2026, 00:00:30 UTC.
const BEGIN_MS: i64 = 1_777_593_630_000;

/// Isolates; their lots send them to all datacenters and shards.
pub const EDGES: u8 = 8;

/// Readers who hold versions.
pub const READERS: u8 = 4;

/// The longest that a step takes: 400 of them stay below the minute for which flushes are remembered.
pub const TICK_MS_MAX: i64 = 100;

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// An isolate writes.
    Write {
        edge: u8,
        added: u8,
        removed: u8,
    },
    /// A client sends a keyed write through an isolate, for the first time or again; or another write
    /// under that key.
    Keyed {
        edge: u8,
        key: u8,
        is_other: bool,
    },
    /// An isolate believes what was true once.
    Believe {
        edge: u8,
        doublings: u8,
    },
    /// A request reaches its object.
    Deliver(usize),
    /// A request is delivered once more.
    Repeat(usize),
    /// An answer reaches its caller.
    Answer(usize),
    LoseRequest(usize),
    LoseAnswer(usize),
    /// A caller gives up; what it sent is still on its way.
    GiveUp(usize),
    Crash(usize),
    CrashRoot,
    CrashEdge(u8),
    /// Storage refuses so many writes of an object.
    Refuse(usize, u32),
    /// Leads of that datacenter.
    Double(usize),
    Halve(usize),
    Alarm(usize),
    RootAlarm,
    Read {
        about_times: bool,
    },
    /// A reader sends back the version it holds, and that of somebody's write.
    ReadAs {
        edge: u8,
        reader: u8,
        write: Option<usize>,
    },
    /// The root is about to end the counter; and goes on without.
    Suspend,
    Resume,
    /// The counter is deleted.
    End,
    Tick(i64),
    /// A clock is stepped to so much from the true time: that of a cell, the root or an isolate.
    Skew(usize, i64),
}

pub struct World {
    pub(super) air: Rc<Air>,
    pub(super) places: Vec<Place>,
    pub(super) home: Home,
    edges: Vec<Rc<Edge>>,
    readers: Vec<Rc<Reader>>,
    /// What runs in isolates or nowhere in particular.
    pub(super) tasks: Vec<(Option<u8>, Task)>,
    lives: u64,
    /// Whether all that happens is printed.
    pub is_told: bool,
    /// Versions of writes that were acknowledged.
    written: Rc<RefCell<Vec<Version>>>,
    /// Keyed writes, and whether a client has its last answer.
    pub(super) wishes: Rc<RefCell<BTreeMap<(u8, bool), bool>>>,
}

impl World {
    /// A world of one datacenter where storage takes no time.
    pub fn new() -> Self {
        Self::of(1, false)
    }

    pub fn of(datacenters: usize, is_busy: bool) -> Self {
        let air = Rc::new(Air {
            network: RefCell::new(Network::default()),
            oracle: RefCell::new(Oracle::default()),
            now_ms: Cell::new(BEGIN_MS),
            datacenters,
            is_busy,
            is_holding: Cell::default(),
        });
        let places = 0..datacenters * CELLS;
        Self {
            places: places.map(|place| Place::new(place, &air)).collect(),
            home: Home::new(&air),
            edges: (0..EDGES).map(|lot| Edge::new(&air, lot, 0)).collect(),
            readers: (0..READERS).map(|_| Rc::default()).collect(),
            tasks: Vec::new(),
            lives: 0,
            is_told: false,
            written: Rc::default(),
            wishes: Rc::default(),
            air,
        }
    }

    pub(super) fn begin(&mut self, edge: Option<u8>, task: impl Future<Output = ()> + 'static) {
        self.tasks.push((edge, Box::pin(task)));
    }

    /// Lets everybody go on until all wait. Twice without news: a lock may have been given back.
    pub(super) fn run(&mut self) {
        let mut idle = 0;
        while idle < 2 {
            for (number, edge) in (0..EDGES).zip(&self.edges) {
                let spawned = edge.spawned().into_iter();
                self.tasks.extend(spawned.map(|task| (Some(number), task)));
            }
            let before = self.tasks.len();
            self.tasks.retain_mut(|(_, task)| !is_over(task));
            let mut ended = self.tasks.len() != before || self.home.run();
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
        if request.to == self.air.disk() {
            let durable = (request.call, Ok(super::network::Answer::Done));
            network.answers.push(durable);
            return;
        }
        drop(network);
        if self.is_told {
            eprintln!("    {request:?}");
        }
        if request.to == self.air.root() {
            self.home.deliver(request);
        } else {
            self.places[request.to].deliver(request);
        }
    }

    fn answer(&mut self, pick: usize) {
        let mut network = self.air.network.borrow_mut();
        if !network.answers.is_empty() {
            let pick = pick % network.answers.len();
            let (call, reply) = network.answers.remove(pick);
            if self.is_told {
                eprintln!("    {call}: {reply:?}");
            }
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

    fn decide(&mut self, datacenter: usize, change: Change) {
        let lead = &self.places[datacenter * CELLS].core;
        if lead.is_born() {
            lead.decide(change);
        }
    }

    fn crash_edge(&mut self, number: u8) {
        self.tasks.retain(|(edge, _)| *edge != Some(number));
        self.lives += 1;
        let skew_ms = self.edges[usize::from(number)].skew_ms.get();
        let edge = Edge::new(&self.air, number, self.lives);
        edge.skew_ms.set(skew_ms);
        self.edges[usize::from(number)] = edge;
    }

    /// Sends a keyed write once.
    pub(super) fn send_keyed(&mut self, number: u8, key: u8, is_other: bool) {
        let edge = self.edges[usize::from(number)].clone();
        let amount = u128::from(key) + 1;
        let wish = Wish {
            key: WriteKey([key; 16]),
            fingerprint: is_other.into(),
            delta: if is_other {
                (0, amount)
            } else {
                (amount * 1_000, 0)
            },
        };
        let wishes = self.wishes.clone();
        wishes.borrow_mut().entry((key, is_other)).or_default();
        self.begin(Some(number), async move {
            if client::send(edge, wish).await {
                wishes.borrow_mut().insert((key, is_other), true);
            }
        });
    }

    fn read_as(&mut self, number: u8, reader: u8, write: Option<usize>) {
        let written = self.written.borrow();
        let write = write.and_then(|pick| written.get(pick % written.len().max(1)).cloned());
        drop(written);
        let edge = self.edges[usize::from(number)].clone();
        let reader = self.readers[usize::from(reader)].clone();
        self.begin(Some(number), reader::read_as(edge, reader, write));
    }

    fn skew(&mut self, whose: usize, milliseconds: i64) {
        let cells = self.places.len();
        if let Some(place) = self.places.get(whose) {
            place.skew_ms.set(milliseconds);
        } else if whose == cells {
            self.home.skew_ms.set(milliseconds);
        } else {
            let edge = (whose - cells) % self.edges.len();
            self.edges[edge].skew_ms.set(milliseconds);
        }
    }

    /// Asks the root to end the counter.
    fn end(&mut self) {
        let end = self.air.call(self.air.root(), Message::End);
        self.begin(None, async move {
            let _ = end.await;
        });
    }

    pub fn step(&mut self, step: Step) {
        if self.is_told {
            eprintln!("{step:?}");
        }
        match step {
            Step::Write {
                edge: number,
                added,
                removed,
            } => {
                let edge = self.edges[usize::from(number)].clone();
                let delta = (added.into(), removed.into());
                let write = edge::write(edge, delta, self.written.clone());
                self.begin(Some(number), write);
            }
            Step::Keyed {
                edge,
                key,
                is_other,
            } => self.send_keyed(edge, key, is_other),
            Step::Believe { edge, doublings } => {
                self.edges[usize::from(edge)].shards.set(1 << doublings);
            }
            Step::Deliver(pick) => self.deliver(pick),
            Step::Repeat(pick) => self.air.network.borrow_mut().repeat(pick),
            Step::Answer(pick) => self.answer(pick),
            Step::LoseRequest(pick) => self.lose_request(pick),
            Step::LoseAnswer(pick) => self.lose_answer(pick),
            Step::GiveUp(pick) => self.air.network.borrow_mut().time_out(pick),
            Step::Crash(cell) => self.places[cell].crash(),
            Step::CrashRoot => self.home.crash(),
            Step::CrashEdge(number) => self.crash_edge(number),
            Step::Refuse(cell, times) => self.places[cell].core.refused_writes.set(times),
            Step::Double(datacenter) => self.decide(datacenter, Change::Double),
            Step::Halve(datacenter) => self.decide(datacenter, Change::Halve),
            Step::Alarm(datacenter) => self.places[datacenter * CELLS].core.on_alarm(),
            Step::RootAlarm => self.home.alarm(),
            Step::Read { about_times } => {
                self.begin(None, reader::read(self.air.clone(), about_times, false));
            }
            Step::ReadAs {
                edge,
                reader,
                write,
            } => self.read_as(edge, reader, write),
            Step::Suspend => {
                self.air.is_holding.set(true);
                self.end();
            }
            Step::Resume => self.air.oracle.borrow_mut().is_stopped = false,
            Step::End => self.end(),
            Step::Tick(milliseconds) => {
                let now_ms = self.air.now_ms.get() + milliseconds;
                self.air.now_ms.set(now_ms);
                self.air.network.borrow_mut().grow_old(now_ms);
            }
            Step::Skew(whose, milliseconds) => self.skew(whose, milliseconds),
        }
        self.run();
    }
}
