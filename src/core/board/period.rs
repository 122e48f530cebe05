//! Hours, days, weeks and months of a zone, which is a fixed distance from UTC.

use serde::{Deserialize, Serialize};

/// The seconds of an hour, a day and a week.
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// How far a zone may be from UTC, minutes: 14 hours, as the farthest is.
pub const ZONE_MINUTES_MAX: i32 = 14 * 60;

/// How long a board counts before it begins anew.
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
    /// When the period of a moment begins, and when the next one does: unix seconds; `None` where there are no periods.
    pub fn bounds(self, now_ms: i64, zone_minutes: i32) -> Option<(i64, i64)> {
        let zone = i64::from(zone_minutes) * 60;
        let local = now_ms.div_euclid(1_000).saturating_add(zone);
        let floor = |length: i64, origin: i64| {
            let start = local - (local - origin).rem_euclid(length);
            (start, start.saturating_add(length))
        };
        let (start, end) = match self {
            Self::None => return None,
            Self::Hour => floor(HOUR, 0),
            Self::Day => floor(DAY, 0),
            // 1970-01-05 was a Monday.
            Self::Week => floor(WEEK, 4 * DAY),
            Self::Month => {
                let month = month_of(local.div_euclid(DAY));
                (first_day(month) * DAY, first_day(month + 1) * DAY)
            }
        };
        Some((start - zone, end - zone))
    }
}

/// The number of the month of a day, months and days since year 0 and 1970-01-01.
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn month_of(day: i64) -> i64 {
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
fn first_day(month: i64) -> i64 {
    let since_march = month - 2;
    let (year, march_month) = (since_march.div_euclid(12), since_march.rem_euclid(12));
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * march_month + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
