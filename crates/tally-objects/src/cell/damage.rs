//! Which rows of a cell do not match their checksums.

use crate::kit::store::{Store, blob, integer};
use crate::tablet::row_names::start_of;
use tally_host::object::SqlValue;
use tally_wire::messages::Fault;

/// The rows that one statement checks: each is below 2 MB, most far below.
const ROWS_AT_ONCE: i64 = 16;

/// A row that does not match its checksum.
#[derive(Clone, Debug)]
pub(crate) struct DamagedRow {
    pub(super) kind: u8,
    pub(super) start: i64,
    /// Its stored name: the key of a row of the ledger, or the whole name in a tablet.
    pub(crate) name: Vec<u8>,
}

/// The damaged rows of a table. `page` reads some after a position, in order: the position of each, and its body.
pub(crate) fn damaged_in<P: Clone>(
    store: &Store,
    first: P,
    mut page: impl FnMut(&P, i64) -> Result<Vec<(P, SqlValue)>, Fault>,
) -> Result<Vec<P>, Fault> {
    let mut damaged = Vec::new();
    let mut after = first;
    loop {
        let rows = page(&after, ROWS_AT_ONCE)?;
        let Some((last, _)) = rows.last() else {
            return Ok(damaged);
        };
        after = last.clone();
        for (key, body) in rows {
            if store.is_damaged(&body) {
                damaged.push(key);
            }
        }
    }
}

/// A row of a tenant by its name.
pub(crate) fn damaged_row(name: &[u8]) -> Option<DamagedRow> {
    Some(DamagedRow {
        kind: *name.first()?,
        start: start_of(name)?,
        name: name.to_vec(),
    })
}

/// Two columns, a name and a body.
pub(crate) fn named(row: &[SqlValue]) -> Option<(Vec<u8>, SqlValue)> {
    match row {
        [name, body] => Some((blob(name)?.to_vec(), body.clone())),
        _ => None,
    }
}

/// Three columns, two of a place and a body.
pub(super) fn placed(row: &[SqlValue]) -> Option<((i64, i64), SqlValue)> {
    match row {
        [kind, start, body] => Some(((integer(kind)?, integer(start)?), body.clone())),
        _ => None,
    }
}
