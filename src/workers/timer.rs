//! Timers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use worker::Delay;

/// Wakes whoever polled last.
#[derive(Default)]
struct Latest(AtomicWaker);

impl Wake for Latest {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

/// A timer that wakes whoever polled it last; the SDK's wakes whoever polled it first.
pub(super) struct Timer {
    delay: Pin<Box<Delay>>,
    latest: Arc<Latest>,
    waker: Waker,
}

impl Timer {
    pub(super) fn new(milliseconds: u64) -> Self {
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
