//! What property tests share: a fixed seed, so that a failure comes back on every machine.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// The configuration of a law: its seed and how many cases are tried.
pub fn config(seed: u64, cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
