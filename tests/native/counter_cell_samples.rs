//! Law: a cell's rows hold each sample as often as its write was counted: once, however often the write comes, and
//! through crashes; in the minute of its stamp; and no row where there are none.

use std::collections::BTreeMap;

use crate::common::config;
use crate::common::rows::Rows;
use crate::common::stored_cell::{StoredCell, grant};
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::cell::{CellState, clamp_stamp};
use tally_core::counter::flush::{Changes, Load, Refusal};
use tally_core::counter::history::{MINUTES_KEPT, Resolution};
use tally_core::counter::ledger::{KeyedWrite, WriteKey};
use tally_core::counter::nonces::Nonce;
use tally_core::counter::samples::{SAMPLES_BY_MINUTE_SECONDS, Samples, whole};
use tally_core::sketch::{Histogram, Sample};

/// 1 May 2026, 00:00:55 UTC.
const BEGIN: i64 = 1_777_593_655;

/// How long records of keys are kept, milliseconds.
const KEPT_MS: i64 = 86_400_000;

/// Samples as a lane or a body joins them: by their seconds.
fn joined(samples: &[(i64, u16)]) -> Samples {
    let mut load = Load::default();
    for (second, value) in samples {
        let sample = Sample::new(f64::from(*value) / 8.0).expect("a sample");
        let one = Load {
            samples: vec![(*second, Histogram::of(sample))],
            ..Load::default()
        };
        assert!(load.absorb(&one));
    }
    load.samples
}

struct Shell {
    stored: StoredCell,
    /// Flushes and keyed writes that were counted, for repetitions.
    flushes: Vec<(Nonce, Load)>,
    writes: Vec<KeyedWrite>,
    /// Every sample that counts, with its minute.
    truth: Vec<(i64, u16)>,
}

impl Shell {
    fn new() -> Self {
        Self {
            stored: StoredCell::new(BEGIN, KEPT_MS),
            flushes: Vec::new(),
            writes: Vec::new(),
            truth: Vec::new(),
        }
    }

    fn record(&mut self, samples: &[(i64, u16)]) {
        for (second, value) in samples {
            let taken = clamp_stamp(*second, self.stored.now).min(self.stored.now);
            self.truth
                .push((Resolution::Minute.start_of(taken), *value));
        }
    }

    fn happen(&mut self, event: Event) {
        let stamped = |samples: Vec<(i64, u16)>, now: i64| -> Vec<(i64, u16)> {
            let stamp = |(ago, value): (i64, u16)| (now - ago, value);
            samples.into_iter().map(stamp).collect()
        };
        match event {
            Event::Tick(seconds) => self.stored.now += seconds,
            Event::Crash => self.stored.crash(),
            Event::Flush(some, others) => {
                let mut together = Vec::new();
                for (lane, samples) in (1..).zip([some, others]) {
                    let samples = stamped(samples, self.stored.now);
                    self.record(&samples);
                    let number = u64::try_from(self.flushes.len()).expect("few") + 1;
                    let load = Load {
                        added: 1,
                        samples: joined(&samples),
                        ..Load::default()
                    };
                    together.push((Nonce { lane, number }, load));
                }
                self.stored.flush(&together);
                self.flushes.extend(together);
            }
            Event::Keyed(samples) => {
                let samples = stamped(samples, self.stored.now);
                self.record(&samples);
                let number = u8::try_from(self.writes.len()).expect("few");
                let write = KeyedWrite {
                    added: 1,
                    samples: joined(&samples),
                    ..KeyedWrite::new(WriteKey([number; 16]), 1)
                };
                self.stored.count(std::slice::from_ref(&write));
                self.writes.push(write);
            }
            Event::Again => {
                if let Some(last) = self.flushes.last().cloned() {
                    self.stored.flush(&[last.clone(), last]);
                }
                let writes = self.writes.clone();
                self.stored.count(&writes);
            }
        }
    }

    /// What the rows say of a window, beside all samples that fall into it.
    fn check(&self) -> Result<(), TestCaseError> {
        for ago in [0, 1_000, 86_000, 200_000] {
            for seconds in [1, 60, 300, 3_600, 86_400, 300_000] {
                let to = self.stored.now - ago;
                let (first, last) = whole(to - seconds + 1, to, self.stored.now);
                prop_assert!(first <= to - seconds + 1 && last >= to);
                let mut truth = Histogram::new();
                let inside = |(minute, _): &&(i64, u16)| (first..=last).contains(minute);
                for (_, value) in self.truth.iter().filter(inside) {
                    truth.insert(Sample::new(f64::from(*value) / 8.0).expect("a sample"));
                }
                let held = self.stored.rows.window_samples(first, last);
                prop_assert_eq!(held, truth, "{} s, {} s ago", seconds, ago);
            }
        }
        self.check_steps()
    }

