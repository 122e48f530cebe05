//! Law: a numbered write is counted once, however often, when and in whatever order it comes, and what is kept of many
//! is one short row.

mod leads;

use crate::common;
use crate::common::home;
use crate::common::rows;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use common::config;
use home::NOW_MS;
use leads::*;
use proptest::collection::vec;
use proptest::prelude::*;
use rows::Rows;
use tally_api::keyed_routes::{Carrier, count_unclaimed};
use tally_core::cluster::claim::ClaimHolder;
use tally_core::counter::cell::CellState;
use tally_core::counter::cell::numbered_writes::NumberedWrites;
use tally_core::counter::flush::Changes;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{
    DRAWN_KEPT_SECONDS, DRAWN_PER_SECOND, DRAWN_RECORDS_MAX, KeySource, KeyedOutcome, KeyedWrite,
    Ledger, WriteKey,
};
use tally_core::counter::numbered_writes::{
    Decision, NUMBERED, Numbers, SPANS_MAX, WriteNumbers, is_over, lane_and_number, slot_of,
};
use tally_wire::messages::{ClaimAnswer, Counted, Fault, KeyOwner};

const DAY_MS: i64 = 86_400_000;

fn counter(number: usize) -> CounterId {
    CounterId::parse(format!("c{number}")).expect("an id")
}

fn write(key: WriteKey, added: u128) -> KeyedWrite {
    KeyedWrite {
        generation: 1,
        added,
        past: vec![(NOW_MS / 1_000, added)],
        seen: Some(Default::default()),
        ..KeyedWrite::new(key, NUMBERED)
    }
}

/// A cell with its rows.
struct Shell {
    cell: CellState,
    rows: Rows,
}

impl Shell {
    fn new() -> Self {
        let rows = Rows::default();
        let cell = home::cell(home::home(1, 0, None));
        rows.write_hot(&cell);
        Self { cell, rows }
    }

    fn count(
        &mut self,
        writes: &[KeyedWrite],
        moves: Option<u32>,
        now_ms: i64,
    ) -> Vec<KeyedOutcome> {
        let mut changes = Changes::default();
        let known = |lane| self.rows.numbers(lane);
        let numbered = NumberedWrites {
            writes,
            moves,
            now_ms,
            known: &known,
        };
        let outcomes = (self.cell).apply_numbered(&numbered, &mut changes);
        self.rows.write(&self.cell, &changes, now_ms / 1_000);
        outcomes.expect("it has a grant")
    }

    fn strike(&mut self, write: &KeyedWrite, moves: u32) -> KeyedOutcome {
        let home = Datacenter::parse("IAD").expect("a datacenter");
        self.strike_all(std::slice::from_ref(write), Some(moves), &home)[0]
    }

    fn strike_all(
        &mut self,
        writes: &[KeyedWrite],
        moves: Option<u32>,
        home: &Datacenter,
    ) -> Vec<KeyedOutcome> {
        let mut changes = Changes::default();
        let known = |lane| self.rows.numbers(lane);
        let numbered = NumberedWrites {
            writes,
            moves,
            now_ms: NOW_MS,
            known: &known,
        };
        let struck = (self.cell).strike_numbered(&numbered, home, &mut changes);
        self.rows.write(&self.cell, &changes, NOW_MS / 1_000);
        struck
    }

    fn restart(&mut self) {
        self.cell = self.rows.load();
    }
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        3 => Just(Decision::Counted),
        1 => (0..3_u32).prop_map(Decision::Struck),
        1 => (0..3_u32).prop_map(|moves| Decision::Sent((None, moves))),
    ]
}

