//! The state of a counter in a snapshot: its root's data, and what its leads had pushed by then.

use serde::{Deserialize, Serialize};

use tally_core::cluster::root::Root;
use tally_core::cluster::total::{CounterTotal, shares_of};
use tally_core::cluster::view::View;
use tally_core::counter::id::Datacenter;
use tally_core::counter::settings::Settings;
use tally_core::counter::total::{Sum, Value};
use tally_core::sketch::Uniques;

/// The counts of a datacenter in the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotDatacenter {
    /// The datacenter.
    pub datacenter: Datacenter,
    /// Increments that count.
    pub added: Sum,
    /// Decrements that count.
    pub removed: Sum,
    /// Its newest write, unix milliseconds; `i64::MIN` for none.
    pub last_write_ms: i64,
}

/// The state of a living counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotCounter {
    /// When it was created, unix milliseconds.
    pub created_at_ms: i64,
    /// Its settings, without the number of their changes.
    pub settings: Settings,
    /// The only datacenter that counts, if there is one.
    pub home: Option<Datacenter>,
    /// Its last set value, if it was set.
    pub base: Option<Value>,
    /// Each datacenter, in order of their names.
    pub datacenters: Vec<SnapshotDatacenter>,
    /// Unique elements of all time.
    pub uniques: Uniques,
    /// It includes every write acknowledged before this, unix milliseconds.
    pub as_of_ms: i64,
}

impl SnapshotCounter {
    /// The state from a root's data.
    pub fn of(root: &Root, view: &View) -> Self {
        let is_of_root = view.generation() == root.generation;
        Self {
            created_at_ms: root.created_at_ms,
            settings: Settings {
                number: 0,
                ..root.settings
            },
            home: root.home.clone(),
            base: root.operations.has_base().then(|| root.operations.base()),
            datacenters: shares_of(root, view)
                .into_iter()
                .map(|(datacenter, added, removed)| SnapshotDatacenter {
                    last_write_ms: view
                        .report_of(&datacenter)
                        .filter(|_| is_of_root)
                        .map_or(i64::MIN, |report| report.facts.last_write_ms),
                    datacenter,
                    added,
                    removed,
                })
                .collect(),
            uniques: match is_of_root {
                true => view.uniques().clone(),
                false => Uniques::new(),
            },
            as_of_ms: CounterTotal::of(root, view).as_of_ms,
        }
    }

    /// Its value.
    pub fn value(&self) -> Value {
        let base = self.base.unwrap_or_default();
        self.datacenters.iter().fold(base, |value, part| {
            value.plus(Value::new(part.added, part.removed))
        })
    }

    /// Its newest write, unix milliseconds, if one is known.
    pub fn last_write_ms(&self) -> Option<i64> {
        let writes = self.datacenters.iter().map(|part| part.last_write_ms);
        writes.max().filter(|at_ms| *at_ms > 0)
    }
}
