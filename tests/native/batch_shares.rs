//! Laws: bodies together hold no more than there is, and no sender can take what others need.

use std::collections::HashMap;

use proptest::prelude::*;
use tally_core::isolate::body_memory::{BodyRefusal, Shares};

const MAX: u64 = 48_000;

/// Grows by small steps until it may not, and returns what is held then.
fn fill(shares: &mut Shares, sender: u64) -> u64 {
    let mut held = 0;
    while shares.hold(sender, held, held + 10).is_ok() {
        held += 10;
    }
    held
}

#[test]
fn one_sender_gets_two_thirds_and_the_next_still_something() {
    let mut shares = Shares::new(MAX);
    assert_eq!(fill(&mut shares, 1), MAX / 3 * 2);
    // Another connection of the same sender gets nothing, another sender two thirds of the rest.
    assert_eq!(shares.hold(1, 0, 10), Err(BodyRefusal::Now));
    let second = fill(&mut shares, 2);
    assert!(second > MAX / 5, "{second}");
    assert!(fill(&mut shares, 3) > MAX / 20);
}

#[test]
fn a_body_that_never_fits_is_told_so() {
    let mut shares = Shares::new(MAX);
    assert_eq!(shares.hold(1, 0, MAX / 3 * 2 + 1), Err(BodyRefusal::Alone));
    assert_eq!(shares.hold(1, 0, MAX / 3 * 2), Ok(()));
    assert_eq!(shares.hold(2, 0, MAX / 3 * 2), Err(BodyRefusal::Now));
    assert_eq!(shares.hold(1, MAX / 3 * 2, 0), Ok(()));
    assert_eq!((shares.bytes(), shares.senders()), (0, 0));
}

proptest! {
    #[test]
    fn never_more_than_there_is_and_what_is_given_back_is_free(
        steps in prop::collection::vec((0u64..5, 0usize..8, 0u64..20_000), 0..200),
    ) {
        let mut shares = Shares::new(MAX);
        let mut held: HashMap<(u64, usize), u64> = HashMap::new();
        for (sender, body, after) in steps {
            let before = held.entry((sender, body)).or_default();
            if shares.hold(sender, *before, after).is_ok() {
                *before = after;
            } else {
                prop_assert!(after > *before, "to hold less is always possible");
            }
            let all: u64 = held.values().sum();
            prop_assert_eq!(shares.bytes(), all);
            prop_assert!(all < MAX);
        }
        for ((sender, _), before) in held {
            prop_assert_eq!(shares.hold(sender, before, 0), Ok(()));
        }
        prop_assert_eq!((shares.bytes(), shares.senders()), (0, 0));
    }
}
