//! SQL for the objects, and stored values. Values that JavaScript numbers cannot hold exactly are bodies, in postcard
//! or in a special form, each in a frame ([`stored`]).
//!
//! Invariant: an object with a schema that this build does not know is neither read nor written.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use tally_host::object::{Object, Rows, SqlValue};
use tally_wire::messages::Fault;
use tally_wire::stored::{Damage, SCHEMA_VERSION, StoredBody};
use tally_wire::{encoding, stored};

/// The largest whole number that a JavaScript number holds exactly: 2^53 − 1. No time and no number of a row is larger.
pub const WHOLE_MAX: i64 = 9_007_199_254_740_991;

/// SQLite's messages about a damaged file.
const CORRUPT: [&str; 4] = [
    "malformed",
    "not a database",
    "SQLITE_CORRUPT",
    "SQLITE_NOTADB",
];

/// The fault of a failed statement; `context` names what failed.
pub fn broken(context: &str) -> impl Fn(String) -> Fault + '_ {
    move |error| {
        let what = format!("storage failed ({context}): {error}");
        if CORRUPT.iter().any(|text| error.contains(text)) {
            return Fault::Unreadable(what);
        }
        Fault::Unavailable(what)
    }
}

/// The calls of [`Store::set_alarm_by`] in progress. Each reads the alarm before it sets it. Without this, one of two
/// calls could replace the earlier time of the other.
#[derive(Default)]
struct AlarmUpdates {
    count: Cell<u32>,
    /// The earliest time of any of them, unix milliseconds.
    earliest_ms: Cell<i64>,
}

/// One call in progress, until this is dropped.
struct AlarmUpdateGuard<'a>(&'a Cell<u32>);

impl<'a> AlarmUpdateGuard<'a> {
    fn begin(count: &'a Cell<u32>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for AlarmUpdateGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// The most values that one statement binds.
const VALUES_MAX: usize = 100;

/// The parts of a statement that inserts rows: what precedes the values of all rows, the placeholders of one row, and
/// what follows them.
pub struct Insert<'a> {
    /// `INSERT INTO … VALUES`.
    pub into: &'static str,
    /// As many `?` as a row has values.
    pub places: &'static str,
    /// What is done if the row exists.
    pub conflict: &'a str,
}

/// Rows that are inserted by as few statements as possible.
struct Waiting {
    into: &'static str,
    placeholders: &'static str,
    conflict: String,
    /// The number of values of a row, and the values of all rows.
    width: usize,
    values: Vec<SqlValue>,
}

/// Inserts that wait until the turn ends, or something else is read or written.
#[derive(Default)]
struct PendingInserts {
    is_gathering: Cell<bool>,
    waiting: RefCell<Vec<Waiting>>,
    /// The fault of a failed insert.
    failed: RefCell<Option<Fault>>,
    /// Statements and commits that failed.
    failures: Cell<u64>,
}

/// The numbers of rows of the statements that write `rows` rows: at most `limit` each, and the rest by halves. Each
/// number is a different statement. The platform keeps statements prepared: up to 1 MiB of text for each object, and
/// about forty times that of memory.
pub(crate) fn statement_sizes(mut rows: usize, limit: usize) -> impl Iterator<Item = usize> {
    let mut size = limit.max(1);
    std::iter::from_fn(move || {
        while size > rows.max(1) {
            size /= 2;
        }
        rows = rows.checked_sub(size)?;
        Some(size)
    })
}

/// The object's database.
#[derive(Clone)]
pub struct Store {
    object: Object,
    alarm_updates: Rc<AlarmUpdates>,
    gathered: Rc<PendingInserts>,
}

impl Store {
    /// The database of an object.
    pub fn new(object: Object) -> Self {
        Self {
            object,
            alarm_updates: Rc::default(),
            gathered: Rc::default(),
        }
    }

