//! Times of logs into unix time. Every field is checked against the calendar, so that a damaged time is refused instead
//! of counted in another hour. Times before 1970 or after 9999 are refused.
//!
//! A leap second (`:60`) is read as the second before it: unix time cannot express it. It belongs to its own minute.

use crate::calendar::{DAY, first_day};

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// The bytes of `dd/Mon/yyyy:HH:MM:SS ±zzzz`: 11 for the date, 9 for the time of day, 6 for the offset.
pub const CLF_TIME_BYTES: usize = 26;

/// Returns the unix seconds of `dd/Mon/yyyy:HH:MM:SS ±zzzz`, `None` for anything else.
pub fn parse_clf_time(text: &[u8]) -> Option<i64> {
    let &[
        d0,
        d1,
        b'/',
        m0,
        m1,
        m2,
        b'/',
        y0,
        y1,
        y2,
        y3,
        b':',
        h0,
        h1,
        b':',
        n0,
        n1,
        b':',
        s0,
        s1,
        b' ',
        sign,
        oh0,
        oh1,
        om0,
        om1,
    ] = text
    else {
        return None;
    };
    let month = MONTHS.iter().position(|name| *name == [m0, m1, m2])?;
    let date = days(
        number(&[y0, y1, y2, y3])?,
        i64::try_from(month).ok()? + 1,
        number(&[d0, d1])?,
    )?;
    let time = time_of_day(number(&[h0, h1])?, number(&[n0, n1])?, number(&[s0, s1])?)?;
    unix_seconds(date, time, offset(sign, [oh0, oh1], [om0, om1])?)
}

/// Returns the unix milliseconds of an RFC 3339 time, `None` for anything else. The fraction may have any number of
/// digits and is cut to milliseconds. The offset is required. Source: RFC 3339, section 5.6.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let (local_ms, rest) = local_ms(text)?;
    let offset_seconds = match *rest {
        _ if text.contains('/') => return None,
        [b'Z' | b'z'] => 0,
        [sign, h0, h1, b':', m0, m1] => offset(sign, [h0, h1], [m0, m1])?,
        _ => return None,
    };
    at_ms(local_ms, offset_seconds)
}

/// The forms of a time in a request, for refusals.
pub const TIMES: &str = "a date such as 2026-11-28, a time such as 2026-11-28T13:00:00Z, or unix seconds \
    (divide milliseconds by 1,000)";

/// The last unix second of the year 9999. Later ones have no date of RFC 3339: they are milliseconds by mistake.
const UNIX_SECONDS_MAX: i64 = 253_402_300_799;

/// Returns the unix milliseconds of a time in a request: a date of UTC, a time of [`parse_rfc3339`], or unix seconds. A
/// date is its first second where it begins a range, and its last second elsewhere. `None` for a date without hyphens,
/// such as `20261128`: as unix seconds it is a day in 1970.
pub fn parse_time(text: &str, begins: bool) -> Option<i64> {
    if is_compact_date(text) {
        return None;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return ms_of_seconds(text.parse().ok()?);
    }
    let last = if begins { 0 } else { DAY - 1 };
    parse_date(text)
        .map(|days| (days * DAY + last) * 1_000)
        .or_else(|| parse_rfc3339(text))
}

/// Whether eight digits are a date of the years 1900 to 2199.
fn is_compact_date(text: &str) -> bool {
    let parts = || Some([text.get(..4)?, text.get(4..6)?, text.get(6..8)?].join("-"));
    let is_near = ["19", "20", "21"]
        .iter()
        .any(|century| text.starts_with(century));
    text.len() == 8 && is_near && parts().is_some_and(|date| parse_date(&date).is_some())
}

/// Returns the unix milliseconds of unix seconds; `None` after the year 9999.
pub fn ms_of_seconds(seconds: u64) -> Option<i64> {
    let seconds = i64::try_from(seconds).ok()?;
    (seconds <= UNIX_SECONDS_MAX).then(|| seconds * 1_000)
}

/// Returns the unix milliseconds of a time as servers write it: as RFC 3339, with `+0100` for its offset, without an
/// offset (then it is UTC), with slashes in its date, in the form of Common Log Format, or as a unix time.
pub fn parse_any(text: &str) -> Option<i64> {
    if let Some((local_ms, rest)) = local_ms(text) {
        let offset_seconds = match *rest {
            [] | [b'Z' | b'z'] => 0,
            [sign, h0, h1, b':', m0, m1] | [sign, h0, h1, m0, m1] => {
                offset(sign, [h0, h1], [m0, m1])?
            }
            [sign, h0, h1] => offset(sign, [h0, h1], *b"00")?,
            _ => return None,
        };
        return at_ms(local_ms, offset_seconds);
    }
    parse_clf_time(text.as_bytes())
        .map(|seconds| seconds * 1000)
        .or_else(|| parse_unix(text))
}

