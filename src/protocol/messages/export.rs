//! Messages of exports and imports: what cells hold, read and installed.

use serde::{Deserialize, Serialize};

use super::{Call, OperationKey};
use crate::core::cluster::root::Root;
use crate::core::counter::contents::{Contents, ContentsWanted};
use crate::core::counter::id::{CounterId, Datacenter};
use crate::protocol::names::{Address, CellAddress};

calls! {
    ReadContents => ReadOut, "/read-contents", |it| Address::Cell(&it.to);
    Install => Installed, "/install", |it| Address::Cell(&it.to);
    ExportPage => Exported, "/export-page", |_| Address::Aggregator;
}

/// Aggregator → cell: what do you hold?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadContents {
    /// The cell.
    pub to: CellAddress,
    /// The generation that the root holds.
    pub generation: u64,
    /// What to read besides totals.
    pub wanted: ContentsWanted,
}

/// What a cell holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOut {
    /// Its contents; `None` where it counts nothing of that generation.
    pub contents: Option<Contents>,
    /// The most shards that its datacenter ever had.
    pub shards: u8,
}

/// Edge → lead: add these contents to what you hold, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Install {
    /// The lead.
    pub to: CellAddress,
    /// The generation that they are for.
    pub generation: u64,
    /// Their name, and a hash of what they are.
    pub key: OperationKey,
    /// The contents.
    pub contents: Contents,
}

/// What became of contents, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Installed {
    /// They are in the cell, now or before.
    Done,
    /// Their key was used for something else.
    Reused,
    /// There is no room for another key.
    Full,
    /// The generation that they are for has ended.
    Ended,
}

/// Edge → aggregator: the next counters of an export, in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportPage {
    /// What their names begin with.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
    /// What is read of each besides totals.
    pub wanted: ContentsWanted,
}

/// A page of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    /// The counters, in order of their names.
    pub counters: Vec<ExportedCounter>,
    /// The name after which the next page begins; `None` at the end.
    pub after: Option<String>,
    /// Partitions that did not answer: their counters are left out.
    pub missing_partitions: Vec<u32>,
}

/// A counter of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedCounter {
    /// Its id.
    pub counter: CounterId,
    /// Its root.
    pub root: Root,
    /// What each datacenter holds; `None` for one that did not answer with all its cells.
    pub datacenters: Vec<(Datacenter, Option<Contents>)>,
    /// Whether all that had been acknowledged when it was read is in it.
    pub is_exact: bool,
}
