//! Messages of exports, repairs and snapshots.

mod export;
mod repair;
mod snapshot;

pub use export::{
    ExportPage, ExportReply, ExportedCounter, Install, InstallOutcome, ReadContents, ReadOut,
};
pub use repair::{
    CellPart, CellRepaired, DamagedTable, ListDatacenters, ListNames, RememberedCell, RepairCell,
    RepairObject, RepairRoot, RootPart, RootRepaired, TotalsFrom,
};
pub use snapshot::{
    AllRuns, AskRuns, BeginRun, ClaimRestore, ListAllPastStates, ListPastStates, ListRuns,
    PartitionRuns, PastState, PastStateList, PastStatePage, PastStateRow, ReadOwnPastStates,
    ReadPastStates, RunInProgress,
};
