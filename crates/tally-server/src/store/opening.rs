//! Connections to the databases of objects: how one is opened, made, and made durable.
//!
//! Invariant: the registry names a database only once its file, its log and their names are on the disk. Until then
//! SQLite syncs nothing of it, and no checkpoint writes to its file.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::files::{DAMAGE_REMEDY, is_there, log_of};
use super::registry::DatabaseEntry;

/// Prepared statements that a database keeps: the largest store has about 40.
const PREPARED_MAX: usize = 64;

/// How a database is used: one connection, so no shared memory beside it; a page cache of 256 KB at the most, because
/// it is most of what an open object costs.
const SETTINGS: &str = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -256; PRAGMA temp_store = MEMORY; \
    PRAGMA journal_size_limit = 4194304;";

/// After these, in a statement of its own that is read to its end. SQLite returns the row first, and then writes the
/// first page of a new database. On a full disk that write fails. The connection then has no log, and each commit would
/// fail.
const SET_LOG: &str = "PRAGMA journal_mode = WAL";

/// Before these, of a database that is made now, until its first commit: a checkpoint would write to the file what the
/// log does not have durably.
const SETTINGS_OF_NEW: &str =
    "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; PRAGMA wal_autocheckpoint = 0;";

/// The same of a database that has a commit.
pub(super) const SETTINGS_OF_KNOWN: &str =
    "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 1000;";

pub(super) fn said(error: rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            format!("{error}: {DAMAGE_REMEDY}")
        }
        _ => error.to_string(),
    }
}

/// Why a commit failed.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// The transaction is undone: nothing of the turn is stored.
    Undone(String),
    /// It is unknown what the disk has: no further write may be acknowledged by this process.
    Unknown(String),
}

impl fmt::Display for CommitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Undone(why) | Self::Unknown(why)) = self;
        formatter.write_str(why)
    }
}

/// Makes a database. A file without content was begun when the power failed.
pub(super) fn make(file: &Path) -> Result<Connection, String> {
    if is_there(file, DatabaseEntry::None)? {
        return Err("it is in use".to_owned());
    }
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.to_string()),
        _ => connect(file, SETTINGS_OF_NEW),
    }
}

/// Opens a database that has a commit.
pub(super) fn open(file: &Path) -> Result<Connection, String> {
    connect(file, SETTINGS_OF_KNOWN)
}

fn connect(file: &Path, settings: &str) -> Result<Connection, String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(said)?;
    let kept = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    kept.map_err(said)?;
    for settings in [settings, SETTINGS] {
        connection.execute_batch(settings).map_err(said)?;
    }
    let mut set_log = connection.prepare(SET_LOG).map_err(said)?;
    let modes = set_log.query_map([], |row| row.get::<_, String>(0));
    let modes: Result<Vec<_>, _> = modes.and_then(Iterator::collect);
    let modes = modes.map_err(said)?;
    if modes != ["wal"] {
        return Err(format!(
            "it has no write-ahead log, but the modes {modes:?}"
        ));
    }
    drop(set_log);
    connection.set_prepared_statement_cache_capacity(PREPARED_MAX);
    Ok(connection)
}

/// Syncs databases that were made now, and their names: what the registry names is there after a power failure.
///
/// # Errors
/// `Undone` if one of them cannot be opened; `Unknown` if the disk fails.
pub(crate) fn sync_made<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<(), CommitError> {
    let sync = |path: &Path| {
        let file = File::open(path).map_err(|error| CommitError::Undone(error.to_string()))?;
        let synced = file.sync_all();
        synced.map_err(|error| CommitError::Unknown(error.to_string()))
    };
    let mut folders = BTreeSet::new();
    for file in files {
        sync(file)?;
        folders.extend(file.parent());
    }
    folders.into_iter().try_for_each(sync)
}

/// Syncs the log of a database that is opened: a process may have ended between a commit and its sync, and what is read
/// now rests on that commit. `None` where there is no log.
pub(super) fn sync_known_log(file: &Path) -> std::io::Result<Option<File>> {
    match File::open(log_of(file)) {
        Ok(log) => log.sync_data().map(|()| Some(log)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::open;

    #[test]
    fn a_connection_without_a_write_ahead_log_is_refused() {
        let refused = open(Path::new(":memory:")).err();
        assert!(refused.is_some_and(|why| why.contains("no write-ahead log")));
    }
}
