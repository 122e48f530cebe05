//! What an object stores: one SQLite database, whose file is made at its first write.
//!
//! Invariant: a transaction is open from the first write of a turn until its commit. A commit is on the disk once the
//! write-ahead log is [synced](Database::log): what SQLite does by itself with `synchronous=FULL`, and here whoever
//! commits, in a thread that may wait. SQLite syncs a new log's name and beginning, and what a checkpoint needs
//! (`synchronous=NORMAL`). It syncs nothing of a database that the registry does not name yet, because nothing depends
//! on that database: [its file](Database::unsynced_file) and its folder are synced once, before the registry names it.
//! The object's alarm and its name are rows of the same database, so a commit has both or neither. A file that the
//! registry names is opened only if it is there, has a header, and has the log that it needs. The log stays when the
//! file is closed, unless the registry knows that it is needed no more.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ffi};
use tally_host::object::{Rows, SqlValue};

use super::files::{DAMAGE_REMEDY, is_there, log_of};
use super::opening::{CommitError, SETTINGS_OF_KNOWN, make, open, said, sync_known_log};
use super::registry::DatabaseEntry;
use super::values::rows_of;

/// Those of a database that nothing was written to, which objects of all classes ask.
const PREPARED_OF_EMPTY_MAX: usize = 1_024;

/// The object's own rows: its name, and when its alarm rings. Objects leave names that begin with `_cf` alone.
const OWN_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS _cf_host (name TEXT NOT NULL, alarm_ms INTEGER) STRICT";

thread_local! {
    /// What a database is that nothing was written to.
    static EMPTY: Result<Connection, String> = open_empty();
}

fn open_empty() -> Result<Connection, String> {
    let connection = Connection::open_in_memory().map_err(said)?;
    connection.set_prepared_statement_cache_capacity(PREPARED_OF_EMPTY_MAX);
    Ok(connection)
}

/// Sees that a database which the registry names has an object.
fn expect_object(
    stored: Option<&(String, Option<i64>)>,
    entry: DatabaseEntry,
) -> Result<(), String> {
    match (stored, entry) {
        (None, DatabaseEntry::Closed | DatabaseEntry::Open) => {
            Err(format!("it has no object: {DAMAGE_REMEDY}"))
        }
        _ => Ok(()),
    }
}

/// What a statement gave.
enum Ran {
    Rows(Rows),
    /// It writes, so it needs a database of its own.
    Writes,
}

/// How far a database is made.
#[derive(Clone, Copy, PartialEq)]
enum Making {
    /// It was there before, or it is named since.
    No,
    /// It has no commit yet.
    Begun,
    /// It has one. Its file and its name are not synced.
    Committed,
}

/// The database of one object.
pub(crate) struct Database {
    file: PathBuf,
    name: String,
    connection: RefCell<Option<Connection>>,
    /// The write-ahead log, to be synced, once something was committed.
    log: RefCell<Option<Arc<File>>>,
    /// Whether a transaction is open.
    is_begun: Cell<bool>,
    is_dirty: Cell<bool>,
    /// Whether the object's name is stored.
    is_named: Cell<bool>,
    entry: Cell<DatabaseEntry>,
    making: Cell<Making>,
    /// SQLite has undone the open transaction by itself, as on a full disk. The turn cannot be kept.
    undone: RefCell<Option<String>>,
    /// For each [`Database::atomically`] that runs: whether its savepoint is set.
    savepoints: RefCell<Vec<bool>>,
}

