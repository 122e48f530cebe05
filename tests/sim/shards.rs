//! Law: however the number of shards goes up and down, whatever is lost, late or crashes, each
//! acknowledged write is in every later complete sum exactly once, and at rest the sum is a plain integer.
use proptest::collection::vec;
use proptest::prelude::*;

use super::CELLS;
use super::steps::Step;
use super::world::{EDGES, TICK_MS_MAX, World};
use crate::common::config;

/// How many moments after a mishap another may follow.
const LATER: usize = 3;

/// Doubles, admits, halves, seals, sends a late isolate on, doubles and admits again, halves, and is
/// stopped and resumed.
const LIFE: [Step; 20] = [
    FIRST,
    Step::Double(0),
    SECOND,
    Step::Read {
        counter: 0,
        about_times: false,
    },
    Step::Halve(0),
    FIRST,
    Step::Believe {
        counter: 0,
        edge: 1,
        doublings: 1,
    },
    SECOND,
    Step::Read {
        counter: 0,
        about_times: false,
    },
    Step::Double(0),
    Step::Believe {
        counter: 0,
        edge: 1,
        doublings: 1,
    },
    SECOND,
    Step::Suspend(0),
    Step::Read {
        counter: 0,
        about_times: true,
    },
    Step::Resume,
    SECOND,
    Step::Halve(0),
    FIRST,
    Step::Alarm(0),
    Step::Read {
        counter: 0,
        about_times: false,
    },
];

/// An isolate of the lead, and one of the first shard where there are more.
const FIRST: Step = Step::Write {
    counter: 0,
    edge: 0,
    added: 3,
    removed: 1,
};
const SECOND: Step = Step::Write {
    counter: 0,
    edge: 1,
    added: 70,
    removed: 2,
};

/// Lives it through with these mishaps, each before the moment of that number. Returns how many
/// moments there were.
fn live(mishaps: &[(usize, Step)]) -> usize {
    let mut world = World::new();
    let mut life = LIFE.into_iter();
    for moment in 0.. {
        for (_, mishap) in mishaps.iter().filter(|(at, _)| *at == moment) {
            world.step(*mishap);
        }
        match world.next_arrival().or_else(|| life.next()) {
            Some(step) => world.step(step),
            None => {
                world.check();
                return moment;
            }
        }
    }
    0
}

