//! Laws of the budgets of visitors: one gets what its budgets say and no more, others keep theirs whatever it sends,
//! and memory is fixed.

use tally_core::callers::visitors::{
    COUNTER_WRITES, NEW_COUNTERS, READ_CALLS, VisitorWrite, Visitors, WRITES,
};
use tally_core::limit::budgets::{Budget, BudgetSpent};

const NOW_MS: i64 = 1_795_269_600_000;

/// A hash as the isolate's would be. Source: SplitMix64.
fn hashed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn write(visitor: u64, counter: u64) -> VisitorWrite {
    VisitorWrite {
        visitor: hashed(visitor),
        counter: hashed(1_000_000_007 + counter),
        both: hashed(hashed(visitor) ^ counter),
    }
}

fn spent(budget: Budget, wait_ms: u64) -> Result<bool, BudgetSpent> {
    Err(BudgetSpent { budget, wait_ms })
}

#[test]
fn a_visitor_writes_so_often_to_a_counter_and_then_once_a_second() {
    let mut visitors = Visitors::default();
    assert_eq!(visitors.write(write(1, 1), NOW_MS), Ok(true));
    for _ in 1..COUNTER_WRITES.burst {
        assert_eq!(visitors.write(write(1, 1), NOW_MS), Ok(false));
    }
    let mut at =
        |visitor, counter, later_ms| visitors.write(write(visitor, counter), NOW_MS + later_ms);
    assert_eq!(at(1, 1, 0), spent(COUNTER_WRITES, 1_000));
    assert_eq!(at(1, 1, 999), spent(COUNTER_WRITES, 1));
    assert_eq!(at(1, 1, 1_000), Ok(false));
    assert_eq!(at(1, 1, 1_000), spent(COUNTER_WRITES, 1_000));
    // Another one, or the same at another counter, has its own.
    assert_eq!(at(2, 1, 1_000), Ok(false));
    assert_eq!(at(1, 2, 1_000), Ok(true));
}

#[test]
fn a_visitor_creates_so_many_counters_and_those_that_exist_cost_nothing() {
    let mut visitors = Visitors::default();
    for counter in 0..u64::from(NEW_COUNTERS.burst) {
        assert_eq!(visitors.write(write(1, counter), NOW_MS), Ok(true));
    }
    let more = u64::from(NEW_COUNTERS.burst);
    assert_eq!(
        visitors.write(write(1, more), NOW_MS),
        spent(NEW_COUNTERS, 10_000)
    );
    // Another visitor is not held up, and what one has created is known to all.
    assert_eq!(visitors.write(write(2, more), NOW_MS), Ok(true));
    assert_eq!(visitors.write(write(1, more), NOW_MS), Ok(false));
    // What turns out to have been there is given back.
    visitors.was_there(hashed(1), NOW_MS, NOW_MS);
    assert_eq!(visitors.write(write(1, more + 1), NOW_MS), Ok(true));
    assert_eq!(
        visitors.write(write(1, more + 2), NOW_MS),
        spent(NEW_COUNTERS, 10_000)
    );
}

#[test]
fn a_visitor_writes_so_often_in_all() {
    let mut visitors = Visitors::default();
    let counters = u64::from(NEW_COUNTERS.burst);
    for count in 0..u64::from(WRITES.burst) {
        assert!(visitors.write(write(1, count % counters), NOW_MS).is_ok());
    }
    assert_eq!(visitors.write(write(1, 7), NOW_MS), spent(WRITES, 50));
    assert!(visitors.write(write(2, 7), NOW_MS).is_ok());
}

#[test]
fn a_read_that_cost_more_than_was_foreseen_is_made_up_for() {
    let mut visitors = Visitors::default();
    let burst = u64::from(READ_CALLS.burst);
    for _ in 0..2 {
        assert_eq!(visitors.read(1, 16, NOW_MS), Ok(()));
        visitors.charge_calls(1, 5_000, NOW_MS);
    }
    let used = 2 * (16 + 5_000);
    let refused = BudgetSpent {
        budget: READ_CALLS,
        wait_ms: (used + 16 - burst) * 10,
    };
    assert_eq!(visitors.read(1, 16, NOW_MS), Err(refused));
    let wait_ms = i64::try_from(refused.wait_ms).unwrap_or(0);
    assert!(visitors.read(1, 16, NOW_MS + wait_ms - 1).is_err());
    assert_eq!(visitors.read(1, 16, NOW_MS + wait_ms), Ok(()));
    assert_eq!(visitors.read(2, 5_000, NOW_MS), Ok(()), "of another one");
}

/// A table that lets all in when it is full would let the offender go on, and one that refuses then would refuse
/// everybody.
#[test]
fn whatever_some_send_they_stay_limited_and_others_do_not() {
    let mut visitors = Visitors::default();
    let offenders = 500;
    let mut admitted = 0;
    for offender in 0..offenders {
        for count in 0..300 {
            // Each sends bodies of many counters, and goes on when it is refused.
            let counter = offender * 10_000 + count;
            admitted += u64::from(visitors.write(write(offender, counter), NOW_MS).is_ok());
        }
    }
    assert!(admitted <= offenders * u64::from(NEW_COUNTERS.burst));
    let others = 20_000_u64;
    let mut refused = 0;
    for other in offenders..offenders + others {
        let is_refused = visitors.write(write(other, other % 10), NOW_MS).is_err();
        refused += u64::from(is_refused);
    }
    // (1 - e^(-500 / 4,096))^4 = 0.00017 share all cells with an offender.
    assert!(refused * 1_000 <= others, "{refused} of {others}");
    assert!(visitors.write(write(0, 1 << 40), NOW_MS).is_err());
}
