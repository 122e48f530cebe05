//! When a digest is due, and of which time it is.
//!
//! Invariant: digests are of full days or weeks of UTC, one after the other. A week begins on Monday.

/// How often a digest is sent, seconds.
pub const DAY_SECONDS: u32 = 86_400;
/// See [`DAY_SECONDS`].
pub const WEEK_SECONDS: u32 = 7 * DAY_SECONDS;

/// The first Monday of unix time, milliseconds: 1 January 1970 was a Thursday.
const MONDAY_MS: i64 = 4 * 86_400_000;

/// How long after its end a time is measured, milliseconds: what was counted in it has arrived by then.
pub const SETTLED_MS: i64 = 300_000;

/// How long a digest waits for parts that do not answer, milliseconds. After that it names them.
pub const PATIENCE_MS: i64 = 3_600_000;

/// The counters that a digest names.
pub const DIGEST_TOP: u32 = 10;

/// The beginning of the day or week that has this moment, unix milliseconds.
fn begin_ms(seconds: u32, at_ms: i64) -> i64 {
    let length_ms = i64::from(seconds) * 1_000;
    let origin_ms = if seconds == WEEK_SECONDS {
        MONDAY_MS
    } else {
        0
    };
    at_ms - (at_ms - origin_ms).rem_euclid(length_ms)
}

/// The last full day or week that has settled by now: its beginning and its end, unix milliseconds.
pub fn last_period_ms(seconds: u32, now_ms: i64) -> (i64, i64) {
    let to_ms = begin_ms(seconds, now_ms - SETTLED_MS);
    (to_ms - i64::from(seconds) * 1_000, to_ms)
}

/// When the next one has settled, unix milliseconds.
pub fn next_period_ms(seconds: u32, now_ms: i64) -> i64 {
    begin_ms(seconds, now_ms - SETTLED_MS) + i64::from(seconds) * 1_000 + SETTLED_MS
}
