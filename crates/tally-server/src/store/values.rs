//! Values of statements, and of the rows that they give.

use rusqlite::CachedStatement;
use rusqlite::types::{Null, ValueRef};
use tally_host::object::{Rows, SqlValue};

/// The largest integer that a JavaScript number holds with all below it: 2^53. Integers are bound as they are on
/// Workers, so that a statement sees the same values on each platform.
const INTEGER_MAX: u64 = 1 << 53;

/// Binds the values of a statement, and returns its rows.
pub(super) fn rows_of(
    prepared: &mut CachedStatement<'_>,
    values: &[SqlValue],
) -> rusqlite::Result<Rows> {
    for (place, value) in (1..).zip(values) {
        match value {
            SqlValue::Null => prepared.raw_bind_parameter(place, Null),
            SqlValue::Integer(number) => prepared.raw_bind_parameter(place, real(*number)),
            SqlValue::Real(number) => prepared.raw_bind_parameter(place, number),
            SqlValue::Text(text) => prepared.raw_bind_parameter(place, text),
            SqlValue::Blob(bytes) => prepared.raw_bind_parameter(place, bytes),
        }?;
    }
    let width = prepared.column_count();
    let mut found = prepared.raw_query();
    let mut rows = Rows::new();
    while let Some(row) = found.next()? {
        let columns = (0..width).map(|column| row.get_ref(column).map(value));
        rows.push(columns.collect::<rusqlite::Result<_>>()?);
    }
    Ok(rows)
}

#[expect(
    clippy::as_conversions,
    reason = "integers are those that a JavaScript number holds"
)]
fn real(number: i64) -> f64 {
    number as f64
}

#[expect(
    clippy::as_conversions,
    reason = "a whole number below 2^53 either way"
)]
fn value(column: ValueRef<'_>) -> SqlValue {
    match column {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Integer(number),
        // To JavaScript they are alike.
        ValueRef::Real(number) if number.fract() == 0.0 && number.abs() <= INTEGER_MAX as f64 => {
            SqlValue::Integer(number as i64)
        }
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
    }
}