proptest! {
    #![proptest_config(config(161, 256))]

    #[test]
    fn a_write_that_is_sent_on_is_counted_by_one_lead_wherever_home_goes(
        events in vec(prop_oneof![
            4 => (0..4_usize).prop_map(Event::Send),
            2 => (0..3_usize).prop_map(Event::MoveHome),
            2 => any::<usize>().prop_map(Event::Copy),
            1 => (0..3_usize).prop_map(Event::Restart),
        ], 1..40),
        losses in vec((prop::bool::weighted(0.2), prop::bool::weighted(0.3)), 0..60),
    ) {
        let leads = Leads {
            shells: RefCell::new((0..3).map(|_| Shell::new()).collect()),
            home: Cell::new(1),
            losses: RefCell::new(losses),
            counted: RefCell::default(),
            copies: RefCell::default(),
        };
        let mut numbering = WriteNumbers::default();
        let keys: Vec<WriteKey> = (0..4).map(|_| numbering.next(&counter(0), NOW_MS, &mut || 7)).collect();
        let send = |place: usize| {
            let only = [write(keys[place], 1)];
            now(count_unclaimed(&leads, &lead(0), &only)).remove(0).1
        };
        for event in events {
            match event {
                Event::Send(place) => drop(send(place)),
                Event::MoveHome(place) => leads.home.set(place),
                Event::Restart(place) => leads.shells.borrow_mut()[place].restart(),
                Event::Copy(pick) => {
                    let copies = leads.copies.borrow().clone();
                    if let Some(copied) = copies.get(pick % copies.len().max(1)) {
                        drop(leads.receive(copied));
                    }
                }
            }
        }
        // Once nothing is lost, each is counted, wherever it has been.
        leads.losses.borrow_mut().clear();
        for place in 0..4 {
            let counted = (0..4).any(|_| send(place).is_ok_and(|outcome| outcome.is_counted()));
            prop_assert!(counted, "{place}");
            prop_assert_eq!(send(place), Ok(KeyedOutcome::CountedBefore));
        }
    }

    #[test]
    fn spans_say_what_was_noted_and_are_as_few_as_can_be(
        puts in vec((1..40_u64, decision()), 0..120),
    ) {
        let mut numbers = Numbers::default();
        let mut model: BTreeMap<u64, Decision> = BTreeMap::new();
        for (number, decided) in puts {
            numbers.put(number, decided.clone());
            model.insert(number, decided);
            for number in 0..42 {
                prop_assert_eq!(numbers.get(number), model.get(&number).cloned());
            }
            let is_new = |(number, decided): &(&u64, &Decision)| model.get(&(*number - 1)) != Some(*decided);
            prop_assert_eq!(numbers.spans(), model.iter().filter(is_new).count());
        }
    }

    #[test]
    fn a_write_counts_once_through_copies_restarts_and_disorder(
        sends in vec((0..3_usize, 0..12_usize, any::<bool>()), 1..80),
    ) {
        let mut shell = Shell::new();
        let mut writes: BTreeMap<(usize, usize), KeyedWrite> = BTreeMap::new();
        for sender in 0..3 {
            let mut numbering = WriteNumbers::default();
            for place in 0..12 {
                let key = numbering.next(&counter(0), NOW_MS, &mut || u64::try_from(sender).unwrap() + 7);
                writes.insert((sender, place), write(key, 1 << place));
            }
        }
        let mut counted = BTreeMap::new();
        for (sender, place, restarts) in sends {
            let only = [writes[&(sender, place)].clone()];
            let outcome = shell.count(&only, None, NOW_MS)[0];
            let is_first = counted.insert((sender, place), only[0].added).is_none();
            prop_assert_eq!(matches!(outcome, KeyedOutcome::Counted(_)), is_first);
            prop_assert_eq!(outcome == KeyedOutcome::CountedBefore, !is_first);
            if restarts {
                shell.restart();
            }
        }
        let part = shell.cell.answer(&tally_core::counter::merge::Question::plain(1)).expect("it counts");
        prop_assert_eq!(part.cells[0].1.added, counted.values().sum::<u128>());
    }

    #[test]
    fn a_sender_numbers_each_counter_from_one_and_never_gives_a_key_twice(
        writes in vec((0..5_usize, 0..40_i64), 1..100),
    ) {
        let mut numbering = WriteNumbers::default();
        let (mut now_ms, mut lanes) = (NOW_MS, 0);
        let mut given: BTreeMap<(WriteKey, usize), u64> = BTreeMap::new();
        for (number, days) in writes {
            now_ms += days / 30 * DAY_MS * 10;
            let key = numbering.next(&counter(number), now_ms, &mut || { lanes += 1; lanes });
            let (lane, place) = lane_and_number(key);
            let before = given.insert((lane, number), place);
            prop_assert_eq!(place, before.unwrap_or(0) + 1);
            prop_assert!(!is_over(key, now_ms + 28 * DAY_MS), "kept for as long as a queue delivers, twice");
            prop_assert!(slot_of(key) > now_ms + 30 * DAY_MS);
        }
    }
}

