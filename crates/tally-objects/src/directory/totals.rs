//! The totals of a partition's counters, in a table that SQL can sort and sum.
//!
//! Invariant: a row is written in the same turn as the counter's data that it repeats, and is deleted with the counter.
//! Its `as_of` is true. No counter is asked for it. The counts at the beginnings of the last hours and days are stored,
//! so the count of a window is one subtraction, modulo 2^62, which is more than a window counts. The hour of a row is
//! that of the newest increment, not of its arrival: imported increments of old times are in no window. But if a
//! counter also counts within the window, imported increments count at their arrival.

use std::cell::OnceCell;

use super::top_order::columns;
use crate::kit::row_prefetch::RowPrefetch;
use crate::kit::store::{Insert, Store, text};
use tally_api::number::Estimate;
use tally_core::cluster::kept_tops::{KeptTops, RowBefore, Written, counted_of};
use tally_core::cluster::root::Root;
use tally_core::cluster::top_order::{DAY_HOURS, DAYS_KEPT, HOURS_KEPT, KnownTotal, KnownUniques};
use tally_core::cluster::total::CounterTotal;
use tally_core::cluster::view::View;
use tally_core::counter::id::CounterId;
use tally_core::counter::total::Value;
use tally_host::object::SqlValue;
use tally_wire::messages::Fault;

/// Milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;

/// A row's columns besides the beginnings. Numbers that JavaScript cannot hold exactly are written and read as texts.
const COLUMNS: &str = "id TEXT PRIMARY KEY, as_of INTEGER NOT NULL, hour INTEGER NOT NULL, \
    value INTEGER NOT NULL, counted INTEGER NOT NULL, uniques INTEGER NOT NULL, \
    value_size INTEGER NOT NULL, counted_size INTEGER NOT NULL, uniques_size INTEGER NOT NULL, body BLOB NOT NULL";

/// Orders use sizes, which rarely change for large numbers. A push sets only changed indexed columns, so it usually
/// writes no index. Each index is made when an order first reads it, see `index_of` of tops: until then it costs no
/// row.
pub(super) const INDEXES: [&str; 4] = [
    "CREATE INDEX IF NOT EXISTS totals_hour ON totals (hour)",
    "CREATE INDEX IF NOT EXISTS totals_value ON totals (value_size)",
    "CREATE INDEX IF NOT EXISTS totals_counted ON totals (counted_size)",
    "CREATE INDEX IF NOT EXISTS totals_uniques ON totals (uniques_size) WHERE uniques_size > 0",
];

/// The statement that creates the table.
pub(super) fn totals_schema() -> String {
    let slots = (0..HOURS_KEPT).map(|hour| format!("h{hour}"));
    let slots = slots.chain((0..DAYS_KEPT).map(|day| format!("d{day}")));
    let slots: String = slots
        .map(|slot| format!(", {slot} INTEGER NOT NULL DEFAULT 0"))
        .collect();
    format!("CREATE TABLE IF NOT EXISTS totals ({COLUMNS}{slots}) WITHOUT ROWID")
}

/// The totals of a partition.
pub(super) struct DirectoryTotals {
    pub(super) store: Store,
    /// What [`begun_between`] returns, once a row has needed it.
    begun: OnceCell<String>,
    pub(super) kept: KeptTops,
    pub(super) ahead: RowPrefetch,
}

/// The known totals of a counter, with its unique elements.
pub(super) fn known_of(root: &Root, view: &View) -> KnownTotal {
    let estimate = Estimate::of(view.uniques()).filter(|_| view.generation() == root.generation);
    KnownTotal {
        total: CounterTotal::of(root, view),
        uniques: estimate.map(|known| KnownUniques {
            estimate: known.estimate,
            standard_error: known.standard_error,
            epochs: u64::try_from(known.epochs).unwrap_or(u64::MAX),
        }),
    }
}

