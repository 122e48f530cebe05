//! How far a clock is off.

use serde::{Deserialize, Serialize};

use tally_core::counter::id::Datacenter;

/// The smallest offset at which a clock is reported as off, milliseconds. Readers take half of it for the same moment.
pub const CLOCK_OFF_MS: i64 = 100;

/// Bounds of a clock's offset from that of a partition, or from the median of all partitions, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Whose clock it is.
    pub datacenter: Datacenter,
    /// The lower bound; below 0 for a clock that is behind.
    pub from_ms: i64,
    /// The upper bound.
    pub to_ms: i64,
}

impl Clock {
    /// The bounds from one message: from when it left and was answered by this clock, and when it arrived by the
    /// partition's clock.
    pub fn by(
        datacenter: Datacenter,
        sent_ms: i64,
        answered_ms: i64,
        there_ms: i64,
    ) -> Option<Self> {
        (sent_ms <= answered_ms).then(|| Self {
            datacenter,
            from_ms: sent_ms.saturating_sub(there_ms),
            to_ms: answered_ms.saturating_sub(there_ms),
        })
    }

    /// The smallest possible size of the offset, milliseconds.
    pub fn surely_off_ms(&self) -> u64 {
        if self.from_ms <= 0 && self.to_ms >= 0 {
            return 0;
        }
        self.from_ms.unsigned_abs().min(self.to_ms.unsigned_abs())
    }

    /// The width of the bounds.
    pub fn width_ms(&self) -> u64 {
        self.to_ms.abs_diff(self.from_ms)
    }

    /// Returns whether the clock is reported as off.
    pub fn is_off(&self) -> bool {
        self.surely_off_ms() >= CLOCK_OFF_MS.unsigned_abs()
    }

    /// Returns whether this is more informative than the other: a larger certain offset, or else tighter bounds.
    pub(super) fn is_more_informative_than(&self, other: &Self) -> bool {
        let of = |clock: &Self| (clock.surely_off_ms(), std::cmp::Reverse(clock.width_ms()));
        of(self) > of(other)
    }
}
