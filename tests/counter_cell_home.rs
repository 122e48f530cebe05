//! Law: a cell decides by the counter's value only where it is home and knows the whole, and then no decrement takes the
//! value below the floor; what is granted later holds; a write that was struck out is never counted.
#![expect(
    clippy::expect_used,
    reason = "the helpers of a test fail it by panicking"
)]

mod common;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally::counter::cell::{Cell, LedgerLimits};
use tally::counter::flush::{Changes, Load, Refusal};
use tally::counter::grant::{Grant, Taken};
use tally::counter::ledger::{Keyed, KeyedOutcome, RECORDS_MAX, Recorded, Unchanged, WriteKey};
use tally::counter::merge::Question;
use tally::counter::nonces::Nonce;
use tally::counter::settings::Settings;
use tally::counter::total::Value;

const NOW_MS: i64 = 1_777_593_630_000;
const LIMITS: LedgerLimits = LedgerLimits {
    kept_ms: 86_400_000,
    records_max: RECORDS_MAX,
};

fn value(number: i64) -> Value {
    let amount = Value::new(u128::from(number.unsigned_abs()), 0);
    if number < 0 { amount.negated() } else { amount }
}

fn number(value: Value) -> i64 {
    value.to_string().parse().expect("a small number")
}

/// The grant of a home, with what the value is besides what it counts itself.
fn home(revision: u64, rest: i64, floor: Option<i64>) -> Grant {
    Grant {
        generation: 1,
        settings: Settings {
            number: revision,
            shards: Some(1),
            floor: floor.map(value),
            ..Settings::default()
        },
        revision,
        alone: true,
        is_home: true,
        rest: value(rest),
        operations: revision,
        ..Grant::default()
    }
}

fn cell(grant: Grant) -> Cell {
    let mut cell = Cell::default();
    assert_eq!(cell.take_grant(grant, NOW_MS), Taken::Born);
    cell
}

fn keyed(number: u64, added: u128, removed: u128) -> Keyed {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    Keyed {
        key: WriteKey(key),
        fingerprint: number,
        generation: 0,
        added,
        removed,
        live: Vec::new(),
        past: Vec::new(),
        seen: None,
        condition: None,
    }
}

/// A cell with the records that it has written.
struct Shell {
    cell: Cell,
    records: BTreeMap<WriteKey, Recorded>,
}

impl Shell {
    fn new(grant: Grant) -> Self {
        Self {
            cell: cell(grant),
            records: BTreeMap::new(),
        }
    }

    fn count(&mut self, write: &Keyed) -> Result<KeyedOutcome, Refusal> {
        let mut changes = Changes::default();
        let known = |key: WriteKey| self.records.get(&key).copied();
        let only = std::slice::from_ref(write);
        let outcomes = (self.cell).apply_keyed(only, LIMITS, NOW_MS, &known, &mut changes)?;
        self.keep(changes);
        Ok(outcomes[0])
    }

    fn strike(&mut self, write: &Keyed) -> KeyedOutcome {
        let mut changes = Changes::default();
        let known = |key: WriteKey| self.records.get(&key).copied();
        let only = std::slice::from_ref(write);
        let outcomes = (self.cell).strike(only, LIMITS, NOW_MS, &known, &mut changes);
        assert!(!changes.hot, "nothing is counted");
        self.keep(changes);
        outcomes[0]
    }

    fn keep(&mut self, changes: Changes) {
        for (_, key, recorded) in changes.records {
            assert_eq!(self.records.insert(key, recorded), None, "written once");
        }
    }

    fn flush(&mut self, number: u64, added: u128, removed: u128) -> Result<(), Refusal> {
        let load = Load {
            added,
            removed,
            ..Load::default()
        };
        let nonce = Nonce { lane: 1, number };
        (self.cell).apply(nonce, &load, NOW_MS).map(|_| ())
    }

