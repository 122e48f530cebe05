//! Who asks when: views by the clock, the root its leads, and how long a poll waits.

use tally::core::cluster::watch::{
    HELD_MAX, HOLD_MS, Held, OUTAGE_POLL_MS, POLL_MS, Poller, QUIET_POLL_MS, TELL_MS, WATCHED_MS,
    Watch,
};
use tally::core::counter::id::Datacenter;

const NOW_MS: i64 = 5_000_000;

fn datacenter(name: &str) -> Datacenter {
    Datacenter::parse(name).expect("a datacenter")
}

/// When polls leave in a stretch of time; `answered` says at each millisecond whether an answer comes, and
/// whether it holds news.
fn polls(
    poller: &mut Poller,
    from_ms: i64,
    to_ms: i64,
    answered: impl Fn(i64) -> Option<bool>,
) -> Vec<i64> {
    let mut sent = Vec::new();
    for now_ms in from_ms..to_ms {
        if let Some(news) = answered(now_ms) {
            poller.answered(now_ms, news);
        }
        if poller.due_ms(now_ms) <= now_ms {
            poller.sent(now_ms);
            sent.push(now_ms - from_ms);
        }
    }
    sent
}

#[test]
fn polls_leave_by_the_clock_and_sooner_while_news_comes() {
    let mut poller = Poller::new(NOW_MS);
    // Nothing is answered yet, and none waits for that.
    let sent = polls(&mut poller, NOW_MS, NOW_MS + 1_000, |_| None);
    assert_eq!(sent, [0, 250, 500, 750]);
    let news_at = |at_ms: i64| move |now_ms: i64| (now_ms == at_ms).then_some(true);
    let from_ms = NOW_MS + 1_000;
    let sent = polls(&mut poller, from_ms, from_ms + 2_000, news_at(from_ms + 10));
    assert_eq!(
        sent,
        [
            0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_250, 1_500, 1_750
        ]
    );
}

#[test]
fn polls_that_nobody_answers_leave_often() {
    let mut poller = Poller::new(NOW_MS);
    polls(&mut poller, NOW_MS, NOW_MS + 5_000, |_| None);
    let sent = polls(&mut poller, NOW_MS + 5_000, NOW_MS + 6_000, |_| None);
    let gaps: Vec<i64> = sent.windows(2).map(|two| two[1] - two[0]).collect();
    assert_eq!(gaps, vec![OUTAGE_POLL_MS; gaps.len()]);
    // The first answer ends it, whether it has news or not.
    let from_ms = NOW_MS + 6_000;
    let sent = polls(&mut poller, from_ms, from_ms + 900, |now| {
        (now % 100 == 0).then_some(false)
    });
    assert!(
        sent.windows(2).all(|two| two[1] - two[0] == QUIET_POLL_MS),
        "{sent:?}"
    );
}

