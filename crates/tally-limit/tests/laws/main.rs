//! Laws of limits, as one program: it is linked once.
#![allow(
    clippy::as_conversions,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod budgets;
mod cancels;
mod change;
mod checks;
mod direct;
mod full;
mod handover;
mod holders;
mod isolate_leases;
mod keyed;
mod lease;
mod lease_bytes;
mod log;
mod meter;
mod named;
mod overrides;
mod policies;
mod policy_kinds;
mod recall;
mod table;
mod world;
