//! Hours, days, weeks and months of a zone. A day begins at the first moment that has its date there, so it has 23 to
//! 25 hours.
//!
//! Invariant: a period ends where the next one begins.

use serde::{Deserialize, Serialize};

use super::zone::Zone;
use crate::calendar::{DAY, MINUTE, first_day, month_of};

/// The seconds of an hour and of a week.
const HOUR: i64 = 60 * MINUTE;
const WEEK: i64 = 7 * DAY;

/// The length of a board's periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// For ever.
    #[default]
    None,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A week, from Monday on.
    Week,
    /// A month.
    Month,
}

impl Period {
    /// When the period of a moment begins, and when the next one begins, unix seconds; `None` if there are no periods.
    /// Hours are those of the zone's standard time.
    pub fn bounds(self, now_ms: i64, zone: Zone) -> Option<(i64, i64)> {
        let now = now_ms.div_euclid(1_000);
        let local = zone.local(now);
        let floor = |length: i64, origin: i64| {
            let start = local - (local - origin).rem_euclid(length);
            (start, start.saturating_add(length))
        };
        let (start, end) = match self {
            Self::None => return None,
            Self::Hour => {
                let ahead = zone.standard_minutes() * MINUTE;
                let start = now - (now + ahead).rem_euclid(HOUR);
                return Some((start, start.saturating_add(HOUR)));
            }
            Self::Day => floor(DAY, 0),
            // 1970-01-05 was a Monday.
            Self::Week => floor(WEEK, 4 * DAY),
            Self::Month => {
                let month = month_of(local.div_euclid(DAY));
                (first_day(month) * DAY, first_day(month + 1) * DAY)
            }
        };
        Some((zone.first_at(start), zone.first_at(end)))
    }
}
