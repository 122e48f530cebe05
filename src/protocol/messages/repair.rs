//! Messages of repairs: what is damaged, and put back from what others remember.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::cluster::root::Root;
use crate::core::cluster::view::ViewAtRest;
use crate::core::counter::grant::Grant;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::merge::CellTotals;
use crate::protocol::names::{Address, CellAddress};
use crate::protocol::repair::ObjectAt;
use crate::protocol::snapshot::Kept;

calls! {
    RepairCell => CellRepaired, "/repair-cell", |it| Address::Cell(&it.to), lacks (0, 1);
    RepairRoot => RootRepaired, "/repair-root", |it| Address::Root(&it.counter), lacks (1, 3);
    ListNames => Vec<String>, "/list-names", |it| Address::Directory(it.partition);
    ListDatacenters => BTreeSet<Datacenter>, "/list-datacenters", |it| Address::Directory(it.partition);
    RepairObject => Vec<DamagedTable>, "/repair-object", |it| it.to.address();
}

/// Edge → partition: the names of living counters, by its index alone: of those too whose roots cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListNames {
    /// The partition.
    pub partition: u32,
    /// What they begin with.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
}

/// Edge → partition: which datacenters count any of your first counters?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDatacenters {
    /// The partition.
    pub partition: u32,
}

/// Edge → root: what of you is damaged? Unless it `is_dry`, it is put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairRoot {
    /// The counter.
    pub counter: CounterId,
    /// Datacenters that may count it, besides those that have told of it.
    pub datacenters: BTreeSet<Datacenter>,
    /// Whether nothing is to be changed.
    pub is_dry: bool,
    /// What the last snapshot tells of it: it is made again from that where nobody remembers anything.
    pub kept: Option<Box<Kept>>,
}

/// What a partition keeps of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootPart {
    /// Its root: generation, settings, datacenters, what sets have made of the value.
    Root,
    /// What its leads have told.
    Memory,
    /// The row of lists and tops.
    Totals,
}

/// What became of a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootRepaired {
    /// What was damaged.
    pub damaged: Vec<RootPart>,
    /// Whose leads told, or would tell, what the root had granted them, where the root was damaged.
    pub told_by: Vec<Datacenter>,
    /// The living root as it is now, and what its leads have told; nothing where there is no such counter, and where it was not put back.
    pub found: Option<(Root, Option<ViewAtRest>)>,
    /// Whose leads did not answer, where the root was damaged: they may remember it.
    pub silent: Vec<Datacenter>,
    /// Whether the damaged root is, or would be, made again from the snapshot.
    pub is_from_snapshot: bool,
    /// Whether what the value was set to is known, where the root was damaged.
    pub knows_base: bool,
}

/// Edge → cell: what of you is damaged? Unless it `is_dry`, it is put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairCell {
    /// The cell.
    pub to: CellAddress,
    /// What is remembered of it.
    pub remembered: RememberedCell,
    /// Whether nothing is to be changed.
    pub is_dry: bool,
}

/// What is remembered of a cell away from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedCell {
    /// What the root grants its datacenter.
    pub grant: Grant,
    /// What it had counted, if that is known.
    pub totals: Option<CellTotals>,
    /// Its newest write, unix milliseconds.
    pub last_write_ms: i64,
    /// The most shards that its datacenter is known to have had.
    pub shards: u8,
}

/// What a cell keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CellPart {
    /// What it has counted, and under which grant.
    Totals,
    /// Who it is, and where its lead is.
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
    /// What sealed shards had counted, and which must still end.
    Shards,
}

/// From where a cell has its totals now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TotalsFrom {
    /// They were not damaged.
    Kept,
    /// From its own memory: nothing is lost.
    Memory,
    /// From what is remembered of it.
    Remembered,
    /// Nobody remembers anything: it begins from nothing.
    Nothing,
}

/// What became of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellRepaired {
    /// What was damaged, each once.
    pub damaged: Vec<CellPart>,
    /// From where its totals are, or would be.
    pub totals_from: TotalsFrom,
    /// What it had counted, where that could be read.
    pub counted: Option<CellTotals>,
}

/// Edge → object: what of you is damaged that belongs to no counter? Where it is asked for, it is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairObject {
    /// The object.
    pub to: ObjectAt,
    /// Whether it is removed.
    pub discards: bool,
}

/// What of a table is damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedTable {
    /// The table.
    pub table: String,
    /// How many of its rows.
    pub rows: u64,
    /// The names of the first of them, where they have such.
    pub names: Vec<String>,
    /// What is lost where they are removed.
    pub loss: String,
}
