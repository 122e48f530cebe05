//! Laws of a cell's breakdowns: each value is counted as often as its write, however often that comes, and through
//! crashes; in the hour and day of the bucket that counts it; sums of a window are the cell's count of that window;
//! without dimensions there is no row.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::config;
use crate::common::stored_cell::StoredCell;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::breakdown::{DIMENSIONS_MAX, RowKind, covered};
use tally_core::counter::cell::clamp_stamp;
use tally_core::counter::dimensions::{DimensionLog, Dimensions, Stamp};
use tally_core::counter::flush::{Changes, Load};
use tally_core::counter::history::Resolution;
use tally_core::counter::ledger::{KeyedWrite, WriteKey};
use tally_core::counter::merge::Question;
use tally_core::counter::nonces::Nonce;

/// 1 May 2026, 00:00:55 UTC.
const BEGIN: i64 = 1_777_593_655;

const DAY: i64 = 86_400;

/// How long records of keys are kept, milliseconds.
const KEPT_MS: i64 = 40 * DAY * 1_000;

const NAMES: [&str; 3] = ["referrer", "country", "page"];

/// A write: how long ago, whether it is of the past, how much, and a value for each name it has.
#[derive(Clone, Debug)]
struct Write {
    ago: i64,
    is_past: bool,
    amount: u128,
    values: [Option<u16>; 3],
}

impl Write {
    fn dimensions(&self) -> Dimensions {
        let mut dimensions = Dimensions::default();
        for (name, value) in NAMES.iter().zip(self.values) {
            if let Some(value) = value {
                dimensions.insert(name, &text(value)).expect("it is well");
            }
        }
        dimensions
    }

    fn stamp(&self, now: i64) -> Stamp {
        match self.is_past {
            true => Stamp::Past(now - self.ago),
            false => Stamp::Live(now - self.ago % 8),
        }
    }

    fn load(&self, now: i64) -> Load {
        let mut load = Load {
            added: self.amount,
            ..Load::default()
        };
        let stamp = self.stamp(now);
        match stamp {
            Stamp::Past(second) => load.past.push((second, self.amount)),
            Stamp::Live(second) => load.live.push((second, self.amount)),
        }
        let dimensions = self.dimensions();
        load.dimensions.push(stamp, self.amount, dimensions.iter());
        load
    }
}

/// Long enough that pending rows are folded now and then.
fn text(value: u16) -> String {
    format!("{value}-{}", "long".repeat(40))
}

struct Shell {
    stored: StoredCell,
    flushes: Vec<(Nonce, Load)>,
    keyed: Vec<KeyedWrite>,
    /// What counts: (second, amount, values).
    truth: Vec<(i64, u128, [Option<u16>; 3])>,
}

impl Shell {
    fn new() -> Self {
        Self {
            stored: StoredCell::new(BEGIN, KEPT_MS),
            flushes: Vec::new(),
            keyed: Vec::new(),
            truth: Vec::new(),
        }
    }

