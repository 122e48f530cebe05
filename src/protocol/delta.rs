//! Reads amounts: a positive whole number up to 2^128 − 1, as a JSON number or as its decimal string.

use super::problem::{Code, Problem};

/// Reads one JSON value (its exact source text) as an amount.
///
/// # Errors
/// `invalid-delta` for zero, negative, fractional, exponent or too large numbers and any other type.
pub fn parse_delta(json: &str) -> Result<u128, Problem> {
    let digits = match json.as_bytes() {
        [b'"', .., b'"'] => &json[1..json.len() - 1],
        _ => json,
    };
    let refuse = |why: &str| {
        let shown: String = json.chars().take(48).collect();
        Err(Problem::new(
            Code::InvalidDelta,
            format!(
                "send a whole number from 1 to 2^128 - 1 (or its decimal string): {shown} {why}"
            ),
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
        Ok(delta) => Ok(delta),
        Err(_) => refuse("is too large"),
    }
}
