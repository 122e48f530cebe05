//! Law: a keyed write counts once however often it comes, through crashes and commits that are lost, and
//! every repetition gets the first answer; what is not counted changes nothing.

use crate::common;
use crate::common::keyed;

use common::config;
use keyed::*;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::cell::CellState;
use tally_core::counter::cell::keyed_writes::recall;
use tally_core::counter::flush::{Changes, Load, Refusal};
use tally_core::counter::ledger::{KeySource, KeyedOutcome, KeyedWrite, SeenValue};
use tally_core::counter::merge::Question;
use tally_core::counter::nonces::Nonce;
use tally_core::counter::total::Value;

proptest! {
    #![proptest_config(config(91, 512))]

    #[test]
    fn a_write_counts_once_and_is_answered_once_and_for_all(
        records_max in prop_oneof![2..8_u64, Just(1_000)],
        events in vec(event(), 1..40),
    ) {
        let mut shell = Shell::new(records_max);
        for event in events {
            shell.happen(event)?;
            shell.check()?;
            // A crash at any moment forgets nothing of this.
            prop_assert_eq!(shell.rows.load().hot_row(), shell.cell.hot_row());
        }
        // Everything once more, after a crash: nothing is counted, and all get their first answers.
        shell.cell = shell.rows.load();
        let before = shell.cell.clone();
        let again: Vec<KeyedWrite> = shell.model.answers.iter().map(|(key, first)| KeyedWrite {
            key: *key,
            fingerprint: first.fingerprint,
            ..write(0, Demand { added: 1, removed: 0, ago: 0 }, shell.now_ms)
        }).collect();
        shell.count(&again, false)?;
        prop_assert!(shell.cell == before, "a repetition changed the cell");
        // Only asked for: what was counted gets the same answer, and what was not is unknown.
        let known = |key| shell.rows.record(&shell.cell.record_slots(KeySource::Clients), key);
        let answers = recall(&again, &known);
        let first = again.iter().map(|write| KeyedOutcome::Replayed(shell.model.answers[&write.key]));
        prop_assert_eq!(answers, first.collect::<Vec<_>>());
        let others = again.iter().map(|write| {
            let fingerprint = !write.fingerprint;
            KeyedWrite { fingerprint, ..write.clone() }
        });
        let others: Vec<KeyedWrite> = others.collect();
        prop_assert!(recall(&others, &known).iter().all(|outcome| *outcome == KeyedOutcome::Reused));
        let nobody = |_| None;
        prop_assert!(recall(&again, &nobody).iter().all(|outcome| *outcome == KeyedOutcome::Unknown));
    }

    #[test]
    fn where_others_count_the_answer_is_what_was_seen_and_the_write_but_not_less_than_its_own_cell(
        own in (0..1_000_u32, 0..1_000_u32), seen in (0..1_000_u32, 0..1_000_u32),
        wished in (0..1_000_u32, 0..1_000_u32),
    ) {
        let mut shell = Shell::new(10);
        shell.flush(Demand { added: own.0.into(), removed: own.1.into(), ago: 0 });
        shell.have_company();
        let demand = Demand { added: wished.0.into(), removed: wished.1.into(), ago: 0 };
        let mut keyed = write(1, demand, BEGIN_MS);
        keyed.seen = Some(SeenValue { value: Value::new(u128::from(seen.0), u128::from(seen.1)), is_set: false });
        let mut changes = Changes::default();
        let outcomes = shell.apply(&mut shell.cell.clone(), &[keyed], &mut changes).expect("it counts");
        let [KeyedOutcome::Counted(recorded)] = outcomes.as_slice() else {
            return Err(TestCaseError::fail(format!("{outcomes:?}")));
        };
        let net = |(added, removed): (u32, u32)| i64::from(added) - i64::from(removed);
        let expected = (net(seen) + net(wished)).max(net(own) + net(wished));
        let (added, removed) = recorded.totals;
        prop_assert_eq!(Value::new(added, removed).to_string(), expected.to_string());
        prop_assert!(!recorded.is_exact);
    }
}

/// One added, at one moment.
const ONE: Demand = Demand {
    added: 1,
    removed: 0,
    ago: 0,
};

#[test]
fn a_lead_whose_shards_are_all_sealed_answers_exactly() {
    let mut shell = Shell::new(10);
    shell.flush(Demand {
        added: 10,
        removed: 4,
        ago: 0,
    });
    let mut shard = CellState::default();
    shard.take_grant(grant(GENERATION, false), BEGIN_MS);
    let nonce = Nonce { lane: 1, number: 1 };
    let load = Load {
        added: 100,
        removed: 30,
        ..Load::default()
    };
    shard.apply(nonce, &load, BEGIN_MS).expect("it counts");
    let part = shard.answer(&Question::plain(GENERATION));

    shell.cell.spread_over(2);
    shell.cell.admit(1).expect("within the spread");
    shell.rows.write_sealed(&shell.cell, 1);
    let mut changes = Changes::default();
    let keyed = write(1, ONE, BEGIN_MS);
    let outcome = shell.apply(
        &mut shell.cell.clone(),
        std::slice::from_ref(&keyed),
        &mut changes,
    );
    assert_eq!(
        outcome,
        Ok(vec![KeyedOutcome::NeedsView]),
        "the shard counts"
    );

    shell.cell.spread_over(1);
    let (_, admissions) = shell.cell.to_seal().pop().expect("a shard to seal");
    assert!(shell.cell.keep_sealed(1, part, admissions));
    let outcome = shell.apply(&mut shell.cell.clone(), &[keyed], &mut changes);
    let Ok([KeyedOutcome::Counted(recorded)]) = outcome.as_deref() else {
        unreachable!("{outcome:?}");
    };
    assert_eq!(recorded.totals, (111_u128.into(), 34_u128.into()));
    assert!(recorded.is_exact);
}

