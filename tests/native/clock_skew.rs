//! Clocks that are ten minutes off, at an edge or at an object: no count is lost or doubled, no other
//! cell's windows move, and all is as it should be once the clock is.

use crate::common;
use crate::common::rows;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use rows::Rows;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Element, Load};
use tally_core::counter::grant::Grant;
use tally_core::counter::history::{Count, Resolution};
use tally_core::counter::merge::{Question, Range};
use tally_core::counter::nonces::Nonce;
use tally_core::counter::settings::Settings;
use tally_core::sketch::{HashKey, Uniques, hash};

/// The middle of a minute, hour and day.
const BEGIN: i64 = 1_777_593_630;

const TEN_MINUTES: i64 = 600;

/// A cell with its rows and its clock, and an edge of its own.
struct Place {
    cell: CellState,
    rows: Rows,
    /// How far the object's clock is off, and the edge's, seconds.
    object: i64,
    edge: i64,
    flushes: u64,
    visitors: u32,
}

impl Place {
    fn new() -> Self {
        let mut cell = CellState::default();
        let grant = Grant {
            generation: 1,
            settings: Settings::default(),
            last_write_ms: 0,
            alone: true,
            spread: 0,
            ..Grant::default()
        };
        cell.take_grant(grant, BEGIN * 1_000);
        Self {
            cell,
            rows: Rows::default(),
            object: 0,
            edge: 0,
            flushes: 0,
            visitors: 0,
        }
    }

    /// Counts an increment of a new visitor at this true second.
    fn write(&mut self, now: i64, amount: u128) {
        self.flushes += 1;
        self.visitors += 1;
        let token = Element::of(hash(&HashKey::from([2; 16]), &self.visitors.to_le_bytes()));
        let load = Load {
            added: amount,
            live: vec![(now + self.edge, amount)],
            tokens: vec![(now + self.edge, token)],
            writes: 1,
            ..Load::default()
        };
        let nonce = Nonce {
            lane: 1,
            number: self.flushes,
        };
        let local = now + self.object;
        let counted = self.cell.apply(nonce, &load, local * 1_000);
        let (outcome, changes) = counted.expect("it counts");
        self.rows.write(&self.cell, &changes, local);
        // The lane's own retry, a little later.
        let again = self.cell.apply(nonce, &load, (local + 2) * 1_000);
        assert_eq!(again.expect("it is known").0, outcome);
    }

    fn question(window: Option<(i64, i64)>, history: Option<Range>) -> Question {
        Question {
            window,
            history,
            ..Question::plain(1)
        }
    }

    fn total(&self) -> u128 {
        let part = self.cell.answer(&Self::question(None, None));
        part.expect("it counts").added().low_bits()
    }

    /// What it counted in the `length` seconds up to a true second.
    fn window(&self, now: i64, length: i64) -> Count {
        let question = Self::question(Some((now - length + 1, now)), None);
        let part = self.cell.answer(&question).expect("it counts");
        part.window
    }

    fn visitors_since(&self, from: i64, to: i64) -> f64 {
        self.rows.window_uniques(from, to).estimate().estimate
    }

    /// All that lies in buckets of a day, wherever.
    fn in_days(&self) -> u128 {
        let range = Range {
            step: Resolution::Day,
            from: BEGIN - 10 * 86_400,
            to: BEGIN + 10 * 86_400,
        };
        let part = self.cell.answer(&Self::question(None, Some(range)));
        let points = part.expect("it counts").points;
        points.values().sum()
    }
}

/// An increment a second for a while, at both places.
fn write_each_second(places: &mut [Place], from: i64, to: i64) {
    for now in from..to {
        for place in places.iter_mut() {
            place.write(now, 1);
        }
    }
}

