//! Rate limits: what a verdict costs.

use divan::{Bencher, black_box};
use std::num::NonZeroU32;
use tally_core::limit::budgets::{Budget, Budgets};
use tally_core::limit::named::{CallName, CallWork, NamedCall};
use tally_core::limit::policy::{Algorithm, Policy};
use tally_core::limit::table::{Check, Table};
use tally_core::limit::{Quota, RateLimiter};

use crate::{BEGIN_MS, Chance, THOUSAND};

const KINDS: [&str; 4] = ["sliding", "precise", "fixed", "token bucket"];

fn policy(kind: &str) -> Policy {
    let sliding = Policy::sliding(1_000, 60);
    match kind {
        "precise" => Policy {
            is_precise: true,
            ..sliding
        },
        "fixed" => Policy {
            algorithm: Algorithm::FixedWindow,
            ..sliding
        },
        "token bucket" => Policy {
            algorithm: Algorithm::TokenBucket,
            ..sliding
        },
        _ => sliding,
    }
}

/// A thousand verdicts about one key, of which as many are refused as the speed makes of it.
#[divan::bench(args = KINDS)]
fn thousand_verdicts_one_key(bencher: Bencher, kind: &str) {
    let policy = policy(kind);
    let mut table = Table::in_memory();
    let mut now_ms = BEGIN_MS;
    bencher.bench_local(|| {
        now_ms += 30_000;
        let mut allowed = 0_u64;
        for _ in 0..THOUSAND {
            let check = Check::of("policy", &policy, "203.0.113.7", 1);
            let verdict = table.check(black_box(&check), now_ms);
            allowed += u64::from(verdict.unwrap().is_allowed);
        }
        assert!(allowed <= THOUSAND);
        allowed
    });
}

/// A thousand verdicts about 10,000 keys, which all are in memory.
#[divan::bench(args = KINDS)]
fn thousand_verdicts_of_10_000_keys(bencher: Bencher, kind: &str) {
    let policy = policy(kind);
    let keys: Vec<String> = (0..10_000).map(|key| format!("203.0.{key}")).collect();
    let mut table = Table::in_memory();
    let mut random = Chance(1);
    let mut now_ms = BEGIN_MS;
    bencher.bench_local(|| {
        let mut allowed = 0_u64;
        for _ in 0..THOUSAND {
            now_ms += 1;
            let place = usize::try_from(random.next().unwrap() % 10_000).unwrap();
            let check = Check::of("policy", &policy, &keys[place], 1);
            let verdict = table.check(black_box(&check), now_ms);
            allowed += u64::from(verdict.unwrap().is_allowed);
        }
        assert_eq!(allowed, THOUSAND);
        allowed
    });
}

/// A thousand holds of one key that are opened and settled, 32 a commit, while as many calls of the key are known.
#[divan::bench(args = [0, 4_000])]
fn thousand_holds_of_one_key(bencher: Bencher, known: u64) {
    let policy = Policy::sliding(1_000_000_000, 60);
    let mut table = Table::stored();
    let check = Check::of("policy", &policy, "203.0.113.7", 2);
    let mut names = Chance(1);
    let mut now_ms = BEGIN_MS;
    let mut call = |table: &mut Table, work: Option<CallName>, now_ms: i64| {
        let mut name = CallName::default();
        name[..8].copy_from_slice(&names.next().unwrap().to_le_bytes());
        let work = match work {
            Some(hold) => CallWork::Settle {
                hold,
                amount: Some(2),
            },
            None => CallWork::Hold {
                length_ms: 60_000,
                is_returned: false,
            },
        };
        let call = NamedCall {
            name,
            is_repeatable: false,
            request: 1,
            account: 1,
            work,
        };
        assert!(table.call(black_box(&check), &call, now_ms).is_ok());
        name
    };
    for _ in 0..known {
        let hold = call(&mut table, None, now_ms);
        call(&mut table, Some(hold), now_ms);
    }
    bencher.bench_local(|| {
        // With a second between them, all that has ended is forgotten in time.
        now_ms += if known == 0 { 70_000 } else { 1 };
        for _ in 0..THOUSAND / 32 {
            let holds: Vec<CallName> = (0..32).map(|_| call(&mut table, None, now_ms)).collect();
            while table.commit().is_some() {}
            for hold in holds {
                call(&mut table, Some(hold), now_ms);
            }
            while table.commit().is_some() {}
        }
    });
}

/// A thousand calls of one caller, of which as many are refused as the speed makes of it.
#[divan::bench(args = ["sliding", "fixed", "token bucket"])]
fn thousand_calls_of_one_caller(bencher: Bencher, kind: &str) {
    let thousand = NonZeroU32::new(1_000).unwrap();
    let quota = Quota::per_minute(thousand);
    let quota = match kind {
        "fixed" => quota.fixed(),
        "token bucket" => quota.allow_burst(thousand),
        _ => quota,
    };
    let mut limiter = RateLimiter::direct(quota);
    let mut now_ms = BEGIN_MS;
    bencher.bench_local(|| {
        now_ms += 30_000;
        let allowed = (0..THOUSAND).filter(|_| limiter.check_at(black_box(now_ms)).is_ok());
        allowed.count()
    });
}

/// A thousand calls of ever other callers, by their hashes, in fixed memory.
#[divan::bench]
fn thousand_calls_in_fixed_memory(bencher: Bencher) {
    let budget = Budget {
        burst: 1_000,
        interval_ms: 60,
    };
    let mut budgets = Budgets::new(budget, 14);
    let mut callers = Chance(1);
    let mut now_ms = BEGIN_MS;
    bencher.bench_local(|| {
        now_ms += 1_000;
        let mut next = || callers.next().unwrap();
        let allowed = (0..THOUSAND).filter(|_| budgets.check(black_box(next()), 1, now_ms).is_ok());
        let allowed = allowed.count();
        assert_eq!(allowed, 1_000);
        allowed
    });
}
