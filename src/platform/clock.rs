//! The wall clock, timers and randomness: the only place that reads them.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::task::AtomicWaker;
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
    Timer::new(milliseconds).await;
}

/// Wakes whoever polled last.
#[derive(Default)]
struct Latest(AtomicWaker);

impl Wake for Latest {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

/// A timer that wakes whoever polled it last; the SDK's wakes whoever polled it first.
struct Timer {
    delay: Pin<Box<Delay>>,
    latest: Arc<Latest>,
    waker: Waker,
}

impl Timer {
    fn new(milliseconds: u64) -> Self {
        let latest = Arc::<Latest>::default();
        Self {
            delay: Box::pin(Delay::from(Duration::from_millis(milliseconds))),
            waker: latest.clone().into(),
            latest,
        }
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.latest.0.register(context.waker());
        let waker = self.waker.clone();
        self.delay.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// What the future gives, or `None` once the time is over; it is then dropped.
pub async fn within_ms<T>(milliseconds: u64, future: impl Future<Output = T>) -> Option<T> {
    match select(pin!(future), Timer::new(milliseconds)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}
