//! Law: a write that a cell has struck out is counted only by a claim that has come back since; one that it has refused
//! for good never is. What was counted is neither struck out nor refused.

use crate::common::home;

use std::collections::BTreeMap;

use home::*;
use tally_core::counter::cell::CellState;
use tally_core::counter::cell::keyed_writes::recall;
use tally_core::counter::flush::Changes;
use tally_core::counter::grant::Grant;
use tally_core::counter::ledger::{KeySource, KeyedOutcome, KeyedWrite, WriteKey};
use tally_core::counter::ledgers::LedgerLimits;

#[test]
fn what_was_struck_out_is_never_counted_and_what_was_counted_never_struck_out() {
    let mut shell = Shell::new(home(1, 0, None));
    let (struck, counted) = (keyed(1, 5, 0), keyed(2, 3, 0));
    let first = shell.count(&counted).expect("it counts");
    let KeyedOutcome::Counted(recorded) = first else {
        unreachable!("{first:?}")
    };
    for _ in 0..2 {
        assert_eq!(shell.strike(&struck, 0), KeyedOutcome::Struck);
        assert_eq!(shell.strike(&counted, 9), KeyedOutcome::Replayed(recorded));
        assert_eq!(shell.count(&struck), Ok(KeyedOutcome::Struck));
        assert_eq!(shell.count(&counted), Ok(KeyedOutcome::Replayed(recorded)));
    }
    assert_eq!(shell.totals(), (1, 3, 0));
    // Not by a cell that must first drop a generation that has ended: its records would go too.
    let next = KeyedWrite {
        generation: 2,
        ..keyed(3, 5, 0)
    };
    assert_eq!(shell.strike(&next, 0), KeyedOutcome::NotWhole);
    assert!(shell.cell.close(1));
    assert_eq!(shell.strike(&next, 0), KeyedOutcome::Struck);
    assert!(!shell.cell.is_blank(), "it has that to keep");
    assert!(!shell.cell.close(1), "told of the end once more");
    assert_eq!(shell.cell.ledger(KeySource::Clients).records(), 1);
    // Also by a cell that counts for nobody.
    let mut unborn = Shell {
        cell: CellState::default(),
        records: BTreeMap::new(),
    };
    assert_eq!(unborn.strike(&struck, 0), KeyedOutcome::Struck);
    unborn.cell.take_grant(home(1, 0, None), NOW_MS);
    assert_eq!(
        unborn.cell.ledger(KeySource::Clients).records(),
        1,
        "it is looked for still"
    );
    unborn.cell.take_grant(
        Grant {
            generation: 2,
            ..home(1, 0, None)
        },
        NOW_MS,
    );
    assert_eq!(
        unborn.cell.ledger(KeySource::Clients).records(),
        0,
        "its rows are gone"
    );
    assert_eq!(unborn.count(&struck), Ok(KeyedOutcome::Struck));
    let mut changes = Changes::default();
    let full = LedgerLimits {
        keys: KeySource::Clients,
        records_max: 0,
        ..LIMITS
    };
    let only = std::slice::from_ref(&counted);
    let outcomes = CellState::default().strike(only, None, full, NOW_MS, &|_| None, &mut changes);
    assert_eq!(outcomes, [KeyedOutcome::Full]);
    assert!(changes.records.is_empty());
}

#[test]
fn a_claim_that_comes_back_is_counted_and_no_copy_of_what_was_sent_before_is() {
    for (struck_at, comes_with) in [(0, 1), (0, 2), (1, 2), (3, 1_000)] {
        let mut shell = Shell::new(home(1, 0, None));
        let write = keyed(1, 5, 0);
        assert_eq!(shell.strike(&write, struck_at), KeyedOutcome::Struck);
        for late in 0..=struck_at {
            let counted = shell.count_moved(&write, late);
            assert_eq!(counted, Ok(KeyedOutcome::Struck), "sent with {late}");
            assert_eq!(shell.strike(&write, late), KeyedOutcome::Struck);
        }
        assert_eq!(shell.totals(), (0, 0, 0));
        let counted = shell.count_moved(&write, comes_with).expect("it counts");
        let KeyedOutcome::Counted(recorded) = counted else {
            unreachable!("{counted:?}")
        };
        let replayed = KeyedOutcome::Replayed(recorded);
        for moves in [0, struck_at, comes_with, comes_with + 1] {
            assert_eq!(shell.count_moved(&write, moves), Ok(replayed));
            assert_eq!(shell.strike(&write, moves), replayed);
        }
        assert_eq!(shell.totals(), (1, 5, 0));
    }
}

#[test]
fn a_claim_that_comes_back_to_a_lead_that_counts_no_more_is_struck_out_again() {
    let mut shell = Shell::new(home(1, 0, None));
    let write = keyed(1, 5, 0);
    assert_eq!(shell.strike(&write, 0), KeyedOutcome::Struck);
    assert_eq!(shell.strike(&write, 2), KeyedOutcome::Struck);
    assert_eq!(
        shell.cell.ledger(KeySource::Clients).records(),
        1,
        "one for each key"
    );
    for late in 0..=2 {
        let counted = shell.count_moved(&write, late);
        assert_eq!(counted, Ok(KeyedOutcome::Struck), "sent with {late}");
    }
    // A full ledger has room for what is there already.
    let full = LedgerLimits {
        keys: KeySource::Clients,
        records_max: 0,
        ..LIMITS
    };
    let mut changes = Changes::default();
    let known = |key: WriteKey| shell.records.get(&key).copied();
    let only = std::slice::from_ref(&write);
    let outcomes = (shell.cell).apply_keyed(only, Some(4), full, NOW_MS, &known, &mut changes);
    assert!(matches!(
        outcomes.as_deref(),
        Ok([KeyedOutcome::Counted(_)])
    ));
}

