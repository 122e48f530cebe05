//! The cell of a home, with the records that it has written.

use std::collections::BTreeMap;

use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Changes, Load, Refusal};
use tally_core::counter::grant::{Grant, GrantOutcome};
use tally_core::counter::ledger::{
    KeySource, KeyedOutcome, KeyedWrite, RECORDS_MAX, StoredRecord, WriteKey,
};
use tally_core::counter::ledgers::LedgerLimits;
use tally_core::counter::merge::Question;
use tally_core::counter::nonces::Nonce;
use tally_core::counter::settings::Settings;
use tally_core::counter::total::{CellTotal, Sum, Value};

pub const NOW_MS: i64 = 1_777_593_630_000;
pub const LIMITS: LedgerLimits = LedgerLimits {
    keys: KeySource::Clients,
    kept_ms: 86_400_000,
    records_max: RECORDS_MAX,
};

pub fn value(number: i64) -> Value {
    let amount = Value::new(u128::from(number.unsigned_abs()), 0);
    if number < 0 { amount.negated() } else { amount }
}

pub fn number(value: Value) -> i64 {
    value.to_string().parse().expect("a small number")
}

/// The grant of a home, with what the value is besides what it counts itself.
pub fn home(revision: u64, rest: i64, floor: Option<i64>) -> Grant {
    Grant {
        generation: 1,
        settings: Settings {
            number: revision,
            shards: Some(1),
            floor: floor.map(value),
            ..Settings::default()
        },
        revision,
        alone: true,
        is_home: true,
        rest: value(rest),
        operations: revision,
        ..Grant::default()
    }
}

pub fn cell(grant: Grant) -> CellState {
    let mut cell = CellState::default();
    assert_eq!(cell.take_grant(grant, NOW_MS), GrantOutcome::Born);
    cell
}

pub fn keyed(number: u64, added: u128, removed: u128) -> KeyedWrite {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    KeyedWrite {
        added,
        removed,
        ..KeyedWrite::new(WriteKey(key), number)
    }
}

/// A cell with the records that it has written.
pub struct Shell {
    pub cell: CellState,
    pub records: BTreeMap<WriteKey, StoredRecord>,
}

impl Shell {
    pub fn new(grant: Grant) -> Self {
        Self {
            cell: cell(grant),
            records: BTreeMap::new(),
        }
    }

    pub fn count(&mut self, write: &KeyedWrite) -> Result<KeyedOutcome, Refusal> {
        self.count_moved(write, 0)
    }

    /// Counts a write whose claim has moved so often.
    pub fn count_moved(
        &mut self,
        write: &KeyedWrite,
        moves: impl Into<Option<u32>>,
    ) -> Result<KeyedOutcome, Refusal> {
        let mut changes = Changes::default();
        let known = |key: WriteKey| self.records.get(&key).copied();
        let only = std::slice::from_ref(write);
        let outcomes =
            (self.cell).apply_keyed(only, moves.into(), LIMITS, NOW_MS, &known, &mut changes)?;
        self.keep(changes);
        Ok(outcomes[0])
    }

    pub fn strike(&mut self, write: &KeyedWrite, moves: u32) -> KeyedOutcome {
        let mut changes = Changes::default();
        let known = |key: WriteKey| self.records.get(&key).copied();
        let only = std::slice::from_ref(write);
        let outcomes = (self.cell).strike(only, Some(moves), LIMITS, NOW_MS, &known, &mut changes);
        assert!(!changes.hot, "nothing is counted");
        self.keep(changes);
        outcomes[0]
    }

    pub fn keep(&mut self, changes: Changes) {
        for new in changes.records {
            let before = self.records.insert(new.key, new.kept);
            assert_eq!(before.map(|kept| kept.slot), new.replaces, "it lies there");
        }
    }

    pub fn flush(&mut self, number: u64, added: u128, removed: u128) -> Result<(), Refusal> {
        let load = Load {
            added,
            removed,
            ..Load::default()
        };
        let nonce = Nonce { lane: 1, number };
        (self.cell).apply(nonce, &load, NOW_MS).map(|_| ())
    }

    pub fn totals(&self) -> (u64, u128, u128) {
        let part = self.cell.answer(&Question::plain(1)).expect("it counts");
        let totals = part.cells[0].1;
        let low_bits = |total: CellTotal| Sum::from(total).low_bits();
        (
            totals.sequence,
            low_bits(totals.added),
            low_bits(totals.removed),
        )
    }
}

pub fn value_of(outcome: KeyedOutcome) -> i64 {
    match outcome {
        KeyedOutcome::Counted(recorded) => {
            assert!(recorded.is_exact);
            let (added, removed) = recorded.totals;
            number(Value::new(added, removed))
        }
        other => unreachable!("{other:?}"),
    }
}
