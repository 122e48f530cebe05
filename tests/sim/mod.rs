//! The world in memory: counters, each with a root and a lead and shards in every datacenter, inboxes and
//! isolates, out of the state machines that ship and shells that do what the objects' shells do, in the same order (the names of their
//! functions are the same).
//!
//! Invariant: between two awaits a shell does what the platform commits as one turn, so a crash leaves
//! the rows of whole turns, and nothing of memory. What an object says is held back until what it wrote is
//! durable, so here a write is durable at once.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use tally::core::counter::id::{CounterId, Datacenter};
use tally::core::counter::queue::InboxId;

use network::{Message, Network, Reply};
use oracle::Oracle;

mod asks;
mod body;
mod cell;
mod chance;
mod client;
mod conditions;
mod consume;
mod deeds;
mod edge;
mod ending;
mod events;
mod homes;
mod inbox;
mod inbox_rows;
mod isolate;
mod keyed;
mod keys;
mod lapsed;
mod lead;
mod lives;
mod matched;
mod network;
mod operate;
mod oracle;
mod place;
mod post;
mod queue;
mod queued;
mod reader;
mod rest;
mod root;
#[expect(dead_code, reason = "windows of unique elements have their own test")]
#[path = "../native/common/rows.rs"]
mod rows;
mod sampled;
mod seeds;
mod shards;
mod steps;
mod store;
mod struck;
mod sums;
mod truth;
mod world;

/// Cells of a datacenter; the lead is the first.
const CELLS: usize = 8;

/// The datacenters that there may be.
const DATACENTERS: [&str; 3] = ["AMS", "FRA", "LHR"];

const SHARDS_MAX: u8 = 8;

const GRANT_TRIES: usize = 4;

/// Inboxes of a datacenter.
const INBOXES: usize = 2;

/// Where everything is called: the cells of a counter, its root and its disk, then the next counter's; after
/// all counters the inboxes.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub counters: usize,
    pub datacenters: usize,
}

impl Layout {
    /// Cells of a counter.
    fn cells(self) -> usize {
        self.datacenters * CELLS
    }

    /// Where the root is called, after all cells of its counter.
    fn root(self) -> usize {
        self.cells()
    }

    /// Where storage is called that takes its time.
    fn disk(self) -> usize {
        self.root() + 1
    }

    fn stride(self) -> usize {
        self.disk() + 1
    }

    /// The counter of an address, and the address within it.
    fn of_address(self, to: usize) -> (usize, usize) {
        (to / self.stride(), to % self.stride())
    }

    /// Where an inbox is called.
    fn inbox(self, number: usize) -> usize {
        self.counters * self.stride() + number
    }

    fn inboxes(self) -> usize {
        self.datacenters * INBOXES
    }
}

/// What all counters have to do with, one for each.
type Airs = Rc<[Rc<Air>]>;

/// What all that belongs to a counter share.
pub struct Air {
    network: Rc<RefCell<Network>>,
    oracle: RefCell<Oracle>,
    now_ms: Rc<Cell<i64>>,
    /// How far a clock was ever stepped from the true time, milliseconds.
    skew_ms_max: Rc<Cell<i64>>,
    counter: usize,
    layout: Layout,
    /// Whether commits take time, so that flushes join into the next, and lanes are told to gather.
    is_busy: bool,
    /// Whether the root, when it next ends the counter, stops once nobody counts, and goes on after all.
    is_holding: Cell<bool>,
}

impl Air {
    /// Calls something of this counter.
    fn call(&self, to: usize, message: Message) -> impl Future<Output = Reply> + use<> {
        self.call_at(self.counter * self.layout.stride() + to, message)
    }

    /// Calls anything.
    fn call_at(&self, to: usize, message: Message) -> impl Future<Output = Reply> + use<> {
        let now_ms = self.now_ms.get();
        self.network.borrow_mut().call(to, message, now_ms)
    }

    fn call_inbox(&self, inbox: &InboxId, message: Message) -> impl Future<Output = Reply> + use<> {
        let number = number_of(&inbox.datacenter) * INBOXES + usize::from(inbox.number);
        self.call_at(self.layout.inbox(number), message)
    }

    /// The name of the counter.
    fn name(&self) -> CounterId {
        CounterId::parse(format!("counter-{}", self.counter)).expect("a name")
    }

    /// How much two clocks may differ, milliseconds.
    fn clocks_differ_ms(&self) -> i64 {
        2 * self.skew_ms_max.get()
    }

    /// The time by the latest clock that there may be.
    fn latest_ms(&self) -> i64 {
        self.now_ms.get() + self.clocks_differ_ms()
    }

    fn root(&self) -> usize {
        self.layout.root()
    }

    fn disk(&self) -> usize {
        self.layout.disk()
    }

    /// The lead of a datacenter.
    fn lead_of(&self, datacenter: &Datacenter) -> usize {
        number_of(datacenter) * CELLS
    }
}

fn number_of(datacenter: &Datacenter) -> usize {
    let mut names = DATACENTERS.iter();
    let number = names.position(|name| *name == datacenter.as_str());
    number.expect("a datacenter of this world")
}

/// The name of a datacenter.
fn datacenter(number: usize) -> Datacenter {
    Datacenter::parse(DATACENTERS[number]).expect("a datacenter's name")
}

/// The shard of a place.
fn shard_of(place: usize) -> u8 {
    u8::try_from(place % CELLS).expect("few cells")
}

trait Boxed: Future + Sized + 'static {
    fn boxed(self) -> Pin<Box<dyn Future<Output = Self::Output>>> {
        Box::pin(self)
    }
}

impl<F: Future + Sized + 'static> Boxed for F {}
