//! Messages of repairs: what is damaged, and what is restored from other objects.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::messages::call::Call;
use crate::names::object_at::ObjectAt;
use crate::names::{Address, CellAddress};
use crate::snapshot::SnapshotCounter;
use tally_core::cluster::root::Root;
use tally_core::cluster::view::ViewAtRest;
use tally_core::counter::grant::Grant;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{CellFacts, CellTotals};

calls! {
    RepairCell => CellRepaired, "/repair-cell", |it| Address::Cell(&it.to);
    RepairRoot => RootRepaired, "/repair-root", |it| Address::Root(&it.counter);
    ListNames => Vec<String>, "/list-names", |it| Address::Directory(it.partition);
    ListDatacenters => BTreeSet<Datacenter>, "/list-datacenters", |it| Address::Directory(it.partition);
    RepairObject => Vec<DamagedTable>, "/repair-object", |it| it.to.address();
}

/// Edge → partition: the names of living counters, from its index only, so that counters with unreadable roots are
/// included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListNames {
    /// The partition.
    pub partition: u32,
    /// The prefix of the names.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
}

/// Edge → partition: the datacenters of its first counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDatacenters {
    /// The partition.
    pub partition: u32,
}

/// Edge → root: reports its damage, and repairs it unless `is_dry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairRoot {
    /// The counter.
    pub counter: CounterId,
    /// Datacenters that may count it, besides those that have reported.
    pub datacenters: BTreeSet<Datacenter>,
    /// Whether nothing is to be changed.
    pub is_dry: bool,
    /// The counter in the last snapshot. If no lead remembers the root, it is restored from this.
    pub kept: Option<Box<SnapshotCounter>>,
}

/// A part of a partition's data of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootPart {
    /// Its root: generation, settings, datacenters, the effect of sets on the value.
    Root,
    /// What its leads have pushed.
    Memory,
    /// The row for lists and tops.
    Totals,
}

/// The result of the repair of a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootRepaired {
    /// What was damaged.
    pub damaged: Vec<RootPart>,
    /// The datacenters whose leads hold, or would return, their grants, where the root was damaged.
    pub sources: Vec<Datacenter>,
    /// The root after the repair, and what its leads have pushed. `None` where there is no such counter, or the root
    /// was not repaired.
    pub found: Option<(Root, Option<ViewAtRest>)>,
    /// The datacenters whose leads did not answer, where the root was damaged. These leads may hold grants.
    pub silent: Vec<Datacenter>,
    /// Whether the damaged root is, or would be, restored from the snapshot.
    pub is_from_snapshot: bool,
    /// Whether the last set value is known, where the root was damaged.
    pub knows_base: bool,
}

/// Edge → cell: reports its damage, and repairs it unless `is_dry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairCell {
    /// The cell.
    pub to: CellAddress,
    /// What other objects remember of it.
    pub remembered: RememberedCell,
    /// Whether nothing is to be changed.
    pub is_dry: bool,
}

/// What other objects remember of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedCell {
    /// The root's grant to its datacenter.
    pub grant: Grant,
    /// Its totals, if they are known.
    pub totals: Option<CellTotals>,
    /// What it has reported beyond its totals.
    pub facts: CellFacts,
    /// The largest known number of shards of its datacenter.
    pub shards: u8,
}

/// A part of a cell's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CellPart {
    /// Its totals and its grant.
    Totals,
    /// Its address, and the place of its lead.
    Address,
    /// Counts of minutes.
    Minutes,
    /// Counts of hours.
    Hours,
    /// Counts of days.
    Days,
    /// Unique elements.
    Uniques,
    /// Samples.
    Samples,
    /// Breakdowns.
    Breakdowns,
    /// Keys of writes.
    Keys,
    /// The totals of sealed shards, and the shards that must still end.
    Shards,
}

/// The source of a cell's totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TotalsFrom {
    /// They were not damaged.
    Kept,
    /// From its own memory: nothing is lost.
    Memory,
    /// From what other objects remember.
    Remembered,
    /// From nowhere: they begin at 0.
    Nothing,
}

/// The result of the repair of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellRepaired {
    /// What was damaged, each once.
    pub damaged: Vec<CellPart>,
    /// The source of its totals, now or after a repair.
    pub totals_from: TotalsFrom,
    /// The totals that it had, where they could be read.
    pub counted: Option<CellTotals>,
}

/// Edge → object: reports damage that belongs to no counter. Removes it if `discards` is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairObject {
    /// The object.
    pub to: ObjectAt,
    /// Whether the damage is removed.
    pub discards: bool,
}

/// The damage of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedTable {
    /// The table.
    pub table: String,
    /// How many of its rows are damaged.
    pub rows: u64,
    /// The names of the first damaged rows, where they have names.
    pub names: Vec<String>,
    /// What their removal loses.
    pub loss: String,
}
