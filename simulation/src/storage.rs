//! What an object stores: SQLite in memory, or in a file where somebody wants to look into it; one database each,
//! made at its first write.
//!
//! Invariant: a transaction is open from the first write until its commit, so what was written in between is gone
//! after a crash, as on the platform. Whoever owns this lets nothing leave the object meanwhile.
//!
//! The platform's limits that are kept here: no statement begins, ends or marks a transaction; at most [`VALUES_MAX`]
//! values a statement; no value above [`VALUE_BYTES_MAX`]; numbers are those of JavaScript, so integers are bound as
//! floating-point numbers, which columns turn back by their affinity.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, OpenFlags};
use tally_host::object::{Rows, SqlValue};

/// Values of one statement. Source: <https://developers.cloudflare.com/durable-objects/platform/limits/>.
const VALUES_MAX: usize = 100;

/// Bytes of one value. Source: as [`VALUES_MAX`].
const VALUE_BYTES_MAX: usize = 2_000_000;

/// Bytes of one statement. Source: as [`VALUES_MAX`].
const STATEMENT_BYTES_MAX: usize = 100_000;

/// The largest integer that a JavaScript number holds with all below it: 2^53.
const INTEGER_MAX: i64 = 1 << 53;

/// Bytes of a page. Source: <https://www.sqlite.org/pgszchng2016.html>.
const PAGE_BYTES: u64 = 4_096;

/// Prepared statements that a database keeps: the largest store has about 40.
const PREPARED_MAX: usize = 64;

/// Those of a database that nothing was written to, which objects of all classes ask.
const PREPARED_OF_EMPTY_MAX: usize = 1_024;

/// Statements that the platform refuses. Source: workerd, `src/workerd/util/sqlite.c++`.
const REFUSED: [&str; 8] = [
    "BEGIN",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT",
    "RELEASE",
    "ATTACH",
    "VACUUM",
];

thread_local! {
    /// What a database is that nothing was written to.
    static EMPTY: Connection = {
        let connection = open(None);
        connection.set_prepared_statement_cache_capacity(PREPARED_OF_EMPTY_MAX);
        connection
    };
}

/// For files: nobody waits for the disk, and what is deleted is gone from them.
const OF_FILES: &str =
    "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA secure_delete = ON;";

fn open(file: Option<&Path>) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match file {
        Some(file) => {
            let folder = file.parent().expect("a file is in a folder");
            std::fs::create_dir_all(folder).expect("room for a folder");
            let connection = Connection::open_with_flags(file, flags).expect("a database's file");
            connection
                .execute_batch(OF_FILES)
                .expect("settings that SQLite has");
            connection
        }
        None => {
            let flags = flags | OpenFlags::SQLITE_OPEN_MEMORY;
            Connection::open_with_flags(":memory:", flags).expect("memory for a database")
        }
    };
    connection.set_prepared_statement_cache_capacity(PREPARED_MAX);
    connection
}

/// What a statement gave.
enum Ran {
    Rows(Rows, u64),
    /// It writes, so it needs a database of its own.
    Writes,
}

/// The database of one object.
#[derive(Default)]
pub struct Storage {
    file: Option<PathBuf>,
    connection: RefCell<Option<Connection>>,
    is_open: Cell<bool>,
    /// Whether anything, the alarm too, was written since the last commit.
    is_dirty: Cell<bool>,
    /// For each [`Storage::atomically`] that runs: whether its savepoint is set.
    savepoints: RefCell<Vec<bool>>,
    statements: Cell<u64>,
    rows_written: Cell<u64>,
    /// How large it is, if it was measured since the last change.
    bytes: Cell<Option<u64>>,
}

impl Storage {
    /// An empty one, in memory unless a file is named.
    pub fn new(file: Option<PathBuf>) -> Self {
        Self {
            file,
            ..Self::default()
        }
    }

    /// Begins anew with what is in its file, where it has one: somebody may have changed or deleted that.
    pub fn reopen(&self) {
        if let Some(file) = &self.file {
            let known = file.exists().then(|| open(Some(file)));
            drop(self.connection.replace(known));
            self.bytes.set(None);
        }
    }

