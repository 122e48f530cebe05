//! Snapshots, imports and repairs.
//!
//! | module | holds |
//! |---|---|
//! | [`snapshots`], [`snapshot_writing`], [`snapshot_reads`] | snapshots of a partition, writing and reading them |
//! | [`object_repair`] | damage of an object, and its removal |
//! | [`import_steps`] | which policies and alerts an import has put under a key, and which restore a key is of |

pub(crate) mod import_steps;
pub(crate) mod object_repair;
pub(crate) mod snapshot_reads;
mod snapshot_writing;
pub(crate) mod snapshots;
