//! Law: what cannot be counted now takes no more rows of an inbox the longer it lasts, loses nothing, and leaves the
//! batches of others as they are.

use crate::common;

use std::collections::BTreeMap;
use std::convert::Infallible;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::nonces::Nonce;
use tally_core::counter::numbered_writes::WriteNumbers;
use tally_core::counter::queue::deferred_writes::DeferredWrites;
use tally_core::counter::queue::inbox::{InboxBatch, begin};
use tally_core::counter::queue::write_outcome::WriteOutcome;
use tally_core::counter::queue::{BATCH_ENTRIES_MAX, Event, LogRow};

const NOW_MS: i64 = 1_777_593_630_000;

fn counter(number: u8) -> CounterId {
    CounterId::parse(format!("c{number}")).expect("an id")
}

/// An inbox whose storage never fails, and leads that answer or do not.
#[derive(Default)]
struct Inbox {
    parked: DeferredWrites,
    numbering: WriteNumbers,
    rows: BTreeMap<i64, InboxBatch>,
    lanes: u64,
    number: i64,
    second: i64,
    counted: BTreeMap<CounterId, u128>,
    keys: BTreeMap<(CounterId, WriteKey), u128>,
}

impl Inbox {
    fn gather(&mut self, events: &[(u8, u128)]) -> Result<(), TestCaseError> {
        let mut event = |(number, delta): &(u8, u128)| {
            self.second += 1;
            let event = Event {
                counter: counter(*number),
                delta: *delta,
                second: self.second,
                key: None,
            };
            (5, event)
        };
        let row = LogRow {
            nonce: Nonce { lane: 1, number: 1 },
            at_ms: NOW_MS,
            events: events.iter().map(&mut event).collect(),
        };
        let (parked, numbering) = (&mut self.parked, &mut self.numbering);
        let lane = self.lanes;
        let mut new_key = |counter: &CounterId| numbering.next(counter, NOW_MS, &mut || lane);
        let mut next = begin(
            self.number + 1,
            vec![(1, Some(row))],
            NOW_MS,
            &mut |counter| {
                if parked.holds(counter) {
                    WriteKey([0; 16])
                } else {
                    new_key(counter)
                }
            },
        );
        let stored = |row: i64| Ok::<_, Infallible>(self.rows[&row].deliveries.clone());
        let Ok(waiting) = parked.set_aside(&mut next.batch, stored, &mut new_key);
        prop_assert!(
            next.batch
                .deliveries
                .iter()
                .all(|due| !parked.holds(&due.counter))
        );
        parked.wait_in(&waiting);
        for row in waiting.into_iter().chain([next.batch]) {
            self.number = self.number.max(row.number);
            for due in &row.deliveries {
                prop_assert!(due.write.key != WriteKey([0; 16]));
                let seconds: u128 = due.write.past.iter().map(|(_, amount)| amount).sum();
                prop_assert_eq!(seconds, due.write.added);
            }
            if !row.deliveries.is_empty() {
                self.rows.insert(row.number, row);
            }
        }
        Ok(())
    }

    /// Sends what may be sent; leads of these counters do not answer.
    fn send(&mut self, away: &[u8]) -> Result<(), TestCaseError> {
        let away: Vec<CounterId> = away.iter().map(|number| counter(*number)).collect();
        for number in self.rows.keys().copied().collect::<Vec<_>>() {
            if self.parked.is_waiting(number) {
                continue;
            }
            let mut batch = self.rows.remove(&number).expect("it is there");
            let before: Vec<CounterId> = batch
                .deliveries
                .iter()
                .map(|due| due.counter.clone())
                .collect();
            let mut verdicts = Vec::new();
            for (place, due) in batch.deliveries.iter().enumerate() {
                if away.contains(&due.counter) {
                    continue;
                }
                verdicts.push((place, WriteOutcome::Done));
                let key = (due.counter.clone(), due.write.key);
                prop_assert_eq!(
                    self.keys.insert(key, due.write.added),
                    None,
                    "a key is one write's"
                );
                *self.counted.entry(due.counter.clone()).or_default() += due.write.added;
            }
            batch.resolve(verdicts, NOW_MS);
            self.parked.record_outcome(&batch, &before);
            if !batch.deliveries.is_empty() {
                self.rows.insert(number, batch);
            }
        }
        Ok(())
    }

    fn restart(&mut self) {
        self.parked = DeferredWrites::default();
        let all: Vec<InboxBatch> = self.rows.values().cloned().collect();
        self.parked.restore(&all);
        self.numbering = WriteNumbers::default();
        self.lanes += 1;
    }
}

proptest! {
    #![proptest_config(config(171, 128))]

    #[test]
    fn every_event_is_counted_once_whichever_leads_are_away_and_when(
        turns in vec((vec((0..4_u8, 1..9_u128), 0..6), vec(0..4_u8, 0..3), 0..12_u8), 1..40),
    ) {
        let mut inbox = Inbox::default();
        let mut sent: BTreeMap<CounterId, u128> = BTreeMap::new();
        for (events, away, restarts) in turns {
            for (number, delta) in &events {
                *sent.entry(counter(*number)).or_default() += delta;
            }
            inbox.gather(&events)?;
            inbox.send(&away)?;
            if restarts == 0 {
                inbox.restart();
            }
        }
        for _ in 0..3 {
            inbox.send(&[])?;
        }
        prop_assert!(inbox.rows.is_empty() && inbox.parked.rows() == 0);
        prop_assert_eq!(inbox.counted, sent);
    }
}

#[test]
fn a_counter_that_is_away_for_a_day_takes_two_rows_and_holds_up_nobody() -> Result<(), TestCaseError>
{
    let mut inbox = Inbox::default();
    let mut events = vec![(0, 1); 500];
    events.push((1, 1));
    for number in 1..=80 {
        inbox.gather(&events)?;
        inbox.send(&[0])?;
        assert_eq!(inbox.counted[&counter(1)], number);
        let rows = inbox.rows.values();
        let of_it = rows.filter(|row| row.deliveries[0].counter == counter(0));
        assert!(of_it.count() <= 2);
    }
    let mut deliveries = inbox.rows.values().flat_map(|row| &row.deliveries);
    assert!(deliveries.all(|due| due.write.past.len() <= BATCH_ENTRIES_MAX));
    inbox.send(&[])?;
    inbox.send(&[])?;
    assert_eq!(inbox.counted[&counter(0)], 80 * 500);
    Ok(())
}
