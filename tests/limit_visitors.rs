//! Laws of the limit of visitors: one cannot write more than it allows, does not use up what others have, and what is held is bounded.

use tally::limit::visitors::{VISITORS_MAX, Visitors, WRITES_PER_MINUTE};

const NOW_MS: i64 = 1_795_269_600_000;

#[test]
fn a_visitor_writes_so_often_and_then_once_a_second() {
    let mut visitors = Visitors::default();
    for _ in 0..WRITES_PER_MINUTE {
        assert_eq!(visitors.write(1, NOW_MS), Ok(()));
    }
    assert_eq!(visitors.write(1, NOW_MS), Err(1_000));
    assert_eq!(visitors.write(1, NOW_MS + 999), Err(1));
    assert_eq!(visitors.write(1, NOW_MS + 1_000), Ok(()));
    assert_eq!(visitors.write(1, NOW_MS + 1_000), Err(1_000));
    // Another one, or the same at another counter, has its own.
    assert_eq!(visitors.write(2, NOW_MS + 1_000), Ok(()));
}

#[test]
fn what_is_held_is_bounded_and_the_idle_are_forgotten() {
    let mut visitors = Visitors::default();
    let many = u64::try_from(VISITORS_MAX).unwrap_or(0);
    for visitor in 0..many {
        assert_eq!(visitors.write(visitor, NOW_MS), Ok(()));
    }
    // Nobody is idle yet: more are let in and not held, those who are held stay limited.
    for visitor in many..2 * many {
        assert_eq!(visitors.write(visitor, NOW_MS), Ok(()));
    }
    assert_eq!(visitors.len(), VISITORS_MAX);
    for _ in 1..WRITES_PER_MINUTE {
        assert_eq!(visitors.write(0, NOW_MS), Ok(()));
    }
    assert!(visitors.write(0, NOW_MS).is_err());
    // A second later all but that one are idle.
    assert_eq!(visitors.write(many, NOW_MS + 1_000), Ok(()));
    assert_eq!(visitors.len(), 2);
    assert_eq!(visitors.write(0, NOW_MS + 1_000), Ok(()));
    assert!(visitors.write(0, NOW_MS + 1_000).is_err());
}
