//! Messages and tasks of the simulated datacenter.
//!
//! Invariant: nothing moves by itself. A request is worked on, an answer arrives and a call is given
//! up when the schedule says so, in any order; each request is delivered at most once.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

use tally::counter::flush::Load;
use tally::counter::grant::Grant;
use tally::counter::merge::{Part, Question};
use tally::counter::nonces::Nonce;
use tally::protocol::messages::{DatacenterSum, Fault, Flushed};

/// What is sent. `Sum` and `Ask` carry a question, `Hello` the shard that asks.
#[derive(Clone, Debug)]
pub enum Message {
    Flush(Nonce, Load),
    Hello(u8),
    Seal(u64),
    Suspend(u64),
    Sum(Question),
    Ask(Question),
    Register,
}

/// What comes back.
#[derive(Clone, Debug)]
pub enum Answer {
    Flushed(Flushed),
    Grant(Grant),
    Part(Option<Part>),
    Sum(DatacenterSum),
    Done,
}

/// What a call ends with.
pub type Reply = Result<Answer, Fault>;

/// A request on its way.
#[derive(Debug)]
pub struct Request {
    pub call: u64,
    pub to: usize,
    pub message: Message,
}

type Slot = Rc<RefCell<Option<Reply>>>;

/// Everything that is on its way.
#[derive(Default)]
pub struct Network {
    calls: u64,
    pub requests: Vec<Request>,
    pub answers: Vec<(u64, Reply)>,
    waiting: BTreeMap<u64, Weak<RefCell<Option<Reply>>>>,
}

/// The fault of a call that did not come through.
pub fn unavailable() -> Fault {
    Fault::Unavailable("no answer".to_owned())
}

impl Network {
    /// Sends a request; the future ends with its reply.
    pub fn call(&mut self, to: usize, message: Message) -> impl Future<Output = Reply> + use<> {
        let call = self.calls;
        self.calls += 1;
        let slot = Slot::default();
        self.waiting.insert(call, Rc::downgrade(&slot));
        self.requests.push(Request { call, to, message });
        poll_fn(move |_| match slot.borrow_mut().take() {
            Some(reply) => Poll::Ready(reply),
            None => Poll::Pending,
        })
    }

    /// Ends a call for its caller. Nothing happens if it has ended, or the caller is gone.
    pub fn end(&mut self, call: u64, reply: Reply) {
        if let Some(slot) = self.waiting.remove(&call).and_then(|slot| slot.upgrade()) {
            *slot.borrow_mut() = Some(reply);
        }
    }

    /// Gives up one of the calls whose callers wait; the request or its answer stays on its way.
    pub fn time_out(&mut self, pick: usize) {
        self.waiting.retain(|_, slot| slot.strong_count() > 0);
        let calls: Vec<u64> = self.waiting.keys().copied().collect();
        if let Some(call) = calls.get(pick % calls.len().max(1)) {
            self.end(*call, Err(unavailable()));
        }
    }
}

/// A lock whose holders take turns in the order in which they came.
#[derive(Default)]
pub struct Turns {
    next: Cell<u64>,
    queue: Rc<RefCell<VecDeque<u64>>>,
}

/// A place in the queue of a lock; dropping it leaves the queue.
pub struct Turn {
    number: u64,
    queue: Rc<RefCell<VecDeque<u64>>>,
}

impl Turns {
    pub async fn lock(&self) -> Turn {
        let number = self.next.get();
        self.next.set(number + 1);
        self.queue.borrow_mut().push_back(number);
        let turn = Turn {
            number,
            queue: self.queue.clone(),
        };
        poll_fn(|_| match turn.queue.borrow().front() {
            Some(first) if *first == number => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
        turn
    }

    pub fn is_free(&self) -> bool {
        self.queue.borrow().is_empty()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let number = self.number;
        self.queue.borrow_mut().retain(|other| *other != number);
    }
}

/// Waits for all futures.
pub async fn all<T>(futures: Vec<Pin<Box<dyn Future<Output = T>>>>) -> Vec<T> {
    let mut left: Vec<_> = futures.into_iter().map(Some).collect();
    let mut done: Vec<Option<T>> = left.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, done) in left.iter_mut().zip(&mut done) {
            if let Some(running) = future
                && let Poll::Ready(output) = running.as_mut().poll(context)
            {
                *done = Some(output);
                *future = None;
            }
        }
        if left.iter().all(Option::is_none) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}
