//! A cell's rows: one table, (kind, start) → bytes. It is made by the first write and goes with the
//! last generation, so that an object that was only asked keeps nothing.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::store::{Store, blob, integer};
use crate::core::counter::cell::{Cell, Hot};
use crate::core::counter::flush::Changes;
use crate::core::counter::history::Step;
use crate::core::sketch::Uniques;
use crate::host::object::Value;
use crate::protocol::messages::{Fault, decode, encode};
use crate::protocol::names::CellAddress;

/// 2 added the ledger; since 3 sketches name their hash, since 4 there are hours and days of unique elements.
const SCHEMA_VERSION: i64 = 4;

/// Older rows cannot be read: nobody knows which hash their sketches are of.
const SCHEMA_VERSION_MIN: i64 = 4;

/// WITHOUT ROWID: an upsert writes one row, where a table with an index beside it bills two.
const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS rows (kind INTEGER NOT NULL, start INTEGER NOT NULL, \
    body BLOB NOT NULL, PRIMARY KEY (kind, start)) WITHOUT ROWID",
    // By slot first: what is let go lies together, and what is looked up in at most six places.
    "CREATE TABLE IF NOT EXISTS ledger (slot INTEGER NOT NULL, key BLOB NOT NULL, body BLOB NOT NULL, \
    PRIMARY KEY (slot, key)) WITHOUT ROWID",
];

/// Kinds of rows, a stored format: never renumbered.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Address,
    Hot,
    AllTime,
    MinutePage,
    HourPage,
    DayPage,
    MinuteUniques,
    /// A shard that must still drop a generation; start: shard, body: generation.
    Closing,
    /// A sealed shard's part that the lead keeps; start: shard.
    Sealed,
    /// How many records each slot of a ledger has; start: 0 that of clients' keys, 1 that of drawn ones.
    Ledger,
    /// Samples of a minute; start: its first second.
    Samples,
    /// Samples of an hour whose minutes are gone.
    HourSamples,
    /// Unique elements of an hour, and of a day, that are over; start: its first second.
    HourUniques,
    DayUniques,
}

impl Kind {
    pub(super) fn number(self) -> Value {
        let number: i32 = match self {
            Self::Address => 0,
            Self::Hot => 1,
            Self::AllTime => 2,
            Self::MinutePage => 3,
            Self::HourPage => 4,
            Self::DayPage => 5,
            Self::MinuteUniques => 6,
            Self::Closing => 7,
            Self::Sealed => 8,
            Self::Ledger => 9,
            Self::Samples => 10,
            Self::HourSamples => 11,
            Self::HourUniques => 12,
            Self::DayUniques => 13,
        };
        number.into()
    }

    fn of_page(step: Step) -> Self {
        match step {
            Step::Second | Step::Minute => Self::MinutePage,
            Step::Hour => Self::HourPage,
            Step::Day => Self::DayPage,
        }
    }

    pub(super) fn of_uniques(step: Step) -> Self {
        match step {
            Step::Second | Step::Minute => Self::MinuteUniques,
            Step::Hour => Self::HourUniques,
            Step::Day => Self::DayUniques,
        }
    }
}

/// The rows of a cell.
pub struct CellStore {
    pub(super) store: Store,
    pub(super) has_schema: std::cell::Cell<bool>,
}

impl CellStore {
    /// Opens a cell's rows and reads the cell, and its address if it has one.
    ///
    /// # Errors
    /// `Broken` for rows that this build cannot read.
    pub fn open(store: Store) -> (Self, Result<(Cell, Option<CellAddress>), Fault>) {
        let rows = Self {
            store,
            has_schema: std::cell::Cell::new(false),
        };
        let loaded = rows.load();
        (rows, loaded)
    }

