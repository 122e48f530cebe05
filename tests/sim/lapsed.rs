//! Laws of counters that end by themselves, each in a world of its own that is written out step by step.

use super::steps::Step;
use super::world::World;

fn write(edge: u8) -> Step {
    Step::write(edge, 5)
}

fn put(seconds: u8, is_sliding: bool) -> Step {
    Step::Put {
        counter: 0,
        shards: None,
        ttl: Some((seconds, is_sliding)),
    }
}

/// A keyed write, which asks the root first.
const KEYED: Step = Step::Keyed {
    counter: 0,
    edge: 1,
    key: 1,
    is_other: false,
};

/// A lead that counts, and knows of a time to live.
fn mortal(seconds: u8, is_sliding: bool) -> World {
    let mut world = World::new();
    for step in [write(0), put(seconds, is_sliding)] {
        world.step(step);
        world.rest();
    }
    world
}

fn all(world: &mut World, steps: &[Step]) {
    for step in steps {
        world.step(*step);
    }
}

#[test]
fn a_cell_that_cannot_be_stopped_stops_by_itself() {
    let mut world = mortal(2, false);
    all(&mut world, &[Step::Tick(2_100), KEYED, Step::Deliver(0)]);
    assert_eq!(world.under_way(), (1, 0), "the lead is told to stop");
    all(
        &mut world,
        &[Step::LoseRequest(0), write(2), Step::Deliver(1)],
    );
    world.check();
}

#[test]
fn a_lead_that_does_not_know_its_end_is_told_before_it_comes() {
    let mut world = World::new();
    world.step(write(0));
    world.rest();
    all(&mut world, &[put(2, true), Step::Deliver(0)]);
    assert_eq!(world.under_way(), (1, 0), "the settings");
    all(&mut world, &[Step::LoseRequest(0), Step::Answer(0)]);
    all(&mut world, &[Step::Tick(2_100), KEYED]);
    // The root asks the lead, and is answered.
    for step in [Step::Deliver(0), Step::Deliver(0), Step::Answer(0)] {
        world.step(step);
    }
    all(&mut world, &[write(2), Step::Deliver(1)]);
    world.check();
}

#[test]
fn a_deletion_does_not_take_a_lead_for_stopped_whose_time_is_over_for_the_root_alone() {
    let mut world = mortal(3, true);
    world.step(Step::Tick(2_900));
    world.step(write(0));
    world.rest();
    // It now lives for three more seconds, which the root has not heard.
    all(&mut world, &[Step::End(0), Step::Deliver(0)]);
    assert_eq!(world.under_way(), (1, 0), "the lead is told to stop");
    all(&mut world, &[Step::Tick(200), Step::LoseRequest(0)]);
    // Were the counter ended now, this would be on its way behind the word of it.
    all(&mut world, &[write(2), Step::Deliver(1)]);
    world.check();
}

#[test]
fn a_late_copy_of_a_flush_counts_in_no_newer_generation() {
    let mut world = World::new();
    world.step(write(0));
    world.rest();
    // Its lane knows the generation now. The first attempt is late, the second is counted.
    all(&mut world, &[write(0), Step::GiveUp(0)]);
    assert_eq!(world.under_way(), (2, 0), "both attempts");
    all(&mut world, &[Step::Deliver(1), Step::Answer(0)]);
    assert_eq!(world.under_way(), (1, 0), "the first attempt");
    world.step(Step::End(0));
    world.rest_behind(1, 0);
    // The cell forgets what it had counted, and another isolate begins the counter again.
    world.step(Step::Crash(0));
    world.step(write(1));
    world.rest_behind(1, 0);
    world.check();
}
