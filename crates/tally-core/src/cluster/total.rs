//! The sum of a counter at its root by the pushes of its leads, without a call.
//!
//! Invariant: every write that was acknowledged before [`CounterTotal::as_of_ms`] is in the value, and in the count.

use serde::{Deserialize, Serialize};

use super::operation::Cells;
use super::root::Root;
use super::view::View;
use crate::counter::id::Datacenter;
use crate::counter::total::{CellTotal, Sum, Value};

/// The sum of a counter at its root by the pushes of its leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterTotal {
    /// The value.
    pub value: Value,
    /// The sum of increments, without decrements and sets.
    pub count: Sum,
    /// Its moment, unix milliseconds.
    pub as_of_ms: i64,
    /// The newest write that was reported, unix milliseconds; `i64::MIN` for none, [`UNREPORTED`] where the totals are
    /// unknown.
    pub last_write_ms: i64,
}

/// The newest write of a counter that has counting datacenters, none of which has reported yet: its value and its count
/// are unknown.
const UNREPORTED: i64 = i64::MAX;

impl CounterTotal {
    /// The sum by the pushes in a view, which says whether there was any: see [`CounterTotal::is_known`].
    pub fn reported(root: &Root, view: &View) -> Self {
        let total = Self::of(root, view);
        match is_known(root, view) {
            true => total,
            false => Self {
                last_write_ms: UNREPORTED,
                ..total
            },
        }
    }

    /// Whether the value and the count are known: a datacenter has reported, an operation has set them, or none counts.
    pub fn is_known(&self) -> bool {
        self.last_write_ms != UNREPORTED
    }

    /// The sum by the pushes in a view. A view of another generation is ignored.
    pub fn of(root: &Root, view: &View) -> Self {
        let is_of_root = view.generation() == root.generation;
        let mut total = Self {
            value: root.operations.base(),
            count: Sum::ZERO,
            as_of_ms: if root.may_lack { i64::MIN } else { i64::MAX },
            last_write_ms: i64::MIN,
        };
        for datacenter in &root.datacenters {
            let report = view.report_of(datacenter).filter(|_| is_of_root);
            let held = held_by(root, datacenter);
            let cells = match held {
                Some(cells) => cells.clone(),
                None if is_of_root => view.cells().cells_of(datacenter),
                None => Cells::new(),
            };
            total.value = total.value.plus(root.operations.beyond(datacenter, &cells));
            let added = cells.iter().map(|(_, totals)| totals.added.into());
            total.count = total.count.plus(added.sum());
            if let Some(report) = report {
                total.last_write_ms = total.last_write_ms.max(report.facts.last_write_ms);
            }
            // All counts of a stopped datacenter are in the held totals.
            let is_settled = root.operations.is_reconciled(datacenter);
            let as_of_ms = match report {
                _ if held.is_some() && is_settled => i64::MAX,
                Some(report) if is_settled => report.as_of_ms,
                _ => i64::MIN,
            };
            total.as_of_ms = total.as_of_ms.min(as_of_ms);
        }
        if total.as_of_ms == i64::MAX {
            // No datacenter counts: only an operation has changed it since it was created, or imported.
            total.as_of_ms = root.operations.at_ms();
        }
        // No write was acknowledged before the counter was created.
        total.as_of_ms = total.as_of_ms.max(root.created_at_ms);
        total
    }
}

fn is_known(root: &Root, view: &View) -> bool {
    let is_of_root = view.generation() == root.generation;
    let mut counting = root.datacenters.iter();
    root.has_value_of_its_own()
        || (root.datacenters.is_empty() && !root.may_lack)
        || counting.any(|datacenter| is_of_root && view.report_of(datacenter).is_some())
}

/// The part of each datacenter in a counter's value, as its root knows it: increments and decrements beyond the
/// baselines. With the base they are the value of [`CounterTotal::of`].
pub fn shares_of(root: &Root, view: &View) -> Vec<(Datacenter, Sum, Sum)> {
    let is_of_root = view.generation() == root.generation;
    let share = |datacenter: &Datacenter| {
        let cells = match held_by(root, datacenter) {
            Some(cells) => cells.clone(),
            None if is_of_root => view.cells().cells_of(datacenter),
            None => Cells::new(),
        };
        let mut share = (datacenter.clone(), Sum::ZERO, Sum::ZERO);
        if root.operations.is_reconciled(datacenter) {
            for (shard, totals) in cells {
                let (added, removed) = root.operations.baseline(datacenter, shard);
                let beyond = |total: CellTotal, seen: CellTotal| {
                    Sum::from(total.max(seen)).minus(seen.into())
                };
                share.1 = share.1.plus(beyond(totals.added, added));
                share.2 = share.2.plus(beyond(totals.removed, removed));
            }
        }
        share
    };
    root.datacenters.iter().map(share).collect()
}

/// The held totals of a datacenter that does not count any more.
fn held_by<'a>(root: &'a Root, datacenter: &Datacenter) -> Option<&'a Cells> {
    let mut held = root.held.iter();
    let of_it = held.find(|(other, _)| other == datacenter);
    of_it.map(|(_, cells)| cells)
}
