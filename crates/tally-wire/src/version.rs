//! Versions: opaque strings for what a writer wrote or a reader saw.
//!
//! A version is a list of (datacenter, shard, generation, sequence): "at least this much of each of these cells". The
//! version of a write names one cell, that of a read all cells that it saw. Sequence 0 names a generation and no writes
//! of the cell.
//!
//! Invariant: what a read covers stays covered by every later read of the same cells, because sequences only grow
//! within a generation and generations only rise. So a reader that sends each version back never sees less than before.

use std::cmp::Ordering;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use tally_core::order::in_order;

use tally_core::counter::id::Datacenter;
use tally_core::counter::ledger::HomeCondition;
use tally_core::counter::merge::CellTotals;
use tally_core::sketch::{HashKey, hash};

/// First byte of an encoded version, and of one that names operations too.
const FORMAT: u8 = 1;
const FORMAT_WITH_OPERATIONS: u8 = 2;

/// No cell has this shard. In the home's datacenter it says that a read lacked counts from before the counter got its
/// home.
pub(crate) const SHORT: u8 = u8::MAX;

/// The longest version that is read: 340 datacenters of 64 shards of about 20 bytes, in base64.
pub const VERSION_BYTES_MAX: usize = 600_000;

/// Why a string is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// It is longer than [`VERSION_BYTES_MAX`].
    #[error("it is longer than {max} bytes", max = VERSION_BYTES_MAX)]
    TooLong,
    /// This service did not write it, or it is not complete.
    #[error("it is not a version of this service, or it is cut")]
    Foreign,
    /// It has this format, which this build does not know: another release may have written it.
    #[error(
        "its format is {0}, this release reads {plain} and {full}",
        plain = FORMAT,
        full = FORMAT_WITH_OPERATIONS
    )]
    Format(u8),
}

/// The writes of one cell that were seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeenCell {
    /// The cell's datacenter.
    pub datacenter: Datacenter,
    /// The cell's shard.
    pub shard: u8,
    /// The counter's generation.
    pub generation: u64,
    /// The number of flushes that were seen.
    pub sequence: u64,
}

/// A version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The number of operations (set, reset and moves of the home) of the newest generation in it.
    pub(crate) operations: u64,
    pub(crate) cells: Vec<SeenCell>,
}

impl Version {
    /// The version of these cells, in any order.
    pub fn of(cells: impl IntoIterator<Item = SeenCell>) -> Self {
        let cells = in_order(cells.into_iter().collect(), Ord::cmp);
        Self {
            operations: 0,
            cells,
        }
    }

    /// The version with so many operations.
    #[must_use]
    pub fn with_operations(self, operations: u64) -> Self {
        Self { operations, ..self }
    }

    /// Whether the read lacked what datacenters had counted before the counter got its home. A condition with such a
    /// version never holds: the home may be at this version, but the reader saw less than the value.
    pub fn is_short(&self) -> bool {
        self.cells.iter().any(|cell| cell.shard == SHORT)
    }

    /// Its part for one datacenter, and for the others only their generations: a read of that datacenter sees no more.
    #[must_use]
    pub fn only(self, datacenter: &Datacenter) -> Self {
        let operations = self.operations;
        Self::of(self.cells.into_iter().map(|cell| SeenCell {
            sequence: if cell.datacenter == *datacenter {
                cell.sequence
            } else {
                0
            },
            ..cell
        }))
        .with_operations(operations)
    }

    /// Its part for the cells of one datacenter, and nothing else.
    #[must_use]
    pub fn of_datacenter(&self, datacenter: &Datacenter) -> Self {
        let cells = self.cells.iter();
        Self::of(cells.filter(|cell| cell.datacenter == *datacenter).cloned())
    }

    /// Its part for the home's cells: the tag of a counter that has a home. If the home has counted nothing, this names
    /// only the generation, so that a counter that is created anew has another tag.
    #[must_use]
    pub fn of_home(&self, home: &Datacenter) -> Self {
        let mut part = self.of_datacenter(home);
        let newest = self.cells.iter().map(|cell| cell.generation).max();
        if let Some(generation) = newest.filter(|_| part.cells.is_empty()) {
            part.cells.push(SeenCell {
                datacenter: home.clone(),
                shard: 0,
                generation,
                sequence: 0,
            });
        }
        part.with_operations(self.operations)
    }

