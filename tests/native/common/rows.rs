//! A cell's rows as its object stores them, in a database in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use tally_core::counter::breakdown::{Breakdown, RowKind, read};
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::Changes;
use tally_core::counter::history::Resolution;
use tally_core::counter::ledger::{StoredRecord, WriteKey};
use tally_core::counter::numbered_writes::Numbers;
use tally_core::counter::samples::samples_at;
use tally_core::sketch::{Histogram, Uniques};
use tally_host::object::{self, Events, Object, ObjectPlatform, Socket, SqlValue};
use tally_host::{Later, Stream};
use tally_objects::{CellStore, Kind};
use tally_simulation::Storage;
use tally_wire::names::Placement;

/// An object that stores, and does nothing else.
struct Disk(Storage);

impl ObjectPlatform for Disk {
    fn id(&self) -> String {
        "a cell".to_owned()
    }

    fn is_at(&self, _: &Placement) -> bool {
        true
    }

    fn wait_until(&self, _: Later<()>) {
        unreachable!("rows are written at once")
    }

    fn database_bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn run(&self, statement: &str, values: Vec<SqlValue>) -> Result<object::Rows, String> {
        self.0.run(statement, &values)
    }

    fn atomically(&self, body: &mut dyn FnMut() -> bool) -> Result<(), String> {
        self.0.atomically(body)
    }

    fn sync(&self) -> Later<Result<(), String>> {
        unreachable!("rows are written at once")
    }

    fn delete_all(&self) -> Later<Result<(), String>> {
        unreachable!("no object ends")
    }

    fn alarm(&self) -> Later<Result<Option<i64>, String>> {
        unreachable!("there is no alarm")
    }

    fn set_alarm(&self, _: i64) -> Later<Result<(), String>> {
        unreachable!("there is no alarm")
    }

    fn sockets(&self) -> Vec<Rc<dyn Socket>> {
        Vec::new()
    }

    fn accept(&self, _: &str, _: String) -> Result<(Rc<dyn Socket>, Stream), String> {
        unreachable!("nobody watches")
    }

    fn events(&self) -> Result<(Rc<dyn Events>, Stream), String> {
        unreachable!("nobody watches")
    }
}

/// The rows of a cell.
pub struct Rows {
    disk: Rc<Disk>,
    store: CellStore,
}

impl Default for Rows {
    fn default() -> Self {
        let disk = Rc::new(Disk(Storage::new(None)));
        let store = CellStore::of_object(Object::new(disk.clone()));
        Self { disk, store }
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Rows")
    }
}

impl Rows {
    /// Writes what a flush changed. `now` is the cell's clock in unix seconds.
    pub fn write(&self, cell: &CellState, changes: &Changes, now: i64) {
        self.store.write(cell, changes, now).expect("it is stored");
    }

    /// Writes the hot row alone.
    pub fn write_hot(&self, cell: &CellState) {
        self.store.write_hot(cell).expect("it is stored");
    }

    /// Writes whether a shard is sealed, with its part, and the hot row with it.
    pub fn write_sealed(&self, cell: &CellState, shard: u8) {
        self.store.write_sealed(cell, shard).expect("it is stored");
    }

    /// Drops all rows, as the end of a generation does.
    pub fn clear(&self) {
        self.store.close(0, &[]).expect("it is stored");
    }

    /// Puts the cell together from the rows, as an object that starts does.
    pub fn load(&self) -> CellState {
        let store = CellStore::of_object(Object::new(self.disk.clone()));
        store.load().expect("rows of this build").cell
    }

    /// What was decided of the numbers of a lane.
    pub fn numbers(&self, lane: WriteKey) -> Numbers {
        self.store.numbers(lane).expect("numbers")
    }

    /// The record of a keyed write, if there is one in these slots.
    pub fn record(&self, slots: &[i64], key: WriteKey) -> Option<StoredRecord> {
        self.store.record(slots, key).expect("a record")
    }

    /// Deletes the records of a slot and of those before it.
    pub fn delete_records(&self, newest: i64, cell: &CellState) {
        let deleted = self.store.delete_records(newest, cell);
        deleted.expect("it is stored");
    }