#[test]
fn a_clock_that_steps_back_delays_no_poll() {
    let mut poller = Poller::new(NOW_MS);
    poller.sent(NOW_MS);
    poller.answered(NOW_MS, true);
    let before_ms = NOW_MS - 600_000;
    let sent = polls(&mut poller, before_ms, before_ms + 1_000, |_| None);
    // The answer before the step may be from long ago: it asks as if there was none.
    assert_eq!(sent, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
    const { assert!(POLL_MS < QUIET_POLL_MS && OUTAGE_POLL_MS < QUIET_POLL_MS) };
}

#[test]
fn polls_wait_for_news_a_second_at_most() {
    let mut held = Held::default();
    assert_eq!(
        (held.hold(NOW_MS, 'a'), held.hold(NOW_MS + 250, 'b')),
        (None, None)
    );
    assert_eq!(held.due_ms(), Some(NOW_MS + HOLD_MS));
    assert_eq!(held.expired(NOW_MS + HOLD_MS - 1), Vec::<char>::new());
    assert_eq!(held.expired(NOW_MS + HOLD_MS), ['a']);
    assert_eq!(held.release(), ['b']);
    assert!(held.is_empty());
    assert_eq!(held.due_ms(), None);
}

#[test]
fn the_oldest_of_too_many_polls_is_answered() {
    let mut held = Held::default();
    for number in 0..HELD_MAX {
        assert_eq!(held.hold(NOW_MS, number), None);
    }
    assert_eq!(held.hold(NOW_MS, HELD_MAX), Some(0));
    assert_eq!(held.release(), [1, 2, 3, 4]);
}

#[test]
fn polls_from_before_a_step_back_of_the_clock_do_not_wait_for_it() {
    let mut held = Held::default();
    held.hold(NOW_MS, 'a');
    assert_eq!(held.expired(NOW_MS - 600_000), ['a']);
}

#[test]
fn a_counter_is_watched_for_ten_seconds_after_the_last_poll() {
    let mut watch = Watch::default();
    assert!(!watch.is_watched(NOW_MS));
    assert_eq!(watch.lease_ms(NOW_MS), 0);
    watch.asked(NOW_MS);
    assert_eq!(i64::from(watch.lease_ms(NOW_MS)), WATCHED_MS);
    assert!(watch.is_watched(NOW_MS + WATCHED_MS - 1));
    assert!(!watch.is_watched(NOW_MS + WATCHED_MS));
    // A clock that steps back does not leave it watched for ten minutes.
    assert!(!watch.is_watched(NOW_MS - 600_000));
}

/// With this a lead whose clock had jumped ahead meanwhile fell silent for five seconds.
#[test]
fn a_root_whose_clock_steps_back_does_not_say_that_nobody_watches() {
    let mut watch = Watch::default();
    watch.asked(NOW_MS);
    let before_ms = NOW_MS - 600_000;
    // A push that left before the step: its lead had a lease then.
    watch.heard(before_ms, &datacenter("FRA"), 9_800);
    assert_eq!(i64::from(watch.lease_ms(before_ms)), WATCHED_MS);
    // No view polls again: it ends, ten seconds later.
    watch.heard(before_ms + WATCHED_MS, &datacenter("FRA"), 0);
    assert_eq!(watch.lease_ms(before_ms + WATCHED_MS), 0);
    // Nor does a push begin what no view has.
    let mut nobody = Watch::default();
    nobody.heard(NOW_MS, &datacenter("FRA"), 9_800);
    assert_eq!(nobody.lease_ms(NOW_MS), 0);
}

/// A machine's clock jumps ahead, and with it both a root that it holds and a lead: each takes its lease to be over.
#[test]
fn a_lead_that_was_told_that_nobody_watches_is_told_with_the_next_poll() {
    let leads = [datacenter("FRA")];
    let mut watch = Watch::default();
    watch.asked(NOW_MS);
    assert_eq!(watch.tell(NOW_MS, leads.iter()), leads);
    watch.heard(NOW_MS + 20, &leads[0], 10_000);
    let after_ms = NOW_MS + 600_000;
    watch.heard(after_ms, &leads[0], 9_800);
    assert_eq!(watch.lease_ms(after_ms), 0, "what the push is answered");
    watch.asked(after_ms + 50);
    assert_eq!(
        watch.due_ms(after_ms + 50, leads.iter()),
        Some(after_ms + 50)
    );
    assert_eq!(watch.tell(after_ms + 50, leads.iter()), leads);
}

#[test]
fn leads_are_told_until_they_say_that_they_know() {
    let leads = [datacenter("FRA"), datacenter("GRU")];
    let mut watch = Watch::default();
    assert_eq!(watch.tell(NOW_MS, leads.iter()), []);
    assert_eq!(watch.due_ms(NOW_MS, leads.iter()), None);
    watch.asked(NOW_MS);
    assert_eq!(watch.due_ms(NOW_MS, leads.iter()), Some(NOW_MS));
    assert_eq!(watch.tell(NOW_MS, leads.iter()), leads);
    assert_eq!(watch.tell(NOW_MS + TELL_MS - 1, leads.iter()), []);
    // One of them pushes, and says that it does so for ten seconds.
    watch.heard(NOW_MS + 100, &leads[0], 10_000);
    // The other pushes what it would have pushed anyway: its message crossed ours, or ours was lost.
    watch.heard(NOW_MS + 100, &leads[1], 0);
    assert_eq!(
        watch.due_ms(NOW_MS + 100, leads.iter()),
        Some(NOW_MS + TELL_MS)
    );
    assert_eq!(
        watch.tell(NOW_MS + TELL_MS, leads.iter()),
        [datacenter("GRU")]
    );
}

#[test]
fn a_lead_is_told_again_before_its_lease_is_over() {
    let leads = [datacenter("FRA")];
    let mut watch = Watch::default();
    watch.asked(NOW_MS);
    watch.heard(NOW_MS, &leads[0], 10_000);
    assert_eq!(watch.tell(NOW_MS, leads.iter()), []);
    assert_eq!(
        watch.due_ms(NOW_MS, leads.iter()),
        Some(NOW_MS + WATCHED_MS / 2)
    );
    watch.asked(NOW_MS + WATCHED_MS / 2);
    assert_eq!(watch.tell(NOW_MS + WATCHED_MS / 2, leads.iter()), leads);
    // Nobody watches any more: nobody is told.
    assert_eq!(watch.tell(NOW_MS + 2 * WATCHED_MS, leads.iter()), []);
    assert_eq!(watch.due_ms(NOW_MS + 2 * WATCHED_MS, leads.iter()), None);
}
