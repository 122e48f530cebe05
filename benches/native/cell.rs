//! A cell: what a flush, the passing of time and a window cost it.
//!
//! The cell is that of a counter which was hit in every second of the last 15 minutes, every minute
//! of the day, every hour of 90 days and every day of 5 years: its buckets are full, so what is added
//! pushes something out.

use divan::{Bencher, black_box};
use tally_core::counter::cell::{CellState, STAMP_CLAMP_SECONDS};
use tally_core::counter::flush::{Element, Load};
use tally_core::counter::grant::Grant;
use tally_core::counter::history::{DAYS_KEPT, HOURS_KEPT, MINUTES_KEPT, Resolution, SECONDS_KEPT};
use tally_core::counter::merge::Question;
use tally_core::counter::nonces::{LANES_MAX, Nonce};
use tally_core::counter::settings::Settings;
use tally_wire::messages::{decode, encode};

use crate::{BEGIN_MS, Chance};

const BEGIN: i64 = BEGIN_MS / 1_000;
const GENERATION: u64 = 1;

/// Writes of one flush: the connections of the HTTP benchmark.
const BATCH: usize = 64;

/// Iterations of a sample. Fixed, so that every run takes a cell through the same flushes.
const SAMPLE: u32 = 64;

/// The same where every iteration needs a cell of its own, which takes longer to copy than a flush.
const SAMPLE_OF_COPIES: u32 = 4;

/// A cell with full buckets, that so many lanes flushed to just now, and their last nonce.
struct Busy {
    cell: CellState,
    nonce: Nonce,
}

impl Busy {
    fn with_lanes(lanes: usize) -> Self {
        let mut cell = CellState::default();
        cell.take_grant(
            Grant {
                generation: GENERATION,
                settings: Settings::default(),
                last_write_ms: 0,
                alone: true,
                spread: 1,
                ..Grant::default()
            },
            BEGIN_MS,
        );
        let mut busy = Self {
            cell,
            nonce: Nonce { lane: 0, number: 0 },
        };
        let past = |seconds: Vec<i64>| Load {
            added: u128::try_from(seconds.len()).unwrap(),
            past: seconds.into_iter().map(|second| (second, 1)).collect(),
            ..Load::default()
        };
        let buckets = |count: usize, step: Resolution| {
            let count = i64::try_from(count).unwrap();
            (0..count).map(move |number| BEGIN - number * step.seconds())
        };
        let mut seconds: Vec<i64> = (BEGIN - SECONDS_KEPT + 1..=BEGIN).collect();
        seconds.extend((0..MINUTES_KEPT / 60).map(|number| BEGIN - number * 60));
        seconds.extend(buckets(HOURS_KEPT, Resolution::Hour));
        seconds.extend(buckets(DAYS_KEPT, Resolution::Day));
        seconds.sort_unstable();
        busy.flush(&past(seconds), BEGIN_MS);
        let mut random = Chance(21);
        for lane in random.by_ref().take(lanes - 1) {
            busy.nonce = Nonce { lane, number: 0 };
            busy.flush(&plain(1, BEGIN), BEGIN_MS);
        }
        busy
    }

    /// The next flush of the same lane.
    fn flush(&mut self, load: &Load, now_ms: i64) {
        self.nonce.number += 1;
        let counted = self.cell.apply(self.nonce, black_box(load), now_ms);
        black_box(counted).unwrap();
    }

    /// Fails unless the cell counted this much since `before`.
    fn check(&self, before: &CellState, flushes: u64, each: u128) {
        let totals = |cell: &CellState| {
            let question = Question {
                totals_only: true,
                ..Question::plain(GENERATION)
            };
            let mut cells = cell.answer(&question).unwrap().cells.into_iter();
            cells.next().unwrap().1
        };
        let (before, after) = (totals(before), totals(&self.cell));
        assert_eq!(after.sequence - before.sequence, flushes);
        assert_eq!(after.added, before.added.plus(u128::from(flushes) * each));
    }
}

fn plain(added: u128, second: i64) -> Load {
    Load {
        added,
        live: vec![(second, added)],
        ..Load::default()
    }
}

/// Flushes the same load again and again, as one lane's next flush each.
fn flush_again(bencher: Bencher, lanes: usize, load: &Load) {
    let mut busy = Busy::with_lanes(lanes);
    let before = busy.cell.clone();
    let mut flushes = 0;
    bencher.bench_local(|| {
        busy.flush(load, BEGIN_MS);
        flushes += 1;
    });
    busy.check(&before, flushes, load.added);
}

