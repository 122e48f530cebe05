//! The rows of a keyspace: values that are no counters, expiry times of counters, and replies to named attempts.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::store::{Insert, Store, blob, integer, text};
use crate::core::counter::bounded_map::BoundedMap;
use crate::core::counter::ledger::WriteKey;
use crate::host::object::SqlValue;
use crate::protocol::messages::Fault;
use crate::protocol::redis::reply::Reply;
use crate::protocol::redis::space::Value;

const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, body BLOB NOT NULL, expires_ms INTEGER) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS keys_by_end ON keys (expires_ms) WHERE expires_ms IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS tries (name BLOB PRIMARY KEY, fingerprint BLOB NOT NULL, reply BLOB NOT NULL, \
        until_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS tries_by_time ON tries (until_ms)",
];

/// Rows that are remembered, those that are not there too: of others each reading costs a statement.
const ROWS_KNOWN_MAX: usize = 10_000;

/// The most bytes of a key and its value that are remembered, so 10 MB in all: a window of a limit has some 200.
const ROW_KNOWN_BYTES_MAX: usize = 1_024;

const PUT_KEY: Insert<'_> = Insert {
    into: "INSERT OR REPLACE INTO keys VALUES",
    places: "(?, ?, ?)",
    conflict: "",
};

/// Where the key has a row that ends then too: the index of ends is left as it is.
const PUT_VALUE: Insert<'_> = Insert {
    into: "INSERT INTO keys VALUES",
    places: "(?, ?, ?)",
    conflict: "ON CONFLICT (key) DO UPDATE SET body = excluded.body",
};

/// The row of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Its value; `None` for a counter, whose value is in cells.
    pub(super) value: Option<Value>,
    /// Its expiry, unix milliseconds.
    pub(super) expires_ms: Option<i64>,
}

/// The reply to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Try {
    pub(super) name: WriteKey,
    pub(super) fingerprint: u64,
    pub(super) reply: Reply,
    pub(super) until_ms: i64,
}

/// The rows.
pub(super) struct KeyspaceStore {
    store: Store,
    /// Rows as they are. Nobody else writes them.
    known: RefCell<BoundedMap<String, Option<Row>, ROWS_KNOWN_MAX>>,
    /// The keys whose rows wait to be written in this turn, and whether with their ends.
    whole: RefCell<BTreeMap<String, bool>>,
}

