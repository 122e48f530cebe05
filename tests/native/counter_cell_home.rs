//! Law: a cell decides by the counter's value only where it is home and knows the whole, and then no decrement takes
//! the value below the floor; what is granted later holds.

use crate::common;
use crate::common::home;

use common::config;
use home::*;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::flush::{Load, Refusal};
use tally_core::counter::grant::Grant;
use tally_core::counter::id::Datacenter;
use tally_core::counter::ledger::{HomeCondition, KeyedOutcome, KeyedWrite};
use tally_core::counter::nonces::Nonce;
use tally_core::counter::total::Value;

fn fra() -> Datacenter {
    Datacenter::parse("FRA").expect("a datacenter")
}

proptest! {
    #![proptest_config(config(153, 512))]

    #[test]
    fn no_decrement_takes_the_value_below_the_floor(
        rest in -50..50_i64, room in 0..60_i64,
        steps in vec((0..3_u8, 0..20_u128), 0..60),
    ) {
        let floor = rest - room;
        let mut shell = Shell::new(home(1, rest, Some(floor)));
        let mut expected = rest;
        for (step, (kind, amount)) in (1..).zip(steps) {
            let delta = i64::try_from(amount).expect("small");
            let before = shell.totals();
            match kind {
                0 => {
                    prop_assert_eq!(shell.flush(step, amount, 0), Ok(()));
                    expected += delta;
                }
                1 => {
                    expected += delta;
                    let outcome = shell.count(&keyed(step, amount, 0)).expect("it counts");
                    prop_assert_eq!(value_of(outcome), expected);
                }
                _ => {
                    let write = keyed(step, 0, amount);
                    let outcome = shell.count_moved(&write, None).expect("it decides");
                    if amount > 0 && expected - delta < floor {
                        prop_assert_eq!(outcome, KeyedOutcome::BelowFloor);
                        let again = shell.count_moved(&write, None);
                        prop_assert_eq!(again, Ok(KeyedOutcome::BelowFloorBefore));
                        prop_assert_eq!(shell.totals(), before);
                    } else {
                        expected -= delta;
                        prop_assert_eq!(value_of(outcome), expected);
                    }
                }
            }
            prop_assert_eq!(shell.cell.value_at_home().map(number), Some(expected));
            prop_assert!(expected >= floor);
        }
    }

    #[test]
    fn a_write_that_would_pass_64_bits_counts_nothing_now_or_later(
        start in prop::sample::select(vec![i64::MIN, i64::MIN + 7, -5, 0, 5, i64::MAX - 7, i64::MAX]),
        steps in vec(
            (any::<bool>(), prop::sample::select(vec![0, 1, 7, 8, 1_u128 << 62, (1 << 63) - 1, 1 << 63])),
            0..40,
        ),
    ) {
        let mut shell = Shell::new(home(1, start, None));
        let mut expected = start;
        for (step, (adds, amount)) in (1..).zip(steps) {
            let (added, removed) = if adds { (amount, 0) } else { (0, amount) };
            let write = KeyedWrite { within_64_bits: true, ..keyed(step, added, removed) };
            let amount = i128::try_from(amount).expect("small");
            let after = i128::from(expected) + if adds { amount } else { -amount };
            let before = shell.totals();
            let outcome = shell.count_moved(&write, None).expect("it decides");
            if let Ok(after) = i64::try_from(after) {
                prop_assert_eq!(value_of(outcome), after);
                expected = after;
            } else {
                prop_assert_eq!(outcome, KeyedOutcome::Overflow);
                prop_assert_eq!(shell.totals(), before);
                // A late copy is refused also while there is room for it.
                let room = 1 << 63;
                let (up, down) = if adds { (0, room) } else { (room, 0) };
                prop_assert_eq!(shell.flush(2 * step + 1_000, up, down), Ok(()));
                prop_assert_eq!(shell.count_moved(&write, None), Ok(KeyedOutcome::Overflow));
                prop_assert_eq!(shell.flush(2 * step + 1_001, down, up), Ok(()));
            }
            prop_assert_eq!(shell.cell.value_at_home().and_then(Value::to_i64), Some(expected));
        }
    }

    #[test]
    fn grants_that_come_late_change_nothing(order in Just((1..8_u64).collect::<Vec<_>>()).prop_shuffle()) {
        let grant = |revision| home(revision, i64::try_from(revision).expect("small") * 100, None);
        let mut cell = cell(grant(order[0]));
        let mut newest = order[0];
        for revision in order {
            cell.take_grant(grant(revision), NOW_MS);
            newest = newest.max(revision);
            let held = cell.grant().expect("it counts");
            prop_assert_eq!((held.revision, held.operations, held.settings.number), (newest, newest, newest));
            prop_assert_eq!(cell.value_at_home(), Some(grant(newest).rest));
        }
    }

    /// So a condition that was refused needs no record: an attempt before that comes late is refused too.
    #[test]
    fn what_has_changed_since_a_version_stays_changed(
        seen_at in 0..20_usize, steps in vec(0..3_u8, 1..20),
    ) {
        let mut shell = Shell::new(home(1, 0, None));
        let mut seen = None;
        let mut revision = 1;
        let mut has_changed = false;
        for (place, step) in steps.into_iter().enumerate() {
            let number = u64::try_from(place).expect("few") + 1;
            if place == seen_at {
                let (sequence, ..) = shell.totals();
                seen = Some(HomeCondition { home: fra(), generation: 1, sequence, operations: revision });
            }
            match step {
                0 => shell.flush(number, 1, 0).expect("it counts"),
                1 => drop(shell.count(&keyed(number, 1, 0)).expect("it counts")),
                _ => {
                    revision += 1;
                    shell.cell.take_grant(home(revision, 0, None), NOW_MS);
                }
            }
            has_changed |= seen.is_some();
            let write = KeyedWrite { condition: seen.clone(), ..keyed(0, 1, 0) };
            if has_changed {
                prop_assert_eq!(shell.count(&write), Ok(KeyedOutcome::Changed));
            }
        }
    }

    #[test]
    fn a_conditional_write_is_counted_only_while_nothing_has_changed(
        sequence in 0..4_u64, generation in 1..3_u64, operations in 0..3_u64, flushes in 0..4_u64,
    ) {
        let mut shell = Shell::new(home(1, 0, None));
        for flush in 0..flushes {
            shell.flush(flush + 1, 1, 0).expect("it counts");
        }
        let condition = HomeCondition { home: fra(), generation, sequence, operations };
        let write = KeyedWrite { condition: Some(condition.clone()), ..keyed(9, 5, 0) };
        let before = shell.totals();
        let outcome = shell.count(&write).expect("it decides");
        if condition == (HomeCondition { home: fra(), generation: 1, sequence: flushes, operations: 1 }) {
            prop_assert_eq!(value_of(outcome), i64::try_from(flushes).expect("few") + 5);
            // Repeated, it is what it was, though its own count has changed the counter.
            prop_assert!(matches!(shell.count(&write), Ok(KeyedOutcome::Replayed(_))));
        } else {
            prop_assert_eq!(outcome, KeyedOutcome::Changed);
            prop_assert_eq!(shell.totals(), before);
        }
    }
}

