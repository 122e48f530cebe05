//! Bulk bodies that are there together go together, and none waits long for others.

use proptest::prelude::*;
use tally_core::isolate::wave::{CALM_MS, GATHER_MS_MAX, Stage, Waves};

#[test]
fn a_body_alone_goes_at_once() {
    let waves = Waves::default();
    assert_eq!(waves.wait_position(1_000, 5), None);
}

#[test]
fn bodies_that_gathered_go_together_once_nothing_more_is_read_or_flies() {
    let mut waves = Waves::default();
    waves.enter(Stage::Sending);
    waves.enter(Stage::Reading);
    let one = waves.wait_position(1_000, 0).expect("others are there");
    waves.enter(Stage::Gathering);
    assert!(!waves.may_go(one, 100));
    waves.leave(Stage::Reading);
    let other = waves.wait_position(1_000, 100).expect("others are there");
    waves.enter(Stage::Gathering);
    assert!(!waves.may_go(other, 110), "one is still being sent");
    waves.leave(Stage::Sending);
    assert!(!waves.may_go(one, 120), "the next may be about to come");
    assert!(!waves.may_go(one, 120 + CALM_MS - 1));
    assert!(waves.may_go(one, 120 + CALM_MS));
    waves.leave(Stage::Gathering);
    waves.enter(Stage::Sending);
    assert!(waves.may_go(other, 120 + CALM_MS), "it goes with the first");
}

#[test]
fn calm_that_was_broken_begins_anew() {
    let mut waves = Waves::default();
    waves.enter(Stage::Reading);
    let place = waves.wait_position(1_000, 0).expect("another is read");
    waves.leave(Stage::Reading);
    assert!(!waves.may_go(place, 10));
    waves.enter(Stage::Reading);
    assert!(!waves.may_go(place, 15));
    waves.leave(Stage::Reading);
    assert!(!waves.may_go(place, 10 + CALM_MS));
}

proptest! {
    #[test]
    fn none_waits_longer_than_its_counters_allow(counters in 0u64..5_000, busy in 1u32..50, now_ms in any::<i32>()) {
        let mut waves = Waves::default();
        for _ in 0..busy {
            waves.enter(Stage::Sending);
        }
        let now_ms = i64::from(now_ms);
        let place = waves.wait_position(counters, now_ms).expect("others are there");
        let most_ms = i64::try_from(counters).expect("few").min(GATHER_MS_MAX);
        prop_assert!(waves.may_go(place, now_ms + most_ms));
        if most_ms > 0 {
            prop_assert!(!waves.may_go(place, now_ms + most_ms - 1));
        }
    }
}
