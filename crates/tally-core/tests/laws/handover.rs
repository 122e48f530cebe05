//! Laws of handovers, in all interleavings of three places and two changes of layout, with messages that are lost,
//! doubled or late, and a crash after any effect: what was acknowledged is in the sum, once; at most one place counts;
//! each move ends once faults stop. Without a guard a law fails, and the shortest trace is printed.
//!
//! `make soak` goes deeper: three changes of layout with faults.

mod world;

use tally_core::handover::giver::{Given, GiverRequest, asked};
use tally_core::handover::taker::{GiverAnswer, Taker, TakerStep};
use tally_core::handover::{Holding, Sealed};
use tally_testing::search::explore;
use world::{Dialect, Guard, World};

/// The place where the bundle belongs by each layout.
const LAYOUTS: [&[u8]; 2] = [&[0, 1, 2], &[0, 1, 0]];

/// By the last layout a place is asked first that has given the rows to the place that is asked second.
const LAYOUTS_OF_THREE_CHANGES: [&[u8]; 1] = [&[0, 1, 0, 2]];

/// A late request of the second layout may come to rows that are sealed for the same place by the last.
const LAYOUTS_THERE_AND_BACK: [&[u8]; 1] = [&[0, 1, 0, 1]];

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
        keeps_the_laws(dialect, &LAYOUTS_THERE_AND_BACK, 1);
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
    fails_without(Dialect::Leads, Guard::Clear, LOST);
}

#[test]
fn rows_are_lost_if_the_giver_deletes_them_before_the_last_page_is_stored() {
    fails_without(Dialect::Roots, Guard::Last, LOST);
    fails_without(Dialect::Leads, Guard::Last, LOST);
}

/// Two faults at once would be needed to reach these answers, so the model does not see them.
#[test]
fn a_request_of_a_layout_or_a_transfer_that_is_over_moves_nothing() {
    let request = |version, continued| GiverRequest {
        to: 1,
        version,
        failed: None,
        continued,
    };
    let sealed = Holding::Sealed(Sealed {
        to: 1,
        version: Some(3),
        seal: 8,
    });
    let here = Holding::Here { since: Some(3) };
    for version in 1..=3 {
        let is_last = version == 3;
        let rows = if is_last {
            Given::Rows { seal: 8 }
        } else {
            Given::Old
        };
        assert_eq!(asked(&sealed, false, &request(version, None)), rows);
        assert_eq!(asked(&here, false, &request(version, None)), Given::Old);
    }
    assert_eq!(asked(&sealed, false, &request(3, Some(7))), Given::Old);
    let used = Holding::<u8, u8>::Here { since: None };
    assert_eq!(asked(&used, false, &request(4, Some(7))), Given::Old);
}

#[test]
fn pages_of_two_transfers_are_not_stored_together() {
    let page = |seal, next| GiverAnswer::Rows {
        seal,
        rows: 0_u8,
        next,
    };
    for (seal, is_stored) in [(7, true), (8, false)] {
        let mut taker = Taker::new(0_u8, 0_u8, [1], 4);
        let _: TakerStep<u8, u8, u8> = taker.advance();
        let first = taker.answered(page(7, Some(1_u8)));
        assert!(matches!(first, TakerStep::Store { debt: None, .. }));
        let second = taker.answered(page(seal, None));
        let stores = matches!(second, TakerStep::Store { debt: Some(_), .. });
        assert_eq!(stores, is_stored, "seal {seal}");
    }
}