#[test]
fn a_floor_keeps_decrements_out_of_flushes() {
    let mut shell = Shell::new(home(1, 10, Some(0)));
    assert_eq!(shell.flush(1, 5, 1), Err(Refusal::HasFloor));
    assert_eq!(shell.totals(), (0, 0, 0));
    assert_eq!(shell.flush(2, 5, 0), Ok(()));
    shell.cell.take_grant(home(2, 10, None), NOW_MS);
    assert_eq!(shell.flush(3, 0, 40), Ok(()), "without a floor they join");
}

#[test]
fn only_home_decides_by_the_value() {
    let away = Grant {
        is_home: false,
        ..home(1, 10, Some(0))
    };
    let mut shell = Shell::new(away);
    let unchanged = HomeCondition {
        home: fra(),
        generation: 1,
        sequence: 0,
        operations: 1,
    };
    let conditional = KeyedWrite {
        condition: Some(unchanged),
        ..keyed(2, 1, 0)
    };
    let decrement = keyed(1, 0, 1);
    for write in [&decrement, &conditional] {
        assert_eq!(shell.count(write), Ok(KeyedOutcome::NeedsHome));
    }
    assert_eq!(shell.totals(), (0, 0, 0));
    shell.cell.take_grant(home(2, 10, Some(0)), NOW_MS);
    let decided = shell.count(&decrement).expect("it decides");
    assert_eq!(value_of(decided), 9, "the same key, once there is a home");
}

#[test]
fn home_decides_only_once_its_other_shards_are_sealed() {
    let shared = Grant {
        alone: true,
        spread: 2,
        ..Grant {
            generation: 1,
            ..Grant::default()
        }
    };
    let mut shell = Shell::new(shared);
    shell.cell.spread_over(2);
    let admitted = shell.cell.admit(1).expect("it may count");
    assert!(!admitted.grant.is_home && !admitted.grant.alone);
    // A home that no setting has put: the same number of settings, and a later grant.
    let mut settled = home(1, 0, None);
    settled.settings.number = 0;
    shell.cell.take_grant(settled, NOW_MS);
    assert_eq!(shell.cell.spread(), 1, "a home has one shard");
    assert_eq!(shell.cell.to_seal().len(), 1);
    let mut conditional = KeyedWrite {
        condition: Some(HomeCondition {
            home: fra(),
            generation: 1,
            sequence: 0,
            operations: 1,
        }),
        ..keyed(1, 1, 0)
    };
    assert_eq!(shell.count(&conditional), Ok(KeyedOutcome::NotWhole));
    let mut shard = cell(admitted.grant);
    let load = Load {
        added: 7,
        ..Load::default()
    };
    let counted = shard.apply(Nonce { lane: 2, number: 1 }, &load, NOW_MS);
    assert!(counted.is_ok());
    let part = shard.seal(1);
    let (number, admissions) = shell.cell.to_seal()[0];
    assert!(shell.cell.keep_sealed(number, part, admissions));
    // What the shard counted is news to whoever saw home's cell alone.
    assert_eq!(shell.count(&conditional), Ok(KeyedOutcome::Changed));
    conditional.condition = Some(HomeCondition {
        home: fra(),
        generation: 1,
        sequence: 1,
        operations: 1,
    });
    let decided = shell.count(&conditional).expect("it decides");
    assert_eq!(value_of(decided), 8);
}

#[test]
fn of_one_revision_the_more_careful_grant_holds() {
    let careful = Grant {
        alone: false,
        is_home: false,
        ..home(1, 10, None)
    };
    for (first, second) in [(home(1, 10, None), careful), (careful, home(1, 10, None))] {
        let mut cell = cell(first);
        cell.take_grant(second, NOW_MS);
        let held = cell.grant().expect("it counts");
        assert!(!held.alone && !held.is_home);
        assert_eq!((cell.value_at_home(), cell.elsewhere()), (None, None));
    }
}