    /// The unique elements of the minutes that a window touches.
    pub fn window_uniques(&self, from: i64, to: i64) -> Uniques {
        let last = Resolution::Minute.start_of(to) + Resolution::Minute.seconds() - 1;
        self.range_uniques((Resolution::Minute.start_of(from), last))
    }

    /// The unique elements of a range, its first and its last second.
    pub fn range_uniques(&self, range: (i64, i64)) -> Uniques {
        let open_hour = self.load().open_hour();
        let sketch = self.store.range_uniques(range, open_hour);
        sketch.expect("unique elements")
    }

    /// The samples of the minutes and hours that begin in a window, merged.
    pub fn window_samples(&self, from: i64, to: i64) -> Histogram {
        let all = self.store.window_samples((from, to), None);
        samples_at(&all.expect("samples"), 0)
    }

    /// The same by steps, with the beginning of each, in order.
    pub fn series_of_samples(&self, range: (i64, i64), step: Resolution) -> Vec<(i64, Histogram)> {
        let all = self.store.window_samples(range, Some(step));
        let mut all = all.expect("samples");
        all.sort();
        let read = |(start, _): &(i64, Vec<u8>)| (*start, samples_at(&all, *start));
        all.iter().map(read).collect()
    }

    /// Adds the seconds of rows that are in a range, its first and its last second.
    pub fn add_seconds(&self, points: &mut BTreeMap<i64, u128>, range: (i64, i64)) {
        let added = self.store.add_seconds(points, range);
        added.expect("seconds");
    }

    /// The hours that have a row of seconds, and the bytes of these rows.
    pub fn rows_of_seconds(&self) -> (Vec<i64>, i64) {
        let bytes = "SELECT SUM(LENGTH(body)) FROM rows WHERE kind = ?";
        let hours = self.starts_of(Kind::Seconds);
        let bytes = match hours.is_empty() {
            true => 0,
            false => self.numbers_of(bytes, &[Kind::Seconds.number().into()])[0][0],
        };
        (hours, bytes)
    }

    /// What was counted of a dimension's values.
    pub fn breakdown(&self, name: &str, window: Option<(i64, i64)>) -> Breakdown {
        read(&&self.store, name, window).expect("they can be read")
    }

    /// How many rows of breakdowns there are, by kind.
    pub fn rows_of_breakdowns(&self, kind: RowKind) -> usize {
        self.starts_of(Kind::of_breakdown(kind)).len()
    }

    /// How many rows were written so far.
    pub fn written(&self) -> u64 {
        self.disk.0.figures().1
    }

    fn numbers_of(&self, statement: &str, values: &[SqlValue]) -> Vec<Vec<i64>> {
        let rows = self.disk.0.run(statement, values).expect("a query");
        let number = |value: &SqlValue| match value {
            SqlValue::Integer(number) => *number,
            other => panic!("{other:?} is no number"),
        };
        let rows = rows.iter().map(|row| row.iter().map(number).collect());
        rows.collect()
    }

    fn starts_of(&self, kind: Kind) -> Vec<i64> {
        let statement = "SELECT start FROM rows WHERE kind = ? ORDER BY start";
        let rows = self.numbers_of(statement, &[kind.number().into()]);
        rows.concat()
    }

    /// How many records each slot has.
    pub fn records(&self) -> Vec<(i64, u64)> {
        let counts = "SELECT slot, COUNT(*) FROM ledger GROUP BY slot ORDER BY slot";
        let rows = self.numbers_of(counts, &[]);
        rows.iter()
            .map(|row| (row[0], row[1].unsigned_abs()))
            .collect()
    }

    /// How many rows of unique elements there are, by step.
    pub fn rows_of_uniques(&self, step: Resolution) -> usize {
        self.starts_of(Kind::of_uniques(step)).len()
    }

    /// When the minutes begin that have samples, and when the hours do whose minutes are gone.
    pub fn times_of_samples(&self) -> (Vec<i64>, Vec<i64>) {
        (
            self.starts_of(Kind::Samples),
            self.starts_of(Kind::HourSamples),
        )
    }
}
