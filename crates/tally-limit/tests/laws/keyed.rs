//! Laws of one limit for many keys.

use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use tally_limit::borrowers::Borrowers;
use tally_limit::budgets::{Budget, Budgets};
use tally_limit::{NEVER_MS, Quota, RateLimiter, Table};

use crate::policy_kinds::{BEGIN_MS, Chance};

fn many(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

/// As many as of limiters of their own, one for each key.
#[test]
fn each_key_is_judged_as_by_a_limiter_of_its_own() {
    let quotas = [
        Quota::per_second(many(3)),
        Quota::per(many(3), Duration::from_secs(5)).unwrap(),
        Quota::per_minute(many(9)).fixed(),
        Quota::per_minute(many(60)).allow_burst(many(3)),
    ];
    for (seed, quota) in (0..).zip(quotas) {
        let chance = &mut Chance(seed);
        let mut keyed = RateLimiter::keyed(quota.clone());
        let mut alone: HashMap<String, RateLimiter> = HashMap::new();
        let mut now_ms = BEGIN_MS;
        let mut refused = 0;
        for _ in 0..3_000 {
            now_ms += i64::try_from(chance.below(100)).unwrap();
            let key = format!("key {}", chance.below(20));
            let cost = NonZeroU64::new(1 + chance.below(4)).unwrap();
            let own = alone.entry(key.clone());
            let own = own.or_insert_with(|| RateLimiter::direct(quota.clone()));
            let expected = own.check_n_at(now_ms, cost);
            assert_eq!(keyed.check_key_n_at(&key, now_ms, cost), expected);
            refused += u32::from(expected.is_err());
            assert_eq!(keyed.peek_key_at(&key, now_ms), own.peek_at(now_ms));
        }
        assert!(refused > 100, "{quota:?}");
        assert!(keyed.len() <= 20 && !keyed.is_empty(), "{}", keyed.len());
    }
}

#[test]
fn keys_of_any_bytes_get_no_more_than_the_quota() {
    let keys = ["", "\0", "\0\0", "\u{1}", "\u{1}17", "\0owner 3", "a\0b"];
    let mut limiter = RateLimiter::keyed(Quota::per_minute(many(2)));
    for key in keys {
        let admitted = (0..5).filter(|_| limiter.check_key_at(key, BEGIN_MS).is_ok());
        assert_eq!(admitted.count(), 2, "{key:?}");
    }
}

#[test]
fn a_cost_above_the_quota_is_never_admitted_and_a_wait_is_told_as_a_duration() {
    let mut limiter = RateLimiter::keyed(Quota::per_minute(many(2)));
    let three = NonZeroU64::new(3).unwrap();
    let never = limiter.check_key_n_at("k", 0, three).unwrap_err();
    assert_eq!(
        (never.retry_after_ms, never.retry_after()),
        (NEVER_MS, None)
    );
    let two = NonZeroU64::new(2).unwrap();
    assert!(limiter.check_key_n_at("k", 0, two).is_ok());
    let later = limiter.check_key_at("k", 0).unwrap_err();
    let wait = later.retry_after().unwrap();
    assert!(wait > Duration::from_secs(59) && wait <= Duration::from_secs(61));
}

#[test]
fn windows_are_whole_seconds_up_to_thirty_days() {
    let per = |window| Quota::per(many(1), window);
    let fault = "window_seconds must be from 1 to 2592000";
    for window in [
        Duration::ZERO,
        Duration::from_millis(1_500),
        Duration::from_secs(2_592_001),
        Duration::MAX,
    ] {
        assert_eq!(per(window).unwrap_err().to_string(), fault);
    }
    let month = per(Duration::from_secs(2_592_000)).unwrap();
    assert_eq!(month.window_ms(), 2_592_000_000);
    assert_eq!(per(Duration::from_secs(60)), Ok(Quota::per_minute(many(1))));
}

/// What a server hands to its threads, behind a lock.
#[test]
fn limiters_may_be_sent_to_threads_and_shared_by_them() {
    fn on_thread<T: Send + Sync>(limiter: T) -> T {
        std::thread::scope(|scope| scope.spawn(|| limiter).join().unwrap())
    }
    let quota = Quota::per_minute(many(1));
    assert_eq!(
        on_thread(RateLimiter::direct(quota.clone()))
            .peek_at(0)
            .limit,
        1
    );
    assert!(on_thread(RateLimiter::keyed(quota)).is_empty());
    assert_eq!(on_thread(Table::in_memory()).size().keys, 0);
    assert!(on_thread(Borrowers::new("FRA", 1)).is_empty());
    let budget = Budget {
        burst: 1,
        interval_ms: 1,
    };
    assert!(on_thread(Budgets::new(budget, 4)).peek(1, 1, 0).is_ok());
}
