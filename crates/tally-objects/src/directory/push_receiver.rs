//! The views of a partition's counters at their roots: leads push them, readers get them.
//!
//! Invariant: a view is a merge of pushes, so for each datacenter it is the state at the moment in its report. It is a
//! cache: lost parts are pushed again, because each answer has the root's state.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::totals::DirectoryTotals;
use crate::kit::row_prefetch::RowPrefetch;
use crate::kit::store::{Insert, Store};
use tally_api::metrics::Metric;
use tally_core::cluster::delta::{DeltaOutcome, Marks, ViewReceiver};
use tally_core::cluster::push::PushAnswer;
use tally_core::cluster::root::Root;
use tally_core::cluster::subscription::Watch;
use tally_core::cluster::view::{View, ViewAtRest};
use tally_core::counter::id::CounterId;
use tally_core::counter::memory::{MemoryShare, VIEWS_BYTES_MAX};
use tally_core::isolate::view_fallback::PUSHED_MS_MAX;
use tally_core::order::in_order;
use tally_host::Host;
use tally_host::object::Object;
use tally_shared::memory::{self, MemoryKind};
use tally_shared::metrics;
use tally_shared::open_objects;
use tally_wire::messages::{Fault, PushView, WatchLead};
use tally_wire::names::CellAddress;

