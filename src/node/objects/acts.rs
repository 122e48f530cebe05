//! What admins did, all at one partition of the directory.
//!
//! Invariant: at most [`AUDIT_ROWS_MAX`] entries, none older than [`AUDIT_MS`] at the next write, or alarm after one was asked for.

use std::cell::Cell;

use super::store::{Store, integer};
use crate::host::Host;
use crate::host::object::SqlValue;
use crate::protocol::audit::{AUDIT_MS, AUDIT_ROWS_MAX, Act, CallOutcome};
use crate::protocol::messages::{Fault, ListActs};

/// Made with the first of them: other partitions have none.
const ACTS_SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS acts (place TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID";

/// Entries that go at once where there are too many, so that not each write deletes one.
const TOO_MANY: i64 = 100;

/// What admins did.
pub(super) struct Acts {
    host: Host,
    store: Store,
    has_table: Cell<bool>,
    /// How many there are, once they were counted.
    count: Cell<Option<u64>>,
}

impl Acts {
    /// Those of an object.
    pub(super) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
            has_table: Cell::default(),
            count: Cell::default(),
        }
    }

    fn run(&self, sql: &str, values: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, Fault> {
        if !self.has_table.get() {
            self.store.run(ACTS_SCHEMA, vec![])?;
            self.has_table.set(true);
        }
        self.store.run(sql, values)
    }

    /// Notes an act, or how it ended.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Unreadable` where one cannot be read; so all below.
    pub(super) fn note(&self, act: &Act) -> Result<(), Fault> {
        let place = act.place();
        let known = "SELECT 1 FROM acts WHERE place = ?";
        let is_known = !self.run(known, vec![place.as_str().into()])?.is_empty();
        if is_known && act.outcome == CallOutcome::Unknown {
            return Ok(());
        }
        if !is_known {
            self.make_room()?;
        }
        let statement =
            "INSERT INTO acts VALUES (?, ?) ON CONFLICT (place) DO UPDATE SET body = excluded.body";
        let values = vec![place.into(), self.store.put(act)?];
        // What was counted may not be kept.
        let count = self.count.take();
        self.run(statement, values)?;
        self.count
            .set(count.map(|count| count + u64::from(!is_known)));
        Ok(())
    }

    /// Acts, newest first.
    pub(super) fn list(&self, list: &ListActs) -> Result<Vec<Act>, Fault> {
        let span = &list.span;
        let rows = self.run(
            "SELECT body FROM acts WHERE place >= ? AND place < ? ORDER BY place DESC LIMIT ?",
            vec![
                span.from.as_str().into(),
                span.before.as_str().into(),
                i64::from(span.limit).into(),
            ],
        )?;
        let bodies = rows.iter().filter_map(|row| row.first());
        bodies.map(|body| self.store.get(body)).collect()
    }

    /// Forgets those whose time is over.
    pub(super) fn delete_old(&self) -> Result<(), Fault> {
        if !self.has_table.get() {
            return Ok(());
        }
        let oldest_ms = self.host.now_ms().saturating_sub(AUDIT_MS).max(0);
        let oldest = format!("{oldest_ms:015}");
        let found = "SELECT 1 FROM acts WHERE place < ? LIMIT 1";
        if !self.run(found, vec![oldest.as_str().into()])?.is_empty() {
            self.count.set(None);
            let statement = "DELETE FROM acts WHERE place < ?";
            self.run(statement, vec![oldest.into()])?;
        }
        Ok(())
    }

    fn make_room(&self) -> Result<(), Fault> {
        self.delete_old()?;
        if self.count()? < AUDIT_ROWS_MAX {
            return Ok(());
        }
        self.count.set(None);
        let statement =
            "DELETE FROM acts WHERE place IN (SELECT place FROM acts ORDER BY place LIMIT ?)";
        self.run(statement, vec![TOO_MANY.into()])?;
        Ok(())
    }

    fn count(&self) -> Result<u64, Fault> {
        if let Some(count) = self.count.get() {
            return Ok(count);
        }
        let rows = self.run("SELECT count(*) FROM acts", vec![])?;
        let count = rows.first().and_then(|row| row.first()).and_then(integer);
        let count = count.and_then(|count| u64::try_from(count).ok());
        let count = count.unwrap_or(AUDIT_ROWS_MAX);
        self.count.set(Some(count));
        Ok(count)
    }
}
