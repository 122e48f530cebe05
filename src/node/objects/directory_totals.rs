//! What one partition of the directory has been told of its counters, in a table of its own that SQL can sort and sum.
//!
//! Invariant: a row is written in the turn in which what it says is stored of its counter, and goes with its counter; its `as_of` is
//! true. Nothing is asked of a counter for it. What was counted is kept at the beginnings of the last hours and days, so the count of
//! a window is one subtraction.
//!
//! Life: the table is made with the first push, or the first question. A partition that has been pushed to before reads its rows a
//! page at a time, by its alarm, until all are in; what windows began with is known from then on.

use std::cell::Cell;

use super::push_receiver::Views;
use super::root_store::RootStore;
use super::store::{Store, blob, integer, text};
use crate::core::cluster::root::{Entry, Root, prefix_end};
use crate::core::cluster::total::CounterTotal;
use crate::core::cluster::view::View;
use crate::core::counter::id::CounterId;
use crate::core::counter::total::Value as Number;
use crate::host::object::Value;
use crate::protocol::messages::{
    By, Fault, KnownTotal, KnownUniques, Order, Since, Sums, TopRow, decode, encode,
};
use crate::protocol::public::Estimate;

/// Beginnings of hours that are kept: the current one and the 24 before, so that a day of seconds is covered, and one more where
/// clocks differ.
const HOURS_KEPT: i64 = 26;

/// Beginnings of days that are kept: today and the 29 before, and one more where clocks differ.
const DAYS_KEPT: i64 = 31;

/// Counters of a prefix up to which they are found by their names, and put in order then; more are found by the index of the order.
const FEW: u64 = 1_000;

/// What [`Number::within_62_bits`] stops at.
const WITHIN_MAX: i64 = 1 << 62;

/// Milliseconds of an hour, and hours of a day.
const HOUR_MS: i64 = 3_600_000;
const DAY_HOURS: i64 = 24;

/// Counters whose rows are made in one step, where the table is younger than they are.
const BUILT_AT_ONCE: u32 = 200;

/// A row's columns besides the beginnings. Numbers that JavaScript would not hold go in and out as texts.
const COLUMNS: &str = "id TEXT PRIMARY KEY, as_of INTEGER NOT NULL, hour INTEGER NOT NULL, \
    value INTEGER NOT NULL, counted INTEGER NOT NULL, uniques INTEGER NOT NULL, \
    value_size INTEGER NOT NULL, counted_size INTEGER NOT NULL, uniques_size INTEGER NOT NULL, body BLOB NOT NULL";

/// The order of rows is found by sizes, which seldom change: most writes of a row write no index.
const INDEXES: [&str; 4] = [
    "CREATE INDEX IF NOT EXISTS totals_hour ON totals (hour)",
    "CREATE INDEX IF NOT EXISTS totals_value ON totals (value_size)",
    "CREATE INDEX IF NOT EXISTS totals_counted ON totals (counted_size)",
    "CREATE INDEX IF NOT EXISTS totals_uniques ON totals (uniques_size) WHERE uniques_size > 0",
];

/// How far the table has come: the last name that was read, nothing where all are in; and since when it is written, unix
/// milliseconds, 0 for always.
const PROGRESS: &str =
    "CREATE TABLE IF NOT EXISTS totals_progress (after TEXT, kept_from INTEGER NOT NULL)";

/// The totals of a partition.
pub(super) struct DirectoryTotals {
    store: Store,
    /// The last name that was read while the table is made, and since when it is written; nothing before it was looked for.
    progress: Cell<Option<Progress>>,
}

/// How far the table has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Whether every counter that has been told of is in it.
    pub(super) is_whole: bool,
    /// Since when it is written, unix milliseconds; 0 for always.
    pub(super) kept_from_ms: i64,
}

