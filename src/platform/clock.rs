//! The wall clock, timers and randomness: the only place that reads them.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use worker::{Date, Delay};

/// Now, in unix milliseconds. Workers move their clock only when I/O happens.
pub fn now_ms() -> i64 {
    i64::try_from(Date::now().as_millis()).unwrap_or(i64::MAX)
}

/// 64 random bits.
pub fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| Date::now().as_millis())
}

/// Waits, by a timer of this request alone.
pub async fn sleep_ms(milliseconds: u64) {
    Delay::from(Duration::from_millis(milliseconds)).await;
}

/// What the future gives, or `None` once the time is over; it is then dropped.
pub async fn within_ms<T>(milliseconds: u64, future: impl Future<Output = T>) -> Option<T> {
    match select(
        pin!(future),
        pin!(Delay::from(Duration::from_millis(milliseconds))),
    )
    .await
    {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}
