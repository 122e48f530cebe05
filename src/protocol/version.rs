//! Versions: opaque strings that say what a writer wrote or a reader saw.
//!
//! A version is a list of (datacenter, shard, generation, sequence): "at least this much of each of
//! these cells". A write's names one cell, a read's all that it saw.

use crate::protocol::order::in_order;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::messages::Flushed;
use super::names::CellAddress;
use crate::counter::id::Datacenter;
use crate::sketch::{HashKey, hash};

/// First byte of an encoded version.
const FORMAT: u8 = 1;

/// The longest version that is read: 340 datacenters of 64 shards of about 20 bytes, in base64.
pub const VERSION_BYTES_MAX: usize = 600_000;

/// What was seen of one cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeenCell {
    /// The cell's datacenter.
    pub datacenter: Datacenter,
    /// The cell's shard.
    pub shard: u8,
    /// The counter's generation.
    pub generation: u64,
    /// The flushes that were seen.
    pub sequence: u64,
}

/// A version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    cells: Vec<SeenCell>,
}

impl Version {
    /// The version of these cells, in any order.
    pub fn of(cells: impl IntoIterator<Item = SeenCell>) -> Self {
        let cells = in_order(cells.into_iter().collect(), Ord::cmp);
        Self { cells }
    }

    /// The version of a write.
    pub fn of_write(cell: &CellAddress, flushed: &Flushed) -> Self {
        Self::of([SeenCell {
            datacenter: cell.datacenter.clone(),
            shard: cell.shard,
            generation: flushed.generation,
            sequence: flushed.outcome.sequence,
        }])
    }

    /// The cells it names, in order.
    pub fn cells(&self) -> &[SeenCell] {
        &self.cells
    }

    /// The opaque string, safe in URLs and headers.
    pub fn encode(&self) -> String {
        let mut bytes = vec![FORMAT];
        bytes.extend(postcard::to_allocvec(&self.cells).unwrap_or_default());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads an opaque string; `None` if it is not one of ours.
    pub fn decode(text: &str) -> Option<Self> {
        if text.len() > VERSION_BYTES_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (format, body) = bytes.split_first()?;
        let cells: Vec<SeenCell> =
            (*format == FORMAT).then(|| postcard::from_bytes(body).ok())??;
        // One version has one string: bytes after it, or cells in another order, are not ours.
        Some(Self::of(cells)).filter(|version| version.encode() == text)
    }

    /// A short tag of the version, for `ETag`: 16 hexadecimal digits.
    pub fn tag(&self) -> String {
        format!(
            "{:016x}",
            hash(&HashKey::from([0; 16]), self.encode().as_bytes())
        )
    }
}
