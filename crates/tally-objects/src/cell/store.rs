//! The contents of a cell's rows, and how they are read.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::row_kinds::Kind;
use super::rows::{CellRows, OwnRows};
use crate::kit::store::{Store, WHOLE_MAX};
use crate::tablet::hosted_rows::HostedRows;
use tally_core::counter::cell::{CellState, FlushRow};
use tally_core::counter::flush::Changes;
use tally_core::counter::history::Resolution;
use tally_core::sketch::Uniques;
use tally_host::object::Object;
use tally_wire::messages::{Fault, LeadPresence, decode, encode};
use tally_wire::names::CellAddress;

/// A cell, read from its rows.
#[derive(Default)]
pub struct LoadedCell {
    /// The cell.
    pub cell: CellState,
    /// Its address, if it has been stored.
    pub address: Option<CellAddress>,
    /// The state of a move of the lead, if any.
    pub presence: Option<LeadPresence>,
}

/// Starts of the rows of [`Kind::Address`]: the cell's address, and the lead's place.
const ADDRESS: i64 = 0;
const PRESENCE: i64 = 1;

/// The rows of a cell.
pub struct CellStore {
    pub(super) rows: CellRows,
}

impl CellStore {
    /// The rows of a cell with an object of its own.
    pub fn of_object(object: Object) -> Self {
        Self {
            rows: CellRows::Own(OwnRows::new(Store::new(object))),
        }
    }

    /// The rows of a cell in a tablet.
    pub(crate) fn of_tenant(rows: HostedRows) -> Self {
        Self {
            rows: CellRows::Hosted(rows),
        }
    }

    /// Reads the cell.
    ///
    /// # Errors
    /// `Broken` for rows that this build cannot read.
    pub fn load(&self) -> Result<LoadedCell, Fault> {
        let loaded = self.read();
        self.rows.is_read();
        loaded
    }

    fn read(&self) -> Result<LoadedCell, Fault> {
        let mut loaded = LoadedCell::default();
        if !self.rows.open()? {
            return Ok(loaded);
        }
        for (start, body) in self.all(Kind::Address)? {
            match start {
                PRESENCE => loaded.presence = Some(decode(&body)?),
                _ => loaded.address = Some(decode(&body)?),
            }
        }
        match loaded.presence {
            // Rows of an incomplete transfer are asked for again.
            Some(LeadPresence::Arriving) => {
                self.rows.atomically(|| self.rows.clear_bundle())?;
            }
            Some(LeadPresence::Leaving { .. }) => {}
            Some(LeadPresence::Here { .. }) | None => {
                loaded.cell = self.read_cell()?;
                return Ok(loaded);
            }
        }
        loaded.address = None;
        Ok(loaded)
    }

    fn read_cell(&self) -> Result<CellState, Fault> {
        let Some(hot) = self.get::<FlushRow>(Kind::Hot, 0)? else {
            let mut unborn = CellState::default();
            self.load_ledgers(&mut unborn)?;
            return Ok(unborn);
        };
        let mut pages = Vec::new();
        for step in Resolution::PAGED {
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
        let mut cell = CellState::restore(hot, pages, all_time, open, sealed);
        self.load_ledgers(&mut cell)?;
        Ok(cell)
    }

    /// Writes the changes of a flush; all or nothing.
    ///
    /// # Errors
    /// `Unavailable`; then nothing is written and the caller must load the cell again.
    pub fn write(&self, cell: &CellState, changes: &Changes, now: i64) -> Result<(), Fault> {
        if !changes.hot {
            return self.write_records(cell, changes);
        }
        let only_hot = changes.pages.is_empty()
            && changes.seconds.is_empty()
            && changes.seconds_from.is_none()
            && !changes.all_time
            && changes.minutes.is_empty()
            && changes.records.is_empty()
            && changes.numbers.is_empty()
            && changes.samples.is_empty()
            && changes.hour_samples.is_empty()
            && changes.breakdowns.is_empty()
            && changes.dimensions.is_empty();
        // A single row is atomic by itself.
        if only_hot
            && changes.late_tokens.is_empty()
            && changes.over.is_empty()
            && self.rows.has_schema()
        {
            return self.put(Kind::Hot, 0, &cell.hot_row());
        }
        self.create_schema()?;
        self.rows.atomically(|| {
            for &(step, page) in &changes.pages {
                let buckets = cell.page_row(step, page);
                if buckets.is_empty() {
                    self.delete(Kind::of_page(step), page)?;
                } else {
                    self.put(Kind::of_page(step), page, &buckets)?;
                }
            }
            self.put_seconds(changes)?;
            if changes.all_time {
                self.put_bytes(Kind::AllTime, 0, cell.all_time_row())?;
            }
            self.put_uniques(changes, now)?;
            self.merge_samples(changes, now)?;
            self.put_installed(changes)?;
            self.put_dimensions(cell, &changes.dimensions, now)?;
            self.put_records(cell, changes)?;
            self.put(Kind::Hot, 0, &cell.hot_row())
        })
    }

    /// Writes the hot row only.
    ///
    /// # Errors
    /// `Unavailable`, as [`CellStore::write`].
    pub fn write_hot(&self, cell: &CellState) -> Result<(), Fault> {
        self.create_schema()?;
        self.put(Kind::Hot, 0, &cell.hot_row())
    }

    /// Writes whether a shard is sealed, with its part; and the hot row with it.
    ///
    /// # Errors
    /// `Unavailable`, as [`CellStore::write`].
    pub fn write_sealed(&self, cell: &CellState, shard: u8) -> Result<(), Fault> {
        self.create_schema()?;
        self.rows.atomically(|| {
            match cell.sealed_part(shard) {
                Some(part) => self.put(Kind::Sealed, i64::from(shard), &part)?,
                None => self.delete(Kind::Sealed, i64::from(shard))?,
            }
            self.put(Kind::Hot, 0, &cell.hot_row())
        })
    }

    /// Writes the cell's address, once.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn write_address(&self, address: &CellAddress) -> Result<(), Fault> {
        self.create_schema()?;
        self.put(Kind::Address, ADDRESS, address)
    }

