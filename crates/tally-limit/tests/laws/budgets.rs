//! Laws of budgets in fixed memory: nobody gets more than a budget says, at whatever times, in whatever company.

use tally_limit::NEVER_MS;
use tally_limit::budgets::{Budget, BudgetSpent, Budgets};

use crate::policy_kinds::Chance;

const BUDGET: Budget = Budget {
    burst: 5,
    interval_ms: 100,
};

fn spent(wait_ms: u64) -> Result<(), BudgetSpent> {
    Err(BudgetSpent {
        budget: BUDGET,
        wait_ms,
    })
}

/// The hashes of callers who share cells, and of others.
fn caller(chance: &mut Chance) -> u64 {
    [0, 1, 1 << 8, u64::MAX, chance.below(1 << 40)][chance.index(5)]
}

#[test]
fn nobody_gets_more_than_the_burst_and_one_each_interval_whoever_else_calls() {
    for seed in 0..50 {
        let chance = &mut Chance(seed);
        let mut budgets = Budgets::new(BUDGET, 4);
        let mut admitted = [0_u64; 2];
        let (first_ms, mut now_ms) = (1_000, 1_000);
        for _ in 0..2_000 {
            now_ms += i64::try_from(chance.below(30)).unwrap();
            let cost = 1 + chance.below(6);
            let caller = caller(chance);
            let verdict = budgets.check(caller, cost, now_ms);
            if let (Ok(()), 0..=1) = (verdict, caller) {
                admitted[usize::try_from(caller).unwrap()] += cost;
            }
            let passed = u64::try_from(now_ms - first_ms).unwrap();
            let spent_max = 5 + passed / 100;
            assert!(admitted.iter().all(|sum| *sum <= spent_max), "seed {seed}");
        }
        assert!(admitted.iter().all(|sum| *sum > 0), "seed {seed}");
    }
}

/// In a cell that charges make later but not by all that they cost, nobody can tell whose charge is given back.
#[test]
fn what_one_caller_is_given_back_is_taken_from_no_other() {
    for seed in 0..50 {
        let chance = &mut Chance(seed);
        let mut budgets = Budgets::new(BUDGET, 4).refundable();
        let mut used = [0_u64; 3];
        let mut charged: Vec<(usize, u64, i64)> = Vec::new();
        let callers = [0, 1, 1 << 8];
        let (first_ms, mut now_ms) = (950, 1_000);
        for _ in 0..4_000 {
            now_ms += i64::try_from(chance.below(30)).unwrap();
            // A clock that steps back for a moment gives nobody more.
            let at_ms = now_ms - [0, 0, 0, 50][chance.index(4)];
            if chance.below(2) == 0 && !charged.is_empty() {
                let (caller, cost, charged_ms) = charged.swap_remove(chance.index(charged.len()));
                budgets.refund(callers[caller], cost, charged_ms, at_ms);
                used[caller] -= cost;
                continue;
            }
            let (caller, cost) = (chance.index(3), 1 + chance.below(5));
            if budgets.check(callers[caller], cost, at_ms).is_ok() {
                used[caller] += cost;
                // The last keeps what it got.
                if caller < 2 {
                    charged.push((caller, cost, at_ms));
                }
            }
            let spent_max = 5 + u64::try_from(now_ms - first_ms).unwrap() / 100;
            assert!(
                used.iter().all(|sum| *sum <= spent_max),
                "seed {seed}: {used:?}"
            );
        }
        assert!(used[2] > 0, "seed {seed}");
    }
}

#[test]
fn what_was_given_back_may_be_used_again_but_for_the_time_that_has_passed() {
    let mut budgets = Budgets::new(BUDGET, 12).refundable();
    assert_eq!(budgets.check(7, 5, 1_000), Ok(()));
    budgets.refund(7, 5, 1_000, 1_030);
    assert_eq!(budgets.check(7, 5, 1_030), Ok(()));
    assert_eq!(budgets.check(7, 1, 1_030), spent(100));
    // By then all of it has come back by itself.
    budgets.refund(7, 5, 1_030, 1_530);
    assert_eq!(budgets.check(7, 5, 1_530), Ok(()));
    assert_eq!(budgets.check(7, 1, 1_530), spent(100));
    // Others' budgets that give nothing back stay as they are.
    let mut plain = Budgets::new(BUDGET, 12);
    assert_eq!(plain.check(7, 5, 1_000), Ok(()));
    plain.refund(7, 5, 1_000, 1_000);
    assert_eq!(plain.check(7, 1, 1_000), spent(100));
}

#[test]
fn a_refused_call_is_admitted_after_the_wait_and_not_a_millisecond_earlier() {
    let mut budgets = Budgets::new(BUDGET, 12).refundable();
    assert_eq!(budgets.check(7, 5, 1_000), Ok(()));
    assert_eq!(budgets.check(7, 2, 1_000), spent(200));
    assert_eq!(budgets.peek(7, 2, 1_199), spent(1));
    assert_eq!(budgets.check(7, 2, 1_200), Ok(()));
    assert_eq!(budgets.check(7, 6, 1_200), spent(NEVER_MS));
    budgets.refund(7, 2, 1_200, 1_200);
    assert_eq!(budgets.check(7, 2, 1_200), Ok(()));
    // A debt is paid back first, and a clock that steps back frees nothing.
    budgets.charge(7, 10, 1_200);
    assert_eq!(budgets.check(7, 1, 1_200), spent(1_100));
    assert_eq!(budgets.check(7, 1, 0), spent(2_300));
}

#[test]
fn the_last_milliseconds_and_the_largest_budgets_admit_no_more_than_others() {
    let largest = Budget {
        burst: u32::MAX,
        interval_ms: u32::MAX,
    };
    for budget in [BUDGET, largest] {
        for now_ms in [0, 1, i64::MAX - 501, i64::MAX - 100, i64::MAX] {
            let mut budgets = Budgets::new(budget, u32::MAX);
            let calls = 20;
            let admitted = (0..calls).filter(|_| budgets.check(7, 1, now_ms).is_ok());
            let admitted = u32::try_from(admitted.count()).unwrap();
            assert!(admitted <= budget.burst, "{budget:?} at {now_ms}");
            assert_eq!(
                budgets.check(7, u64::MAX, now_ms).unwrap_err().wait_ms,
                NEVER_MS
            );
        }
    }
}