#[test]
fn an_edge_ten_minutes_off_counts_within_five_seconds_of_the_truth() {
    for off in [TEN_MINUTES, -TEN_MINUTES] {
        let mut places = [Place::new(), Place::new()];
        places[0].edge = off;
        write_each_second(&mut places, BEGIN, BEGIN + 60);
        let now = BEGIN + 59;
        for place in &places {
            assert_eq!((place.total(), place.in_days()), (60, 60));
        }
        // Its stamps are moved to the end of the five seconds that is nearer.
        assert_eq!(places[0].window(now + 5, 70).count, 60, "{off}");
        assert_eq!(
            places[1].window(now, 60),
            Count {
                count: 60,
                max_error: 0
            }
        );
        // Set right, it counts to the second.
        places[0].edge = 0;
        write_each_second(&mut places, BEGIN + 100, BEGIN + 130);
        assert_eq!(places[0].window(BEGIN + 129, 29).count, 29, "{off}");
    }
}

#[test]
fn visitors_of_an_edge_ten_minutes_off_are_seen_in_the_minutes_that_they_came_in() {
    for off in [TEN_MINUTES, -TEN_MINUTES] {
        let mut places = [Place::new(), Place::new()];
        places[0].edge = off;
        // Two minutes and a half, from the beginning of one on.
        let (from, to) = (BEGIN + 30, BEGIN + 180);
        write_each_second(&mut places, from, to);
        for (place, name) in places.iter().zip(["off", "right"]) {
            let seen = place.visitors_since(from - 5, to - 1).round();
            assert_eq!(seen, 150.0, "{name} {off}");
            let before = place.visitors_since(from - 2 * TEN_MINUTES, from - 66);
            assert_eq!(before.round(), 0.0, "{name} {off}");
            assert_eq!(place.cell.uniques().estimate().estimate.round(), 150.0);
        }
        // Set right, all are in the minute that is theirs.
        places[0].edge = 0;
        write_each_second(&mut places, BEGIN + 270, BEGIN + 330);
        for place in &places {
            let seen = place.visitors_since(BEGIN + 270, BEGIN + 329).round();
            assert_eq!(seen, 60.0, "{off}");
        }
    }
}

/// The elements of logs, and of keyed writes that are sent again, keep their times.
#[test]
fn visitors_of_the_past_stay_there() {
    let mut place = Place::new();
    place.write(BEGIN, 1);
    let token = Element::of(hash(&HashKey::from([2; 16]), b"somebody else"));
    let hour_ago = BEGIN - 3_600;
    let load = Load {
        past_tokens: vec![(hour_ago, token)],
        ..Load::default()
    };
    let nonce = Nonce { lane: 2, number: 1 };
    let counted = place.cell.apply(nonce, &load, BEGIN * 1_000);
    let (_, changes) = counted.expect("it counts");
    place.rows.write(&place.cell, &changes, BEGIN);
    let seen = |from, to| place.visitors_since(from, to).round();
    assert_eq!(
        (seen(hour_ago, hour_ago), seen(BEGIN - 300, BEGIN)),
        (1.0, 1.0)
    );
    assert_eq!(place.cell.uniques().estimate().estimate.round(), 2.0);
}

/// Also where a newer minute has begun: a window of the minute that a log is of has its lines.
#[test]
fn visitors_of_a_log_of_the_last_minute_stay_in_it() {
    let mut place = Place::new();
    place.write(BEGIN, 1);
    let before = BEGIN - 31;
    for (number, at) in [(1, before), (2, before - 60)] {
        let token = Element::of(hash(&HashKey::from([2; 16]), &[7, 7]));
        let load = Load {
            past_tokens: vec![(at, token)],
            ..Load::default()
        };
        let counted = place
            .cell
            .apply(Nonce { lane: 2, number }, &load, BEGIN * 1_000);
        let (_, changes) = counted.expect("it counts");
        place.rows.write(&place.cell, &changes, BEGIN);
        assert_eq!(place.visitors_since(at, at).round(), 1.0, "{at}");
    }
    assert_eq!(place.visitors_since(BEGIN, BEGIN).round(), 1.0);
    assert_eq!(place.visitors_since(BEGIN - 300, BEGIN).round(), 2.0);
    assert_eq!(place.cell.uniques().estimate().estimate.round(), 2.0);
}

