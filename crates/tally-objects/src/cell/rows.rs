//! The storage of a cell's rows: the tables of an object of its own, or those of the tablet that hosts it.
//!
//! Invariant: both hold the same rows, (kind, start) → bytes and (slot, key) → bytes, so the decisions of a cell are
//! the same in either.

use std::cell::Cell;

use super::damage::{DamagedRow, damaged_in, named, placed};
use super::row_kinds::Kind;
use crate::kit::store::{Store, WHOLE_MAX, framed, integer};
use crate::tablet::hosted_rows::HostedRows;
use crate::tablet::row_names::LEDGER;
use tally_core::counter::ledger::WriteKey;
use tally_host::object::{Rows, SqlValue};
use tally_wire::messages::Fault;

/// WITHOUT ROWID: an upsert writes one row; a table with a separate index is billed as two.
const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS rows (kind INTEGER NOT NULL, start INTEGER NOT NULL, \
    body BLOB NOT NULL, PRIMARY KEY (kind, start)) WITHOUT ROWID",
    // By slot first: rows that are deleted together are adjacent, and a look-up checks at most six slots.
    "CREATE TABLE IF NOT EXISTS ledger (slot INTEGER NOT NULL, key BLOB NOT NULL, body BLOB NOT NULL, \
    PRIMARY KEY (slot, key)) WITHOUT ROWID",
];

/// The rows of a cell.
pub(crate) enum CellRows {
    /// In an object of its own.
    Own(OwnRows),
    /// In a tablet.
    Hosted(HostedRows),
}

/// The rows of a cell that has an object of its own. The tables are created by the first write and deleted with the
/// last generation, so that an object that was only read stores nothing.
pub(crate) struct OwnRows {
    store: Store,
    has_schema: Cell<bool>,
}

impl OwnRows {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            has_schema: Cell::new(false),
        }
    }

    /// Whether there are tables that this build knows.
    fn open(&self) -> Result<bool, Fault> {
        let has_schema = self.store.has_schema()?;
        self.has_schema.set(has_schema);
        Ok(has_schema)
    }

    fn create(&self) -> Result<(), Fault> {
        if !self.has_schema.get() {
            self.store.create_schema(SCHEMA)?;
            self.has_schema.set(true);
        }
        Ok(())
    }

    pub(crate) fn run(&self, statement: &str, values: Vec<SqlValue>) -> Result<Rows, Fault> {
        self.store.run(statement, values)
    }

    pub(crate) fn put(&self, kind: i32, start: i64, body: &[u8]) -> Result<(), Fault> {
        let body = framed(body);
        self.run(
            "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT (kind, start) DO UPDATE SET body = excluded.body",
            vec![kind.into(), start.into(), body],
        )
        .map(|_| ())
    }

    fn first_body(&self, statement: &str, values: Vec<SqlValue>) -> Result<Option<Vec<u8>>, Fault> {
        let rows = self.run(statement, values)?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.body(body)).transpose()
    }

    pub(crate) fn body(&self, body: &SqlValue) -> Result<Vec<u8>, Fault> {
        Ok(self.store.body(body)?.to_vec())
    }

    /// The damaged rows.
    pub(super) fn damaged(&self) -> Result<Vec<DamagedRow>, Fault> {
        if !self.open()? {
            return Ok(Vec::new());
        }
        let first = (-WHOLE_MAX, -WHOLE_MAX);
        let rows = damaged_in(&self.store, first, |(kind, start), limit| {
            let statement = "SELECT kind, start, body FROM rows WHERE (kind, start) > (?, ?) ORDER BY kind, start LIMIT ?";
            let values = vec![(*kind).into(), (*start).into(), limit.into()];
            let rows = self.run(statement, values)?;
            Ok(rows.iter().filter_map(|row| placed(row)).collect())
        })?;
        let records = damaged_in(
            &self.store,
            (-WHOLE_MAX, Vec::new()),
            |(slot, key), limit| {
                let statement = "SELECT slot, key, body FROM ledger WHERE (slot, key) > (?, ?) ORDER BY slot, key LIMIT ?";
                let values = vec![(*slot).into(), key.clone().into(), limit.into()];
                let rows = self.run(statement, values)?;
                let read = |row: &Vec<SqlValue>| {
                    let (slot, rest) = row.split_first()?;
                    let (key, body) = named(rest)?;
                    Some(((integer(slot)?, key), body))
                };
                Ok(rows.iter().filter_map(read).collect())
            },
        )?;
        let rows = rows.into_iter().map(|(kind, start)| DamagedRow {
            kind: u8::try_from(kind).unwrap_or(LEDGER),
            start,
            name: Vec::new(),
        });
        let records = records.into_iter().map(|(slot, key)| DamagedRow {
            kind: LEDGER,
            start: slot,
            name: key,
        });
        Ok(rows.chain(records).collect())
    }

    /// Deletes a damaged row.
    pub(super) fn drop_damaged(&self, row: &DamagedRow) -> Result<(), Fault> {
        let deleted = match row.kind {
            LEDGER => self.run(
                "DELETE FROM ledger WHERE slot = ? AND key = ?",
                vec![row.start.into(), row.name.clone().into()],
            ),
            kind => self.run(
                "DELETE FROM rows WHERE kind = ? AND start = ?",
                vec![i32::from(kind).into(), row.start.into()],
            ),
        };
        deleted.map(drop)
    }

    pub(crate) fn clear(&self) -> Result<(), Fault> {
        self.run("DELETE FROM rows", vec![])?;
        self.run("DELETE FROM ledger", vec![]).map(|_| ())
    }
}

