//! The whole of the simulated world, moved by steps.
//!
//! Invariant: the same steps give the same run; there is no clock and no chance in it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use tally::core::counter::split::Step as Change;
use tally::protocol::version::Version;

use super::body::Body;
use super::edge::Edge;
use super::inbox::Inbox;
use super::isolate::Isolate;
use super::network::Network;
use super::oracle::Oracle;
use super::place::{Place, Task, is_over};
use super::reader::{self, Reader};
use super::root::Home;
use super::steps::Step;
use super::{Air, Airs, CELLS, Layout};

/// 1 May 2026, 00:00:30 UTC.
const BEGIN_MS: i64 = 1_777_593_630_000;

/// Isolates; their lots send them to all datacenters and shards.
pub const EDGES: u8 = 8;

/// Readers who hold versions.
pub const READERS: u8 = 4;

/// The longest that a step takes: 400 of them stay below the minute for which flushes are remembered.
pub const TICK_MS_MAX: i64 = 100;

/// What a client asks for under a key: (counter, key, whether it is the other thing, whether it is queued).
pub type Asked = (usize, u8, bool, bool);

/// Versions of writes that were acknowledged.
pub type Written = Rc<RefCell<Vec<Version>>>;

pub struct World {
    pub(super) layout: Layout,
    pub(super) network: Rc<RefCell<Network>>,
    pub(super) now_ms: Rc<Cell<i64>>,
    pub(super) airs: Airs,
    /// The cells of all counters.
    pub(super) places: Vec<Place>,
    /// The root of each counter.
    pub(super) homes: Vec<Home>,
    pub(super) inboxes: Vec<Inbox>,
    pub(super) isolates: Vec<Isolate>,
    /// Readers of each counter.
    pub(super) readers: Vec<Vec<Rc<Reader>>>,
    /// What runs in isolates or nowhere in particular.
    pub(super) tasks: Vec<(Option<u8>, Task)>,
    lives: u64,
    /// Whether all that happens is printed.
    pub is_told: bool,
    /// Versions of writes that were acknowledged, of each counter.
    pub(super) written: Vec<Written>,
    /// Bodies with a key, and whether a client has the last answer of each of their writes.
    pub(super) bodies: Rc<RefCell<BTreeMap<Body, bool>>>,
    /// Keyed writes and events, and whether a client has its last answer.
    pub(super) wishes: Rc<RefCell<BTreeMap<Asked, bool>>>,
    /// Operations under keys, by counter, and whether a client has its answer.
    pub(super) deeds: Rc<RefCell<BTreeMap<(usize, u8), bool>>>,
    /// What conditional writes under keys had seen, by counter.
    pub(super) conditions: BTreeMap<(usize, u8), Version>,
}

impl World {
    /// A world of one counter and one datacenter where storage takes no time.
    pub fn new() -> Self {
        Self::of(1, 1, false)
    }

    pub fn of(counters: usize, datacenters: usize, is_busy: bool) -> Self {
        let layout = Layout {
            counters,
            datacenters,
        };
        let network = Rc::new(RefCell::new(Network::default()));
        let now_ms = Rc::new(Cell::new(BEGIN_MS));
        let skew_ms_max: Rc<Cell<i64>> = Rc::default();
        let air = |counter| {
            Rc::new(Air {
                network: network.clone(),
                oracle: RefCell::new(Oracle::default()),
                now_ms: now_ms.clone(),
                skew_ms_max: skew_ms_max.clone(),
                counter,
                layout,
                is_busy,
                is_holding: Cell::default(),
            })
        };
        let airs: Airs = (0..counters).map(air).collect();
        let cells = |air| (0..layout.cells()).map(move |place| Place::new(place, air));
        let isolate = |lot| Isolate::new(&airs, lot, 0, Rc::default());
        let inbox = |number| Inbox::new(&airs, number);
        Self {
            layout,
            places: airs.iter().flat_map(cells).collect(),
            homes: airs.iter().map(Home::new).collect(),
            inboxes: (0..layout.inboxes()).map(inbox).collect(),
            isolates: (0..EDGES).map(isolate).collect(),
            readers: airs
                .iter()
                .map(|_| (0..READERS).map(|_| Rc::default()).collect())
                .collect(),
            tasks: Vec::new(),
            lives: 0,
            is_told: false,
            written: airs.iter().map(|_| Rc::default()).collect(),
            wishes: Rc::default(),
            deeds: Rc::default(),
            conditions: BTreeMap::new(),
            bodies: Rc::default(),
            network,
            now_ms,
            airs,
        }
    }

    pub(super) fn begin(&mut self, edge: Option<u8>, task: impl Future<Output = ()> + 'static) {
        self.tasks.push((edge, Box::pin(task)));
    }

    /// Lets everybody go on until all wait. Twice without news: a lock may have been given back.
    pub(super) fn run(&mut self) {
        let mut idle = 0;
        while idle < 2 {
            for (number, isolate) in (0..EDGES).zip(&self.isolates) {
                isolate.hand_over(&mut self.tasks, number);
            }
            let before = self.tasks.len();
            self.tasks.retain_mut(|(_, task)| !is_over(task));
            let mut ended = self.tasks.len() != before;
            for home in &mut self.homes {
                ended |= home.run();
            }
            for place in &mut self.places {
                ended |= place.run();
            }
            for inbox in &mut self.inboxes {
                ended |= inbox.run();
            }
            idle = if ended { 0 } else { idle + 1 };
        }
    }

    pub(super) fn edge(&self, counter: usize, number: u8) -> Rc<Edge> {
        self.isolates[usize::from(number)].edges[counter].clone()
    }

