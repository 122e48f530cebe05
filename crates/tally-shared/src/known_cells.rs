//! What this isolate has had acknowledged by cells, for the values in its answers to writes.
//!
//! Invariant: it only adds to what a read says, see [`tally_wire::isolate::known_cells`]. A forgotten counter costs
//! its next answers the writes since their view, and no write.

use std::cell::RefCell;

use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::CellTotals;
use tally_core::counter::total::Value;
use tally_host::{Host, State};
use tally_wire::isolate::known_cells::{AcknowledgedWrite, KnownCells, lost};
use tally_wire::messages::{Flushed, GlobalSum};
use tally_wire::names::CellAddress;

/// The most counters whose cells are known: some 200 bytes each, as most writes of an isolate go to one cell.
const COUNTERS_MAX: usize = 4_096;

/// The known cells of this isolate.
struct IsolateCells(RefCell<BoundedMap<CounterId, KnownCells, COUNTERS_MAX>>);

impl State for IsolateCells {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

fn with<T>(host: &Host, counter: &CounterId, work: impl FnOnce(&mut KnownCells) -> T) -> T {
    let cells = host.state::<IsolateCells>();
    work(cells.0.borrow_mut().entry(counter, KnownCells::default))
}

/// Records the acknowledgement of a flush.
pub fn record_flush(host: &Host, cell: &CellAddress, flushed: &Flushed) {
    record(
        host,
        &cell.counter,
        (cell.datacenter.clone(), cell.shard),
        flushed.totals(),
    );
}

/// Records the totals of a cell that has counted.
pub fn record(host: &Host, counter: &CounterId, cell: (Datacenter, u8), totals: CellTotals) {
    with(host, counter, |known| known.record(cell, totals));
}

/// Records what a sum lacks that an earlier one had.
pub fn record_lost(host: &Host, counter: &CounterId, earlier: &GlobalSum, later: &GlobalSum) {
    for (cell, totals) in lost(earlier, later) {
        record(host, counter, cell, totals);
    }
}

/// Records all cells of a sum that is about to be forgotten.
pub fn record_all(host: &Host, counter: &CounterId, sum: &GlobalSum) {
    for (datacenter, part) in &sum.datacenters {
        for (shard, totals) in part.iter().flat_map(|part| &part.cells) {
            record(host, counter, (datacenter.clone(), *shard), *totals);
        }
    }
}

/// The value of a sum with all that this isolate has had acknowledged.
pub fn value_with(host: &Host, counter: &CounterId, sum: &GlobalSum) -> Value {
    with(host, counter, |known| known.value_with(sum))
}

/// The value for the answer to a write, see [`KnownCells::answer_to`].
pub fn answer_to(host: &Host, write: &AcknowledgedWrite<'_>, sum: Option<&GlobalSum>) -> Value {
    with(host, &write.cell.counter, |known| {
        known.answer_to(write, sum)
    })
}