/// One increment of the open second, in a cell that so many lanes flush to.
#[divan::bench(args = [1, 32, LANES_MAX], sample_size = SAMPLE)]
fn apply_1_increment(bencher: Bencher, lanes: usize) {
    flush_again(bencher, lanes, &plain(1, BEGIN));
}

/// 64 increments, each with a time of its own within the 5 s that are allowed.
#[divan::bench(args = [1, 32], sample_size = SAMPLE)]
fn apply_64_stamps(bencher: Bencher, lanes: usize) {
    let offsets = Chance(22).map(|number| i64::from(number.to_le_bytes()[0] % 11));
    let stamps = offsets.map(|offset| (BEGIN - STAMP_CLAMP_SECONDS + offset, 1));
    let load = Load {
        added: 64,
        live: stamps.take(BATCH).collect(),
        ..Load::default()
    };
    flush_again(bencher, lanes, &load);
}

/// How many visitors the open minute has seen.
#[derive(Clone, Copy, Debug)]
enum Minute {
    Empty,
    Sparse,
    Dense,
}

/// 64 increments of new visitors, with the open minute's sketch in its form at rest.
#[divan::bench(args = [Minute::Empty, Minute::Sparse, Minute::Dense], sample_size = SAMPLE_OF_COPIES)]
fn apply_64_uniques(bencher: Bencher, minute: Minute) {
    let tokens = |seed: u64, count: usize| {
        let hashes = Chance(seed).take(count);
        hashes.map(|hash| (BEGIN, Element::of(hash))).collect()
    };
    let mut busy = Busy::with_lanes(32);
    let seen = match minute {
        Minute::Empty => 0,
        Minute::Sparse => 1_500,
        Minute::Dense => 100_000,
    };
    let seen = Load {
        tokens: tokens(23, seen),
        ..Load::default()
    };
    busy.flush(&seen, BEGIN_MS);
    let load = Load {
        tokens: tokens(24, BATCH),
        ..plain(64, BEGIN)
    };
    let nonce = Nonce {
        number: busy.nonce.number + 1,
        ..busy.nonce
    };
    let (_, changes) = busy.cell.clone().apply(nonce, &load, BEGIN_MS).unwrap();
    assert_eq!(changes.minutes.len(), 1, "the minute's sketch is written");
    bencher
        .with_inputs(|| busy.cell.clone())
        .bench_refs(|cell| cell.apply(nonce, black_box(&load), BEGIN_MS).unwrap());
}

/// One increment each time that a second, minute, hour or day has begun.
#[divan::bench(args = Resolution::ALL, sample_size = SAMPLE)]
fn roll(bencher: Bencher, step: Resolution) {
    let mut busy = Busy::with_lanes(1);
    // The first step lets go of all finer buckets at once; from then on every step costs the same.
    let mut now = BEGIN + step.seconds();
    let mut load = plain(1, now);
    busy.flush(&load, now * 1_000);
    let (before, mut flushes) = (busy.cell.clone(), 0);
    bencher.bench_local(|| {
        now += step.seconds();
        load.live[0].0 = now;
        busy.flush(&load, now * 1_000);
        flushes += 1;
    });
    busy.check(&before, flushes, 1);
}

/// What was counted in the last 5 minutes (300 seconds) and the last day (900 seconds, then minutes).
#[divan::bench(args = [300, 86_400])]
fn window(bencher: Bencher, seconds: i64) {
    let cell = Busy::with_lanes(1).cell;
    let question = Question {
        window: Some((BEGIN - seconds + 1, BEGIN)),
        totals_only: true,
        ..Question::plain(GENERATION)
    };
    let window = cell.answer(&question).unwrap().window;
    assert!(window.count >= u128::try_from(seconds.min(SECONDS_KEPT)).unwrap());
    bencher.bench(|| cell.answer(black_box(&question)));
}

/// The hot row as it is stored: what every commit does beside `apply`.
#[divan::bench(args = [1, 32, LANES_MAX])]
fn hot_row_encode(bencher: Bencher, lanes: usize) {
    let cell = Busy::with_lanes(lanes).cell;
    let row = encode(&cell.hot_row()).unwrap();
    assert_eq!(decode(&row), Ok(cell.hot_row()));
    bencher.bench(|| encode(&black_box(&cell).hot_row()));
}
