//! The deterministic simulation: the state machines that ship, in a world where messages are lost, late,
//! repeated and out of order, and whoever holds anything crashes; compared with plain integers.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of a test fail it by panicking"
)]

#[allow(
    clippy::duplicate_mod,
    clippy::unwrap_used,
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the other tests use the rest"
)]
#[path = "native/common/mod.rs"]
mod common;
#[path = "sim/mod.rs"]
mod sim;
