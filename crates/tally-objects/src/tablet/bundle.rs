//! The rows of a lead as a bundle, for moves between an object of its own and a tablet.
//!
//! Invariant: a row has the same name in a bundle as in a tablet, wherever it comes from. The row with the lead's place
//! is not part of it.

use super::row_names::{BundlePage, LEDGER, NamedRows, PRESENCE, row_key, start_of};
use crate::cell::rows::{CellRows, OwnRows};
use crate::kit::store::{WHOLE_MAX, integer};
use tally_core::counter::ledger::WriteKey;
use tally_host::object::SqlValue;
use tally_wire::messages::Fault;

/// Rows of a page: each has at most some 57 KB, that of an hour's samples.
const ROWS_AT_ONCE: i64 = 64;

/// Rows of a page of the ledger: each has some 100 bytes, and there may be 2,000,000.
const RECORDS_AT_ONCE: i64 = 4_096;

/// Bytes of a page, a quarter of what the log of a tablet holds before it is folded. Each page has at least one row.
const PAGE_BYTES_MAX: usize = 256 << 10;

impl CellRows {
    /// The rows after a name (empty for the first), as many as a page holds.
    ///
    /// # Errors
    /// `Unavailable`; as for all methods below.
    pub(crate) fn page(&self, after: &[u8]) -> Result<BundlePage, Fault> {
        let (found, next) = match self {
            Self::Own(own) => own.some_after(after)?,
            Self::Hosted(hosted) => {
                let is_ledger = after.first() == Some(&LEDGER);
                let limit = if is_ledger {
                    RECORDS_AT_ONCE
                } else {
                    ROWS_AT_ONCE
                };
                hosted.some_after(after, limit)?
            }
        };
        let (mut page, mut bytes, mut more) = (Vec::new(), 0_usize, next);
        for (name, body) in found {
            bytes = bytes.saturating_add(name.len()).saturating_add(body.len());
            if bytes > PAGE_BYTES_MAX && !page.is_empty() {
                more = page.last().map(|(name, _): &(Vec<u8>, _)| name.clone());
                break;
            }
            page.push((name, body));
        }
        page.retain(|(name, _)| *name != PRESENCE);
        Ok((page, more))
    }

    /// Writes rows of a bundle.
    pub(crate) fn put_bundle(&self, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Fault> {
        rows.iter().try_for_each(|(name, body)| match self {
            Self::Own(_) => self.put_own(name, body),
            Self::Hosted(hosted) => hosted.put_row(name, body),
        })
    }

    fn put_own(&self, name: &[u8], body: &[u8]) -> Result<(), Fault> {
        let broken = || Fault::Broken("a row of a lead has no name".to_owned());
        let start = start_of(name).ok_or_else(broken)?;
        let Self::Own(own) = self else {
            return Err(broken());
        };
        match name.first() {
            Some(&LEDGER) => {
                let key = name.get(9..).and_then(|key| key.try_into().ok());
                self.put_record(start, WriteKey(key.ok_or_else(broken)?), body.to_vec())
            }
            kind => own.put(i32::from(*kind.ok_or_else(broken)?), start, body),
        }
    }

    /// Deletes all rows of the cell.
    pub(crate) fn clear_bundle(&self) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own.clear(),
            Self::Hosted(hosted) => hosted.clear(),
        }
    }
}

impl OwnRows {
    /// Some rows after a name, and the position after which there may be more.
    fn some_after(&self, after: &[u8]) -> Result<BundlePage, Fault> {
        let kind = after.first().map_or(-1, |kind| i32::from(*kind));
        let start = start_of(after).unwrap_or(-WHOLE_MAX);
        let is_ledger = after.first() == Some(&LEDGER);
        let limit = if is_ledger {
            RECORDS_AT_ONCE
        } else {
            ROWS_AT_ONCE
        };
        let rows = if is_ledger {
            self.run(
                "SELECT slot, key, body FROM ledger WHERE (slot, key) > (?, ?) ORDER BY slot, key LIMIT ?",
                vec![start.into(), after.get(9..).unwrap_or_default().to_vec().into(), limit.into()],
            )?
        } else {
            self.run(
                "SELECT start, kind, body FROM rows WHERE (kind, start) > (?, ?) ORDER BY kind, start LIMIT ?",
                vec![kind.into(), start.into(), limit.into()],
            )?
        };
        let read = |row: &Vec<SqlValue>| match row.as_slice() {
            [start, SqlValue::Blob(key), body] => {
                let mut name = row_key(LEDGER, integer(start)?);
                name.extend_from_slice(key);
                Some(self.body(body).map(|body| (name, body)))
            }
            [start, kind, body] => {
                let kind = u8::try_from(integer(kind)?).ok()?;
                let name = row_key(kind, integer(start)?);
                Some(self.body(body).map(|body| (name, body)))
            }
            _ => None,
        };
        let found: Result<NamedRows, Fault> = rows.iter().filter_map(read).collect();
        let found = found?;
        let is_last = rows.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        let next = match (is_last, is_ledger) {
            (true, true) => None,
            // The ledger is another table.
            (true, false) => Some(row_key(LEDGER, -WHOLE_MAX)),
            (false, _) => found.last().map(|(name, _)| name.clone()),
        };
        Ok((found, next))
    }
}
