//! What a cell stores, for `?explain=storage`.

use serde::{Deserialize, Serialize};

use crate::fields::Moment;

/// What a cell stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "CellStorage+")]
pub struct CellStorage {
    /// Rows that were counted; 20,000 are, and then the rest of the page.
    pub rows: u64,
    /// Their bytes, without names and checksums.
    pub bytes: u64,
    /// Whether these are all its rows.
    #[serde(rename = "complete")]
    pub is_complete: bool,
    /// The buckets of each width.
    pub buckets: Vec<HeldBuckets>,
    /// The sketches in memory: one for each hash and range of shards. Sketches of times that are over are rows.
    pub sketches: Vec<HeldSketch>,
    /// Records of keyed writes: by clients' keys, by drawn keys, and by keys of callers without an API key.
    pub records: [u64; 3],
    /// The rows by kind, in the order in which they are stored.
    pub kinds: Vec<StoredRows>,
}

/// The buckets of one width.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBuckets {
    /// The width: 1, 60, 3,600 or 86,400 seconds.
    pub seconds: i64,
    /// Buckets whose time is over. Only those with a count are stored.
    pub closed: u64,
    /// Whether the bucket of now has a count.
    #[serde(rename = "open")]
    pub is_open: bool,
    /// When the first begins.
    pub first_at: Option<Moment>,
    /// When the last begins.
    pub last_at: Option<Moment>,
}

/// A sketch of unique elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSketch {
    /// `all_time`, which lacks the open minute, or `open_minute`.
    pub of: String,
    /// Whether it is the dense form: 16,384 registers. Otherwise it is a list of at most 3,072 tokens.
    #[serde(rename = "dense")]
    pub is_dense: bool,
    /// Registers above 0; of a list those that the dense form would have.
    pub registers: u32,
    /// Its size when stored.
    pub bytes: u64,
}

/// The rows of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRows {
    /// `hot` is the row that each write changes.
    pub kind: String,
    /// How many there are.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the time of the first begins; `null` for kinds without times.
    pub first_at: Option<Moment>,
    /// When the time of the last begins.
    pub last_at: Option<Moment>,
}
