//! The setting of snapshots, and when runs are due.

use serde::Deserialize;

use super::date::DAY_MS;
use crate::names::DIRECTORY_PARTITIONS;

/// The value of the setting for no automatic snapshots.
pub const SNAPSHOTS_OFF: &str = "off";

/// The longest time between two full runs.
const FULL_EVERY_DAYS_MAX: i64 = 31;
/// The longest time for which all runs are kept: a hundred years.
const KEEP_DAYS_MAX: i64 = 36_500;

const HOUR_MS: i64 = 3_600_000;

/// The setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotPlan {
    /// The hour of the day in which runs begin, of UTC.
    pub hour: i64,
    /// Days from one full run to the next.
    pub full_every_days: i64,
    /// The number of days for which all runs are kept.
    pub keep_days: i64,
}

impl Default for SnapshotPlan {
    fn default() -> Self {
        Self {
            hour: 0,
            full_every_days: 7,
            keep_days: 400,
        }
    }
}

impl SnapshotPlan {
    /// Reads the setting; `None` for values that are not allowed, and for [`SNAPSHOTS_OFF`].
    pub fn parse(text: &str) -> Option<Self> {
        let plan: Self = serde_json::from_str(text).ok()?;
        let is_good = (0..24).contains(&plan.hour)
            && (1..=FULL_EVERY_DAYS_MAX).contains(&plan.full_every_days)
            && (1..=KEEP_DAYS_MAX).contains(&plan.keep_days);
        is_good.then_some(plan)
    }

    /// The time of a partition's first run after a moment, unix milliseconds: partitions are spread evenly over the
    /// hour.
    pub fn next_ms(self, partition: u32, after_ms: i64) -> i64 {
        let turn = i64::from(partition % DIRECTORY_PARTITIONS);
        let turn_ms = HOUR_MS / i64::from(DIRECTORY_PARTITIONS) * turn;
        let of_day_ms = self.hour * HOUR_MS + turn_ms;
        let days = (after_ms - of_day_ms).div_euclid(DAY_MS) + 1;
        days * DAY_MS + of_day_ms
    }
}
