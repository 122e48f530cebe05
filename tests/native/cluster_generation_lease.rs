//! Laws of leases: from when a root has waited, nobody takes the generation that it ends for living.

use proptest::prelude::*;
use tally_core::cluster::generation_lease::{
    HeldGenerations, LEASE_MS, LEASES_MAX, LeaseCheck, MARGIN_MS, RootLeases,
};
use tally_core::counter::id::CounterId;

const NOW_MS: i64 = 1_777_593_630_000;

fn id(number: usize) -> CounterId {
    CounterId::parse(format!("c{number}")).expect("a counter id")
}

proptest! {
    /// Isolates ask at some time and hear after another; the root ends the generation as soon as it may.
    #[test]
    fn nobody_takes_a_generation_for_living_that_has_ended(
        asks in prop::collection::vec((0_i64..20_000, 0_i64..3_000, 0_i64..3_000), 1..40),
        counters in 1_usize..4,
    ) {
        let mut root = RootLeases::new(NOW_MS);
        let mut answers = Vec::new();
        let mut asks = asks;
        asks.sort_by_key(|(start_ms, way, _)| start_ms + way);
        for (number, (start_ms, way_there, way_back)) in asks.iter().enumerate() {
            let granted_ms = NOW_MS + start_ms + way_there;
            root.grant(&id(number % counters), 1, granted_ms);
            answers.push((number % counters, NOW_MS + start_ms, granted_ms + way_back));
        }
        let last_ms = asks.iter().map(|(start_ms, way, _)| NOW_MS + start_ms + way).max().unwrap_or(NOW_MS);
        for counter in 0..counters {
            let ended_ms = last_ms + root.wait_ms(&id(counter), last_ms);
            for (of, request_ms, answer_ms) in &answers {
                let mut held = HeldGenerations::default();
                held.keep(&id(*of), 1, *request_ms);
                let at_ms = ended_ms.max(*answer_ms);
                if *of == counter {
                    // The first who looks may be sent to ask while others go on.
                    held.look(&id(*of), at_ms);
                    prop_assert_eq!(held.look(&id(*of), at_ms), LeaseCheck::Ask);
                }
            }
        }
    }
}

#[test]
fn an_answer_is_relied_on_for_a_while_and_one_of_many_renews_it() {
    let mut held = HeldGenerations::default();
    assert_eq!(held.look(&id(1), NOW_MS), LeaseCheck::Ask);
    held.keep(&id(1), 7, NOW_MS);
    assert_eq!(
        held.look(&id(1), NOW_MS + LEASE_MS / 2),
        LeaseCheck::Known(7)
    );
    assert_eq!(
        held.look(&id(1), NOW_MS + LEASE_MS / 2 + 1),
        LeaseCheck::Ask
    );
    assert_eq!(held.look(&id(1), NOW_MS + LEASE_MS), LeaseCheck::Known(7));
    assert_eq!(held.look(&id(1), NOW_MS + LEASE_MS + 1), LeaseCheck::Ask);
    held.keep(&id(1), 7, NOW_MS + 1_500);
    assert_eq!(
        held.look(&id(1), NOW_MS + 1_500 + LEASE_MS / 2),
        LeaseCheck::Known(7)
    );
    // A clock that stepped back tells nothing about an age.
    assert_eq!(held.look(&id(1), NOW_MS), LeaseCheck::Ask);
    assert_eq!(held.look(&id(2), NOW_MS), LeaseCheck::Ask);
}

#[test]
fn an_answer_that_comes_late_replaces_none_that_was_asked_for_later_unless_it_is_of_a_newer_generation()
 {
    let mut held = HeldGenerations::default();
    held.keep(&id(1), 7, NOW_MS);
    held.keep(&id(1), 7, NOW_MS - 1_900);
    assert_eq!(held.look(&id(1), NOW_MS + 200), LeaseCheck::Known(7));
    held.keep(&id(1), 8, NOW_MS - 500);
    assert_eq!(held.look(&id(1), NOW_MS + 200), LeaseCheck::Known(8));
}

#[test]
fn a_root_that_has_told_nobody_for_long_waits_for_nobody_and_one_that_forgot_waits_as_for_the_forgotten()
 {
    let whole_ms = LEASE_MS + MARGIN_MS;
    let mut root = RootLeases::new(NOW_MS);
    assert_eq!(root.wait_ms(&id(0), NOW_MS), whole_ms);
    assert_eq!(root.wait_ms(&id(0), NOW_MS + 2_000), 250);
    assert_eq!(root.wait_ms(&id(0), NOW_MS + whole_ms), 0);
    let now_ms = NOW_MS + 60_000;
    root.grant(&id(0), 1, now_ms);
    assert_eq!(root.wait_ms(&id(0), now_ms + 250), 2_000);
    assert_eq!(root.wait_ms(&id(1), now_ms), 0);
    for number in 1..LEASES_MAX {
        root.grant(&id(number), 1, now_ms + 1_000);
    }
    assert_eq!(root.wait_ms(&id(LEASES_MAX), now_ms + 1_000), 0);
    // The lease of this time is forgotten, so every unknown counter may have it, and no counter a later one.
    root.grant(&id(LEASES_MAX), 1, now_ms + 1_500);
    assert_eq!(root.wait_ms(&id(0), now_ms + 1_000), whole_ms - 1_000);
    assert_eq!(
        root.wait_ms(&id(LEASES_MAX + 1), now_ms + 1_000),
        whole_ms - 1_000
    );
    assert_eq!(root.wait_ms(&id(1), now_ms + 1_000), whole_ms);
    // A lease that is granted again is evicted after all others.
    root.grant(&id(1), 1, now_ms + 2_000);
    for number in 2..LEASES_MAX {
        root.grant(&id(2 * LEASES_MAX + number), 1, now_ms + 2_000);
    }
    assert_eq!(root.wait_ms(&id(1), now_ms + 2_000), whole_ms);
    assert_eq!(root.wait_ms(&id(2), now_ms + 2_000), whole_ms - 1_000);
    // A clock that stepped back makes nobody wait for longer than the whole.
    assert_eq!(root.wait_ms(&id(0), NOW_MS), whole_ms);
}
