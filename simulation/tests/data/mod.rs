//! Data that leaves a whole service and comes back: exports, imports, snapshots.

mod exports;
mod imports;
mod service;
mod snapshot_faults;
mod snapshots;
