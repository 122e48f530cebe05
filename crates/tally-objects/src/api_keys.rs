//! Keys made by calls, all at one partition of the directory: few, small, and read through a cache.

use std::cell::Cell;

use super::store::{Store, integer, text};
use tally_host::Host;
use tally_host::object::SqlValue;
use tally_protocol::api_key::{ApiKey, KEYS_MAX, KeyId};
use tally_protocol::messages::{
    Fault, FindApiKey, ListKeys, MakeKey, ReplaceKey, RevokeKey, UseKey,
};
use tally_protocol::stored::Damage;

/// Created with the first key: other partitions have no such table.
const KEYS_SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS api_keys (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID";

/// The keys of the deployment.
pub(super) struct KeyStore {
    host: Host,
    store: Store,
    has_table: Cell<bool>,
}

impl KeyStore {
    /// The keys in an object's database.
    pub(super) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
            has_table: Cell::default(),
        }
    }

    fn run(&self, sql: &str, values: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, Fault> {
        if !self.has_table.get() {
            self.store.run(KEYS_SCHEMA, vec![])?;
            self.has_table.set(true);
        }
        self.store.run(sql, values)
    }

    /// Stores a key. Returns whether there was room.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Unreadable` where a row cannot be read; as for all methods below.
    pub(super) fn make(&self, make: &MakeKey) -> Result<bool, Fault> {
        if self.get(make.id)?.is_some() {
            return Ok(true);
        }
        let rows = self.run("SELECT count(*) FROM api_keys", vec![])?;
        let count = rows.first().and_then(|row| row.first()).and_then(integer);
        if count.is_none_or(|count| usize::try_from(count).unwrap_or(KEYS_MAX) >= KEYS_MAX) {
            return Ok(false);
        }
        self.put(make.id, &make.key)?;
        Ok(true)
    }

    /// Reads a key, if it exists, and records its use.
    pub(super) fn used(&self, used: &UseKey) -> Result<Option<ApiKey>, Fault> {
        let Some(mut key) = self.get(used.id)? else {
            return Ok(None);
        };
        let now_ms = self.host.now_ms();
        let is_good = !key.has_expired(now_ms) && key.knows(&used.secret, now_ms);
        if is_good && key.record_use(now_ms) {
            self.put(used.id, &key)?;
        }
        Ok(Some(key))
    }

    /// Reads a key, if it exists.
    pub(super) fn find(&self, find: &FindApiKey) -> Result<Option<ApiKey>, Fault> {
        self.get(find.id)
    }

    /// Replaces a key, unless it has changed since it was read. Returns whether it was replaced.
    pub(super) fn replace(&self, replace: &ReplaceKey) -> Result<bool, Fault> {
        let known = self.get(replace.id)?;
        let Some(known) = known.filter(|known| known.revision == replace.key.revision) else {
            return Ok(false);
        };
        let key = ApiKey {
            revision: known.revision.wrapping_add(1),
            used_ms: known.used_ms,
            ..replace.key.clone()
        };
        self.put(replace.id, &key)?;
        Ok(true)
    }

    /// Deletes a key. Returns whether it existed.
    pub(super) fn revoke(&self, revoke: &RevokeKey) -> Result<bool, Fault> {
        let is_there = self.get(revoke.id)?.is_some();
        if is_there {
            let id = vec![revoke.id.to_string().into()];
            self.run("DELETE FROM api_keys WHERE id = ?", id)?;
        }
        Ok(is_there)
    }

    /// Keys in the order of their ids.
    pub(super) fn list(&self, list: &ListKeys) -> Result<Vec<(KeyId, ApiKey)>, Fault> {
        let after = list.after.map(|id| id.to_string()).unwrap_or_default();
        let rows = self.run(
            "SELECT id, body FROM api_keys WHERE id > ? ORDER BY id LIMIT ?",
            vec![after.into(), i64::from(list.limit).into()],
        )?;
        let damaged = || self.store.damaged(Damage::Changed);
        let read = |row: &Vec<SqlValue>| {
            let id = row.first().and_then(text).and_then(KeyId::parse);
            let body = row.get(1).ok_or_else(damaged)?;
            Ok((id.ok_or_else(damaged)?, self.store.get(body)?))
        };
        rows.iter().map(read).collect()
    }

    fn get(&self, id: KeyId) -> Result<Option<ApiKey>, Fault> {
        let id = vec![id.to_string().into()];
        let rows = self.run("SELECT body FROM api_keys WHERE id = ?", id)?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.store.get(body)).transpose()
    }

    fn put(&self, id: KeyId, key: &ApiKey) -> Result<(), Fault> {
        self.run(
            "INSERT INTO api_keys VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
            vec![id.to_string().into(), self.store.put(key)?],
        )?;
        Ok(())
    }
}
