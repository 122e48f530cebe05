//! What `tally import` decides, as one program: it is linked once.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod export_file;
mod host;
mod import;
mod list;
mod options;
mod packing;
mod splitter;
mod text;
mod values;
