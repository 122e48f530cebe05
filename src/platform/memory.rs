//! Memory that the objects of this isolate hold together, by kind, and how what an object left behind is freed.
//!
//! The platform ends an object by forgetting its JavaScript object; the memory of the Wasm behind it is freed when that is collected,
//! which nobody hastens. So an object that starts frees what the one before it of the same id still holds.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::counter::memory::{Memory, Share};

/// What holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The tables of limiters.
    Limiters,
    /// Batches that inboxes are sending.
    Inboxes,
    /// States of cells.
    Cells,
    /// Views that partitions of the directory hold.
    Views,
}

/// Objects of which it is known how to free them: 150 bytes each. Above it all are forgotten, and freed when they are collected.
const OBJECTS_MAX: usize = 10_000;

type Free = Box<dyn Fn()>;

thread_local! {
    static LIMITERS: Memory = Memory::default();
    static INBOXES: Memory = Memory::default();
    static CELLS: Memory = Memory::default();
    static VIEWS: Memory = Memory::default();
    static LIVING: RefCell<HashMap<(Kind, String), Free>> = RefCell::default();
}

/// A share of what all objects of this kind hold in this isolate.
pub fn share(kind: Kind) -> Share {
    match kind {
        Kind::Limiters => LIMITERS.with(Memory::share),
        Kind::Inboxes => INBOXES.with(Memory::share),
        Kind::Cells => CELLS.with(Memory::share),
        Kind::Views => VIEWS.with(Memory::share),
    }
}

/// Says that an object of this id starts, and how to free what it holds once the next one of its id does; `free` must not keep it.
pub fn start(kind: Kind, id: String, free: impl Fn() + 'static) {
    let before = LIVING.with_borrow_mut(|living| {
        if living.len() >= OBJECTS_MAX {
            living.clear();
        }
        living.insert((kind, id), Box::new(free))
    });
    if let Some(free) = before {
        free();
    }
}