    /// Whether something was written that is not durable yet.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty.get()
    }

    /// Something was written that is no row.
    pub fn touch(&self) {
        self.is_dirty.set(true);
    }

    /// Statements that were run, and rows that they wrote.
    pub fn figures(&self) -> (u64, u64) {
        (self.statements.get(), self.rows_written.get())
    }

    /// How large it is.
    pub fn bytes(&self) -> u64 {
        let connection = self.connection.borrow();
        let Some(connection) = connection.as_ref() else {
            return 0;
        };
        if let Some(bytes) = self.bytes.get() {
            return bytes;
        }
        let pages = connection.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0));
        let pages = u64::try_from(pages.expect("SQLite counts them")).expect("no count is below 0");
        let bytes = pages * PAGE_BYTES;
        self.bytes.set(Some(bytes));
        bytes
    }

    /// Runs a statement, and returns its rows.
    ///
    /// # Errors
    /// Where SQLite or the platform refuses it.
    pub fn run(&self, statement: &str, values: &[SqlValue]) -> Result<Rows, String> {
        check(statement, values)?;
        self.statements.set(self.statements.get() + 1);
        let mut connection = self.connection.borrow_mut();
        let ran = match &*connection {
            Some(own) => self.query(own, statement, values, true)?,
            None => EMPTY.with(|empty| self.query(empty, statement, values, false))?,
        };
        let (rows, written) = match ran {
            Ran::Rows(rows, written) => (rows, written),
            Ran::Writes => {
                let own = connection.insert(open(self.file.as_deref()));
                match self.query(own, statement, values, true)? {
                    Ran::Rows(rows, written) => (rows, written),
                    Ran::Writes => (Rows::new(), 0),
                }
            }
        };
        self.rows_written.set(self.rows_written.get() + written);
        Ok(rows)
    }

    fn query(
        &self,
        connection: &Connection,
        statement: &str,
        values: &[SqlValue],
        may_write: bool,
    ) -> Result<Ran, String> {
        let failed = |error: rusqlite::Error| error.to_string();
        let mut prepared = connection.prepare_cached(statement).map_err(failed)?;
        if prepared.parameter_count() != values.len() {
            let count = prepared.parameter_count();
            return Err(format!("{count} values are wanted, {} given", values.len()));
        }
        let writes = !prepared.readonly();
        if writes && !may_write {
            return Ok(Ran::Writes);
        }
        if writes {
            self.begin(connection)?;
        }
        let before = connection.total_changes();
        bind(&mut prepared, values).map_err(failed)?;
        let width = prepared.column_count();
        let mut found = prepared.raw_query();
        let mut rows = Rows::new();
        while let Some(row) = found.next().map_err(failed)? {
            let columns = (0..width).map(|column| row.get_ref(column).map(value));
            rows.push(columns.collect::<Result<_, _>>().map_err(failed)?);
        }
        let written = connection.total_changes() - before;
        Ok(Ran::Rows(rows, written))
    }

    /// Opens the transaction, and the savepoints that were asked for.
    fn begin(&self, connection: &Connection) -> Result<(), String> {
        self.is_dirty.set(true);
        self.bytes.set(None);
        if !self.is_open.replace(true) {
            execute(connection, "BEGIN")?;
        }
        for is_set in self.savepoints.borrow_mut().iter_mut() {
            if !*is_set {
                execute(connection, "SAVEPOINT atom")?;
                *is_set = true;
            }
        }
        Ok(())
    }

    /// Runs several statements as one.
    ///
    /// # Errors
    /// Where SQLite cannot undo, or keep, what they wrote.
    pub fn atomically(&self, body: &mut dyn FnMut() -> bool) -> Result<(), String> {
        self.savepoints.borrow_mut().push(false);
        let is_kept = body();
        self.bytes.set(None);
        let is_set = self.savepoints.borrow_mut().pop();
        let connection = self.connection.borrow();
        if let (Some(true), Some(connection)) = (is_set, &*connection) {
            if !is_kept {
                execute(connection, "ROLLBACK TO atom")?;
            }
            execute(connection, "RELEASE atom")?;
        }
        Ok(())
    }

    /// Drops all tables.
    ///
    /// # Errors
    /// Where SQLite refuses it.
    pub fn delete_all(&self) -> Result<(), String> {
        if self.connection.borrow().is_none() {
            return Ok(());
        }
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table'";
        for row in self.run(tables, &[])? {
            let Some(SqlValue::Text(name)) = row.first() else {
                continue;
            };
            // SQLite's own, of AUTOINCREMENT, can only be emptied.
            let drops = match name.starts_with("sqlite_") {
                true => format!("DELETE FROM {name}"),
                false => format!("DROP TABLE \"{name}\""),
            };
            self.run(&drops, &[])?;
        }
        Ok(())
    }

    /// What was written becomes durable.
    pub fn commit(&self) {
        self.end("COMMIT");
    }

    /// What is not durable is gone.
    pub fn roll_back(&self) {
        self.end("ROLLBACK");
        self.savepoints.borrow_mut().clear();
    }

    fn end(&self, statement: &str) {
        self.is_dirty.set(false);
        self.bytes.set(None);
        if let Some(connection) = &*self.connection.borrow()
            && self.is_open.replace(false)
        {
            execute(connection, statement).expect("no statement runs, so a transaction can end");
        }
    }
}

