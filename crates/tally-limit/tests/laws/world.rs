//! Law: a limit that holds for the world is never exceeded, whatever is lost, repeated, late or crashes; without
//! failures few calls are remote and few are refused although there was budget.
//!
//! Each world is lived through by its seed, which a failure names.

use tally_limit::policy::{Algorithm, Durability, Policy, Scope};

use sim_limit::{Failures, Pace, Plan, World};

mod sim_limit;

fn policy(algorithm: Algorithm, limit: u64, window_seconds: u64) -> Policy {
    Policy {
        algorithm,
        scope: Scope::Global,
        ..Policy::sliding(limit, window_seconds)
    }
}

fn precise(limit: u64, window_seconds: u64) -> Policy {
    Policy {
        is_precise: true,
        ..policy(Algorithm::SlidingWindow, limit, window_seconds)
    }
}

fn all_kinds(limit: u64, window_seconds: u64) -> Vec<Policy> {
    vec![
        policy(Algorithm::SlidingWindow, limit, window_seconds),
        precise(limit, window_seconds),
        policy(Algorithm::FixedWindow, limit, window_seconds),
        policy(Algorithm::TokenBucket, limit, window_seconds),
    ]
}

#[test]
fn nothing_that_fails_lets_the_world_exceed_a_limit() {
    let mut worlds = 0;
    for seed in 0..12 {
        for (limit, window_seconds) in [(1, 1), (10, 10), (100, 2), (1_000, 60)] {
            for policy in all_kinds(limit, window_seconds) {
                let plan = Plan {
                    policy,
                    datacenters: 20,
                    pace: Pace::Steady,
                    percent: [50, 95, 150, 400][seed as usize % 4],
                    is_uneven: seed % 3 == 0,
                    failures: Failures::All,
                    lends: true,
                    windows: if window_seconds < 60 { 30 } else { 6 },
                };
                let figures = World::live(seed, plan.clone());
                assert_eq!(figures.over, 0, "seed {seed}: {plan:?}: {figures:?}");
                assert!(figures.admitted > 0, "seed {seed}: {plan:?}: {figures:?}");
                worlds += 1;
            }
        }
    }
    println!("{worlds} worlds");
}

#[test]
fn without_failures_few_calls_are_remote_and_few_are_refused_for_nothing() {
    for limit in [1_000, 10_000] {
        for is_uneven in [false, true] {
            let mut kinds = all_kinds(limit, 60);
            kinds.retain(|policy| policy.check().is_ok());
            for policy in kinds {
                let plan = Plan {
                    policy,
                    datacenters: 20,
                    pace: Pace::Steady,
                    percent: 50,
                    is_uneven,
                    failures: Failures::None,
                    lends: true,
                    windows: 20,
                };
                spends_below_its_limit(plan);
            }
        }
    }
}

