//! The rows of a cell's ledger: (slot, key) to the record of a keyed write.
//!
//! Invariant: a record is written in the commit that counts its write, and goes with its slot. A key has one record.

use super::cell_store::{CellStore, Kind};
use super::store::blob;
use crate::counter::cell::Cell;
use crate::counter::flush::Changes;
use crate::counter::ledger::{Kept, Ledger, WriteKey};
use crate::protocol::messages::{Fault, decode, encode};

impl CellStore {
    /// Writes records alone, of writes that are not counted.
    pub(super) fn write_records(&self, cell: &Cell, changes: &Changes) -> Result<(), Fault> {
        if changes.records.is_empty() {
            return Ok(());
        }
        self.create_schema()?;
        self.store.atomically(|| self.put_records(cell, changes))
    }

    /// Writes the records of a commit, and how many there are now.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn put_records(&self, cell: &Cell, changes: &Changes) -> Result<(), Fault> {
        for new in &changes.records {
            let Kept { slot, record } = &new.kept;
            let key = new.key.0.to_vec();
            let (slot, body) = ((*slot).into(), encode(record)?.into());
            match new.replaces {
                None => (self.store).run(
                    "INSERT INTO ledger VALUES (?, ?, ?)",
                    vec![slot, key.into(), body],
                )?,
                Some(replaced) => self.store.run(
                    "UPDATE ledger SET slot = ?, body = ? WHERE slot = ? AND key = ?",
                    vec![slot, body, replaced.into(), key.into()],
                )?,
            };
        }
        if changes.records.is_empty() {
            return Ok(());
        }
        self.put(Kind::Ledger, 0, cell.ledger())
    }

    /// The record of a keyed write, if there is one in these slots. Cost: a look-up for each slot.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn record(&self, ledger: &Ledger, key: WriteKey) -> Result<Option<Kept>, Fault> {
        for slot in ledger.slots() {
            let rows = self.store.run(
                "SELECT body FROM ledger WHERE slot = ? AND key = ?",
                vec![slot.into(), key.0.to_vec().into()],
            )?;
            if let Some(body) = rows.first().and_then(|row| row.first()).and_then(blob) {
                let record = decode(body)?;
                return Ok(Some(Kept { slot, record }));
            }
        }
        Ok(None)
    }

    /// Deletes the records of a slot and of those before it.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn delete_records(&self, newest: i64, cell: &Cell) -> Result<(), Fault> {
        self.store.atomically(|| {
            self.store
                .run("DELETE FROM ledger WHERE slot <= ?", vec![newest.into()])?;
            self.put(Kind::Ledger, 0, cell.ledger())
        })
    }
}
