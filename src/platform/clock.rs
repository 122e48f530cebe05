//! The wall clock, timers and randomness: the only place that reads them.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use worker::Delay;

use crate::counter::ledger::WriteKey;

/// Now, in unix milliseconds. Workers move their clock only when I/O happens. One call into JavaScript;
/// the SDK's `Date` makes an object and costs three.
#[expect(
    clippy::as_conversions,
    reason = "whole milliseconds, which a double holds exactly to the year 287,396"
)]
pub fn now_ms() -> i64 {
    worker::js_sys::Date::now() as i64
}

/// 64 random bits.
pub fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| now_ms().unsigned_abs())
}

/// A name for a write that nobody else has.
pub fn random_key() -> WriteKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&random().to_le_bytes());
    key[8..].copy_from_slice(&random().to_le_bytes());
    WriteKey(key)
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
