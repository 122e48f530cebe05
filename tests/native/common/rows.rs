//! A cell's rows in memory: what the object's shell writes and reads, with a map for each table.
//!
//! Invariant: nothing gets in here but what a commit writes, so a cell that is put together from
//! these rows is what an eviction or a crash leaves.

use std::collections::BTreeMap;

use tally::core::counter::breakdown::{Breakdown, BreakdownRows, KeptFrom, RowKind, append, read};
use tally::core::counter::cell::{Cell, Hot};
use tally::core::counter::dimensions::BrokenLog;
use tally::core::counter::flush::Changes;
use tally::core::counter::history::Step;
use tally::core::counter::ledger::{Kept, Keys, NewRecord, WriteKey};
use tally::core::counter::numbers::{Numbers, slot_of};
use tally::core::counter::samples::{hour_to_fold, hours_kept_from};
use tally::core::counter::spans::{Rows as StretchRows, kept_seconds, rows_of};
use tally::core::sketch::{Histogram, Uniques};
use tally::protocol::messages::{decode, encode};

const HOT: u8 = 1;
const ALL_TIME: u8 = 2;
const MINUTE_SKETCH: u8 = 6;
const SEALED: u8 = 8;
const LEDGER: u8 = 9;
const LEDGERS: [(i64, Keys); 3] = [(0, Keys::Clients), (1, Keys::Drawn), (2, Keys::Public)];
const SAMPLES: u8 = 10;
const HOUR_SAMPLES: u8 = 11;
const HOUR_UNIQUES: u8 = 12;
const DAY_UNIQUES: u8 = 13;

fn kind_of_uniques(step: Step) -> u8 {
    match step {
        Step::Second | Step::Minute => MINUTE_SKETCH,
        Step::Hour => HOUR_UNIQUES,
        Step::Day => DAY_UNIQUES,
    }
}

fn kind_of_page(step: Step) -> u8 {
    match step {
        Step::Second | Step::Minute => 3,
        Step::Hour => 4,
        Step::Day => 5,
    }
}

/// The tables: (kind, start) to bytes, and the records of keyed writes: (slot, key) to bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows(
    BTreeMap<(u8, i64), Vec<u8>>,
    BTreeMap<(i64, WriteKey), Vec<u8>>,
);

fn kind_of_breakdown(kind: RowKind) -> u8 {
    match kind {
        RowKind::Pending => 14,
        RowKind::Names => 15,
        RowKind::Hour => 16,
        RowKind::Day => 17,
        RowKind::AllTime => 18,
    }
}

impl BreakdownRows for Rows {
    type Fault = BrokenLog;

    fn get(&self, kind: RowKind, start: i64) -> Result<Option<Vec<u8>>, BrokenLog> {
        Ok(self.0.get(&(kind_of_breakdown(kind), start)).cloned())
    }

    fn first(&self, kind: RowKind, from: i64, before: i64) -> Result<Option<i64>, BrokenLog> {
        let kind = kind_of_breakdown(kind);
        if from >= before {
            return Ok(None);
        }
        let first = self.0.range((kind, from)..(kind, before)).next();
        Ok(first.map(|((_, start), _)| *start))
    }

    fn between(&self, kind: RowKind, from: i64, before: i64) -> Result<Vec<Vec<u8>>, BrokenLog> {
        let kind = kind_of_breakdown(kind);
        let rows = self.0.range((kind, from)..(kind, before));
        Ok(rows.map(|(_, body)| body.clone()).collect())
    }

    fn put(&mut self, kind: RowKind, start: i64, body: Vec<u8>) -> Result<(), BrokenLog> {
        assert!(body.len() < 2_000_000, "a row holds 2 MB");
        self.0.insert((kind_of_breakdown(kind), start), body);
        Ok(())
    }

    fn delete(&mut self, kind: RowKind, from: i64, before: i64) -> Result<(), BrokenLog> {
        let of = kind_of_breakdown(kind);
        self.0
            .retain(|(kind, start), _| *kind != of || !(from..before).contains(start));
        Ok(())
    }
}

