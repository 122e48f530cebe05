//! Lists of many counters of one partition of the directory, from its own data.
//!
//! Invariant: no counter is asked. For a counter without a row in the table of totals its view is used.

use std::cell::RefCell;
use std::rc::Rc;

use super::directory_tops::row_of_known;
use super::directory_totals::{DirectoryTotals, known_of};
use super::push_receiver::Views;
use super::root_places::RootPlaces;
use super::root_store::RootStore;
use super::roots::Roots;
use super::store::Store;
use crate::core::cluster::root::Root;
use crate::core::cluster::view::View;
use crate::core::counter::bounded_map::BoundedMap;
use crate::core::counter::id::CounterId;
use crate::host::Host;
use crate::protocol::messages::{
    AmountOf, Fault, KnownTotal, List, ListRows, ListedCounter, OrderBy, PartitionTop, TopOf,
    TopRow, encode,
};

/// The pause of the alarm between two steps that build the table of totals.
const STEP_MS: i64 = 100;

/// A top is cached for a millisecond per so many counters, up to the limit below: so summing takes a bounded share of
/// the time. 62,500 counters, which take some 20 ms, are summed once in 6 s.
const TOP_REST_COUNTERS: u64 = 10;
const TOP_REST_MS_MAX: i64 = 10_000;

/// A top of at least so many counters is cached so long, milliseconds, while no row of the table changes. It is as of
/// when it was made: counters created later are not promised.
const TOP_QUIET_COUNTERS_MIN: u64 = 1_000;
const TOP_QUIET_MS_MAX: i64 = 60_000;

/// The most cached tops: at most 150 KB each, of 1,000 rows.
const TOPS_MAX: usize = 4;

/// Lists of the counters of one partition.
pub(super) struct Listings {
    host: Host,
    store: Store,
    rows: RootStore,
    roots: Rc<Roots>,
    views: Rc<Views>,
    totals: Rc<DirectoryTotals>,
    places: Rc<RootPlaces>,
    tops: RefCell<BoundedMap<Vec<u8>, CachedTop, TOPS_MAX>>,
}

/// A top, and how long it may be used.
#[derive(Clone)]
struct CachedTop {
    /// When it was made, unix milliseconds.
    made_ms: i64,
    /// [`DirectoryTotals::changes`] when it was made.
    changes: u64,
    /// How long it is used after rows have changed, milliseconds.
    rest_ms: i64,
    /// How long it is used while no row changes, milliseconds.
    quiet_ms: i64,
    top: PartitionTop,
}

impl CachedTop {
    fn holds(&self, now_ms: i64, changes: u64) -> bool {
        let age_ms = now_ms.saturating_sub(self.made_ms);
        let most_ms = match self.changes == changes {
            true => self.quiet_ms,
            false => self.rest_ms,
        };
        (0..most_ms).contains(&age_ms)
    }
}