impl Database {
    /// Opens the database of an object, if it has written anything before. `entry`: what the registry knows of it.
    ///
    /// # Errors
    /// If its file cannot be opened, or is not what the registry knows.
    pub(crate) fn open(file: PathBuf, name: &str, entry: DatabaseEntry) -> Result<Self, String> {
        let known = match is_there(&file, entry)? {
            true => Some(open(&file)?),
            false => None,
        };
        let log = match &known {
            Some(_) => sync_known_log(&file).map_err(|error| error.to_string())?,
            None => None,
        };
        // The process that made it may have ended before it was named.
        let making = match known.is_some() && entry == DatabaseEntry::None {
            true => Making::Committed,
            false => Making::No,
        };
        Ok(Self {
            entry: Cell::new(entry),
            making: Cell::new(making),
            file,
            name: name.to_owned(),
            connection: RefCell::new(known),
            log: RefCell::new(log.map(Arc::new)),
            is_begun: Cell::default(),
            is_dirty: Cell::default(),
            is_named: Cell::default(),
            undone: RefCell::default(),
            savepoints: RefCell::default(),
        })
    }

    /// Whether something was written that is not durable yet.
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty.get()
    }

    /// Something was written that is no row.
    pub(crate) fn touch(&self) {
        self.is_dirty.set(true);
    }

    /// The name of the object, and when its alarm rings, as they are stored; `None` where nothing is.
    ///
    /// # Errors
    /// If SQLite refuses to read.
    pub(crate) fn stored(&self) -> Result<Option<(String, Option<i64>)>, String> {
        let connection = self.connection.borrow();
        let Some(connection) = connection.as_ref() else {
            return Ok(None);
        };
        let stored = stored_in(connection)?;
        expect_object(stored.as_ref(), self.entry.get())?;
        Ok(stored)
    }

    /// Whether the object has a database.
    pub(crate) fn is_made(&self) -> bool {
        self.connection.borrow().is_some()
    }

    /// Whether something is stored that the registry has to know before it is acknowledged. A commit that changes no
    /// row leaves an empty log, and nothing depends on that log.
    pub(crate) fn is_unregistered(&self) -> bool {
        self.is_made()
            && self.entry.get() != DatabaseEntry::Open
            && log_of(&self.file)
                .metadata()
                .map_or(true, |log| log.len() > 0)
    }

    /// The file of a database that the registry does not name yet: the file and its folder have to be synced before the
    /// registry names it.
    pub(crate) fn unsynced_file(&self) -> Option<&Path> {
        (self.making.get() != Making::No).then_some(&*self.file)
    }

    /// The registry has noted it as open.
    pub(crate) fn registered(&self) {
        self.entry.set(DatabaseEntry::Open);
        self.making.set(Making::No);
    }

    /// Moves all of the log into the database file. Returns whether the registry may note it as closed.
    pub(crate) fn fold(&self) -> bool {
        self.roll_back();
        let connection = self.connection.borrow();
        let Some(connection) = connection
            .as_ref()
            .filter(|_| self.entry.get() == DatabaseEntry::Open)
        else {
            return false;
        };
        let folded = connection.query_row("PRAGMA wal_checkpoint", [], |row| {
            Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        folded.is_ok_and(|(frames, moved)| frames == moved)
    }

    /// The registry has noted it as closed: its log goes with the connection.
    pub(crate) fn folded(&self) {
        self.entry.set(DatabaseEntry::Closed);
        self.making.set(Making::No);
    }

    /// Bytes of the database.
    pub(crate) fn bytes(&self) -> u64 {
        let connection = self.connection.borrow();
        let Some(connection) = connection.as_ref() else {
            return 0;
        };
        let sql = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
        let bytes = connection
            .prepare_cached(sql)
            .and_then(|mut known| known.query_row([], |row| row.get::<_, i64>(0)));
        u64::try_from(bytes.unwrap_or(0)).unwrap_or(0)
    }

    /// Runs a statement, and returns its rows.
    ///
    /// # Errors
    /// If SQLite refuses it.
    pub(crate) fn run(&self, statement: &str, values: &[SqlValue]) -> Result<Rows, String> {
        let mut connection = self.connection.borrow_mut();
        let ran = match &*connection {
            Some(own) => self.query(own, statement, values, true)?,
            None => EMPTY.with(|empty| match empty {
                Ok(empty) => self.query(empty, statement, values, false),
                Err(why) => Err(why.clone()),
            })?,
        };
        match ran {
            Ran::Rows(rows) => Ok(rows),
            Ran::Writes => {
                let own = connection.insert(self.make()?);
                match self.query(own, statement, values, true)? {
                    Ran::Rows(rows) => Ok(rows),
                    Ran::Writes => Ok(Rows::new()),
                }
            }
        }
    }

    fn make(&self) -> Result<Connection, String> {
        let made = make(&self.file)?;
        self.making.set(Making::Begun);
        Ok(made)
    }

    fn query(
        &self,
        connection: &Connection,
        statement: &str,
        values: &[SqlValue],
        may_write: bool,
    ) -> Result<Ran, String> {
        let mut prepared = connection.prepare_cached(statement).map_err(said)?;
        let count = prepared.parameter_count();
        if count != values.len() {
            return Err(format!("{count} values are wanted, {} given", values.len()));
        }
        let writes = !prepared.readonly();
        if writes && !may_write {
            return Ok(Ran::Writes);
        }
        if writes {
            self.begin(connection)?;
        }
        rows_of(&mut prepared, values)
            .map(Ran::Rows)
            .map_err(|error| {
                let error = said(error);
                if self.is_begun.get() && connection.is_autocommit() {
                    *self.undone.borrow_mut() = Some(error.clone());
                }
                error
            })
    }

    /// Opens the transaction, and the savepoints that were asked for.
    fn begin(&self, connection: &Connection) -> Result<(), String> {
        if let Some(why) = &*self.undone.borrow() {
            return Err(why.clone());
        }
        self.is_dirty.set(true);
        if !self.is_begun.replace(true) {
            execute(connection, "BEGIN IMMEDIATE").map_err(|error| {
                self.is_begun.set(false);
                said(error)
            })?;
        }
        for is_set in self.savepoints.borrow_mut().iter_mut() {
            if !*is_set {
                execute(connection, "SAVEPOINT atom").map_err(said)?;
                *is_set = true;
            }
        }
        Ok(())
    }

    /// Runs several statements as one: keeps their effects if `body` returns `true`, and otherwise none.
    ///
    /// # Errors
    /// If SQLite cannot undo, or keep, what they wrote.
    pub(crate) fn atomically(&self, body: &mut dyn FnMut() -> bool) -> Result<(), String> {
        self.savepoints.borrow_mut().push(false);
        let is_kept = body();
        let is_set = self.savepoints.borrow_mut().pop();
        let connection = self.connection.borrow();
        if let (Some(true), Some(connection)) = (is_set, &*connection) {
            if let Some(why) = &*self.undone.borrow() {
                return Err(why.clone());
            }
            if !is_kept {
                execute(connection, "ROLLBACK TO atom").map_err(said)?;
            }
            execute(connection, "RELEASE atom").map_err(said)?;
        }
        Ok(())
    }

    /// Drops all tables of the object.
    ///
    /// # Errors
    /// If SQLite refuses it.
    pub(crate) fn delete_all(&self) -> Result<(), String> {
        if self.connection.borrow().is_none() {
            return Ok(());
        }
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> '_cf_host'";
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

    /// The log that has the commits. They are durable once it is synced. `None` before the first one.
    pub(crate) fn log(&self) -> Option<Arc<File>> {
        self.log.borrow().clone()
    }

    /// What was written is committed; `alarm`, if it has changed, with it. It is durable once the log is synced.
    pub(crate) fn commit(&self, alarm: Option<Option<i64>>) -> Result<(), CommitError> {
        self.is_dirty.set(false);
        if let Some(why) = self.undone.borrow().clone() {
            self.roll_back();
            return Err(CommitError::Undone(why));
        }
        let kept = self.keep(alarm);
        self.is_begun.set(false);
        kept.map_err(|error| {
            let is_unknown = is_sync_failure(&error);
            self.roll_back();
            match is_unknown {
                true => CommitError::Unknown(said(error)),
                false => CommitError::Undone(said(error)),
            }
        })?;
        self.sync_from_now().map_err(CommitError::Unknown)
    }

    /// From its first commit on, SQLite syncs what a checkpoint needs. It refuses this setting within a transaction.
    fn sync_from_now(&self) -> Result<(), String> {
        if self.making.get() != Making::Begun {
            return Ok(());
        }
        self.making.set(Making::Committed);
        match &*self.connection.borrow() {
            Some(connection) => connection.execute_batch(SETTINGS_OF_KNOWN).map_err(said),
            None => Ok(()),
        }
    }

    fn keep(&self, alarm: Option<Option<i64>>) -> Result<(), rusqlite::Error> {
        let mut connection = self.connection.borrow_mut();
        if connection.is_none() && alarm.flatten().is_some() {
            let opened = self.make().map_err(|why| {
                rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CANTOPEN), Some(why))
            })?;
            *connection = Some(opened);
        }
        let Some(connection) = &*connection else {
            return Ok(());
        };
        if !self.is_begun.replace(true) {
            execute(connection, "BEGIN IMMEDIATE")?;
        }
        self.name_it(connection)?;
        if let Some(at_ms) = alarm {
            let mut update = connection.prepare_cached("UPDATE _cf_host SET alarm_ms = ?")?;
            update.execute([at_ms])?;
        }
        // Before the commit, which nothing undoes.
        let mut log = self.log.borrow_mut();
        if log.is_none() {
            *log = Some(Arc::new(log_file(&self.file)?));
        }
        execute(connection, "COMMIT")
    }

    /// Writes the object's name into a database that has none yet.
    fn name_it(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        if self.is_named.get() {
            return Ok(());
        }
        connection.execute_batch(OWN_TABLE)?;
        let insert =
            "INSERT INTO _cf_host (name) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM _cf_host)";
        connection.execute(insert, [&self.name])?;
        self.is_named.set(true);
        Ok(())
    }

    /// Closes the file. What is not durable is gone.
    pub(crate) fn close(&self) {
        self.roll_back();
        self.log.take();
        if let Some(connection) = self.connection.take() {
            close(&connection, self.entry.get());
        }
    }

    /// What is not durable is gone.
    pub(crate) fn roll_back(&self) {
        self.is_dirty.set(false);
        self.is_begun.set(false);
        self.is_named.set(false);
        self.undone.take();
        self.savepoints.borrow_mut().clear();
        if let Some(connection) = &*self.connection.borrow()
            && !connection.is_autocommit()
        {
            // Where even that fails, the next statement opens no transaction and says so.
            let _ = execute(connection, "ROLLBACK");
        }
    }
}

