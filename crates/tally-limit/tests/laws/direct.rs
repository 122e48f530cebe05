//! Laws of a limit for one caller.

use std::error::Error;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use tally_limit::budgets::{Budget, BudgetSpent};
use tally_limit::clock::Monotone;
use tally_limit::meter::NEVER_MS;
use tally_limit::policy::{Algorithm, Policy};
use tally_limit::table::log::Broken;
use tally_limit::table::{Full, ReservationRefusal};
use tally_limit::{Quota, RateLimiter};

use crate::policy_kinds::Chance;

fn many(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

#[test]
fn a_refused_call_is_admitted_after_the_wait_it_was_told_and_not_a_millisecond_earlier() {
    let quotas = [
        Quota::per_second(many(3)),
        Quota::per_minute(many(3)),
        Quota::per_hour(many(3)).fixed(),
        Quota::per_minute(many(60)).allow_burst(many(3)),
    ];
    for quota in quotas {
        let mut limiter = RateLimiter::direct(quota.clone());
        let begin_ms = 1_767_225_600_000;
        for call in 0..3 {
            let verdict = limiter.check_at(begin_ms).unwrap();
            assert_eq!(verdict.remaining, 2 - call, "{quota:?}");
        }
        let refused = limiter.check_at(begin_ms).unwrap_err();
        let then_ms = begin_ms + i64::try_from(refused.retry_after_ms).unwrap();
        assert!(limiter.clone().check_at(then_ms - 1).is_err(), "{quota:?}");
        assert!(limiter.check_at(then_ms).is_ok(), "{quota:?}");
    }
}

#[test]
fn a_cost_above_the_quota_is_never_admitted_and_says_so() {
    let mut limiter = RateLimiter::direct(Quota::per_second(many(3)));
    let refused = limiter.check_n_at(0, NonZeroU64::new(4).unwrap());
    let refused = refused.unwrap_err();
    assert_eq!(refused.retry_after_ms, NEVER_MS);
    assert!(refused.to_string().contains("costs more than the quota"));
    assert_eq!(limiter.peek_at(0).remaining, 3, "nothing was consumed");
}

#[test]
fn a_clock_that_steps_back_frees_nothing() {
    let mut limiter = RateLimiter::direct(Quota::per_minute(many(1)));
    assert!(limiter.check_at(600_000).is_ok());
    assert!(limiter.check_at(0).is_err());
}

#[test]
fn the_first_and_the_last_millisecond_are_times_as_any_other() {
    let quotas = [
        Quota::per_second(many(3)),
        Quota::per_hour(many(3)).fixed(),
        Quota::per_minute(many(60)).allow_burst(many(3)),
    ];
    for quota in quotas {
        for at_ms in [i64::MIN, i64::MIN + 1, 0, i64::MAX - 1, i64::MAX] {
            let mut limiter = RateLimiter::direct(quota.clone());
            assert_eq!(
                limiter.check_at(at_ms).unwrap().remaining,
                2,
                "{quota:?} at {at_ms}"
            );
        }
    }
}

/// Whatever the clock of the caller does: the bounds hold by the clock that never goes back, at both ends of time too.
#[test]
fn no_more_is_admitted_than_promised_at_the_edges_of_time_and_when_it_goes_back() {
    let quotas = [
        Quota::per_second(many(3)),
        Quota::per(many(5), Duration::from_secs(7)).unwrap(),
        Quota::per_second(many(3)).fixed(),
        Quota::per_second(many(10)).allow_burst(many(4)),
        Quota::per_hour(NonZeroU32::MAX).allow_burst(many(2)),
    ];
    let begins = [i64::MIN, -2_000, 0, 1_767_225_600_000, i64::MAX - 30_000];
    for (quota, begin_ms) in quotas.iter().flat_map(|quota| begins.map(|at| (quota, at))) {
        let chance = &mut Chance(7);
        let (mut limiter, mut clock) = (RateLimiter::direct(quota.clone()), Monotone::default());
        let mut wall_ms = begin_ms;
        let mut admitted: Vec<i128> = Vec::new();
        for _ in 0..1_000 {
            let step_ms = i64::try_from(chance.below(400)).unwrap();
            wall_ms = match chance.below(20) {
                0 => wall_ms.saturating_sub(step_ms * 10),
                _ => wall_ms.saturating_add(step_ms),
            };
            let now_ms = clock.read(wall_ms);
            if limiter.check_at(wall_ms).is_ok() {
                admitted.push(now_ms.into());
                let policy = quota.policy();
                assert!(
                    keeps_its_promise(policy, &admitted),
                    "{quota:?} from {begin_ms}"
                );
            }
        }
        assert!(!admitted.is_empty(), "{quota:?} from {begin_ms}");
    }
}

/// Whether the last of these calls may have been admitted after the others.
fn keeps_its_promise(policy: &Policy, admitted: &[i128]) -> bool {
    let window_ms = i128::from(policy.window_ms);
    let last_ms = admitted.last().copied().unwrap_or_default();
    let since = |first_ms: i128| {
        let calls = admitted.iter().filter(|at_ms| **at_ms >= first_ms).count();
        i128::try_from(calls).unwrap()
    };
    let (limit, burst) = (i128::from(policy.limit), i128::from(policy.burst));
    match policy.algorithm {
        Algorithm::FixedWindow => since(last_ms.div_euclid(window_ms) * window_ms) <= limit,
        Algorithm::TokenBucket => admitted.iter().all(|first_ms| {
            since(*first_ms) * window_ms <= burst * window_ms + limit * (last_ms - first_ms)
        }),
        _ => since(last_ms - window_ms) <= limit,
    }
}

#[test]
fn errors_say_who_must_act() {
    let policy = Policy {
        limit: 0,
        ..Policy::sliding(1, 60)
    };
    let errors: [(Box<dyn Error>, &str); 5] = [
        (
            policy.check().unwrap_err().into(),
            "limit must be from 1 to 1000000000",
        ),
        (
            Full.into(),
            "the table has no room for another key: try again later",
        ),
        (
            ReservationRefusal::NotAdmitted(vec![Full::verdict(&policy)]).into(),
            "1 of 1 checks are over their limits: try again later",
        ),
        (
            Broken.into(),
            "a stored row of limits cannot be read: delete it, or put a copy back",
        ),
        (
            BudgetSpent {
                budget: Budget {
                    burst: 1,
                    interval_ms: 7,
                },
                wait_ms: 7,
            }
            .into(),
            "the budget is used: try again in 7 ms",
        ),
    ];
    for (error, expected) in errors {
        assert_eq!(error.to_string(), expected);
    }
}