#[test]
fn a_million_writes_of_a_sender_are_one_row_of_one_span() {
    let mut numbers = Numbers::default();
    for number in 1..=1_000_000 {
        numbers.put(number, Decision::Counted);
    }
    assert_eq!(numbers.spans(), 1);
    let bytes = postcard::to_allocvec(&numbers).expect("encoded");
    assert!(bytes.len() < 10);
}

#[test]
fn a_lane_with_too_many_gaps_takes_no_more() {
    let mut shell = Shell::new();
    let mut numbering = WriteNumbers::default();
    let mut keys = (0..).map(|_| numbering.next(&counter(0), NOW_MS, &mut || 7));
    let gaps = SPANS_MAX + 10;
    let every_other: Vec<KeyedWrite> = (keys.by_ref().step_by(2).take(gaps))
        .map(|key| write(key, 1))
        .collect();
    let outcomes = shell.count(&every_other, None, NOW_MS);
    let full = outcomes
        .iter()
        .filter(|outcome| **outcome == KeyedOutcome::Full);
    assert_eq!(full.count(), gaps - SPANS_MAX + 1);
}

#[test]
fn what_is_too_old_to_be_known_is_never_counted() {
    let mut shell = Shell::new();
    let key = WriteNumbers::default().next(&counter(0), NOW_MS, &mut || 7);
    let late_ms = slot_of(key);
    let outcomes = shell.count(&[write(key, 1)], None, late_ms);
    assert_eq!(outcomes, [KeyedOutcome::Expired]);
}

#[test]
fn a_struck_write_is_counted_only_by_a_claim_that_came_back() {
    let mut shell = Shell::new();
    let key = WriteNumbers::default().next(&counter(0), NOW_MS, &mut || 7);
    let write = write(key, 5);
    assert_eq!(shell.strike(&write, 0), KeyedOutcome::Struck);
    shell.restart();
    let only = std::slice::from_ref(&write);
    for late in [None, Some(0)] {
        assert_eq!(shell.count(only, late, NOW_MS), [KeyedOutcome::Struck]);
    }
    assert!(shell.count(only, Some(2), NOW_MS)[0].is_counted());
    assert_eq!(shell.strike(&write, 3), KeyedOutcome::CountedBefore);
}

#[test]
fn an_unborn_cell_keeps_what_it_struck_out() {
    let mut cell = CellState::default();
    assert!(cell.is_blank());
    let key = WriteNumbers::default().next(&counter(0), NOW_MS, &mut || 7);
    let mut changes = Changes::default();
    let none = |_| Numbers::default();
    let home = Datacenter::local();
    let writes = &[write(key, 5)];
    let numbered = NumberedWrites {
        writes,
        moves: None,
        now_ms: NOW_MS,
        known: &none,
    };
    cell.strike_numbered(&numbered, &home, &mut changes);
    assert!(!cell.is_blank());
}

#[test]
fn drawn_keys_are_decided_a_thousand_times_a_second_for_an_hour_and_take_no_room_from_clients() {
    let mut ledger = Ledger::default();
    let kept_ms = i64::try_from(DRAWN_KEPT_SECONDS).expect("minutes") * 1_000;
    let per_second = i64::try_from(DRAWN_PER_SECOND).expect("thousands");
    let mut most = 0;
    for number in 0..3_600 * per_second {
        let now_ms = NOW_MS + number * 1_000 / per_second;
        ledger.expire(now_ms);
        let slot = ledger.admit(now_ms, kept_ms, DRAWN_RECORDS_MAX);
        assert!(
            slot.is_some_and(|slot| slot >= now_ms + kept_ms),
            "{number}"
        );
        most = most.max(ledger.records());
    }
    assert!(most * 3 <= DRAWN_RECORDS_MAX, "{most}");
    let mut cell = CellState::default();
    cell.restore_ledger(KeySource::Drawn, ledger);
    assert_eq!(cell.ledger(KeySource::Clients).records(), 0);
}
