//! Scores as text, in the forms that Redis and its clients use.

use tally_core::board::score::Score;
use tally_wire::redis::Reply;

/// Parses a score: any form of a number, or an infinity. `None` for other texts and for numbers out of range, including
/// those so small that a double holds them only as 0.
pub fn score(text: &str) -> Option<Score> {
    let number: f64 = text.parse().ok()?;
    let names_infinity = text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let is_underflow = number == 0.0 && mantissa.contains(|digit| matches!(digit, '1'..='9'));
    let is_in_range = number.is_finite() && !is_underflow;
    (is_in_range || names_infinity).then(|| Score::new(number))?
}

/// Parses a score.
///
/// # Errors
/// `value is not a valid float`.
pub fn valid_score(text: &str) -> Result<Score, Reply> {
    score(text).ok_or_else(|| Reply::err("value is not a valid float"))
}

/// The exponents, and the numbers of digits, that JavaScript prints without an exponent.
const PLAIN_POINTS: std::ops::RangeInclusive<i32> = -5..=21;

/// The shortest text of a score, as JavaScript prints the number: its clients convert a text to a number only if it
/// prints back identically.
pub fn text_of(score: Score) -> String {
    let number = score.number();
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let (sign, number) = if number < 0.0 {
        ("-", -number)
    } else {
        ("", number)
    };
    let shortest = format!("{number:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits = digits.replace('.', "");
    // The number of digits before the point.
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    if !PLAIN_POINTS.contains(&point) {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() {
            String::new()
        } else {
            format!(".{rest}")
        };
        return format!("{sign}{first}{rest}e{:+}", point - 1);
    }
    let Ok(before) = usize::try_from(point) else {
        let zeros = "0".repeat(usize::try_from(-point).unwrap_or(0));
        return format!("{sign}0.{zeros}{digits}");
    };
    if before == 0 {
        return format!("{sign}0.{digits}");
    }
    if digits.len() <= before {
        return format!("{sign}{digits}{}", "0".repeat(before - digits.len()));
    }
    let (whole, fraction) = digits.split_at(before);
    format!("{sign}{whole}.{fraction}")
}
