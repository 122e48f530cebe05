//! Law: a window of unique elements is told whole, and nothing besides, whatever happened to its cell.

use crate::common;
use crate::common::living;

use common::config;
use living::{Event, Shell, event};
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::flush::Changes;

proptest! {
    #![proptest_config(config(31, 200))]

    #[test]
    fn elements_of_a_window_are_in_its_minutes(
        events in vec(event().prop_filter("a clock that goes on", |event| {
            !matches!(event, Event::Tick(..0) | Event::NewGeneration)
        }), 0..30),
        at in prop_oneof![Just(0), 0..100_000_i64, 0..1_000_000_i64],
    ) {
        let mut shell = Shell::new();
        for event in events {
            shell.take(event);
            if shell.together == Changes::default() {
                shell.check_windows_of_uniques(at)?;
            }
        }
        shell.commit();
        shell.check_windows_of_uniques(at)?;
    }
}

/// An element so many seconds ago, and then some time passes.
fn lived(steps: &[(i64, i64)]) -> Shell {
    let mut shell = Shell::new();
    for (number, (ago, passes)) in (0..).zip(steps) {
        shell.take(Event::Flush {
            live: Vec::new(),
            past: Vec::new(),
            tokens: vec![(-ago, number)],
            by: 7,
            is_joined: false,
        });
        shell.take(Event::Tick(*passes));
    }
    shell
}

#[test]
fn an_hour_is_joined_to_its_day_before_it_goes() {
    let shell = lived(&[(0, 691_171), (0, 0)]);
    shell
        .check_windows_of_uniques(2)
        .expect("nothing is missing");
}

#[test]
fn a_minute_of_the_hour_before_opens_its_hour_again() {
    let shell = lived(&[(31, 0)]);
    shell
        .check_windows_of_uniques(0)
        .expect("nothing is missing");
    // Its last minute was open when the next hour began.
    let shell = lived(&[(31, 0), (0, 3_570), (61, 0)]);
    shell
        .check_windows_of_uniques(0)
        .expect("nothing is missing");
}
