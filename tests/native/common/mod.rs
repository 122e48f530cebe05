//! What property tests share: a fixed seed, so that a failure comes back on every machine.

pub mod chance;
pub mod checks;
pub mod drawn;
pub mod errors;
pub mod exposition;
pub mod fake_platform;
pub mod following;
pub mod home;
pub mod keyed;
pub mod limits;
pub mod living;
pub mod merging;
pub mod redis;
pub mod rows;
pub mod stored_cell;
pub mod sums;

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
