//! Laws of policies, of the clock, and of what is given back, charged and adapted.

use std::collections::BTreeSet;

use tally_limit::clock::Monotone;
use tally_limit::meter::Meter;
use tally_limit::policy::{
    ALGORITHMS, Algorithm, LIMIT_MAX, Policy, PolicyFault, WINDOW_SECONDS_MAX,
};

use crate::policy_kinds::{
    BEGIN_MS, Chance, KINDS, drawn, policy, precise, step_ms, window_begins_ms,
};

/// The check of a good policy after a change.
fn checked(change: impl FnOnce(&mut Policy)) -> Result<(), PolicyFault> {
    let mut policy = Policy::sliding(100, 60);
    change(&mut policy);
    policy.check()
}

#[test]
fn a_policy_out_of_range_is_told_its_field_and_range() {
    assert_eq!(checked(|_| ()), Ok(()));
    let limit = PolicyFault {
        field: "limit",
        min: 1,
        max: LIMIT_MAX,
    };
    for wrong in [0, LIMIT_MAX + 1] {
        assert_eq!(checked(|policy| policy.limit = wrong), Err(limit));
    }
    let window = PolicyFault {
        field: "window_seconds",
        min: 1,
        max: WINDOW_SECONDS_MAX,
    };
    for wrong_ms in [0, -1_000, 999, 1_500, 2_592_001_000, i64::MAX] {
        assert_eq!(checked(|policy| policy.window_ms = wrong_ms), Err(window));
    }
    assert_eq!(Policy::sliding(1, u64::MAX).check(), Err(window));
    for burst in [0, LIMIT_MAX + 1] {
        let fault = checked(|policy| {
            policy.algorithm = Algorithm::TokenBucket;
            policy.burst = burst;
        });
        assert_eq!(fault.unwrap_err().field, "burst");
        let unread = checked(|policy| policy.burst = burst);
        assert_eq!(unread, Ok(()), "only a bucket's burst is looked at");
    }
    let fault = checked(|policy| {
        policy.algorithm = Algorithm::TokenBucket;
        policy.is_precise = true;
    });
    assert_eq!(fault.unwrap_err().field, "precise");
    assert_eq!(precise(1_001, 60).check().unwrap_err().max, 1_000);
    assert_eq!(precise(1_000, 60).check(), Ok(()));
    assert_eq!(
        Policy::sliding(LIMIT_MAX, WINDOW_SECONDS_MAX).check(),
        Ok(())
    );
}

#[test]
fn a_clock_goes_on_from_where_it_was_when_the_wall_clock_steps_back() {
    let mut clock = Monotone::default();
    assert_eq!(clock.read(BEGIN_MS), BEGIN_MS);
    assert_eq!(clock.read(BEGIN_MS + 5), BEGIN_MS + 5);
    assert_eq!(clock.peek(BEGIN_MS - 600_000), BEGIN_MS + 5);
    assert_eq!(
        clock.read(BEGIN_MS - 600_000),
        BEGIN_MS + 5,
        "it does not go back"
    );
    assert_eq!(
        clock.read(BEGIN_MS - 599_000),
        BEGIN_MS + 1_005,
        "and does not stand still"
    );
    let stored = postcard::to_allocvec(&clock).unwrap();
    let mut restarted: Monotone = postcard::from_bytes(&stored).unwrap();
    assert_eq!(restarted.read(BEGIN_MS - 598_000), BEGIN_MS + 2_005);
    let mut last_ms = 0;
    let mut chance = Chance(3);
    for _ in 0..1_000 {
        let now_ms = restarted.read(BEGIN_MS + i64::try_from(chance.below(1 << 40)).unwrap());
        assert!(now_ms >= last_ms);
        last_ms = now_ms;
    }
}

#[test]
fn the_initials_of_algorithms_and_of_precise_windows_differ() {
    let names = ALGORITHMS.iter().map(|(name, _)| *name).chain(["precise"]);
    let initials: BTreeSet<_> = names.clone().map(|name| name.chars().next()).collect();
    assert_eq!(initials.len(), names.count());
}

/// What is truly consumed and not given back: single tokens, by their times.
struct Truth {
    tokens: Vec<i64>,
}

impl Truth {
    fn counting(&self, policy: &Policy, now_ms: i64) -> u64 {
        let from_ms = window_begins_ms(policy, now_ms).unwrap_or(now_ms - policy.window_ms + 1);
        let counting = self.tokens.iter().filter(|at_ms| **at_ms >= from_ms);
        u64::try_from(counting.count()).unwrap()
    }
}

