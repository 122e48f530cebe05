//! When a lead pushes: often while watched, once a minute at most while not, and again until it is
//! confirmed.

use crate::common;

use common::config;
use common::pushing::state_of;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::delta::{Basis, DeltaOutcome, Marks, ViewReceiver};
use tally_core::cluster::push::{
    CHECKPOINT_MS, DOUBT_MS, HEARTBEAT_AGAIN_MS, HEARTBEAT_MS, LEASE_MS, PUSH_MS, Push, PushAnswer,
    Pusher, QUIET_MS, REPEAT_MS,
};
use tally_core::cluster::view::View;
use tally_core::counter::id::Datacenter;
use tally_core::isolate::view_fallback::PUSHED_MS_MAX;

fn here() -> Datacenter {
    Datacenter::parse("FRA").expect("a datacenter")
}

/// A lead with its pusher and its root.
struct Lead {
    pusher: Pusher,
    root: ViewReceiver,
    sequence: u64,
    now_ms: i64,
    /// How far the root's clock is ahead of the lead's.
    root_ahead_ms: i64,
    /// When pushes left.
    sent_ms: Vec<i64>,
    /// Answers on their way, with when they arrive.
    answers: Vec<(i64, PushAnswer)>,
}

impl Lead {
    fn new() -> Self {
        Self {
            pusher: Pusher::new(1, 9),
            root: ViewReceiver::new(View::new(1), Marks::new()),
            sequence: 0,
            now_ms: 1_000_000,
            root_ahead_ms: 0,
            sent_ms: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn write(&mut self) {
        self.sequence += 1;
        self.pusher.changed(self.now_ms);
    }

    fn take(&mut self) -> Option<Push> {
        let fresh = state_of(&here(), self.sequence, self.pusher.as_of_ms(self.now_ms));
        let wants = self.pusher.wants_state(self.now_ms);
        let push = self.pusher.take(self.now_ms, wants.then_some(&fresh));
        self.sent_ms.extend(push.as_ref().map(|_| self.now_ms));
        push
    }

    fn answer(&mut self, push: &Push, watch_for_ms: u32) -> PushAnswer {
        let DeltaOutcome::Applied(have) = self.root.take(&here(), &push.delta) else {
            unreachable!("there is one generation");
        };
        PushAnswer {
            number: push.number,
            have,
            watch_for_ms,
            now_ms: self.now_ms + self.root_ahead_ms,
        }
    }

    /// Walks the clock to the end, millisecond by millisecond; what leaves is answered after
    /// `round_trip_ms`, unless `is_lost` says so.
    fn walk(
        &mut self,
        for_ms: i64,
        round_trip_ms: i64,
        lease_ms: u32,
        is_lost: impl Fn(usize) -> bool,
    ) {
        for _ in 0..for_ms {
            let arrived: Vec<_> = self
                .answers
                .extract_if(.., |(at_ms, _)| *at_ms <= self.now_ms)
                .collect();
            for (_, pushed) in arrived {
                self.pusher.confirmed(self.now_ms, &pushed);
            }
            if let Some(push) = self.take()
                && !is_lost(self.sent_ms.len())
            {
                let pushed = self.answer(&push, lease_ms);
                self.answers.push((self.now_ms + round_trip_ms, pushed));
            }
            self.now_ms += 1;
        }
    }

    fn intervals(&self) -> Vec<i64> {
        self.sent_ms.windows(2).map(|two| two[1] - two[0]).collect()
    }
}

const WATCHED: u32 = 10_000;

#[test]
fn the_oldest_change_waits_until_a_push_with_it_is_answered() {
    let mut lead = Lead::new();
    assert_eq!(lead.pusher.unreported_for_ms(lead.now_ms), 0);
    lead.pusher.watch(lead.now_ms, WATCHED);
    let mut longest_ms = 0;
    // Pushes overlap: several are on their way at each moment.
    for _ in 0..400 {
        lead.write();
        lead.walk(25, 900, WATCHED, |_| false);
        longest_ms = longest_ms.max(lead.pusher.unreported_for_ms(lead.now_ms));
    }
    assert!((900..3_000).contains(&longest_ms), "{longest_ms} ms");
    lead.walk(5_000, 900, WATCHED, |_| false);
    assert_eq!(lead.pusher.unreported_for_ms(lead.now_ms), 0);
    // Nothing arrives any more.
    lead.write();
    lead.walk(20_000, 900, WATCHED, |_| true);
    assert_eq!(lead.pusher.unreported_for_ms(lead.now_ms), 20_000);
}

#[test]
fn a_lead_that_counted_nothing_is_silent() {
    let mut lead = Lead::new();
    lead.walk(3 * CHECKPOINT_MS, 80, 0, |_| false);
    assert_eq!(lead.sent_ms, Vec::<i64>::new());
}

#[test]
fn an_unwatched_lead_that_is_never_quiet_checkpoints_once_a_minute_and_only_after_a_change() {
    let mut lead = Lead::new();
    for _ in 0..100 {
        lead.write();
        lead.walk(2_000, 80, 0, |_| false);
    }
    // The minute begins with the first change after the last push.
    assert_eq!(lead.intervals(), [CHECKPOINT_MS + 2_000; 2]);
    assert_eq!(lead.sent_ms.len(), 3);
    lead.walk(QUIET_MS.1, 80, 0, |_| false);
    let push_count = lead.sent_ms.len();
    assert_eq!(lead.root.view().value().to_string(), "100");
    lead.walk(5 * CHECKPOINT_MS, 80, 0, |_| false);
    assert_eq!(lead.sent_ms.len(), push_count, "nothing has changed since");
}

#[test]
fn a_lost_checkpoint_is_repeated_no_sooner_than_a_minute() {
    let mut lead = Lead::new();
    lead.write();
    lead.walk(3 * CHECKPOINT_MS + 10, 80, 0, |number| number == 1);
    assert_eq!(lead.intervals(), [CHECKPOINT_MS]);
    assert_eq!(lead.root.view().value().to_string(), "1");
}

#[test]
fn a_watched_lead_pushes_a_change_at_once_and_then_every_250_ms() {
    let mut lead = Lead::new();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.walk(1_000, 20, WATCHED, |_| false);
    lead.sent_ms.clear();
    for _ in 0..100 {
        lead.write();
        lead.walk(10, 20, WATCHED, |_| false);
    }
    let began_ms = lead.now_ms - 1_000;
    let pushes = [0, 1, 2, 3].map(|number| began_ms + number * PUSH_MS);
    assert_eq!(lead.sent_ms, pushes);
}

#[test]
fn a_watched_lead_that_has_nothing_new_pushes_its_heartbeat() {
    let mut lead = Lead::new();
    lead.write();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.walk(20_000, 50, WATCHED, |_| false);
    assert_eq!(lead.sent_ms.len(), 10);
    assert_eq!(lead.intervals(), [HEARTBEAT_MS; 9]);
    let report = lead.root.view().report_of(&here()).expect("heard of");
    assert!(lead.now_ms - report.as_of_ms <= HEARTBEAT_MS);
}

#[test]
fn a_change_does_not_wait_for_a_heartbeat_that_told_nothing() {
    let mut lead = Lead::new();
    lead.write();
    lead.pusher.watch(lead.now_ms, WATCHED);
    while lead.sent_ms.len() < 3 {
        lead.walk(1, 0, WATCHED, |_| false);
    }
    // The third was a heartbeat.
    lead.write();
    lead.walk(1, 0, WATCHED, |_| false);
    assert_eq!(lead.intervals(), [HEARTBEAT_MS, HEARTBEAT_MS, 1]);
}

#[test]
fn a_heartbeat_that_gets_lost_leaves_again_until_one_is_answered() {
    let mut lead = Lead::new();
    lead.write();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.walk(7_000, 50, WATCHED, |number| (3..=4).contains(&number));
    let again_ms = HEARTBEAT_AGAIN_MS;
    assert_eq!(
        lead.intervals(),
        [HEARTBEAT_MS, HEARTBEAT_MS, again_ms, again_ms, HEARTBEAT_MS]
    );
    // Two may be lost, and its word still is young enough for readers.
    const { assert!(HEARTBEAT_MS + 2 * HEARTBEAT_AGAIN_MS + 174 < PUSHED_MS_MAX) };
}

#[test]
fn what_is_not_confirmed_leaves_again_every_100_ms_until_it_is() {
    let mut lead = Lead::new();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.write();
    lead.walk(700, 300, WATCHED, |number| number <= 2);
    // At 0, 100 and 200 ms, then at 300, 400 and 500 since the first answer takes 300 ms.
    assert_eq!(lead.intervals(), [REPEAT_MS; 4]);
    assert_eq!(lead.root.view().value().to_string(), "1");
}

#[test]
fn a_root_out_of_reach_is_tried_every_100_ms() {
    let mut lead = Lead::new();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.write();
    lead.walk(3 * LEASE_MS, 300, WATCHED, |_| true);
    let intervals = lead.intervals();
    assert_eq!(intervals, vec![REPEAT_MS; intervals.len()]);
    assert!(intervals.len() > 290);
}

#[test]
fn the_first_push_asks_what_the_root_lacks_and_later_ones_build_upon_its_answer() {
    let mut lead = Lead::new();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.write();
    let first = lead.take().expect("a push");
    assert_eq!((first.number, first.delta.basis), (1, Basis::Whole));
    assert_eq!(first.watched_for_ms, WATCHED);
    let pushed = lead.answer(&first, WATCHED);
    lead.pusher.confirmed(lead.now_ms, &pushed);
    lead.now_ms += PUSH_MS;
    lead.write();
    let second = lead.take().expect("a push");
    assert!(matches!(second.delta.basis, Basis::Revision(_)));
}

#[test]
fn an_answer_that_is_late_takes_nothing_back() {
    let mut lead = Lead::new();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.write();
    let first = lead.take().expect("a push");
    lead.now_ms += PUSH_MS;
    lead.write();
    let second = lead.take().expect("a push");
    let one = lead.answer(&first, 0);
    let other = lead.answer(&second, WATCHED);
    lead.pusher.confirmed(lead.now_ms, &other);
    lead.pusher.confirmed(lead.now_ms, &one);
    // Neither does the root's older word that nobody watched end the lease.
    assert!(lead.pusher.is_watched(lead.now_ms));
    assert_eq!(
        lead.pusher.due_ms(lead.now_ms),
        Some(lead.now_ms + HEARTBEAT_MS)
    );
}

#[test]
fn a_root_that_has_forgotten_is_told_again() {
    let mut lead = Lead::new();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.write();
    lead.walk(500, 20, WATCHED, |_| false);
    lead.root = ViewReceiver::new(View::new(1), Marks::new());
    lead.write();
    lead.walk(500, 20, WATCHED, |_| false);
    assert_eq!(lead.root.view().value().to_string(), "2");
    assert_eq!(lead.root.marks().len(), 1);
}

#[test]
fn a_clock_that_jumps_ahead_ends_no_watch() {
    let mut lead = Lead::new();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.write();
    lead.walk(1_000, 20, WATCHED, |_| false);
    lead.now_ms += 600_000;
    // It says that its lease is over, and the root, which is watched, renews it.
    let push_count = lead.sent_ms.len();
    lead.walk(400, 20, WATCHED, |number| number == push_count + 1);
    assert!(lead.pusher.is_watched(lead.now_ms));
    lead.write();
    lead.walk(PUSH_MS, 20, WATCHED, |_| false);
    assert_eq!(lead.root.view().value().to_string(), "2");
}

#[test]
fn a_lead_whose_lease_is_over_asks_until_it_is_answered() {
    let mut lead = Lead::new();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.walk(LEASE_MS, 20, 0, |_| false);
    let push_count = lead.sent_ms.len();
    lead.walk(2 * CHECKPOINT_MS, 20, 0, |_| false);
    // Nobody watches, and nothing has changed: nothing else is said.
    assert_eq!(lead.sent_ms.len(), push_count + 1);
    assert!(!lead.pusher.is_watched(lead.now_ms));
}

#[test]
fn a_partition_that_outlasts_the_lease_heals_as_soon_as_a_short_one() {
    let mut lead = Lead::new();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.walk(1_000, 20, WATCHED, |_| false);
    lead.write();
    lead.walk(60 * LEASE_MS, 20, WATCHED, |_| true);
    lead.write();
    lead.walk(REPEAT_MS + 20, 20, WATCHED, |_| false);
    assert_eq!(lead.root.view().value().to_string(), "2");
    assert!(lead.pusher.is_watched(lead.now_ms));
    // It does not go on for ever.
    lead.walk(DOUBT_MS + LEASE_MS, 20, WATCHED, |_| true);
    assert!(!lead.pusher.is_watched(lead.now_ms));
}

/// Before, each reader asked such a lead every time, and was told late.
#[test]
fn what_a_lead_says_whose_clock_is_behind_is_as_new_as_the_answer_of_its_root() {
    const ROUND_TRIP_MS: i64 = 300;
    let mut lead = Lead::new();
    lead.root_ahead_ms = 600_000;
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.write();
    lead.walk(4 * HEARTBEAT_MS, ROUND_TRIP_MS, WATCHED, |_| false);
    let lead_report = |lead: &Lead| lead.root.view().report_of(&here()).expect("it pushed");
    let age_ms = lead.now_ms + lead.root_ahead_ms - lead_report(&lead).as_of_ms;
    assert!(age_ms < PUSHED_MS_MAX / 2, "{age_ms} ms old");
    // It is never newer than the state is.
    assert!(age_ms >= ROUND_TRIP_MS / 2, "{age_ms} ms old");
    // A root whose clock was wrong and is right again is believed at once.
    lead.root_ahead_ms = 0;
    lead.walk(HEARTBEAT_MS, ROUND_TRIP_MS, WATCHED, |_| false);
    lead.write();
    lead.walk(PUSH_MS, ROUND_TRIP_MS, WATCHED, |_| false);
    assert!(lead_report(&lead).as_of_ms <= lead.now_ms);
}

#[test]
fn a_clock_that_steps_back_ten_minutes_delays_no_push() {
    let mut lead = Lead::new();
    lead.pusher.watch(lead.now_ms, WATCHED);
    lead.write();
    lead.walk(1_000, 20, WATCHED, |_| false);
    lead.now_ms -= 600_000;
    lead.sent_ms.clear();
    lead.write();
    lead.walk(PUSH_MS + 1, 20, WATCHED, |_| false);
    assert_eq!(lead.root.view().value().to_string(), "2");
    // The lease has not become ten minutes longer either.
    lead.walk(LEASE_MS + 100, 20, 0, |_| false);
    assert!(!lead.pusher.is_watched(lead.now_ms));
}

/// The loop of a watched lead awaits nothing between two pushes, so it would never end.
#[test]
fn after_a_clock_steps_back_no_push_is_due_at_the_moment_of_the_one_before() {
    for stepped_ms in [1, 50, 60_000] {
        let mut lead = Lead::new();
        lead.pusher.watch(lead.now_ms, 10_000);
        drop(lent(&mut lead));
        lead.now_ms -= stepped_ms;
        let pushes = (0..10).filter(|_| lead.take().is_some()).count();
        assert_eq!(pushes, 1, "the clock stepped back by {stepped_ms} ms");
    }
}

proptest! {
    #![proptest_config(config(54, 64))]

    #[test]
    fn no_push_is_due_at_the_moment_of_the_one_before(
        steps in vec((0_u8..5, -90_000_i64..90_000), 1..60),
    ) {
        let mut lead = Lead::new();
        for (what, clock_ms) in steps {
            match what {
                0 => lead.write(),
                1 => drop(lent(&mut lead)),
                2 => lead.pusher.watch(lead.now_ms, 5_000),
                3 => lead.now_ms += clock_ms,
                _ => {
                    if let Some(push) = lead.take() {
                        let answer = lead.answer(&push, 3_000);
                        lead.pusher.confirmed(lead.now_ms, &answer);
                    }
                }
            }
            if lead.take().is_some() {
                let due_ms = lead.pusher.due_ms(lead.now_ms);
                prop_assert!(due_ms.is_none_or(|at_ms| at_ms > lead.now_ms), "{:?}", due_ms);
            }
        }
    }
}

/// A lead that has written once, and the push of it that an edge sends.
fn lent(lead: &mut Lead) -> Push {
    lead.write();
    let state = state_of(&here(), lead.sequence, lead.now_ms);
    lead.pusher.lend(lead.now_ms, &state)
}

#[test]
fn a_push_that_an_edge_sends_changes_no_time_of_the_lead_s_own() {
    let sent_ms = |lends: bool| {
        let mut lead = Lead::new();
        for _ in 0..4 {
            match lends {
                true => drop(lent(&mut lead)),
                false => lead.write(),
            }
            lead.walk(20_000, 80, 0, |_| false);
            lead.write();
            lead.walk(2 * CHECKPOINT_MS, 80, 0, |number| number % 2 == 0);
        }
        assert_eq!(lead.root.view().value().to_string(), "8");
        lead.sent_ms
    };
    assert_eq!(sent_ms(true), sent_ms(false));
}

#[test]
fn a_push_that_an_edge_lost_or_delayed_is_made_good_by_the_lead() {
    let mut lead = Lead::new();
    let first = lent(&mut lead);
    lead.walk(QUIET_MS.0 + 100, 20, 0, |_| false);
    assert_eq!(lead.root.view().value().to_string(), "1");
    let second = lent(&mut lead);
    let third = lent(&mut lead);
    // They arrive in the wrong order, one of them twice, and the oldest last.
    for push in [&third, &second, &third, &first] {
        lead.answer(push, 0);
        assert_eq!(lead.root.view().value().to_string(), "3");
    }
    lead.root.record_stored();
    lead.walk(QUIET_MS.1 + 100, 20, 0, |_| false);
    assert_eq!(lead.root.view().value().to_string(), "3");
    assert!(
        !lead.root.has_news(),
        "the lead's own push has newer times only"
    );
    assert!(!lead.pusher.is_unconfirmed());
    assert_eq!(lead.pusher.unreported_for_ms(lead.now_ms), 0);
}

#[test]
fn a_late_answer_to_an_earlier_push_confirms_nothing_of_a_later_one() {
    let mut lead = Lead::new();
    lead.write();
    lead.now_ms += QUIET_MS.0;
    let own = lead.take().expect("a push is due");
    // The edge's push overtakes the lead's, so the answer names the edge's mark.
    let lent = lent(&mut lead);
    lead.answer(&lent, 0);
    let answer = lead.answer(&own, 0);
    lead.write();
    lead.now_ms += QUIET_MS.1;
    let lost = lead.take().expect("a push is due");
    assert!(lost.number > lent.number);
    lead.pusher.confirmed(lead.now_ms, &answer);
    assert!(lead.pusher.is_unconfirmed());
    lead.walk(CHECKPOINT_MS + 100, 20, 0, |_| false);
    assert_eq!(lead.root.view().value().to_string(), "3");
}

proptest! {
    #![proptest_config(config(53, 64))]

    /// Whatever happens: what was written is at the root within a repeat and a way after messages pass,
    /// and pushes keep their distance.
    #[test]
    fn while_watched_all_is_told_and_no_faster_than_allowed(
        writes in vec(0..600_i64, 1..12),
        lost in vec(any::<bool>(), 40),
        round_trip_ms in 1..300_i64,
    ) {
        let mut lead = Lead::new();
        lead.pusher.watch(lead.now_ms, WATCHED);
        let is_lost = |number: usize| lost.get(number).copied().unwrap_or(false);
        for pause in writes {
            lead.write();
            lead.walk(pause, round_trip_ms, WATCHED, is_lost);
        }
        lead.walk(40 * REPEAT_MS, round_trip_ms, WATCHED, is_lost);
        prop_assert_eq!(lead.root.view().value().to_string(), lead.sequence.to_string());
        prop_assert!(lead.intervals().iter().all(|gap| *gap >= 1));
        // In any second: 10 that repeat, 4 between them at the most.
        for (place, at_ms) in lead.sent_ms.iter().enumerate() {
            let within = lead.sent_ms[place..].iter().filter(|other| *other - at_ms < 1_000);
            prop_assert!(within.count() <= 14);
        }
    }
}
