//! Law: a history is bounded by number, and says from when it is complete. The newest buckets are
//! kept, in whatever order they were filled.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use common::config;
use proptest::prelude::*;
use tally_core::counter::history::{
    DAYS_KEPT, DirtyPages, HOURS_KEPT, History, MINUTES_KEPT, Resolution, SECONDS_KEPT,
};

const NOW: i64 = 1_777_593_630;

/// Adds 1 at each start and returns the history, with the pages that were ever named.
fn filled(starts: &[i64]) -> (History, DirtyPages) {
    let (mut history, mut dirty) = (History::default(), DirtyPages::new());
    for &start in starts {
        history.add(start, 1, NOW, &mut dirty);
    }
    (history, dirty)
}

fn check_newest(step: Resolution, kept: usize, starts: &[i64]) -> Result<(), TestCaseError> {
    let (history, dirty) = filled(starts);
    let all: BTreeSet<i64> = starts.iter().map(|start| step.start_of(*start)).collect();
    let let_go = all.len().saturating_sub(kept);
    let expected: Vec<(i64, u128)> = all.iter().skip(let_go).map(|start| (*start, 1)).collect();
    prop_assert_eq!(history.points(step, i64::MIN, i64::MAX), expected);
    let kept_from = all.iter().take(let_go).next_back();
    let kept_from = kept_from.map_or(i64::MIN, |last| last + step.seconds());
    prop_assert_eq!(history.kept_from(step), kept_from);
    // What was let go is in no page, and its page was named.
    for start in all.iter().take(let_go) {
        prop_assert!(dirty.contains(&(step, step.page_of(*start))));
    }
    Ok(())
}

/// `count` starts with gaps, shuffled.
fn starts(step: Resolution, count: usize) -> impl Strategy<Value = Vec<i64>> {
    let gaps = proptest::collection::vec(1..4_i64, count);
    gaps.prop_map(move |gaps| {
        let mut start = NOW;
        let before = |gap: i64| {
            start -= gap * step.seconds();
            start
        };
        gaps.into_iter().map(before).collect::<Vec<i64>>()
    })
    .prop_shuffle()
}

proptest! {
    #![proptest_config(config(71, 4))]

    #[test]
    fn the_newest_2160_hours_are_kept(starts in starts(Resolution::Hour, HOURS_KEPT + 150)) {
        check_newest(Resolution::Hour, HOURS_KEPT, &starts)?;
    }

    #[test]
    fn the_newest_1826_days_are_kept(starts in starts(Resolution::Day, DAYS_KEPT + 100)) {
        check_newest(Resolution::Day, DAYS_KEPT, &starts)?;
    }
}

#[test]
fn as_many_as_are_kept_let_go_of_nothing() {
    assert_eq!((HOURS_KEPT, DAYS_KEPT), (90 * 24, 5 * 365 + 1));
    for (step, kept) in [(Resolution::Hour, HOURS_KEPT), (Resolution::Day, DAYS_KEPT)] {
        let starts: Vec<i64> = (0..)
            .map(|number| NOW - number * step.seconds())
            .take(kept)
            .collect();
        let (history, _) = filled(&starts);
        assert_eq!(history.kept_from(step), i64::MIN, "{step:?}");
        assert_eq!(history.points(step, i64::MIN, i64::MAX).len(), kept);
    }
}

#[test]
fn seconds_and_minutes_are_kept_by_age() {
    let mut history = History::default();
    let mut dirty = DirtyPages::new();
    for second in 0..3_000 {
        history.add(NOW + second, 1, NOW + second, &mut dirty);
    }
    let now = NOW + 2_999;
    assert_eq!(
        history.kept_from(Resolution::Second),
        now - SECONDS_KEPT + 1
    );
    let seconds = history.points(Resolution::Second, i64::MIN, i64::MAX);
    assert_eq!(i64::try_from(seconds.len()), Ok(SECONDS_KEPT));

    let later = now + MINUTES_KEPT;
    history.add(later, 1, later, &mut dirty);
    let kept_from = Resolution::Minute.start_of(later - MINUTES_KEPT);
    assert_eq!(history.kept_from(Resolution::Minute), kept_from);
    let minutes = history.points(Resolution::Minute, i64::MIN, i64::MAX);
    assert_eq!(minutes.len(), 2, "the minute of 24 hours ago, and this one");
    // What is let go is gone from the stored pages too.
    let first = Resolution::Minute.page_of(NOW);
    assert_eq!(history.page(Resolution::Minute, first), [(50, 30)]);
    dirty.clear();
    history.add(later + 60, 1, later + 60, &mut dirty);
    assert!(history.page(Resolution::Minute, first).is_empty());
    assert!(dirty.contains(&(Resolution::Minute, first)));
}

#[test]
fn within_the_open_minute_no_page_is_written() {
    let mut history = History::default();
    let mut dirty = DirtyPages::new();
    let minute = Resolution::Minute.start_of(NOW);
    for second in 0..60 {
        history.add(minute + second, 1, minute + second, &mut dirty);
        assert_eq!(dirty, DirtyPages::new(), "second {second}");
    }
    // The next minute writes the one before it, once.
    history.add(minute + 60, 1, minute + 60, &mut dirty);
    let of_minute: DirtyPages = Resolution::PAGED
        .iter()
        .map(|step| (*step, step.page_of(minute)))
        .collect();
    assert_eq!(dirty, of_minute);
}

#[test]
fn counts_that_pass_128_bits_stop_at_the_top() {
    let mut history = History::default();
    for _ in 0..2 {
        history.add(NOW, u128::MAX, NOW, &mut DirtyPages::new());
    }
    assert_eq!(history.count(NOW, NOW).count, u128::MAX);
}

#[test]
fn steps_divide_time_before_1970_too() {
    let widths: BTreeMap<Resolution, (i64, i64)> = Resolution::ALL
        .iter()
        .map(|step| (*step, (step.seconds(), step.page_seconds())))
        .collect();
    let expected = [
        (1, 3_600),
        (60, 3_600),
        (3_600, 86_400),
        (86_400, 2_764_800),
    ];
    assert_eq!(widths.into_values().collect::<Vec<_>>(), expected);
    for second in [-86_401, -1, 0, 59, 60, 86_399, NOW] {
        for step in Resolution::ALL {
            let (start, page) = (step.start_of(second), step.page_of(second));
            assert!((start..start + step.seconds()).contains(&second));
            assert_eq!(start.rem_euclid(step.seconds()), 0);
            assert!((page..page + step.page_seconds()).contains(&start));
        }
    }
    let mut history = History::default();
    history.add(-1, 5, NOW, &mut DirtyPages::new());
    assert_eq!(history.points(Resolution::Day, i64::MIN, 0), [(-86_400, 5)]);
}
