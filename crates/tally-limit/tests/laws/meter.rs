//! Laws of meters: each algorithm beside a log of everything that was admitted, over random traffic.
//!
//! The traffic of each seed is the same in every run; a failure names its seed.

use tally_limit::meter::{Meter, NEVER_MS, Verdict};
use tally_limit::policy::{Algorithm, Policy};

use crate::policy_kinds::{BEGIN_MS, Chance, KINDS, drawn, policy, precise, step_ms};

/// What was admitted: when and how much.
type Log = Vec<(i64, u64)>;

fn sum(log: &Log, from_ms: i64, until_ms: i64) -> u64 {
    let within = log
        .iter()
        .filter(|(at, _)| (from_ms..=until_ms).contains(at));
    within.map(|(_, cost)| cost).sum()
}

/// Random calls against one meter. `look` sees each, with the log before it.
fn traffic(
    seed: u64,
    policy: &Policy,
    chance: &mut Chance,
    mut look: impl FnMut(&Log, i64, u64, Verdict),
) -> Log {
    let mut meter = Meter::new(policy);
    let mut log = Log::new();
    let typical_ms = u64::try_from(policy.window_ms).unwrap() / policy.limit;
    let mut now_ms = BEGIN_MS;
    for _ in 0..400 {
        now_ms += step_ms(chance, typical_ms);
        let cost = 1 + chance.below(policy.capacity().min(4));
        let peeked = meter.peek(policy, now_ms, cost);
        let before = meter.used(policy, now_ms);
        let verdict = meter.check(policy, now_ms, cost);
        assert_eq!(verdict.is_allowed, peeked.is_allowed, "seed {seed}");
        assert_eq!(verdict.retry_after_ms, peeked.retry_after_ms, "seed {seed}");
        let consumed = if verdict.is_allowed { cost } else { 0 };
        let used = meter.used(policy, now_ms);
        assert_eq!(
            used,
            before + consumed,
            "a refused call consumes nothing; seed {seed}"
        );
        assert_eq!(verdict.remaining, policy.capacity() - used, "seed {seed}");
        look(&log, now_ms, cost, verdict);
        times_are_true(seed, &meter, policy, now_ms, cost, verdict);
        if verdict.is_allowed {
            log.push((now_ms, cost));
        }
    }
    log
}

/// `retry_after_ms` and `reset_after_ms` are exact to the millisecond, asked of the meter itself.
fn times_are_true(
    seed: u64,
    meter: &Meter,
    policy: &Policy,
    now_ms: i64,
    cost: u64,
    verdict: Verdict,
) {
    let at = |after_ms: u64| now_ms + i64::try_from(after_ms).unwrap();
    if verdict.is_allowed {
        assert_eq!(verdict.retry_after_ms, 0, "seed {seed}");
    } else {
        assert!(verdict.retry_after_ms >= 1, "seed {seed}");
        let early = meter.peek(policy, at(verdict.retry_after_ms - 1), cost);
        let late = meter.peek(policy, at(verdict.retry_after_ms), cost);
        assert!(
            !early.is_allowed && late.is_allowed,
            "seed {seed}: {verdict:?}"
        );
    }
    if verdict.remaining == policy.capacity() {
        assert_eq!(verdict.reset_after_ms, 0, "seed {seed}");
    } else {
        let left = |after_ms| meter.peek(policy, at(after_ms), 1).remaining;
        assert_eq!(
            left(verdict.reset_after_ms - 1),
            verdict.remaining,
            "seed {seed}"
        );
        assert!(
            left(verdict.reset_after_ms) > verdict.remaining,
            "seed {seed}"
        );
    }
    let idle_ms = meter.idle_at_ms(policy);
    assert_eq!(meter.used(policy, idle_ms), 0, "seed {seed}");
    assert!(
        idle_ms <= now_ms || meter.used(policy, idle_ms - 1) > 0,
        "seed {seed}"
    );
}