/// What is told of a counter, with its unique elements.
pub(super) fn known_of(root: &Root, view: &View) -> KnownTotal {
    let estimate = Estimate::of(view.uniques()).filter(|_| view.generation() == root.generation);
    KnownTotal {
        total: CounterTotal::of(root, view),
        uniques: estimate.map(|told| KnownUniques {
            estimate: told.estimate,
            standard_error: told.standard_error,
            epochs: u64::try_from(told.epochs).unwrap_or(u64::MAX),
        }),
    }
}

impl DirectoryTotals {
    /// The totals in this database.
    pub(super) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            progress: Cell::new(None),
        }
    }

    /// Makes the table where there is none.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; so all below.
    pub(super) fn prepare(&self, now_ms: i64) -> Result<Progress, Fault> {
        if let Some(progress) = self.progress.get() {
            return Ok(progress);
        }
        if !self.exists()? {
            let is_new = self
                .store
                .run("SELECT 1 FROM views LIMIT 1", vec![])?
                .is_empty();
            self.make(is_new, now_ms)?;
        }
        let sql = "SELECT after IS NULL, kept_from FROM totals_progress";
        let rows = self.store.run(sql, vec![])?;
        let mut columns = rows.iter().flatten().map(integer);
        let progress = Progress {
            is_whole: columns.next().flatten() == Some(1),
            kept_from_ms: columns.next().flatten().unwrap_or(0),
        };
        self.progress.set(Some(progress));
        Ok(progress)
    }

    fn exists(&self) -> Result<bool, Fault> {
        let sql = "SELECT 1 FROM sqlite_master WHERE name = 'totals_progress'";
        Ok(self.progress.get().is_some() || !self.store.run(sql, vec![])?.is_empty())
    }

    fn make(&self, is_new: bool, now_ms: i64) -> Result<(), Fault> {
        let slots = (0..HOURS_KEPT).map(|hour| format!("h{hour}"));
        let slots = slots.chain((0..DAYS_KEPT).map(|day| format!("d{day}")));
        let slots: String = slots
            .map(|slot| format!(", {slot} INTEGER NOT NULL DEFAULT 0"))
            .collect();
        let table = format!("CREATE TABLE IF NOT EXISTS totals ({COLUMNS}{slots}) WITHOUT ROWID");
        self.store.atomically(|| {
            self.store.run(&table, vec![])?;
            for index in INDEXES {
                self.store.run(index, vec![])?;
            }
            self.store.run(PROGRESS, vec![])?;
            let (after, kept_from_ms) = if is_new {
                (None, 0)
            } else {
                (Some(""), now_ms)
            };
            let values = vec![after.into(), kept_from_ms.into()];
            self.store
                .run("INSERT INTO totals_progress VALUES (?, ?)", values)?;
            Ok(())
        })
    }

    /// Notes what was told of a counter.
    pub(super) fn note(
        &self,
        counter: &CounterId,
        root: &Root,
        view: &View,
        now_ms: i64,
    ) -> Result<(), Fault> {
        let progress = self.prepare(now_ms)?;
        let known = known_of(root, view);
        let count = Number::new(known.total.count, 0);
        let last_write_ms = known
            .total
            .last_write_ms
            .clamp(root.created_at_ms, now_ms.max(root.created_at_ms));
        let hour = last_write_ms.div_euclid(HOUR_MS);
        let sql = "SELECT hour FROM totals WHERE id = ?";
        let rows = self.store.run(sql, vec![counter.as_str().into()])?;
        let before = rows.first().and_then(|row| integer(row.first()?));
        let hour = before.map_or(hour, |before| before.max(hour));
        let uniques = known.uniques.map_or(0, |uniques| uniques.estimate);
        let uniques = Number::new(u128::from(uniques), 0);
        let values: Vec<Value> = vec![
            known.total.as_of_ms.into(),
            hour.into(),
            known.total.value.within_62_bits().to_string().into(),
            count.within_62_bits().to_string().into(),
            uniques.within_62_bits().to_string().into(),
            known.total.value.size().into(),
            count.size().into(),
            uniques.size().into(),
            encode(&known)?.into(),
            counter.as_str().into(),
        ];
        if let Some(before) = before {
            let begun = begun_between(before, hour);
            let sql = format!(
                "UPDATE totals SET as_of = ?, hour = ?, value = CAST(? AS INTEGER), counted = CAST(? AS INTEGER), \
                 uniques = CAST(? AS INTEGER), value_size = ?, counted_size = ?, uniques_size = ?, body = ?{begun} WHERE id = ?"
            );
            self.store.run(&sql, values)?;
            return Ok(());
        }
        let sql = "INSERT INTO totals (as_of, hour, value, counted, uniques, value_size, counted_size, uniques_size, body, id) \
             VALUES (?, ?, CAST(? AS INTEGER), CAST(? AS INTEGER), CAST(? AS INTEGER), ?, ?, ?, ?, ?)";
        self.store.run(sql, values)?;
        if root.created_at_ms < progress.kept_from_ms {
            // When it was counted is not known.
            let all = (0..HOURS_KEPT).map(|hour| format!(", h{hour} = counted"));
            let all: String = all
                .chain((0..DAYS_KEPT).map(|day| format!(", d{day} = counted")))
                .collect();
            let sql = format!("UPDATE totals SET hour = hour{all} WHERE id = ?");
            self.store.run(&sql, vec![counter.as_str().into()])?;
        }
        Ok(())
    }

    /// Deletes the row of a counter that ends. The caller makes it one commit with the end.
    pub(super) fn delete(&self, counter: &CounterId) -> Result<(), Fault> {
        if self.exists()? {
            let id = vec![counter.as_str().into()];
            self.store.run("DELETE FROM totals WHERE id = ?", id)?;
        }
        Ok(())
    }

    /// What is known of the counters from one name to another, both included, in order.
    pub(super) fn between(
        &self,
        first: &CounterId,
        last: &CounterId,
        now_ms: i64,
    ) -> Result<Vec<(String, KnownTotal)>, Fault> {
        self.prepare(now_ms)?;
        let sql = "SELECT id, body FROM totals WHERE id >= ? AND id <= ? ORDER BY id";
        let rows = self
            .store
            .run(sql, vec![first.as_str().into(), last.as_str().into()])?;
        let read = |row: &Vec<Value>| match row.as_slice() {
            [id, body] => Some((text(id)?.to_owned(), decode(blob(body)?).ok()?)),
            _ => None,
        };
        Ok(rows.iter().filter_map(read).collect())
    }

    /// What is known of all counters of an order together.
    pub(super) fn sums(
        &self,
        order: &Order,
        above: Option<Number>,
        now_ms: i64,
    ) -> Result<Sums, Fault> {
        let progress = self.prepare(now_ms)?;
        let amount = amount_sql(order);
        let (within, ids) = within_sql(order, "");
        let above = above.map_or(i64::MAX, Number::within_62_bits);
        let counts = match (order.by, order.since) {
            (By::Value, _) => "COUNT(*)".to_owned(),
            _ => format!("SUM({amount} > 0)"),
        };
        let sum = format!("CASE WHEN abs({amount}) < {WITHIN_MAX} THEN {amount} ELSE 0 END");
        let sql = format!(
            "SELECT {counts}, CAST(SUM(({sum}) >> 32) AS TEXT), CAST(SUM(({sum}) & 4294967295) AS TEXT), \
             MIN(as_of), SUM({amount} > {above}), SUM(abs({amount}) >= {WITHIN_MAX}) FROM totals WHERE {within}"
        );
        let rows = self.store.run(&sql, ids.clone())?;
        let [counters, high, low, as_of, above, wide] =
            rows.first().map(Vec::as_slice).unwrap_or_default()
        else {
            return Err(Fault::Broken(
                "a sum of totals has other columns".to_owned(),
            ));
        };
        let unsigned = |value: &Value| {
            integer(value)
                .and_then(|count| u64::try_from(count).ok())
                .unwrap_or(0)
        };
        let of = |value: &Value| i128::from(number(value).unwrap_or(0));
        let total = (of(high) << 32) + of(low);
        let magnitude = Number::new(total.unsigned_abs(), 0);
        let mut total = if total < 0 {
            magnitude.negated()
        } else {
            magnitude
        };
        if unsigned(wide) > 0 && order.since.is_none() {
            // What 62 bits do not hold is in the rows.
            let sql = format!(
                "SELECT id, as_of, body FROM totals WHERE {within} AND abs({amount}) >= {WITHIN_MAX}"
            );
            for row in &self.store.run(&sql, ids)? {
                total =
                    total.plus(row_of(order, row).map_or_else(Number::default, |row| row.amount));
            }
        }
        Ok(Sums {
            counters: unsigned(counters),
            total,
            above: unsigned(above),
            as_of_ms: integer(as_of),
            kept_from_ms: if order.since.is_some() {
                progress.kept_from_ms
            } else {
                0
            },
        })
    }

    /// The first counters of an order, of so many that there are.
    pub(super) fn top(
        &self,
        order: &Order,
        counters: u64,
        limit: u32,
        now_ms: i64,
    ) -> Result<Vec<TopRow>, Fault> {
        self.prepare(now_ms)?;
        let amount = amount_sql(order);
        let (by_name, by_order) = if counters <= FEW {
            ("", "+")
        } else {
            ("+", "")
        };
        let (within, mut values) = within_sql(order, by_name);
        let size = match order.by {
            By::Value => "value_size",
            By::Count => "counted_size",
            By::Uniques => "uniques_size",
        };
        let sql = match order.since {
            Some(since) => format!(
                "SELECT id, as_of, CAST({amount} AS TEXT) FROM totals WHERE {within} AND {by_order}hour >= {} AND {amount} > 0 \
                 ORDER BY {amount} DESC, id LIMIT ?",
                hour_of(since)
            ),
            None => {
                let counts = match order.by {
                    By::Value => String::new(),
                    By::Count | By::Uniques => format!("AND {by_order}{size} > 0"),
                };
                format!(
                    "SELECT id, as_of, body FROM totals WHERE {within} {counts} \
                     ORDER BY {by_order}{size} DESC, {amount} DESC, id LIMIT ?"
                )
            }
        };
        values.push(i64::from(limit).into());
        let rows = self.store.run(&sql, values)?;
        Ok(rows.iter().filter_map(|row| row_of(order, row)).collect())
    }

    /// What one counter has in an order, where it is in the table.
    pub(super) fn amount(
        &self,
        counter: &CounterId,
        order: &Order,
        now_ms: i64,
    ) -> Result<Option<TopRow>, Fault> {
        self.prepare(now_ms)?;
        let told = match order.since {
            Some(_) => format!("CAST({} AS TEXT)", amount_sql(order)),
            None => "body".to_owned(),
        };
        let sql = format!("SELECT id, as_of, {told} FROM totals WHERE id = ?");
        let rows = self.store.run(&sql, vec![counter.as_str().into()])?;
        Ok(rows.first().and_then(|row| row_of(order, row)))
    }

    /// Makes the rows of the next counters, where the table is younger than they are. Whether it is whole then.
    pub(super) fn build(
        &self,
        roots: &RootStore,
        views: &Views,
        now_ms: i64,
    ) -> Result<bool, Fault> {
        let progress = self.prepare(now_ms)?;
        if progress.is_whole {
            return Ok(true);
        }
        let rows = self
            .store
            .run("SELECT after FROM totals_progress", vec![])?;
        let after = rows
            .first()
            .and_then(|row| text(row.first()?))
            .unwrap_or_default();
        let page = roots.list("", Some(after), BUILT_AT_ONCE)?;
        let last = page.last().map(|(counter, _)| counter.as_str());
        let is_last = page.len() < usize::try_from(BUILT_AT_ONCE).unwrap_or(usize::MAX);
        for (counter, entry) in &page {
            if let (Entry::Live(root), Some((view, _))) = (entry, views.stored(counter)?) {
                self.note(counter, root, &view, now_ms)?;
            }
        }
        let after: Option<&str> = last.filter(|_| !is_last);
        self.store
            .run("UPDATE totals_progress SET after = ?", vec![after.into()])?;
        self.progress.set(None);
        Ok(is_last)
    }
}

