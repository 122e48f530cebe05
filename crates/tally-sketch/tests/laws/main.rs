//! Laws of sketches, as one program: it is linked once.
#![allow(
    clippy::as_conversions,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod accuracy;
mod difference;
mod format;
mod hash;
mod histogram;
#[cfg(feature = "redis")]
mod hll;
#[cfg(feature = "redis")]
mod hll_fuzz;
mod intersection;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_server;
mod sets;
mod token;
mod top_values;