impl KeyspaceStore {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            known: RefCell::default(),
            whole: RefCell::default(),
        }
    }

    /// Creates the tables where there are none.
    ///
    /// # Errors
    /// `Unreadable` for a schema from the future, `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) fn open(&self) -> Result<(), Fault> {
        match self.store.schema_version(1)? {
            Some(_) => Ok(()),
            None => self.store.create_schema(SCHEMA),
        }
    }

    /// The row of a key, also if it has expired.
    pub(super) fn row(&self, key: &str) -> Result<Option<Row>, Fault> {
        if let Some(known) = self.known.borrow().get(key) {
            return Ok(known.clone());
        }
        let query = "SELECT body, expires_ms FROM keys WHERE key = ?";
        let rows = self.store.run(query, vec![key.into()])?;
        let row = match rows.first() {
            None => None,
            Some(row) => Some(Row {
                value: self.store.get(row.first().unwrap_or(&SqlValue::Null))?,
                expires_ms: row.get(1).and_then(integer),
            }),
        };
        self.remember(key, &row);
        Ok(row)
    }

    fn remember(&self, key: &str, row: &Option<Row>) {
        let value = row.as_ref().and_then(|row| row.value.as_ref());
        let bytes = key.len() + value.map_or(0, Value::bytes);
        let mut known = self.known.borrow_mut();
        if bytes <= ROW_KNOWN_BYTES_MAX {
            known.insert(key.to_owned(), row.clone());
        } else {
            known.remove(key);
        }
    }

    /// Does what reads and writes rows in one turn. A row that is written alone is written with the others, at the end.
    ///
    /// # Errors
    /// `Unavailable` where any of it could not be written: nothing that was read meanwhile may be told.
    pub(super) fn together<T>(&self, work: impl FnOnce() -> T) -> Result<T, Fault> {
        self.store.gather(true);
        self.whole.borrow_mut().clear();
        let done = work();
        let written = self.store.write_gathered();
        self.whole.borrow_mut().clear();
        if written.is_err() {
            self.known.borrow_mut().clear();
        }
        written.map(|()| done)
    }

    /// Writes these keys, or deletes those without a row, and the reply to an attempt: all or nothing.
    pub(super) fn write(
        &self,
        changes: &[(String, Option<Row>)],
        answered: Option<&Try>,
    ) -> Result<(), Fault> {
        if changes.is_empty() && answered.is_none() {
            return Ok(());
        }
        let written = match (changes, answered) {
            ([(key, Some(row))], None) => self.put(key, row),
            _ => self.write_several(changes, answered),
        };
        if written.is_err() {
            self.known.borrow_mut().clear();
        } else {
            for (key, row) in changes {
                self.remember(key, row);
            }
        }
        written
    }

    fn write_several(
        &self,
        changes: &[(String, Option<Row>)],
        answered: Option<&Try>,
    ) -> Result<(), Fault> {
        self.store.atomically(|| {
            for (key, row) in changes {
                match row {
                    Some(row) => self.put(key, row)?,
                    None => {
                        self.store
                            .run("DELETE FROM keys WHERE key = ?", vec![key.as_str().into()])?;
                    }
                }
            }
            answered.map_or(Ok(()), |answered| self.put_try(answered))
        })
    }

    fn put(&self, key: &str, row: &Row) -> Result<(), Fault> {
        let values = vec![
            key.into(),
            self.store.put(&row.value)?,
            SqlValue::from(row.expires_ms),
        ];
        let ends_as_before = {
            let known = self.known.borrow();
            let before = known.get(key).and_then(Option::as_ref);
            before.is_some_and(|before| before.expires_ms == row.expires_ms)
        };
        // Rows of one kind are written before those of the other: a key has one kind.
        let mut whole = self.whole.borrow_mut();
        let is_whole = match whole.get(key) {
            Some(false) if !ends_as_before => {
                self.store.write_waiting()?;
                whole.clear();
                true
            }
            Some(is_whole) => *is_whole,
            None => !ends_as_before,
        };
        if self.store.gathers() {
            whole.insert(key.to_owned(), is_whole);
        }
        let insert = if is_whole { &PUT_KEY } else { &PUT_VALUE };
        self.store.insert(insert, values)
    }

    fn put_try(&self, answered: &Try) -> Result<(), Fault> {
        let values = vec![
            answered.name.0.to_vec().into(),
            answered.fingerprint.to_le_bytes().to_vec().into(),
            self.store.put(&answered.reply)?,
            answered.until_ms.into(),
        ];
        self.store
            .run("INSERT OR REPLACE INTO tries VALUES (?, ?, ?, ?)", values)?;
        Ok(())
    }

    /// The reply to an attempt, and the hash of its content.
    pub(super) fn answered(&self, name: WriteKey) -> Result<Option<(u64, Reply)>, Fault> {
        let query = "SELECT fingerprint, reply FROM tries WHERE name = ?";
        let rows = self.store.run(query, vec![name.0.to_vec().into()])?;
        let Some([fingerprint, reply]) = rows.first().map(Vec::as_slice) else {
            return Ok(None);
        };
        let fingerprint = blob(fingerprint).and_then(|bytes| bytes.try_into().ok());
        let fingerprint = fingerprint.map_or(0, u64::from_le_bytes);
        Ok(Some((fingerprint, self.store.get(reply)?)))
    }

    /// The names of the keys that have not expired, and whether each is a counter.
    pub(super) fn names(
        &self,
        now_ms: i64,
        most: i64,
    ) -> Result<Vec<(String, Option<Value>)>, Fault> {
        let query = "SELECT key, body FROM keys WHERE expires_ms IS NULL OR expires_ms > ? LIMIT ?";
        let rows = self.store.run(query, vec![now_ms.into(), most.into()])?;
        let mut names = Vec::with_capacity(rows.len());
        for row in &rows {
            if let [key, body] = row.as_slice()
                && let Some(key) = text(key)
            {
                names.push((key.to_owned(), self.store.get(body)?));
            }
        }
        Ok(names)
    }

    /// Expired keys, and whether each is a counter.
    pub(super) fn lapsed(&self, now_ms: i64, most: i64) -> Result<Vec<(String, bool)>, Fault> {
        let query = "SELECT key, body FROM keys WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?";
        let rows = self.store.run(query, vec![now_ms.into(), most.into()])?;
        let mut lapsed = Vec::with_capacity(rows.len());
        for row in &rows {
            if let [key, body] = row.as_slice()
                && let Some(key) = text(key)
            {
                let value: Option<Value> = self.store.get(body)?;
                lapsed.push((key.to_owned(), value.is_none()));
            }
        }
        Ok(lapsed)
    }

    /// Deletes old attempts.
    pub(super) fn forget_tries(&self, now_ms: i64) -> Result<(), Fault> {
        let statement = "DELETE FROM tries WHERE until_ms <= ?";
        self.store.run(statement, vec![now_ms.into()]).map(|_| ())
    }

    /// Deletes all keys.
    pub(super) fn clear(&self) -> Result<(), Fault> {
        self.known.borrow_mut().clear();
        self.store.run("DELETE FROM keys", vec![]).map(|_| ())
    }

    /// When the next key expires or the next attempt may be deleted, unix milliseconds.
    pub(super) fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        let query = "SELECT MIN(due) FROM (SELECT MIN(expires_ms) AS due FROM keys WHERE expires_ms IS NOT NULL \
            UNION ALL SELECT MIN(until_ms) FROM tries)";
        let rows = self.store.run(query, vec![])?;
        Ok(rows.first().and_then(|row| row.first()).and_then(integer))
    }

    /// Sets the object's alarm, unless it rings before.
    pub(super) async fn arm_by(&self, at_ms: i64) -> Result<(), Fault> {
        self.store.set_alarm_by(at_ms).await
    }

    /// Sets the object's alarm.
    pub(super) async fn arm(&self, at_ms: i64) -> Result<(), Fault> {
        self.store.set_alarm(at_ms).await
    }
}
