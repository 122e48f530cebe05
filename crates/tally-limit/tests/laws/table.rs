//! Laws of a table of keys: bounded, atomic over several keys, and reservations that are given back at most once.

use std::collections::HashMap;

use tally_limit::meter::Meter;
use tally_limit::policy::Policy;
use tally_limit::table::{RESERVED_MS_MAX, ReservationRefusal, Table};

use crate::checks::{check, left};
use crate::policy_kinds::{BEGIN_MS, Chance, KINDS, drawn, step_ms};

#[test]
fn a_table_decides_as_a_meter_for_each_key_does() {
    for seed in 0..40 {
        let chance = &mut Chance(seed);
        let policy = drawn(seed % KINDS, chance);
        let mut table = Table::in_memory();
        let mut meters: HashMap<String, Meter> = HashMap::new();
        let mut now_ms = BEGIN_MS;
        for _ in 0..2_000 {
            now_ms += step_ms(chance, 200);
            let key = chance.below(20).to_string();
            let cost = 1 + chance.below(policy.capacity().min(3));
            let call = check(&policy, &key, cost);
            let meter = meters
                .entry(key.clone())
                .or_insert_with(|| Meter::new(&policy));
            assert_eq!(table.peek(&call, now_ms), meter.peek(&policy, now_ms, cost));
            let verdict = table.check(&call, now_ms);
            assert_eq!(
                verdict,
                Ok(meter.check(&policy, now_ms, cost)),
                "seed {seed}"
            );
        }
        assert!(table.size().keys <= 20);
    }
}

#[test]
fn idle_keys_are_dropped_as_others_come() {
    let policy = Policy::sliding(10, 1);
    for is_stored in [false, true] {
        let mut table = if is_stored {
            Table::stored()
        } else {
            Table::in_memory()
        };
        for number in 0..50_000_i64 {
            let now_ms = BEGIN_MS + number;
            table
                .check(&check(&policy, &number.to_string(), 1), now_ms)
                .unwrap();
            if is_stored && number % 100 == 0 {
                while table.commit().is_some() {}
            }
        }
        let keys = table.size().keys;
        assert!(keys < 4_000, "{keys} keys, of which 1,017 are live");
    }
}

#[test]
fn several_checks_are_all_admitted_or_consume_nothing_and_costs_of_one_key_add() {
    let policy = Policy::sliding(10, 60);
    let mut table = Table::in_memory();
    let pair = |one, other| [check(&policy, "a", one), check(&policy, "b", other)];
    let verdicts = table.check_all(&pair(4, 10), BEGIN_MS).unwrap();
    assert!(verdicts.iter().all(|verdict| verdict.is_allowed));
    let verdicts = table.check_all(&pair(4, 1), BEGIN_MS).unwrap();
    assert!(
        verdicts[0].is_allowed && !verdicts[1].is_allowed,
        "each is told by itself"
    );
    assert_eq!(
        left(&table, &policy, "a", BEGIN_MS),
        6,
        "nothing was consumed"
    );
    let twice = [check(&policy, "a", 4), check(&policy, "a", 3)];
    let verdicts = table.check_all(&twice, BEGIN_MS).unwrap();
    assert!(
        verdicts[0].is_allowed && !verdicts[1].is_allowed,
        "together 7 of 6"
    );
    assert_eq!(left(&table, &policy, "a", BEGIN_MS), 6);
    let twice = [check(&policy, "a", 4), check(&policy, "a", 2)];
    let verdicts = table.check_all(&twice, BEGIN_MS).unwrap();
    assert_eq!((verdicts[0].remaining, verdicts[1].remaining), (2, 0));
}

#[test]
fn a_refund_and_a_reset_touch_one_key() {
    let policy = Policy::sliding(10, 60);
    let mut table = Table::in_memory();
    table
        .check_all(&[check(&policy, "a", 8), check(&policy, "b", 8)], BEGIN_MS)
        .unwrap();
    let refund = |table: &mut Table, key, cost| {
        let given = table.refund(&check(&policy, key, cost), BEGIN_MS);
        given.unwrap().remaining
    };
    assert_eq!(refund(&mut table, "a", 3), 5);
    assert_eq!(refund(&mut table, "a", 9), 10);
    assert_eq!(refund(&mut table, "unknown", 9), 10);
    assert_eq!(left(&table, &policy, "b", BEGIN_MS), 2);
    table.reset(&check(&policy, "b", 1), BEGIN_MS).unwrap();
    table
        .reset(&check(&policy, "unknown", 1), BEGIN_MS)
        .unwrap();
    assert_eq!(left(&table, &policy, "b", BEGIN_MS), 10);
}

