//! When a delivery is retried, and when it is given up.

/// How long a receiver may take to answer, milliseconds.
pub const ANSWER_MS_MAX: u64 = 10_000;

/// The wait after the first failure, milliseconds. Three quarters of it are longer than an answer may take, so no
/// attempt begins while another is in flight.
const FIRST_MS: i64 = 15_000;

/// The longest wait, milliseconds: 24 attempts in the last 23 hours.
const LONGEST_MS: i64 = 3_600_000;

/// How long a delivery is retried, milliseconds: a day, so about 31 attempts.
pub const GIVEN_UP_AFTER_MS: i64 = 86_400_000;

/// How long to wait after this many attempts, milliseconds. The wait doubles each time, and varies at random by a
/// quarter, so that the deliveries of an outage do not all come when it ends.
pub fn wait_ms(attempts: u32, random: u64) -> i64 {
    let doublings = attempts.saturating_sub(1).min(16);
    let wait_ms = (FIRST_MS << doublings).min(LONGEST_MS);
    let spread = i64::try_from(random % 512).unwrap_or(0) - 256;
    wait_ms + wait_ms * spread / 1_024
}
