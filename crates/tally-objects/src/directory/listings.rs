//! Lists of many counters of one partition of the directory, from its own data.
//!
//! Invariant: no counter is called. For a counter without a row in the table of totals its view is used.

use std::rc::Rc;

use super::push_receiver::Views;
use super::roots::Roots;
use super::totals::{DirectoryTotals, known_of};
use tally_core::cluster::root::Root;
use tally_core::cluster::top_order::{KnownTotal, TopRow, row_of_known};
use tally_core::cluster::total::CounterTotal;
use tally_core::cluster::view::View;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_wire::messages::{AmountOf, Fault, List, ListRows, ListedCounter, PartitionTop, TopOf};

/// Lists of the counters of one partition.
pub(super) struct Listings {
    host: Host,
    roots: Rc<Roots>,
    views: Rc<Views>,
    totals: Rc<DirectoryTotals>,
}

impl Listings {
    /// The lists of a partition.
    pub(super) fn new(
        host: &Host,
        roots: Rc<Roots>,
        views: Rc<Views>,
        totals: Rc<DirectoryTotals>,
    ) -> Self {
        Self {
            host: host.clone(),
            roots,
            views,
            totals,
        }
    }

    /// Counters in order of their names, with their totals where requested.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) fn rows(&self, request: ListRows) -> Result<Vec<ListedCounter>, Fault> {
        let page = self.roots.list(List {
            partition: request.partition,
            prefix: request.prefix,
            after: request.after,
            limit: request.limit,
        })?;
        let (Some((first, _)), Some((last, _)), true) = (page.first(), page.last(), request.values)
        else {
            return Ok(page
                .into_iter()
                .map(|(counter, _)| (counter, None))
                .collect());
        };
        let known = self.totals.between(first, last)?;
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
        Ok(rows)
    }

    /// The first counters of an order, and its sums.
    pub(super) fn top(&self, request: TopOf) -> Result<PartitionTop, Fault> {
        let now_ms = self.host.now_ms();
        let (rows, mut sums) = self.totals.top(&request.order, request.limit, now_ms)?;
        if let Some(than) = request.above {
            sums.above = self.totals.above(&request.order, than)?;
        }
        Ok(PartitionTop { rows, sums })
    }

    /// The amount of a counter in an order; `None` where there is no such counter.
    pub(super) fn amount(&self, request: AmountOf) -> Result<Option<TopRow>, Fault> {
        let AmountOf { counter, order } = request;
        let Some(root) = self.roots.listed(&counter)? else {
            return Ok(None);
        };
        let known = self.totals.amount(&counter, &order)?;
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

    /// The totals of a counter that is not in the table: they are unknown before its first report.
    fn known_by_view(&self, counter: &CounterId, root: &Root) -> Result<KnownTotal, Fault> {
        let stored = self.views.stored(counter)?;
        let view = stored.map_or_else(|| View::new(root.generation), |(view, _)| view);
        Ok(KnownTotal {
            total: CounterTotal::reported(root, &view),
            ..known_of(root, &view)
        })
    }
}