#[test]
fn what_others_hold_and_do_not_use_comes_back_before_anything_is_refused() {
    let at_once = 0.05;
    for seed in 0..2 {
        for (percent, is_uneven) in [(50, false), (90, false), (90, true)] {
            for gap_ms in [at_once, 5.0, 30.0] {
                let kinds = all_kinds(2_000, 60).into_iter();
                for policy in kinds.filter(|policy| policy.check().is_ok()) {
                    let plan = Plan {
                        policy,
                        datacenters: 5,
                        pace: Pace::InTurn { gap_ms },
                        percent,
                        is_uneven,
                        failures: Failures::None,
                        lends: true,
                        windows: 1,
                    };
                    let figures = World::live(seed, plan.clone());
                    assert_eq!(figures.over, 0, "{plan:?}: {figures:?}");
                    assert_eq!(
                        figures.admitted, figures.checks,
                        "seed {seed}: {plan:?}: {figures:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn at_nine_tenths_of_the_limit_one_of_a_thousand_is_refused_and_one_of_twenty_remote() {
    for (percent, is_uneven) in [(50, true), (90, false), (90, true)] {
        let kinds = all_kinds(2_000, 60).into_iter();
        for policy in kinds.filter(|policy| policy.check().is_ok()) {
            let plan = Plan {
                policy,
                datacenters: 5,
                pace: Pace::Steady,
                percent,
                is_uneven,
                failures: Failures::None,
                lends: true,
                windows: 20,
            };
            spends_below_its_limit(plan);
        }
    }
}

/// Policies of which isolates are lent parts, and such that are too small for that, but would do no harm. Each
/// verdict is stored, so that a crash of the limiter forgets none.
fn isolate_kinds(limit: u64, window_seconds: u64) -> impl Iterator<Item = Policy> {
    let mut kinds = all_kinds(limit, window_seconds);
    kinds.retain(|policy| !policy.is_precise);
    kinds.into_iter().map(|policy| Policy {
        scope: Scope::Datacenter,
        durability: Durability::Commit,
        ..policy
    })
}

#[test]
fn nothing_that_fails_lets_isolates_exceed_what_their_limiter_lends() {
    for seed in 0..12 {
        for (limit, window_seconds) in [(1, 10), (30, 10), (1_000, 20)] {
            for policy in isolate_kinds(limit, window_seconds) {
                let plan = Plan {
                    policy,
                    datacenters: 20,
                    pace: Pace::Steady,
                    percent: [50, 95, 150, 400][seed as usize % 4],
                    is_uneven: seed % 3 == 0,
                    failures: Failures::All,
                    lends: true,
                    windows: 12,
                };
                let figures = World::live(seed, plan.clone());
                assert_eq!(figures.over, 0, "seed {seed}: {plan:?}: {figures:?}");
                assert!(figures.admitted > 0, "seed {seed}: {plan:?}: {figures:?}");
            }
        }
    }
}

#[test]
fn isolates_that_are_lent_parts_send_few_messages_and_admit_as_much() {
    for (percent, is_uneven) in [(50, false), (50, true), (80, true), (200, true)] {
        for policy in isolate_kinds(100_000, 30) {
            let plan = Plan {
                policy,
                datacenters: 20,
                pace: Pace::Steady,
                percent,
                is_uneven,
                failures: Failures::None,
                lends: true,
                windows: 2,
            };
            let figures = World::live(7, plan.clone());
            println!(
                "{percent:3} % {:?}{}: {} checks, leases {:.2} %, judged by the limiter {:.2} %, admitted {}",
                plan.policy.algorithm,
                if is_uneven { " uneven" } else { "" },
                figures.checks,
                figures.percent(figures.requests),
                figures.percent(figures.waited),
                figures.admitted,
            );
            assert_eq!(figures.over, 0, "{plan:?}: {figures:?}");
            if percent < 100 {
                let messages = figures.requests + figures.waited;
                assert_eq!(figures.admitted, figures.checks, "{plan:?}: {figures:?}");
                assert!(messages * 20 <= figures.checks, "{plan:?}: {figures:?}");
                continue;
            }
            let lends = false;
            let alone = World::live(7, Plan { lends, ..plan });
            assert_eq!(alone.waited, alone.checks, "all are judged by the limiter");
            assert!(
                figures.admitted * 1_000 >= alone.admitted * 998,
                "{figures:?}, and {alone:?} where nothing is lent"
            );
        }
    }
}

/// Nothing is admitted beyond the limit, at most one check of a thousand is refused for nothing, one of twenty is
/// remote.
fn spends_below_its_limit(plan: Plan) {
    let figures = World::live(7, plan.clone());
    println!(
        "limit {} at {} % {:?}{} uneven {}: {} checks, remote {:.2} %, waited {:.2} %, refused for nothing {:.3} %",
        plan.policy.limit,
        plan.percent,
        plan.policy.algorithm,
        if plan.policy.is_precise {
            " precise"
        } else {
            ""
        },
        plan.is_uneven,
        figures.checks,
        figures.percent(figures.requests),
        figures.percent(figures.waited),
        figures.percent(figures.refused_for_nothing),
    );
    assert_eq!(figures.over, 0, "{plan:?}: {figures:?}");
    assert!(
        figures.requests * 20 <= figures.checks,
        "{plan:?}: {figures:?}"
    );
    assert!(
        figures.refused_for_nothing * 1_000 <= figures.checks,
        "{plan:?}: {figures:?}"
    );
}
