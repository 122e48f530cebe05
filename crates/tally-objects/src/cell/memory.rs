//! The memory of all cells of this isolate, and how idle cells give theirs back.
//!
//! Invariant: only an idle cell is unloaded: one without calls and without work under way. Its memory equals its rows,
//! and its next call reads them. The platform drops an idle object long before its memory in the Wasm is freed, so such
//! objects are unloaded first.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tally_core::counter::memory::{CELLS_BYTES_MAX, MemoryShare, least_recent};
use tally_host::{Host, State};
use tally_shared::memory::{self, MemoryKind};

/// A cell is measured at its first call, and at every 64th: it grows by a few KB in so many.
const MEASURED_EVERY: u64 = 64;

/// If no cell could be unloaded, because all are busy, it is tried again after so many calls of any of them.
const TRIED_EVERY: u64 = 1_024;

/// The memory of a cell besides its state: the object, its pusher and its load.
const OBJECT_BYTES: u64 = 3_072;

/// How many references an idle cell has while it is checked: that of its object, and that of the check. Work that
/// continues after a call holds another.
const HOLDERS_AT_REST: usize = 2;

/// How many cells there may be at first before dropped ones are removed from the list.
const CLEARED_AT: usize = 64;

/// A cell that can leave memory.
pub(super) trait Resting {
    /// The platform.
    fn host(&self) -> &Host;
    /// Its memory use.
    fn held(&self) -> &CellUse;
    /// The bytes of its state.
    fn state_bytes(&self) -> u64;
    /// Drops the state in memory. The next call reads it from the rows.
    fn let_go(&self);
}

/// The cells of an isolate.
struct Cells {
    all: RefCell<Vec<Weak<dyn Resting>>>,
    /// The number of calls of all cells.
    calls: Cell<u64>,
    /// The number of the call at which unloading is tried next.
    next_try: Cell<u64>,
    /// How many cells there may be before dropped ones are removed from the list.
    cleared_at: Cell<usize>,
}

impl State for Cells {
    fn begin(_host: &Host) -> Self {
        Self {
            all: RefCell::default(),
            calls: Cell::new(0),
            next_try: Cell::new(0),
            cleared_at: Cell::new(CLEARED_AT),
        }
    }
}

/// The memory use of one cell, and whether it is idle.
pub(super) struct CellUse {
    cells: Rc<Cells>,
    share: RefCell<MemoryShare>,
    /// Calls that are under way.
    busy: Cell<u64>,
    calls: Cell<u64>,
    /// The number of its newest call among those of all cells.
    used: Cell<u64>,
}

impl CellUse {
    pub(super) fn new(host: &Host) -> Self {
        Self {
            cells: host.state(),
            share: RefCell::new(memory::share(host, MemoryKind::Cells)),
            busy: Cell::new(0),
            calls: Cell::new(0),
            used: Cell::new(0),
        }
    }
}

/// A call that is under way: its cell is not unloaded.
pub(super) struct Busy<'a>(&'a dyn Resting);

impl<'a> Busy<'a> {
    pub(super) fn new(core: &'a dyn Resting) -> Self {
        let held = core.held();
        held.busy.set(held.busy.get() + 1);
        Self(core)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let held = self.0.held();
        held.busy.set(held.busy.get().saturating_sub(1));
        let call = held.cells.calls.get() + 1;
        held.cells.calls.set(call);
        held.used.set(call);
        let calls = held.calls.get();
        held.calls.set(calls + 1);
        if calls.is_multiple_of(MEASURED_EVERY) {
            let bytes = OBJECT_BYTES.saturating_add(self.0.state_bytes());
            held.share.borrow_mut().hold(bytes);
            held.cells
                .make_room(memory::share(self.0.host(), MemoryKind::Cells), call);
        }
    }
}

/// Adds a new cell.
pub(super) fn register(core: &Rc<dyn Resting>) {
    core.held().cells.register(core);
}

impl Cells {
    fn register(&self, core: &Rc<dyn Resting>) {
        let mut all = self.all.borrow_mut();
        if all.len() >= self.cleared_at.get() {
            all.retain(|one| one.strong_count() > 0);
            self.cleared_at.set((2 * all.len()).max(CLEARED_AT));
        }
        all.push(Rc::downgrade(core));
    }

    fn make_room(&self, share: MemoryShare, call: u64) {
        if share.together() < CELLS_BYTES_MAX || call < self.next_try.get() {
            return;
        }
        let living: Vec<Rc<dyn Resting>> = {
            let all = self.all.borrow();
            all.iter().filter_map(Weak::upgrade).collect()
        };
        let resting: Vec<Rc<dyn Resting>> = living.into_iter().filter(is_at_rest).collect();
        let held = |core: &Rc<dyn Resting>| {
            let held = core.held();
            (held.used.get(), held.share.borrow().bytes())
        };
        let held: Vec<(u64, u64)> = resting.iter().map(held).collect();
        // A tenth below the limit, so that this is rarely done.
        let excess = share.together().saturating_sub(CELLS_BYTES_MAX / 10 * 9);
        for index in least_recent(&held, excess) {
            if let Some(core) = resting.get(index) {
                core.let_go();
                // The next call measures it again.
                core.held().calls.set(0);
                core.held().share.borrow_mut().hold(0);
            }
        }
        if share.together() >= CELLS_BYTES_MAX {
            self.next_try.set(call.saturating_add(TRIED_EVERY));
        }
    }
}

/// Whether nothing is under way: no call, and no work that continues after one, which would hold the cell.
fn is_at_rest(core: &Rc<dyn Resting>) -> bool {
    let held = core.held();
    held.busy.get() == 0
        && Rc::strong_count(core) == HOLDERS_AT_REST
        && held.share.borrow().bytes() > 0
}
