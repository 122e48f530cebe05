//! What `tally import` decides. The command, which has this crate as Wasm, opens files, unpacks them, calls the service
//! and prints. Pure: files and hashes are an argument, [`host::ImportHost`].
//!
//! ```text
//! log:    chunk ─► part ─► left out, or a line of a body ─► noted ─► /ingest ─► noted as counted
//! values: list, export, Redis ─► line of an export ─► body ─► /import
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`options`] | what the caller asks for, and what is wrong with it |
//! | [`splitter`] | bytes as parts of lines |
//! | [`bits`], [`note`], [`notes`] | what earlier runs have counted |
//! | [`import`], [`job`], [`part`] | an import of logs, one of its files, one part of a file |
//! | [`report`] | what the service says of a body |
//! | [`totals`] | what was done so far |
//! | [`list`] | lists of other counters |
//! | [`values`], [`export_file`] | bodies of `/import` |
//! | [`packing`] | how files are packed |
//! | [`text`] | summaries |
//! | [`host`] | what the caller does: files, hashes, expressions |

pub mod bits;
pub mod export_file;
pub mod host;
pub mod import;
pub mod job;
pub mod list;
pub mod note;
pub mod notes;
pub mod options;
pub mod packing;
pub mod part;
pub mod report;
pub mod splitter;
pub mod text;
pub mod totals;
pub mod values;
