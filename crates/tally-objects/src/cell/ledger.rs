//! The rows of a cell's ledger: (slot, key) → the record of a keyed write.
//!
//! Invariant: a record is written in the commit that counts its write, and is deleted with its slot. A key has one
//! record.

use super::row_kinds::Kind;
use super::store::CellStore;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::Changes;
use tally_core::counter::ledger::{
    DRAWN_KEPT_SECONDS, DRAWN_RECORDS_MAX, KeySource, Ledger, RECORDS_MAX, StoredRecord, WriteKey,
};
use tally_core::counter::ledgers::LedgerLimits;
use tally_core::counter::numbered_writes::{Numbers, slot_gone_before, slot_of};
use tally_host::{Host, State};
use tally_wire::messages::{Fault, decode, encode};
use tally_wire::names::IDEMPOTENCY_SECONDS;

/// The numbers of the rows that count the records of each ledger. Stored names.
const LEDGERS: [(i64, KeySource); 3] = [
    (0, KeySource::Clients),
    (1, KeySource::Drawn),
    (2, KeySource::Public),
];

impl CellStore {
    /// Writes only records, of writes that are not counted.
    pub(super) fn write_records(&self, cell: &CellState, changes: &Changes) -> Result<(), Fault> {
        if changes.records.is_empty() && changes.numbers.is_empty() {
            return Ok(());
        }
        self.create_schema()?;
        self.rows.atomically(|| self.put_records(cell, changes))
    }

    /// Writes the records of a commit, and their new number.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn put_records(&self, cell: &CellState, changes: &Changes) -> Result<(), Fault> {
        for new in &changes.records {
            let StoredRecord { slot, record } = &new.kept;
            let body = encode(record)?;
            match new.replaces {
                None => self.rows.put_record(*slot, new.key, body)?,
                Some(replaced) => self.rows.move_record((replaced, *slot), new.key, body)?,
            }
        }
        for (lane, numbers) in &changes.numbers {
            if numbers.are_new() {
                // Old lanes are deleted when new ones begin.
                self.rows.delete_records(slot_gone_before(*lane))?;
            }
            let body = encode(numbers)?;
            self.rows.put_record(slot_of(*lane), *lane, body)?;
        }
        if changes.records.iter().any(|new| new.replaces.is_some()) {
            // It may have been in another ledger.
            return self.put_ledgers(cell);
        }
        let mut own = LEDGERS.iter().filter(|(_, keys)| *keys == changes.keys);
        match own.next().filter(|_| !changes.records.is_empty()) {
            Some((start, keys)) => self.put(Kind::Ledger, *start, cell.ledger(*keys)),
            None => Ok(()),
        }
    }

    fn put_ledgers(&self, cell: &CellState) -> Result<(), Fault> {
        let mut all = LEDGERS.iter();
        all.try_for_each(|(start, keys)| self.put(Kind::Ledger, *start, cell.ledger(*keys)))
    }

    /// Loads the counts of all ledgers.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn load_ledgers(&self, cell: &mut CellState) -> Result<(), Fault> {
        for (start, keys) in LEDGERS {
            let ledger: Option<Ledger> = self.get(Kind::Ledger, start)?;
            cell.restore_ledger(keys, ledger.unwrap_or_default());
        }
        if self.rows.has_records()? {
            cell.restore_numbers();
        }
        Ok(())
    }

    /// The decided numbers of a lane.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn numbers(&self, lane: WriteKey) -> Result<Numbers, Fault> {
        if !self.rows.has_schema() {
            return Ok(Numbers::default());
        }
        let body = self.rows.record(slot_of(lane), lane)?;
        body.map_or_else(|| Ok(Numbers::default()), |body| decode(&body))
    }

    /// The record of a keyed write, if there is one in these slots. Cost: a look-up for each slot.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn record(&self, slots: &[i64], key: WriteKey) -> Result<Option<StoredRecord>, Fault> {
        for &slot in slots {
            if let Some(body) = self.rows.record(slot, key)? {
                let record = decode(&body)?;
                return Ok(Some(StoredRecord { slot, record }));
            }
        }
        Ok(None)
    }

    /// Deletes the records of a slot and of those before it.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn delete_records(&self, newest: i64, cell: &CellState) -> Result<(), Fault> {
        self.rows.atomically(|| {
            self.rows.delete_records(newest)?;
            self.put_ledgers(cell)
        })
    }
}

/// How long keys are kept, milliseconds.
pub(crate) fn kept_ms(host: &Host) -> i64 {
    let seconds: Option<i64> = host.number(IDEMPOTENCY_SECONDS);
    seconds.unwrap_or(KEPT_SECONDS) * 1_000
}

/// The limits of ledgers. An isolate reads them once, because reading a variable is a call into JavaScript.
struct SetLimits(LedgerLimits);

impl State for SetLimits {
    fn begin(host: &Host) -> Self {
        Self(LedgerLimits {
            kept_ms: kept_ms(host),
            records_max: RECORDS_MAX,
            keys: KeySource::Clients,
        })
    }
}

/// The limits of a cell's ledger.
pub(crate) fn ledger_limits(host: &Host) -> LedgerLimits {
    host.state::<SetLimits>().0
}

/// The limits of a cell's ledger of drawn keys, independent of the deployment's settings.
pub(super) const DRAWN: LedgerLimits = LedgerLimits {
    kept_ms: DRAWN_KEPT_SECONDS.cast_signed() * 1_000,
    records_max: DRAWN_RECORDS_MAX,
    keys: KeySource::Drawn,
};

/// How long keys are kept by default, seconds: a day.
const KEPT_SECONDS: i64 = 86_400;
