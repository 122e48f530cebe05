//! Messages of exports and imports: the contents of cells, read and written.

use serde::{Deserialize, Serialize};

use crate::messages::call::Call;
use crate::messages::operate::OperationKey;
use crate::names::{Address, CellAddress};
use tally_core::cluster::root::Root;
use tally_core::counter::contents::{Contents, ContentsWanted};
use tally_core::counter::id::{CounterId, Datacenter};

calls! {
    ReadContents => ReadOut, "/read-contents", |it| Address::Cell(&it.to);
    Install => InstallOutcome, "/install", |it| Address::Cell(&it.to);
    ExportPage => ExportReply, "/export-page", |_| Address::Aggregator;
}

/// Aggregator → cell: asks for its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadContents {
    /// The cell.
    pub to: CellAddress,
    /// The generation that the root holds.
    pub generation: u64,
    /// What to read besides totals.
    pub wanted: ContentsWanted,
}

/// The contents of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOut {
    /// Its contents; `None` where it counts nothing of that generation.
    pub contents: Option<Contents>,
    /// The most shards that its datacenter ever had.
    pub shards: u8,
}

/// Edge → lead: adds these contents to its own, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Install {
    /// The lead.
    pub to: CellAddress,
    /// The generation that they belong to.
    pub generation: u64,
    /// Their name, and a hash of them.
    pub key: OperationKey,
    /// The contents.
    pub contents: Contents,
}

/// The result, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstallOutcome {
    /// They are in the cell now.
    Done,
    /// Their key was used for something else.
    Reused,
    /// There is no room for another key.
    Full,
    /// The generation that they belong to has ended.
    Ended,
    /// They are in the cell since before, under this key.
    Replayed,
}

/// Edge → aggregator: the next counters of an export, in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportPage {
    /// The prefix of their names.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// The most counters.
    pub limit: u32,
    /// What is read of each besides totals.
    pub wanted: ContentsWanted,
}

/// A page of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportReply {
    /// The counters, in order of their names.
    pub counters: Vec<ExportedCounter>,
    /// The name after which the next page begins; `None` at the end.
    pub after: Option<String>,
    /// Partitions that did not answer: their counters are missing.
    pub missing_partitions: Vec<u32>,
}

/// A counter of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedCounter {
    /// Its id.
    pub counter: CounterId,
    /// Its root.
    pub root: Root,
    /// The contents of each datacenter; `None` for one that did not answer with all its cells.
    pub datacenters: Vec<(Datacenter, Option<Contents>)>,
    /// Whether it includes all that had been acknowledged when it was read.
    pub is_exact: bool,
}
