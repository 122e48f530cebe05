//! The rows of a limiter: as its table hands them out.

use crate::kit::store::{Store, framed, integer};
use tally_core::callers::owner;
use tally_core::cluster::spread::LimiterCounts;
use tally_core::counter::memory::MemoryShare;
use tally_core::limit::table::{Commit, Table};
use tally_host::object::SqlValue;
use tally_wire::messages::Fault;
use tally_wire::stored::Damage;

const SCHEMA: &[&str] = &["CREATE TABLE IF NOT EXISTS limits \
    (place INTEGER PRIMARY KEY, number INTEGER NOT NULL, body BLOB NOT NULL)"];

/// The counts of limiters that another limiter has sent: one row. Created at the first change of the number.
const RECEIVED_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS heard \
    (id INTEGER PRIMARY KEY, now INTEGER NOT NULL, before INTEGER NOT NULL, at_ms INTEGER NOT NULL)";

/// A table that is stored, without a key.
pub(super) fn empty_table() -> Table {
    Table::stored().grouped_by(owner::groups)
}

/// The rows of a limiter.
pub(super) struct LimiterStore {
    store: Store,
}

impl LimiterStore {
    /// The rows in this database.
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// The table as last written; an empty one where there is none.
    ///
    /// # Errors
    /// `Unreadable` for a schema from the future and for rows that cannot be read, `Unavailable` where SQLite refuses.
    pub(super) fn load(&self, memory: MemoryShare, now_ms: i64) -> Result<Table, Fault> {
        let mut table = empty_table().sharing(memory);
        if !self.store.has_schema()? {
            self.store.create_schema(SCHEMA)?;
            return Ok(table);
        }
        let query = "SELECT number, place, body FROM limits";
        let mut rows = self.store.run(query, vec![])?;
        let damaged = || self.store.damaged(Damage::Changed);
        let column = |row: &[SqlValue], index: usize| u64::try_from(integer(row.get(index)?)?).ok();
        // There is no index by number, which each commit would have to write.
        rows.sort_by_key(|row| column(row, 0));
        for row in &rows {
            let (number, place) = (column(row, 0), column(row, 1));
            let (Some(number), Some(place), Some(body)) = (number, place, row.get(2)) else {
                return Err(damaged());
            };
            let body = self.store.body(body)?;
            let loaded = table.load((place, number), body, now_ms);
            loaded.map_err(|_| damaged())?;
        }
        Ok(table)
    }

    /// The counts that another limiter has sent, and when they were received; `None` where there are none.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn received_counts(&self) -> Result<Option<(LimiterCounts, i64)>, Fault> {
        let query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'heard'";
        if self.store.run(query, vec![])?.is_empty() {
            return Ok(None);
        }
        let query = "SELECT now, before, at_ms FROM heard WHERE id = 0";
        let rows = self.store.run(query, vec![])?;
        let column = |index: usize| integer(rows.first()?.get(index)?);
        let count = |index| u32::try_from(column(index)?).ok();
        let (Some(now), Some(before), Some(received_ms)) = (count(0), count(1), column(2)) else {
            return Ok(None);
        };
        let before = Some(before);
        Ok(Some((LimiterCounts { now, before }, received_ms)))
    }

    /// Writes the counts that another limiter has sent.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn write_received_counts(
        &self,
        counts: LimiterCounts,
        now_ms: i64,
    ) -> Result<(), Fault> {
        self.store.run(RECEIVED_SCHEMA, vec![])?;
        let before = counts.before.unwrap_or(0);
        self.store.run(
            "INSERT OR REPLACE INTO heard VALUES (0, ?, ?, ?)",
            vec![
                i64::from(counts.now).into(),
                i64::from(before).into(),
                now_ms.into(),
            ],
        )?;
        Ok(())
    }

    /// Writes the rows that a table hands out, all or nothing.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn write(&self, commit: &Commit) -> Result<(), Fault> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.store.atomically(|| {
            self.store.run(
                "INSERT OR REPLACE INTO limits VALUES (?, ?, ?)",
                vec![
                    number(commit.place).into(),
                    number(commit.row).into(),
                    framed(&commit.body),
                ],
            )?;
            for place in &commit.deleted {
                let delete = "DELETE FROM limits WHERE place = ?";
                self.store.run(delete, vec![number(*place).into()])?;
            }
            Ok(())
        })
    }
}