    /// Reads the cell.
    ///
    /// # Errors
    /// As [`CellStore::open`].
    pub fn load(&self) -> Result<(Cell, Option<CellAddress>), Fault> {
        let version = self.store.schema_version(SCHEMA_VERSION)?;
        if let Some(version) = version.filter(|version| *version < SCHEMA_VERSION_MIN) {
            return Err(Fault::Broken(format!(
                "the stored schema has version {version}, whose unique elements are laid out otherwise; this build reads from {SCHEMA_VERSION_MIN} on: delete the data, or go back to the build that wrote it"
            )));
        }
        self.has_schema.set(version == Some(SCHEMA_VERSION));
        if version.is_none() {
            return Ok((Cell::default(), None));
        }
        // An older schema is completed before anything else is done.
        self.create_schema()?;
        let address = self.get::<CellAddress>(Kind::Address, 0)?;
        let Some(hot) = self.get::<Hot>(Kind::Hot, 0)? else {
            let mut unborn = Cell::default();
            self.load_ledgers(&mut unborn)?;
            return Ok((unborn, address));
        };
        let mut pages = Vec::new();
        for step in Step::PAGED {
            for (page, body) in self.all(Kind::of_page(step))? {
                pages.push((step, page, decode::<Vec<(i64, u128)>>(&body)?));
            }
        }
        let all_time = self.uniques(Kind::AllTime, 0)?;
        let open = match hot.open_minute() {
            Some(minute) => self.uniques(Kind::MinuteUniques, minute)?,
            None => Uniques::new(),
        };
        let mut sealed = BTreeMap::new();
        for (shard, body) in self.all(Kind::Sealed)? {
            sealed.insert(u8::try_from(shard).unwrap_or(0), decode(&body)?);
        }
        let mut cell = Cell::restore(hot, pages, all_time, open, sealed);
        self.load_ledgers(&mut cell)?;
        Ok((cell, address))
    }

    /// Writes what a flush changed; all or nothing.
    ///
    /// # Errors
    /// `Unavailable`; then nothing is written and the caller must load the cell again.
    pub fn write(&self, cell: &Cell, changes: &Changes, now: i64) -> Result<(), Fault> {
        if !changes.hot {
            return self.write_records(cell, changes);
        }
        let only_hot = changes.pages.is_empty()
            && !changes.all_time
            && changes.minutes.is_empty()
            && changes.records.is_empty()
            && changes.numbers.is_empty()
            && changes.samples.is_empty();
        // One row is atomic by itself.
        if only_hot
            && changes.late_tokens.is_empty()
            && changes.over.is_empty()
            && self.has_schema.get()
        {
            return self.put(Kind::Hot, 0, &cell.hot_row());
        }
        self.create_schema()?;
        self.store.atomically(|| {
            for &(step, page) in &changes.pages {
                let buckets = cell.page_row(step, page);
                if buckets.is_empty() {
                    self.delete(Kind::of_page(step), page)?;
                } else {
                    self.put(Kind::of_page(step), page, &buckets)?;
                }
            }
            if changes.all_time {
                self.put_bytes(Kind::AllTime, 0, cell.all_time_row())?;
            }
            self.put_uniques(changes, now)?;
            self.merge_samples(changes, now)?;
            self.put_records(cell, changes)?;
            self.put(Kind::Hot, 0, &cell.hot_row())
        })
    }

    /// Writes the hot row alone.
    ///
    /// # Errors
    /// `Unavailable`, as [`CellStore::write`].
    pub fn write_hot(&self, cell: &Cell) -> Result<(), Fault> {
        self.create_schema()?;
        self.put(Kind::Hot, 0, &cell.hot_row())
    }

    /// Writes that a shard is sealed, with its part, or is not any more; and the hot row with it.
    ///
    /// # Errors
    /// `Unavailable`, as [`CellStore::write`].
    pub fn write_sealed(&self, cell: &Cell, shard: u8) -> Result<(), Fault> {
        self.create_schema()?;
        self.store.atomically(|| {
            match cell.sealed_part(shard) {
                Some(part) => self.put(Kind::Sealed, i64::from(shard), &part)?,
                None => self.delete(Kind::Sealed, i64::from(shard))?,
            }
            self.put(Kind::Hot, 0, &cell.hot_row())
        })
    }

