//! Which leads a root tells that somebody reads its counter, and until when.

use tally_core::cluster::subscription::{NOTIFY_MS, WATCHED_MS, Watch};
use tally_core::counter::id::Datacenter;

const NOW_MS: i64 = 5_000_000;

fn datacenter(name: &str) -> Datacenter {
    Datacenter::parse(name).expect("a datacenter")
}

#[test]
fn a_counter_is_watched_for_ten_seconds_after_the_last_read() {
    let mut watch = Watch::default();
    assert!(!watch.is_watched(NOW_MS));
    assert_eq!(watch.lease_ms(NOW_MS), 0);
    watch.record_read(NOW_MS);
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
    watch.record_read(NOW_MS);
    let before_ms = NOW_MS - 600_000;
    // A push that left before the step: its lead had a lease then.
    watch.record_push(before_ms, &datacenter("FRA"), 9_800);
    assert_eq!(i64::from(watch.lease_ms(before_ms)), WATCHED_MS);
    // Nobody reads again: it ends, ten seconds later.
    watch.record_push(before_ms + WATCHED_MS, &datacenter("FRA"), 0);
    assert_eq!(watch.lease_ms(before_ms + WATCHED_MS), 0);
    // Nor does a push begin what no reader has.
    let mut nobody = Watch::default();
    nobody.record_push(NOW_MS, &datacenter("FRA"), 9_800);
    assert_eq!(nobody.lease_ms(NOW_MS), 0);
}

/// A machine's clock jumps ahead, and with it both a root that it holds and a lead: each takes its lease to be over.
#[test]
fn a_lead_that_was_told_that_nobody_watches_is_told_with_the_next_read() {
    let leads = [datacenter("FRA")];
    let mut watch = Watch::default();
    watch.record_read(NOW_MS);
    assert_eq!(watch.leads_to_notify(NOW_MS, leads.iter()), leads);
    watch.record_push(NOW_MS + 20, &leads[0], 10_000);
    let after_ms = NOW_MS + 600_000;
    watch.record_push(after_ms, &leads[0], 9_800);
    assert_eq!(watch.lease_ms(after_ms), 0, "what the push is answered");
    watch.record_read(after_ms + 50);
    assert_eq!(watch.leads_to_notify(after_ms + 50, leads.iter()), leads);
}

#[test]
fn leads_are_told_until_they_say_that_they_know() {
    let leads = [datacenter("FRA"), datacenter("GRU")];
    let mut watch = Watch::default();
    assert_eq!(watch.leads_to_notify(NOW_MS, leads.iter()), []);
    watch.record_read(NOW_MS);
    assert_eq!(watch.leads_to_notify(NOW_MS, leads.iter()), leads);
    assert_eq!(
        watch.leads_to_notify(NOW_MS + NOTIFY_MS - 1, leads.iter()),
        []
    );
    // One of them pushes, and says that it does so for ten seconds.
    watch.record_push(NOW_MS + 100, &leads[0], 10_000);
    // The other pushes what it would have pushed anyway: its message crossed ours, or ours was lost.
    watch.record_push(NOW_MS + 100, &leads[1], 0);
    assert_eq!(
        watch.leads_to_notify(NOW_MS + NOTIFY_MS, leads.iter()),
        [datacenter("GRU")]
    );
}

#[test]
fn a_lead_is_told_again_before_its_lease_is_over() {
    let leads = [datacenter("FRA")];
    let mut watch = Watch::default();
    watch.record_read(NOW_MS);
    watch.record_push(NOW_MS, &leads[0], 10_000);
    assert_eq!(watch.leads_to_notify(NOW_MS, leads.iter()), []);
    watch.record_read(NOW_MS + WATCHED_MS / 2);
    assert_eq!(
        watch.leads_to_notify(NOW_MS + WATCHED_MS / 2, leads.iter()),
        leads
    );
    // Nobody watches any more: no lead is informed.
    assert_eq!(
        watch.leads_to_notify(NOW_MS + 2 * WATCHED_MS, leads.iter()),
        []
    );
}

#[test]
fn a_counter_is_watched_for_as_long_as_it_is_read_without_a_gap() {
    let mut watch = Watch::default();
    assert!(!watch.is_watched_for(NOW_MS, 0));
    watch.record_read(NOW_MS);
    assert!(watch.is_watched_for(NOW_MS, 0));
    watch.record_read(NOW_MS + 3_000);
    assert!(watch.is_watched_for(NOW_MS + 3_000, 3_000));
    assert!(!watch.is_watched_for(NOW_MS + 3_000, 3_001));
    // It begins anew after a gap.
    let later_ms = NOW_MS + 3_000 + WATCHED_MS;
    watch.record_read(later_ms);
    assert!(!watch.is_watched_for(later_ms, 1));
}
