//! SQL as the objects use it. Values that JavaScript numbers would not hold are blobs (postcard).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::host::object::{Object, Rows, Value};
use crate::protocol::messages::Fault;

/// The largest whole number that a JavaScript number holds: 2^53 − 1. No moment and no number of a row is larger.
pub const WHOLE_MAX: i64 = 9_007_199_254_740_991;

/// A failed statement, as a fault that says where.
pub fn broken(place: &str) -> impl Fn(String) -> Fault + '_ {
    move |error| Fault::Unavailable(format!("storage failed ({place}): {error}"))
}

/// Those that set the alarm unless it rings before, and are under way: each reads it first, so one that reads before another sets it
/// would set it to a later time.
#[derive(Default)]
struct Setting {
    under_way: Cell<u32>,
    /// The earliest time that any of them sets it to, unix milliseconds.
    earliest_ms: Cell<i64>,
}

/// One of them, until it is dropped.
struct UnderWay<'a>(&'a Cell<u32>);

impl<'a> UnderWay<'a> {
    fn begin(count: &'a Cell<u32>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Values that one statement binds at most.
const VALUES_MAX: usize = 100;

/// How a row is inserted: what stands before the values of all rows, the places of one row, and what stands after them.
pub struct Insert<'a> {
    /// `INSERT INTO … VALUES`.
    pub into: &'static str,
    /// As many `?` as a row has values.
    pub places: &'static str,
    /// What is done where the row is there.
    pub conflict: &'a str,
}

/// Rows that wait to be inserted by one statement.
struct Waiting {
    into: &'static str,
    places: &'static str,
    conflict: String,
    /// How many values a row has, and those of all rows.
    width: usize,
    values: Vec<Value>,
}

/// What waits to be inserted until the turn ends, or something else is read or written.
#[derive(Default)]
struct Gathered {
    is_gathering: Cell<bool>,
    waiting: RefCell<Vec<Waiting>>,
    /// What of it could not be written.
    failed: RefCell<Option<Fault>>,
}

/// The object's database.
#[derive(Clone)]
pub struct Store {
    object: Object,
    setting: Rc<Setting>,
    gathered: Rc<Gathered>,
}

impl Store {
    /// The database of an object.
    pub fn new(object: Object) -> Self {
        Self {
            object,
            setting: Rc::default(),
            gathered: Rc::default(),
        }
    }

    /// Inserts a row: by itself, or, within a turn that gathers rows, with those that come before something else is read or written.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses it at once.
    pub fn insert(&self, insert: &Insert<'_>, values: Vec<Value>) -> Result<(), Fault> {
        let Insert {
            into,
            places,
            conflict,
        } = *insert;
        if !self.gathered.is_gathering.get() {
            let statement = [into, " ", places, " ", conflict].concat();
            return self.execute(&statement, values).map(|_| ());
        }
        let mut waiting = self.gathered.waiting.borrow_mut();
        let of_kind = waiting
            .iter_mut()
            .find(|one| one.into == into && one.conflict == conflict);
        match of_kind {
            Some(one) => one.values.extend(values),
            None => waiting.push(Waiting {
                into,
                places,
                conflict: conflict.to_owned(),
                width: values.len().max(1),
                values,
            }),
        }
        Ok(())
    }

    /// Whether what is inserted from now on waits for [`Store::write_gathered`], which must come in the same turn. What is sent in between
    /// may leave before it is durable.
    pub fn gather(&self, gathers: bool) {
        self.gathered.is_gathering.set(gathers);
    }

    /// Writes what was gathered.
    ///
    /// # Errors
    /// `Unavailable` where any of it could not be written: nothing that was answered meanwhile may be told.
    pub fn write_gathered(&self) -> Result<(), Fault> {
        self.gathered.is_gathering.set(false);
        let written = self.write_waiting();
        let failed = self.gathered.failed.take();
        failed.map_or(written, Err)
    }

