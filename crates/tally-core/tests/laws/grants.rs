//! Laws of grants, in all interleavings of a root, two leads and a new shard of one of them. The number of shards
//! changes twice. Messages are lost, doubled or late, and a place crashes after any effect.
//!
//! Laws: what was acknowledged is in the sum, once. A shard whose part the lead keeps counts nothing. Each grant comes
//! once faults stop. Without a guard a law fails, and the shortest trace is printed.

mod world;

use tally_testing::search::explore;
use world::{Guard, LEAD, OTHER, SHARD, World};

/// The numbers of shards that the lead spreads its writes over.
const ONE: &[u8] = &[1];
const TWO_CHANGES: &[u8] = &[1, 2, 1];

/// A part of the first seal may arrive after the second admission.
const FOUR_CHANGES: &[u8] = &[1, 2, 1, 2, 1];

fn keeps_the_laws(spreads: &'static [u8], writers: &'static [u8]) {
    let explored = explore(vec![World::new(spreads, writers, None, 1)], true);
    let model = format!("grants of {writers:?}, spread over {spreads:?}");
    explored.keeps_the_laws(&model, 1_000);
}

fn fails_without(guard: Guard, (spreads, writers): (&'static [u8], &'static [u8]), law: &str) {
    let explored = explore(vec![World::new(spreads, writers, Some(guard), 1)], false);
    explored.breaks(&format!("grants without {guard:?}"), law);
}

#[test]
fn a_write_of_a_new_shard_is_in_the_sum_once_and_each_grant_comes() {
    keeps_the_laws(TWO_CHANGES, &[SHARD]);
}

#[test]
fn a_write_of_a_new_datacenter_is_in_the_sum_once_and_each_grant_comes() {
    keeps_the_laws(ONE, &[LEAD, OTHER]);
}

/// Minutes: `make soak` runs it.
#[test]
#[ignore = "many worlds"]
fn a_new_shard_and_a_new_datacenter_at_once_keep_the_laws() {
    keeps_the_laws(FOUR_CHANGES, &[SHARD]);
    keeps_the_laws(TWO_CHANGES, &[LEAD, SHARD, OTHER]);
}

const MISSING: &str = "is missing in the sum";
const ALONE: &str = "is not the sum";

#[test]
fn a_write_is_missing_if_a_shard_takes_a_grant_from_before_it_was_sealed() {
    fails_without(Guard::Unseal, (TWO_CHANGES, &[SHARD]), MISSING);
}

#[test]
fn a_write_is_missing_if_the_lead_keeps_a_part_from_before_an_admission() {
    fails_without(Guard::Admission, (FOUR_CHANGES, &[SHARD]), MISSING);
}

#[test]
fn a_write_is_missing_if_the_lead_admits_a_shard_that_it_has_not_stored() {
    fails_without(Guard::Spread, (TWO_CHANGES, &[SHARD]), MISSING);
}

#[test]
fn a_write_is_missing_if_the_root_answers_a_lead_that_it_has_not_stored() {
    fails_without(Guard::Datacenter, (ONE, &[LEAD, OTHER]), MISSING);
}

#[test]
fn a_lead_shows_its_own_total_as_the_sum_if_the_root_does_not_notify_it_first() {
    fails_without(Guard::Lone, (ONE, &[LEAD, OTHER]), ALONE);
}

#[test]
fn a_lead_shows_its_own_total_as_the_sum_if_a_notice_does_not_void_its_grant_in_flight() {
    fails_without(Guard::Void, (ONE, &[LEAD, OTHER]), ALONE);
}
