//! What a counter amounts to in an order: as SQL over its row of the totals, and from what is known of it.

use tally_core::counter::id::{BEFORE_CALLERS, CounterId};
use tally_core::counter::total::Value;
use tally_wire::messages::{KnownTotal, OrderBy, TopOrder, TopRow, WindowStart};

/// The number of stored beginnings of hours: the current one and the 24 before, so that a day of seconds is covered,
/// and one more for differences of clocks.
pub(super) const HOURS_KEPT: i64 = 26;

/// The number of stored beginnings of days: today and the 29 before, and one more for differences of clocks.
pub(super) const DAYS_KEPT: i64 = 31;

/// Hours of a day.
pub(super) const DAY_HOURS: i64 = 24;

/// The bound of [`Value::within_62_bits`].
pub(super) const WITHIN_MAX: i64 = 1 << 62;

/// The size of 2^62: an amount of this size or more is only in its row's body.
pub(super) const WIDE_SIZE: i32 = 8 * 62 + 1;

/// The amount of a row, as SQL.
pub(super) fn amount_sql(order: &TopOrder) -> String {
    let slot = |column: char, at: i64, kept: i64| {
        let hour = order.since.map_or(0, hour_of);
        let slot = at.rem_euclid(kept);
        let below = WITHIN_MAX - 1;
        format!("(CASE WHEN hour >= {hour} THEN (counted - {column}{slot}) & {below} ELSE 0 END)")
    };
    let counted =
        format!("(CASE WHEN counted_size < {WIDE_SIZE} THEN counted ELSE {WITHIN_MAX} END)");
    match (order.since, order.by) {
        (Some(WindowStart::Hour(hour)), _) => slot('h', hour, HOURS_KEPT),
        (Some(WindowStart::Day(day)), _) => slot('d', day, DAYS_KEPT),
        (Some(WindowStart::Write(hour)), _) => {
            format!("(CASE WHEN hour >= {hour} THEN {counted} ELSE 0 END)")
        }
        (None, OrderBy::Value) => "value".to_owned(),
        (None, OrderBy::Count) => counted,
        (None, OrderBy::Uniques) => "uniques".to_owned(),
    }
}

/// The hour of unix time at which it begins.
pub(super) fn hour_of(since: WindowStart) -> i64 {
    match since {
        WindowStart::Hour(hour) | WindowStart::Write(hour) => hour,
        WindowStart::Day(day) => day * DAY_HOURS,
    }
}

/// The first name that an order may have: the service's own counters are before it.
pub(super) fn first_of(order: &TopOrder) -> &str {
    order.prefix.as_str().max(BEFORE_CALLERS)
}

/// The amount of a counter in an order of all time.
pub(super) fn row_of_known(counter: CounterId, by: OrderBy, known: KnownTotal) -> TopRow {
    let estimate = known.uniques.map_or(0, |uniques| uniques.estimate);
    TopRow {
        counter,
        amount: match by {
            OrderBy::Value => known.total.value,
            OrderBy::Count => Value::new(known.total.count, 0),
            OrderBy::Uniques => Value::new(u128::from(estimate), 0),
        },
        uniques: known.uniques.filter(|_| by == OrderBy::Uniques),
        as_of_ms: match known.total.is_known() {
            true => known.total.as_of_ms,
            false => TopRow::UNKNOWN_AS_OF_MS,
        },
    }
}
