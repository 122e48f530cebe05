//! How far a partition is with the moves of roots that get no calls.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::directory::root_places::RootPlaces;
use tally_core::cluster::sizes::Sizes;
use tally_core::handover::sweep::{Sweep, SweepPace};

/// 64 names in a fifth of a second are a million an hour in each partition.
pub(in crate::directory) const PACE: SweepPace = SweepPace {
    bundles_at_once: 64,
    begin_ms: 5_000,
    next_ms: 200,
    again_ms: 5_000,
};

/// A name among those with rows, or among those with claims or operations, which come last.
pub(in crate::directory) type Position = (bool, String);

/// The progress, in memory: a restarted partition begins again.
#[derive(Default)]
pub(in crate::directory) struct RootSweep {
    /// The counts that it is about.
    pub(in crate::directory) sizes: RefCell<Option<Sizes>>,
    /// `None` where all roots have moved.
    pub(in crate::directory) sweep: RefCell<Option<Sweep<Position>>>,
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
        let sweep = sizes.is_changing().then(|| Sweep::begin(&PACE, now_ms));
        self.sweep.replace(sweep);
        self.ask_ms.set(now_ms);
        self.swept.take();
    }

    /// When a partition's next step is due, unix milliseconds.
    pub(in crate::directory) fn next_due_ms(&self, places: &RootPlaces) -> Option<i64> {
        let sizes = places.sizes();
        if !sizes.is_changing() && places.set() == sizes.now() {
            return None;
        }
        if self.sizes.borrow().as_ref() != Some(&sizes) {
            return Some(i64::MIN);
        }
        let next_ms = self.sweep.borrow().as_ref().map(Sweep::next_ms);
        next_ms.into_iter().chain([self.ask_ms.get()]).min()
    }
}
