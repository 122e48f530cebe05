//! Windows of unique elements: what they are widened to, and which rows tell them.

use crate::common;
use crate::common::rows;

use common::config;
use proptest::prelude::*;
use rows::Rows as Stored;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Element, Load};
use tally_core::counter::grant::Grant;
use tally_core::counter::history::Resolution;
use tally_core::counter::nonces::Nonce;
use tally_core::counter::uniques_retention::{
    BY_DAYS_SECONDS, BY_HOURS_SECONDS, BY_MINUTES_SECONDS, RowSpan, kept_seconds, rows_of,
    widened_window,
};
use tally_core::sketch::{HashKey, hash};

/// 1 May 2026, 00:00:30 UTC.
const NOW: i64 = 1_777_593_630;

/// How finely a second so long ago is kept.
fn fineness(ago: i64) -> i64 {
    match ago {
        _ if ago <= BY_MINUTES_SECONDS => 60,
        _ if ago <= BY_HOURS_SECONDS => 3_600,
        _ => 86_400,
    }
}

proptest! {
    #![proptest_config(config(41, 2_000))]

    #[test]
    fn a_window_is_widened_to_what_is_kept_and_no_further(
        ago in prop_oneof![-100..700_000_i64, -100..BY_DAYS_SECONDS],
        seconds in prop_oneof![1..700_000_i64, 1..BY_DAYS_SECONDS],
    ) {
        let window = (NOW - ago - seconds + 1, NOW - ago);
        let (first, last) = widened_window(window, NOW);
        let (begins, ends) = (fineness(NOW - window.0), fineness(ago));
        prop_assert!((0..begins).contains(&(window.0 - first)), "{first} for {}", window.0);
        prop_assert!((0..ends).contains(&(last - window.1)), "{last} for {}", window.1);
        prop_assert_eq!((first.rem_euclid(begins), (last + 1).rem_euclid(ends)), (0, 0));
        // Rows of that fineness are there still, also for a cell whose clock is a minute ahead.
        if window.0 > NOW - BY_DAYS_SECONDS {
            let step = Resolution::PAGED.into_iter().find(|step| step.seconds() == begins);
            prop_assert!(first >= NOW + 60 - kept_seconds(step.expect("a step")));
        }
    }

    #[test]
    fn rows_tell_a_stretch_once_and_nothing_else(
        first in -10..20_000_i64,
        minutes in 1..20_000_i64,
        open in proptest::option::of(-10..800_i64),
    ) {
        let first = NOW - 30 - first * 60;
        let last = first + minutes * 60 - 1;
        let open_hour = open.map(|hours| Resolution::Hour.start_of(NOW) - hours * 3_600);
        let rows = rows_of((first, last), open_hour);
        prop_assert!(rows.len() <= 5);
        let mut next = first;
        for RowSpan { step, from, before } in rows {
            prop_assert_eq!(from, next);
            prop_assert!(from < before);
            prop_assert_eq!((from.rem_euclid(step.seconds()), before.rem_euclid(step.seconds())), (0, 0));
            if step != Resolution::Minute {
                // Days are joined once their last hour is over.
                let open = step.start_of(open_hour.expect("something is over"));
                prop_assert!(before <= open);
            }
            next = before;
        }
        prop_assert_eq!(next, last + 1);
    }
}

#[test]
fn a_month_is_told_by_few_rows() {
    let stretch = widened_window((NOW - 30 * 86_400, NOW), NOW);
    let rows = rows_of(stretch, Some(Resolution::Hour.start_of(NOW)));
    let count = |rows: &RowSpan| (rows.before - rows.from) / rows.step.seconds();
    // 30 days, and the minute of today.
    assert_eq!(rows.iter().map(count).sum::<i64>(), 30 + 1, "{rows:?}");
}

/// Visitors of two years: each minute of the first days, then each hour, each time another and one that comes always.
#[test]
fn rows_are_bounded_and_tell_how_many_came() {
    let key = HashKey::from([7; 16]);
    let mut cell = CellState::default();
    let grant = Grant {
        generation: 1,
        ..Grant::default()
    };
    cell.take_grant(grant, NOW * 1_000);
    let stored = Stored::default();
    let (mut now, mut number, mut seen) = (NOW - 30, 0, Vec::new());
    while now < NOW + 730 * 86_400 {
        number += 1;
        let element = |name: i64| (now, Element::of(hash(&key, &name.to_le_bytes())));
        let load = Load {
            added: 1,
            tokens: vec![element(0), element(now)],
            hash: key.id(),
            ..Load::default()
        };
        let counted = cell.apply(Nonce { lane: 1, number }, &load, now * 1_000);
        let (_, changes) = counted.expect("counted");
        // The hot row, all time, the minute that ended and the one that began, an hour and a day.
        assert!(changes.minutes.len() <= 2 && changes.over.len() <= 2);
        assert!(changes.late_tokens.is_empty());
        stored.write(&cell, &changes, now);
        seen.push(now);
        now += if now < NOW + 3 * 86_400 { 60 } else { 3_600 };
    }
    let now = now - 1;
    let counts = Resolution::PAGED.map(|step| stored.rows_of_uniques(step));
    assert!(
        counts[0] <= 1_455 && counts[1] <= 216 && counts[2] <= 402,
        "{counts:?}"
    );
    for days in [1, 7, 8, 30, 399] {
        let (first, last) = widened_window((now - days * 86_400 + 1, now), now);
        let came = seen
            .iter()
            .filter(|at| (first..=last).contains(*at))
            .count();
        let estimate = stored.range_uniques((first, last)).estimate();
        let came = f64::from(u32::try_from(came + 1).expect("few"));
        let off = (estimate.estimate - came).abs();
        assert!(
            off <= 4.0 * estimate.standard_error + 0.5,
            "{days} days: {estimate:?} of {came}"
        );
    }
}