    /// Writes what waits, all or nothing.
    fn write_waiting(&self) -> Result<(), Fault> {
        let mut waiting = self.gathered.waiting.take();
        if waiting.is_empty() {
            return Ok(());
        }
        let written = self.commit(|| {
            let mut waiting = waiting.drain(..);
            waiting.try_for_each(|one| self.insert_rows(one))
        });
        if let Err(fault) = &written {
            self.gathered.failed.replace(Some(fault.clone()));
        }
        written
    }

    /// Inserts rows, as many by a statement as it may bind; the rest by halves, so that few statements are prepared.
    fn insert_rows(&self, rows: Waiting) -> Result<(), Fault> {
        let mut at_once = (VALUES_MAX / rows.width).max(1);
        let mut values = rows.values.into_iter();
        while values.len() > 0 {
            while at_once > 1 && at_once * rows.width > values.len() {
                at_once /= 2;
            }
            let places = vec![rows.places; at_once].join(", ");
            let statement = [rows.into, " ", &places, " ", &rows.conflict].concat();
            let some = values.by_ref().take(at_once * rows.width).collect();
            self.execute(&statement, some)?;
        }
        Ok(())
    }

    /// Runs a statement and returns its rows.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn run(&self, statement: &str, values: Vec<Value>) -> Result<Rows, Fault> {
        self.write_waiting()?;
        self.execute(statement, values)
    }

    fn execute(&self, statement: &str, values: Vec<Value>) -> Result<Rows, Fault> {
        let ran = self.object.platform().run(statement, values);
        ran.map_err(broken(statement))
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
    pub fn atomically(&self, body: impl FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
        self.write_waiting()?;
        // What is one commit is not parted.
        let gathers = self.gathered.is_gathering.replace(false);
        let done = self.commit(body);
        self.gathered.is_gathering.set(gathers);
        done
    }

    fn commit(&self, mut body: impl FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
        let mut outcome = Ok(());
        let committed = self.object.platform().atomically(&mut || {
            outcome = body();
            outcome.is_ok()
        });
        outcome?;
        committed.map_err(broken("commit"))
    }

    /// Waits until all that was written so far is durable.
    ///
    /// # Errors
    /// `Unavailable` where it will not be.
    pub async fn sync(&self) -> Result<(), Fault> {
        self.write_waiting()?;
        self.object.platform().sync().await.map_err(broken("sync"))
    }

    /// Deletes everything, the schema too.
    ///
    /// # Errors
    /// `Unavailable` where the platform refuses.
    pub async fn delete_all(&self) -> Result<(), Fault> {
        let deleted = self.object.platform().delete_all().await;
        deleted.map_err(broken("delete all"))
    }

    /// Sets the object's alarm to a time, unix milliseconds, unless it rings before.
    ///
    /// # Errors
    /// As [`Store::set_alarm`].
    pub async fn set_alarm_by(&self, at_ms: i64) -> Result<(), Fault> {
        let Setting {
            under_way,
            earliest_ms,
        } = &*self.setting;
        let before_ms = match under_way.get() {
            0 => i64::MAX,
            _ => earliest_ms.get(),
        };
        earliest_ms.set(before_ms.min(at_ms));
        let _turn = UnderWay::begin(under_way);
        let set = self.object.platform().alarm().await;
        let at_ms = earliest_ms.get();
        match set.map_err(broken("alarm"))? {
            Some(set_ms) if set_ms <= at_ms => Ok(()),
            _ => self.set_alarm(at_ms).await,
        }
    }

    /// Sets the object's alarm to a time, unix milliseconds.
    ///
    /// # Errors
    /// `Unavailable` where the platform refuses.
    pub async fn set_alarm(&self, at_ms: i64) -> Result<(), Fault> {
        let set = self.object.platform().set_alarm(at_ms).await;
        set.map_err(broken("alarm"))
    }
}

/// A column as a whole number.
pub fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        _ => None,
    }
}

/// A column as bytes.
pub fn blob(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Blob(bytes) => Some(bytes),
        _ => None,
    }
}

/// A column as text.
pub fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}
