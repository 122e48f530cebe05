//! Laws of a limit for one caller.

use std::error::Error;
use std::num::{NonZeroU32, NonZeroU64};

use tally_limit::log::Broken;
use tally_limit::meter::NEVER_MS;
use tally_limit::policy::Policy;
use tally_limit::table::{Full, ReservationRefusal};
use tally_limit::visitors::{BudgetSpent, READ_CALLS};
use tally_limit::{Quota, RateLimiter};

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
            ReservationRefusal::Over(vec![Full::verdict(&policy)]).into(),
            "1 of 1 checks are over their limits: try again later",
        ),
        (
            Broken.into(),
            "a stored row of limits cannot be read: delete it, or put a copy back",
        ),
        (
            BudgetSpent {
                budget: READ_CALLS,
                wait_ms: 7,
            }
            .into(),
            "the visitor's budget is used: try again in 7 ms",
        ),
    ];
    for (error, expected) in errors {
        assert_eq!(error.to_string(), expected);
    }
}