    /// Whether the home's cells, all of which have stopped, are at exactly this version. A shard that is not in the
    /// version must have counted nothing. The deciding cell knows of a shard only once it stores the shard's part.
    pub fn is_now(
        &self,
        home: &Datacenter,
        now: &HomeCondition,
        cells: &[(u8, CellTotals)],
    ) -> bool {
        let is_named = |(shard, totals): &(u8, CellTotals)| {
            let mut named = self.cells.iter();
            let named = named.find(|cell| cell.datacenter == *home && cell.shard == *shard);
            named.map_or(0, |cell| cell.sequence) == totals.sequence
        };
        !self.is_short() && self.at_home(home) == *now && cells.iter().all(is_named)
    }

    /// Its part for the deciding cell at home. If that cell is not in the version, it has counted nothing.
    pub fn at_home(&self, home: &Datacenter) -> HomeCondition {
        let own = |cell: &&SeenCell| cell.datacenter == *home && cell.shard == 0;
        let named = self.cells.iter().find(own);
        let newest = self.cells.iter().map(|cell| cell.generation).max();
        HomeCondition {
            home: home.clone(),
            generation: named.map_or(newest.unwrap_or(0), |cell| cell.generation),
            sequence: named.map_or(0, |cell| cell.sequence),
            operations: self.operations,
        }
    }

    /// The number of operations of its newest generation.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Whether a read with this version, while `generation` was current, has seen the required operations.
    pub(crate) fn has_operations_of(&self, generation: u64, required: &Version) -> bool {
        let newest = required.cells.iter().map(|cell| cell.generation).max();
        newest.is_none_or(|newest| newest < generation) || required.operations <= self.operations
    }

    /// The first cell of `required` that is not covered by a read with this version, made while `generation` was the
    /// counter's current one; `None` where it covers all.
    ///
    /// Counts of an older generation are gone for good, so the read covers them. A newer generation is not covered. A
    /// cell that did not answer is not in a read's version, and so is not covered either. Cost: a binary search for
    /// each cell. Where operations are missing, the result is the first cell.
    pub fn lacks<'a>(&self, generation: u64, required: &'a Version) -> Option<&'a SeenCell> {
        if !self.has_operations_of(generation, required) {
            return required.cells.first();
        }
        required
            .cells
            .iter()
            .find(|cell| match cell.generation.cmp(&generation) {
                Ordering::Less => false,
                Ordering::Equal => self.sequence_of(cell) < cell.sequence,
                Ordering::Greater => true,
            })
    }

    /// The sequence of a cell in the same generation; 0 where it is not in it.
    pub(crate) fn sequence_of(&self, cell: &SeenCell) -> u64 {
        fn cell_key(cell: &SeenCell) -> (&Datacenter, u8, u64) {
            (&cell.datacenter, cell.shard, cell.generation)
        }
        let after = self
            .cells
            .partition_point(|known| cell_key(known) <= cell_key(cell));
        let last = after.checked_sub(1).and_then(|index| self.cells.get(index));
        last.filter(|known| cell_key(known) == cell_key(cell))
            .map_or(0, |known| known.sequence)
    }

    /// Its cells, in order.
    pub fn cells(&self) -> &[SeenCell] {
        &self.cells
    }

    /// The opaque string, safe in URLs and headers.
    pub fn encode(&self) -> String {
        let mut bytes;
        let body = if self.operations == 0 {
            bytes = vec![FORMAT];
            postcard::to_allocvec(&self.cells)
        } else {
            bytes = vec![FORMAT_WITH_OPERATIONS];
            postcard::to_allocvec(self)
        };
        bytes.extend(body.unwrap_or_default());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads an opaque string.
    ///
    /// # Errors
    /// See [`VersionError`].
    pub fn decode(text: &str) -> Result<Self, VersionError> {
        if text.len() > VERSION_BYTES_MAX {
            return Err(VersionError::TooLong);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
        let (format, body) = bytes.split_first().ok_or(VersionError::Foreign)?;
        let version = match *format {
            FORMAT => postcard::from_bytes(body).map(|cells: Vec<SeenCell>| Self::of(cells)),
            FORMAT_WITH_OPERATIONS => postcard::from_bytes(body)
                .map(|version: Self| Self::of(version.cells).with_operations(version.operations)),
            other => return Err(VersionError::Format(other)),
        };
        let version = version.map_err(|_| VersionError::Foreign)?;
        // One version has one string. A string with further bytes, or another order of cells, was not written by Tally.
        let version = Some(version).filter(|version| version.encode() == text);
        version.ok_or(VersionError::Foreign)
    }

    /// A short tag of the version, for `ETag`: 16 hexadecimal digits.
    pub fn tag(&self) -> String {
        format!(
            "{:016x}",
            hash(&HashKey::from([0; 16]), self.encode().as_bytes())
        )
    }
}
