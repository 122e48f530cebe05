//! Laws of an inbox's queue: each acknowledged event is counted exactly once, through appends that come
//! again, writes that are sent again, and crashes between any two steps; batches stay within their bounds.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::{KeyedOutcome, Recorded, WriteKey};
use tally_core::counter::nonces::{FlushEffect, FlushRecord, Nonce, Nonces};
use tally_core::counter::numbered_writes::{COUNTED_WITHIN_MS, WriteNumbers, is_over};
use tally_core::counter::queue::write_outcome::{
    DeadLetterReason, WriteOutcome, retry_after_ms, retry_seconds, verdict,
};
use tally_core::counter::queue::{
    BATCH_ENTRIES_MAX, DISTINCT_KEYS_MAX, Event, InboxId, LogBatch, LogRow, QueuedDelivery,
    SUMMED_MAX, gather,
};
use tally_core::counter::total::CellTotal;

const NOW_MS: i64 = 1_777_593_630_000;

fn id(number: usize) -> CounterId {
    CounterId::parse(format!("c{number}")).expect("a counter id")
}

fn event(counter: usize, delta: u128, key: Option<u8>) -> Event {
    Event {
        counter: id(counter),
        delta,
        second: NOW_MS / 1_000,
        key: key.map(|key| (WriteKey([key; 16]), 1)),
    }
}

fn row(number: u64, events: Vec<Event>) -> LogRow {
    LogRow {
        nonce: Nonce { lane: 7, number },
        at_ms: NOW_MS,
        events: events.into_iter().map(|event| (5, event)).collect(),
    }
}

/// Gathers with keys that no two draws share.
fn gather_with(rows: &[LogRow], drawn: &mut u64) -> LogBatch {
    gather(rows, &mut |_| {
        *drawn += 1;
        let mut key = [0; 16];
        key[..8].copy_from_slice(&drawn.to_le_bytes());
        key[15] = 0xff;
        WriteKey(key)
    })
}

fn recorded() -> Recorded {
    Recorded {
        fingerprint: 0,
        generation: 5,
        sequence: 1,
        totals: Default::default(),
        is_exact: true,
        at_ms: NOW_MS,
        operations: 0,
    }
}

/// What survives a crash of an inbox and of the cells that it counts at.
#[derive(Default)]
struct Disk {
    log: Vec<LogRow>,
    batches: BTreeMap<u64, Vec<QueuedDelivery>>,
    nonces: Nonces,
    counted: BTreeSet<(CounterId, WriteKey)>,
    totals: BTreeMap<CounterId, u128>,
}

#[derive(Default)]
struct World {
    disk: Disk,
    /// Nonces in memory: those of the disk and of the rows.
    nonces: Nonces,
    /// Answers of cells that are not struck off yet; a crash loses them.
    answers: Vec<(u64, usize, KeyedOutcome)>,
    batch: u64,
    drawn: u64,
    appended: u64,
    acknowledged: BTreeMap<CounterId, u128>,
    keys: BTreeSet<(CounterId, WriteKey)>,
}

const NO_OUTCOME: FlushEffect = FlushEffect {
    sequence: 0,
    added: CellTotal::ZERO,
    removed: CellTotal::ZERO,
};

impl World {
    fn append(&mut self, events: Vec<Event>, copies: u8) {
        self.appended += 1;
        for event in &events {
            let is_new = event
                .key
                .is_none_or(|(key, _)| self.keys.insert((event.counter.clone(), key)));
            if is_new {
                *self.acknowledged.entry(event.counter.clone()).or_default() += event.delta;
            }
        }
        let row = row(self.appended, events);
        for _ in 0..=copies {
            if self.nonces.look_up(row.nonce, NOW_MS) == FlushRecord::New {
                self.disk.log.push(row.clone());
                self.nonces.remember(row.nonce, NO_OUTCOME, NOW_MS);
            }
        }
    }

    /// The last append once more, as a client whose answer was lost sends it.
    fn append_again(&mut self) {
        let nonce = Nonce {
            lane: 7,
            number: self.appended,
        };
        if self.appended > 0 {
            assert_ne!(self.nonces.look_up(nonce, NOW_MS), FlushRecord::New);
        }
    }

    fn gather(&mut self) {
        let gathered = gather_with(&self.disk.log, &mut self.drawn);
        if gathered.rows > 0 {
            self.batch += 1;
            self.disk.batches.insert(self.batch, gathered.deliveries);
            self.disk.log.drain(..gathered.rows);
            self.disk.nonces = self.nonces.clone();
        }
    }

