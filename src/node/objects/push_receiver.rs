//! What a root has heard of its counter's datacenters: leads push it, readers are given it.
//!
//! Invariant: it is a merge of what leads have said, so it is true of some moment of each datacenter, the one that
//! `Heard` names. It is a memory: what is lost of it comes again, since a lead is told what the root has.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::directory_totals::DirectoryTotals;
use super::row_prefetch::RowPrefetch;
use super::store::{Insert, Store};
use crate::core::cluster::delta::{DeltaOutcome, Marks, ViewReceiver};
use crate::core::cluster::push::Pushed;
use crate::core::cluster::root::Root;
use crate::core::cluster::subscription::Watch;
use crate::core::cluster::view::{View, ViewAtRest};
use crate::core::counter::id::CounterId;
use crate::core::counter::memory::{Share, VIEWS_BYTES_MAX};
use crate::host::Host;
use crate::host::object::Object;
use crate::node::shared::memory::{self, MemoryKind};
use crate::node::shared::metrics;
use crate::node::shared::open_objects;
use crate::protocol::messages::{Fault, Push, WatchLead};
use crate::protocol::metrics::Metric;
use crate::protocol::names::CellAddress;
use crate::protocol::order::in_order;
use crate::protocol::view_fallback::PUSHED_MS_MAX;

