//! Laws of the pure core that need no other crate, as one program: it is linked once.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod copies;
mod grants;
mod handover;
mod keyed;
mod limiters;
mod sweep;
