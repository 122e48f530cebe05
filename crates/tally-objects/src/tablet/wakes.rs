//! The rows that cells read when they wake in a tablet: for many cells by one statement.
//!
//! Invariant: the rows are used in the turn in which they were read.

use std::collections::BTreeMap;

use super::row_names::{ALARM, LEDGER, NamedRows};
use crate::kit::store::blob;
use tally_host::object::SqlValue;
use tally_wire::messages::{Fault, decode};

/// A waking cell reads all rows of the kinds before this one: address, totals, unique elements of all time and pages.
const READ_BEFORE: u8 = 6;

/// Of this kind it reads one row, nearly always the newest: the unique elements of the open minute.
const MINUTE_UNIQUES: u8 = 6;

/// And all rows of the later kinds before this one: endings, sealed shards, the counts of ledgers. Samples, and unique
/// elements of hours and days, are of later kinds; they never exist without an address.
const READ_LAST: u8 = 9;

/// The rows that a waking cell reads.
#[derive(Default)]
pub(super) struct WakeRows {
    pub(super) rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether its ledger has a row; `None` where the log has deleted rows of the table.
    pub(super) has_records: Option<bool>,
    /// When its alarm rings, unix milliseconds.
    pub(super) alarm_ms: Option<i64>,
    /// Whether the table has a row of it.
    pub(super) is_in_table: bool,
}

impl WakeRows {
    /// Whether there is any row of it.
    pub(super) fn holds(&self) -> bool {
        !self.rows.is_empty() || self.has_records != Some(false)
    }

    /// A row, if it is known whether it exists.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let row = self.rows.get(key);
        let is_known = row.is_some() || key.first().is_some_and(|kind| is_read_whole(*kind));
        is_known.then(|| row.cloned())
    }

    /// The rows in `from..before` of a kind that is read completely, in order.
    pub(super) fn between(&self, from: &[u8], before: &[u8]) -> Option<NamedRows> {
        is_read_whole(*from.first()?).then(|| {
            let rows = self.rows.range(from.to_vec()..before.to_vec());
            rows.map(|(key, body)| (key.clone(), body.clone()))
                .collect()
        })
    }

    /// Takes a row that was read: its body, or the number `at` of an alarm.
    pub(super) fn take_row(
        &mut self,
        key: &SqlValue,
        body: impl FnOnce() -> Result<Vec<u8>, Fault>,
        at: Option<i64>,
    ) -> Result<(), Fault> {
        let Some(key) = blob(key) else { return Ok(()) };
        match key.first() {
            Some(&ALARM) => self.alarm_ms = at,
            Some(&LEDGER) => {
                self.has_records = Some(true);
                self.is_in_table = true;
            }
            _ => {
                self.rows.insert(key.to_vec(), body()?);
                self.is_in_table = true;
            }
        }
        Ok(())
    }

    /// Applies a change in the log.
    pub(super) fn change(&mut self, key: &[u8], body: Option<&Vec<u8>>) -> Result<(), Fault> {
        match (key.first(), body) {
            (Some(&ALARM), body) => {
                self.alarm_ms = body.map(|body| decode(body)).transpose()?;
            }
            (Some(&LEDGER), Some(_)) => self.has_records = Some(true),
            (Some(&LEDGER), None) => {
                if self.is_in_table {
                    self.has_records = None;
                }
            }
            (_, Some(body)) => drop(self.rows.insert(key.to_vec(), body.clone())),
            (_, None) => drop(self.rows.remove(key)),
        }
        Ok(())
    }
}

fn is_read_whole(kind: u8) -> bool {
    kind < READ_BEFORE || (kind > MINUTE_UNIQUES && kind <= READ_LAST)
}
