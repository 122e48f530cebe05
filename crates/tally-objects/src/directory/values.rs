//! Values by name, few and small: what the deployment has created once for itself, at one partition of the directory;
//! and the numbers of a partition's claims.

use crate::kit::store::{Store, framed, integer, text};
use tally_host::object::SqlValue;
use tally_wire::messages::Fault;

pub(super) const DEPLOYMENT_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS deployment (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID";

/// The rows of such values.
pub(crate) struct DeploymentValues {
    store: Store,
}

impl DeploymentValues {
    /// The values in an object's database.
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
        }
    }

    /// A value, if there is one.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        let rows = self.store.run(
            "SELECT body FROM deployment WHERE name = ?",
            vec![name.into()],
        )?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.body(body)).transpose()
    }

    fn body(&self, body: &SqlValue) -> Result<Vec<u8>, Fault> {
        Ok(self.store.body(body)?.to_vec())
    }

    /// A value, created by `make` when it is first asked for.
    pub(crate) fn get_or_make(
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
    pub(crate) fn put(&self, name: &str, body: Vec<u8>) -> Result<(), Fault> {
        self.store.run(
            "INSERT INTO deployment VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body",
            vec![name.into(), framed(&body)],
        )?;
        Ok(())
    }

    /// The values with names in a range, in order.
    pub(crate) fn between(&self, from: &str, to: &str) -> Result<Vec<(String, Vec<u8>)>, Fault> {
        let rows = self.store.run(
            "SELECT name, body FROM deployment WHERE name >= ? AND name < ? ORDER BY name",
            vec![from.into(), to.into()],
        )?;
        let read = |row: &[_]| match row {
            [name, body] => {
                let name = text(name)?;
                Some(self.body(body).map(|body| (name.to_owned(), body)))
            }
            _ => None,
        };
        rows.iter().filter_map(|row| read(row)).collect()
    }

    /// How many values have names in a range.
    pub(crate) fn count_between(&self, from: &str, to: &str) -> Result<u64, Fault> {
        let rows = self.store.run(
            "SELECT count(*) FROM deployment WHERE name >= ? AND name < ?",
            vec![from.into(), to.into()],
        )?;
        let count = rows.first().and_then(|row| row.first()).and_then(integer);
        let count = count.and_then(|count| u64::try_from(count).ok());
        count.ok_or_else(|| Fault::Broken("values cannot be counted".to_owned()))
    }

    /// The first name in a range.
    pub(crate) fn first_between(&self, from: &str, to: &str) -> Result<Option<String>, Fault> {
        let rows = self.store.run(
            "SELECT MIN(name) FROM deployment WHERE name >= ? AND name < ?",
            vec![from.into(), to.into()],
        )?;
        let name = rows.first().and_then(|row| row.first()).and_then(text);
        Ok(name.map(str::to_owned))
    }

    /// Deletes a value.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Fault> {
        self.store
            .run("DELETE FROM deployment WHERE name = ?", vec![name.into()])?;
        Ok(())
    }
}
