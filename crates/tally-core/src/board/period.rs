//! Hours, days, weeks and months of a zone. A day begins at the first moment that has its date there, so it has 23 to
//! 25 hours.
//!
//! Invariant: a period ends where the next one begins.

use serde::{Deserialize, Serialize};

use super::zone::Zone;

/// The seconds of a minute, an hour, a day and a week.
pub(super) const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
pub(super) const DAY: i64 = 24 * HOUR;
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

/// The number of the month of a day: 12 for each year, from January. Months count from year 0, days from 1970-01-01.
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
pub(super) fn month_of(day: i64) -> i64 {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Years begin in March here.
    let march_month = (5 * of_year + 2) / 153;
    (era * 400 + year) * 12 + march_month + 2
}

/// The first day of a month, as [`month_of`] numbers both. Source: as there, `days_from_civil`.
pub(super) fn first_day(month: i64) -> i64 {
    let since_march = month - 2;
    let (year, march_month) = (since_march.div_euclid(12), since_march.rem_euclid(12));
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * march_month + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
