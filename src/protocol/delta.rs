//! Reads amounts, positive whole numbers up to 2^63, and values of either sign, as JSON numbers or as their
//! decimal strings.

use super::problem::{Code, Problem};
use crate::counter::total::{DELTA_MAX, Value};

/// Reads one JSON value (its exact source text) as an amount.
///
/// # Errors
/// `invalid-delta` for zero, negative, fractional, exponent or too large numbers and any other type.
pub fn parse_delta(json: &str) -> Result<u128, Problem> {
    let digits = unquoted(json);
    let refuse = |why: &str| {
        let shown: String = json.chars().take(48).collect();
        Err(Problem::new(
            Code::InvalidDelta,
            format!("send a whole number from 1 to 2^63 (or its decimal string): {shown} {why}"),
        ))
    };
    if digits.starts_with('-') {
        return refuse("is negative");
    }
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return refuse("is not a whole number");
    }
    match digits.parse::<u128>() {
        Ok(0) => refuse("counts nothing"),
        Ok(delta) if delta <= DELTA_MAX => Ok(delta),
        _ => refuse("is too large"),
    }
}

/// Reads one JSON value (its exact source text) as a value: a whole number of either sign with up to 128 bits, or
/// its decimal string. `None` for anything else.
pub fn parse_value(json: &str) -> Option<Value> {
    let digits = unquoted(json);
    let (is_negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = Value::new(digits.parse::<u128>().ok()?, 0);
    Some(if is_negative { value.negated() } else { value })
}

fn unquoted(json: &str) -> &str {
    match json.as_bytes() {
        [b'"', .., b'"'] => &json[1..json.len() - 1],
        _ => json,
    }
}