#[test]
fn where_the_ledger_is_full_known_keys_are_answered_and_after_their_time_there_is_room() {
    let mut shell = Shell::new(2);
    let writes: Vec<KeyedWrite> = (0..3).map(|key| write(key, ONE, BEGIN_MS)).collect();
    let mut changes = Changes::default();
    let now = BEGIN_MS / 1_000;
    let mut cell = shell.cell.clone();
    let outcomes = shell
        .apply(&mut cell, &writes, &mut changes)
        .expect("it counts");
    assert!(matches!(
        outcomes.as_slice(),
        [
            KeyedOutcome::Counted(_),
            KeyedOutcome::Counted(_),
            KeyedOutcome::Full
        ]
    ));
    shell.cell = cell.clone();
    shell.rows.write(&shell.cell, &changes, now);
    let mut changes = Changes::default();
    let again = shell
        .apply(&mut cell, &writes, &mut changes)
        .expect("it counts");
    assert!(matches!(
        again.as_slice(),
        [
            KeyedOutcome::Replayed(_),
            KeyedOutcome::Replayed(_),
            KeyedOutcome::Full
        ]
    ));
    assert!(cell == shell.cell && changes == Changes::default());

    shell.now_ms = BEGIN_MS + KEPT_MS + KEPT_MS / 4;
    let newest = shell
        .cell
        .expire_records(shell.now_ms)
        .expect("its time has come");
    shell.rows.delete_records(newest, &shell.cell);
    assert_eq!(shell.rows.records(), []);
    let mut cell = shell.rows.load();
    let outcomes = shell
        .apply(&mut cell, &writes, &mut changes)
        .expect("it counts");
    assert!(matches!(
        outcomes.as_slice(),
        [
            KeyedOutcome::Counted(_),
            KeyedOutcome::Counted(_),
            KeyedOutcome::Full
        ]
    ));
}

#[test]
fn a_cell_that_may_not_count_decides_nothing() {
    let writes = [write(1, ONE, BEGIN_MS)];
    let mut unborn = CellState::default();
    let mut sealed = Shell::new(10).cell;
    sealed.seal(GENERATION).expect("it counts");
    for cell in [&mut unborn, &mut sealed] {
        let before = cell.clone();
        let mut changes = Changes::default();
        let refused = cell.apply_keyed(
            &writes,
            Some(0),
            limits(10),
            BEGIN_MS,
            &|_| None,
            &mut changes,
        );
        assert_eq!(refused, Err(Refusal::NeedsGrant));
        assert!(*cell == before && changes == Changes::default());
    }
}

/// A root may have ended a generation by its own clock that its lead counts for still. Such a write is not
/// of the past: its sender would be told that its counter is gone.
#[test]
fn a_write_of_a_generation_to_come_waits_for_it() {
    let mut shell = Shell::new(10);
    let mut early = write(1, ONE, BEGIN_MS);
    early.generation = GENERATION + 1;
    let writes = [write(2, ONE, BEGIN_MS), early];
    let mut changes = Changes::default();
    let mut cell = shell.cell.clone();
    let refused = shell.apply(&mut cell, &writes, &mut changes);
    assert_eq!(refused, Err(Refusal::NeedsGrant));
    assert!(cell == shell.cell && changes == Changes::default());

    shell.cell.take_grant(grant(GENERATION + 1, true), BEGIN_MS);
    shell.rows.clear();
    let mut cell = shell.cell.clone();
    let outcomes = shell
        .apply(&mut cell, &writes[1..], &mut changes)
        .expect("it counts");
    assert!(matches!(outcomes.as_slice(), [KeyedOutcome::Counted(_)]));
}

#[test]
fn a_new_generation_begins_with_an_empty_ledger() {
    let mut shell = Shell::new(10);
    shell
        .count(&[write(1, ONE, BEGIN_MS)], false)
        .expect("counted");
    shell.cell.take_grant(grant(GENERATION + 1, true), BEGIN_MS);
    assert_eq!(shell.cell.ledger(KeySource::Clients).slots().count(), 0);
    let mut ended = shell.rows.load();
    assert_eq!(ended.ledger(KeySource::Clients).slots().count(), 1);
    ended.close(GENERATION);
    assert_eq!(ended.ledger(KeySource::Clients).slots().count(), 0);
}
