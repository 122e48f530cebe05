//! Days: `2026-11-01`, in UTC.

use tally_core::calendar::{first_day, month_of};

/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;

/// The day of a moment, counted from 1970-01-01.
pub fn day_of_ms(at_ms: i64) -> i64 {
    at_ms.div_euclid(DAY_MS)
}

/// A day in answers.
pub fn date_of(day: i64) -> String {
    let month = month_of(day);
    let (year, of_year) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    format!("{year:04}-{of_year:02}-{:02}", day - first_day(month) + 1)
}
