//! Laws of the sweep after a change of layout: in all interleavings of its turns with refusals, a second change,
//! bundles that calls move, and restarts. Once the sweep is over, every bundle is where it belongs. A turn asks for no
//! more bundles than it may. Each sweep ends once bundles are not refused any more. Without a guard a law fails, and
//! the shortest trace is printed.

mod world;

use tally_core::handover::sweep::SweepStep;
use tally_core::handover::{Holding, Sealed};
use tally_testing::search::explore;
use world::{Guard, Progress, World};

fn fails_without(progress: Progress, guard: Guard) {
    let explored = explore(vec![World::new(progress, Some(guard))], false);
    explored.breaks(&format!("{progress:?} without {guard:?}"), "is left");
}

#[test]
fn each_bundle_is_asked_for_whatever_is_refused_or_restarts() {
    for progress in [Progress::Stored, Progress::InMemory] {
        let explored = explore(vec![World::new(progress, None)], true);
        explored.keeps_the_laws(&format!("sweep, {progress:?}"), 1_000);
    }
}

#[test]
fn bundles_are_left_if_a_turn_of_an_earlier_layout_is_recorded() {
    fails_without(Progress::Stored, Guard::Current);
    fails_without(Progress::InMemory, Guard::Current);
}

#[test]
fn a_bundle_is_left_if_its_refusal_is_forgotten() {
    fails_without(Progress::Stored, Guard::Left);
    fails_without(Progress::InMemory, Guard::Left);
}

#[test]
fn bundles_are_left_if_a_turn_is_recorded_before_it_is_over() {
    fails_without(Progress::Stored, Guard::Order);
}

#[test]
fn a_bundle_is_left_if_a_turn_with_unread_names_ends_the_sweep() {
    fails_without(Progress::Stored, Guard::Full);
}

#[test]
fn a_place_searches_for_what_it_has_sealed_and_may_need_again() {
    let sealed = Holding::<u8, u8>::Sealed(Sealed {
        to: 1,
        version: None,
        seal: 7,
    });
    let here = Holding::<u8, u8>::Here { since: None };
    assert_eq!(sealed.swept(true), SweepStep::Search);
    assert_eq!(here.swept(true), SweepStep::Stay);
    for holding in [sealed, here, Holding::Nothing] {
        assert_eq!(holding.swept(false), SweepStep::Move);
    }
}