    /// Inserts a row. In a turn that collects rows, it is written together with others, before the next other read or
    /// write.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses it at once.
    pub fn insert(&self, insert: &Insert<'_>, values: Vec<SqlValue>) -> Result<(), Fault> {
        let Insert {
            into,
            places: placeholders,
            conflict,
        } = *insert;
        if !self.gathers() {
            let statement = [into, " ", placeholders, " ", conflict].concat();
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
                placeholders,
                conflict: conflict.to_owned(),
                width: values.len().max(1),
                values,
            }),
        }
        Ok(())
    }

    /// Inserts rows of `width` values each at once: few statements for many rows.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn insert_all(
        &self,
        insert: &Insert<'_>,
        width: usize,
        values: Vec<SqlValue>,
    ) -> Result<(), Fault> {
        self.write_waiting()?;
        self.insert_rows(Waiting {
            into: insert.into,
            placeholders: insert.places,
            conflict: insert.conflict.to_owned(),
            width: width.max(1),
            values,
        })
    }

    /// Sets whether inserts from now on wait for [`Store::write_gathered`], which must come in the same turn. Messages
    /// sent in between may leave before the rows are durable.
    pub fn gather(&self, gathers: bool) {
        self.gathered.is_gathering.set(gathers);
    }

    /// Writes the collected rows.
    ///
    /// # Errors
    /// `Unavailable` where any could not be written: answers from in between must not be sent.
    pub fn write_gathered(&self) -> Result<(), Fault> {
        self.gathered.is_gathering.set(false);
        let written = self.write_waiting();
        let failed = self.gathered.failed.take();
        failed.map_or(written, Err)
    }

    /// Whether inserts wait.
    pub fn gathers(&self) -> bool {
        self.gathered.is_gathering.get()
    }

    /// Writes the waiting rows, all or nothing.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn write_waiting(&self) -> Result<(), Fault> {
        let mut waiting = self.gathered.waiting.take();
        if waiting.is_empty() {
            return Ok(());
        }
        let written = self.commit(&mut || {
            let mut waiting = waiting.drain(..);
            waiting.try_for_each(|one| self.insert_rows(one))
        });
        if let Err(fault) = &written {
            self.gathered.failed.replace(Some(fault.clone()));
        }
        written
    }

    /// Inserts rows, with as many in each statement as it may bind.
    fn insert_rows(&self, rows: Waiting) -> Result<(), Fault> {
        let (count, limit) = (rows.values.len() / rows.width, VALUES_MAX / rows.width);
        let mut values = rows.values.into_iter();
        for at_once in statement_sizes(count, limit) {
            let placeholders = vec![rows.placeholders; at_once].join(", ");
            let statement = [rows.into, " ", &placeholders, " ", &rows.conflict].concat();
            let some = values.by_ref().take(at_once * rows.width).collect();
            self.execute(&statement, some)?;
        }
        Ok(())
    }

    /// The object.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Runs a statement and returns its rows.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn run(&self, statement: &str, values: Vec<SqlValue>) -> Result<Rows, Fault> {
        self.write_waiting()?;
        self.execute(statement, values)
    }

    fn execute(&self, statement: &str, values: Vec<SqlValue>) -> Result<Rows, Fault> {
        let ran = self.object.platform().run(statement, values);
        if ran.is_err() {
            self.count_failure();
        }
        ran.map_err(broken(statement))
    }

    fn count_failure(&self) {
        let failures = &self.gathered.failures;
        failures.set(failures.get().wrapping_add(1));
    }

    /// The number of failed statements and commits: their writes may be missing.
    pub fn failures(&self) -> u64 {
        self.gathered.failures.get()
    }

    /// Whether the object has its tables: not if it is fresh, also if its tables were created only in part.
    ///
    /// # Errors
    /// `Unreadable` for a schema from the future, which an older build must not touch, and for one that no build reads
    /// any more.
    pub fn has_schema(&self) -> Result<bool, Fault> {
        let tables = self.run(
            "SELECT 1 FROM sqlite_master WHERE name = 'tally_schema'",
            vec![],
        )?;
        if tables.is_empty() {
            return Ok(false);
        }
        // Each schema that the object has had has a row.
        let rows = self.run(
            "SELECT MIN(version), MAX(version) FROM tally_schema",
            vec![],
        )?;
        let mut versions = rows.iter().flatten().map(integer);
        let (Some(Some(first)), Some(Some(last))) = (versions.next(), versions.next()) else {
            // Storage failed between the table and its row, before anything else was written.
            return Ok(false);
        };
        match stored::schema_fault(first, last) {
            Some(why) => Err(self.unreadable(&why)),
            None => Ok(true),
        }
    }

    /// Writes the schema of a fresh object.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn create_schema(&self, statements: &[&str]) -> Result<(), Fault> {
        for statement in statements {
            self.run(statement, vec![])?;
        }
        self.run(
            "CREATE TABLE IF NOT EXISTS tally_schema (version INTEGER PRIMARY KEY)",
            vec![],
        )?;
        let version = vec![SCHEMA_VERSION.into()];
        self.run("INSERT OR IGNORE INTO tally_schema VALUES (?)", version)?;
        Ok(())
    }

    fn unreadable(&self, why: &str) -> Fault {
        Fault::Unreadable(format!("{why} (object {})", self.object.platform().id()))
    }

    /// The stored form of a value.
    ///
    /// # Errors
    /// `Broken` if postcard refuses.
    pub fn put<T: Serialize>(&self, value: &T) -> Result<SqlValue, Fault> {
        Ok(finished(in_room(value)?))
    }

    /// The body of a column, in the form of [`stored::FIRST`].
    ///
    /// # Errors
    /// `Unreadable` for a damaged or newer one.
    pub fn body<'a>(&self, value: &'a SqlValue) -> Result<&'a [u8], Fault> {
        let bytes = match value {
            SqlValue::Blob(bytes) => bytes.as_slice(),
            // An empty blob may arrive as `NULL`.
            SqlValue::Null => &[],
            _ => return Err(self.damaged(Damage::Changed)),
        };
        let read = StoredBody::read(bytes, stored::FIRST);
        read.map(|body| body.bytes)
            .map_err(|damage| self.damaged(damage))
    }

    /// The value of a column, see [`Store::body`].
    ///
    /// # Errors
    /// `Unreadable` for a damaged or newer one.
    pub fn get<T: DeserializeOwned>(&self, value: &SqlValue) -> Result<T, Fault> {
        self.value(self.body(value)?)
    }

    /// The value of a body.
    ///
    /// # Errors
    /// `Unreadable` for other bytes.
    pub fn value<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Fault> {
        encoding::read(body).map_err(|error| self.unreadable(&format!("a stored body: {error}")))
    }

    /// Whether the body of a column is damaged; a body of a newer build is not.
    pub fn is_damaged(&self, value: &SqlValue) -> bool {
        let bytes = blob(value).unwrap_or_default();
        let read = StoredBody::read(bytes, stored::FIRST);
        read == Err(Damage::Changed)
    }

    /// The fault of a row that cannot be read.
    pub fn damaged(&self, damage: Damage) -> Fault {
        self.unreadable(&damage.to_string())
    }

    /// Runs several statements as one: all or none. (Writes of one turn are committed together anyway, but an error
    /// would not undo those before it.)
    ///
    /// # Errors
    /// The fault of the statement that failed.
    pub fn atomically(&self, mut body: impl FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
        self.write_waiting()?;
        // The rows of one commit are not separated.
        let gathers = self.gathered.is_gathering.replace(false);
        let done = self.commit(&mut body);
        self.gathered.is_gathering.set(gathers);
        done
    }

    fn commit(&self, body: &mut dyn FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
        let mut outcome = Ok(());
        let committed = self.object.platform().atomically(&mut || {
            outcome = body();
            outcome.is_ok()
        });
        let done = outcome.and_then(|()| committed.map_err(broken("commit")));
        if done.is_err() {
            self.count_failure();
        }
        done
    }

    /// Waits until all former writes are durable.
    ///
    /// # Errors
    /// `Unavailable` where they will not be.
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
        let AlarmUpdates { count, earliest_ms } = &*self.alarm_updates;
        let before_ms = match count.get() {
            0 => i64::MAX,
            _ => earliest_ms.get(),
        };
        earliest_ms.set(before_ms.min(at_ms));
        let _turn = AlarmUpdateGuard::begin(count);
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
        let set = self.object.set_alarm(at_ms).await;
        set.map_err(broken("alarm"))
    }
}

/// The stored form of a body.
pub fn framed(body: &[u8]) -> SqlValue {
    stored::framed(body, stored::FIRST).into()
}

/// As [`framed`], of a body written after [`stored::begin`].
pub fn finished(body: Vec<u8>) -> SqlValue {
    stored::finish(body, stored::FIRST).into()
}

/// A value after the room for its frame.
///
/// # Errors
/// `Broken` if postcard refuses.
pub fn in_room<T: Serialize>(value: &T) -> Result<Vec<u8>, Fault> {
    encoding::write(value, stored::begin())
        .map_err(|error| Fault::Broken(format!("a value cannot be stored: {error}")))
}

/// A column as a whole number.
pub fn integer(value: &SqlValue) -> Option<i64> {
    match value {
        SqlValue::Integer(number) => Some(*number),
        _ => None,
    }
}

/// A column as bytes.
pub fn blob(value: &SqlValue) -> Option<&[u8]> {
    match value {
        SqlValue::Blob(bytes) => Some(bytes),
        _ => None,
    }
}

/// A column as text.
pub fn text(value: &SqlValue) -> Option<&str> {
    match value {
        SqlValue::Text(text) => Some(text),
        _ => None,
    }
}