pub(super) const VIEWS_SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS views (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID";

/// Counters of which a partition has the view in memory at most. Letting one go costs reading its row.
const GATHERED_MAX: usize = 1_000;

/// So many views more, and what all of them take is summed anew: they grow.
const HELD_EVERY: usize = 64;

/// What a view takes beside its cells and unique elements, and each of its cells with what is known of its datacenter.
const VIEW_BYTES: (usize, usize) = (1_024, 256);

/// How often the view of a counter that is watched is written: it changes four times a second, and what is lost is
/// pushed again.
const WRITE_EVERY_MS: i64 = 10_000;

/// A counter's view in memory.
struct CachedView {
    gathering: ViewReceiver,
    watch: Watch,
    written_ms: i64,
    used_ms: i64,
    /// What it takes in memory, as of when it was last written.
    bytes: u64,
}

/// The views that a partition has in memory.
struct ViewMemory {
    views: HashMap<CounterId, CachedView>,
    memory: Share,
}

impl ViewMemory {
    fn hold(&mut self) {
        self.memory
            .hold(self.views.values().map(|view| view.bytes).sum());
    }

    fn insert(&mut self, counter: &CounterId, view: CachedView) {
        self.make_room();
        self.memory.hold(self.memory.bytes() + view.bytes);
        self.views.insert(counter.clone(), view);
    }

    /// Lets the views go that were used longest ago, a tenth of them and at least one, where there are too many here or the partitions of
    /// this isolate hold too much.
    fn make_room(&mut self) {
        if self.views.len().is_multiple_of(HELD_EVERY) {
            self.hold();
        }
        if self.views.len() < GATHERED_MAX && self.memory.has_room(VIEWS_BYTES_MAX) {
            return;
        }
        let used: Vec<i64> = self.views.values().map(|view| view.used_ms).collect();
        let used = in_order(used, Ord::cmp);
        let bound = used.get(used.len() / 10).copied().unwrap_or(i64::MAX);
        self.views.retain(|_, view| view.used_ms > bound);
        self.hold();
    }
}

/// What a view takes in memory: twice what its unique elements take at rest, and its cells.
fn bytes_of(view: &View) -> u64 {
    let (one, cell) = VIEW_BYTES;
    let cells = view.cells().known();
    u64::try_from(one + cell * cells + 2 * view.uniques().rest_bytes()).unwrap_or(u64::MAX)
}

/// What is known of the counters of a partition: in memory, and their rows.
pub(super) struct Views {
    host: Host,
    object: Object,
    store: Store,
    totals: Rc<DirectoryTotals>,
    ahead: RowPrefetch,
    gathered: RefCell<ViewMemory>,
}

impl Views {
    /// Those of an object.
    pub(super) fn new(
        host: &Host,
        object: Object,
        store: &Store,
        totals: Rc<DirectoryTotals>,
    ) -> Self {
        let gathered = ViewMemory {
            views: HashMap::new(),
            memory: memory::share(host, MemoryKind::Views),
        };
        Self {
            host: host.clone(),
            ahead: RowPrefetch::new(store, "views", "body"),
            store: store.clone(),
            object,
            totals,
            gathered: RefCell::new(gathered),
        }
    }

    /// Reads what is stored of counters of which a lead tells next.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn read_ahead(&self, counters: &[CounterId]) -> Result<(), Fault> {
        let unknown: Vec<CounterId> = {
            let gathered = self.gathered.borrow();
            let unknown = counters
                .iter()
                .filter(|id| !gathered.views.contains_key(*id));
            unknown.cloned().collect()
        };
        self.ahead.read(&unknown)?;
        self.totals.read_ahead(counters, self.host.now_ms())
    }

    /// What was read ahead is forgotten.
    pub(super) fn forget_ahead(&self) {
        self.ahead.clear();
        self.totals.forget_ahead();
    }

    /// Takes what a lead tells that its datacenter has counted, of the generation that lives by the counter's root.
    ///
    /// # Errors
    /// `Superseded` where a newer one does; `Unavailable` where SQLite refuses, so all below.
    pub(super) fn take(&self, push: Push, root: &Root) -> Result<Pushed, Fault> {
        let Push {
            counter,
            datacenter,
            mut push,
        } = push;
        push.delta.not_after(self.host.now_ms());
        let told = push.delta.generation;
        let now_ms = self.host.now_ms();
        self.with_gathered(&counter, told, |gathered| {
            let have = match gathered.gathering.take(&datacenter, &push.delta) {
                DeltaOutcome::Over(have) => have,
                DeltaOutcome::Outdated(generation) => return Err(Fault::Superseded(generation)),
            };
            let watch = &mut gathered.watch;
            watch.heard(now_ms, &datacenter, push.watched_for_ms);
            let watch_for_ms = watch.lease_ms(now_ms);
            let is_due = now_ms.abs_diff(gathered.written_ms) >= WRITE_EVERY_MS.unsigned_abs();
            let gathering = &gathered.gathering;
            if (watch_for_ms == 0 || is_due) && !self.is_stored(&counter, gathering.view())? {
                gathered.written_ms = now_ms;
                let at_rest = gathering.view().at_rest();
                gathered.bytes = bytes_of(gathering.view());
                // Before the view: that there are views tells that the table of totals is younger than they are.
                let view = gathering.view();
                self.totals.note(&counter, root, view, now_ms)?;
                self.put(&counter, &at_rest, gathering.marks())?;
            }
            Ok(Pushed {
                number: push.number,
                have,
                watch_for_ms,
                now_ms,
            })
        })
    }

    /// What is known of a counter's living generation, and whether its leads have known for a while that somebody watches; whoever goes on
    /// asking has them push what changes.
    pub(super) fn view(
        &self,
        counter: &CounterId,
        root: &Root,
        watches: bool,
    ) -> Result<(ViewAtRest, bool), Fault> {
        let now_ms = self.host.now_ms();
        let from = match self.gathered.borrow().views.contains_key(counter) {
            true => Metric::LookupMemory,
            false => Metric::LookupStorage,
        };
        metrics::count(&self.host, from);
        self.with_gathered(counter, root.generation, |gathered| {
            if watches {
                gathered.watch.asked(now_ms);
                let due = gathered.watch.tell(now_ms, root.datacenters.iter());
                let for_ms = gathered.watch.lease_ms(now_ms);
                for datacenter in due {
                    let to = CellAddress::lead(counter, &datacenter);
                    self.tell_watched(to, root.generation, for_ms);
                }
            }
            let is_watched = gathered.watch.is_watched_for(now_ms, PUSHED_MS_MAX);
            Ok((gathered.gathering.view().at_rest(), is_watched))
        })
    }

    /// Tells a lead that somebody watches. Nobody waits for it: it is told again until it pushes.
    fn tell_watched(&self, to: CellAddress, generation: u64, for_ms: u32) {
        let host = self.host.clone();
        self.object.wait_until(async move {
            let watch = WatchLead {
                to,
                generation,
                for_ms,
            };
            let _ = open_objects::tell(&host, &watch).await;
        });
    }

    /// Works with what is known of a counter's generation, read from its row where it is not in memory.
    fn with_gathered<T>(
        &self,
        counter: &CounterId,
        generation: u64,
        work: impl FnOnce(&mut CachedView) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let now_ms = self.host.now_ms();
        let mut all = self.gathered.borrow_mut();
        if !all.views.contains_key(counter) {
            let stored = self.stored(counter)?;
            let (view, marks) = stored.unwrap_or_else(|| (View::new(generation), Marks::new()));
            let bytes = bytes_of(&view);
            let gathered = CachedView {
                gathering: ViewReceiver::new(view, marks),
                watch: Watch::default(),
                written_ms: 0,
                used_ms: now_ms,
                bytes,
            };
            all.insert(counter, gathered);
        }
        let missing = || Fault::Broken("a view is not in memory".to_owned());
        let gathered = all.views.get_mut(counter).ok_or_else(missing)?;
        gathered.used_ms = now_ms;
        gathered.gathering.begin(generation);
        work(gathered)
    }

    /// Notes what an operation has made of a counter's value, of which no lead tells.
    pub(super) fn note_total(&self, counter: &CounterId, root: &Root) -> Result<(), Fault> {
        self.with_gathered(counter, root.generation, |gathered| {
            let view = gathered.gathering.view();
            self.totals.note(counter, root, view, self.host.now_ms())
        })
    }

    /// What is stored of a counter.
    pub(super) fn stored(&self, counter: &CounterId) -> Result<Option<(View, Marks)>, Fault> {
        let row = match self.ahead.get(counter) {
            Some(row) => row,
            None => {
                let id = vec![counter.as_str().into()];
                let rows = self.store.run("SELECT body FROM views WHERE id = ?", id)?;
                rows.into_iter().flatten().next()
            }
        };
        let stored = row.map(|row| self.store.get(&row)).transpose()?;
        let stored: Option<(ViewAtRest, Marks)> = stored;
        Ok(stored.map(|(view, marks)| (View::from_rest(view), marks)))
    }

    /// Whether earlier builds read the row, and it lacks nothing but when that was heard: whoever reads a counter has its leads tell this.
    fn is_stored(&self, counter: &CounterId, view: &View) -> Result<bool, Fault> {
        if self.object.forms().has_frames.get() {
            return Ok(false);
        }
        let stored = self.stored(counter)?;
        Ok(stored.is_some_and(|(stored, _)| stored.counts_as(view)))
    }

    fn put(&self, counter: &CounterId, view: &ViewAtRest, marks: &Marks) -> Result<(), Fault> {
        self.ahead.forget(counter);
        self.store.insert(
            &Insert {
                into: "INSERT INTO views VALUES",
                places: "(?, ?)",
                conflict: "ON CONFLICT (id) DO UPDATE SET body = excluded.body",
            },
            vec![counter.as_str().into(), self.store.put(&(view, marks))?],
        )
    }

    /// Deletes the row of a counter that ends. The caller makes it one commit with the end.
    pub(super) fn delete(&self, counter: &CounterId) -> Result<(), Fault> {
        self.ahead.forget(counter);
        let id = vec![counter.as_str().into()];
        self.store.run("DELETE FROM views WHERE id = ?", id)?;
        self.totals.delete(counter)
    }

    /// Drops the row of a counter that cannot be read, and what memory holds of it: its leads tell it again.
    pub(super) fn forget_stored(&self, counter: &CounterId) -> Result<(), Fault> {
        self.ahead.forget(counter);
        let id = vec![counter.as_str().into()];
        self.store.run("DELETE FROM views WHERE id = ?", id)?;
        self.forget(counter);
        Ok(())
    }

    /// Drops the row of lists of a counter.
    pub(super) fn forget_total(&self, counter: &CounterId) -> Result<(), Fault> {
        self.totals.delete(counter)
    }

    /// A counter has ended: what was known of it goes with its row.
    pub(super) fn forget(&self, counter: &CounterId) {
        self.gathered.borrow_mut().views.remove(counter);
    }
}