/// Random consuming and giving back; `is_timed` names the times of what is given back.
fn given_back(seed: u64, kind: u64, is_timed: bool) {
    let chance = &mut Chance(seed);
    let policy = drawn(kind, chance);
    let mut meter = Meter::new(&policy);
    let mut truth = Truth { tokens: Vec::new() };
    let mut now_ms = BEGIN_MS;
    for _ in 0..300 {
        let typical_ms = u64::try_from(policy.window_ms).unwrap() / policy.limit;
        now_ms += step_ms(chance, typical_ms);
        if chance.below(3) > 0 {
            if meter.check(&policy, now_ms, 1).is_allowed {
                truth.tokens.push(now_ms);
            }
        } else if !truth.tokens.is_empty() {
            let at = chance.index(truth.tokens.len());
            let consumed_ms = truth.tokens[at];
            let one = Truth {
                tokens: vec![consumed_ms],
            };
            if is_timed {
                meter.refund_at(&policy, now_ms, consumed_ms, 1);
            } else if one.counting(&policy, now_ms) == 0 {
                continue;
            } else {
                meter.refund(&policy, now_ms, 1);
            }
            truth.tokens.remove(at);
        }
        // Now and at any time to come, if nothing happens any more.
        for part in 0..=20 {
            let then_ms = now_ms + policy.window_ms * part / 20;
            let (used, true_used) = (
                meter.used(&policy, then_ms),
                truth.counting(&policy, then_ms),
            );
            assert!(
                used >= true_used,
                "seed {seed} kind {kind}: {used} counted, {true_used} consumed"
            );
            assert!(
                kind != 1 || !is_timed || used == true_used,
                "seed {seed}: a precise one is exact"
            );
        }
    }
}

#[test]
fn what_is_given_back_never_frees_more_than_was_consumed_at_any_time_to_come() {
    for seed in 0..100 {
        for kind in 0..3 {
            given_back(seed, kind, true);
            given_back(seed, kind, false);
        }
    }
}

#[test]
fn a_token_bucket_that_gets_back_keeps_its_bound_for_what_was_kept() {
    for seed in 0..200 {
        let chance = &mut Chance(seed);
        let policy = drawn(3, chance);
        let mut meter = Meter::new(&policy);
        let (window, limit) = (i128::from(policy.window_ms), i128::from(policy.limit));
        let mut log: Vec<(i64, u64)> = Vec::new();
        let mut now_ms = BEGIN_MS;
        for _ in 0..200 {
            now_ms += step_ms(
                chance,
                u64::try_from(policy.window_ms).unwrap() / policy.limit,
            );
            let cost = 1 + chance.below(policy.burst.min(3));
            if chance.below(4) > 0 {
                if meter.check(&policy, now_ms, cost).is_allowed {
                    log.push((now_ms, cost));
                }
            } else if !log.is_empty() {
                let at = chance.index(log.len());
                let (at_ms, cost) = log.remove(at);
                meter.refund_at(&policy, now_ms, at_ms, cost);
            }
        }
        let (mut debt, mut at_ms) = (0, 0);
        for (then_ms, cost) in log {
            debt = (debt - i128::from(then_ms - at_ms) * limit).max(0);
            (at_ms, debt) = (then_ms, debt + i128::from(cost) * window);
            assert!(debt <= i128::from(policy.burst) * window, "seed {seed}");
        }
    }
}

#[test]
fn a_refund_gives_back_no_more_than_is_used() {
    for kind in 0..KINDS {
        let mut chance = Chance(kind);
        let policy = Policy {
            limit: 10,
            burst: 10,
            ..drawn(kind, &mut chance)
        };
        let mut meter = Meter::new(&policy);
        assert_eq!(meter.refund(&policy, BEGIN_MS, 5), 0);
        meter.check(&policy, BEGIN_MS, 4);
        assert_eq!(meter.refund(&policy, BEGIN_MS, 1), 1);
        assert_eq!(meter.used(&policy, BEGIN_MS), 3);
        assert_eq!(meter.refund(&policy, BEGIN_MS, u64::MAX / 4_000_000), 3);
        assert_eq!(meter.used(&policy, BEGIN_MS), 0);
        assert!(meter.idle_at_ms(&policy) <= BEGIN_MS);
        assert!(meter.check(&policy, BEGIN_MS, 10).is_allowed);
    }
}

#[test]
fn what_is_charged_counts_even_above_the_limit() {
    for kind in 0..KINDS {
        let mut chance = Chance(kind);
        let policy = Policy {
            limit: 10,
            burst: 10,
            ..drawn(kind, &mut chance)
        };
        let mut meter = Meter::new(&policy);
        meter.charge(&policy, BEGIN_MS, 25);
        assert_eq!(meter.used(&policy, BEGIN_MS), 25);
        let verdict = meter.check(&policy, BEGIN_MS, 1);
        assert_eq!((verdict.is_allowed, verdict.remaining), (false, 0));
        let then_ms = BEGIN_MS + i64::try_from(verdict.reset_after_ms).unwrap();
        assert!(meter.peek(&policy, then_ms, 1).remaining > 0);
        assert_eq!(meter.peek(&policy, then_ms - 1, 1).remaining, 0);
    }
}

