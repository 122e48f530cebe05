//! The rows of a keyspace: values that are no counters, the ends of counters, and replies to tries that have a name.

use super::store::{Store, blob, integer, text};
use crate::core::counter::ledger::WriteKey;
use crate::host::object::Value as Column;
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

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Its value; `None` for a counter, which cells hold.
    pub(super) value: Option<Value>,
    /// When it ends, unix milliseconds.
    pub(super) expires_ms: Option<i64>,
}

/// The reply that a try was given.
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
}

impl KeyspaceStore {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Makes the tables where there are none.
    ///
    /// # Errors
    /// `Unreadable` for a schema from the future, `Unavailable` where SQLite refuses; so all below.
    pub(super) fn open(&self) -> Result<(), Fault> {
        match self.store.schema_version(1)? {
            Some(_) => Ok(()),
            None => self.store.create_schema(SCHEMA),
        }
    }

    /// What is kept of a key, its time over or not.
    pub(super) fn row(&self, key: &str) -> Result<Option<Row>, Fault> {
        let query = "SELECT body, expires_ms FROM keys WHERE key = ?";
        let rows = self.store.run(query, vec![key.into()])?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(Some(Row {
            value: self.store.get(row.first().unwrap_or(&Column::Null))?,
            expires_ms: row.get(1).and_then(integer),
        }))
    }

    /// Keeps these keys, or forgets those without a row, and the reply of a try: all or nothing.
    pub(super) fn write(
        &self,
        changes: &[(String, Option<Row>)],
        answered: Option<&Try>,
    ) -> Result<(), Fault> {
        if changes.is_empty() && answered.is_none() {
            return Ok(());
        }
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
            Column::from(row.expires_ms),
        ];
        self.store
            .run("INSERT OR REPLACE INTO keys VALUES (?, ?, ?)", values)?;
        Ok(())
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

    /// The reply that a try was given, and the hash of what it asked for.
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

    /// The names of the keys that have not ended, and whether each is a counter.
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

    /// Keys whose time is over, and whether each is a counter.
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

    /// Forgets tries that were kept long enough.
    pub(super) fn forget_tries(&self, now_ms: i64) -> Result<(), Fault> {
        let statement = "DELETE FROM tries WHERE until_ms <= ?";
        self.store.run(statement, vec![now_ms.into()]).map(|_| ())
    }

    /// Forgets all keys.
    pub(super) fn clear(&self) -> Result<(), Fault> {
        self.store.run("DELETE FROM keys", vec![]).map(|_| ())
    }

    /// When the next key ends or the next try may be forgotten, unix milliseconds.
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
