//! The rows of keyed writes and of changes while members move.

use super::rows::{BoardRows, broken, bytes_at, count_at, whole};
use crate::kit::store::{framed, integer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tally_core::counter::ledger::WriteKey;
use tally_host::object::{Rows, SqlValue};
use tally_wire::messages::{Fault, MemberOutcome, MovedRecord};

/// The records that were stored since a move began. It is made by the first move.
const NOTED: &str = "CREATE TABLE IF NOT EXISTS noted \
    (number INTEGER PRIMARY KEY, slot INTEGER NOT NULL, key BLOB NOT NULL, UNIQUE (slot, key))";

/// The stored result of writes with a key. Stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) fingerprint: u64,
    pub(super) written: MemberOutcome,
}

impl BoardRows {
    /// Begins to record changed members and stored records, with empty lists.
    pub(super) fn begin_recording(&self) -> Result<(), Fault> {
        self.store.run(NOTED, vec![])?;
        self.store.run("DELETE FROM noted", vec![])?;
        self.store.run(
            "CREATE TABLE IF NOT EXISTS changed (number INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, member BLOB NOT NULL, \
             UNIQUE (epoch, member))",
            vec![],
        )?;
        self.store.run("DELETE FROM changed", vec![]).map(drop)
    }

    /// Records that a member has changed, as the last one, even if it was recorded before.
    pub(super) fn record_changed(&self, epoch: i64, name: &[u8]) -> Result<(), Fault> {
        let statement =
            "INSERT OR REPLACE INTO changed SELECT COALESCE(MAX(number), 0) + 1, ?, ? FROM changed";
        let values = vec![epoch.into(), name.to_vec().into()];
        self.store.run(statement, values).map(drop)
    }

    /// Changed members, at most `limit` after a number, each with its own number.
    pub(super) fn changed_after(
        &self,
        number: u64,
        limit: u64,
    ) -> Result<Vec<(u64, i64, Vec<u8>)>, Fault> {
        let rows = self.store.run(
            "SELECT number, epoch, member FROM changed WHERE number > ? ORDER BY number LIMIT ?",
            vec![whole(number), whole(limit)],
        )?;
        let read = |row: &Vec<SqlValue>| {
            let epoch = row.get(1).and_then(integer).ok_or_else(broken)?;
            Ok((count_at(row, 0)?, epoch, bytes_at(row, 2)?))
        };
        rows.iter().map(read).collect()
    }

    /// Stored records, after a slot and a key.
    pub(super) fn records_after(
        &self,
        slot: i64,
        key: &[u8],
        limit: u64,
    ) -> Result<Vec<MovedRecord>, Fault> {
        let rows = self.store.run(
            "SELECT slot, key, body FROM records WHERE (slot, key) > (?, COALESCE(?, x'')) ORDER BY slot, key LIMIT ?",
            vec![slot.into(), key.to_vec().into(), whole(limit)],
        )?;
        self.moved_records(&rows)
    }

    /// Noted records, in the order in which they were stored: after one, or from the first.
    pub(super) fn records_noted_after(
        &self,
        slot: i64,
        key: &[u8],
        limit: u64,
    ) -> Result<Vec<MovedRecord>, Fault> {
        let rows = self.store.run(
            "SELECT n.slot, n.key, r.body FROM noted AS n CROSS JOIN records AS r ON r.slot = n.slot AND r.key = n.key \
             WHERE n.number > COALESCE((SELECT number FROM noted WHERE slot = ? AND key = COALESCE(?, x'')), 0) \
             ORDER BY n.number LIMIT ?",
            vec![slot.into(), key.to_vec().into(), whole(limit)],
        )?;
        self.moved_records(&rows)
    }

    fn moved_records(&self, rows: &Rows) -> Result<Vec<MovedRecord>, Fault> {
        let read = |row: &Vec<SqlValue>| {
            let slot = row.first().and_then(integer).ok_or_else(broken)?;
            let body = self.store.body(row.get(2).ok_or_else(broken)?)?;
            Ok((slot, bytes_at(row, 1)?, body.to_vec()))
        };
        rows.iter().map(read).collect()
    }

    /// Stores a record of another object. Returns whether it is new here.
    pub(super) fn take_record(&self, (slot, key, body): &MovedRecord) -> Result<bool, Fault> {
        let values: Vec<SqlValue> = vec![(*slot).into(), key.clone().into()];
        let statement = "SELECT 1 FROM records WHERE slot = ? AND key = ?";
        let is_new = self.store.run(statement, values.clone())?.is_empty();
        if is_new {
            let values = [values, vec![framed(body)]].concat();
            self.store
                .run("INSERT INTO records VALUES (?, ?, ?)", values)?;
        }
        Ok(is_new)
    }

    /// The record of a key.
    pub(super) fn record<T: DeserializeOwned>(
        &self,
        slots: &[i64],
        key: WriteKey,
    ) -> Result<Option<T>, Fault> {
        let statement = "SELECT body FROM records WHERE slot = ? AND key = ?";
        for slot in slots {
            let values = vec![(*slot).into(), key.0.to_vec().into()];
            let rows = self.store.run(statement, values)?;
            if let Some(row) = rows.first() {
                return self.store.get(row.first().ok_or_else(broken)?).map(Some);
            }
        }
        Ok(None)
    }

    /// Stores the record of a key. During a move it is noted, so that it is copied even if other records were copied
    /// before.
    pub(super) fn put_record<T: Serialize>(
        &self,
        slot: i64,
        key: WriteKey,
        record: &T,
        is_noted: bool,
    ) -> Result<(), Fault> {
        let values: Vec<SqlValue> = vec![slot.into(), key.0.to_vec().into()];
        if is_noted {
            let note = "INSERT OR IGNORE INTO noted (slot, key) VALUES (?, ?)";
            self.store.run(note, values.clone())?;
        }
        let values = [values, vec![self.store.put(record)?]].concat();
        self.store
            .run("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", values)
            .map(drop)
    }

    /// Deletes the records of a slot and of earlier slots.
    pub(super) fn delete_records(&self, newest: i64) -> Result<(), Fault> {
        let statement = "DELETE FROM records WHERE slot <= ?";
        self.store.run(statement, vec![newest.into()]).map(drop)
    }
}