#[test]
fn a_reservation_is_given_back_once_or_stays() {
    let policy = Policy::sliding(10, 60);
    let mut table = Table::in_memory();
    let [one, two, three, four] = [1, 2, 3, 4].map(|byte| [byte; 16]);
    let checks = [check(&policy, "a", 3), check(&policy, "b", 2)];
    let lefts = |table: &Table| {
        let key = |key| left(table, &policy, key, BEGIN_MS);
        (key("a"), key("b"))
    };
    assert!(table.reserve(one, &checks, BEGIN_MS).is_ok());
    assert_eq!(lefts(&table), (7, 8));
    let again = table.reserve(one, &checks, BEGIN_MS).unwrap();
    assert!(again.iter().all(|verdict| verdict.is_allowed));
    assert_eq!(lefts(&table), (7, 8), "a repeat consumes nothing");
    table.cancel(one, BEGIN_MS);
    table.cancel(one, BEGIN_MS);
    assert_eq!(lefts(&table), (10, 10), "given back once");
    assert_eq!(
        table.reserve(one, &checks, BEGIN_MS),
        Err(ReservationRefusal::Cancelled)
    );

    table.reserve(two, &checks, BEGIN_MS).unwrap();
    table.confirm(two, BEGIN_MS);
    table.cancel(two, BEGIN_MS);
    table.reserve(two, &checks, BEGIN_MS).unwrap();
    assert_eq!(lefts(&table), (7, 8), "what is confirmed stays");

    table.cancel(three, BEGIN_MS);
    table.confirm(three, BEGIN_MS);
    assert_eq!(
        table.reserve(three, &checks, BEGIN_MS),
        Err(ReservationRefusal::Cancelled)
    );
    assert_eq!(
        lefts(&table),
        (7, 8),
        "a cancel that came first keeps it from consuming"
    );

    let Err(ReservationRefusal::NotAdmitted(verdicts)) = table.reserve(
        four,
        &[check(&policy, "a", 8), check(&policy, "b", 1)],
        BEGIN_MS,
    ) else {
        unreachable!("there are 7")
    };
    assert_eq!(
        verdicts
            .iter()
            .map(|verdict| verdict.is_allowed)
            .collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(lefts(&table), (7, 8));
}

#[test]
fn a_reservation_that_lapses_stays_consumed_and_one_that_no_longer_counts_gives_nothing_back() {
    let policy = Policy::sliding(10, 60);
    let mut table = Table::in_memory();
    table
        .reserve([1; 16], &[check(&policy, "a", 3)], BEGIN_MS)
        .unwrap();
    let lapsed_ms = BEGIN_MS + RESERVED_MS_MAX;
    table.cancel([1; 16], lapsed_ms);
    assert_eq!(left(&table, &policy, "a", lapsed_ms), 7);

    let short = Policy::sliding(10, 1);
    table
        .reserve([2; 16], &[check(&short, "b", 3)], BEGIN_MS)
        .unwrap();
    table
        .check(&check(&short, "b", 3), BEGIN_MS + 3_000)
        .unwrap();
    table.cancel([2; 16], BEGIN_MS + 3_000);
    assert_eq!(left(&table, &short, "b", BEGIN_MS + 3_000), 7);
}

#[test]
fn reservations_are_bounded() {
    let policy = Policy::sliding(1_000_000, 60);
    let mut table = Table::in_memory();
    let mut many = 0_u32;
    let id = |number: u32| {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_le_bytes());
        id
    };
    while table
        .reserve(id(many), &[check(&policy, "a", 1)], BEGIN_MS)
        .is_ok()
    {
        many += 1;
    }
    assert_eq!(many, 10_000);
    assert_eq!(
        table.reserve(id(many), &[check(&policy, "a", 1)], BEGIN_MS),
        Err(ReservationRefusal::Full)
    );
    assert_eq!(left(&table, &policy, "a", BEGIN_MS), 990_000);
    let later_ms = BEGIN_MS + RESERVED_MS_MAX;
    assert!(
        table
            .reserve(id(many), &[check(&policy, "a", 1)], later_ms)
            .is_ok()
    );
}

#[test]
fn checks_that_are_reserved_are_bounded_until_they_are_confirmed() {
    let policy = Policy::sliding(1_000_000, 60);
    let mut table = Table::in_memory();
    let hundred = [check(&policy, "a", 1); 100];
    for number in 0..200 {
        assert!(table.reserve([number; 16], &hundred, BEGIN_MS).is_ok());
    }
    let more = [200; 16];
    assert_eq!(
        table.reserve(more, &hundred, BEGIN_MS),
        Err(ReservationRefusal::Full)
    );
    table.confirm([0; 16], BEGIN_MS);
    assert!(table.reserve(more, &hundred, BEGIN_MS).is_ok());
    table.cancel(more, BEGIN_MS);
    assert!(table.reserve([201; 16], &hundred, BEGIN_MS).is_ok());
    assert_eq!(left(&table, &policy, "a", BEGIN_MS), 1_000_000 - 20_100);
}

#[test]
fn what_was_used_elsewhere_counts_until_a_window_after_it_was_told() {
    for kind in 0..KINDS {
        let policy = drawn(kind, &mut Chance(1));
        let capacity = policy.capacity();
        let mut table = Table::in_memory();
        assert!(!table.knows("p", "a"));
        let mut elsewhere = Table::in_memory();
        let all = elsewhere.check(&check(&policy, "a", capacity), BEGIN_MS);
        assert!(all.unwrap().is_allowed);
        let call = check(&policy, "a", 1);
        let handover = elsewhere.hand_over(&call, BEGIN_MS);
        table.take_over(&call, &handover, BEGIN_MS).unwrap();
        assert!(table.knows("p", "a") && !table.knows("p", "b"));
        assert_eq!(left(&table, &policy, "a", BEGIN_MS), 0);
        assert_eq!(left(&table, &policy, "b", BEGIN_MS), capacity);
        let verdict = table.check(&check(&policy, "a", 1), BEGIN_MS).unwrap();
        assert!(!verdict.is_allowed);
        let later_ms = BEGIN_MS + i64::try_from(verdict.retry_after_ms).unwrap();
        assert!(left(&table, &policy, "a", later_ms) > 0);
    }
}
