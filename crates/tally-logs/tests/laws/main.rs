//! Laws of the reader of logs, as one program: it is linked once.
#![allow(
    clippy::as_conversions,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod address;
mod bots;
mod clf;
mod filter;
mod formats;
mod json;
mod reader;
mod target;
mod time;
