//! How soon all datacenters agree, and at what cost: `make converge` for the figures, a smaller world in
//! every test run.
#![expect(
    clippy::expect_used,
    reason = "the helpers of a test fail it by panicking"
)]

#[path = "sim/converge/mod.rs"]
mod converge;

use converge::{plan, run};
use tally::core::cluster::push::QUIET_MS;

/// What every view has: DESIGN's promise.
const SECOND_MS: i64 = 1_000;

fn check(shown: &run::Shown) {
    assert_eq!(shown.missing, 0, "views that did not agree at all");
    assert!(shown.agreed.max() <= SECOND_MS, "{} ms", shown.agreed.max());
    for (split_ms, times) in &shown.healed {
        assert!(times.len() > 0, "a split of {split_ms} ms cut nothing off");
        assert!(
            times.max() <= SECOND_MS,
            "{} ms after {split_ms} ms",
            times.max()
        );
    }
    assert!(
        shown.cold_interval_ms >= QUIET_MS.1,
        "{} ms",
        shown.cold_interval_ms
    );
}

#[test]
fn a_small_world_agrees_within_a_second() {
    let shown = run::run(plan::bounded());
    shown.print();
    check(&shown);
}

/// The run that docs/internals/convergence.md shows. DATACENTERS, SEED and JSON (a file to write) come from the environment.
#[test]
#[ignore = "takes minutes: make converge"]
fn the_whole_world_agrees_within_a_second() {
    let number = |name: &str, otherwise: usize| {
        let text = std::env::var(name).unwrap_or_default();
        text.parse().unwrap_or(otherwise)
    };
    let mut plan = plan::full(number("DATACENTERS", 100));
    plan.seed = u64::try_from(number("SEED", 1)).expect("a seed");
    println!("seed {}", plan.seed);
    let shown = run::run(plan);
    shown.print();
    if let Ok(file) = std::env::var("JSON") {
        std::fs::write(file, shown.json()).expect("a file that can be written");
    }
    check(&shown);
}
