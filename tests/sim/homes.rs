//! Laws of homes, each in a world of its own that is written out step by step.

use super::deeds::Deed;
use super::steps::Step;
use super::world::World;

/// A keyed write that enters in the second datacenter.
const KEYED: Step = Step::Keyed {
    counter: 0,
    edge: 1,
    key: 1,
    is_other: false,
};

/// A world with so many datacenters, of which the second has claimed a keyed write that is on its way there.
fn claimed(datacenters: usize) -> World {
    let mut world = World::of(1, datacenters, false);
    for edge in 0..u8::try_from(datacenters).expect("few") {
        world.step(Step::Write {
            counter: 0,
            edge,
            added: 1,
            removed: 0,
        });
        world.rest();
    }
    world.step(KEYED);
    world.step(Step::Deliver(0));
    world.step(Step::Answer(0));
    assert_eq!(
        world.under_way(),
        (1, 0),
        "the write, to the lead that has its key"
    );
    world
}

/// The same, and it was struck out there, when home was moved to the first datacenter: its claim for home is on its way
/// to the root.
fn claimed_again(datacenters: usize) -> World {
    let mut world = claimed(datacenters);
    world.step(Step::put_home(0));
    world.rest_behind(1, 0);
    for _ in 0..2 {
        world.step(Step::Deliver(0));
    }
    for _ in 0..2 {
        world.step(Step::Answer(0));
    }
    assert_eq!(world.under_way(), (1, 0), "the claim, struck out");
    world
}

/// Home has the key, and never hears of the write.
fn lose_at_home(world: &mut World, pick: usize) {
    for _ in 0..2 {
        world.step(Step::LoseRequest(pick));
    }
}

#[test]
fn a_home_that_comes_back_counts_what_it_has_struck_out() {
    let mut world = claimed_again(2);
    world.step(Step::Deliver(0));
    world.step(Step::Answer(0));
    assert_eq!(world.under_way(), (1, 0), "the write, to home");
    lose_at_home(&mut world, 0);
    world.step(Step::put_home(1));
    world.rest();
    world.check();
}

#[test]
fn a_late_copy_of_what_was_struck_out_is_not_counted_where_home_has_come_back() {
    let mut world = claimed(2);
    world.step(Step::Repeat(0));
    world.step(Step::put_home(0));
    world.rest_behind(2, 0);
    world.step(Step::Deliver(0));
    world.rest_behind(1, 0);
    assert_eq!(world.under_way(), (1, 0), "the copy; home has counted it");
    world.step(Step::put_home(1));
    world.rest_behind(1, 0);
    world.step(Step::Write {
        counter: 0,
        edge: 1,
        added: 1,
        removed: 0,
    });
    world.rest_behind(1, 0);
    world.rest();
    world.check();
}

#[test]
fn a_late_claim_moves_no_key_that_has_come_back_since() {
    let mut world = claimed_again(3);
    world.step(Step::Repeat(0));
    world.step(Step::Deliver(0));
    world.step(Step::Answer(0));
    assert_eq!(world.under_way(), (2, 0), "the copy, and the write to home");
    lose_at_home(&mut world, 1);
    world.step(Step::put_home(1));
    world.rest_behind(1, 0);
    // It is struck out at the first home, comes back and is counted.
    world.step(KEYED);
    world.rest_behind(1, 0);
    world.step(Step::put_home(2));
    world.rest_behind(1, 0);
    assert_eq!(world.under_way(), (1, 0), "the copy of the claim");
    world.rest();
    // Its client asks again, and whoever has the key tells what was counted.
    world.check();
}

#[test]
fn a_decrement_that_was_refused_is_not_counted_by_an_attempt_that_comes_late() {
    let mut world = World::of(1, 1, false);
    world.step(Step::Operate {
        counter: 0,
        edge: 0,
        deed: Deed::Put(Some(0), Some(0)),
    });
    world.rest();
    let decrement = Step::Keyed {
        counter: 0,
        edge: 0,
        key: 1,
        is_other: true,
    };
    world.step(decrement);
    world.step(Step::Deliver(0));
    world.step(Step::Answer(0));
    assert_eq!(world.under_way(), (1, 0), "the decrement, to home");
    // Its client hears nothing, asks again and is told that there is no room.
    world.step(Step::Repeat(0));
    world.step(Step::Deliver(0));
    world.rest_behind(1, 0);
    assert_eq!(world.under_way(), (1, 0), "the copy");
    for _ in 0..10 {
        world.step(Step::Write {
            counter: 0,
            edge: 0,
            added: 200,
            removed: 0,
        });
        world.rest_behind(1, 0);
    }
    world.rest();
    world.check();
}