    /// Sends one write; its answer may be lost.
    fn send(&mut self, which: usize, is_answered: bool) {
        let deliveries: Vec<(u64, usize, QueuedDelivery)> = (self.disk.batches.iter())
            .flat_map(|(number, deliveries)| {
                let each = deliveries.iter().enumerate();
                each.map(|(place, due)| (*number, place, due.clone()))
            })
            .collect();
        let Some((number, place, due)) = deliveries.get(which % deliveries.len().max(1)) else {
            return;
        };
        let outcome = if self
            .disk
            .counted
            .insert((due.counter.clone(), due.write.key))
        {
            let total = self.disk.totals.entry(due.counter.clone()).or_default();
            *total += due.write.added;
            KeyedOutcome::Counted(recorded())
        } else {
            KeyedOutcome::Replayed(recorded())
        };
        if is_answered {
            self.answers.push((*number, *place, outcome));
        }
    }

    fn strike_off(&mut self) {
        let mut struck: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for (number, place, outcome) in std::mem::take(&mut self.answers) {
            assert_eq!(verdict(outcome), WriteOutcome::Done);
            struck.entry(number).or_default().insert(place);
        }
        for (number, places) in struck {
            let deliveries = self.disk.batches.remove(&number).unwrap_or_default();
            let left = deliveries.into_iter().enumerate();
            let left: Vec<QueuedDelivery> = left
                .filter(|(place, _)| !places.contains(place))
                .map(|(_, due)| due)
                .collect();
            if !left.is_empty() {
                self.disk.batches.insert(number, left);
            }
        }
    }

