//! Law: each count of a second is in memory or in a row, once, through crashes and changes of `seconds_kept`. The
//! history says from when its seconds are complete, and no sum depends on how long seconds are kept.

use std::collections::BTreeMap;

use crate::common::config;
use crate::common::stored_cell::{StoredCell, grant};
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::cell::clamp_stamp;
use tally_core::counter::flush::Load;
use tally_core::counter::grant::Grant;
use tally_core::counter::history::seconds::{HOUR, PackedSeconds};
use tally_core::counter::history::{Resolution, SECONDS_KEPT};
use tally_core::counter::nonces::Nonce;
use tally_core::counter::settings::Settings;
use tally_testing::chance::Chance;
use tally_wire::messages::{decode, encode};

/// 1 May 2026, 00:00:55 UTC.
const BEGIN: i64 = 1_777_593_655;
const DAY: i64 = 86_400;

struct Shell {
    stored: StoredCell,
    number: u64,
    truth: BTreeMap<i64, u128>,
}

impl Shell {
    fn new() -> Self {
        Self {
            stored: StoredCell::new(BEGIN, 86_400_000),
            number: 0,
            truth: BTreeMap::new(),
        }
    }

    fn flush(&mut self, live: &[(i64, u128)], past: &[(i64, u128)]) {
        let now = self.stored.now;
        let stamped = |ago: &[(i64, u128)]| -> Vec<(i64, u128)> {
            ago.iter().map(|(ago, count)| (now - ago, *count)).collect()
        };
        let load = Load {
            added: live.iter().chain(past).map(|(_, count)| count).sum(),
            live: stamped(live),
            past: stamped(past),
            ..Load::default()
        };
        for (second, count) in &load.live {
            *self.truth.entry(clamp_stamp(*second, now)).or_insert(0) += count;
        }
        for (second, count) in &load.past {
            *self.truth.entry(*second).or_insert(0) += count;
        }
        self.number += 1;
        let nonce = Nonce {
            lane: 1,
            number: self.number,
        };
        self.stored.flush(&[(nonce, load)]);
    }

    fn keep(&mut self, seconds_kept: Option<u32>) {
        self.number += 1;
        self.stored.cell.configure(Grant {
            revision: self.number,
            settings: Settings {
                number: self.number,
                seconds_kept,
                ..Settings::default()
            },
            ..grant()
        });
        self.stored.rows.write_hot(&self.stored.cell);
    }