fn execute(connection: &Connection, statement: &str) -> Result<(), String> {
    let prepared = connection.prepare_cached(statement);
    let executed = prepared.and_then(|mut prepared| prepared.raw_execute());
    executed.map(drop).map_err(|error| error.to_string())
}

fn check(statement: &str, values: &[SqlValue]) -> Result<(), String> {
    let first = statement.split_whitespace().next().unwrap_or_default();
    let is_refused = |refused: &&str| first.eq_ignore_ascii_case(refused);
    if REFUSED.iter().any(is_refused) {
        return Err(format!("the platform refuses {first}"));
    }
    if first.eq_ignore_ascii_case("PRAGMA") && statement.contains("user_version") {
        return Err("the platform refuses PRAGMA user_version".to_owned());
    }
    if statement.len() > STATEMENT_BYTES_MAX {
        return Err("the statement is too long".to_owned());
    }
    if values.len() > VALUES_MAX {
        return Err("too many SQL variables".to_owned());
    }
    let is_large = |value: &SqlValue| match value {
        SqlValue::Text(text) => text.len() > VALUE_BYTES_MAX,
        SqlValue::Blob(bytes) => bytes.len() > VALUE_BYTES_MAX,
        _ => false,
    };
    if values.iter().any(is_large) {
        return Err("string or blob too big".to_owned());
    }
    Ok(())
}

fn bind(prepared: &mut CachedStatement<'_>, values: &[SqlValue]) -> rusqlite::Result<()> {
    for (place, value) in values.iter().enumerate() {
        let place = place + 1;
        match value {
            SqlValue::Null => prepared.raw_bind_parameter(place, rusqlite::types::Null),
            SqlValue::Integer(number) => prepared.raw_bind_parameter(place, real(*number)),
            SqlValue::Real(number) => prepared.raw_bind_parameter(place, number),
            SqlValue::Text(text) => prepared.raw_bind_parameter(place, text),
            SqlValue::Blob(bytes) => prepared.raw_bind_parameter(place, bytes),
        }?;
    }
    Ok(())
}

#[expect(
    clippy::as_conversions,
    reason = "checked to be a number that a double holds"
)]
fn real(number: i64) -> f64 {
    assert!(
        number.unsigned_abs() <= INTEGER_MAX.unsigned_abs(),
        "{number} is bound to a statement: JavaScript would round it; store it as a blob"
    );
    number as f64
}

#[expect(
    clippy::as_conversions,
    reason = "a whole number below 2^53 either way"
)]
fn value(column: ValueRef<'_>) -> SqlValue {
    match column {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => {
            assert!(
                number.unsigned_abs() <= INTEGER_MAX.unsigned_abs(),
                "{number} is read by a statement: JavaScript would round it; store it as a blob"
            );
            SqlValue::Integer(number)
        }
        // To JavaScript they are alike.
        ValueRef::Real(number) if number.fract() == 0.0 && number.abs() <= real(INTEGER_MAX) => {
            SqlValue::Integer(number as i64)
        }
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
    }
}
