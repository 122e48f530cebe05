//! Law: windows and points equal a plain list of all increments, at every second, with stamps that
//! repeat, step back and lie years ago; and the stored pages are the history.

use crate::common;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::history::{DirtyPages, History, Resolution};

/// 1 May 2026, 00:00:30 UTC.
const BEGIN: i64 = 1_777_593_630;

/// Windows up to here are exact.
const EXACT_SECONDS: i64 = 900;

/// A history beside the list of all that was added, and beside its rows.
#[derive(Default)]
struct Both {
    history: History,
    added: Vec<(i64, u128)>,
    pages: BTreeMap<(Resolution, i64), Vec<(i64, u128)>>,
    now: i64,
}

impl Both {
    fn new() -> Self {
        Self {
            now: BEGIN,
            ..Self::default()
        }
    }

    /// Adds as one flush, and writes only the pages that it names.
    fn add(&mut self, increments: &[(i64, u128)]) {
        let mut dirty = DirtyPages::new();
        for &(second, amount) in increments {
            self.history.add(second, amount, self.now, &mut dirty);
            self.added.push((second, amount));
        }
        for (step, page) in dirty {
            let buckets = self.history.page(step, page);
            if buckets.is_empty() {
                self.pages.remove(&(step, page));
            } else {
                self.pages.insert((step, page), buckets);
            }
        }
    }

    fn restored(&self) -> History {
        let pages = self.pages.iter();
        let pages = pages.map(|(&(step, page), buckets)| (step, page, buckets.clone()));
        History::restore(self.history.to_hot(), pages)
    }

    fn truth(&self, from: i64, to: i64) -> u128 {
        let inside = |(second, _): &&(i64, u128)| (from..=to).contains(second);
        let inside = self.added.iter().filter(inside);
        inside.map(|(_, amount)| amount).sum()
    }

    fn buckets(&self, step: Resolution) -> BTreeMap<i64, u128> {
        let mut buckets = BTreeMap::new();
        for &(second, amount) in &self.added {
            *buckets.entry(step.start_of(second)).or_insert(0) += amount;
        }
        buckets
    }

    fn check_window(&self, seconds: i64, at: i64) -> Result<(), TestCaseError> {
        let from = at - seconds + 1;
        let (estimate, truth) = (self.history.count(from, at), self.truth(from, at));
        let is_exact =
            seconds <= EXACT_SECONDS && from >= self.history.kept_from(Resolution::Second);
        if is_exact {
            prop_assert_eq!(
                (estimate.count, estimate.max_error),
                (truth, 0),
                "{} s at {}",
                seconds,
                at
            );
        }
        prop_assert!(
            estimate.count - estimate.max_error <= truth && truth <= estimate.count,
            "{seconds} s at {at}: {estimate:?}, in truth {truth}"
        );
        Ok(())
    }

    fn check_points(&self, history: &History) -> Result<(), TestCaseError> {
        for step in Resolution::ALL {
            let kept_from = history.kept_from(step);
            let points = history.points(step, kept_from, i64::MAX);
            let truth = self.buckets(step).into_iter();
            let truth: Vec<_> = truth.filter(|(start, _)| *start >= kept_from).collect();
            prop_assert_eq!(points, truth, "{:?}", step);
        }
        Ok(())
    }

    fn check_rows(&self) -> Result<(), TestCaseError> {
        let restored = self.restored();
        self.check_points(&restored)?;
        for step in Resolution::ALL {
            prop_assert_eq!(restored.kept_from(step), self.history.kept_from(step));
        }
        for seconds in [60, 900, 5_000, 100_000, 10_000_000] {
            let from = self.now - seconds;
            let estimate = restored.count(from, self.now);
            prop_assert_eq!(
                estimate,
                self.history.count(from, self.now),
                "{} s",
                seconds
            );
        }
        Ok(())
    }
}

/// (seconds that pass, increments of one flush as (seconds from the clock, amount)).
type Move = (i64, Vec<(i64, u64)>);

