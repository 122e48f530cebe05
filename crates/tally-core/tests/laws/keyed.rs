//! Laws of keyed writes with two ledgers, in all interleavings of two senders, a root and two leads. The home of the
//! counter moves twice. Messages are lost, doubled or late, and a place crashes after any effect.
//!
//! Laws: what was acknowledged is in the sum, once. At most one lead counts. Each write ends once faults stop. Without
//! a guard a law fails, and the shortest trace is printed.

mod world;

use tally_testing::search::explore;
use world::{Guard, Keys, World};

/// The leads that are home, one after the other.
const HOMES: &[u8] = &[0, 1, 0];

/// A late copy arrives where its lead has struck the write out, and is home again.
const HOMES_OF_THREE_MOVES: &[u8] = &[0, 1, 0, 1];

fn keeps_the_laws(keys: Keys, homes: &'static [u8], faults: (u8, u8)) {
    let explored = explore(vec![World::new(keys, homes, None, faults)], true);
    explored.keeps_the_laws(&format!("keyed writes of {keys:?}"), 1_000);
}

fn fails_without(keys: Keys, guard: Guard, law: &str) {
    let explored = explore(vec![World::new(keys, HOMES, Some(guard), (1, 0))], false);
    explored.breaks(&format!("keyed writes without {guard:?}"), law);
}

#[test]
fn a_write_with_a_key_of_a_client_counts_once_and_ends() {
    keeps_the_laws(Keys::Client, HOMES, (1, 1));
    keeps_the_laws(Keys::TwoClients, HOMES, (0, 1));
    keeps_the_laws(Keys::Client, HOMES_OF_THREE_MOVES, (1, 0));
}

#[test]
fn a_write_with_a_drawn_key_counts_once_and_ends() {
    keeps_the_laws(Keys::Drawn, HOMES, (1, 1));
}

/// Minutes: `make soak` runs it.
#[test]
#[ignore = "many worlds"]
fn two_clients_with_all_faults_keep_the_laws_of_keyed_writes() {
    keeps_the_laws(Keys::TwoClients, HOMES, (1, 1));
    keeps_the_laws(Keys::Drawn, HOMES_OF_THREE_MOVES, (2, 1));
}

const TWICE: &str = "counts twice";

#[test]
fn a_write_counts_twice_if_a_late_copy_lifts_the_record_that_struck_it_out() {
    fails_without(Keys::Client, Guard::Moves, TWICE);
}

#[test]
fn a_write_counts_twice_if_it_is_struck_out_without_a_record() {
    fails_without(Keys::Client, Guard::Record, TWICE);
    fails_without(Keys::Drawn, Guard::Record, TWICE);
}

#[test]
fn a_write_counts_twice_if_the_root_moves_a_claim_that_its_holder_has_not_struck_out() {
    fails_without(Keys::TwoClients, Guard::Holder, TWICE);
}

#[test]
fn a_write_is_missing_if_the_home_moves_before_the_old_one_has_stopped() {
    fails_without(Keys::Client, Guard::Stop, "is missing in the sum");
}
