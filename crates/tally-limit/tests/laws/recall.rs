//! Laws of leases that are recalled, in all interleavings of a lender and two borrowers. Messages are lost, doubled or
//! late, and a place crashes after any effect.
//!
//! Laws: no more than the limit is admitted. No token can be spent at two places. Each recall ends once faults stop,
//! and without faults no quota is missing. Without a guard a law fails, and the shortest trace is printed.

mod world;

use tally_testing::search::explore;
use world::{Guard, World};

fn keeps_the_laws(faults: (u8, u8)) {
    let explored = explore(vec![World::new(None, faults)], true);
    explored.keeps_the_laws(&format!("recalled leases with {faults:?} faults"), 1_000);
}

fn fails_without(guard: Guard) {
    let explored = explore(vec![World::new(Some(guard), (1, 1))], false);
    explored.breaks(&format!("leases without {guard:?}"), "above the limit");
}

#[test]
fn a_lease_that_is_recalled_is_spent_at_one_place_and_each_recall_ends() {
    keeps_the_laws((1, 0));
    keeps_the_laws((0, 1));
}

/// Minutes: `make soak` runs it.
#[test]
#[ignore = "many worlds"]
fn a_fault_and_a_crash_keep_the_laws_of_leases() {
    keeps_the_laws((1, 1));
}

#[test]
fn more_than_the_limit_is_admitted_if_a_lender_answers_before_it_stores_a_grant() {
    fails_without(Guard::Commit);
}

#[test]
fn more_than_the_limit_is_admitted_if_a_borrower_accepts_the_answer_to_an_older_request() {
    fails_without(Guard::Newest);
}

#[test]
fn more_than_the_limit_is_admitted_if_a_borrower_spends_what_it_has_returned() {
    fails_without(Guard::Return);
}
