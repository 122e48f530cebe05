//! Laws of conditions, each in a world of its own that is written out step by step.

use tally::core::counter::ledger::WriteKey;

use super::deeds::Deed;
use super::steps::Step;
use super::world::World;

fn write(edge: u8) -> Step {
    Step::write(edge, 5)
}

/// A write under this key by whoever has the version of the write with that number; key 1 asks for an increment.
fn write_if(pick: usize, key: u8) -> Step {
    Step::WriteIf {
        counter: 0,
        edge: 0,
        pick: 3 * pick,
        key: Some(key),
    }
}

fn all(world: &mut World, steps: &[Step]) {
    for step in steps {
        world.step(*step);
        world.rest();
    }
}

fn is_counted(world: &World, key: u8) -> bool {
    let mut name = [key; 16];
    name[0] = 3;
    let oracle = world.airs[0].oracle.borrow();
    oracle.keys.is_settled(WriteKey(name))
}

#[test]
fn a_write_is_counted_while_its_version_fits() {
    let mut world = World::new();
    all(&mut world, &[write(0), write_if(0, 1)]);
    assert!(is_counted(&world, 1));
    all(&mut world, &[write_if(0, 2)]);
    assert!(!is_counted(&world, 2));
    world.check();
}

#[test]
fn what_was_counted_while_home_was_elsewhere_has_changed_the_counter() {
    let mut world = World::of(1, 2, false);
    let there_and_back = [
        Step::put_home(0),
        write(0),
        Step::put_home(1),
        write(1),
        Step::put_home(0),
    ];
    all(&mut world, &there_and_back);
    all(&mut world, &[write_if(0, 1)]);
    assert!(!is_counted(&world, 1));
    world.check();
}

#[test]
fn what_was_counted_before_there_was_a_home_has_changed_the_counter() {
    let mut world = World::of(1, 2, false);
    all(&mut world, &[write(0), write(0), Step::put_home(1)]);
    all(&mut world, &[write_if(0, 1)]);
    assert!(!is_counted(&world, 1));
    world.check();
}

#[test]
fn what_another_shard_counted_has_changed_the_counter() {
    let mut world = World::new();
    let believe = Step::Believe {
        counter: 0,
        edge: 1,
        doublings: 1,
    };
    all(&mut world, &[write(0), Step::Double(0), believe, write(1)]);
    all(&mut world, &[write_if(0, 1)]);
    assert!(!is_counted(&world, 1));
    world.check();
}

#[test]
fn an_operation_is_not_done_where_another_shard_has_counted_since() {
    let mut world = World::new();
    let believe = Step::Believe {
        counter: 0,
        edge: 1,
        doublings: 1,
    };
    all(&mut world, &[write(0), Step::Double(0), believe, write(1)]);
    let reset = Step::OperateIf {
        counter: 0,
        edge: 0,
        pick: 0,
        deed: Deed::Reset,
    };
    all(&mut world, &[reset]);
    world.check();
}

#[test]
fn a_decrement_that_races_a_set_does_not_take_it_below_the_floor() {
    let mut world = World::new();
    let operate = |deed| Step::Operate {
        counter: 0,
        edge: 0,
        deed,
    };
    let keyed = |key, is_other| Step::Keyed {
        counter: 0,
        edge: 0,
        key,
        is_other,
    };
    all(&mut world, &[operate(Deed::Put(Some(0), Some(0)))]);
    all(&mut world, &[keyed(2, false)]);
    // It is claimed, and on its way to home.
    for step in [keyed(1, true), Step::Deliver(0), Step::Answer(0)] {
        world.step(step);
    }
    assert_eq!(world.under_way(), (1, 0), "the decrement");
    let set = [operate(Deed::Set(10)), Step::Deliver(1), Step::Deliver(1)];
    for step in set.into_iter().chain([Step::Answer(0), Step::Deliver(0)]) {
        world.step(step);
    }
    world.check();
}

#[test]
fn no_flush_takes_the_value_below_the_floor() {
    let mut world = World::new();
    let put = Step::Operate {
        counter: 0,
        edge: 0,
        deed: Deed::Put(Some(0), Some(0)),
    };
    let take = Step::Write {
        counter: 0,
        edge: 0,
        added: 0,
        removed: 9,
    };
    all(&mut world, &[put, write(0), take]);
    world.check();
}