    fn totals(&self) -> (u64, u128, u128) {
        let part = self.cell.answer(&Question::plain(1)).expect("it counts");
        (part.totals.sequence, part.totals.added, part.totals.removed)
    }
}

fn value_of(outcome: KeyedOutcome) -> i64 {
    match outcome {
        KeyedOutcome::Counted(recorded) => {
            assert!(recorded.is_exact);
            let (added, removed) = recorded.totals;
            number(Value::new(added, removed))
        }
        other => unreachable!("{other:?}"),
    }
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
            let before = (shell.totals(), shell.records.clone());
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
                    let outcome = shell.count(&keyed(step, 0, amount)).expect("it decides");
                    if amount > 0 && expected - delta < floor {
                        prop_assert_eq!(outcome, KeyedOutcome::BelowFloor);
                        prop_assert_eq!((shell.totals(), shell.records.clone()), before);
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

    #[test]
    fn a_conditional_write_is_counted_only_while_nothing_has_changed(
        sequence in 0..4_u64, generation in 1..3_u64, operations in 0..3_u64, flushes in 0..4_u64,
    ) {
        let mut shell = Shell::new(home(1, 0, None));
        for flush in 0..flushes {
            shell.flush(flush + 1, 1, 0).expect("it counts");
        }
        let asked = Unchanged { generation, sequence, operations };
        let write = Keyed { condition: Some(asked), ..keyed(9, 5, 0) };
        let before = shell.totals();
        let outcome = shell.count(&write).expect("it decides");
        if asked == (Unchanged { generation: 1, sequence: flushes, operations: 1 }) {
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
    assert_eq!(shell.flush(1, 5, 1), Err(Refusal::Bounded));
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
    let unchanged = Unchanged {
        generation: 1,
        sequence: 0,
        operations: 1,
    };
    let conditional = Keyed {
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
    let mut conditional = Keyed {
        condition: Some(Unchanged {
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
    conditional.condition = Some(Unchanged {
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

#[test]
fn what_was_struck_out_is_never_counted_and_what_was_counted_never_struck_out() {
    let mut shell = Shell::new(home(1, 0, None));
    let (struck, counted) = (keyed(1, 5, 0), keyed(2, 3, 0));
    let first = shell.count(&counted).expect("it counts");
    let KeyedOutcome::Counted(recorded) = first else {
        unreachable!("{first:?}")
    };
    for _ in 0..2 {
        assert_eq!(shell.strike(&struck), KeyedOutcome::Struck);
        assert_eq!(shell.strike(&counted), KeyedOutcome::Replayed(recorded));
        assert_eq!(shell.count(&struck), Ok(KeyedOutcome::Struck));
        assert_eq!(shell.count(&counted), Ok(KeyedOutcome::Replayed(recorded)));
    }
    assert_eq!(shell.totals(), (1, 3, 0));
    // Also by a cell that counts for nobody.
    let mut unborn = Shell {
        cell: Cell::default(),
        records: BTreeMap::new(),
    };
    assert_eq!(unborn.strike(&struck), KeyedOutcome::Struck);
    unborn.cell.take_grant(home(1, 0, None), NOW_MS);
    assert_eq!(unborn.cell.ledger().records(), 1, "it is looked for still");
    unborn.cell.take_grant(
        Grant {
            generation: 2,
            ..home(1, 0, None)
        },
        NOW_MS,
    );
    assert_eq!(unborn.cell.ledger().records(), 0, "its rows are gone");
    assert_eq!(unborn.count(&struck), Ok(KeyedOutcome::Struck));
    let mut changes = Changes::default();
    let full = LedgerLimits {
        records_max: 0,
        ..LIMITS
    };
    let only = std::slice::from_ref(&counted);
    let outcomes = Cell::default().strike(only, full, NOW_MS, &|_| None, &mut changes);
    assert_eq!(outcomes, [KeyedOutcome::Full]);
    assert!(changes.records.is_empty());
}
