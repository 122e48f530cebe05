//! A value that comes once, from another task or from a timer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Where it is put, and waited for.
pub struct OneShot<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
}

impl<T> OneShot<T> {
    /// An empty one.
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            value: RefCell::new(None),
            waker: RefCell::new(None),
        })
    }

    /// Puts the value, and wakes whoever waits.
    pub fn fill(&self, value: T) {
        *self.value.borrow_mut() = Some(value);
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for the value.
    pub async fn wait(self: Rc<Self>) -> T {
        poll_fn(move |context| match self.value.borrow_mut().take() {
            Some(value) => Poll::Ready(value),
            None => {
                *self.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}
