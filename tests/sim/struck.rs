//! Laws of keys that were struck out while a generation ended, each in a world of its own that is written out step by
//! step.

use super::steps::Step;
use super::world::World;

fn write(edge: u8) -> Step {
    Step::write(edge, 1)
}

#[test]
fn a_lead_that_must_still_drop_a_generation_does_not_forget_what_it_struck_out() {
    let mut world = World::of(1, 2, false);
    for edge in [0, 1] {
        world.step(write(edge));
        world.rest();
    }
    // The counter ends, and the second lead does not hear of it.
    world.step(Step::End(0));
    world.step(Step::Deliver(0));
    assert_eq!(world.under_way(), (2, 0), "both are told to stop");
    for _ in 0..2 {
        world.step(Step::Deliver(0));
        world.step(Step::Answer(0));
    }
    assert_eq!(world.under_way(), (2, 0), "both are told of the end");
    world.step(Step::LoseRequest(1));
    world.rest();
    // A write begins it again, which reaches that lead once it counts no more, and a copy of it later.
    world.step(Step::Keyed {
        counter: 0,
        edge: 1,
        key: 1,
        is_other: false,
    });
    world.step(Step::Deliver(0));
    world.step(Step::Answer(0));
    assert_eq!(world.under_way(), (1, 0), "the write");
    world.step(Step::Repeat(0));
    world.step(Step::put_home(0));
    world.rest_behind(2, 0);
    world.step(Step::Deliver(0));
    world.rest_behind(1, 0);
    // It drops the generation that ended, and is home.
    world.step(Step::RootAlarm(0));
    world.rest_behind(1, 0);
    world.step(Step::put_home(1));
    world.rest_behind(1, 0);
    world.step(Step::Deliver(0));
    world.check();
}