/// Stamps within the clamp that repeat and step back; the clock does so too, a little.
fn near() -> impl Strategy<Value = Move> {
    let pass = prop_oneof![4 => 0..3_i64, 3 => 3..100_i64, 1 => 100..1_000_i64, 1 => -30..0_i64];
    (pass, vec((-5..=5_i64, 1..u64::MAX), 0..4))
}

/// As `near`, with longer silences and the past from logs.
fn far() -> impl Strategy<Value = Move> {
    let pass = prop_oneof![3 => 0..70_i64, 2 => 500..8_000_i64, 2 => 80_000..100_000_i64];
    let offset = prop_oneof![
        3 => -5..=5_i64,
        2 => -4_000..0_i64,
        2 => -100_000..0_i64,
        1 => -350_000_000..0_i64,
    ];
    (pass, vec((offset, 1..u64::MAX), 0..4))
}

fn play(both: &mut Both, (pass, increments): Move) {
    both.now += pass;
    let now = both.now;
    let stamped = |(offset, amount): (i64, u64)| (now + offset, amount.into());
    both.add(&increments.into_iter().map(stamped).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(config(61, 96))]

    #[test]
    fn windows_of_900_seconds_are_exact_at_every_second(moves in vec(near(), 1..40)) {
        let mut both = Both::new();
        let mut latest = both.now;
        for step in moves {
            play(&mut both, step);
            latest = latest.max(both.now);
            // The 900 s of a reader whose clock is up to 10 s behind.
            prop_assert!(both.history.kept_from(Resolution::Second) <= latest - 10 - EXACT_SECONDS + 1);
            for seconds in [1, 59, 60, 61, 300, 899, EXACT_SECONDS] {
                // Readers' clocks are up to 10 s from the cell's.
                for at in [-10, -5, -1, 0, 1, 5, 10] {
                    both.check_window(seconds, both.now + at)?;
                }
            }
        }
        for at in both.now - 910..both.now + 10 {
            for seconds in [1, 60, 300, EXACT_SECONDS] {
                both.check_window(seconds, at)?;
            }
        }
    }

    #[test]
    fn longer_windows_tell_their_error(
        moves in vec(far(), 1..30), windows in vec((1..40_000_000_i64, 0..200_000_i64), 20),
    ) {
        let mut both = Both::new();
        for step in moves {
            play(&mut both, step);
            for seconds in [901, 1_000, 3_600, 86_400, 90_000, 700_000] {
                both.check_window(seconds, both.now)?;
            }
        }
        for (seconds, ago) in windows {
            both.check_window(seconds, both.now - ago)?;
        }
    }

    #[test]
    fn points_equal_the_list_and_pages_are_the_history(
        moves in vec(prop_oneof![near(), far()], 1..40),
    ) {
        let mut both = Both::new();
        for step in moves {
            play(&mut both, step);
            both.check_points(&both.history)?;
            both.check_rows()?;
        }
    }
}

#[test]
fn windows_of_whole_days_are_exact_years_ago() {
    let mut both = Both::new();
    let day = |number: i64| 1_431_820_800 + number * Resolution::Day.seconds();
    for number in 0..4 {
        for hour in 0..24 {
            both.add(&[(day(number) + hour * 3_600 + 1_799, 7)]);
        }
    }
    both.add(&[(both.now, 1)]);
    let estimate = both.history.count(day(1), day(3) - 1);
    assert_eq!((estimate.count, estimate.max_error), (2 * 24 * 7, 0));
    // Half an hour more, which only an hour's bucket knows.
    let estimate = both.history.count(day(1) - 1_800, day(3) - 1);
    assert_eq!((estimate.count, estimate.max_error), (2 * 24 * 7 + 7, 7));
    let hours = both.history.points(Resolution::Hour, day(2), day(3) - 1);
    assert_eq!(hours.len(), 24);
    assert!(hours.iter().all(|(_, count)| *count == 7));
    assert_eq!(both.history.kept_from(Resolution::Hour), i64::MIN);
    assert!(
        both.history
            .points(Resolution::Minute, day(0), day(4))
            .is_empty()
    );
    assert!(both.history.kept_from(Resolution::Minute) > day(4));
}
