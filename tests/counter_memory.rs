//! Laws of memory that several objects of one isolate hold together.

use tally::counter::memory::{Memory, Share};

#[test]
fn what_is_held_together_is_the_sum_of_the_shares_that_exist() {
    let memory = Memory::default();
    let (mut one, mut other) = (memory.share(), memory.share());
    one.hold(10);
    other.hold(5);
    one.hold(7);
    assert_eq!((memory.bytes(), one.bytes(), other.together()), (12, 7, 12));
    let copy = one.clone();
    assert_eq!(memory.bytes(), 19, "a copy holds as much again");
    drop(copy);
    drop(one);
    assert_eq!(memory.bytes(), 5);
    assert_eq!(Share::default().together(), 0, "a memory of its own");
}

#[test]
fn no_owner_keeps_another_from_its_even_part_and_all_hold_at_most_twice_the_bound() {
    const BYTES_MAX: u64 = 1_000;
    let memory = Memory::default();
    let mut shares: Vec<Share> = (0..8).map(|_| memory.share()).collect();
    for share in &mut shares {
        while share.has_room(BYTES_MAX) {
            share.hold(share.bytes() + 1);
        }
    }
    let held: Vec<u64> = shares.iter().map(Share::bytes).collect();
    assert_eq!(held, [1_000, 125, 125, 125, 125, 125, 125, 125]);
    assert!(memory.bytes() < 2 * BYTES_MAX);
    shares.truncate(1);
    assert!(!shares.iter().any(|share| share.has_room(BYTES_MAX)));
    shares.clear();
    assert!(memory.share().has_room(BYTES_MAX), "all is free again");
}
