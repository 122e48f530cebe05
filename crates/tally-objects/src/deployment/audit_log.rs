//! The audit log: all entries are at one partition of the directory.
//!
//! Invariant: at most [`AUDIT_ROWS_MAX`] entries. Entries older than [`AUDIT_MS`] are deleted by the next write, or by
//! the alarm. Where there are too many, entries of the account with the most go, those of its refused calls first. So
//! no caller pushes out the acts of others: an account with at most its share, the log divided by the number of
//! accounts, loses none.

use std::cell::Cell;

use crate::kit::store::{Store, integer, text};
use tally_host::Host;
use tally_host::object::SqlValue;
use tally_wire::audit::{AUDIT_MS, AUDIT_ROWS_MAX, AuditEntry, CallOutcome};
use tally_wire::messages::{Fault, ListAuditEntries};

/// Created with the first entry: other partitions have no such table.
const ACTS_SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS acts (place TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID";

/// The keys of entries of refused calls.
const REFUSED_SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS acts_refused (place TEXT PRIMARY KEY) WITHOUT ROWID";

/// The account of each entry. An entry without a row is of the account without a name.
const ACCOUNTS_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS acts_by (place TEXT PRIMARY KEY, account TEXT NOT NULL) WITHOUT ROWID";

/// How many of the oldest entries are deleted at once when there are too many, so that not every write deletes one.
const TOO_MANY: i64 = 100;

/// The audit log of a partition.
pub(crate) struct AuditLog {
    host: Host,
    store: Store,
    has_table: Cell<bool>,
    /// The number of entries, once counted.
    count: Cell<Option<u64>>,
}

impl AuditLog {
    /// The log in an object's database.
    pub(crate) fn new(host: &Host, store: &Store) -> Self {
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
            self.store.run(REFUSED_SCHEMA, vec![])?;
            self.store.run(ACCOUNTS_SCHEMA, vec![])?;
            self.has_table.set(true);
        }
        self.store.run(sql, values)
    }

    /// Stores an entry, or the outcome of a stored one. It fills the part of that account.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Unreadable` where a row cannot be read; as for all methods below.
    pub(crate) fn record(&self, entry: &AuditEntry, account: &str) -> Result<(), Fault> {
        let row_key = entry.log_key();
        let known = "SELECT 1 FROM acts WHERE place = ?";
        let is_known = !self.run(known, vec![row_key.as_str().into()])?.is_empty();
        if is_known && entry.outcome == CallOutcome::Unknown {
            return Ok(());
        }
        if !is_known {
            self.make_room()?;
        }
        let statement =
            "INSERT INTO acts VALUES (?, ?) ON CONFLICT (place) DO UPDATE SET body = excluded.body";
        if matches!(entry.outcome, CallOutcome::Refused(_)) {
            let refused = "INSERT OR IGNORE INTO acts_refused VALUES (?)";
            self.run(refused, vec![row_key.as_str().into()])?;
        }
        if !is_known && !account.is_empty() {
            let of = "INSERT OR IGNORE INTO acts_by VALUES (?, ?)";
            self.run(of, vec![row_key.as_str().into(), account.into()])?;
        }
        let values = vec![row_key.into(), self.store.put(entry)?];
        // If the write fails, the count must be read again.
        let count = self.count.take();
        self.run(statement, values)?;
        self.count
            .set(count.map(|count| count + u64::from(!is_known)));
        Ok(())
    }

    /// Entries, newest first.
    pub(crate) fn list(&self, list: &ListAuditEntries) -> Result<Vec<AuditEntry>, Fault> {
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

    /// Deletes entries that are too old.
    pub(crate) fn delete_old(&self) -> Result<(), Fault> {
        if !self.has_table.get() {
            return Ok(());
        }
        let oldest_ms = self.host.now_ms().saturating_sub(AUDIT_MS).max(0);
        let oldest = format!("{oldest_ms:015}");
        let found = "SELECT 1 FROM acts WHERE place < ? LIMIT 1";
        if !self.run(found, vec![oldest.as_str().into()])?.is_empty() {
            self.count.set(None);
            for statement in [
                "DELETE FROM acts WHERE place < ?",
                "DELETE FROM acts_refused WHERE place < ?",
                "DELETE FROM acts_by WHERE place < ?",
            ] {
                self.run(statement, vec![oldest.as_str().into()])?;
            }
        }
        Ok(())
    }

    fn make_room(&self) -> Result<(), Fault> {
        self.delete_old()?;
        if self.count()? < AUDIT_ROWS_MAX {
            return Ok(());
        }
        self.count.set(None);
        let largest = "SELECT coalesce(account, '') FROM acts LEFT JOIN acts_by USING (place) GROUP BY 1 \
            ORDER BY count(*) DESC, 1 LIMIT 1";
        let rows = self.run(largest, vec![])?;
        let account = rows.first().and_then(|row| row.first()).and_then(text);
        let victims = "SELECT place FROM acts LEFT JOIN acts_by USING (place) WHERE coalesce(account, '') = ? \
            ORDER BY place IN (SELECT place FROM acts_refused) DESC, place LIMIT ?";
        let victims = self.run(
            victims,
            vec![account.unwrap_or_default().into(), TOO_MANY.into()],
        )?;
        for place in victims.iter().filter_map(|row| row.first()) {
            for table in ["acts", "acts_refused", "acts_by"] {
                let statement = format!("DELETE FROM {table} WHERE place = ?");
                self.run(&statement, vec![place.clone()])?;
            }
        }
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
