//! What a read makes of its root's memory, for datacenters that push what changes and for those that do not answer.
//!
//! Invariant: what is taken from memory is never called asked: its origin says of when it is.

use crate::core::cluster::view::{ReportOrder, View};
use crate::core::counter::id::Datacenter;
use crate::core::counter::merge::{CellTotals, Summary};
use crate::protocol::messages::{DatacenterSum, Origin};

/// How old what a lead has pushed may be for a default read. While somebody watches, a lead pushes what changes within
/// 250 ms, and every 2 s that nothing has, again where that was lost. So while a counter is
/// written, a default read is 0.3 s old and its cached view 0.5 s more; up to 3 s are told only where nothing has changed. To say one second
/// then too would take heartbeats three times as often, or a question to each lead by most reads.
pub const PUSHED_MS_MAX: i64 = 3_000;

/// What a lead has pushed lately, if it has: a default read need not ask it. `at_ms` is when the view was so, by the root's clock, and
/// `now_ms` the reader's own.
pub fn pushed(
    view: &View,
    datacenter: &Datacenter,
    at_ms: i64,
    now_ms: i64,
) -> Option<DatacenterSum> {
    let heard = view.heard_of(datacenter)?;
    // Where clocks are apart it is not newer than now.
    let origin = Origin::Pushed(heard.as_of_ms.min(now_ms));
    is_fresh(&heard, at_ms).then(|| remembered(view, datacenter, heard.last_write_ms, origin))
}

/// Whether a lead had pushed lately. A clock that is far ahead of the root's proves nothing: such a datacenter is asked.
fn is_fresh(heard: &ReportOrder, at_ms: i64) -> bool {
    at_ms.abs_diff(heard.as_of_ms) <= PUSHED_MS_MAX.unsigned_abs()
}

/// The datacenters that were heard of and had not pushed lately, at a moment by the root's clock.
pub fn silent(view: &View, at_ms: i64) -> Vec<Datacenter> {
    let silent = view
        .datacenters()
        .filter(|(_, heard)| !is_fresh(heard, at_ms));
    silent.map(|(datacenter, _)| datacenter.clone()).collect()
}

/// What was last known of a datacenter that does not answer, if anything was.
pub fn last_known(view: &View, datacenter: &Datacenter, now_ms: i64) -> Option<DatacenterSum> {
    let heard = view.heard_of(datacenter)?;
    let origin = Origin::Known(heard.as_of_ms.min(now_ms));
    Some(remembered(view, datacenter, heard.last_write_ms, origin))
}

fn remembered(
    view: &View,
    datacenter: &Datacenter,
    last_write_ms: i64,
    origin: Origin,
) -> DatacenterSum {
    let mut sum = DatacenterSum {
        summary: Summary {
            last_write_ms,
            ..Summary::default()
        },
        origin,
        ..DatacenterSum::default()
    };
    for cell in view.cells().cells_of(datacenter) {
        add(&mut sum, cell);
    }
    sum.shards = u8::try_from(sum.cells.len()).unwrap_or(u8::MAX);
    sum
}

/// Puts what was last known in the place of what did not answer: of whole datacenters, and of single shards.
pub fn fill_in(parts: &mut [(Datacenter, Option<DatacenterSum>)], view: &View, now_ms: i64) {
    for (datacenter, part) in parts {
        match part {
            Some(part) => complete(part, view, datacenter, now_ms),
            None => *part = last_known(view, datacenter, now_ms),
        }
    }
}

/// Adds to the sum of a datacenter what was last known of the shards that it lacks.
fn complete(sum: &mut DatacenterSum, view: &View, datacenter: &Datacenter, now_ms: i64) {
    let Some(heard) = view
        .heard_of(datacenter)
        .filter(|_| !sum.missing.is_empty())
    else {
        return;
    };
    sum.origin = Origin::Known(heard.as_of_ms.min(now_ms));
    for (shard, totals) in view.cells().cells_of(datacenter) {
        if sum.missing.contains(&shard) {
            add(sum, (shard, totals));
        }
    }
}

fn add(sum: &mut DatacenterSum, cell: (u8, CellTotals)) {
    sum.summary.added = sum.summary.added.plus(cell.1.added.into());
    sum.summary.removed = sum.summary.removed.plus(cell.1.removed.into());
    sum.cells.push(cell);
}
