//! What a cell stores, for an explanation.
//!
//! Invariant: nothing is changed, and at most [`ROWS_MAX`] rows are read.

use super::row_kinds::name_of;
use super::store::CellStore;
use crate::tablet::row_names::start_of;
use tally_api::fields::moment_of;
use tally_api::public::{CellStorage, HeldBuckets, HeldSketch, StoredRows};
use tally_core::counter::cell::CellState;
use tally_core::counter::history::Resolution;
use tally_core::counter::ledger::KeySource;
use tally_wire::messages::{Fault, encode};

/// The most rows that an explanation reads: more than those of a counter with samples, unique elements and breakdowns
/// of all times, and 10,000 records of its ledger.
const ROWS_MAX: u64 = 20_000;

impl CellStore {
    /// What is stored, at rest. Cost: each row is read, up to [`ROWS_MAX`].
    ///
    /// # Errors
    /// `Unavailable`; `Unreadable` for a damaged row.
    pub fn explained(&self, cell: &CellState, now: i64) -> Result<Vec<u8>, Fault> {
        let mut all = CellStorage {
            is_complete: true,
            buckets: Resolution::ALL
                .map(|step| buckets_of(cell, step, now))
                .to_vec(),
            sketches: sketches_of(cell),
            records: [KeySource::Clients, KeySource::Drawn, KeySource::Public]
                .map(|keys| cell.ledger(keys).records()),
            ..CellStorage::default()
        };
        let mut after = self.rows.has_schema().then(Vec::new);
        while let Some(name) = after {
            let (page, next) = self.rows.page(&name)?;
            for (name, body) in &page {
                let start = start_of(name).unwrap_or(0);
                let (kind, is_timed) = name_of(name.first().copied().unwrap_or(u8::MAX));
                let at = is_timed.then(|| moment_of(start));
                add_row(&mut all.kinds, kind, at, body.len());
            }
            all.rows = all.kinds.iter().map(|kind| kind.rows).sum();
            all.is_complete = all.rows < ROWS_MAX || next.is_none();
            after = next.filter(|_| all.is_complete);
        }
        all.bytes = all.kinds.iter().map(|kind| kind.bytes).sum();
        encode(&all)
    }
}

/// Adds a row to those of its kind, which are together.
fn add_row(kinds: &mut Vec<StoredRows>, kind: &str, at: Option<i64>, bytes: usize) {
    if kinds.last().is_none_or(|last| last.kind != kind) {
        kinds.push(StoredRows {
            kind: kind.to_owned(),
            first_at: at,
            ..StoredRows::default()
        });
    }
    if let Some(last) = kinds.last_mut() {
        last.rows += 1;
        last.bytes += u64::try_from(bytes).unwrap_or(0);
        last.last_at = at;
    }
}

fn buckets_of(cell: &CellState, step: Resolution, now: i64) -> HeldBuckets {
    let (buckets, from, to) = cell.history().span(step);
    let is_open = to.is_some_and(|to| to >= step.start_of(now));
    HeldBuckets {
        seconds: step.seconds(),
        closed: u64::try_from(buckets).unwrap_or(0) - u64::from(is_open),
        is_open,
        first_at: from.map(moment_of),
        last_at: to.map(moment_of),
    }
}

fn sketches_of(cell: &CellState) -> Vec<HeldSketch> {
    let mut sketches = Vec::new();
    for (of, uniques) in cell.sketches() {
        for (_, sketch) in uniques.into_iter().flat_map(|uniques| uniques.parts()) {
            sketches.push(HeldSketch {
                of: of.to_owned(),
                is_dense: sketch.is_dense(),
                registers: sketch.registers_used(),
                bytes: u64::try_from(sketch.to_bytes().len()).unwrap_or(0),
            });
        }
    }
    sketches
}