    fn seconds(&self, range: (i64, i64)) -> BTreeMap<i64, u128> {
        let history = self.stored.cell.history();
        let points = history.points(Resolution::Second, range.0, range.1);
        let mut points = BTreeMap::from_iter(points);
        if history.in_memory_from().is_some() {
            self.stored.rows.add_seconds(&mut points, range);
        }
        points
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let range = (self.stored.now - 2 * DAY, self.stored.now + 10);
        let history = self.stored.cell.history();
        let kept_from = history.kept_from(Resolution::Second);
        let points = self.seconds(range);
        for (second, count) in &points {
            prop_assert!(
                self.truth.get(second) >= Some(count),
                "{second} counts twice"
            );
        }
        for (second, count) in self.truth.range(kept_from.max(range.0)..=range.1) {
            prop_assert_eq!(
                points.get(second),
                Some(count),
                "{} of {}",
                second,
                kept_from
            );
        }
        let total: u128 = self.truth.values().sum();
        let days = history.points(Resolution::Day, i64::MIN, i64::MAX);
        prop_assert_eq!(days.iter().map(|(_, count)| count).sum::<u128>(), total);
        // A window of 15 minutes is exact, however long seconds are kept.
        let now = self.stored.now;
        let window = history.count(now - 899, now);
        let counted: u128 = self
            .truth
            .range(now - 899..=now)
            .map(|(_, count)| count)
            .sum();
        prop_assert_eq!((window.count, window.max_error), (counted, 0));
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Event {
    Tick(i64),
    Crash,
    Flush(Vec<(i64, u128)>, Vec<(i64, u128)>),
    Keep(Option<u32>),
}

fn event() -> impl Strategy<Value = Event> {
    let live = vec((-3..4_i64, 1..9_u128), 0..4);
    let past = vec((0..100_000_i64, 1..9_u128), 0..3);
    prop_oneof![
        6 => (live, past).prop_map(|(live, past)| Event::Flush(live, past)),
        3 => (1..90_i64).prop_map(Event::Tick),
        2 => (60..8_000_i64).prop_map(Event::Tick),
        1 => Just(Event::Crash),
        1 => proptest::option::of(900..=86_400_u32).prop_map(Event::Keep),
        1 => Just(Event::Keep(Some(86_400))),
    ]
}

proptest! {
    #![proptest_config(config(93, 60))]

    #[test]
    fn seconds_are_there_once_however_long_they_are_kept(events in vec(event(), 1..120)) {
        let mut shell = Shell::new();
        for event in events {
            match event {
                Event::Tick(seconds) => shell.stored.now += seconds,
                Event::Crash => shell.stored.crash(),
                Event::Flush(live, past) => shell.flush(&live, &past),
                Event::Keep(kept) => shell.keep(kept),
            }
            shell.check()?;
        }
    }

    #[test]
    fn unpacked_seconds_are_those_that_were_packed(counts in vec((0..HOUR, any::<u128>(), 0..128_u32), 0..200)) {
        let mut hour = vec![0; HOUR];
        for (second, count, shift) in counts {
            hour[second] = count >> shift;
        }
        let packed = PackedSeconds::pack(&hour);
        prop_assert_eq!(packed.unpack(), hour);
        let stored: PackedSeconds = decode(&encode(&packed).expect("bytes")).expect("seconds");
        prop_assert_eq!(stored, packed);
    }
}

#[test]
fn a_day_of_seconds_of_a_busy_counter_takes_less_than_100_kilobytes() {
    let mut shell = Shell::new();
    let mut random = Chance(7);
    shell.keep(Some(86_400));
    // About 1,000 increments a second, as far apart as chance has it: the sum of 4,000 draws with p = 1/4.
    let mut draw = || {
        let ones = (0..63).map(|_| (random.bits() & random.bits()).count_ones());
        u128::from(ones.sum::<u32>())
    };
    // Ten seconds a flush: as far as stamps may differ from the clock.
    for _ in 0..(DAY + 7_200) / 10 {
        let seconds: Vec<(i64, u128)> = (-4..=5).map(|ago| (ago, draw())).collect();
        shell.flush(&seconds, &[]);
        shell.stored.now += 10;
    }
    shell.stored.now -= 10;
    let now = shell.stored.now;
    let history = shell.stored.cell.history();
    assert_eq!(history.kept_from(Resolution::Second), now - DAY - 9);
    let seconds = shell.seconds((now - DAY + 5, now + 4));
    assert_eq!(seconds.len(), 86_400);
    assert!(shell.check().is_ok());
    let (hours, bytes) = shell.stored.rows.rows_of_seconds();
    assert!(hours.len() <= 25, "{} rows", hours.len());
    assert!(bytes <= 100_000, "{bytes} bytes");
    // Back at the default, the next write drops the rows, and what is in memory stays.
    shell.keep(None);
    shell.flush(&[(0, 1)], &[]);
    assert!(shell.stored.rows.rows_of_seconds().0.is_empty());
    let from = shell.stored.cell.history().kept_from(Resolution::Second);
    assert_eq!(from, shell.stored.now - SECONDS_KEPT + 1);
    assert!(shell.check().is_ok());
}

#[test]
fn rows_of_seconds_are_written_once_a_minute_and_only_where_they_are_kept() {
    let written = |kept: Option<u32>| {
        let mut shell = Shell::new();
        shell.keep(kept);
        let before = shell.stored.rows.written();
        for _ in 0..1_440 {
            shell.flush(&[(0, 1)], &[]);
            shell.stored.now += 5;
        }
        shell.stored.rows.written() - before
    };
    let (usual, kept) = (written(None), written(Some(86_400)));
    assert_eq!(written(Some(900)), usual);
    // Two hours have 120 minutes; the last 15 are in memory.
    assert!((100..=121).contains(&(kept - usual)), "{kept} and {usual}");
}