pub(super) const VIEWS_SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS views (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID";

/// The most counters whose views a partition has in memory. Dropping one costs a read of its row.
const GATHERED_MAX: usize = 1_000;

/// After this many further views their memory is summed again, because views grow.
const HELD_EVERY: usize = 64;

/// Bytes of a view without its cells and unique elements, and of each of its cells with the data of its datacenter.
const VIEW_BYTES: (usize, usize) = (1_024, 256);

/// The interval at which the view of a watched counter is written, milliseconds: it changes four times a second, and
/// lost parts are pushed again.
const WRITE_EVERY_MS: i64 = 10_000;

/// A counter's view in memory.
struct CachedView {
    gathering: ViewReceiver,
    watch: Watch,
    written_ms: i64,
    used_ms: i64,
    /// An upper bound of the times of increments that pushes have reported, unix milliseconds; `i64::MIN` before the
    /// first.
    newest_count_ms: i64,
    /// Its memory when it was last written.
    bytes: u64,
}

/// The views in a partition's memory.
struct ViewMemory {
    views: HashMap<CounterId, CachedView>,
    memory: MemoryShare,
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

    /// Drops the views that were used longest ago, a tenth of them and at least one, if there are too many here or the
    /// partitions of this isolate use too much memory.
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

/// The memory of a view: twice the stored size of its unique elements, and its cells.
fn bytes_of(view: &View) -> u64 {
    let (one, cell) = VIEW_BYTES;
    let cells = view.cells().known();
    u64::try_from(one + cell * cells + 2 * view.uniques().rest_bytes()).unwrap_or(u64::MAX)
}

/// The known totals of a partition's counters: in memory, and their rows.
pub(super) struct Views {
    host: Host,
    object: Object,
    store: Store,
    totals: Rc<DirectoryTotals>,
    ahead: RowPrefetch,
    gathered: RefCell<ViewMemory>,
}

impl Views {
    /// The views of an object.
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

    /// Reads the stored views of counters that are about to be pushed.
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
        self.totals.read_ahead(counters)
    }

    /// Drops the rows that were read ahead.
    pub(crate) fn forget_ahead(&self) {
        self.ahead.clear();
        self.totals.forget_ahead();
    }

    /// Stores a push of a lead, if it is of the current generation of the counter's root.
    ///
    /// # Errors
    /// `Superseded` where a newer one is current; `Unavailable` where SQLite refuses, as for all methods below.
    pub(super) fn take(&self, push: PushView, root: &Root) -> Result<PushAnswer, Fault> {
        let PushView {
            counter,
            datacenter,
            mut push,
            newest_count_ms,
            is_report,
        } = push;
        push.delta.not_after(self.host.now_ms());
        let generation = push.delta.generation;
        let now_ms = self.host.now_ms();
        self.with_gathered(&counter, generation, |gathered| {
            let have = match gathered.gathering.take(&datacenter, &push.delta) {
                DeltaOutcome::Applied(have) => have,
                DeltaOutcome::Outdated(generation) => return Err(Fault::Superseded(generation)),
            };
            // Where the lead does not report the time of its increments, the time of its newest write is used.
            let written_ms = push.delta.last_write_ms().unwrap_or(now_ms);
            let newest_ms = newest_count_ms.unwrap_or(written_ms);
            gathered.newest_count_ms = gathered.newest_count_ms.max(newest_ms);
            let watch = &mut gathered.watch;
            watch.record_push(now_ms, &datacenter, push.watched_for_ms);
            let watch_for_ms = watch.lease_ms(now_ms);
            let is_due = now_ms.abs_diff(gathered.written_ms) >= WRITE_EVERY_MS.unsigned_abs();
            let gathering = &mut gathered.gathering;
            // The push of a lead that follows its report has nothing else, and costs no row.
            let is_change = watch_for_ms == 0 && gathering.has_news();
            if is_change || is_due || is_report {
                gathered.written_ms = now_ms;
                let at_rest = gathering.view().at_rest();
                gathered.bytes = bytes_of(gathering.view());
                // Totals are written before the view. So when their table is created, views that exist already show
                // that it is younger than they are.
                let view = gathering.view();
                let newest_ms = Some(gathered.newest_count_ms);
                self.totals
                    .record(&counter, root, view, newest_ms, now_ms)?;
                self.put(&counter, &at_rest, gathering.marks())?;
                gathering.record_stored();
            }
            Ok(PushAnswer {
                number: push.number,
                have,
                watch_for_ms,
                now_ms,
            })
        })
    }

    /// The view of a counter's current generation, and whether its leads have known for a while that it is watched; a
    /// reader that will ask again makes them push changes.
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
                gathered.watch.record_read(now_ms);
                let datacenters = gathered
                    .watch
                    .leads_to_notify(now_ms, root.datacenters.iter());
                let for_ms = gathered.watch.lease_ms(now_ms);
                for datacenter in datacenters {
                    let to = CellAddress::lead(counter, &datacenter);
                    self.notify_watched(to, root.generation, for_ms);
                }
            }
            let is_watched = gathered.watch.is_watched_for(now_ms, PUSHED_MS_MAX);
            Ok((gathered.gathering.view().at_rest(), is_watched))
        })
    }

    /// Notifies a lead that the counter is watched, without waiting for the answer: it is repeated until the lead
    /// pushes.
    fn notify_watched(&self, to: CellAddress, generation: u64, for_ms: u32) {
        let host = self.host.clone();
        self.object.wait_until(async move {
            let watch = WatchLead {
                to,
                generation,
                for_ms,
            };
            let _ = open_objects::call_open(&host, &watch).await;
        });
    }

    /// Works with the view of a counter's generation, which is read from its row if it is not in memory.
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
                newest_count_ms: i64::MIN,
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

    /// Records the effect of an operation on a counter's value, which no lead pushes.
    pub(super) fn record_total(&self, counter: &CounterId, root: &Root) -> Result<(), Fault> {
        self.with_gathered(counter, root.generation, |gathered| {
            let view = gathered.gathering.view();
            let newest_ms = Some(gathered.newest_count_ms);
            self.totals
                .record(counter, root, view, newest_ms, self.host.now_ms())
        })
    }

    /// The stored view of a counter.
    pub(crate) fn stored(&self, counter: &CounterId) -> Result<Option<(View, Marks)>, Fault> {
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

    /// Deletes the row of a counter that ends. The caller does it in one commit with the end.
    pub(crate) fn delete(&self, counter: &CounterId) -> Result<(), Fault> {
        self.ahead.forget(counter);
        let id = vec![counter.as_str().into()];
        self.store.run("DELETE FROM views WHERE id = ?", id)?;
        self.totals.delete(counter)
    }

    /// Deletes an unreadable row of a counter, and its view in memory: its leads push it again.
    pub(crate) fn forget_stored(&self, counter: &CounterId) -> Result<(), Fault> {
        self.ahead.forget(counter);
        let id = vec![counter.as_str().into()];
        self.store.run("DELETE FROM views WHERE id = ?", id)?;
        self.forget(counter);
        Ok(())
    }

    /// Records that the root of a counter was written.
    pub(super) fn touch_root(&self, counter: &CounterId) {
        self.totals.kept.touch(counter);
    }

    /// Deletes the row of a counter in the table of totals.
    pub(super) fn forget_total(&self, counter: &CounterId) -> Result<(), Fault> {
        self.totals.delete(counter)
    }

    /// Drops the view of an ended counter from memory.
    pub(super) fn forget(&self, counter: &CounterId) {
        self.gathered.borrow_mut().views.remove(counter);
    }
}
