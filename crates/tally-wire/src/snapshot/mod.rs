//! Snapshots: a partition's counters as files, one run a day.
//!
//! Invariants: only a manifest makes files known, and it is written after all its files. A value is read from the
//! newest manifest of its day and the manifests before it, back to a full run, or not at all.
//!
//! Life of a snapshot: a *run* of a partition writes *parts*, each with some counters in order of their names, and then
//! its manifest. A full run has all counters; any other has the changes since the run before it. A run and those before
//! it, back to a full one, are a *chain*.
//!
//! | module | holds |
//! |---|---|
//! | `kept` | the state of a counter in a snapshot |
//! | `part` | a file of counters |
//! | `manifest` | the files of a run, and which runs are kept |
//! | `plan` | the setting, and when runs are due |
//! | `date` | days |
//! | `put_back` | repairs from a snapshot |

mod date;
mod kept;
mod manifest;
mod part;
mod plan;
mod put_back;

pub use date::{DAY_MS, date_of, day_of_ms};
pub use kept::{SnapshotCounter, SnapshotDatacenter};
pub use manifest::{CHAIN_MAX, Manifest, PartOf, RunOf, chain_of, thinned};
pub use part::{PART_BYTES_MAX, PART_ENTRIES_MAX, PartEntry, PartWriter, digest_of, read_part};
pub use plan::{SNAPSHOTS_OFF, SnapshotPlan};
pub use put_back::LastSnapshot;