/// What a row is ordered by, as SQL.
fn amount_sql(order: &Order) -> String {
    let slot = |column: char, at: i64, kept: i64| {
        let hour = order.since.map_or(0, hour_of);
        let slot = at.rem_euclid(kept);
        format!("(CASE WHEN hour >= {hour} THEN counted - {column}{slot} ELSE 0 END)")
    };
    match (order.since, order.by) {
        (Some(Since::Hour(hour)), _) => slot('h', hour, HOURS_KEPT),
        (Some(Since::Day(day)), _) => slot('d', day, DAYS_KEPT),
        (None, By::Value) => "value".to_owned(),
        (None, By::Count) => "counted".to_owned(),
        (None, By::Uniques) => "uniques".to_owned(),
    }
}

/// The hour of unix time with which it begins.
fn hour_of(since: Since) -> i64 {
    match since {
        Since::Hour(hour) => hour,
        Since::Day(day) => day * DAY_HOURS,
    }
}

/// Which names are meant, as SQL and its values; with a plus before them they are not looked for by their order.
fn within_sql(order: &Order, plus: &str) -> (String, Vec<Value>) {
    let mut values: Vec<Value> = vec![order.prefix.as_str().into()];
    let mut sql = format!("{plus}id >= ?");
    if let Some(end) = prefix_end(&order.prefix) {
        sql.push_str(&format!(" AND {plus}id < ?"));
        values.push(end.into());
    }
    (sql, values)
}