impl CellRows {
    /// Checks what is stored; returns whether there is anything.
    ///
    /// # Errors
    /// `Unreadable` for rows that this build cannot read.
    pub(super) fn open(&self) -> Result<bool, Fault> {
        match self {
            Self::Own(own) => own.open(),
            Self::Hosted(hosted) => hosted.open(),
        }
    }

    /// The cell has been read: drops the rows that were read ahead for it.
    pub(crate) fn is_read(&self) {
        if let Self::Hosted(hosted) = self {
            hosted.is_read();
        }
    }

    /// Whether there may be rows.
    pub(super) fn has_schema(&self) -> bool {
        match self {
            Self::Own(own) => own.has_schema.get(),
            Self::Hosted(hosted) => hosted.may_hold(),
        }
    }

    /// Creates the tables if needed.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn create(&self) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own.create(),
            Self::Hosted(hosted) => {
                hosted.begin();
                Ok(())
            }
        }
    }

    /// Does several writes as one: all or none.
    ///
    /// # Errors
    /// The error of the write that failed.
    pub(super) fn atomically(
        &self,
        mut body: impl FnMut() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own.store.atomically(body),
            Self::Hosted(hosted) => hosted.tablet().turn(&mut body),
        }
    }

    pub(super) fn get(&self, kind: Kind, start: i64) -> Result<Option<Vec<u8>>, Fault> {
        match self {
            Self::Own(own) => own.first_body(
                "SELECT body FROM rows WHERE kind = ? AND start = ?",
                vec![kind.number().into(), start.into()],
            ),
            Self::Hosted(hosted) => hosted.get(kind.number(), start),
        }
    }

    pub(super) fn put(&self, kind: Kind, start: i64, body: Vec<u8>) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own.put(kind.number(), start, &body),
            Self::Hosted(hosted) => hosted.put(kind.number(), start, body),
        }
    }

    pub(super) fn delete(&self, kind: Kind, start: i64) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own
                .run(
                    "DELETE FROM rows WHERE kind = ? AND start = ?",
                    vec![kind.number().into(), start.into()],
                )
                .map(|_| ()),
            Self::Hosted(hosted) => hosted.delete(kind.number(), start),
        }
    }

    /// The rows of a kind with starts in `from..before`, in order, with their starts.
    pub(super) fn between(
        &self,
        kind: Kind,
        (from, before): (i64, i64),
    ) -> Result<Vec<(i64, Vec<u8>)>, Fault> {
        match self {
            Self::Own(own) => {
                let rows = own.run(
                    "SELECT start, body FROM rows WHERE kind = ? AND start >= ? AND start < ?",
                    vec![kind.number().into(), from.into(), before.into()],
                )?;
                let read = |row: &Vec<SqlValue>| match row.as_slice() {
                    [start, body] => {
                        let start = integer(start)?;
                        Some(own.body(body).map(|body| (start, body)))
                    }
                    _ => None,
                };
                rows.iter().filter_map(read).collect()
            }
            Self::Hosted(hosted) => hosted.between(kind.number(), (from, before)),
        }
    }

    /// The first start of a row of a kind at or after `from`.
    pub(super) fn first_from(&self, kind: Kind, from: i64) -> Result<Option<i64>, Fault> {
        match self {
            Self::Own(own) => {
                let rows = own.run(
                    "SELECT start FROM rows WHERE kind = ? AND start >= ? ORDER BY start LIMIT 1",
                    vec![kind.number().into(), from.into()],
                )?;
                Ok(rows.first().and_then(|row| row.first()).and_then(integer))
            }
            Self::Hosted(hosted) => {
                let rows = hosted.between(kind.number(), (from, WHOLE_MAX))?;
                Ok(rows.first().map(|(start, _)| *start))
            }
        }
    }

    /// Deletes the rows of a kind with starts in `from..before`.
    pub(super) fn delete_between(
        &self,
        kind: Kind,
        (from, before): (i64, i64),
    ) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own
                .run(
                    "DELETE FROM rows WHERE kind = ? AND start >= ? AND start < ?",
                    vec![kind.number().into(), from.into(), before.into()],
                )
                .map(|_| ()),
            Self::Hosted(hosted) => hosted.delete_between(kind.number(), (from, before)),
        }
    }

    /// Deletes the rows of all kinds except these, and the ledger.
    pub(super) fn keep_only(&self, kinds: [Kind; 2]) -> Result<(), Fault> {
        match self {
            Self::Own(own) => {
                own.run(
                    "DELETE FROM rows WHERE kind NOT IN (?, ?)",
                    kinds.map(|kind| kind.number().into()).to_vec(),
                )?;
                own.run("DELETE FROM ledger", vec![]).map(|_| ())
            }
            Self::Hosted(hosted) => hosted.keep_only(kinds.map(Kind::number)),
        }
    }

    /// A row of the ledger.
    pub(super) fn record(&self, slot: i64, key: WriteKey) -> Result<Option<Vec<u8>>, Fault> {
        match self {
            Self::Own(own) => own.first_body(
                "SELECT body FROM ledger WHERE slot = ? AND key = ?",
                vec![slot.into(), key.0.to_vec().into()],
            ),
            Self::Hosted(hosted) => hosted.record(slot, key),
        }
    }

    /// Writes a row of the ledger.
    pub(crate) fn put_record(&self, slot: i64, key: WriteKey, body: Vec<u8>) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own
                .run(
                    "INSERT INTO ledger VALUES (?, ?, ?) ON CONFLICT (slot, key) DO UPDATE SET body = excluded.body",
                    vec![slot.into(), key.0.to_vec().into(), framed(&body)],
                )
                .map(|_| ()),
            Self::Hosted(hosted) => hosted.put_record(slot, key, body),
        }
    }

    /// Writes a row of the ledger in place of one in another slot.
    pub(super) fn move_record(
        &self,
        (replaced, slot): (i64, i64),
        key: WriteKey,
        body: Vec<u8>,
    ) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own
                .run(
                    "UPDATE ledger SET slot = ?, body = ? WHERE slot = ? AND key = ?",
                    vec![
                        slot.into(),
                        framed(&body),
                        replaced.into(),
                        key.0.to_vec().into(),
                    ],
                )
                .map(|_| ()),
            Self::Hosted(hosted) => {
                hosted.delete_record(replaced, key)?;
                hosted.put_record(slot, key, body)
            }
        }
    }

    /// Whether the ledger has rows.
    pub(super) fn has_records(&self) -> Result<bool, Fault> {
        match self {
            Self::Own(own) => Ok(!own.run("SELECT 1 FROM ledger LIMIT 1", vec![])?.is_empty()),
            Self::Hosted(hosted) => hosted.has_records(),
        }
    }

    /// Deletes the rows of the ledger up to a slot.
    pub(super) fn delete_records(&self, newest: i64) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own
                .run("DELETE FROM ledger WHERE slot <= ?", vec![newest.into()])
                .map(|_| ()),
            Self::Hosted(hosted) => hosted.delete_records(newest),
        }
    }

    /// Waits until all former writes are durable.
    ///
    /// # Errors
    /// `Unavailable` where they will not be.
    pub(super) async fn sync(&self) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own.store.sync().await,
            Self::Hosted(hosted) => hosted.tablet().sync().await,
        }
    }

    /// Sets the cell's alarm, unix milliseconds, unless there is an earlier one.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) async fn set_alarm(&self, at_ms: i64) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own.store.set_alarm_by(at_ms).await,
            Self::Hosted(hosted) => hosted.set_alarm_by(at_ms).await,
        }
    }

    /// Records when the cell's alarm must ring, in the commit of this turn if possible. Returns the time to pass to
    /// [`CellRows::finish_alarm`], if any.
    pub(super) fn begin_alarm(&self, at_ms: i64) -> Option<i64> {
        match self {
            Self::Own(_) => Some(at_ms),
            Self::Hosted(hosted) => {
                // If it cannot be recorded, the rows that need it cannot be written either.
                let at_ms = hosted.record_alarm(at_ms).unwrap_or(at_ms);
                hosted.tablet().must_arm(at_ms).then_some(at_ms)
            }
        }
    }

    /// Sets the alarm of the object.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) async fn finish_alarm(&self, at_ms: i64) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own.store.set_alarm_by(at_ms).await,
            Self::Hosted(hosted) => hosted.tablet().set_armed(at_ms).await,
        }
    }

    /// Deletes the cell's storage.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) async fn delete_all(&self) -> Result<(), Fault> {
        match self {
            Self::Own(own) => {
                own.has_schema.set(false);
                own.store.delete_all().await
            }
            Self::Hosted(hosted) => hosted.delete_all(),
        }
    }
}