#[test]
fn a_mishap_at_any_moment_loses_nothing_and_counts_nothing_twice() {
    let moments = live(&[]);
    assert!(moments > 60, "{moments} moments");
    let mishaps = [
        Step::Crash(0),
        Step::Crash(1),
        Step::LoseRequest(0),
        Step::LoseAnswer(0),
        Step::GiveUp(0),
        Step::Refuse(0, 1),
        Step::Refuse(1, 1),
        Step::Double(0),
        Step::Halve(0),
        Step::Alarm(0),
        Step::Suspend(0),
    ];
    let others = [Step::Crash(0), Step::Crash(1), Step::GiveUp(0)];
    for first in 0..moments {
        for one in mishaps {
            live(&[(first, one)]);
            for later in 0..LATER {
                let other = others[(first + later) % others.len()];
                live(&[(first, one), (first + later, other)]);
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let cell = 0..CELLS;
    let pick = || any::<prop::sample::Index>().prop_map(|index| index.index(1 << 16));
    prop_oneof![
        40 => pick().prop_map(Step::Deliver),
        40 => pick().prop_map(Step::Answer),
        20 => (0..EDGES, any::<u8>(), 0..4_u8)
            .prop_map(|(edge, added, removed)| Step::Write { counter: 0, edge, added, removed }),
        4 => (0..EDGES, 0..=3_u8).prop_map(|(edge, doublings)| Step::Believe { counter: 0, edge, doublings }),
        6 => Just(Step::Double(0)),
        8 => Just(Step::Halve(0)),
        3 => Just(Step::Alarm(0)),
        6 => any::<bool>().prop_map(|about_times| Step::Read { counter: 0, about_times }),
        1 => pick().prop_map(Step::LoseRequest),
        1 => pick().prop_map(Step::LoseAnswer),
        2 => pick().prop_map(Step::GiveUp),
        2 => cell.clone().prop_map(Step::Crash),
        1 => (cell, 1..=2_u32).prop_map(|(cell, times)| Step::Refuse(cell, times)),
        1 => Just(Step::Suspend(0)),
        3 => Just(Step::Resume),
        2 => (0..=TICK_MS_MAX).prop_map(Step::Tick),
    ]
}

proptest! {
    #![proptest_config(config(81, 200))]

    #[test]
    fn every_write_is_in_every_sum_exactly_once(steps in vec(step(), 1..400)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.check();
    }
}

/// A lead that counts, with two shards where the first shard counts too.
fn two_shards() -> World {
    let mut world = World::new();
    for step in [FIRST, Step::Double(0), LATE, SECOND] {
        world.step(step);
        world.rest();
    }
    world
}

/// The isolate of the first shard believes that there are two.
const LATE: Step = Step::Believe {
    counter: 0,
    edge: 1,
    doublings: 1,
};

fn steps(world: &mut World, steps: &[Step]) {
    for step in steps {
        world.step(*step);
    }
}

#[test]
fn a_shard_that_was_silent_when_it_was_sealed_takes_no_grant_from_before() {
    let mut world = World::new();
    world.step(FIRST);
    world.rest();
    // The flush, the question whether it may count; and its grant stays on its way.
    steps(
        &mut world,
        &[
            Step::Double(0),
            LATE,
            SECOND,
            Step::Deliver(0),
            Step::Deliver(0),
        ],
    );
    steps(&mut world, &[Step::Halve(0), Step::Deliver(0)]);
    assert_eq!(
        world.under_way(),
        (0, 2),
        "the grant, and that nothing was sealed"
    );
    steps(&mut world, &[Step::Answer(1), Step::Answer(0)]);
    world.check();
}

#[test]
fn a_repeated_flush_calls_no_value_exact_that_never_was() {
    let mut world = two_shards();
    steps(&mut world, &[FIRST, Step::Deliver(0), Step::LoseAnswer(0)]);
    assert_eq!(world.under_way(), (1, 0), "the repetition");
    let third = Step::Write {
        counter: 0,
        edge: 2,
        added: 200,
        removed: 0,
    };
    for step in [
        Step::Believe {
            counter: 0,
            edge: 2,
            doublings: 0,
        },
        third,
        LATE,
        SECOND,
        Step::Halve(0),
    ] {
        world.step(step);
        world.rest_behind(1, 0);
    }
    world.check();
}

#[test]
fn a_write_whose_first_attempt_is_late_is_not_sent_elsewhere() {
    let mut world = two_shards();
    world.step(Step::Halve(0));
    world.rest();
    steps(&mut world, &[LATE, SECOND, Step::GiveUp(0)]);
    assert_eq!(world.under_way(), (2, 0), "both attempts");
    world.rest_behind(1, 0);
    // The shard counts again, for another isolate, when the first attempt comes.
    let other = Step::Write {
        counter: 0,
        edge: 3,
        added: 9,
        removed: 0,
    };
    for step in [
        Step::Double(0),
        Step::Believe {
            counter: 0,
            edge: 3,
            doublings: 1,
        },
        other,
    ] {
        world.step(step);
        world.rest_behind(1, 0);
    }
    world.check();
}

#[test]
fn a_write_that_storage_refused_makes_no_late_seal_current() {
    let mut world = two_shards();
    steps(
        &mut world,
        &[Step::Crash(0), Step::Halve(0), Step::Deliver(0)],
    );
    assert_eq!(world.under_way(), (0, 1), "what the shard had counted");
    for step in [Step::Double(0), LATE, SECOND] {
        world.step(step);
        world.rest_behind(0, 1);
    }
    steps(
        &mut world,
        &[
            Step::Refuse(0, 1),
            FIRST,
            Step::Deliver(0),
            Step::LoseRequest(0),
        ],
    );
    world.step(Step::Halve(0));
    world.rest();
    world.check();
}

#[test]
fn a_write_that_storage_refused_makes_no_late_grant_current() {
    let mut world = two_shards();
    world.step(Step::Halve(0));
    world.rest();
    steps(
        &mut world,
        &[
            Step::Crash(1),
            Step::Double(0),
            LATE,
            SECOND,
            Step::Deliver(0),
            Step::Deliver(0),
        ],
    );
    assert_eq!(world.under_way(), (0, 1), "the grant");
    // Sealed twice; what the first brought is kept, and the second is not written.
    steps(
        &mut world,
        &[
            Step::Halve(0),
            Step::Alarm(0),
            Step::Deliver(0),
            Step::Answer(1),
        ],
    );
    steps(
        &mut world,
        &[
            Step::Refuse(1, 1),
            Step::Deliver(0),
            Step::Answer(1),
            Step::Answer(0),
        ],
    );
    world.check();
}
