//! What can be seen of a database's files before SQLite opens them: SQLite would take an empty file for a new database,
//! and delete its log.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::ahead_log;
use super::registry::DatabaseEntry;

/// With what each file of SQLite begins.
const BEGINNING: &[u8; 16] = b"SQLite format 3\0";

/// What an operator does about a file that is missing or empty, or about a log.
const REMEDY: &str =
    "end the server, and restore this file from a backup, or start once with --accept-loss";

/// What an operator does about a file with a content that is damaged: it may hold counts that can be saved.
pub(crate) const DAMAGE_REMEDY: &str = "end the server, and restore this file from a backup, or move it away and \
    start once with --accept-loss";

/// Bytes of the header of a database.
const HEADER_BYTES: usize = 100;

/// The size of a page that the header has no room for. Source: as [`has_content`].
const PAGE_BYTES_MAX: u64 = 65_536;

/// The page with which a database begins to be made.
const FIRST_PAGE_BYTES: u64 = 4_096;

/// Whether a file has anything in it. One that the registry knows as closed has to have all of its pages; of one that
/// it does not know, the power may have failed before the first page was on the disk.
///
/// **Source**: <https://www.sqlite.org/fileformat2.html#the_database_header>.
///
/// # Errors
/// If it is no database. SQLite would take an empty one for a new database, and delete its log.
pub(crate) fn has_content(file: &Path, entry: DatabaseEntry) -> Result<bool, String> {
    let mut header = Vec::new();
    let read = File::open(file).and_then(|file| {
        let bytes = file.metadata()?.len();
        file.take(u64::try_from(HEADER_BYTES).unwrap_or(0))
            .read_to_end(&mut header)?;
        Ok(bytes)
    });
    let bytes = match read {
        Ok(0) => return Ok(false),
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.to_string()),
    };
    let may_be_begun = entry == DatabaseEntry::None && bytes <= FIRST_PAGE_BYTES;
    if may_be_begun && header.iter().all(|byte| *byte == 0) {
        return Ok(false);
    }
    if !header.starts_with(BEGINNING) || header.len() < HEADER_BYTES {
        return Err(format!("it is not a database: {DAMAGE_REMEDY}"));
    }
    let number = |at: usize, width: usize| {
        let digits = header.iter().skip(at).take(width);
        digits.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let page_bytes = match number(16, 2) {
        1 => PAGE_BYTES_MAX,
        bytes => bytes,
    };
    let whole_bytes = page_bytes.saturating_mul(number(28, 4));
    if entry == DatabaseEntry::Closed && bytes < whole_bytes {
        return Err(format!(
            "it has {bytes} of {whole_bytes} bytes: {DAMAGE_REMEDY}"
        ));
    }
    Ok(true)
}

/// Where SQLite keeps the write-ahead log of a database.
pub(crate) fn log_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Whether a file is what the registry knows of it; `false` if it is a new one.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn is_there(file: &Path, entry: DatabaseEntry) -> Result<bool, String> {
    let has_content = has_content(file, entry)?;
    match entry {
        DatabaseEntry::None => return Ok(has_content),
        _ if !has_content => {
            return Err(format!("it is missing or empty, and had counts: {REMEDY}"));
        }
        DatabaseEntry::Closed => {}
        DatabaseEntry::Open => {
            ahead_log::check(&log_of(file)).map_err(|why| format!("{why}: {REMEDY}"))?
        }
    }
    Ok(true)
}
