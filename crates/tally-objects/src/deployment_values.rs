//! Values by name, few and small: what the deployment has created once for itself, at one partition of the directory;
//! and the numbers of a partition's claims.

use super::store::{Store, blob, text};
use tally_host::object::SqlValue;
use tally_protocol::messages::Fault;
use tally_protocol::stored;

/// The prefixes of the names of secrets, and the length of secrets. Builds before 0.2 stored them without a frame:
/// random bytes, which may begin like a frame. With a frame they are longer.
const SECRETS: [&str; 3] = ["hash-key", "element-key", "salt/"];
const SECRET_BYTES: usize = 16;

pub(super) const DEPLOYMENT_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS deployment (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID";

/// The rows of such values.
pub(super) struct DeploymentValues {
    store: Store,
}

impl DeploymentValues {
    /// The values in an object's database.
    pub(super) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
        }
    }

    /// A value, if there is one.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        let rows = self.store.run(
            "SELECT body FROM deployment WHERE name = ?",
            vec![name.into()],
        )?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.body(name, body)).transpose()
    }

    fn body(&self, name: &str, body: &SqlValue) -> Result<Vec<u8>, Fault> {
        let is_secret = SECRETS.iter().any(|begin| name.starts_with(begin));
        if is_secret
            && self.store.may_be_bare()
            && let Some(bytes) = blob(body).filter(|bytes| bytes.len() == SECRET_BYTES)
        {
            return Ok(bytes.to_vec());
        }
        Ok(self.store.body(body)?.to_vec())
    }

    /// A value, created by `make` when it is first asked for.
    pub(super) fn get_or_make(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<Vec<u8>, Fault>,
    ) -> Result<Vec<u8>, Fault> {
        if let Some(body) = self.get(name)? {
            return Ok(body);
        }
        let made = make()?;
        self.put(name, made.clone())?;
        Ok(made)
    }

    /// Stores a value.
    pub(super) fn put(&self, name: &str, body: Vec<u8>) -> Result<(), Fault> {
        self.store.run(
            "INSERT INTO deployment VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body",
            vec![name.into(), self.store.framed(&body)?],
        )?;
        Ok(())
    }

    /// Stores a value that no build before 0.2 reads: the schema need not rise for it.
    pub(super) fn put_unread(&self, name: &str, body: &[u8]) -> Result<(), Fault> {
        let values = vec![name.into(), stored::framed(body, stored::FIRST).into()];
        self.store
            .run("INSERT OR IGNORE INTO deployment VALUES (?, ?)", values)?;
        Ok(())
    }

    /// The values with names in a range, in order.
    pub(super) fn between(&self, from: &str, to: &str) -> Result<Vec<(String, Vec<u8>)>, Fault> {
        let rows = self.store.run(
            "SELECT name, body FROM deployment WHERE name >= ? AND name < ? ORDER BY name",
            vec![from.into(), to.into()],
        )?;
        let read = |row: &[_]| match row {
            [name, body] => {
                let name = text(name)?;
                Some(self.body(name, body).map(|body| (name.to_owned(), body)))
            }
            _ => None,
        };
        rows.iter().filter_map(|row| read(row)).collect()
    }

    /// The first name in a range.
    pub(super) fn first_between(&self, from: &str, to: &str) -> Result<Option<String>, Fault> {
        let rows = self.store.run(
            "SELECT MIN(name) FROM deployment WHERE name >= ? AND name < ?",
            vec![from.into(), to.into()],
        )?;
        let name = rows.first().and_then(|row| row.first()).and_then(text);
        Ok(name.map(str::to_owned))
    }

    /// Deletes a value.
    pub(super) fn remove(&self, name: &str) -> Result<(), Fault> {
        self.store
            .run("DELETE FROM deployment WHERE name = ?", vec![name.into()])?;
        Ok(())
    }
}