#[test]
fn an_object_ten_minutes_off_loses_nothing_and_moves_nobody_else() {
    for off in [TEN_MINUTES, -TEN_MINUTES] {
        let mut places = [Place::new(), Place::new()];
        write_each_second(&mut places, BEGIN, BEGIN + 120);
        places[0].object = off;
        write_each_second(&mut places, BEGIN + 120, BEGIN + 240);
        for place in &places {
            assert_eq!((place.total(), place.in_days()), (240, 240), "{off}");
            assert_eq!(
                place.cell.uniques().estimate().estimate.round(),
                240.0,
                "{off}"
            );
        }
        assert_eq!(
            places[1].window(BEGIN + 239, 240),
            Count {
                count: 240,
                max_error: 0
            }
        );
        // What it counted before its clock went wrong is still where it was.
        assert_eq!(places[0].window(BEGIN + 119, 120).count, 120, "{off}");
    }
}

#[test]
fn an_object_recovers_when_its_clock_does() {
    let both = [TEN_MINUTES, -TEN_MINUTES].map(|off| [(off, 0), (off, off)]);
    for (off, edge) in both.into_iter().flatten() {
        let mut places = [Place::new(), Place::new()];
        (places[0].object, places[0].edge) = (off, edge);
        write_each_second(&mut places, BEGIN, BEGIN + 60);
        (places[0].object, places[0].edge) = (0, 0);
        // From the next full minute on, so that sketches of minutes can be compared.
        let (from, to) = (BEGIN + 90, BEGIN + 270);
        write_each_second(&mut places, from, to);
        for (place, name) in places.iter().zip(["off", "right"]) {
            assert_eq!((place.total(), place.in_days()), (240, 240), "{name} {off}");
            let window = place.window(to - 1, to - from);
            assert_eq!(
                window,
                Count {
                    count: 180,
                    max_error: 0
                },
                "{name} {off}"
            );
            let seen = place.visitors_since(from, to - 1).round();
            assert_eq!(
                seen, 180.0,
                "{name} {off}: visitors of the last three minutes"
            );
            assert_eq!(
                place.cell.uniques().estimate().estimate.round(),
                240.0,
                "{name} {off}"
            );
        }
        // Long after, what was counted in the meantime lies where the wrong clock put it.
        let misplaced = places[0].window(BEGIN + off + 59 + 5, 70);
        assert_eq!(misplaced.count + 180, 240, "{off}");
    }
}

/// What a restart reads back is the same, wherever the clock has been.
#[test]
fn rows_written_under_a_wrong_clock_come_back() {
    for off in [TEN_MINUTES, -TEN_MINUTES] {
        let mut places = [Place::new()];
        places[0].object = off;
        write_each_second(&mut places, BEGIN, BEGIN + 60);
        places[0].object = 0;
        write_each_second(&mut places, BEGIN + 60, BEGIN + 120);
        let restored = Place {
            cell: places[0].rows.load(),
            ..Place::new()
        };
        assert_eq!(restored.total(), 120);
        assert_eq!(restored.in_days(), 120, "{off}");
        assert_eq!(restored.window(BEGIN + 119, 60).count, 60, "{off}");
        assert_eq!(restored.cell.uniques(), places[0].cell.uniques(), "{off}");
    }
}

proptest! {
    #![proptest_config(config(54, 48))]

    /// Clocks that step anywhere within ten minutes, again and again: a plain sum is what is counted.
    #[test]
    fn whatever_clocks_do_the_total_is_a_plain_sum(
        events in vec((0..30_i64, -TEN_MINUTES..=TEN_MINUTES, -TEN_MINUTES..=TEN_MINUTES, 1..9_u128), 1..60)
    ) {
        let mut place = Place::new();
        let mut now = BEGIN;
        let mut sums: BTreeMap<i64, u128> = BTreeMap::new();
        for (pause, object, edge, amount) in events {
            now += pause;
            place.object = object;
            place.edge = edge;
            place.write(now, amount);
            *sums.entry(now).or_default() += amount;
        }
        let sum: u128 = sums.values().sum();
        prop_assert_eq!(place.total(), sum);
        prop_assert_eq!(place.in_days(), sum);
        // Every visitor is seen once.
        let seen = place.cell.uniques().estimate().estimate.round();
        prop_assert_eq!(seen, f64::from(place.visitors));
        prop_assert_ne!(place.cell.uniques(), Uniques::new());
        let everything = place.window(now + 2 * TEN_MINUTES, 4 * 86_400);
        prop_assert_eq!(everything.count, sum);
    }
}