impl DirectoryTotals {
    /// The totals in this database.
    pub(super) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            begun: OnceCell::new(),
            kept: KeptTops::default(),
            ahead: RowPrefetch::new(store, "totals", "hour"),
        }
    }

    /// Reads ahead the rows of counters that are about to be written.
    pub(crate) fn read_ahead(&self, counters: &[CounterId]) -> Result<(), Fault> {
        self.ahead.read_as(counters, &columns(&self.kept))
    }

    /// Drops the rows that were read ahead.
    pub(crate) fn forget_ahead(&self) {
        self.ahead.clear();
    }

    /// The columns whose numbers JavaScript may not hold exactly.
    pub(super) fn wide_columns() -> Vec<String> {
        let wide = ["value", "counted", "uniques"].map(str::to_owned);
        let hours = (0..HOURS_KEPT).map(|hour| format!("h{hour}"));
        let days = (0..DAYS_KEPT).map(|day| format!("d{day}"));
        wide.into_iter().chain(hours).chain(days).collect()
    }

    /// Writes the pushed totals of a counter. `newest_ms` is an upper bound of the times of increments since the row
    /// was written; `None` if only the last write is known.
    pub(super) fn record(
        &self,
        counter: &CounterId,
        root: &Root,
        view: &View,
        newest_ms: Option<i64>,
        now_ms: i64,
    ) -> Result<(), Fault> {
        let known = known_of(root, view);
        let count = Value::new(known.total.count, 0);
        let row = match self.ahead.get(counter) {
            Some(row) => row,
            None => self.row_now(counter)?,
        };
        self.ahead.forget(counter);
        let row = row.as_ref().map(numbers_of).map(RowBefore::read);
        let before = row.as_ref().map(|row| row.hour);
        let hour = newest_hour(root, &known, before, newest_ms, now_ms);
        let uniques = known.uniques.map_or(0, |uniques| uniques.estimate);
        let uniques = Value::new(u128::from(uniques), 0);
        let sizes = [known.total.value, count, uniques].map(|number| i64::from(number.size()));
        let [value_size, counted_size, uniques_size] = sizes;
        let values: Vec<SqlValue> = vec![
            known.total.as_of_ms.into(),
            hour.into(),
            known.total.value.within_62_bits().to_string().into(),
            counted_of(known.total.count).to_string().into(),
            uniques.within_62_bits().to_string().into(),
            value_size.into(),
            counted_size.into(),
            uniques_size.into(),
            self.store.put(&known)?,
            counter.as_str().into(),
        ];
        let indexed = changed_columns(row.as_ref(), hour, sizes);
        let begun = match before {
            Some(before) if before < hour => self.begun.get_or_init(begun_between),
            _ => "",
        };
        let on_conflict = "ON CONFLICT (id) DO UPDATE SET as_of = excluded.as_of, value = excluded.value, \
             counted = excluded.counted, uniques = excluded.uniques, body = excluded.body";
        self.store.insert(
            &Insert {
                into: "INSERT INTO totals (as_of, hour, value, counted, uniques, value_size, counted_size, uniques_size, body, id) VALUES",
                places: "(?, ?, CAST(? AS INTEGER), CAST(? AS INTEGER), CAST(? AS INTEGER), ?, ?, ?, ?, ?)",
                conflict: &[on_conflict, &indexed, begun].concat(),
            },
            values,
        )?;
        let written = Written { hour, known };
        self.kept.written(counter, row.as_ref(), &written);
        Ok(())
    }

    /// The column that is read of a row before it is written.
    fn row_now(&self, counter: &CounterId) -> Result<Option<SqlValue>, Fault> {
        let sql = format!("SELECT {} FROM totals WHERE id = ?", columns(&self.kept));
        let rows = self.store.run(&sql, vec![counter.as_str().into()])?;
        Ok(rows.into_iter().flatten().next())
    }

    /// Deletes the row of a counter that ends. The caller does it in one commit with the end.
    pub(crate) fn delete(&self, counter: &CounterId) -> Result<(), Fault> {
        self.ahead.forget(counter);
        if !self.kept.is_empty() {
            self.kept
                .leaves(counter, self.row_now(counter)?.as_ref().map(numbers_of));
        }
        let id = vec![counter.as_str().into()];
        self.store
            .run("DELETE FROM totals WHERE id = ?", id)
            .map(drop)
    }

    /// Lets `write` write or delete the rows of a counter, for example when its root comes or leaves. The caller does
    /// it in one commit. If a later part of that fails, kept tops are dropped.
    pub(super) fn rewritten(
        &self,
        counter: &CounterId,
        write: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.kept.is_empty() {
            return write();
        }
        self.kept
            .leaves(counter, self.row_now(counter)?.as_ref().map(numbers_of));
        write()?;
        let sql = "SELECT body FROM totals WHERE id = ?";
        let rows = self.store.run(sql, vec![counter.as_str().into()])?;
        if let Some(body) = rows.iter().flatten().next() {
            let known: KnownTotal = self.store.get(body)?;
            self.kept.comes(
                counter,
                self.row_now(counter)?.as_ref().map(numbers_of),
                &known,
            );
        }
        Ok(())
    }

    /// The totals of the counters from one name to another, both included, in order.
    pub(super) fn between(
        &self,
        first: &CounterId,
        last: &CounterId,
    ) -> Result<Vec<(String, KnownTotal)>, Fault> {
        let sql = "SELECT id, body FROM totals WHERE id >= ? AND id <= ? ORDER BY id";
        let rows = self
            .store
            .run(sql, vec![first.as_str().into(), last.as_str().into()])?;
        let read = |row: &Vec<SqlValue>| match row.as_slice() {
            [id, body] => {
                let id = text(id)?;
                Some(self.store.get(body).map(|known| (id.to_owned(), known)))
            }
            _ => None,
        };
        rows.iter().filter_map(read).collect()
    }
}