fn row_of(order: &Order, row: &[Value]) -> Option<TopRow> {
    let [id, as_of, told] = row else {
        return None;
    };
    let counter = CounterId::parse(text(id)?).ok()?;
    let as_of_ms = integer(as_of)?;
    if order.since.is_some() {
        let count = u128::try_from(number(told)?).unwrap_or(0);
        return Some(TopRow {
            counter,
            amount: Number::new(count, 0),
            uniques: None,
            as_of_ms,
        });
    }
    Some(row_of_known(counter, order.by, decode(blob(told)?).ok()?))
}

/// What a counter has in an order of all time.
pub(super) fn row_of_known(counter: CounterId, by: By, known: KnownTotal) -> TopRow {
    let estimate = known.uniques.map_or(0, |uniques| uniques.estimate);
    TopRow {
        counter,
        amount: match by {
            By::Value => known.total.value,
            By::Count => Number::new(known.total.count, 0),
            By::Uniques => Number::new(u128::from(estimate), 0),
        },
        uniques: known.uniques.filter(|_| by == By::Uniques),
        as_of_ms: known.total.as_of_ms,
    }
}

/// A whole number that was read as a text.
fn number(value: &Value) -> Option<i64> {
    text(value)?.parse().ok()
}

/// What is noted of the hours and days that have begun from one hour to another: what had been counted by then.
fn begun_between(before: i64, hour: i64) -> String {
    let mut notes = String::new();
    let mut note = |column: char, before: i64, now: i64, kept: i64| {
        for start in (before + 1).max(now - kept + 1)..=now {
            notes.push_str(&format!(", {column}{} = counted", start.rem_euclid(kept)));
        }
    };
    note('h', before, hour, HOURS_KEPT);
    let day = |hour: i64| hour.div_euclid(DAY_HOURS);
    note('d', day(before), day(hour), DAYS_KEPT);
    notes
}