impl Rows {
    /// What was counted of a dimension's values.
    pub fn breakdown(&self, name: &str, window: Option<(i64, i64)>) -> Breakdown {
        read(self, name, window).expect("they can be read")
    }

    /// How many rows of breakdowns differ from those of before.
    pub fn written_of_breakdowns_since(&self, before: &Self) -> usize {
        let rows = self.0.range((14, i64::MIN)..=(18, i64::MAX));
        rows.filter(|(name, body)| before.0.get(name) != Some(*body))
            .count()
    }

    /// How many rows of breakdowns there are, by kind.
    pub fn rows_of_breakdowns(&self, kind: RowKind) -> usize {
        self.starts_of(kind_of_breakdown(kind)).len()
    }

    /// Writes what a flush changed. `now` is the cell's clock in unix seconds.
    pub fn write(&mut self, cell: &Cell, changes: &Changes, now: i64) {
        if !changes.hot {
            return self.write_records(cell, changes);
        }
        for &(step, page) in &changes.pages {
            let buckets = cell.page_row(step, page);
            if buckets.is_empty() {
                self.0.remove(&(kind_of_page(step), page));
            } else {
                let body = encode(&buckets).expect("a page");
                self.0.insert((kind_of_page(step), page), body);
            }
        }
        if changes.all_time {
            self.0.insert((ALL_TIME, 0), cell.all_time_row());
        }
        self.write_uniques(changes, now);
        self.write_samples(changes, now);
        if !changes.dimensions.is_empty() {
            let kept = KeptFrom::at(now, cell.days_kept_from());
            append(self, &changes.dimensions, kept).expect("they can be written");
        }
        self.write_records(cell, changes);
        self.write_hot(cell);
    }

    fn write_samples(&mut self, changes: &Changes, now: i64) {
        for (minute, samples) in &changes.samples {
            if !self.0.contains_key(&(SAMPLES, *minute)) {
                self.fold_samples(now);
            }
            self.add_samples(SAMPLES, *minute, samples);
        }
    }

    fn add_samples(&mut self, kind: u8, start: i64, samples: &Histogram) {
        let stored = self.0.get(&(kind, start));
        let mut merged = stored.map_or_else(Histogram::new, |body| {
            Histogram::from_bytes(body).expect("a histogram")
        });
        merged.merge(samples);
        self.0.insert((kind, start), merged.to_bytes());
    }

    fn fold_samples(&mut self, now: i64) {
        let oldest = self.starts_of(SAMPLES).first().copied();
        let Some(hour) = hour_to_fold(oldest, now) else {
            return;
        };
        let end = hour + Step::Hour.seconds();
        let samples = self.samples_between(SAMPLES, hour, end);
        self.add_samples(HOUR_SAMPLES, hour, &samples);
        self.0.retain(|(kind, start), _| match *kind {
            SAMPLES => !(hour..end).contains(start),
            HOUR_SAMPLES => *start >= hours_kept_from(now),
            _ => true,
        });
    }

    /// As `CellStore::put_uniques`.
    fn write_uniques(&mut self, changes: &Changes, now: i64) {
        for (minute, uniques) in &changes.minutes {
            self.0.insert((MINUTE_SKETCH, *minute), uniques.clone());
        }
        for &(step, start, source, token) in &changes.late_tokens {
            let mut uniques = self.uniques(kind_of_uniques(step), start);
            uniques.insert(source, token);
            self.put_uniques(step, start, &uniques);
        }
        for &(step, start) in &changes.over {
            let part = match step {
                Step::Day => Step::Hour,
                _ => Step::Minute,
            };
            let rows = StretchRows {
                step: part,
                from: start,
                before: start + step.seconds(),
            };
            let mut whole = self.uniques(kind_of_uniques(step), start);
            self.join_rows(rows, &mut whole);
            if !whole.is_empty() {
                self.put_uniques(step, start, &whole);
            }
        }
        if !changes.over.is_empty() {
            self.delete_uniques_before(Step::Hour, now);
            self.delete_uniques_before(Step::Day, now);
        }
        if changes.all_time {
            self.delete_uniques_before(Step::Minute, now);
        }
    }