/// Opens the log of a database that has a transaction.
fn log_file(file: &Path) -> Result<File, rusqlite::Error> {
    File::open(log_of(file)).map_err(|error| {
        let code = ffi::Error::new(ffi::SQLITE_CANTOPEN);
        rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
    })
}

/// Whether it is unknown what the disk has: after a failed sync, the system may have dropped what it could not write.
fn is_sync_failure(error: &rusqlite::Error) -> bool {
    let codes = [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC];
    error
        .sqlite_error()
        .is_some_and(|error| codes.contains(&error.extended_code))
}

fn stored_in(connection: &Connection) -> Result<Option<(String, Option<i64>)>, String> {
    let there = "SELECT 1 FROM sqlite_master WHERE name = '_cf_host'";
    let mut there = connection.prepare_cached(there).map_err(said)?;
    if !there.exists([]).map_err(said)? {
        return Ok(None);
    }
    let rows = "SELECT name, alarm_ms FROM _cf_host";
    let mut rows = connection.prepare_cached(rows).map_err(said)?;
    let mut rows = rows.query([]).map_err(said)?;
    match rows.next().map_err(said)? {
        Some(row) => Ok(Some((row.get(0).map_err(said)?, row.get(1).map_err(said)?))),
        None => Ok(None),
    }
}

