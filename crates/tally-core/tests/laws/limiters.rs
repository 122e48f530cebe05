//! Laws of keys that go to other limiters, in all interleavings of three limiters and two changes of their number.
//! Isolates of two deployments run, messages are lost, doubled or late, and a limiter crashes after any effect.
//!
//! Laws: no more than the limit is admitted in a window. At most one limiter decides. Without faults each use counts
//! once. Each demand is decided once faults stop. Without a guard a law fails, and the shortest trace is printed.

mod world;

use tally_testing::search::explore;
use world::{Guard, World};

/// The numbers of limiters, one after the other.
const RISES: [u32; 3] = [1, 2, 3];

/// The number is set back.
const RETURNS: [u32; 3] = [1, 2, 1];

const ABOVE: &str = "more than the limit";

fn keeps_the_laws(numbers: [u32; 3], faults: (u8, u8)) {
    let explored = explore(vec![World::new(numbers, None, faults)], true);
    explored.keeps_the_laws(
        &format!("limiters {numbers:?} with {faults:?} faults"),
        1_000,
    );
}

fn fails_without(guard: Guard, numbers: [u32; 3], law: &str) {
    let explored = explore(vec![World::new(numbers, Some(guard), (0, 1))], true);
    explored.breaks(&format!("limiters without {guard:?}"), law);
}

#[test]
fn no_key_gets_more_than_its_limit_while_the_number_of_limiters_changes_twice() {
    keeps_the_laws(RISES, (1, 0));
    keeps_the_laws(RISES, (0, 1));
}

#[test]
fn no_key_gets_more_than_its_limit_while_the_number_of_limiters_is_set_back() {
    keeps_the_laws(RETURNS, (1, 0));
    keeps_the_laws(RETURNS, (0, 1));
}

/// Minutes: `make soak` runs it.
#[test]
#[ignore = "many worlds"]
fn a_fault_and_a_crash_keep_the_laws_of_limiters() {
    keeps_the_laws(RISES, (1, 1));
    keeps_the_laws(RETURNS, (1, 1));
}

#[test]
fn a_key_gets_its_limit_twice_if_its_new_limiter_does_not_ask_the_former_one() {
    fails_without(Guard::Fetch, RISES, ABOVE);
}

#[test]
fn a_key_gets_its_limit_twice_if_the_former_limiter_does_not_store_the_new_number() {
    fails_without(Guard::Seal, RISES, ABOVE);
}

#[test]
fn a_key_gets_its_limit_twice_if_what_is_lent_does_not_go_along() {
    fails_without(Guard::Lent, RISES, ABOVE);
}

#[test]
fn a_key_gets_its_limit_twice_if_a_limiter_gives_what_it_decides_itself() {
    fails_without(Guard::Home, RETURNS, ABOVE);
}

#[test]
fn a_key_gets_its_limit_twice_if_a_limiter_keeps_what_it_knew_before_the_number_was_set_back() {
    fails_without(Guard::Idle, RETURNS, ABOVE);
}

#[test]
fn use_counts_twice_if_a_limiter_does_not_look_again_after_it_has_waited() {
    fails_without(Guard::Again, RISES, "counts twice");
}

#[test]
fn a_demand_goes_round_and_round_if_a_forwarded_one_is_forwarded() {
    fails_without(Guard::Once, RETURNS, "does not end");
}
