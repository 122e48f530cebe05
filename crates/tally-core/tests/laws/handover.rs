//! Laws of handovers, in all interleavings of three places and two changes of layout, with messages that are lost,
//! doubled or late, and a crash after any effect: what was acknowledged is in the sum, once; at most one place counts;
//! each move ends once faults stop. Without a guard a law fails, and the shortest trace is printed.
//!
//! `make soak` goes deeper: three changes of layout with faults.

mod world;

use tally_testing::search::explore;
use world::{Dialect, Guard, World};

/// The place where the bundle belongs by each layout.
const LAYOUTS: [&[u8]; 2] = [&[0, 1, 2], &[0, 1, 0]];

/// By the last layout a place is asked first that has given the rows to the place that is asked second.
const LAYOUTS_OF_THREE_CHANGES: [&[u8]; 1] = [&[0, 1, 0, 2]];

/// All worlds to begin with: the bundle is at its first place, or there is none yet.
fn all(
    dialect: Dialect,
    removed: Option<Guard>,
    layouts: &[&'static [u8]],
    faults: u8,
) -> Vec<World> {
    let mut all = Vec::new();
    for layouts in layouts {
        for is_written in [true, false] {
            all.push(World::new(dialect, layouts, is_written, removed, faults));
        }
    }
    all
}

fn keeps_the_laws(dialect: Dialect, layouts: &[&'static [u8]], faults: u8) {
    let explored = explore(all(dialect, None, layouts, faults), true);
    explored.keeps_the_laws(&format!("handover of {dialect:?}"), 1_000);
}

fn fails_without(dialect: Dialect, guard: Guard, law: &str) {
    let layouts = match guard {
        Guard::Proof => &LAYOUTS_OF_THREE_CHANGES[..],
        _ => &LAYOUTS,
    };
    let explored = explore(all(dialect, Some(guard), layouts, 1), false);
    explored.breaks(&format!("{dialect:?} without {guard:?}"), law);
}

#[test]
fn roots_are_counted_once_at_one_place_and_each_move_ends() {
    keeps_the_laws(Dialect::Roots, &LAYOUTS, 1);
    keeps_the_laws(Dialect::Roots, &LAYOUTS_OF_THREE_CHANGES, 0);
}

#[test]
fn leads_are_counted_once_at_one_place_and_each_move_ends() {
    keeps_the_laws(Dialect::Leads, &LAYOUTS, 1);
    keeps_the_laws(Dialect::Leads, &LAYOUTS_OF_THREE_CHANGES, 0);
}

/// Minutes: `make soak` runs it.
#[test]
#[ignore = "two million worlds"]
fn three_changes_of_layout_keep_the_laws() {
    for dialect in [Dialect::Roots, Dialect::Leads] {
        keeps_the_laws(dialect, &LAYOUTS_OF_THREE_CHANGES, 1);
    }
}

const TWO: &str = "two places count";
const LOST: &str = "is missing or counted twice";

#[test]
fn two_places_count_if_rows_are_given_before_they_are_sealed() {
    fails_without(Dialect::Roots, Guard::Seal, TWO);
    fails_without(Dialect::Leads, Guard::Seal, TWO);
}

#[test]
fn two_places_count_if_a_sealed_bundle_is_given_away_without_proof() {
    fails_without(Dialect::Roots, Guard::Proof, TWO);
    fails_without(Dialect::Leads, Guard::Proof, TWO);
}

#[test]
fn a_search_that_goes_on_after_its_place_has_promised_something_else_breaks_a_law() {
    fails_without(Dialect::Roots, Guard::Mark, TWO);
    fails_without(Dialect::Leads, Guard::Mark, LOST);
}

#[test]
fn a_bundle_that_is_given_on_before_its_debt_is_paid_comes_back() {
    fails_without(Dialect::Roots, Guard::Debt, LOST);
    fails_without(Dialect::Leads, Guard::Debt, LOST);
}

#[test]
fn rows_of_an_earlier_try_count_twice_if_they_are_not_deleted_first() {
    fails_without(Dialect::Roots, Guard::Clear, LOST);
}

#[test]
fn rows_are_lost_if_the_giver_deletes_them_before_the_last_page_is_stored() {
    fails_without(Dialect::Roots, Guard::Last, LOST);
    fails_without(Dialect::Leads, Guard::Last, LOST);
}
