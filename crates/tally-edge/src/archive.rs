//! The deployment's data as files: exports, imports, snapshots, repairs.
//!
//! | module | holds |
//! |---|---|
//! | [`export`], [`import`] | the deployment's data as a file |
//! | [`import_lines`], [`import_counters`], [`import_boards`], [`import_members`] | lines of such a file, and how counters and boards get in |
//! | [`snapshots`], [`restore`] | snapshots, and counters that are restored from one |
//! | [`repair`], [`repair_objects`] | repairs of damaged data; damage in objects that hold more than one counter |

#[cfg(feature = "exports")]
pub(crate) mod export;
pub(crate) mod import;
mod import_boards;
mod import_counters;
mod import_lines;
mod import_members;
pub(crate) mod repair;
pub(crate) mod repair_objects;
pub(crate) mod restore;
pub(crate) mod snapshots;
