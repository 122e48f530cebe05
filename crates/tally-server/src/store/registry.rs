//! The registry: which objects have stored something, and whether their logs matter.
//!
//! Invariant: nothing is acknowledged that rests on a database which the registry does not name, durably. So a database
//! that it names, and that is missing or empty, is damaged: it is never taken for a new one. The same holds for the
//! write-ahead log of a database that was not closed in order.
//!
//! Life of an object's entry: none → open, with the first commit after each opening → closed, once all of the log is in
//! the database file → open → …

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

/// One file, and the disk has each transaction before it returns.
const SETTINGS: &str = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL; \
    PRAGMA cache_size = -256; PRAGMA temp_store = MEMORY;";

const TABLES: &str = "CREATE TABLE objects (id TEXT PRIMARY KEY, folder TEXT NOT NULL, is_open INTEGER NOT NULL) STRICT;
    CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;";

/// What the registry knows of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseEntry {
    /// Nothing: it was never committed to, or no such commit was acknowledged.
    None,
    /// All that was acknowledged is in the database file.
    Closed,
    /// What was acknowledged may be in the write-ahead log alone.
    Open,
}

/// An object that the registry names.
pub(crate) struct Registered {
    pub(crate) id: String,
    /// Its class's folder.
    pub(crate) folder: String,
}

/// The registry of a data folder. All threads share it: it is used at openings and closings alone.
pub(crate) struct Registry(Mutex<Connection>);

fn said(error: rusqlite::Error) -> String {
    error.to_string()
}

fn connect(file: &Path, flags: OpenFlags) -> Result<Connection, String> {
    let connection = Connection::open_with_flags(file, flags).map_err(said)?;
    connection.execute_batch(SETTINGS).map_err(said)?;
    Ok(connection)
}

/// Makes the file of an empty registry. The caller gives it its name.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn make(file: &Path) -> Result<(), String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let made = connect(file, flags)?;
    made.execute_batch(TABLES).map_err(said)?;
    made.close().map_err(|(_, error)| said(error))
}

impl Registry {
    /// Opens the registry in a file.
    ///
    /// # Errors
    /// If it is missing, or damaged.
    pub(crate) fn open(file: &Path) -> Result<Self, String> {
        let connection = connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let registry = Self(Mutex::new(connection));
        // An empty file has no tables.
        registry.after("", 1)?;
        registry.noted("")?;
        Ok(registry)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the database of an object.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub(crate) fn entry(&self, id: &str) -> Result<DatabaseEntry, String> {
        let connection = self.lock();
        let mut select = connection
            .prepare_cached("SELECT is_open FROM objects WHERE id = ?")
            .map_err(said)?;
        let found = select.query_row([id], |row| row.get::<_, bool>(0));
        Ok(match found.optional().map_err(said)? {
            None => DatabaseEntry::None,
            Some(false) => DatabaseEntry::Closed,
            Some(true) => DatabaseEntry::Open,
        })
    }

    /// Notes databases as open or closed, durably.
    ///
    /// # Errors
    /// If that cannot be written. Then nothing is noted.
    pub(crate) fn note<'a>(
        &self,
        objects: impl IntoIterator<Item = (&'a str, &'a str)>,
        is_open: bool,
    ) -> Result<(), String> {
        let mut connection = self.lock();
        let transaction = connection.transaction().map_err(said)?;
        for (id, folder) in objects {
            let upsert = "INSERT INTO objects (id, folder, is_open) VALUES (?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET is_open = excluded.is_open";
            let mut upsert = transaction.prepare_cached(upsert).map_err(said)?;
            upsert.execute((id, folder, is_open)).map_err(said)?;
        }
        transaction.commit().map_err(said)
    }

    /// Forgets the database of an object, durably.
    ///
    /// # Errors
    /// If that cannot be written.
    pub(crate) fn forget(&self, id: &str) -> Result<(), String> {
        let forgotten = self
            .lock()
            .execute("DELETE FROM objects WHERE id = ?", [id]);
        forgotten.map(drop).map_err(said)
    }

    /// The next objects after one, in the order of their ids.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub(crate) fn after(&self, id: &str, count: u32) -> Result<Vec<Registered>, String> {
        let connection = self.lock();
        let select = "SELECT id, folder FROM objects WHERE id > ? ORDER BY id LIMIT ?";
        let mut select = connection.prepare_cached(select).map_err(said)?;
        let rows = select.query_map((id, count), |row| {
            Ok(Registered {
                id: row.get(0)?,
                folder: row.get(1)?,
            })
        });
        let rows = rows.and_then(Iterator::collect);
        rows.map_err(said)
    }

    /// A note about the folder.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub(crate) fn noted(&self, name: &str) -> Result<Option<String>, String> {
        let select = "SELECT value FROM notes WHERE name = ?";
        let found = self.lock().query_row(select, [name], |row| row.get(0));
        found.optional().map_err(said)
    }

    /// Writes a note about the folder.
    ///
    /// # Errors
    /// If that cannot be written.
    pub(crate) fn write_note(&self, name: &str, value: &str) -> Result<(), String> {
        let insert = "INSERT OR REPLACE INTO notes (name, value) VALUES (?, ?)";
        let written = self.lock().execute(insert, [name, value]);
        written.map(drop).map_err(said)
    }
}
