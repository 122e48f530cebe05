//! How far a partition is with the moves of roots that get no calls.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::directory::root_places::RootPlaces;
use tally_core::cluster::sizes::Sizes;

/// How long after a change of the counts the first ones wait, milliseconds: roots with calls move by themselves.
const BEGIN_MS: i64 = 5_000;

/// The progress, in memory: a restarted partition begins again.
#[derive(Default)]
pub(in crate::directory) struct RootSweep {
    /// The counts that it is about.
    pub(in crate::directory) sizes: RefCell<Option<Sizes>>,
    /// The last name that was checked.
    pub(in crate::directory) after: RefCell<String>,
    /// Whether names with claims or operations are being checked, which come last.
    pub(in crate::directory) is_last_part: Cell<bool>,
    pub(in crate::directory) has_left: Cell<bool>,
    pub(in crate::directory) is_done: Cell<bool>,
    pub(in crate::directory) next_ms: Cell<i64>,
    /// When the other partitions, or the first one, are asked next, unix milliseconds.
    pub(in crate::directory) ask_ms: Cell<i64>,
    /// Partitions that have answered that nothing is left.
    pub(in crate::directory) swept: RefCell<BTreeSet<u32>>,
}

impl RootSweep {
    /// Begins again if the counts have changed.
    pub(in crate::directory) fn begin(&self, sizes: &Sizes, now_ms: i64) {
        if self.sizes.borrow().as_ref() == Some(sizes) {
            return;
        }
        self.sizes.replace(Some(sizes.clone()));
        self.restart(now_ms + BEGIN_MS);
        self.is_done.set(!sizes.is_changing());
        self.ask_ms.set(now_ms);
        self.swept.take();
    }

    /// Checks all names again, from a time on.
    pub(in crate::directory) fn restart(&self, next_ms: i64) {
        self.after.replace(String::new());
        self.is_last_part.set(false);
        self.has_left.set(false);
        self.next_ms.set(next_ms);
    }
}

/// When a partition's next step is due, unix milliseconds.
pub(in crate::directory) fn next_due_ms(places: &RootPlaces, sweep: &RootSweep) -> Option<i64> {
    let sizes = places.sizes();
    if !sizes.is_changing() && places.set() == sizes.now() {
        return None;
    }
    let is_known = sweep.sizes.borrow().as_ref() == Some(&sizes);
    if !is_known {
        return Some(i64::MIN);
    }
    let is_sweeping = sizes.is_changing() && !sweep.is_done.get();
    let next_ms = is_sweeping.then(|| sweep.next_ms.get());
    next_ms.into_iter().chain([sweep.ask_ms.get()]).min()
}
