//! The names of the rows of a tablet's tenants.
//!
//! Invariant: names sort in the order of their parts, a kind and a start.

use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::WriteKey;

/// Kind of a row of the ledger, after those of cells.
pub(crate) const LEDGER: u8 = 200;

/// Kind of a cell's alarm.
pub(super) const ALARM: u8 = 201;

/// Rows that were found, in order: the bytes of their names, and their bodies.
pub(super) type NamedRows = Vec<(Vec<u8>, Vec<u8>)>;

/// A row: its tenant, and its name.
pub(super) type Name = (CounterId, Vec<u8>);

/// The name of a row, as bytes: its kind and its start. The start is big endian with the sign bit inverted, so that
/// names sort like numbers.
pub(super) fn row_key(kind: u8, start: i64) -> Vec<u8> {
    let mut key = Vec::with_capacity(9);
    key.push(kind);
    key.extend_from_slice(&(start ^ i64::MIN).to_be_bytes());
    key
}

/// A page of a bundle, and the name after which there are more rows.
pub(super) type BundlePage = (NamedRows, Option<Vec<u8>>);

/// Name of the row with the lead's place: kind 0, start 1.
pub(super) const PRESENCE: [u8; 9] = [0, 0x80, 0, 0, 0, 0, 0, 0, 1];

/// The bytes of the name of a row of the ledger.
pub(super) fn record_key(slot: i64, key: WriteKey) -> Vec<u8> {
    let mut name = row_key(LEDGER, slot);
    name.extend_from_slice(&key.0);
    name
}

pub(crate) fn start_of(key: &[u8]) -> Option<i64> {
    let bytes = key.get(1..9)?.try_into().ok()?;
    Some(i64::from_be_bytes(bytes) ^ i64::MIN)
}

pub(super) fn kind_of(kind: i32) -> u8 {
    u8::try_from(kind).unwrap_or(LEDGER)
}
