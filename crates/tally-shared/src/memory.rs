//! The memory that the objects of this isolate hold together, by kind, and how the memory of an ended object is freed.
//!
//! The platform ends an object by dropping its JavaScript object. The Wasm memory behind it is freed when that is
//! garbage collected, at an unknown time. So an object that starts frees what its predecessor of the same id still
//! holds.

use std::cell::RefCell;

use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::memory::{MemoryShare, SharedMemory};
use tally_host::{Host, State};

/// The kind of an object that holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// The tables of limiters, and their leases.
    Limiters,
    /// Batches that inboxes are sending.
    Inboxes,
    /// States of cells.
    Cells,
    /// Views that partitions of the directory hold.
    Views,
}

/// The most objects whose memory can be freed from here: 150 bytes each. One more clears the list; the memory of those
/// objects is freed by garbage collection.
const OBJECTS_MAX: usize = 10_000;

type Free = Box<dyn Fn()>;

/// The bytes that all objects of each kind hold in an isolate.
#[derive(Default)]
struct KindBytes {
    limiters: SharedMemory,
    inboxes: SharedMemory,
    cells: SharedMemory,
    views: SharedMemory,
    living: RefCell<BoundedMap<(MemoryKind, String), Free, OBJECTS_MAX>>,
}

impl State for KindBytes {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

/// A share in the memory of all objects of this kind in this isolate.
pub fn share(host: &Host, kind: MemoryKind) -> MemoryShare {
    let held = host.state::<KindBytes>();
    match kind {
        MemoryKind::Limiters => held.limiters.share(),
        MemoryKind::Inboxes => held.inboxes.share(),
        MemoryKind::Cells => held.cells.share(),
        MemoryKind::Views => held.views.share(),
    }
}

/// Registers an object that starts. `free` frees its memory when the next object of the same id starts; it must not
/// keep the object alive.
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
