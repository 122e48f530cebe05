//! Laws of memory that several objects of one isolate hold together.

use tally_core::counter::memory::{
    CELLS_BYTES_MAX, INBOXES_BYTES_MAX, LIMITERS_BYTES_MAX, MemoryShare, SharedMemory,
    VIEWS_BYTES_MAX, least_recent,
};
use tally_wire::shell_limits::ISOLATE_BYTES_MAX;

#[test]
fn what_is_held_together_is_the_sum_of_the_shares_that_exist() {
    let memory = SharedMemory::default();
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
    assert_eq!(MemoryShare::default().together(), 0, "a memory of its own");
}

#[test]
fn no_owner_keeps_another_from_its_even_part_and_all_hold_at_most_twice_the_bound() {
    const BYTES_MAX: u64 = 1_600;
    let memory = SharedMemory::default();
    let mut shares: Vec<MemoryShare> = (0..8).map(|_| memory.share()).collect();
    for share in &mut shares {
        while share.has_room(BYTES_MAX) {
            share.hold(share.bytes() + 1);
        }
    }
    let held: Vec<u64> = shares.iter().map(MemoryShare::bytes).collect();
    assert_eq!(held, [1_600, 100, 100, 100, 100, 100, 100, 100]);
    assert!(memory.bytes() < 2 * BYTES_MAX);
    shares.truncate(1);
    assert!(!shares.iter().any(|share| share.has_room(BYTES_MAX)));
    shares.clear();
    assert!(memory.share().has_room(BYTES_MAX), "all is free again");
    // Each comes once those before it have taken all that they may.
    for number in 0..100 {
        let mut share = memory.share();
        while share.has_room(BYTES_MAX) {
            share.hold(share.bytes() + 1);
        }
        let is_one_of_the_first = (1..16).contains(&number);
        assert!(!is_one_of_the_first || share.bytes() == 100, "{number}");
        shares.push(share);
    }
    assert!(memory.bytes() <= 2 * BYTES_MAX, "{}", memory.bytes());
}

#[test]
fn the_budgets_of_all_kinds_fit_into_an_isolate() {
    // Those that refuse hold at most twice their budget, cells are let go.
    let all = 2 * (LIMITERS_BYTES_MAX + INBOXES_BYTES_MAX + VIEWS_BYTES_MAX) + CELLS_BYTES_MAX;
    let for_messages_and_code = 16 * 1_000_000;
    assert!(
        all + for_messages_and_code <= ISOLATE_BYTES_MAX,
        "{all} bytes"
    );
}

#[test]
fn what_was_used_longest_ago_is_let_go_until_there_is_room() {
    let held = [(30, 5), (10, 4), (20, 3), (40, 9)];
    assert_eq!(least_recent(&held, 0), Vec::<usize>::new());
    assert_eq!(least_recent(&held, 1), [1]);
    assert_eq!(least_recent(&held, 4), [1]);
    assert_eq!(least_recent(&held, 5), [1, 2]);
    assert_eq!(least_recent(&held, 1_000), [1, 2, 0, 3]);
    assert_eq!(least_recent(&[], 1), Vec::<usize>::new());
}