    /// Writes the lead's place.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn write_presence(&self, presence: &LeadPresence) -> Result<(), Fault> {
        self.create_schema()?;
        self.put(Kind::Address, PRESENCE, presence)
    }

    /// Replaces all rows by one with the shards that must still drop a generation.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn close(&self, generation: u64, shards: &[u8]) -> Result<(), Fault> {
        if !self.rows.has_schema() {
            return Ok(());
        }
        self.rows.atomically(|| {
            self.rows.keep_only([Kind::Address, Kind::Closing])?;
            shards
                .iter()
                .try_for_each(|shard| self.put(Kind::Closing, i64::from(*shard), &generation))
        })
    }

    /// The shards that must still drop a generation, with that generation.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn closing(&self) -> Result<Vec<(u8, u64)>, Fault> {
        if !self.rows.has_schema() {
            return Ok(Vec::new());
        }
        let rows = self.all(Kind::Closing)?;
        rows.iter()
            .map(|(shard, body)| Ok((u8::try_from(*shard).unwrap_or(0), decode(body)?)))
            .collect()
    }

    /// Records that a shard has dropped its generation.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn closed(&self, shard: u8) -> Result<(), Fault> {
        self.delete(Kind::Closing, i64::from(shard))
    }

    /// Waits until all former writes are durable.
    ///
    /// # Errors
    /// `Unavailable` where they will not be.
    pub(super) async fn sync(&self) -> Result<(), Fault> {
        self.rows.sync().await
    }

    /// Sets the cell's alarm, unix milliseconds, unless there is an earlier one.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) async fn set_alarm(&self, at_ms: i64) -> Result<(), Fault> {
        self.rows.set_alarm(at_ms).await
    }

    /// Deletes the cell's storage.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) async fn delete_all(&self) -> Result<(), Fault> {
        self.rows.delete_all().await
    }

    pub(super) fn create_schema(&self) -> Result<(), Fault> {
        self.rows.create()
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
        self.rows.get(kind, start)
    }

    pub(super) fn all(&self, kind: Kind) -> Result<Vec<(i64, Vec<u8>)>, Fault> {
        self.rows.between(kind, (-WHOLE_MAX, WHOLE_MAX))
    }

    pub(super) fn put<T: Serialize>(&self, kind: Kind, start: i64, value: &T) -> Result<(), Fault> {
        self.put_bytes(kind, start, encode(value)?)
    }

    pub(super) fn put_bytes(&self, kind: Kind, start: i64, body: Vec<u8>) -> Result<(), Fault> {
        self.rows.put(kind, start, body)
    }

    fn delete(&self, kind: Kind, start: i64) -> Result<(), Fault> {
        self.rows.delete(kind, start)
    }

    /// Passes the bodies of the rows of a kind with starts in `from..before` to `read`.
    pub(super) fn each_between(
        &self,
        kind: Kind,
        between: (i64, i64),
        mut read: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let rows = self.rows.between(kind, between)?;
        rows.iter().try_for_each(|(_, body)| read(body))
    }

    /// Deletes the rows of a kind with starts before `start`.
    pub(super) fn delete_before(&self, kind: Kind, start: i64) -> Result<(), Fault> {
        self.rows.delete_between(kind, (-WHOLE_MAX, start))
    }
}