    /// What the rows say by steps, beside the samples of each: those of the last day by minutes, and all by hours and
    /// days.
    fn check_steps(&self) -> Result<(), TestCaseError> {
        let now = self.stored.now;
        for (step, seconds) in [
            (Resolution::Minute, SAMPLES_BY_MINUTE_SECONDS),
            (Resolution::Hour, 300_000),
            (Resolution::Day, 300_000),
        ] {
            let range = (step.start_of(now - seconds), now);
            let mut truth = BTreeMap::new();
            for (minute, value) in self.truth.iter().filter(|(minute, _)| *minute >= range.0) {
                let sample = Sample::new(f64::from(*value) / 8.0).expect("a sample");
                let of: &mut Histogram = truth.entry(step.start_of(*minute)).or_default();
                of.insert(sample);
            }
            let held = self.stored.rows.series_of_samples(range, step);
            prop_assert_eq!(held, truth.into_iter().collect::<Vec<_>>(), "{:?}", step);
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Event {
    Tick(i64),
    Crash,
    Flush(Vec<(i64, u16)>, Vec<(i64, u16)>),
    Keyed(Vec<(i64, u16)>),
    /// All that was counted once more.
    Again,
}

fn event() -> impl Strategy<Value = Event> {
    let samples = || vec((-8..12_i64, 0..4_000_u16), 0..6);
    prop_oneof![
        3 => prop_oneof![0..4_i64, 40..80_i64, 3_000..40_000_i64].prop_map(Event::Tick),
        1 => Just(Event::Crash),
        4 => (samples(), samples()).prop_map(|(some, others)| Event::Flush(some, others)),
        2 => samples().prop_map(Event::Keyed),
        1 => Just(Event::Again),
    ]
}

proptest! {
    #![proptest_config(config(97, 256))]

    #[test]
    fn samples_are_there_once_whatever_comes_again(events in vec(event(), 1..40)) {
        let mut shell = Shell::new();
        for event in events {
            shell.happen(event);
            shell.check()?;
        }
        shell.happen(Event::Again);
        shell.check()?;
    }
}

#[test]
fn without_samples_no_row_is_written_and_none_of_them_is_touched() {
    let mut cell = CellState::default();
    cell.take_grant(grant(), BEGIN * 1_000);
    let nonce = Nonce { lane: 1, number: 1 };
    let load = Load {
        added: 3,
        live: vec![(BEGIN, 3)],
        ..Load::default()
    };
    let (_, changes) = cell.apply(nonce, &load, BEGIN * 1_000).expect("it counts");
    // The shell then writes the hot row alone.
    let only_hot = Changes {
        hot: true,
        ..Changes::default()
    };
    assert_eq!(changes, only_hot);
    let rows = Rows::default();
    rows.write(&cell, &changes, BEGIN);
    assert_eq!(rows.times_of_samples(), (Vec::new(), Vec::new()));
    // With samples it is a row more for their minute, however many they are.
    let samples = joined(&[(BEGIN, 1), (BEGIN - 1, 800), (BEGIN + 4, 9)]);
    assert_eq!(samples.len(), 3, "three seconds");
    let load = Load { samples, ..load };
    let nonce = Nonce { lane: 1, number: 2 };
    let (_, changes) = cell.apply(nonce, &load, BEGIN * 1_000).expect("it counts");
    assert_eq!(changes.samples.len(), 1);
    let with_samples = Changes {
        samples: changes.samples.clone(),
        ..only_hot
    };
    assert_eq!(changes, with_samples);
}

#[test]
fn a_refused_flush_leaves_no_samples() {
    let mut cell = CellState::default();
    let load = Load {
        added: u128::MAX,
        samples: joined(&[(BEGIN, 1)]),
        ..Load::default()
    };
    let mut changes = Changes::default();
    let apply = |cell: &mut CellState, number: u64, changes: &mut Changes| {
        cell.apply_in(Nonce { lane: 1, number }, &load, BEGIN * 1_000, changes)
    };
    assert_eq!(apply(&mut cell, 1, &mut changes), Err(Refusal::NeedsGrant));
    cell.take_grant(grant(), BEGIN * 1_000);
    assert!(apply(&mut cell, 1, &mut Changes::default()).is_ok());
    assert_eq!(changes, Changes::default());
}

#[test]
fn minutes_become_hours_after_a_day_and_hours_go_after_ninety() {
    let mut shell = Shell::new();
    for _ in 0..1_700 {
        shell.happen(Event::Flush(vec![(0, 8)], Vec::new()));
        shell.happen(Event::Tick(60));
    }
    let (minutes, hours) = shell.stored.rows.times_of_samples();
    let now = shell.stored.now - 60;
    let oldest = now - MINUTES_KEPT - 3_600;
    assert!(minutes.iter().all(|minute| *minute >= oldest));
    assert_eq!((minutes.len(), hours.len()), (1_460, 4), "{hours:?}");
    let count = |seconds: i64, now: i64| {
        let (first, last) = whole(now - seconds + 1, now, now);
        shell.stored.rows.window_samples(first, last).count()
    };
    // A day begins and ends within a minute, and both count in full.
    assert_eq!(count(86_400, now), 1_441);
    assert_eq!(count(200_000, now), 1_700);
    // It rests and comes back: hour by hour what is too old for minutes becomes hours, and then goes.
    shell.happen(Event::Tick(3 * 86_400));
    for _ in 0..60 {
        shell.happen(Event::Flush(vec![(0, 8)], Vec::new()));
        shell.happen(Event::Tick(60));
    }
    let (minutes, hours) = shell.stored.rows.times_of_samples();
    assert_eq!((minutes.len(), hours.len()), (60, 29));
    shell.happen(Event::Tick(91 * 86_400));
    for _ in 0..3 {
        shell.happen(Event::Flush(vec![(0, 8)], Vec::new()));
        shell.happen(Event::Tick(60));
    }
    let (minutes, hours) = shell.stored.rows.times_of_samples();
    assert_eq!((minutes.len(), hours.len()), (3, 0));
}
