//! Laws of homes, each in a world of its own that is written out step by step.

use super::deeds::Deed;
use super::steps::Step;
use super::world::World;

fn put_home(number: usize) -> Step {
    Step::Operate {
        counter: 0,
        edge: 0,
        deed: Deed::Put(Some(number), None),
    }
}

#[test]
#[ignore = "does not hold yet: a claim comes back to a lead that has struck its key out, and is struck out again"]
fn a_home_that_comes_back_counts_what_it_has_struck_out() {
    let mut world = World::of(1, 2, false);
    for edge in [0, 1] {
        world.step(Step::Write {
            counter: 0,
            edge,
            added: 1,
            removed: 0,
        });
        world.rest();
    }
    world.step(Step::Keyed {
        counter: 0,
        edge: 1,
        key: 1,
        is_other: false,
    });
    world.step(Step::Deliver(0));
    world.step(Step::Answer(0));
    assert_eq!(
        world.under_way(),
        (1, 0),
        "the write, to the lead that has its key"
    );
    world.step(put_home(0));
    world.rest_behind(1, 0);
    // It is struck out, and claimed for home, which never hears of it.
    for _ in 0..2 {
        world.step(Step::Deliver(0));
        world.step(Step::Deliver(0));
        world.step(Step::Answer(0));
        world.step(Step::Answer(0));
    }
    assert_eq!(world.under_way(), (1, 0), "the write, to home");
    for _ in 0..2 {
        world.step(Step::LoseRequest(0));
    }
    world.step(put_home(1));
    world.rest();
    world.check();
}