impl Listings {
    /// The lists of a partition.
    pub(super) fn new(
        host: &Host,
        store: &Store,
        roots: Rc<Roots>,
        views: Rc<Views>,
        totals: Rc<DirectoryTotals>,
        places: Rc<RootPlaces>,
    ) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
            rows: RootStore::new(store),
            roots,
            views,
            totals,
            places,
            tops: RefCell::default(),
        }
    }

    /// Counters in order of their names, with their totals where asked for.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) async fn rows(&self, asked: ListRows) -> Result<Vec<ListedCounter>, Fault> {
        let page = self.roots.list(List {
            partition: asked.partition,
            prefix: asked.prefix,
            after: asked.after,
            limit: asked.limit,
        })?;
        let (Some((first, _)), Some((last, _)), true) = (page.first(), page.last(), asked.values)
        else {
            return Ok(page
                .into_iter()
                .map(|(counter, _)| (counter, None))
                .collect());
        };
        let known = self.totals.between(first, last, self.host.now_ms())?;
        let mut known = known.into_iter().peekable();
        let mut rows = Vec::new();
        for (counter, root) in page {
            // Both are in order of names. A counter whose lead has not pushed yet has no row.
            let is_before = |(id, _): &(String, _)| id.as_str() < counter.as_str();
            while known.next_if(is_before).is_some() {}
            let total = match known.next_if(|(id, _)| id == counter.as_str()) {
                Some((_, total)) => total,
                None => self.known_by_view(&counter, &root)?,
            };
            rows.push((counter, Some(total)));
        }
        self.see_to_totals().await?;
        Ok(rows)
    }

    /// The first counters of an order, and its sums; cached for a moment where that takes long.
    pub(super) async fn top(&self, asked: TopOf) -> Result<PartitionTop, Fault> {
        let now_ms = self.host.now_ms();
        let is_whole = self.see_to_totals().await?;
        let above = match asked.above {
            Some(than) => self.totals.above(&asked.order, than, now_ms)?,
            None => 0,
        };
        // A cached top must be of the same counters.
        let moved = self.places.moved()?;
        let key = encode(&(&asked.order, asked.limit, moved))?;
        let changes = self.totals.changes();
        let known = self.tops.borrow().get(&key).cloned();
        let known = known.filter(|known| is_whole && known.holds(now_ms, changes));
        let mut top = match known {
            Some(known) => known.top,
            None => {
                let (mut sums, named) = self.totals.sums(&asked.order, now_ms)?;
                let (untold, created_ms) = self.totals.untold(&asked.order, named)?;
                // Counters that are created later are not in it.
                let as_of_ms = sums.as_of_ms.into_iter().chain(created_ms);
                sums.as_of_ms = as_of_ms.chain([now_ms]).min();
                if asked.order.by == OrderBy::Value && asked.order.since.is_none() {
                    sums.counters += untold;
                }
                let rows = match asked.limit {
                    0 => Vec::new(),
                    limit => {
                        (self.totals).top(&asked.order, (sums.counters, named), limit, now_ms)?
                    }
                };
                let top = PartitionTop {
                    rows,
                    sums,
                    is_whole,
                };
                let rest_ms = i64::try_from(named / TOP_REST_COUNTERS).unwrap_or(i64::MAX);
                let rest_ms = rest_ms.min(TOP_REST_MS_MAX);
                let kept = CachedTop {
                    made_ms: now_ms,
                    changes,
                    rest_ms,
                    quiet_ms: match named >= TOP_QUIET_COUNTERS_MIN {
                        true => TOP_QUIET_MS_MAX,
                        false => rest_ms,
                    },
                    top: top.clone(),
                };
                self.tops.borrow_mut().insert(key, kept);
                top
            }
        };
        top.sums.above = above;
        Ok(top)
    }

    /// The amount of a counter in an order; `None` where there is no such counter.
    pub(super) fn amount(&self, asked: AmountOf) -> Result<Option<TopRow>, Fault> {
        let AmountOf { counter, order } = asked;
        let Some(root) = self.roots.listed(&counter)? else {
            return Ok(None);
        };
        let known = self.totals.amount(&counter, &order, self.host.now_ms())?;
        if known.is_some() {
            return Ok(known);
        }
        let mut known = self.known_by_view(&counter, &root)?;
        if order.since.is_some() {
            // The view knows nothing of times.
            known.total.count = 0.into();
        }
        Ok(Some(row_of_known(counter, order.by, known)))
    }

    /// The totals of a counter that is not in the table.
    fn known_by_view(&self, counter: &CounterId, root: &Root) -> Result<KnownTotal, Fault> {
        let stored = self.views.stored(counter)?;
        let view = stored.map_or_else(|| View::new(root.generation), |(view, _)| view);
        Ok(known_of(root, &view))
    }

    /// Builds the next rows of a table of totals that is younger than its counters. Returns whether it is complete.
    pub(super) async fn see_to_totals(&self) -> Result<bool, Fault> {
        let now_ms = self.host.now_ms();
        let is_whole = self.totals.build(&self.rows, &self.views, now_ms)?;
        if !is_whole {
            self.store.set_alarm_by(now_ms + STEP_MS).await?;
        }
        Ok(is_whole)
    }
}
