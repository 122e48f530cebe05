//! Law: the rows of a cell are the cell. After every commit a crash loses nothing: a cell that is
//! put together from the rows answers every question as the one in memory.

use crate::common;
use crate::common::living;

use std::collections::{BTreeMap, BTreeSet};

use common::config;
use living::{BEGIN, Event, Shell, element, event, grant, key, uniques};
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Changes, Load};
use tally_core::counter::history::{MINUTES_KEPT, Resolution};
use tally_core::counter::nonces::Nonce;

proptest! {
    #![proptest_config(config(31, 200))]

    #[test]
    fn a_crash_after_any_commit_loses_nothing(events in vec(event(), 0..30)) {
        let mut shell = Shell::new();
        for event in events {
            shell.take(event);
            if shell.together == Changes::default() {
                shell.check()?;
            }
        }
        shell.commit();
        shell.check()?;
    }
}

#[test]
fn an_old_log_does_not_drop_elements_of_a_minute_that_nobody_closed() {
    let mut shell = Shell::new();
    let flush = |tokens: Vec<(i64, u8)>| Event::Flush {
        live: Vec::new(),
        past: Vec::new(),
        tokens,
        by: 7,
        is_joined: false,
    };
    shell.take(flush(vec![(0, 1), (0, 2)]));
    // The open minute leaves the time that minutes are kept for; then only an old log comes in.
    shell.take(Event::Tick(MINUTES_KEPT + 120));
    shell.take(flush(vec![(-300_000_000, 3)]));
    shell.take(Event::Crash);
    let all = [1, 2, 3].map(|seen| element(7, seen));
    let all = uniques(all.map(|element| (element.source(key(7).id(), 1), element.token)));
    assert_eq!(shell.cell.uniques(), all);
}

#[test]
fn a_plain_flush_writes_the_hot_row_and_one_sketch_at_most() {
    let mut cell = CellState::default();
    cell.take_grant(grant(1), BEGIN * 1_000);
    let mut writes = BTreeMap::new();
    for number in 1..=20 {
        let load = Load {
            added: 1,
            live: vec![(BEGIN, 1)],
            tokens: vec![(BEGIN, element(7, 1))],
            hash: key(7).id(),
            ..Load::default()
        };
        let nonce = Nonce { lane: 1, number };
        let (_, changes) = cell.apply(nonce, &load, BEGIN * 1_000).expect("counted");
        assert!(changes.hot && changes.pages.is_empty() && !changes.all_time);
        *writes.entry(changes.minutes.len()).or_insert(0) += 1;
    }
    // The second time the element is no news.
    assert_eq!(writes, BTreeMap::from([(0, 19), (1, 1)]));

    let load = Load {
        added: 1,
        live: vec![(BEGIN + 60, 1)],
        ..Load::default()
    };
    let nonce = Nonce {
        lane: 1,
        number: 21,
    };
    let next_ms = (BEGIN + 60) * 1_000;
    let (_, changes) = cell.apply(nonce, &load, next_ms).expect("counted");
    let steps: BTreeSet<Resolution> = changes.pages.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, BTreeSet::from(Resolution::PAGED));
    assert_eq!(changes.pages.len(), 3, "one page of each step");
}
