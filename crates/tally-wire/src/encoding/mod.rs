//! The encoding of messages and stored bodies: postcard, in which structs can grow.
//!
//! Invariant: a reader skips the fields of a newer writer. A field that an older writer lacks gets its default, or is
//! refused by its name. Both hold for structs at the end of a message, and for each struct that is *counted*: its
//! serialized name ends in [`COUNTED`], and its length in bytes precedes it. All other bytes are those of postcard.
//!
//! | change | done by |
//! |---|---|
//! | a field at the end of a counted struct, of a message or of an answer | `#[serde(default)]` |
//! | a field of a struct that is not counted, amid a message | not possible: these are names and numbers |
//! | a variant of an enum | another path: a reader cannot skip what it does not know |
//!
//! Source of the bytes: <https://postcard.jamesmunns.com/wire-format>.

mod counted;
mod reader;
mod writer;

use postcard::Error;
use serde::{Deserialize, Serialize};

pub use counted::COUNTED;
pub use reader::Undecodable;
pub use writer::{Form, ThisBuild};

use self::reader::ValueReader;
use self::writer::ValueWriter;

/// Appends a value to bytes.
///
/// # Errors
/// Postcard's, for a sequence of unknown length.
pub fn write<T: Serialize>(value: &T, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    write_as(value, bytes, &mut ThisBuild)
}

/// As [`write()`], as another build would.
///
/// # Errors
/// As [`write()`].
pub fn write_as<T: Serialize, F: Form>(
    value: &T,
    bytes: Vec<u8>,
    form: &mut F,
) -> Result<Vec<u8>, Error> {
    let mut writer = ValueWriter { bytes, form };
    value.serialize(&mut writer)?;
    Ok(writer.bytes)
}

/// Reads a value. Bytes after its end are those of a newer build, and are not read.
///
/// # Errors
/// `Undecodable` for bytes that are no such value, with the field at which reading ended.
pub fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Undecodable> {
    let mut reader = ValueReader::new(bytes);
    T::deserialize(&mut reader).map_err(|error| reader.unread(error))
}