    /// Writes who the cell is, once.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn write_address(&self, address: &CellAddress) -> Result<(), Fault> {
        self.create_schema()?;
        self.put(Kind::Address, 0, address)
    }

    /// Replaces all that is stored by the note which shards must still drop a generation.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn close(&self, generation: u64, shards: &[u8]) -> Result<(), Fault> {
        if !self.has_schema.get() {
            return Ok(());
        }
        self.store.atomically(|| {
            self.store.run(
                "DELETE FROM rows WHERE kind NOT IN (?, ?)",
                vec![Kind::Address.number(), Kind::Closing.number()],
            )?;
            self.store.run("DELETE FROM ledger", vec![])?;
            shards
                .iter()
                .try_for_each(|shard| self.put(Kind::Closing, i64::from(*shard), &generation))
        })
    }

    /// Deletes an older generation's rows, before a new one writes its own.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn clear(&self) -> Result<(), Fault> {
        self.close(0, &[])
    }

    /// The shards that must still drop a generation, with that generation.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn closing(&self) -> Result<Vec<(u8, u64)>, Fault> {
        if !self.has_schema.get() {
            return Ok(Vec::new());
        }
        let rows = self.all(Kind::Closing)?;
        rows.iter()
            .map(|(shard, body)| Ok((u8::try_from(*shard).unwrap_or(0), decode(body)?)))
            .collect()
    }

    /// Notes that a shard has dropped its generation.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn closed(&self, shard: u8) -> Result<(), Fault> {
        self.delete(Kind::Closing, i64::from(shard))
    }

    /// Waits until all that was written so far is durable.
    ///
    /// # Errors
    /// `Unavailable` where it will not be.
    pub async fn sync(&self) -> Result<(), Fault> {
        self.store.sync().await
    }

    /// Sets the object's alarm, unix milliseconds, unless there is an earlier one.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn set_alarm(&self, at_ms: i64) -> Result<(), Fault> {
        self.store.set_alarm_by(at_ms).await
    }

    /// Gives the object's storage back.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn delete_all(&self) -> Result<(), Fault> {
        self.has_schema.set(false);
        self.store.delete_all().await
    }

    pub(super) fn create_schema(&self) -> Result<(), Fault> {
        if !self.has_schema.get() {
            self.store.create_schema(SCHEMA_VERSION, SCHEMA)?;
            self.has_schema.set(true);
        }
        Ok(())
    }

    pub(super) fn get<T: DeserializeOwned>(
        &self,
        kind: Kind,
        start: i64,
    ) -> Result<Option<T>, Fault> {
        self.get_bytes(kind, start)?
            .map(|body| decode(&body))
            .transpose()
    }

    pub(super) fn get_bytes(&self, kind: Kind, start: i64) -> Result<Option<Vec<u8>>, Fault> {
        let rows = self.store.run(
            "SELECT body FROM rows WHERE kind = ? AND start = ?",
            vec![kind.number(), start.into()],
        )?;
        Ok(rows
            .first()
            .and_then(|row| row.first())
            .and_then(blob)
            .map(<[u8]>::to_vec))
    }

    fn all(&self, kind: Kind) -> Result<Vec<(i64, Vec<u8>)>, Fault> {
        let rows = self.store.run(
            "SELECT start, body FROM rows WHERE kind = ?",
            vec![kind.number()],
        )?;
        let read = |row: &Vec<Value>| match row.as_slice() {
            [start, body] => Some((integer(start)?, blob(body)?.to_vec())),
            _ => None,
        };
        Ok(rows.iter().filter_map(read).collect())
    }

    pub(super) fn put<T: Serialize>(&self, kind: Kind, start: i64, value: &T) -> Result<(), Fault> {
        self.put_bytes(kind, start, encode(value)?)
    }

    pub(super) fn put_bytes(&self, kind: Kind, start: i64, body: Vec<u8>) -> Result<(), Fault> {
        self.store.run(
            "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT (kind, start) DO UPDATE SET body = excluded.body",
            vec![kind.number(), start.into(), body.into()],
        )?;
        Ok(())
    }

    fn delete(&self, kind: Kind, start: i64) -> Result<(), Fault> {
        self.store.run(
            "DELETE FROM rows WHERE kind = ? AND start = ?",
            vec![kind.number(), start.into()],
        )?;
        Ok(())
    }

    /// The bodies of the rows of a kind that begin in `from..before`, each handed to `read`.
    pub(super) fn each_between(
        &self,
        kind: Kind,
        (from, before): (i64, i64),
        mut read: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let rows = self.store.run(
            "SELECT body FROM rows WHERE kind = ? AND start >= ? AND start < ?",
            vec![kind.number(), from.into(), before.into()],
        )?;
        let mut bodies = rows.iter().filter_map(|row| row.first()).filter_map(blob);
        bodies.try_for_each(&mut read)
    }

    /// Deletes the rows of a kind that begin before `start`.
    pub(super) fn delete_before(&self, kind: Kind, start: i64) -> Result<(), Fault> {
        self.store.run(
            "DELETE FROM rows WHERE kind = ? AND start < ?",
            vec![kind.number(), start.into()],
        )?;
        Ok(())
    }
}
