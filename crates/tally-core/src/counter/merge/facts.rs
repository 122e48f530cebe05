//! What a cell reports of itself beyond its totals.
//!
//! Invariant: [`CellFacts::join`] is commutative, associative and idempotent, as is the merge of a [`super::Vector`].
//!
//! Life: a cell changes its facts with each write and stores them in its hot row. One struct carries them on: in a part
//! to readers, in a report to the root, and back from there to a cell that is repaired. So a new fact is a field here,
//! and no other struct on the way changes.

use serde::{Deserialize, Serialize};

/// The facts of one cell, or of several cells together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename = "CellFacts+")]
pub struct CellFacts {
    /// Newest write, unix milliseconds; `i64::MIN` for none.
    pub last_write_ms: i64,
}

impl Default for CellFacts {
    fn default() -> Self {
        Self {
            last_write_ms: i64::MIN,
        }
    }
}

impl CellFacts {
    /// The facts of a cell that was written at `at_ms`, unix milliseconds.
    pub fn written(at_ms: i64) -> Self {
        Self {
            last_write_ms: at_ms,
        }
    }

    /// The facts of two cells together, or of one at two moments.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            last_write_ms: self.last_write_ms.max(other.last_write_ms),
        }
    }
}
