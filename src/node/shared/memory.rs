//! Memory that the objects of this isolate hold together, by kind, and how what an object left behind is freed.
//!
//! The platform ends an object by forgetting its JavaScript object; the memory of the Wasm behind it is freed when that
//! is collected, which nobody hastens. So an object that starts frees what the one before it of the same id still
//! holds.

use std::cell::RefCell;

use crate::core::counter::bounded_map::BoundedMap;
use crate::core::counter::memory::{Memory, Share};
use crate::host::{Host, State};

/// What holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// The tables of limiters, and the leases that they hold.
    Limiters,
    /// Batches that inboxes are sending.
    Inboxes,
    /// States of cells.
    Cells,
    /// Views that partitions of the directory hold.
    Views,
}

/// Objects of which it is known how to free them: 150 bytes each. Above it all are forgotten, and freed when they are
/// collected.
const OBJECTS_MAX: usize = 10_000;

type Free = Box<dyn Fn()>;

/// What all objects of each kind hold in an isolate.
#[derive(Default)]
struct KindBytes {
    limiters: Memory,
    inboxes: Memory,
    cells: Memory,
    views: Memory,
    living: RefCell<BoundedMap<(MemoryKind, String), Free, OBJECTS_MAX>>,
}

impl State for KindBytes {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

/// A share of what all objects of this kind hold in this isolate.
pub fn share(host: &Host, kind: MemoryKind) -> Share {
    let held = host.state::<KindBytes>();
    match kind {
        MemoryKind::Limiters => held.limiters.share(),
        MemoryKind::Inboxes => held.inboxes.share(),
        MemoryKind::Cells => held.cells.share(),
        MemoryKind::Views => held.views.share(),
    }
}

/// Says that an object of this id starts, and how to free what it holds once the next one of its id does; `free` must
/// not keep it.
pub fn start(host: &Host, kind: MemoryKind, id: String, free: impl Fn() + 'static) {
    let before = {
        let held = host.state::<KindBytes>();
        let mut living = held.living.borrow_mut();
        living.insert((kind, id), Box::new(free))
    };
    if let Some(free) = before {
        free();
    }
}
