//! The timer for heads of requests. Each request begins one and hardly any ends by it, so it costs little to begin and
//! to drop: hyper with a timer of tokio's took 0.6 µs more a request.
//!
//! Invariant: what waits is woken within [`LOOK_EVERY`] after its time, on the thread that it waits on.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

use crate::clock::monotonic;

/// How often it is looked for what is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One that waits.
enum Entry {
    Free,
    Waits(Instant, Waker),
    Over,
}

/// All that wait on a thread, by number.
#[derive(Default)]
struct Waiting {
    entries: Vec<Entry>,
    free: Vec<usize>,
}

thread_local! {
    static WAITING: RefCell<Waiting> = RefCell::default();
}

impl Waiting {
    fn begin(&mut self, deadline: Instant, waker: &Waker) -> usize {
        let number = self.free.pop().unwrap_or(self.entries.len());
        let entry = Entry::Waits(deadline, waker.clone());
        match self.entries.get_mut(number) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        number
    }

    fn is_over(&mut self, number: usize, waker: &Waker) -> bool {
        match self.entries.get_mut(number) {
            Some(Entry::Waits(_, known)) => {
                known.clone_from(waker);
                false
            }
            _ => true,
        }
    }

    fn end(&mut self, number: usize) {
        if let Some(entry) = self.entries.get_mut(number) {
            *entry = Entry::Free;
            self.free.push(number);
        }
    }

    /// Takes those whose time is over.
    fn take_over(&mut self, now: Instant) -> Vec<Waker> {
        let is_over = |entry: &&mut Entry| matches!(entry, Entry::Waits(until, _) if *until <= now);
        let over = self.entries.iter_mut().filter(is_over);
        let over = over.map(|entry| std::mem::replace(entry, Entry::Over));
        over.filter_map(|entry| match entry {
            Entry::Waits(_, waker) => Some(waker),
            _ => None,
        })
        .collect()
    }
}

/// Wakes what waits on this thread, as long as the thread runs.
pub(crate) async fn run() {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let over = WAITING.with_borrow_mut(|waiting| waiting.take_over(monotonic()));
        over.into_iter().for_each(Waker::wake);
    }
}

/// The timer of a thread that runs [`run`].
#[derive(Clone, Copy)]
pub(crate) struct HeadTimer;

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(monotonic() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HeadSleep {
            deadline,
            number: None,
        })
    }
}

struct HeadSleep {
    deadline: Instant,
    /// Its number, once it waits.
    number: Option<usize>,
}

impl Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker();
        let is_over = WAITING.with_borrow_mut(|waiting| match self.number {
            Some(number) => waiting.is_over(number, waker),
            None => {
                self.number = Some(waiting.begin(self.deadline, waker));
                false
            }
        });
        match is_over {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for HeadSleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            // At the end of a thread there may be no timer left.
            let _ = WAITING.try_with(|waiting| waiting.borrow_mut().end(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_what_is_over_and_uses_numbers_again() {
        let mut waiting = Waiting::default();
        let (begun, waker) = (monotonic(), Waker::noop());
        let second = Duration::from_secs(1);
        let early = waiting.begin(begun, waker);
        let late = waiting.begin(begun + second, waker);
        assert_eq!(waiting.take_over(begun).len(), 1);
        assert!(waiting.take_over(begun).is_empty());
        assert!(waiting.is_over(early, waker));
        assert!(!waiting.is_over(late, waker));
        waiting.end(early);
        assert_eq!(waiting.begin(begun + second, waker), early);
        assert!(!waiting.is_over(early, waker));
        assert_eq!(waiting.take_over(begun + second).len(), 2);
        assert_eq!(waiting.entries.len(), 2);
    }
}
