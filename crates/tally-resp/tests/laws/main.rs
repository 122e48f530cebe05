//! Laws of Redis's protocol, as one program: it is linked once.
#![allow(
    clippy::as_conversions,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod connection;
mod framing;
mod shape;
mod subscriptions;
mod together;
