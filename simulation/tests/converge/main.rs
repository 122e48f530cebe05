//! How soon all datacenters agree, and at what cost: `make converge` for the figures, a smaller world in every test
//! run.
//!
//! What runs is the service that ships: edges with their caches, aggregators, roots, leads and cells. Writers and
//! readers are clients that speak HTTP to the edge of their datacenter. The network loses 5 % of the messages between
//! datacenters, repeats 2 %, lets them overtake each other, and splits the world now and then.

mod figures;
mod places;
mod plan;
mod run;
mod service;

/// How soon readers see a write.
const PROMISED_MS: i64 = 1_000;

/// Of a thousand readers so many are told in time: the promise, and in a world of a hundred views, whose slowest is
/// chance.
const PROMISED: usize = 990;
const PROMISED_SMALL: usize = 950;

fn check(shown: &run::Shown, thousandths: usize) {
    assert_eq!(shown.missing, 0, "readers that were not told all");
    let agreement_ms = shown.agreed.thousandth(thousandths);
    assert!(
        agreement_ms <= PROMISED_MS,
        "{agreement_ms} ms after the last write"
    );
    let off_ms = shown.off.thousandth(thousandths);
    assert!(off_ms <= PROMISED_MS, "{off_ms} ms while clocks are off");
    for (split_ms, times) in &shown.healed {
        assert!(times.len() > 0, "a split of {split_ms} ms cut nothing off");
        let agreement_ms = times.thousandth(thousandths);
        assert!(
            agreement_ms <= PROMISED_MS,
            "{agreement_ms} ms after a split of {split_ms} ms"
        );
    }
}

#[test]
fn a_small_world_agrees_within_a_second() {
    let shown = run::run(plan::bounded());
    shown.print();
    check(&shown, PROMISED_SMALL);
}

/// The run that docs/internals/convergence.md shows. DATACENTERS, SEED, LOST_ONCE_IN and JSON (a file to write) come
/// from the environment.
#[test]
#[ignore = "takes minutes: make converge"]
fn the_whole_world_agrees_within_a_second() {
    let number = |name: &str, otherwise: usize| {
        let text = std::env::var(name).unwrap_or_default();
        text.parse().unwrap_or(otherwise)
    };
    let seed = u64::try_from(number("SEED", 1)).expect("a seed");
    println!("seed {seed}");
    let lost = number("LOST_ONCE_IN", 0);
    let mut plan = plan::full(number("DATACENTERS", 100), seed);
    if lost > 0 {
        plan.lost_once_in = u64::try_from(lost).expect("a count");
    }
    let shown = run::run(plan);
    shown.print();
    if let Ok(file) = std::env::var("JSON") {
        std::fs::write(file, shown.json()).expect("a file that can be written");
    }
    check(&shown, PROMISED);
}