    fn put_uniques(&mut self, step: Step, start: i64, uniques: &Uniques) {
        let row = (kind_of_uniques(step), start);
        self.0.insert(row, uniques.to_bytes());
    }

    fn delete_uniques_before(&mut self, step: Step, now: i64) {
        let (of, before) = (kind_of_uniques(step), now - kept_seconds(step));
        self.0
            .retain(|(kind, start), _| *kind != of || *start >= before);
    }

    fn join_rows(&self, rows: StretchRows, into: &mut Uniques) {
        let kind = kind_of_uniques(rows.step);
        for (_, body) in self.0.range((kind, rows.from)..(kind, rows.before)) {
            into.merge(&Uniques::from_bytes(body).expect("unique elements"));
        }
    }

    /// How many rows of unique elements there are, by step.
    pub fn rows_of_uniques(&self, step: Step) -> usize {
        let kind = kind_of_uniques(step);
        let all = (kind, i64::MIN)..=(kind, i64::MAX);
        self.0.range(all).count()
    }

    fn write_records(&mut self, cell: &Cell, changes: &Changes) {
        for NewRecord {
            key,
            kept: Kept { slot, record },
            replaces,
        } in &changes.records
        {
            let body = encode(record).expect("a record");
            if let Some(replaced) = replaces {
                let before = self.1.remove(&(*replaced, *key));
                assert!(before.is_some(), "a record that is there is replaced");
            }
            let before = self.1.insert((*slot, *key), body);
            // The shell inserts: another row of that name fails its commit.
            assert_eq!(before, None, "a record is written once");
        }
        for (lane, numbers) in &changes.numbers {
            let body = encode(numbers).expect("the numbers of a lane");
            self.1.insert((slot_of(*lane), *lane), body);
        }
        if !changes.records.is_empty() {
            self.write_ledgers(cell);
        }
    }

    fn write_ledgers(&mut self, cell: &Cell) {
        for (start, keys) in LEDGERS {
            let body = encode(cell.ledger(keys)).expect("the ledger's counts");
            self.0.insert((LEDGER, start), body);
        }
    }

    /// What was decided of the numbers of a lane.
    pub fn numbers(&self, lane: WriteKey) -> Numbers {
        let body = self.1.get(&(slot_of(lane), lane));
        body.map_or_else(Numbers::default, |body| decode(body).expect("numbers"))
    }

    /// The record of a keyed write, if there is one in these slots.
    pub fn record(&self, slots: &[i64], key: WriteKey) -> Option<Kept> {
        let mut kept = slots.iter().filter_map(|&slot| {
            let body = self.1.get(&(slot, key))?;
            let record = decode(body).expect("a record");
            Some(Kept { slot, record })
        });
        let first = kept.next();
        assert_eq!(kept.next(), None, "a key has one record");
        first
    }

    /// Deletes the records of a slot and of those before it.
    pub fn delete_records(&mut self, newest: i64, cell: &Cell) {
        self.1.retain(|(slot, _), _| *slot > newest);
        self.write_ledgers(cell);
    }

