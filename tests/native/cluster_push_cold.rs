//! Law: while nobody watches a counter its lead pushes what was written within seconds of the last write, while its
//! object is open still, and within a minute where it is never quiet; while it is written every few seconds, at most
//! once a minute; and not at all where nothing changed, whatever is lost.

use crate::common;

use common::config;
use common::pushing::{GENERATION, state_of};
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::delta::{DeltaOutcome, Marks, ViewReceiver};
use tally_core::cluster::push::{CHECKPOINT_MS, PushAnswer, Pusher, QUIET_MS, TOGETHER};
use tally_core::cluster::view::View;
use tally_core::counter::id::Datacenter;

const NOW_MS: i64 = 1_777_593_630_000;

/// How long the platform leaves an idle object open.
const IDLE_MS: i64 = 10_000;

/// Writes at these times, each push confirmed. Returns when pushes left.
fn pushes(writes_ms: &[i64]) -> Vec<i64> {
    let fra = Datacenter::parse("FRA").unwrap_or_else(Datacenter::local);
    let mut pusher = Pusher::new(GENERATION, 5);
    let mut root = ViewReceiver::new(View::new(GENERATION), Marks::new());
    let mut sent_ms = Vec::new();
    let mut writes = writes_ms.iter().peekable();
    for now_ms in 0..10 * CHECKPOINT_MS {
        if writes.next_if(|write_ms| **write_ms == now_ms).is_some() {
            pusher.changed(now_ms);
        }
        let sequence = u64::try_from(now_ms).unwrap_or(0) + 1;
        let gathered = pusher
            .wants_state(now_ms)
            .then(|| state_of(&fra, sequence, now_ms));
        if let Some(push) = pusher.take(now_ms, gathered.as_ref()) {
            sent_ms.push(now_ms);
            if let DeltaOutcome::Applied(have) = root.take(&fra, &push.delta) {
                let number = push.number;
                pusher.confirmed(
                    now_ms,
                    &PushAnswer {
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
        let mut root = ViewReceiver::new(View::new(GENERATION), Marks::new());
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
                let gathered = pusher.wants_state(now_ms).then(|| state_of(&fra, sequence, now_ms));
                let Some(push) = pusher.take(now_ms, gathered.as_ref()) else { continue };
                if let Some(since_ms) = unseen_since_ms.take_if(|_| gathered.is_some()) {
                    prop_assert!(now_ms - since_ms <= CHECKPOINT_MS, "a write waited for {} ms", now_ms - since_ms);
                }
                if let Some(last_ms) = pushed_ms.last() {
                    let since_ms = now_ms - last_ms;
                    prop_assert!(since_ms >= QUIET_MS.1, "{since_ms} ms after the last");
                    let is_quiet = now_ms - written_ms >= QUIET_MS.0;
                    prop_assert!(is_quiet || since_ms >= CHECKPOINT_MS, "{since_ms} ms after the last");
                }
                pushed_ms.push(now_ms);
                // At the end everything gets through.
                if !writes || confirms.next().unwrap_or(true) {
                    let DeltaOutcome::Applied(have) = root.take(&fra, &push.delta) else { continue };
                    pusher.confirmed(now_ms, &PushAnswer { number: push.number, have, watch_for_ms: 0, now_ms });
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
        let known = root.view().report_of(&fra).map(|report| report.progress);
        prop_assert_eq!(known, Some(sequence), "the root has all in the end");
        prop_assert_eq!(pusher.due_ms(now_ms), None, "nothing is said where nothing changed");
    }
}

/// A cell of a tablet: its pusher, what its root has, and when its alarm rings.
struct Tenant {
    pusher: Pusher,
    root: ViewReceiver,
    alarm_ms: Option<i64>,
}

impl Tenant {
    fn arm(&mut self, now_ms: i64) {
        let due_ms = self.pusher.due_ms(now_ms);
        let Some(due_ms) = due_ms.map(|due_ms| due_ms.max(now_ms + 1_000)) else {
            return;
        };
        let (step_ms, _) = TOGETHER;
        let at_ms = (due_ms + step_ms - 1) / step_ms * step_ms;
        self.alarm_ms = Some(self.alarm_ms.map_or(at_ms, |set_ms| set_ms.min(at_ms)));
    }

    /// Its alarm rings; whether it pushes.
    fn ring(&mut self, now_ms: i64, sequence: u64) -> bool {
        self.alarm_ms = None;
        let fra = Datacenter::local();
        let push = match self.pusher.wants_state(now_ms) {
            true => self
                .pusher
                .take(now_ms, Some(&state_of(&fra, sequence, now_ms))),
            false => None,
        };
        if let Some(push) = &push {
            let DeltaOutcome::Applied(have) = self.root.take(&fra, &push.delta) else {
                panic!("another generation");
            };
            let pushed = PushAnswer {
                number: push.number,
                have,
                watch_for_ms: 0,
                now_ms,
            };
            self.pusher.confirmed(now_ms, &pushed);
        }
        self.arm(now_ms);
        push.is_some()
    }
}

/// Messages of a minute, after a while, from a tablet with so many counters that are each written every so often.
fn messages_per_minute(counters: i64, every_ms: i64) -> usize {
    let mut tenants: Vec<Tenant> = (0..counters)
        .map(|number| Tenant {
            pusher: Pusher::new(1, number.unsigned_abs()),
            root: ViewReceiver::new(View::new(1), Marks::new()),
            alarm_ms: None,
        })
        .collect();
    let (_, together) = TOGETHER;
    let mut messages = 0;
    for second in 0..180_i64 {
        let now_ms = NOW_MS + second * 1_000;
        let mut pushes = 0_usize;
        for (number, tenant) in (0..).zip(&mut tenants) {
            if tenant.alarm_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                pushes += usize::from(tenant.ring(now_ms, second.unsigned_abs() + 1));
            }
            // Written at a moment of its own of this second, if at all.
            let moment = (number * 7_919) % every_ms;
            let written_ms = now_ms + (moment - second * 1_000).rem_euclid(every_ms);
            if written_ms < now_ms + 1_000 {
                tenant.pusher.changed(written_ms);
                tenant.arm(written_ms);
            }
        }
        if second >= 120 {
            messages += pushes.div_ceil(together);
        }
    }
    messages
}

#[test]
fn ten_million_counters_in_64_partitions_take_few_messages_of_each() {
    // A fortieth of what one partition has, in one tablet; messages grow with it, so 200 a second of all are 300 a
    // minute.
    const SCALE: i64 = 40;
    let counters = 10_000_000 / 64 / SCALE;
    let always = messages_per_minute(counters, 4_000);
    // Each write is followed by quiet, so each is pushed: the worst there is.
    let worst = messages_per_minute(counters, 9_000);
    eprintln!("{always} messages a minute of {counters} counters, {worst} at worst");
    assert!(always <= 60 && worst <= 300, "{always} and {worst}");
}