/// Returns the unix milliseconds of a JSON value: a time of [`parse_rfc3339`], or a unix time or its string.
pub fn parse_timestamp(json: &str) -> Option<i64> {
    let text = unquoted(json);
    parse_rfc3339(text).or_else(|| parse_unix(text))
}

/// Returns a JSON string's text, if it has no escapes: no time has any.
pub(crate) fn unquoted(json: &str) -> &str {
    let inner = json
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or(json)
}

/// 1990-01-01, unix milliseconds. No access log is older: a smaller number is a duration or a count.
const UNIX_MS_MIN: i64 = 631_152_000_000;

/// Returns the unix milliseconds of a number whose size tells its unit. Seconds end at 10^11 (the year 5138), where
/// milliseconds begin; microseconds begin at 10^14 and nanoseconds at 10^17: each in March 1973. Finer parts are cut
/// off. `None` before 1990.
fn parse_unix(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let at_ms = match whole.parse::<i64>().ok()? {
        seconds @ 0..100_000_000_000 => seconds * 1000 + milliseconds(fraction.as_bytes()),
        at_ms @ 100_000_000_000..100_000_000_000_000 => at_ms,
        microseconds @ 100_000_000_000_000..100_000_000_000_000_000 => microseconds / 1000,
        nanoseconds => nanoseconds / 1_000_000,
    };
    (at_ms >= UNIX_MS_MIN).then_some(at_ms)
}

/// Returns the first three digits of a fraction as milliseconds.
fn milliseconds(fraction: &[u8]) -> i64 {
    let digits = fraction.iter().chain(b"000").take(3);
    digits.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
}

/// Reads a date and a time of day with its fraction: the milliseconds from 1970 on a clock that shows it, and what
/// follows.
fn local_ms(text: &str) -> Option<(i64, &[u8])> {
    let (fixed, rest) = text.as_bytes().split_at_checked(19)?;
    let &[
        y0,
        y1,
        y2,
        y3,
        dash @ (b'-' | b'/'),
        m0,
        m1,
        other,
        d0,
        d1,
        b'T' | b't' | b' ',
        h0,
        h1,
        b':',
        n0,
        n1,
        b':',
        s0,
        s1,
    ] = fixed
    else {
        return None;
    };
    if dash != other {
        return None;
    }
    let date = days(
        number(&[y0, y1, y2, y3])?,
        number(&[m0, m1])?,
        number(&[d0, d1])?,
    )?;
    let time = time_of_day(number(&[h0, h1])?, number(&[n0, n1])?, number(&[s0, s1])?)?;
    let (fraction_ms, rest) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (fraction, rest) = rest.split_at_checked(digits)?;
            fraction.first()?;
            (milliseconds(fraction), rest)
        }
        None => (0, rest),
    };
    Some(((date * DAY + time) * 1000 + fraction_ms, rest))
}

fn at_ms(local_ms: i64, offset_seconds: i64) -> Option<i64> {
    Some(local_ms - offset_seconds * 1000).filter(|at_ms| *at_ms >= 0)
}

/// Returns the days from 1970-01-01 to `yyyy-mm-dd`, `None` for anything else.
pub fn parse_date(text: &str) -> Option<i64> {
    let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text.as_bytes() else {
        return None;
    };
    let year = number(&[y0, y1, y2, y3])?;
    days(year, number(&[m0, m1])?, number(&[d0, d1])?).filter(|days| *days >= 0)
}

/// Reads at most four digits.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

fn time_of_day(hour: i64, minute: i64, second: i64) -> Option<i64> {
    (hour <= 23 && minute <= 59 && second <= 60).then(|| hour * 3600 + minute * 60 + second.min(59))
}

/// Returns the seconds that a local time is ahead of UTC.
fn offset(sign: u8, hours: [u8; 2], minutes: [u8; 2]) -> Option<i64> {
    let (hours, minutes) = (number(&hours)?, number(&minutes)?);
    let seconds = (hours <= 23 && minutes <= 59).then_some(hours * 3600 + minutes * 60)?;
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

fn unix_seconds(days: i64, time_of_day: i64, offset_seconds: i64) -> Option<i64> {
    Some(days * DAY + time_of_day - offset_seconds).filter(|seconds| *seconds >= 0)
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar, if there is such a date.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let month = (1..=12).contains(&month).then(|| year * 12 + month - 1)?;
    let (first, next) = (first_day(month), first_day(month + 1));
    (1..=next - first).contains(&day).then(|| first + day - 1)
}
