//! SQL as the objects use it. Values that JavaScript numbers would not hold are blobs (postcard).

use worker::js_sys::{Function, Reflect};
use worker::wasm_bindgen::closure::ScopedClosure;
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::{SqlStorage, SqlStorageValue, Storage};

use crate::protocol::messages::Fault;

/// A failed statement, as a fault that says where.
pub fn broken(place: &str) -> impl Fn(worker::Error) -> Fault + '_ {
    move |error| Fault::Unavailable(format!("storage failed ({place}): {error}"))
}

/// The object's database.
#[derive(Clone)]
pub struct Store {
    storage: std::rc::Rc<Storage>,
    sql: SqlStorage,
}

impl Store {
    /// The database of an object.
    pub fn new(storage: Storage) -> Self {
        let sql = storage.sql();
        Self {
            storage: std::rc::Rc::new(storage),
            sql,
        }
    }

    /// Runs a statement and returns its rows. Those that give none are read to their end too: a
    /// cursor that is left open keeps its prepared statement from the next call, which cost a
    /// flush a fifth of its time.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn run(
        &self,
        statement: &str,
        values: Vec<SqlStorageValue>,
    ) -> Result<Vec<Vec<SqlStorageValue>>, Fault> {
        let cursor = self
            .sql
            .exec(statement, values)
            .map_err(broken(statement))?;
        cursor
            .raw()
            .collect::<worker::Result<Vec<_>>>()
            .map_err(broken(statement))
    }

    /// Whether the object has tables, and of which version: `None` for a fresh one.
    ///
    /// # Errors
    /// `Broken` for a schema from the future: an older build must not touch it.
    pub fn schema_version(&self, newest: i64) -> Result<Option<i64>, Fault> {
        let tables = self.run(
            "SELECT 1 FROM sqlite_master WHERE name = 'tally_schema'",
            vec![],
        )?;
        if tables.is_empty() {
            return Ok(None);
        }
        // Each schema that the object has had has a row.
        let rows = self.run("SELECT MAX(version) FROM tally_schema", vec![])?;
        let version = rows.first().and_then(|row| row.first()).and_then(integer);
        match version {
            Some(version) if version > newest => Err(Fault::Broken(format!(
                "the stored schema has version {version}, this build knows up to {newest}: deploy a newer build"
            ))),
            version => Ok(version),
        }
    }

    /// Writes the schema of a fresh object.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn create_schema(&self, version: i64, statements: &[&str]) -> Result<(), Fault> {
        for statement in statements {
            self.run(statement, vec![])?;
        }
        self.run(
            "CREATE TABLE IF NOT EXISTS tally_schema (version INTEGER PRIMARY KEY)",
            vec![],
        )?;
        self.run(
            "INSERT OR REPLACE INTO tally_schema VALUES (?)",
            vec![version.into()],
        )?;
        Ok(())
    }

    /// Runs several statements as one: all are kept or, if one fails, none. (Writes of one turn
    /// are committed together anyway, but an error would not undo those before it.)
    ///
    /// # Errors
    /// That of the statement that failed.
    pub fn atomically(&self, mut body: impl FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
        let raw: &JsValue = self.storage.as_raw().as_ref();
        let method = Reflect::get(raw, &JsValue::from_str("transactionSync"))
            .ok()
            .and_then(|method| method.dyn_into::<Function>().ok())
            .ok_or_else(|| Fault::Broken("this runtime has no transactionSync".to_owned()))?;
        let mut outcome = Ok(());
        let mut run = || -> Result<(), JsValue> {
            outcome = body();
            if outcome.is_ok() {
                Ok(())
            } else {
                Err(JsValue::from_str("undo"))
            }
        };
        let called = {
            let callback: ScopedClosure<'_, dyn FnMut() -> Result<(), JsValue>> =
                ScopedClosure::borrow_mut(&mut run);
            method.call1(raw, callback.as_js_value())
        };
        outcome?;
        match called {
            Ok(_) => Ok(()),
            Err(error) => Err(Fault::Unavailable(format!(
                "storage failed (commit): {error:?}"
            ))),
        }
    }

    /// Waits until all that was written so far is durable.
    ///
    /// # Errors
    /// `Unavailable` where it will not be.
    pub async fn sync(&self) -> Result<(), Fault> {
        self.storage.sync().await.map_err(broken("sync"))
    }

    /// Deletes everything, the schema too.
    ///
    /// # Errors
    /// `Unavailable` where the platform refuses.
    pub async fn delete_all(&self) -> Result<(), Fault> {
        self.storage
            .delete_all()
            .await
            .map_err(broken("delete all"))
    }

    /// Sets the object's alarm to a time, unix milliseconds, unless it rings before.
    ///
    /// # Errors
    /// As [`Store::set_alarm`].
    pub async fn set_alarm_by(&self, at_ms: i64) -> Result<(), Fault> {
        let set = self.storage.get_alarm().await.map_err(broken("alarm"))?;
        match set {
            Some(set_ms) if set_ms <= at_ms => Ok(()),
            _ => self.set_alarm(at_ms).await,
        }
    }

    /// Sets the object's alarm to a time, unix milliseconds.
    ///
    /// # Errors
    /// `Unavailable` where the platform refuses.
    pub async fn set_alarm(&self, at_ms: i64) -> Result<(), Fault> {
        let date = worker::js_sys::Date::new(&JsValue::from_f64(float(at_ms)));
        self.storage
            .set_alarm(worker::ScheduledTime::new(date))
            .await
            .map_err(broken("alarm"))
    }
}

/// A column as a whole number.
pub fn integer(value: &SqlStorageValue) -> Option<i64> {
    match value {
        SqlStorageValue::Integer(number) => Some(*number),
        _ => None,
    }
}

/// A column as bytes.
pub fn blob(value: &SqlStorageValue) -> Option<&[u8]> {
    match value {
        SqlStorageValue::Blob(bytes) => Some(bytes),
        _ => None,
    }
}

/// A column as text.
pub fn text(value: &SqlStorageValue) -> Option<&str> {
    match value {
        SqlStorageValue::String(text) => Some(text),
        _ => None,
    }
}

#[expect(
    clippy::as_conversions,
    reason = "times in milliseconds are far below 2^53"
)]
fn float(number: i64) -> f64 {
    number as f64
}