    fn record(&mut self, write: &Write) {
        let second = match write.stamp(self.stored.now) {
            Stamp::Past(second) => second,
            Stamp::Live(second) => clamp_stamp(second, self.stored.now),
        };
        self.truth.push((second, write.amount, write.values));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick(seconds) => self.stored.now += seconds,
            Event::Crash => self.stored.crash(),
            Event::Flush(writes) => {
                let mut load = Load::default();
                for write in &writes {
                    self.record(write);
                    assert!(load.absorb(&write.load(self.stored.now)));
                }
                let number = u64::try_from(self.flushes.len()).expect("few") + 1;
                self.flushes.push((Nonce { lane: 1, number }, load));
                let last = self.flushes[self.flushes.len() - 1..].to_vec();
                self.stored.flush(&last);
            }
            Event::Keyed(write) => {
                self.record(&write);
                let number = u8::try_from(self.keyed.len()).expect("few");
                let load = write.load(self.stored.now);
                let keyed = KeyedWrite {
                    added: load.added,
                    live: load.live,
                    past: load.past,
                    dimensions: load.dimensions,
                    ..KeyedWrite::new(WriteKey([number; 16]), 1)
                };
                self.stored.count(std::slice::from_ref(&keyed));
                self.keyed.push(keyed);
            }
            Event::Again => {
                if let Some(last) = self.flushes.last().cloned() {
                    self.stored.flush(&[last.clone(), last]);
                }
                let keyed = self.keyed.clone();
                self.stored.count(&keyed);
            }
        }
    }

    /// What the cell counted in a window, of all time without one.
    fn counted(&self, window: Option<(i64, i64)>) -> u128 {
        let question = Question {
            window,
            ..Question::plain(7)
        };
        let part = self.stored.cell.answer(&question).expect("it counts for 7");
        assert_eq!(part.window.max_error, 0, "its buckets are whole");
        match window {
            Some(_) => part.window.count,
            None => self.truth.iter().map(|(_, amount, _)| amount).sum(),
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let now = self.stored.now;
        let ranges = [
            (0, 3_600),
            (0, 5 * DAY),
            (3 * DAY, 9 * DAY),
            (20 * DAY, 500 * DAY),
        ];
        let ranges = ranges.map(|(end, begin)| Some(covered((now - begin, now - end), now)));
        for window in ranges.into_iter().chain([None]) {
            let inside = |(second, ..): &&(i64, u128, [Option<u16>; 3])| {
                window.is_none_or(|(from, to)| (from..=to).contains(second))
            };
            for (place, name) in NAMES.iter().enumerate() {
                let mut truth: BTreeMap<String, u128> = BTreeMap::new();
                let mut without = 0;
                for (_, amount, values) in self.truth.iter().filter(inside) {
                    match values[place] {
                        Some(value) => *truth.entry(text(value)).or_default() += amount,
                        None => without += amount,
                    }
                }
                let breakdown = self.stored.rows.breakdown(name, window);
                let values: BTreeMap<String, u128> = breakdown
                    .values
                    .values()
                    .map(|(value, row)| (value.to_owned(), row.count))
                    .collect();
                prop_assert_eq!(values, truth, "{} in {:?}", name, window);
                prop_assert_eq!(breakdown.values.absent_max(), 0);
                let none = self.counted(window) - breakdown.values.sum();
                prop_assert_eq!(none, without, "{} in {:?}", name, window);
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Event {
    Tick(i64),
    Crash,
    Flush(Vec<Write>),
    Keyed(Write),
    /// All that was counted once more.
    Again,
}

fn write() -> impl Strategy<Value = Write> {
    let ago = prop_oneof![0..12_i64, 0..10 * DAY, 0..600 * DAY];
    let value = || proptest::option::of(0..60_u16);
    let values = (value(), value(), value()).prop_map(|(one, two, three)| [one, two, three]);
    (ago, any::<bool>(), 1..9_u128, values).prop_map(|(ago, is_past, amount, values)| Write {
        ago,
        is_past,
        amount,
        values,
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => prop_oneof![0..4_i64, 3_000..40_000_i64, DAY..4 * DAY].prop_map(Event::Tick),
        1 => Just(Event::Crash),
        4 => vec(write(), 0..30).prop_map(Event::Flush),
        2 => write().prop_map(Event::Keyed),
        1 => Just(Event::Again),
    ]
}

proptest! {
    #![proptest_config(config(191, 64))]

    #[test]
    fn each_value_is_counted_once_and_sums_are_the_counts_of_their_windows(events in vec(event(), 1..40)) {
        let mut shell = Shell::new();
        for event in events {
            shell.happen(event);
        }
        shell.check()?;
        shell.happen(Event::Again);
        shell.happen(Event::Crash);
        shell.check()?;
    }

    #[test]
    fn logs_say_the_same_once_they_are_summed(writes in vec(write(), 0..40)) {
        let mut log = DimensionLog::default();
        for write in &writes {
            log.push(write.stamp(BEGIN), write.amount, write.dimensions().iter());
        }
        let sums = |log: &DimensionLog| {
            let mut sums: BTreeMap<(String, String, Stamp), u128> = BTreeMap::new();
            log.each(|entry| {
                for (name, value) in entry.values {
                    *sums.entry((name.to_owned(), value.to_owned(), entry.stamp)).or_default() += entry.amount;
                }
            })
            .expect("a log");
            sums
        };
        let summed = log.summed().expect("a log");
        prop_assert_eq!(sums(&summed), sums(&log));
        prop_assert!(summed.len() <= log.len() || writes.is_empty());
        prop_assert_eq!(summed.summed(), Ok(summed.clone()));
    }
}

#[test]
fn without_dimensions_no_row_is_written() {
    let mut shell = Shell::new();
    let plain = Write {
        ago: 0,
        is_past: false,
        amount: 3,
        values: [None; 3],
    };
    assert!(plain.load(BEGIN).dimensions.is_empty());
    let (_, changes) = shell
        .stored
        .cell
        .apply(
            Nonce { lane: 1, number: 1 },
            &plain.load(BEGIN),
            BEGIN * 1_000,
        )
        .expect("it counts");
    let only_hot = Changes {
        hot: true,
        ..Changes::default()
    };
    assert_eq!(changes, only_hot);
    shell.stored.rows.write_hot(&shell.stored.cell);
    assert_eq!(shell.stored.rows.rows_of_breakdowns(RowKind::Pending), 0);
}

#[test]
fn a_commit_writes_one_row_more_and_seldom_another() {
    let (mut shell, mut plain) = (Shell::new(), Shell::new());
    for number in 0..3_000_u16 {
        // Three values that are known, and a page of 2,000.
        let values = [
            Some(number % 7),
            Some(number % 3),
            Some(number * 13 % 2_000),
        ];
        for (shell, values) in [(&mut shell, values), (&mut plain, [None; 3])] {
            shell.stored.now += 30;
            shell.happen(Event::Flush(vec![Write {
                ago: 0,
                is_past: false,
                amount: 1,
                values,
            }]));
        }
    }
    let written = shell.stored.rows.written() - plain.stored.rows.written();
    assert!(
        shell.stored.rows.rows_of_breakdowns(RowKind::AllTime) > 0,
        "some were folded"
    );
    assert!(written <= 2 * 3_000, "{written} rows in 3,000 commits");
    let breakdown = shell.stored.rows.breakdown("page", None);
    assert_eq!(breakdown.values.len(), 1_000);
    assert_eq!(breakdown.values.sum(), 3_000);
    assert_eq!(breakdown.names, ["country", "page", "referrer"]);
}

#[test]
fn names_beyond_the_most_are_told_as_others() {
    let mut shell = Shell::new();
    let names: Vec<String> = (0..DIMENSIONS_MAX + 4)
        .map(|number| format!("name{number}"))
        .collect();
    // Each is folded once.
    for (number, name) in (1..).zip(&names) {
        let mut load = Load {
            added: 400,
            live: vec![(BEGIN, 400)],
            ..Load::default()
        };
        for value in 0..400 {
            let value = text(value);
            let dimensions = [(name.as_str(), value.as_str())];
            load.dimensions.push(Stamp::Live(BEGIN), 1, dimensions);
        }
        shell.stored.flush(&[(Nonce { lane: 1, number }, load)]);
    }
    let known: BTreeSet<String> = shell
        .stored
        .rows
        .breakdown("name0", None)
        .names
        .into_iter()
        .collect();
    assert!(
        names
            .iter()
            .take(DIMENSIONS_MAX)
            .all(|name| known.contains(name))
    );
    for name in &names {
        let values = shell.stored.rows.breakdown(name, None).values;
        assert_eq!(values.sum(), 400, "{name}");
        assert!(values.get(&text(1)).count_max() >= 1, "{name}");
    }
    assert!(shell.stored.rows.breakdown("name19", None).values.rest() > 0);
    assert_eq!(shell.stored.rows.breakdown("another", None).values.sum(), 0);
}

#[test]
fn hours_go_after_a_week_and_days_with_the_history() {
    let mut shell = Shell::new();
    for day in 0..30 {
        // As many as are folded each day.
        let writes = (0..300_u16).map(|value| Write {
            ago: 0,
            is_past: false,
            amount: 1,
            values: [Some(value), None, Some(value + day)],
        });
        shell.happen(Event::Flush(writes.collect()));
        shell.happen(Event::Tick(DAY));
    }
    let hours = shell.stored.rows.rows_of_breakdowns(RowKind::Hour);
    let days = shell.stored.rows.rows_of_breakdowns(RowKind::Day);
    assert!((2 * 7..=2 * 10).contains(&hours), "{hours}");
    assert!((2 * 28..=2 * 30).contains(&days), "{days}");
    assert_eq!(shell.stored.rows.rows_of_breakdowns(RowKind::AllTime), 2);
    let now = shell.stored.now;
    assert_eq!(
        covered((now - 100, now), now).0,
        Resolution::Hour.start_of(now - 100)
    );
    assert_eq!(
        covered((now - 9 * DAY, now), now).0,
        Resolution::Day.start_of(now - 9 * DAY)
    );
}
