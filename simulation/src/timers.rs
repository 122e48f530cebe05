//! Timers, in the order of their times.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::executor::Executor;

/// One timer's state, shared with whoever waits for it.
#[derive(Default)]
pub(crate) struct TimerState {
    has_fired: Cell<bool>,
    is_dropped: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

enum Action {
    Wake(Rc<TimerState>),
    Run(Box<dyn FnOnce()>),
}

/// One timer.
pub(crate) struct Timer {
    at_us: u64,
    number: u64,
    action: Action,
}

impl Timer {
    /// When it fires.
    pub(crate) fn at_us(&self) -> u64 {
        self.at_us
    }

    /// Fires it.
    pub(crate) fn fire(self) {
        match self.action {
            Action::Run(action) => action(),
            Action::Wake(state) => {
                state.has_fired.set(true);
                let waker = state.waker.take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    fn is_dropped(&self) -> bool {
        matches!(&self.action, Action::Wake(state) if state.is_dropped.get())
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at_us, self.number) == (other.at_us, other.number)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.number).cmp(&(other.at_us, other.number))
    }
}

/// Timers. Those of one time fire in the order in which they were set.
#[derive(Default)]
pub(crate) struct Timers {
    heap: RefCell<BinaryHeap<Reverse<Timer>>>,
    count: Cell<u64>,
}

impl Timers {
    fn push(&self, at_us: u64, action: Action) {
        let number = self.count.get();
        self.count.set(number + 1);
        let timer = Timer {
            at_us,
            number,
            action,
        };
        self.heap.borrow_mut().push(Reverse(timer));
    }

    /// Runs something at a time.
    pub(crate) fn at(&self, at_us: u64, action: Box<dyn FnOnce()>) {
        self.push(at_us, Action::Run(action));
    }

    /// Wakes whoever waits, at a time.
    pub(crate) fn wake(&self, at_us: u64, state: Rc<TimerState>) {
        self.push(at_us, Action::Wake(state));
    }

    /// The next timer that somebody waits for, where its time is at most this.
    pub(crate) fn pop(&self, until_us: u64) -> Option<Timer> {
        let mut heap = self.heap.borrow_mut();
        while let Some(Reverse(next)) = heap.peek() {
            if next.at_us > until_us && !next.is_dropped() {
                return None;
            }
            let popped = heap.pop().map(|Reverse(timer)| timer);
            if let Some(timer) = popped.filter(|timer| !timer.is_dropped()) {
                return Some(timer);
            }
        }
        None
    }

    /// Drops all timers.
    pub(crate) fn clear(&self) {
        let heap = self.heap.take();
        drop(heap);
    }
}

/// A timer.
pub struct Sleep {
    executor: Rc<Executor>,
    microseconds: u64,
    state: Option<Rc<TimerState>>,
}

impl Sleep {
    pub(crate) fn new(executor: &Rc<Executor>, microseconds: u64) -> Self {
        Self {
            executor: executor.clone(),
            microseconds,
            state: None,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(state) = &self.state else {
            let state = Rc::new(TimerState::default());
            *state.waker.borrow_mut() = Some(context.waker().clone());
            self.executor.begin_timer(self.microseconds, state.clone());
            self.state = Some(state);
            return Poll::Pending;
        };
        if state.has_fired.get() {
            return Poll::Ready(());
        }
        let mut waker = state.waker.borrow_mut();
        match &mut *waker {
            Some(known) => known.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(state) = &self.state {
            state.is_dropped.set(true);
        }
    }
}
