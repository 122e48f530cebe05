//! The world in memory: a root, datacenters with a lead and its shards, and isolates, out of the state
//! machines that ship and shells that do what the objects' shells do, in the same order (the names of their
//! functions are the same).
//!
//! Invariant: between two awaits a shell does what the platform commits as one turn, so a crash leaves
//! the rows of whole turns, and nothing of memory. What an object says is held back until what it wrote is
//! durable, so here a write is durable at once.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;

use tally::counter::id::Datacenter;

use network::{Message, Network, Reply};
use oracle::Oracle;

mod cell;
mod chance;
mod client;

mod edge;
mod keyed;
mod keys;
mod lead;
mod network;
mod oracle;
mod place;
mod reader;
mod rest;
mod root;
#[expect(dead_code, reason = "windows of unique elements have their own test")]
#[path = "../common/rows.rs"]
mod rows;
mod seeds;
mod shards;
mod store;
mod world;

/// Cells of a datacenter; the lead is the first.
const CELLS: usize = 8;

/// The datacenters that there may be.
const DATACENTERS: [&str; 3] = ["AMS", "FRA", "LHR"];

const SHARDS_MAX: u8 = 8;

const GRANT_TRIES: usize = 4;

/// What all share.
pub struct Air {
    network: RefCell<Network>,
    oracle: RefCell<Oracle>,
    now_ms: Cell<i64>,
    datacenters: usize,
    /// Whether commits take time, so that flushes join into the next, and lanes are told to gather.
    is_busy: bool,
    /// Whether the root, when it next ends the counter, stops once nobody counts, and goes on after all.
    is_holding: Cell<bool>,
}

impl Air {
    fn call(&self, to: usize, message: Message) -> impl Future<Output = Reply> + use<> {
        let now_ms = self.now_ms.get();
        self.network.borrow_mut().call(to, message, now_ms)
    }

    /// Where the root is called, after all cells.
    fn root(&self) -> usize {
        self.datacenters * CELLS
    }

    /// Where storage is called that takes its time.
    fn disk(&self) -> usize {
        self.root() + 1
    }

    /// The lead of a datacenter.
    fn lead_of(&self, datacenter: &Datacenter) -> usize {
        let mut names = DATACENTERS.iter();
        let number = names.position(|name| *name == datacenter.as_str());
        number.expect("a datacenter of this world") * CELLS
    }
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
