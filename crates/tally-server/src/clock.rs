//! The clock, which stands still within a turn, as on Workers.
//!
//! Invariant: a turn is one poll of a task. What a turn decides, it decides at one time.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The time of the turn that runs, and its number.
#[derive(Default)]
pub(crate) struct TurnClock {
    now_ms: Cell<i64>,
    turn: Cell<u64>,
}

impl TurnClock {
    /// The time of this turn, unix milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        self.now_ms.get()
    }

    /// The number of this turn.
    pub(crate) fn turn(&self) -> u64 {
        self.turn.get()
    }

    /// Begins a turn: reads the machine's clock.
    pub(crate) fn begin(&self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let milliseconds = since.map_or(0, |since| since.as_millis());
        self.now_ms
            .set(i64::try_from(milliseconds).unwrap_or(i64::MAX));
        self.turn.set(self.turn.get().wrapping_add(1));
    }
}

/// The machine's monotonic clock. It measures, and decides nothing.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// A task whose polls are turns.
pub(crate) struct Turns<F> {
    clock: Rc<TurnClock>,
    task: Pin<Box<F>>,
}

impl<F> Turns<F> {
    pub(crate) fn new(clock: &Rc<TurnClock>, task: F) -> Self {
        Self {
            clock: clock.clone(),
            task: Box::pin(task),
        }
    }
}

impl<F: Future> Future for Turns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.clock.begin();
        self.task.as_mut().poll(context)
    }
}
