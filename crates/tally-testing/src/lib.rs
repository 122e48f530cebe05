//! What tests and benches of Tally and of its crates share. No program that ships has it.
//!
//! | module | holds |
//! |---|---|
//! | [`chance`] | numbers by a seed |
//! | [`drawn`] | sketches of many elements, drawn without inserting each |
//! | [`errors`] | how far estimates are from the truth |
//! | [`otlp`] | a reader of metrics that are pushed |
//! | [`search`] | a search through all worlds of a model |

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod chance;
pub mod drawn;
pub mod errors;
pub mod otlp;
pub mod search;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// The configuration of a property test: its seed, so that a failure comes back on every machine, and how many cases
/// are tried.
pub fn config(seed: u64, cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