    /// How many records each slot has.
    pub fn records(&self) -> Vec<(i64, u64)> {
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        for (slot, _) in self.1.keys() {
            *counts.entry(*slot).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// Writes the hot row alone.
    pub fn write_hot(&mut self, cell: &Cell) {
        let body = encode(&cell.hot_row()).expect("a hot row");
        self.0.insert((HOT, 0), body);
    }

    /// Writes whether a shard is sealed, with its part, and the hot row with it.
    pub fn write_sealed(&mut self, cell: &Cell, shard: u8) {
        match cell.sealed_part(shard) {
            Some(part) => {
                let body = encode(&part).expect("a part");
                self.0.insert((SEALED, shard.into()), body);
            }
            None => {
                self.0.remove(&(SEALED, shard.into()));
            }
        }
        self.write_hot(cell);
    }

    /// Drops all rows, as the end of a generation does.
    pub fn clear(&mut self) {
        self.0.clear();
        self.1.clear();
    }

    /// Puts the cell together from the rows.
    pub fn load(&self) -> Cell {
        let Some(hot) = self.0.get(&(HOT, 0)) else {
            let mut unborn = Cell::default();
            self.load_ledgers(&mut unborn);
            return unborn;
        };
        let hot: Hot = decode(hot).expect("a hot row");
        let mut pages = Vec::new();
        for step in Step::PAGED {
            let kind = kind_of_page(step);
            for (&(_, page), body) in self.0.range((kind, i64::MIN)..=(kind, i64::MAX)) {
                pages.push((step, page, decode(body).expect("a page")));
            }
        }
        let open = hot
            .open_minute()
            .map_or_else(Uniques::new, |minute| self.uniques(MINUTE_SKETCH, minute));
        let parts = self.0.range((SEALED, i64::MIN)..=(SEALED, i64::MAX));
        let sealed = parts.map(|(&(_, shard), body)| {
            let part = decode(body).expect("a part");
            (u8::try_from(shard).expect("a shard"), part)
        });
        let all_time = self.uniques(ALL_TIME, 0);
        let mut cell = Cell::restore(hot, pages, all_time, open, sealed.collect());
        self.load_ledgers(&mut cell);
        cell
    }

    fn load_ledgers(&self, cell: &mut Cell) {
        for (start, keys) in LEDGERS {
            let body = self.0.get(&(LEDGER, start));
            let ledger = body.map(|body| decode(body).expect("the ledger's counts"));
            cell.restore_ledger(keys, ledger.unwrap_or_default());
        }
        if !self.1.is_empty() {
            cell.restore_numbers();
        }
    }

    /// The unique elements of the minutes that a window touches.
    pub fn window_uniques(&self, from: i64, to: i64) -> Uniques {
        let last = Step::Minute.start_of(to) + Step::Minute.seconds() - 1;
        self.stretch_uniques((Step::Minute.start_of(from), last))
    }

    /// As `CellStore::stretch_uniques`.
    pub fn stretch_uniques(&self, stretch: (i64, i64)) -> Uniques {
        let hot = self.0.get(&(HOT, 0));
        let hot: Option<Hot> = hot.map(|hot| decode(hot).expect("a hot row"));
        let mut union = Uniques::new();
        for rows in rows_of(stretch, hot.and_then(|hot| hot.open_hour())) {
            self.join_rows(rows, &mut union);
        }
        union
    }

    /// The samples of the minutes and hours that begin in a window, merged.
    pub fn window_samples(&self, from: i64, to: i64) -> Histogram {
        let mut all = Histogram::new();
        for kind in [SAMPLES, HOUR_SAMPLES] {
            all.merge(&self.samples_between(kind, from, to.saturating_add(1)));
        }
        all
    }

    fn samples_between(&self, kind: u8, from: i64, before: i64) -> Histogram {
        let mut all = Histogram::new();
        for (_, body) in self.0.range((kind, from)..(kind, before)) {
            all.merge(&Histogram::from_bytes(body).expect("a histogram"));
        }
        all
    }

    /// When the minutes begin that have samples, and when the hours do whose minutes are gone.
    pub fn times_of_samples(&self) -> (Vec<i64>, Vec<i64>) {
        (self.starts_of(SAMPLES), self.starts_of(HOUR_SAMPLES))
    }

    fn starts_of(&self, kind: u8) -> Vec<i64> {
        let rows = self.0.range((kind, i64::MIN)..=(kind, i64::MAX));
        rows.map(|((_, start), _)| *start).collect()
    }

    fn uniques(&self, kind: u8, start: i64) -> Uniques {
        self.0
            .get(&(kind, start))
            .map_or_else(Uniques::new, |body| {
                Uniques::from_bytes(body).expect("unique elements")
            })
    }
}
