//! What was counted in a day or a week.

use serde::{Deserialize, Serialize};

/// A number of a day or a week, and of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestCount {
    /// The number.
    pub count: i64,
    /// Of the day or week before.
    pub before: i64,
}

/// What was counted in a day or a week. Stored. Up to 6 KB: ten ids of 512 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "CountDigest+")]
pub struct CountDigest {
    /// Its beginning, unix milliseconds.
    pub from_ms: i64,
    /// Its end, unix milliseconds.
    pub to_ms: i64,
    /// All increments; of a policy all checks.
    pub all: DigestCount,
    /// Of a policy: the refused checks.
    pub refused: Option<DigestCount>,
    /// Of a prefix: the counters that counted most.
    pub top: Vec<(String, DigestCount)>,
}
