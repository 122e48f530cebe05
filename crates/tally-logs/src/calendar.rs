//! The Gregorian calendar: days are counted from 1970-01-01.

/// The seconds of a minute.
pub const MINUTE: i64 = 60;

/// The seconds of a day; unix time gives every day the same length.
pub const DAY: i64 = 24 * 60 * MINUTE;

/// The number of the month of a day: 12 for each year, from January. Months count from year 0, days from 1970-01-01.
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
pub fn month_of(day: i64) -> i64 {
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
pub fn first_day(month: i64) -> i64 {
    let since_march = month - 2;
    let (year, march_month) = (since_march.div_euclid(12), since_march.rem_euclid(12));
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * march_month + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