/// The hour of a row: that of the newest increment, as far as it is known.
fn newest_hour(
    root: &Root,
    known: &KnownTotal,
    before: Option<i64>,
    newest_ms: Option<i64>,
    now_ms: i64,
) -> i64 {
    let created_ms = root.created_at_ms;
    let written_ms = known.total.last_write_ms;
    // An operation has no increment.
    let newest_ms = newest_ms.filter(|newest_ms| before.is_some() || *newest_ms > i64::MIN);
    let newest_ms = match newest_ms {
        Some(newest_ms) => newest_ms.min(now_ms.max(created_ms)),
        None => written_ms.clamp(created_ms, now_ms.max(created_ms)),
    };
    let hour = newest_ms.div_euclid(HOUR_MS);
    before.map_or(hour, |before| before.max(hour))
}

/// The column that is read of a row.
fn numbers_of(column: &SqlValue) -> &str {
    text(column).unwrap_or_default()
}

/// The SQL that sets the changed indexed columns; all of them if the row is unknown.
fn changed_columns(before: Option<&RowBefore>, hour: i64, sizes: [i64; 3]) -> String {
    let same = |before: &RowBefore| {
        let [value, counted, uniques] = before.sizes;
        [before.hour, value, counted, uniques]
    };
    let before = before.map(same);
    let [value, counted, uniques] = sizes;
    let now = [hour, value, counted, uniques];
    let columns = ["hour", "value_size", "counted_size", "uniques_size"];
    let mut set = String::new();
    for (index, column) in columns.into_iter().enumerate() {
        if before.is_none_or(|before| before.get(index) != now.get(index)) {
            set.push_str(&format!(", {column} = excluded.{column}"));
        }
    }
    set
}

/// The SQL that stores the count at the beginnings of hours and days between the hour of the row and the written hour.
/// A slot has such a beginning if a multiple of the number of slots lies between the two. The text is the same for any
/// two hours, so that many rows share a statement, and few are prepared.
fn begun_between() -> String {
    let slots = |column: char, hours: i64, kept: i64| {
        (0..kept).map(move |slot| {
            let turn = |hour: &str| format!("({hour} / {hours} + {}) / {kept}", kept - slot);
            let (before, now) = (turn("hour"), turn("excluded.hour"));
            format!(
                ", {column}{slot} = CASE WHEN {now} > {before} THEN counted ELSE {column}{slot} END"
            )
        })
    };
    let hours = slots('h', 1, HOURS_KEPT);
    hours.chain(slots('d', DAY_HOURS, DAYS_KEPT)).collect()
}