#[test]
fn a_sliding_window_admits_no_more_than_its_limit_in_any_interval_and_is_late_by_a_sixtieth_at_most()
 {
    for seed in 0..200 {
        let chance = &mut Chance(seed);
        let policy = drawn(0, chance);
        let mut refused = 0;
        let log = traffic(seed, &policy, chance, |log, now_ms, cost, verdict| {
            // In sixtieths of a millisecond, so that nothing is rounded.
            let late = log
                .iter()
                .filter(|(at, _)| (now_ms - at) * 60 < policy.window_ms * 61);
            let counted: u64 = late.map(|(_, cost)| cost).sum();
            assert!(
                verdict.is_allowed || counted + cost > policy.limit,
                "seed {seed}: refused too much"
            );
            refused += u64::from(!verdict.is_allowed);
        });
        for (end_ms, _) in &log {
            let within = sum(&log, end_ms - policy.window_ms, *end_ms);
            assert!(
                within <= policy.limit,
                "seed {seed}: {within} of {}",
                policy.limit
            );
        }
        assert!(refused > 0, "seed {seed} refused nothing");
    }
}

#[test]
fn a_precise_window_decides_as_the_log_does() {
    for seed in 0..200 {
        let chance = &mut Chance(seed);
        let policy = drawn(1, chance);
        traffic(seed, &policy, chance, |log, now_ms, cost, verdict| {
            let used = sum(log, now_ms - policy.window_ms + 1, now_ms);
            assert_eq!(
                verdict.is_allowed,
                used + cost <= policy.limit,
                "seed {seed}"
            );
        });
    }
}

#[test]
fn a_fixed_window_decides_by_the_windows_of_the_clock() {
    for seed in 0..200 {
        let chance = &mut Chance(seed);
        let policy = drawn(2, chance);
        traffic(seed, &policy, chance, |log, now_ms, cost, verdict| {
            let used = sum(log, now_ms - now_ms % policy.window_ms, now_ms);
            assert_eq!(
                verdict.is_allowed,
                used + cost <= policy.limit,
                "seed {seed}"
            );
        });
    }
}

#[test]
fn a_fixed_window_lets_twice_its_limit_through_around_a_boundary_where_a_sliding_one_does_not() {
    let boundary_ms = (BEGIN_MS / 60_000 + 1) * 60_000;
    let admitted = |policy: &Policy| {
        let mut meter = Meter::new(policy);
        let calls = (0..400).map(|call| boundary_ms - 200 + call);
        calls
            .filter(|at_ms| meter.check(policy, *at_ms, 1).is_allowed)
            .count()
    };
    assert_eq!(admitted(&policy(Algorithm::FixedWindow, 100, 60)), 200);
    assert_eq!(admitted(&policy(Algorithm::SlidingWindow, 100, 60)), 100);
    assert_eq!(admitted(&precise(100, 60)), 100);
}

#[test]
fn a_token_bucket_decides_as_exact_fractions_do_and_keeps_its_bound() {
    for seed in 0..200 {
        let chance = &mut Chance(seed);
        let policy = drawn(3, chance);
        let window = i128::from(policy.window_ms);
        let (limit, burst) = (i128::from(policy.limit), i128::from(policy.burst));
        // Tokens in the bucket times the window.
        let mut level = burst * window;
        let mut at_ms = BEGIN_MS;
        let log = traffic(seed, &policy, chance, |_, now_ms, cost, verdict| {
            level = (level + i128::from(now_ms - at_ms) * limit).min(burst * window);
            at_ms = now_ms;
            let cost = i128::from(cost) * window;
            assert_eq!(verdict.is_allowed, cost <= level, "seed {seed}");
            if verdict.is_allowed {
                level -= cost;
            }
        });
        for (first, (start_ms, _)) in log.iter().enumerate() {
            let mut within = 0;
            for (end_ms, cost) in &log[first..] {
                within += i128::from(*cost) * window;
                let bound = burst * window + i128::from(end_ms - start_ms) * limit;
                assert!(within <= bound, "seed {seed}: more than burst and rate");
            }
        }
    }
}

