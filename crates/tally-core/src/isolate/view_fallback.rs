//! The part of a read that comes from the root's memory: for datacenters that push, and for those that do not answer.
//!
//! Invariant: data from memory is never reported as asked: its origin names its time.

use crate::cluster::view::{ReportOrder, View};
use crate::counter::id::Datacenter;
use crate::counter::merge::{CellFacts, Origin, Part};

/// How old a lead's push may be for a default read. While somebody watches, a lead pushes changes within 250 ms, and a
/// heartbeat every 2 s without changes, so that lost pushes are repeated. So for a counter that is written, a default
/// read is about 0.3 s old, and its cached view up to 0.5 s more. An age of up to 3 s is reported only if nothing has
/// changed. A bound of one second would need heartbeats three times as often, or most reads would have to ask each
/// lead.
pub const PUSHED_MS_MAX: i64 = 3_000;

/// What a lead has pushed, if it has pushed recently: a default read then need not ask it. `at_ms` is the time of the
/// view by the root's clock, and `now_ms` the reader's own.
pub fn pushed(view: &View, datacenter: &Datacenter, at_ms: i64, now_ms: i64) -> Option<Part> {
    let report = view.report_of(datacenter)?;
    // Clocks differ, but the push is not newer than now.
    let origin = Origin::Pushed(report.as_of_ms.min(now_ms));
    is_fresh(&report, at_ms).then(|| remembered(view, datacenter, report.facts, origin))
}

/// Whether a lead has pushed recently. A time far ahead of the root's clock proves nothing: such a datacenter is asked.
fn is_fresh(report: &ReportOrder, at_ms: i64) -> bool {
    at_ms.abs_diff(report.as_of_ms) <= PUSHED_MS_MAX.unsigned_abs()
}

/// The known datacenters that have not pushed recently, at a time by the root's clock.
pub fn silent(view: &View, at_ms: i64) -> Vec<Datacenter> {
    let silent = view
        .datacenters()
        .filter(|(_, report)| !is_fresh(report, at_ms));
    silent.map(|(datacenter, _)| datacenter.clone()).collect()
}

/// What was last known of a datacenter that does not answer, if anything.
pub fn last_known(view: &View, datacenter: &Datacenter, now_ms: i64) -> Option<Part> {
    let report = view.report_of(datacenter)?;
    let origin = Origin::Known(report.as_of_ms.min(now_ms));
    Some(remembered(view, datacenter, report.facts, origin))
}

fn remembered(view: &View, datacenter: &Datacenter, facts: CellFacts, origin: Origin) -> Part {
    let cells = view.cells().cells_of(datacenter);
    Part {
        shards: u8::try_from(cells.len()).unwrap_or(u8::MAX),
        cells,
        facts,
        origin,
        ..Part::default()
    }
}

/// Adds what was last known of datacenters, and of single shards, that did not answer.
pub fn fill_in(parts: &mut [(Datacenter, Option<Part>)], view: &View, now_ms: i64) {
    for (datacenter, part) in parts {
        match part {
            Some(part) => complete(part, view, datacenter, now_ms),
            None => *part = last_known(view, datacenter, now_ms),
        }
    }
}

/// Adds to a datacenter's sum what was last known of its missing shards.
fn complete(sum: &mut Part, view: &View, datacenter: &Datacenter, now_ms: i64) {
    let Some(report) = view
        .report_of(datacenter)
        .filter(|_| !sum.missing.is_empty())
    else {
        return;
    };
    sum.origin = Origin::Known(report.as_of_ms.min(now_ms));
    let mut known = view.cells().cells_of(datacenter);
    known.retain(|(shard, _)| sum.missing.contains(shard));
    sum.cells.extend(known);
}