#[test]
fn what_lifts_a_strike_is_kept_as_long_as_any_record() {
    let mut shell = Shell::new(home(1, 0, None));
    let write = keyed(1, 5, 0);
    assert_eq!(shell.strike(&write, 0), KeyedOutcome::Struck);
    let struck = shell.records[&write.key];
    let late_ms = struck.slot - 1;
    let mut changes = Changes::default();
    let known = |key: WriteKey| shell.records.get(&key).copied();
    let only = std::slice::from_ref(&write);
    let outcomes = (shell.cell).apply_keyed(only, Some(1), LIMITS, late_ms, &known, &mut changes);
    assert!(outcomes.is_ok());
    let [new] = changes.records.as_slice() else {
        unreachable!("one record")
    };
    assert_eq!(new.replaces, Some(struck.slot));
    assert!(new.kept.slot - late_ms >= LIMITS.kept_ms);
    assert_eq!(
        shell
            .cell
            .ledger(KeySource::Clients)
            .slots()
            .collect::<Vec<_>>(),
        [new.kept.slot]
    );
}

#[test]
fn what_was_refused_is_never_counted_be_its_key_a_clients_or_its_senders() {
    let mut shell = Shell::new(home(1, 0, Some(0)));
    let (write, drawn) = (keyed(1, 0, 4), keyed(2, 0, 4));
    assert_eq!(
        shell.count_moved(&drawn, None),
        Ok(KeyedOutcome::BelowFloor)
    );
    assert_eq!(shell.count(&write), Ok(KeyedOutcome::BelowFloor));
    assert_eq!(shell.cell.ledger(KeySource::Clients).records(), 2);
    shell.flush(1, 10, 0).expect("it counts");
    // A late copy, a retry, and one whose claim would have moved: they are all told the same.
    let known = |key: WriteKey| shell.records.get(&key).copied();
    let recalled = recall(std::slice::from_ref(&write), &known);
    assert_eq!(recalled, [KeyedOutcome::BelowFloorBefore]);
    for moves in [None, Some(0), Some(7)] {
        let again = shell.count_moved(&write, moves);
        assert_eq!(again, Ok(KeyedOutcome::BelowFloorBefore), "{moves:?}");
    }
    assert_eq!(shell.strike(&write, 7), KeyedOutcome::BelowFloorBefore);
    let other = KeyedWrite {
        fingerprint: 99,
        ..write.clone()
    };
    assert_eq!(shell.count(&other), Ok(KeyedOutcome::Reused));
    assert_eq!(shell.totals(), (1, 10, 0));
    let again = shell.count_moved(&drawn, None);
    assert_eq!(again, Ok(KeyedOutcome::BelowFloorBefore));
    assert_eq!(shell.totals(), (1, 10, 0));
}

#[test]
fn a_write_that_was_struck_out_may_be_refused_when_it_comes_back() {
    let mut shell = Shell::new(home(1, 0, Some(0)));
    let write = keyed(1, 0, 4);
    assert_eq!(shell.strike(&write, 0), KeyedOutcome::Struck);
    assert_eq!(shell.count_moved(&write, 2), Ok(KeyedOutcome::BelowFloor));
    assert_eq!(
        shell.cell.ledger(KeySource::Clients).records(),
        1,
        "one for each key"
    );
    shell.flush(1, 10, 0).expect("it counts");
    for moves in [0, 2, 3] {
        let again = shell.count_moved(&write, moves);
        assert_eq!(again, Ok(KeyedOutcome::BelowFloorBefore), "{moves}");
    }
}

#[test]
fn refusals_leave_room_for_what_counts() {
    let mut shell = Shell::new(home(1, 0, Some(0)));
    let limits = LedgerLimits {
        keys: KeySource::Clients,
        records_max: 4,
        ..LIMITS
    };
    let refused: Vec<KeyedWrite> = (0..4).map(|number| keyed(number, 0, 1)).collect();
    let mut changes = Changes::default();
    let outcomes =
        (shell.cell).apply_keyed(&refused, Some(0), limits, NOW_MS, &|_| None, &mut changes);
    let (below, full) = (KeyedOutcome::BelowFloor, KeyedOutcome::Full);
    assert_eq!(outcomes, Ok(vec![below, below, full, full]));
    let counted: Vec<KeyedWrite> = (4..7).map(|number| keyed(number, 1, 0)).collect();
    let mut changes = Changes::default();
    let outcomes =
        (shell.cell).apply_keyed(&counted, Some(0), limits, NOW_MS, &|_| None, &mut changes);
    let counted = outcomes.expect("it counts");
    let is_counted: Vec<bool> = counted.iter().map(KeyedOutcome::is_counted).collect();
    assert_eq!(is_counted, [true, true, false]);
}