/// Lets the log of a database that is closed go, unless it is needed. If that fails, it stays, which costs no count.
fn close(connection: &Connection, entry: DatabaseEntry) {
    if entry == DatabaseEntry::Closed {
        let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
    }
}

/// The name and the alarm in a database that no object uses now; `None` where nothing is stored.
///
/// # Errors
/// If it cannot be read, or is not what the registry knows.
pub(crate) fn look_into(
    file: &Path,
    entry: DatabaseEntry,
) -> Result<Option<(String, Option<i64>)>, String> {
    if !is_there(file, entry)? {
        return Ok(None);
    }
    let connection = open(file)?;
    let stored = stored_in(&connection)?;
    expect_object(stored.as_ref(), entry)?;
    close(&connection, entry);
    Ok(stored)
}

fn execute(connection: &Connection, statement: &str) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(statement)?
        .raw_execute()
        .map(drop)
}

#[cfg(test)]
mod tests {
    //! Law: the registry names a database as open only once its log has what was committed.

    use super::*;

    /// What the power may leave of a database that was being made, and what it never does.
    #[test]
    fn a_file_that_was_begun_is_made_anew_if_nothing_rests_on_it() {
        let folder = std::env::temp_dir().join(format!("tally-begun-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("object.sqlite");
        for bytes in [0, 1, 512, 4_096] {
            std::fs::write(&file, vec![0; bytes]).expect("a file");
            let opened = Database::open(file.clone(), "an object", DatabaseEntry::None);
            let made = opened.expect("nothing rests on it");
            made.run("CREATE TABLE rows (number INTEGER)", &[])
                .expect("a table");
            made.commit(None).expect("a commit");
            assert_eq!(made.unsynced_file(), Some(&*file), "its name is not synced");
            made.registered();
            assert_eq!(made.unsynced_file(), None);
            assert_eq!(
                made.run("PRAGMA synchronous", &[]).expect("a setting"),
                [[SqlValue::Integer(1)]],
                "SQLite syncs before a checkpoint from now on"
            );
            let late = make(&file).map(drop);
            assert_eq!(late, Err("it is in use".to_owned()), "it is never removed");
            made.close();
        }
        for (bytes, entry) in [
            (vec![0; 4_096], DatabaseEntry::Open),
            (vec![0; 4_096], DatabaseEntry::Closed),
            (vec![0; 8_192], DatabaseEntry::None),
            (vec![1; 512], DatabaseEntry::None),
        ] {
            std::fs::write(&file, bytes).expect("a file");
            let opened = Database::open(file.clone(), "an object", entry);
            assert!(opened.is_err(), "what was acknowledged may rest on it");
        }
        std::fs::remove_dir_all(&folder).expect("the folder");
    }

    #[test]
    fn a_commit_that_changes_no_row_makes_no_log_that_is_needed() {
        let folder = std::env::temp_dir().join(format!("tally-database-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("object.sqlite");
        let made = Database::open(file.clone(), "an object", DatabaseEntry::None).expect("new");
        made.run("CREATE TABLE rows (number INTEGER)", &[])
            .expect("a table");
        made.commit(None).expect("a commit");
        assert!(made.is_unregistered(), "it has rows");
        made.registered();
        assert!(made.fold());
        made.folded();
        made.close();

        let idle = Database::open(file, "an object", DatabaseEntry::Closed).expect("a database");
        idle.run("DELETE FROM rows WHERE number = 1", &[])
            .expect("no row is deleted");
        idle.commit(None).expect("a commit of nothing");
        assert!(!idle.is_unregistered(), "its log has no byte");
        idle.touch();
        idle.commit(None).expect("a commit of nothing");
        assert!(!idle.is_unregistered(), "its log has no byte");
        idle.run("INSERT INTO rows VALUES (1)", &[]).expect("a row");
        idle.commit(None).expect("a commit");
        assert!(idle.is_unregistered(), "its log has the row");
        idle.close();
        std::fs::remove_dir_all(&folder).expect("the folder");
    }
}