    fn crash(&mut self) {
        self.answers.clear();
        self.nonces = self.disk.nonces.clone();
        for row in &self.disk.log {
            self.nonces.remember(row.nonce, NO_OUTCOME, row.at_ms);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<Event>, u8),
    AppendAgain,
    Gather,
    Send(usize, bool),
    StrikeOff,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let amount = prop_oneof![1_u128..10, Just(SUMMED_MAX), Just(SUMMED_MAX + 1)];
    let some =
        (0_usize..4, amount, any::<bool>(), 0_u8..3).prop_map(|(counter, delta, keyed, key)| {
            // A client sends the same amount with the same key.
            let key = keyed.then_some(key);
            event(counter, key.map_or(delta, |key| u128::from(key) + 1), key)
        });
    let step = prop_oneof![
        (prop::collection::vec(some, 1..6), 0_u8..3)
            .prop_map(|(events, copies)| Step::Append(events, copies)),
        Just(Step::AppendAgain),
        Just(Step::Gather),
        (any::<usize>(), any::<bool>())
            .prop_map(|(which, is_answered)| Step::Send(which, is_answered)),
        (any::<usize>(), any::<bool>())
            .prop_map(|(which, is_answered)| Step::Send(which, is_answered)),
        Just(Step::StrikeOff),
        Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #[test]
    fn every_event_is_counted_exactly_once_through_repeats_and_crashes(steps in steps()) {
        let mut world = World::default();
        for step in steps {
            match step {
                Step::Append(events, copies) => world.append(events, copies),
                Step::AppendAgain => world.append_again(),
                Step::Gather => world.gather(),
                Step::Send(which, is_answered) => world.send(which, is_answered),
                Step::StrikeOff => world.strike_off(),
                Step::Crash => world.crash(),
            }
            for (counter, total) in &world.disk.totals {
                prop_assert!(*total <= world.acknowledged.get(counter).copied().unwrap_or(0));
            }
        }
        world.crash();
        while !world.disk.log.is_empty() {
            world.gather();
        }
        while !world.disk.batches.is_empty() {
            world.send(0, true);
            world.strike_off();
        }
        prop_assert_eq!(world.disk.totals, world.acknowledged);
    }

    #[test]
    fn a_batch_has_the_sum_of_its_rows(
        rows in prop::collection::vec(prop::collection::vec((0_usize..5, 1_u128..1_000, 0_i64..3), 1..20), 0..20)
    ) {
        let mut expected: BTreeMap<(CounterId, i64), u128> = BTreeMap::new();
        let rows: Vec<LogRow> = rows.into_iter().zip(1..).map(|(events, number)| {
            row(number, events.into_iter().map(|(counter, delta, second)| {
                *expected.entry((id(counter), second)).or_default() += delta;
                Event { second, ..event(counter, delta, None) }
            }).collect())
        }).collect();
        let gathered = gather_with(&rows, &mut 0);
        prop_assert_eq!(gathered.rows, rows.len());
        let mut found: BTreeMap<(CounterId, i64), u128> = BTreeMap::new();
        for due in &gathered.deliveries {
            prop_assert_eq!(due.write.added, due.write.past.iter().map(|(_, amount)| amount).sum::<u128>());
            for (second, amount) in &due.write.past {
                *found.entry((due.counter.clone(), *second)).or_default() += amount;
            }
        }
        prop_assert_eq!(found, expected);
        prop_assert!(gathered.deliveries.len() <= 5, "one write for each counter");
    }
}

#[test]
fn many_counters_end_a_batch_early_and_so_do_many_events() {
    let distinct: Vec<LogRow> = (0..30_usize)
        .zip(1..)
        .map(|(first, number)| {
            let events = (0..100).map(|counter| event(first * 100 + counter, 1, None));
            row(number, events.collect())
        })
        .collect();
    let gathered = gather_with(&distinct, &mut 0);
    assert_eq!(
        (gathered.rows, gathered.deliveries.len()),
        (10, DISTINCT_KEYS_MAX)
    );
    let many: Vec<LogRow> = (1..60)
        .map(|number| row(number, vec![event(0, 1, None); 500]))
        .collect();
    let gathered = gather_with(&many, &mut 0);
    assert_eq!(gathered.rows * 500, BATCH_ENTRIES_MAX);
    assert_eq!(gathered.deliveries.len(), 1);
}

#[test]
fn a_row_that_is_too_large_for_a_batch_is_a_batch_of_its_own() {
    let events = |count: usize| (0..count).map(|counter| event(counter, 1, None)).collect();
    let rows = [row(1, events(DISTINCT_KEYS_MAX + 1)), row(2, events(1))];
    assert_eq!(gather_with(&rows, &mut 0).rows, 1);
}

#[test]
fn what_is_large_and_what_has_a_key_or_another_generation_is_written_by_itself() {
    let mut rows = vec![row(
        1,
        vec![
            event(0, 1, None),
            event(0, u128::MAX, None),
            event(0, u128::MAX, None),
            event(0, 2, Some(1)),
            event(0, SUMMED_MAX, None),
            event(0, 2, Some(1)),
        ],
    )];
    rows[0].events.push((6, event(0, 3, None)));
    let gathered = gather_with(&rows, &mut 0);
    let writes: Vec<(u128, bool, u64)> = gathered
        .deliveries
        .iter()
        .map(|due| (due.write.added, due.is_clients, due.write.generation))
        .collect();
    assert_eq!(
        writes,
        [
            (1 + SUMMED_MAX, false, 5),
            (u128::MAX, false, 5),
            (u128::MAX, false, 5),
            (2, true, 5),
            (2, true, 5),
            (3, false, 6),
        ]
    );
}

#[test]
fn what_can_never_be_counted_is_dead_and_all_else_is_sent_again() {
    for (outcome, expected) in [
        (KeyedOutcome::Counted(recorded()), WriteOutcome::Done),
        (KeyedOutcome::Replayed(recorded()), WriteOutcome::Done),
        (
            KeyedOutcome::Ended,
            WriteOutcome::Dead(DeadLetterReason::Ended),
        ),
        (
            KeyedOutcome::Reused,
            WriteOutcome::Dead(DeadLetterReason::Reused),
        ),
        (
            KeyedOutcome::BelowFloorBefore,
            WriteOutcome::Dead(DeadLetterReason::Reused),
        ),
        (KeyedOutcome::Full, WriteOutcome::Later),
        (KeyedOutcome::NeedsView, WriteOutcome::Later),
    ] {
        assert_eq!(verdict(outcome), expected);
    }
}

#[test]
fn waits_double_and_end() {
    let waits: Vec<i64> = [0, 1, 2, 6, 7, 100].map(retry_after_ms).into();
    assert_eq!(waits, [250, 500, 1_000, 16_000, 30_000, 30_000]);
    let waits: Vec<u32> = [1, 2, 9, 10, u32::MAX].map(retry_seconds).into();
    assert_eq!(waits, [2, 4, 512, 600, 600]);
}

#[test]
fn a_queue_is_over_once_nothing_that_it_was_given_can_be_counted_any_more() {
    const DAY_MS: i64 = 86_400_000;
    let first_ms = 20_000 * DAY_MS;
    for given_ms in [first_ms, first_ms + DAY_MS / 2, first_ms + DAY_MS - 1] {
        let queue = InboxId::of_queue_at(given_ms);
        assert!(queue.is_queue());
        assert_eq!(queue, InboxId::of_queue_at(first_ms));
        // A day for clocks, besides.
        assert!(!queue.is_over(given_ms + COUNTED_WITHIN_MS + DAY_MS));
        assert!(queue.is_over(given_ms + COUNTED_WITHIN_MS + 2 * DAY_MS));
        let counter = CounterId::parse("a".to_owned()).expect("an id");
        let key = WriteNumbers::default().next(&counter, given_ms, &mut || 7);
        assert!(is_over(key, given_ms + COUNTED_WITHIN_MS));
    }
    for other in [
        InboxId::of_queue(),
        InboxId {
            number: 0,
            ..InboxId::of_queue_at(0)
        },
    ] {
        assert!(!other.is_over(i64::MAX));
    }
}
