//! Laws of an inbox's start: what is read of the log is bounded, however long it is, and no append is logged twice for
//! it.

use crate::common;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::id::CounterId;
use tally_core::counter::nonces::{Nonce, Nonces};
use tally_core::counter::queue::inbox::{
    AppendOutcome, InboxState, NONCES_EVERY_ROWS, last_within,
};
use tally_core::counter::queue::{
    APPEND_ENTRIES_MAX, Event, LOG_ROWS_MAX, LOGGED_HEAD_BYTES, LogRow, LogRowHead,
};
use tally_wire::messages::{decode, encode};

/// 1 May 2026, 00:00:30 UTC.
const NOW_MS: i64 = 1_777_593_630_000;

/// What an inbox has on disk, as its shell writes it.
#[derive(Default)]
struct Disk {
    nonces: Nonces,
    nonces_upto: i64,
    log: BTreeMap<i64, LogRowHead>,
    /// Numbers that rows ever had.
    numbers: u64,
}

impl Disk {
    /// Returns the head, and how many rows were read for it.
    fn start(&self) -> (InboxState, usize) {
        let newer: Vec<(i64, Option<LogRowHead>)> = self
            .log
            .range(self.nonces_upto + 1..)
            .map(|(seq, row)| (*seq, Some(*row)))
            .collect();
        let ends = self.log.first_key_value().zip(self.log.last_key_value());
        let ends = ends.map(|((first, _), (last, _))| (*first, *last));
        let read = newer.len();
        let nonces = (self.nonces.clone(), self.nonces_upto);
        (InboxState::restore(None, nonces, 0, ends, newer), read)
    }

    fn append(&mut self, head: &mut InboxState, nonce: Nonce, at_ms: i64) -> AppendOutcome {
        let admission = head.admit(nonce, at_ms, LOG_ROWS_MAX);
        if let AppendOutcome::New(seq) = admission {
            if let Some(nonces) = head.nonces_with(nonce, seq, at_ms) {
                self.nonces = nonces;
                self.nonces_upto = seq;
            }
            let before = self.log.insert(seq, LogRowHead { nonce, at_ms });
            assert_eq!(before, None, "a row is written once");
            head.logged(nonce, seq, at_ms);
            self.numbers += 1;
        }
        admission
    }

    fn batch(&mut self, head: &mut InboxState, rows: usize) {
        let Some(upto) = self.log.keys().take(rows.max(1)).next_back().copied() else {
            return;
        };
        self.nonces = head.nonces.clone();
        self.nonces_upto = head.log.1;
        self.log.retain(|seq, _| *seq > upto);
        head.batched(1, upto);
    }
}

#[test]
fn a_start_with_a_full_log_reads_the_heads_of_its_newest_rows_alone() {
    let mut disk = Disk::default();
    let (mut head, _) = disk.start();
    for number in 0..LOG_ROWS_MAX {
        let nonce = Nonce {
            lane: number % 40,
            number,
        };
        let at_ms = NOW_MS + i64::try_from(number).expect("small");
        assert!(matches!(
            disk.append(&mut head, nonce, at_ms),
            AppendOutcome::New(_)
        ));
    }
    let (mut head, read) = disk.start();
    let bytes = i64::try_from(read).expect("few") * LOGGED_HEAD_BYTES;
    // 20,000 rows of 300 KB were read whole before.
    assert!(
        bytes <= NONCES_EVERY_ROWS * LOGGED_HEAD_BYTES,
        "{bytes} bytes"
    );
    assert_eq!(head.rows(), LOG_ROWS_MAX);
    let late_ms = NOW_MS + 30_000;
    let last = LOG_ROWS_MAX - 1;
    let repeated = Nonce {
        lane: last % 40,
        number: last,
    };
    assert_eq!(
        disk.append(&mut head, repeated, late_ms),
        AppendOutcome::Repeated
    );
    let more = Nonce {
        lane: 1,
        number: last + 2,
    };
    assert_eq!(disk.append(&mut head, more, late_ms), AppendOutcome::Full);
}

#[test]
fn the_head_of_a_row_is_told_from_its_first_bytes() {
    let event = Event {
        counter: CounterId::parse("a").expect("an id"),
        delta: 1,
        second: NOW_MS / 1_000,
        key: None,
    };
    for (lane, number, at_ms) in [(0, 0, 0), (7, 1, NOW_MS), (u64::MAX, u64::MAX, i64::MIN)] {
        let nonce = Nonce { lane, number };
        let events = vec![(7, event.clone()); APPEND_ENTRIES_MAX];
        let body = encode(&LogRow {
            nonce,
            at_ms,
            events,
        })
        .expect("it can be written");
        let most = usize::try_from(LOGGED_HEAD_BYTES).expect("few");
        let head: LogRowHead = decode(&body[..most]).expect("it can be read");
        assert_eq!(head, LogRowHead { nonce, at_ms });
    }
}

#[test]
fn a_batch_reads_as_many_rows_as_have_so_many_bytes_and_at_least_one() {
    let lengths = [(5, 300), (6, 300), (9, 400), (10, 1)];
    assert_eq!(last_within(&lengths, 1_001), Some(10));
    assert_eq!(last_within(&lengths, 1_000), Some(9));
    assert_eq!(last_within(&lengths, 999), Some(6));
    assert_eq!(last_within(&lengths, 1), Some(5));
    assert_eq!(last_within(&[], 1_000), None);
}

#[derive(Clone, Debug)]
enum Action {
    Append(u64),
    /// The newest append of a lane comes again.
    Repeat(u64),
    Batch(usize),
    Crash,
}

proptest! {
    #![proptest_config(config(92, 64))]

    #[test]
    fn no_append_is_logged_twice_whenever_the_inbox_starts_anew(
        actions in vec(prop_oneof![
            20 => (0..5_u64).prop_map(Action::Append),
            4 => (0..5_u64).prop_map(Action::Repeat),
            2 => (1..600_usize).prop_map(Action::Batch),
            1 => Just(Action::Crash),
        ], 1..2_000),
        holds_batches in any::<bool>(),
    ) {
        let mut disk = Disk::default();
        let (mut head, _) = disk.start();
        let mut sent: BTreeMap<u64, u64> = BTreeMap::new();
        let mut now_ms = NOW_MS;
        for action in actions {
            now_ms += 10;
            match action {
                Action::Append(lane) => {
                    let number = sent.get(&lane).map_or(0, |number| number + 1);
                    sent.insert(lane, number);
                    let admission = disk.append(&mut head, Nonce { lane, number }, now_ms);
                    prop_assert!(matches!(admission, AppendOutcome::New(_)));
                }
                Action::Repeat(lane) => {
                    let Some(number) = sent.get(&lane).copied() else { continue };
                    let admission = disk.append(&mut head, Nonce { lane, number }, now_ms);
                    prop_assert_eq!(admission, AppendOutcome::Repeated);
                }
                Action::Batch(_) if holds_batches => {}
                Action::Batch(rows) => disk.batch(&mut head, rows),
                Action::Crash => {
                    let rows = head.rows();
                    let (restored, read) = disk.start();
                    prop_assert!(i64::try_from(read).unwrap_or(i64::MAX) < NONCES_EVERY_ROWS);
                    prop_assert_eq!(restored.rows(), rows);
                    head = restored;
                }
            }
        }
        prop_assert_eq!(disk.numbers, sent.values().map(|number| number + 1).sum::<u64>());
    }
}