#[test]
fn a_precise_window_keeps_a_bounded_number_of_times_and_forgets_late() {
    let policy = precise(1_000, 60);
    let mut meter = Meter::new(&policy);
    for at_ms in 0..5_000 {
        meter.charge(&policy, BEGIN_MS + at_ms, 1);
    }
    assert!(meter.heap_bytes() <= 2_048 * 16, "{}", meter.heap_bytes());
    assert_eq!(meter.used(&policy, BEGIN_MS + 5_000), 5_000);
    assert_eq!(
        meter.used(&policy, BEGIN_MS + 60_000),
        5_000,
        "its first charges count longer"
    );
    assert_eq!(meter.used(&policy, BEGIN_MS + 64_999), 0);
}

#[test]
fn another_limit_keeps_what_is_used_and_another_window_keeps_it_as_of_now() {
    for kind in 0..KINDS {
        for seed in 0..50 {
            let chance = &mut Chance(seed);
            let old = drawn(kind, chance);
            let mut meter = Meter::new(&old);
            let mut now_ms = BEGIN_MS;
            for _ in 0..20 {
                now_ms += step_ms(chance, 2_000);
                meter.check(&old, now_ms, 1);
            }
            let used = meter.used(&old, now_ms);
            let larger = Policy {
                limit: old.limit + 7,
                burst: old.burst + 7,
                ..old.clone()
            };
            let mut kept = meter.clone();
            kept.adapt(&old, &larger, now_ms);
            assert_eq!(kept.used(&larger, now_ms), used);
            for other in 0..KINDS {
                let new = Policy {
                    window_ms: 3 * old.window_ms,
                    ..drawn(other, chance)
                };
                let mut moved = meter.clone();
                moved.adapt(&old, &new, now_ms);
                assert_eq!(
                    moved.used(&new, now_ms),
                    used,
                    "seed {seed} from {kind} to {other}"
                );
            }
        }
    }
}

#[test]
fn what_was_spent_elsewhere_counts_from_when_it_was_spent() {
    for seed in 0..100 {
        let chance = &mut Chance(seed);
        let policy = drawn(1, chance);
        let mut meter = Meter::new(&policy);
        let mut truth = Truth { tokens: Vec::new() };
        let mut now_ms = BEGIN_MS;
        for _ in 0..50 {
            now_ms += step_ms(chance, 1_000);
            let spent_ms = now_ms - step_ms(chance, 10_000);
            meter.charge_at(&policy, now_ms, spent_ms, 1);
            truth.tokens.push(spent_ms);
            for part in 0..=10 {
                let then_ms = now_ms + policy.window_ms * part / 10;
                let used = meter.used(&policy, then_ms);
                assert_eq!(used, truth.counting(&policy, then_ms), "seed {seed}");
            }
        }
    }
}

#[test]
fn what_is_consumed_with_an_earlier_time_counts_from_the_latest_that_was_seen() {
    let policy = Policy::sliding(10, 60);
    let mut meter = Meter::new(&policy);
    assert!(meter.check(&policy, BEGIN_MS, 5).is_allowed);
    assert!(!meter.check(&policy, BEGIN_MS + 30_000, 10).is_allowed);
    assert!(meter.check(&policy, BEGIN_MS, 5).is_allowed);
    assert_eq!(meter.used(&policy, BEGIN_MS + 62_000), 5);
}

#[test]
fn stored_meters_keep_their_bytes() {
    let hex = |meter: &Meter| {
        let bytes = postcard::to_allocvec(meter).unwrap();
        let back: Meter = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(back, *meter);
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let used = |policy: &Policy| {
        let mut meter = Meter::new(policy);
        meter.check(policy, BEGIN_MS, 3);
        meter.check(policy, BEGIN_MS + 5_000, 300);
        meter
    };
    assert_eq!(
        hex(&used(&Policy::sliding(1_000, 60))),
        "e6c4b28dbc6700bcb49f9f0daf0202000305ac02"
    );
    assert_eq!(
        hex(&used(&precise(1_000, 60))),
        "e6c4b28dbc6700d6f6b18dbc67af020200038827ac02"
    );
    assert_eq!(
        hex(&used(&policy(Algorithm::FixedWindow, 1_000, 60))),
        "e6c4b28dbc670080c3a01caf020100af02"
    );
    assert_eq!(
        hex(&used(&policy(Algorithm::TokenBucket, 1_000, 60))),
        "e6c4b28dbc670180d1ca08"
    );
}