#[test]
fn the_largest_policy_overflows_nothing() {
    for algorithm in [
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
    ] {
        let policy = policy(algorithm, 1_000_000_000, 2_592_000);
        policy.check().unwrap();
        let mut meter = Meter::new(&policy);
        assert!(meter.check(&policy, BEGIN_MS, 1_000_000_000).is_allowed);
        let verdict = meter.check(&policy, BEGIN_MS, 1);
        assert!(!verdict.is_allowed && verdict.retry_after_ms >= 1);
        times_are_true(0, &meter, &policy, BEGIN_MS, 1, verdict);
        assert_eq!(
            meter.check(&policy, BEGIN_MS, 1_000_000_001).retry_after_ms,
            NEVER_MS
        );
        for _ in 0..20 {
            meter.charge(&policy, BEGIN_MS, u64::MAX);
        }
        assert_eq!(meter.peek(&policy, BEGIN_MS, 1).remaining, 0);
        assert!(
            !meter.check(&policy, i64::MIN, 1).is_allowed,
            "a clock far back"
        );
        assert!(
            meter.check(&policy, i64::MAX / 120, 1).is_allowed,
            "a clock far ahead"
        );
    }
}

#[test]
fn time_never_runs_back_in_a_meter() {
    for kind in 0..KINDS {
        let mut chance = Chance(kind);
        let policy = Policy {
            limit: 10,
            burst: 10,
            window_ms: 60_000,
            ..drawn(kind, &mut chance)
        };
        let mut meter = Meter::new(&policy);
        assert!(meter.check(&policy, BEGIN_MS, 10).is_allowed);
        let now = meter.peek(&policy, BEGIN_MS, 1);
        let back = meter.peek(&policy, BEGIN_MS - 600_000, 1);
        assert_eq!(back.remaining, now.remaining, "a step back frees nothing");
        assert_eq!(
            back.retry_after_ms,
            now.retry_after_ms + 600_000,
            "by the caller's clock"
        );
        // What is consumed late is consumed for whoever comes with an earlier time.
        meter.check(&policy, BEGIN_MS + 130_000, 10);
        let early = meter.check(&policy, BEGIN_MS, 1);
        assert!(!early.is_allowed, "kind {kind}");
    }
}

#[test]
fn a_refusal_that_is_told_later_waits_less_and_one_for_ever_stays() {
    let policy = Policy::sliding(5, 60);
    let mut meter = Meter::new(&policy);
    meter.check(&policy, BEGIN_MS, 5);
    let refused = meter.check(&policy, BEGIN_MS, 1);
    for passed_ms in [0, 7, 1_000, 59_000] {
        let now_ms = BEGIN_MS + i64::try_from(passed_ms).unwrap();
        assert_eq!(refused.later(passed_ms), meter.peek(&policy, now_ms, 1));
    }
    assert_eq!(refused.later(u64::MAX).retry_after_ms, 1);
    let never = meter.check(&policy, BEGIN_MS, 6);
    assert_eq!(never.later(7).retry_after_ms, NEVER_MS);
}

#[test]
fn what_was_consumed_in_a_fixed_window_is_given_back_in_that_alone() {
    let fixed = policy(Algorithm::FixedWindow, 5, 60);
    let end_ms = (BEGIN_MS.div_euclid(60_000) + 1) * 60_000;
    assert!(fixed.may_give_back(BEGIN_MS, end_ms - 1));
    assert!(!fixed.may_give_back(BEGIN_MS, end_ms));
    assert!(!fixed.may_give_back(end_ms - 1, end_ms));
    assert!(fixed.may_give_back(end_ms, end_ms + 59_999));
    assert!(Policy::sliding(5, 60).may_give_back(BEGIN_MS, end_ms));
}
