//! A cell whose rows are stored as those of an object: it commits flushes and keyed writes, and may crash.

use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Changes, Load, Refusal};
use tally_core::counter::grant::Grant;
use tally_core::counter::ledger::{KeySource, KeyedWrite, WriteKey};
use tally_core::counter::ledgers::LedgerLimits;
use tally_core::counter::nonces::Nonce;

use super::rows::Rows;

/// What lets a cell count alone, for generation 7.
pub fn grant() -> Grant {
    Grant {
        generation: 7,
        alone: true,
        spread: 1,
        ..Grant::default()
    }
}

/// A cell and its rows.
pub struct StoredCell {
    pub cell: CellState,
    pub rows: Rows,
    /// The cell's clock, unix seconds.
    pub now: i64,
    limits: LedgerLimits,
}

impl StoredCell {
    /// A cell that counts alone from `now` on; its records are kept so long, milliseconds.
    pub fn new(now: i64, kept_ms: i64) -> Self {
        let mut cell = CellState::default();
        cell.take_grant(grant(), now * 1_000);
        let rows = Rows::default();
        rows.write_hot(&cell);
        let limits = LedgerLimits {
            keys: KeySource::Clients,
            kept_ms,
            records_max: 1_000,
        };
        Self {
            cell,
            rows,
            now,
            limits,
        }
    }

    /// Only what was stored is left.
    pub fn crash(&mut self) {
        self.cell = self.rows.load();
    }

    /// A commit of these flushes together.
    pub fn flush(&mut self, flushes: &[(Nonce, Load)]) {
        let mut changes = Changes::default();
        for (nonce, load) in flushes {
            let applied = (self.cell).apply_in(*nonce, load, self.now * 1_000, &mut changes);
            // One that is long past is a stray, and counts as little.
            assert!(
                matches!(applied, Ok(_) | Err(Refusal::Stray)),
                "{applied:?}"
            );
        }
        self.rows.write(&self.cell, &changes, self.now);
    }

    /// A commit of these keyed writes together.
    pub fn count(&mut self, writes: &[KeyedWrite]) {
        let mut changes = Changes::default();
        let ledger = self.cell.record_slots(KeySource::Clients);
        let known = |key: WriteKey| self.rows.record(&ledger, key);
        let now_ms = self.now * 1_000;
        let counted =
            self.cell
                .apply_keyed(writes, Some(0), self.limits, now_ms, &known, &mut changes);
        assert!(counted.is_ok_and(|all| all.iter().all(|one| one.is_counted())));
        self.rows.write(&self.cell, &changes, self.now);
    }
}
