//! Reads amounts, positive whole numbers up to 2^63, and values of either sign, as JSON numbers or as decimal strings.
//! Only the value of a number matters: `1.0` and `1e0` are 1.

use std::borrow::Cow;

use serde_json::value::RawValue;

use tally_core::counter::total::{DELTA_MAX, Sum, Value};
use tally_wire::problem::{Code, Problem};

/// Reads one JSON value (its exact source text) as an amount.
///
/// # Errors
/// `invalid-delta` for zero, negative, fractional or too large numbers and any other type.
pub fn parse_delta(json: &str) -> Result<u128, Problem> {
    let digits = &*digits_of(json);
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
    parse_with(json, |digits| digits.parse::<u128>().ok().map(Sum::from))
}

/// As [`parse_value`], with up to 160 bits, which sums of datacenters need. The bits from there to 192 are for later
/// additions.
pub fn parse_sum(json: &str) -> Option<Value> {
    parse_with(json, |digits| {
        Sum::parse(digits).filter(|sum| sum.bits() <= IMPORTED_BITS_MAX)
    })
}

/// The most bits of an imported amount.
const IMPORTED_BITS_MAX: u32 = 160;

fn parse_with(json: &str, read: impl Fn(&str) -> Option<Sum>) -> Option<Value> {
    let digits = &*digits_of(json);
    let (is_negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = Value::new(read(digits)?, 0);
    Some(if is_negative { value.negated() } else { value })
}

/// The digits of a decimal string, or of a number that is whole; other texts are returned unchanged.
fn digits_of(json: &str) -> Cow<'_, str> {
    match json.as_bytes() {
        [b'"', .., b'"'] => Cow::Borrowed(&json[1..json.len() - 1]),
        _ => whole(json).map_or(Cow::Borrowed(json), Cow::Owned),
    }
}

/// The most zeros written for a number with an exponent: 2^160 has 49 digits.
const DIGITS_MAX: i64 = 50;

/// Writes out a JSON number that has a fraction or an exponent, if it is whole. A number longer than any accepted one
/// gets fewer zeros, but stays too long.
fn whole(json: &str) -> Option<String> {
    if !json.contains(['.', 'e', 'E']) {
        return None;
    }
    let (mantissa, exponent) = json.split_once(['e', 'E']).unwrap_or((json, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (sign, integer) = match integer.strip_prefix('-') {
        Some(integer) => ("-", integer),
        None => ("", integer),
    };
    let digits = [integer, fraction].concat();
    let digits = digits.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return Some("0".to_owned());
    }
    let fraction_digits = i64::try_from(fraction.len()).ok()?;
    let dropped = i64::try_from(digits.len() - kept.len()).ok()?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent = match exponent.parse::<i64>() {
        Ok(exponent) => exponent,
        // An exponent with more digits than a 64-bit number has.
        Err(_) if is_digits(exponent.trim_start_matches('+')) => i64::MAX,
        Err(_) => return None,
    };
    let zeros = exponent.saturating_sub(fraction_digits);
    let zeros = usize::try_from(zeros.saturating_add(dropped).min(DIGITS_MAX)).ok()?;
    Some([sign, kept, &"0".repeat(zeros)].concat())
}

/// Returns an amount, 1 where it is missing.
pub(crate) fn delta_or_one(json: Option<&RawValue>) -> Result<u128, Problem> {
    json.map_or(Ok(1), |json| parse_delta(json.get()))
}
