//! The rows of the roots of one partition of the directory.

use std::collections::BTreeSet;

use crate::kit::row_prefetch::RowPrefetch;
use crate::kit::store::{Insert, Store, integer, text};
use tally_core::cluster::root::{RootEntry, prefix_end};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::object::SqlValue;
use tally_wire::messages::{Fault, ListNames};

pub(super) const ROOTS_SCHEMA: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS roots (id TEXT PRIMARY KEY, live INTEGER NOT NULL, due_at INTEGER, \
        body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS roots_due ON roots (due_at) WHERE due_at IS NOT NULL",
];

/// The number of roots of each partition whose datacenters are taken as those that may count another counter.
const NEIGHBOURS: i32 = 256;

/// The rows of living roots, and the remains of ended ones.
pub(super) struct RootStore {
    store: Store,
    ahead: RowPrefetch,
}

impl RootStore {
    /// The roots in an object's database.
    pub(super) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            ahead: RowPrefetch::new(store, "roots", "body"),
        }
    }

    /// Whether no counter has ever had its root here.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn is_empty(&self) -> Result<bool, Fault> {
        let rows = self.store.run("SELECT 1 FROM roots LIMIT 1", vec![])?;
        Ok(rows.is_empty())
    }

    /// The rows that were read ahead, shared by all clones of this.
    pub(super) fn ahead(&self) -> &RowPrefetch {
        &self.ahead
    }

    /// The row of a counter.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(crate) fn entry(&self, counter: &CounterId) -> Result<Option<RootEntry>, Fault> {
        if let Some(row) = self.ahead.get(counter) {
            return row.map(|row| self.store.get(&row)).transpose();
        }
        let rows = self.store.run(
            "SELECT body FROM roots WHERE id = ?",
            vec![counter.as_str().into()],
        )?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.store.get(body)).transpose()
    }

    /// Whether a row of a counter is damaged, in one of the tables with a row for each.
    pub(super) fn is_damaged(
        &self,
        table: &'static str,
        counter: &CounterId,
    ) -> Result<bool, Fault> {
        let there = "SELECT 1 FROM sqlite_master WHERE name = ?";
        if self.store.run(there, vec![table.into()])?.is_empty() {
            return Ok(false);
        }
        let sql = format!("SELECT body FROM {table} WHERE id = ?");
        let rows = self.store.run(&sql, vec![counter.as_str().into()])?;
        let body = rows.first().and_then(|row| row.first());
        Ok(body.is_some_and(|body| self.store.is_damaged(body)))
    }

    /// Whether a counter lives, by the column beside its row.
    pub(super) fn is_live(&self, counter: &CounterId) -> Result<bool, Fault> {
        let sql = "SELECT 1 FROM roots WHERE id = ? AND live = 1";
        let rows = self.store.run(sql, vec![counter.as_str().into()])?;
        Ok(!rows.is_empty())
    }

    /// Datacenters that count any of the first [`NEIGHBOURS`] counters that can be read.
    pub(super) fn datacenters(&self) -> Result<BTreeSet<Datacenter>, Fault> {
        let sql = "SELECT body FROM roots WHERE live = 1 LIMIT ?";
        let rows = self.store.run(sql, vec![NEIGHBOURS.into()])?;
        let mut datacenters = BTreeSet::new();
        for body in rows.iter().flatten() {
            if let Ok(RootEntry::Live(root)) = self.store.get(body) {
                datacenters.extend(root.datacenters);
            }
        }
        Ok(datacenters)
    }

    /// Names of living counters after one, in order, with those whose rows cannot be read.
    pub(super) fn names(&self, request: &ListNames) -> Result<Vec<String>, Fault> {
        let end = prefix_end(&request.prefix);
        let bound = if end.is_some() { "AND id < ?" } else { "" };
        let sql = format!(
            "SELECT id FROM roots WHERE live = 1 AND id >= ? AND id > ? {bound} ORDER BY id LIMIT ?"
        );
        let after = request.after.as_deref().unwrap_or_default();
        let mut values: Vec<SqlValue> = vec![request.prefix.as_str().into(), after.into()];
        values.extend(end.map(SqlValue::from));
        values.push(i64::from(request.limit).into());
        let rows = self.store.run(&sql, values)?;
        let name = |row: &Vec<SqlValue>| text(row.first()?).map(str::to_owned);
        Ok(rows.iter().filter_map(name).collect())
    }

    /// Writes the row of a counter, in one commit with what `extra` writes: all or nothing.
    pub(super) fn put_with(
        &self,
        counter: &CounterId,
        entry: &RootEntry,
        extra: impl Fn() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.store.atomically(|| {
            extra()?;
            self.put(counter, entry)
        })
    }

    /// Writes the row of a counter.
    pub(crate) fn put(&self, counter: &CounterId, entry: &RootEntry) -> Result<(), Fault> {
        self.ahead.forget(counter);
        self.store.insert(
            &Insert {
                into: "INSERT INTO roots VALUES",
                places: "(?, ?, ?, ?)",
                conflict: "ON CONFLICT (id) DO UPDATE SET live = excluded.live, due_at = excluded.due_at, body = excluded.body",
            },
            vec![
                counter.as_str().into(),
                i32::from(matches!(entry, RootEntry::Live(_))).into(),
                entry.due_at_ms().into(),
                self.store.put(entry)?,
            ],
        )
    }

    /// Counters that are due: expired ones and old tombstones, at most `limit`.
    pub(super) fn due(&self, now_ms: i64, limit: i32) -> Result<Vec<CounterId>, Fault> {
        let rows = self.store.run(
            "SELECT id FROM roots WHERE due_at <= ? ORDER BY due_at LIMIT ?",
            vec![now_ms.into(), limit.into()],
        )?;
        Ok(rows
            .iter()
            .filter_map(|row| CounterId::stored(text(row.first()?)?).ok())
            .collect())
    }

    /// When the next counter is due, unix milliseconds.
    pub(super) fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        let sql = "SELECT MIN(due_at) FROM roots WHERE due_at IS NOT NULL";
        let rows = self.store.run(sql, vec![])?;
        Ok(rows.first().and_then(|row| row.first()).and_then(integer))
    }

    /// Makes a counter due again at a time, unix milliseconds.
    pub(super) fn postpone(&self, counter: &CounterId, due_at_ms: i64) -> Result<(), Fault> {
        let sql = "UPDATE roots SET due_at = ? WHERE id = ?";
        let values = vec![due_at_ms.into(), counter.as_str().into()];
        self.store.run(sql, values).map(drop)
    }

    /// Deletes the last row of a counter.
    pub(crate) fn forget(&self, counter: &CounterId) -> Result<(), Fault> {
        self.ahead.forget(counter);
        self.store.run(
            "DELETE FROM roots WHERE id = ?",
            vec![counter.as_str().into()],
        )?;
        Ok(())
    }

    /// How many counters live whose names come after one. Cost: O(roots).
    pub(super) fn count_after(&self, after: &str) -> Result<u64, Fault> {
        let sql = "SELECT COUNT(*) FROM roots WHERE live = 1 AND id > ?";
        let rows = self.store.run(sql, vec![after.into()])?;
        let count = rows.first().and_then(|row| row.first()).and_then(integer);
        Ok(count
            .and_then(|count| u64::try_from(count).ok())
            .unwrap_or(0))
    }

    /// Living counters whose names begin with `prefix` and come after `after`, in order.
    pub(super) fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(CounterId, RootEntry)>, Fault> {
        let (bound, end) = match prefix_end(prefix) {
            Some(end) => ("AND id < ?", Some(end)),
            None => ("", None),
        };
        let sql = format!(
            "SELECT id, body FROM roots WHERE live = 1 AND id >= ? AND id > ? {bound} ORDER BY id LIMIT ?"
        );
        let mut values: Vec<SqlValue> = vec![prefix.into(), after.unwrap_or_default().into()];
        values.extend(end.map(SqlValue::from));
        values.push(i64::from(limit).into());
        let rows = self.store.run(&sql, values)?;
        let read = |row: &Vec<SqlValue>| match row.as_slice() {
            [id, body] => {
                let counter = CounterId::stored(text(id)?).ok()?;
                Some(self.store.get(body).map(|entry| (counter, entry)))
            }
            _ => None,
        };
        rows.iter().filter_map(read).collect()
    }
}