    fn decide(&mut self, lead: usize, change: Change) {
        let lead = &self.places[lead * CELLS].core;
        if lead.is_born() {
            lead.decide(change);
        }
    }

    fn crash_edge(&mut self, number: u8) {
        self.tasks.retain(|(edge, _)| *edge != Some(number));
        self.lives += 1;
        let isolate = &mut self.isolates[usize::from(number)];
        *isolate = Isolate::new(&self.airs, number, self.lives, isolate.skew_ms.clone());
    }

    fn skew(&mut self, whose: usize, milliseconds: i64) {
        let cells = self.places.iter().map(|place| &place.skew_ms);
        let roots = self.homes.iter().map(|home| &home.skew_ms);
        let isolates = self.isolates.iter().map(|isolate| &isolate.skew_ms);
        let inboxes = self.inboxes.iter().map(|inbox| &inbox.skew_ms);
        let mut clocks = cells.chain(roots).chain(isolates).chain(inboxes);
        clocks.nth(whose).expect("a clock").set(milliseconds);
        for air in self.airs.iter() {
            air.oracle.borrow_mut().clocks_differ = true;
        }
        let skew_ms_max = &self.airs[0].skew_ms_max;
        skew_ms_max.set(skew_ms_max.get().max(milliseconds.abs()));
    }

    /// How many clocks there are.
    pub fn clocks(layout: Layout) -> usize {
        let objects = layout.counters * (layout.cells() + 1) + layout.inboxes();
        objects + usize::from(EDGES)
    }

    fn tick(&mut self, milliseconds: i64) {
        let now_ms = self.now_ms.get() + milliseconds;
        self.now_ms.set(now_ms);
        self.network.borrow_mut().grow_old(now_ms);
    }

    pub fn step(&mut self, step: Step) {
        if self.is_told {
            eprintln!("{step:?}");
        }
        match step {
            Step::Write {
                counter,
                edge,
                added,
                removed,
            } => self.write(counter, edge, (added.into(), removed.into()), None),
            Step::WriteUnique {
                counter,
                edge,
                element,
            } => self.write(counter, edge, (1, 0), Some(element)),
            Step::Keyed {
                counter,
                edge,
                key,
                is_other,
            } => self.send_keyed(edge, (counter, key, is_other, false)),
            Step::Recall { counter, edge, key } => self.recall(counter, edge, key),
            Step::Bulk {
                edge,
                body,
                has_key,
            } => self.send_body(
                edge,
                Body {
                    number: body,
                    has_key,
                },
            ),
            Step::Queue { counter, edge } => self.send_event(counter, edge),
            Step::QueueKeyed {
                counter,
                edge,
                key,
                is_other,
            } => self.send_keyed(edge, (counter, key, is_other, true)),
            Step::Operate {
                counter,
                edge,
                deed,
            } => self.operate(counter, edge, deed),
            Step::OperateKeyed { counter, edge, key } => self.operate_keyed(counter, edge, key),
            Step::WriteIf {
                counter,
                edge,
                pick,
                key,
            } => self.write_if(counter, edge, pick, key),
            Step::OperateIf {
                counter,
                edge,
                pick,
                deed,
            } => self.operate_if(counter, edge, pick, deed),
            Step::Believe {
                counter,
                edge,
                doublings,
            } => self.edge(counter, edge).shards.set(1 << doublings),
            Step::Deliver(pick) => self.deliver(pick),
            Step::Repeat(pick) => self.network.borrow_mut().repeat(pick),
            Step::Answer(pick) => self.answer(pick),
            Step::LoseRequest(pick) => self.lose_request(pick),
            Step::LoseAnswer(pick) => self.lose_answer(pick),
            Step::GiveUp(pick) => self.network.borrow_mut().time_out(pick),
            Step::Crash(cell) => self.places[cell].crash(),
            Step::CrashRoot(counter) => self.homes[counter].crash(),
            Step::CrashEdge(number) => self.crash_edge(number),
            Step::CrashInbox(inbox) => self.inboxes[inbox].crash(),
            Step::Refuse(cell, times) => self.places[cell].core.refused_writes.set(times),
            Step::RefuseInbox(inbox, times) => {
                let rows = self.inboxes[inbox].rows.borrow();
                rows.refused_writes.set(times);
            }
            Step::Double(lead) => self.decide(lead, Change::Double),
            Step::Halve(lead) => self.decide(lead, Change::Halve),
            Step::Alarm(lead) => self.places[lead * CELLS].core.on_alarm(),
            Step::RootAlarm(counter) => self.homes[counter].alarm(),
            Step::InboxAlarm(inbox) => self.inboxes[inbox].alarm(),
            Step::Read {
                counter,
                about_times,
            } => {
                let air = self.airs[counter].clone();
                self.begin(None, reader::read(air, about_times, false));
            }
            Step::ReadDrained { counter } => {
                let air = self.airs[counter].clone();
                self.begin(None, reader::read_drained(air));
            }
            Step::ReadAs {
                counter,
                edge,
                reader,
                write,
            } => self.read_as(counter, edge, reader, write),
            Step::Suspend(counter) => {
                self.airs[counter].is_holding.set(true);
                self.end(counter);
            }
            Step::Resume => {
                for air in self.airs.iter() {
                    air.oracle.borrow_mut().is_stopped = false;
                }
            }
            Step::Put {
                counter,
                shards,
                ttl,
            } => self.put(counter, shards, ttl),
            Step::End(counter) => self.end(counter),
            Step::Tick(milliseconds) => self.tick(milliseconds),
            Step::Skew(whose, milliseconds) => self.skew(whose, milliseconds),
        }
        self.run();
    }
}
