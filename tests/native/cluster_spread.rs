//! Laws of keys whose limiters change in number, while some isolates know the old number and some the new one.

use std::rc::Rc;

use tally_core::cluster::spread::{LimiterCounts, Rings, Spread};

/// Any time, not the beginning of a window.
const BEGIN_MS: i64 = 1_777_593_630_123;

const OLD: LimiterCounts = LimiterCounts {
    now: 2,
    before: None,
};
const NEW: LimiterCounts = LimiterCounts {
    now: 5,
    before: Some(2),
};

#[test]
fn a_number_is_heeded_that_was_changed_from_the_own_one_and_for_an_hour() {
    let spread = |counts| Spread::new(Rc::new(Rings::new(counts)));
    let mut old = spread(OLD);
    assert!(old.receive(NEW, BEGIN_MS, BEGIN_MS));
    assert!(
        !old.receive(NEW, BEGIN_MS + 1_000, BEGIN_MS + 1_000),
        "stored already"
    );
    assert_eq!(old.counts(BEGIN_MS + 3_599_000), NEW);
    assert_eq!(old.counts(BEGIN_MS + 3_600_000), OLD);
    assert!(
        old.receive(NEW, BEGIN_MS + 3_000_000, BEGIN_MS + 3_000_000),
        "goes on"
    );
    assert_eq!(old.counts(BEGIN_MS + 3_600_000), NEW);
    // Who knows the new one hears nothing from those who know the old one.
    let mut new = spread(NEW);
    assert!(!new.receive(OLD, BEGIN_MS, BEGIN_MS));
    let back = LimiterCounts {
        now: 2,
        before: Some(5),
    };
    assert!(
        !new.receive(back, BEGIN_MS, BEGIN_MS),
        "nobody can tell which is newer"
    );
    // Newer ones are not replaced by the own, which comes from a limiter that does not know the newer.
    let next = LimiterCounts {
        now: 3,
        before: Some(5),
    };
    assert!(new.receive(next, BEGIN_MS, BEGIN_MS));
    assert!(!new.receive(NEW, BEGIN_MS, BEGIN_MS));
    assert_eq!(new.counts(BEGIN_MS), next);
}
