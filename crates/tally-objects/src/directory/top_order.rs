//! What a counter amounts to in an order, as SQL over its row of the totals.

use tally_core::cluster::kept_tops::KeptTops;
use tally_core::cluster::top_order::{
    DAYS_KEPT, HOURS_KEPT, OrderBy, TopOrder, WITHIN_MAX, WindowStart, hour_of,
};

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

/// The column that is read of a row before it is written, as SQL: its indexed values, and its amount in each kept
/// order. `RowBefore` reads it.
pub(super) fn columns(kept: &KeptTops) -> String {
    let amounts = kept.map_orders(amount_sql).into_iter();
    let amounts: String = amounts
        .map(|amount| format!(" || ' ' || {amount}"))
        .collect();
    format!(
        "hour || ' ' || value_size || ' ' || counted_size || ' ' || uniques_size || ' ' || as_of || ' ' || \
         counted{amounts}"
    )
}
