//! The database sizes of objects, as reported to a partition of the directory.
//!
//! Invariant: a row is written only if a size has changed by an eighth. The sums are computed at most once a minute.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::store::{Store, integer, text};
use crate::cell::object::KIND;
use tally_host::Host;
use tally_wire::fleet::{CELLS_SAMPLED, StoredSizes};
use tally_wire::messages::{Fault, ReportSizes};

/// One object of this kind in so many reports its size.
pub(super) fn sampled(kind: &str) -> u64 {
    if kind == KIND { CELLS_SAMPLED } else { 1 }
}

const SIZES_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS sizes (object INTEGER PRIMARY KEY, kind TEXT NOT NULL, bytes INTEGER NOT NULL)";

/// Sizes that differ by less than this part count as equal.
const PART: u64 = 8;

/// How long sums are used, milliseconds.
const SUM_EVERY_MS: i64 = 60_000;

/// Sums by kind, and when they were computed, unix milliseconds.
type Summed = (i64, Vec<(String, StoredSizes)>);

/// The rows of a partition.
pub(crate) struct ObjectSizes {
    host: Host,
    store: Store,
    has_table: Cell<bool>,
    summed: RefCell<Option<Summed>>,
}

/// Whether a size differs from a known one.
pub(super) fn differs(bytes: u64, known: u64) -> bool {
    bytes.abs_diff(known) > known / PART
}

impl ObjectSizes {
    /// The sizes in an object's database.
    pub(crate) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
            has_table: Cell::default(),
            summed: RefCell::default(),
        }
    }

    /// Stores the sizes of some objects.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(crate) fn take(&self, report: &ReportSizes) -> Result<(), Fault> {
        if !self.has_table.get() {
            self.store.run(SIZES_SCHEMA, vec![])?;
            self.has_table.set(true);
        }
        for size in &report.sizes {
            let object = i64::try_from(size.object).unwrap_or(0);
            let bytes = i64::try_from(size.bytes).unwrap_or(i64::MAX);
            let sql = "SELECT bytes FROM sizes WHERE object = ?";
            let rows = self.store.run(sql, vec![object.into()])?;
            let known = rows.first().and_then(|row| row.first()).and_then(integer);
            let known = known.and_then(|known| u64::try_from(known).ok());
            if !differs(size.bytes, known.unwrap_or(0)) {
                continue;
            }
            self.store.run(
                "INSERT INTO sizes VALUES (?, ?, ?) ON CONFLICT (object) DO UPDATE SET bytes = excluded.bytes",
                vec![object.into(), size.kind.as_str().into(), bytes.into()],
            )?;
        }
        Ok(())
    }

    /// The sums by kind.
    pub(crate) fn sum(&self) -> Result<Vec<(String, StoredSizes)>, Fault> {
        let now_ms = self.host.now_ms();
        if let Some((at_ms, sums)) = &*self.summed.borrow()
            && (0..SUM_EVERY_MS).contains(&(now_ms - at_ms))
        {
            return Ok(sums.clone());
        }
        if !self.has_table.get() {
            let sql = "SELECT 1 FROM sqlite_master WHERE name = 'sizes'";
            self.has_table.set(!self.store.run(sql, vec![])?.is_empty());
        }
        if !self.has_table.get() {
            return Ok(Vec::new());
        }
        // Squares are in KiB: for a hundred thousand databases of 10 GB they add up to 10^19, and for one of 10 GB to
        // 10^14.
        let sql = "SELECT kind, COUNT(*), CAST(SUM(bytes) AS TEXT), CAST(SUM((bytes >> 10) * (bytes >> 10)) AS TEXT) FROM sizes GROUP BY kind";
        let rows = self.store.run(sql, vec![])?;
        let mut sums = BTreeMap::new();
        for row in &rows {
            let [kind, objects, bytes, squares] = row.as_slice() else {
                continue;
            };
            let Some(kind) = text(kind) else { continue };
            let number = |value| text(value).and_then(|text| text.parse::<u64>().ok());
            let objects = integer(objects).and_then(|count| u64::try_from(count).ok());
            let (objects, bytes) = (objects.unwrap_or(0), number(bytes).unwrap_or(0));
            // Each reporting object stands for so many: Horvitz and Thompson 1952.
            let of = sampled(kind);
            let squares = u128::from(number(squares).unwrap_or(0)) << 20;
            let stored = StoredSizes {
                objects: objects * of,
                bytes: bytes.saturating_mul(of),
                variance: squares * u128::from(of * (of - 1)),
            };
            sums.insert(kind.to_owned(), stored);
        }
        let sums: Vec<_> = sums.into_iter().collect();
        self.summed.replace(Some((now_ms, sums.clone())));
        Ok(sums)
    }
}
