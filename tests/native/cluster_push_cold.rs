//! Law: while nobody watches a counter its lead pushes what was written within seconds of the last write, while its
//! object is open still, and within a minute where it is never quiet; while it is written every few seconds, at most once
//! a minute; and not at all where nothing changed, whatever is lost.

use crate::common;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally::core::cluster::delta::{Gathering, Marks, Taken};
use tally::core::cluster::push::{CHECKPOINT_MS, Pushed, Pusher, QUIET_MS};
use tally::core::cluster::view::{DatacenterState, View};
use tally::core::counter::id::Datacenter;
use tally::core::counter::merge::CellTotals;
use tally::core::sketch::Uniques;

const NOW_MS: i64 = 1_777_593_630_000;
const GENERATION: u64 = 1;

fn state(fra: &Datacenter, sequence: u64, as_of_ms: i64) -> View {
    let totals = CellTotals {
        generation: GENERATION,
        sequence,
        added: u128::from(sequence).into(),
        removed: 0.into(),
    };
    View::of(DatacenterState {
        generation: GENERATION,
        datacenter: fra,
        cells: &[(0, totals)],
        as_of_ms,
        last_write_ms: as_of_ms,
        uniques: Uniques::new(),
    })
}

/// How long the platform leaves an idle object open.
const IDLE_MS: i64 = 10_000;

/// Writes at these times, each push confirmed. Returns when pushes left.
fn pushes(writes_ms: &[i64]) -> Vec<i64> {
    let fra = Datacenter::parse("FRA").unwrap_or_else(Datacenter::local);
    let mut pusher = Pusher::new(GENERATION, 5);
    let mut root = Gathering::new(View::new(GENERATION), Marks::new());
    let mut sent_ms = Vec::new();
    let mut writes = writes_ms.iter().peekable();
    for now_ms in 0..10 * CHECKPOINT_MS {
        if writes.next_if(|write_ms| **write_ms == now_ms).is_some() {
            pusher.changed(now_ms);
        }
        let sequence = u64::try_from(now_ms).unwrap_or(0) + 1;
        let gathered = pusher
            .wants_state(now_ms)
            .then(|| state(&fra, sequence, now_ms));
        if let Some(push) = pusher.take(now_ms, gathered.as_ref()) {
            sent_ms.push(now_ms);
            if let Taken::Over(have) = root.take(&fra, &push.delta) {
                let number = push.number;
                pusher.confirmed(
                    now_ms,
                    &Pushed {
                        number,
                        have,
                        watch_for_ms: 0,
                        now_ms,
                    },
                );
            }
        }
    }
    sent_ms
}

#[test]
fn what_is_written_once_is_pushed_while_its_object_is_open() {
    const { assert!(QUIET_MS.0 < QUIET_MS.1 && QUIET_MS.1 < IDLE_MS) };
    assert_eq!(pushes(&[0]), [QUIET_MS.0]);
    assert_eq!(pushes(&[0, 1_000, 2_500]), [2_500 + QUIET_MS.0]);
    let again = [0, 5_000];
    assert_eq!(pushes(&again), [QUIET_MS.0, 5_000 + QUIET_MS.1]);
    let after_long = [0, 2 * CHECKPOINT_MS];
    assert_eq!(
        pushes(&after_long),
        after_long.map(|at_ms| at_ms + QUIET_MS.0)
    );
}

#[test]
fn a_counter_that_is_written_every_few_seconds_costs_a_push_a_minute() {
    for every_ms in [100, 1_000, 2_900, 7_000] {
        let writes: Vec<i64> = (0..5 * CHECKPOINT_MS / every_ms)
            .map(|write| write * every_ms)
            .collect();
        let sent = pushes(&writes);
        assert!(
            sent.len() <= 7,
            "{} pushes in 5 minutes of a write in {every_ms} ms",
            sent.len()
        );
        let last = writes.last().copied().unwrap_or(0);
        let after_last = sent.last().map(|sent| sent - last);
        assert!(
            after_last.is_some_and(|ms| (0..IDLE_MS).contains(&ms)),
            "{after_last:?}"
        );
    }
}

proptest! {
    #![proptest_config(config(91, 128))]

    #[test]
    fn a_cold_counter_is_pushed_soon_and_seldom(
        // Pauses between writes, and whether the root confirms each push.
        pauses_ms in vec(prop_oneof![1..50_i64, 50..3_000_i64, 30_000..200_000_i64], 1..60),
        confirms in vec(any::<bool>(), 64),
    ) {
        let fra = Datacenter::parse("FRA").unwrap_or_else(Datacenter::local);
        let mut pusher = Pusher::new(GENERATION, 5);
        let mut root = Gathering::new(View::new(GENERATION), Marks::new());
        let mut pushed_ms: Vec<i64> = Vec::new();
        let mut now_ms = NOW_MS;
        let mut sequence = 0;
        let mut written_ms = NOW_MS;
        let mut unseen_since_ms: Option<i64> = None;
        let mut confirms = confirms.into_iter().cycle();
        let rest = [10 * CHECKPOINT_MS];
        for (pause_ms, writes) in pauses_ms.iter().map(|pause| (*pause, true)).chain(rest.map(|rest| (rest, false))) {
            let next_ms = now_ms + pause_ms;
            while let Some(due_ms) = pusher.due_ms(now_ms).filter(|due| *due <= next_ms) {
                now_ms = now_ms.max(due_ms);
                let gathered = pusher.wants_state(now_ms).then(|| state(&fra, sequence, now_ms));
                let Some(push) = pusher.take(now_ms, gathered.as_ref()) else { continue };
                if let Some(since_ms) = unseen_since_ms.take_if(|_| gathered.is_some()) {
                    prop_assert!(now_ms - since_ms <= CHECKPOINT_MS, "a write waited for {} ms", now_ms - since_ms);
                }
                if let Some(last_ms) = pushed_ms.last() {
                    prop_assert!(now_ms - last_ms >= QUIET_MS.1, "{} ms after the last", now_ms - last_ms);
                    let is_quiet = now_ms - written_ms >= QUIET_MS.0;
                    prop_assert!(is_quiet || now_ms - last_ms >= CHECKPOINT_MS, "{} ms after the last", now_ms - last_ms);
                }
                pushed_ms.push(now_ms);
                // At the end everything gets through.
                if !writes || confirms.next().unwrap_or(true) {
                    let Taken::Over(have) = root.take(&fra, &push.delta) else { continue };
                    pusher.confirmed(now_ms, &Pushed { number: push.number, have, watch_for_ms: 0, now_ms });
                }
            }
            now_ms = next_ms;
            if writes {
                sequence += 1;
                written_ms = now_ms;
                pusher.changed(now_ms);
                unseen_since_ms.get_or_insert(now_ms);
            }
        }
        let known = root.view().heard_of(&fra).map(|heard| heard.progress);
        prop_assert_eq!(known, Some(sequence), "the root has all in the end");
        prop_assert_eq!(pusher.due_ms(now_ms), None, "nothing is said where nothing changed");
    }
}
