//! Laws of queued events, each in a world of its own that is written out step by step.

use super::steps::Step;
use super::world::World;

/// An event through that isolate. In a world of one datacenter even ones share an inbox.
fn queue(edge: u8) -> Step {
    Step::Queue { counter: 0, edge }
}

fn all(world: &mut World, steps: &[Step]) {
    for step in steps {
        world.step(*step);
    }
}

#[test]
fn an_event_whose_first_attempt_is_late_is_not_refused() {
    let mut world = World::new();
    // The first is gathered at once, and a quarter of a second later what comes now: the log is full.
    for edge in [0, 2, 4, 6, 0] {
        world.step(queue(edge));
        world.rest_behind(0, 0);
    }
    all(&mut world, &[queue(2), Step::GiveUp(0)]);
    assert_eq!(world.under_way(), (2, 0), "both attempts");
    // The second finds the log full; later there is room, and the first arrives.
    all(&mut world, &[Step::Deliver(1), Step::Answer(0)]);
    assert_eq!(world.under_way(), (1, 0), "the first attempt");
    world.step(Step::Tick(300));
    world.rest_behind(1, 0);
    world.check();
}

#[test]
fn a_generation_that_was_taken_back_is_not_counted_for() {
    let mut world = World::new();
    // The inbox asks for the generation; its name stays on its way while the counter ends.
    all(&mut world, &[queue(0), Step::Deliver(0), Step::Deliver(0)]);
    assert_eq!(world.under_way(), (0, 1), "the name of the generation");
    world.step(Step::End(0));
    world.rest_behind(0, 1);
    world.check();
}
