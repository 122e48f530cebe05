//! Messages and tasks of the simulated datacenter.
//!
//! Invariant: nothing moves by itself. A request is worked on, an answer arrives and a call is given
//! up when the schedule says so, in any order. A flush, or an append, is delivered again only when its lane sends
//! it again, as the platform has it: whoever is told that it was refused sends the write elsewhere.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

use tally::core::cluster::root::Root;
use tally::core::counter::flush::Load;
use tally::core::counter::grant::Grant;
use tally::core::counter::id::{CounterId, Datacenter};
use tally::core::counter::ledger::{Keyed, Keys, WriteKey};
use tally::core::counter::merge::{Part, Question};
use tally::core::counter::nonces::Nonce;
use tally::core::counter::queue::{Event, InboxId};
use tally::core::counter::settings::TtlMode;
use tally::protocol::messages::{
    Appended, Claimed, Counted, DatacenterSum, Fault, Flushed, Holder, Operate, Operated,
};

/// How long a caller waits, milliseconds.
const CALL_MS_MAX: i64 = 2_500;

/// How long a request may linger in the network: with clocks that are off by as much as they may be here,
/// still below the minute for which a flush is remembered.
const LINGERS_MS_MAX: i64 = 20_000;

/// What is sent. `Release` carries the generation that is about to end, `RegisterInbox` who asks. `Sum` and `Ask` carry a question, `Hello` the shard that asks, `Register` and `Claim` the
/// datacenter that does.
#[derive(Clone, Debug)]
pub enum Message {
    Flush(Nonce, Load),
    /// With how often their claims had moved, if they are claimed.
    Count(Vec<Keyed>, Option<u32>, Keys),
    Hello(u8),
    Seal(u64),
    Suspend(u64),
    Configure(Grant),
    Close(u64),
    Sum(Question),
    Ask(Question),
    Register(Datacenter),
    /// With whoever has struck the keys out.
    Claim(Datacenter, Vec<WriteKey>, Option<Holder>),
    /// Whose keys are; none is claimed.
    FindClaims(Vec<WriteKey>),
    /// Whether writes were counted; none is.
    Recall(Vec<Keyed>),
    Operate(Operate),
    Settle,
    LookUp,
    End,
    Put(Option<u8>, Option<(u64, TtlMode)>),
    Append(Nonce, Vec<Event>),
    Drain(CounterId),
    Release(CounterId, u64),
    MayHold(CounterId),
    RegisterInbox(InboxId),
    LetInboxesGo,
    /// To storage: make durable what was written.
    Sync,
}

/// What comes back.
#[derive(Clone, Debug)]
pub enum Answer {
    Flushed(Flushed),
    Counted(Counted),
    Grant(Grant),
    Part(Option<Part>),
    Sum(DatacenterSum),
    Claimed(Claimed),
    Operated(Operated),
    Root(Option<Root>),
    Generation(u64),
    Appended(Appended),
    MayHold(bool),
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
    sent_ms: i64,
}

type Slot = Rc<RefCell<Option<Reply>>>;

type WeakSlot = Weak<RefCell<Option<Reply>>>;

/// Everything that is on its way.
#[derive(Default)]
pub struct Network {
    calls: u64,
    pub requests: Vec<Request>,
    pub answers: Vec<(u64, Reply)>,
    waiting: BTreeMap<u64, (i64, WeakSlot)>,
}

/// The fault of a call that did not come through.
pub fn unavailable() -> Fault {
    Fault::Unavailable("no answer".to_owned())
}

impl Network {
    /// Sends a request; the future ends with its reply.
    pub fn call(
        &mut self,
        to: usize,
        message: Message,
        sent_ms: i64,
    ) -> impl Future<Output = Reply> + use<> {
        let call = self.calls;
        self.calls += 1;
        let slot = Slot::default();
        self.waiting.insert(call, (sent_ms, Rc::downgrade(&slot)));
        self.requests.push(Request {
            call,
            to,
            message,
            sent_ms,
        });
        poll_fn(move |_| match slot.borrow_mut().take() {
            Some(reply) => Poll::Ready(reply),
            None => Poll::Pending,
        })
    }

    /// Ends a call for its caller. Nothing happens if it has ended, or the caller is gone.
    pub fn end(&mut self, call: u64, reply: Reply) {
        let waiting = self.waiting.remove(&call);
        if let Some(slot) = waiting.and_then(|(_, slot)| slot.upgrade()) {
            *slot.borrow_mut() = Some(reply);
        }
    }

    /// Gives up one of the calls whose callers wait; the request or its answer stays on its way.
    pub fn time_out(&mut self, pick: usize) {
        self.waiting.retain(|_, (_, slot)| slot.strong_count() > 0);
        let calls: Vec<u64> = self.waiting.keys().copied().collect();
        if let Some(call) = calls.get(pick % calls.len().max(1)) {
            self.end(*call, Err(unavailable()));
        }
    }

    /// Delivers a request once more; nobody hears the answer.
    pub fn repeat(&mut self, pick: usize) {
        let pick = pick % self.requests.len().max(1);
        let chosen = self.requests.get(pick);
        let is_once = |request: &Request| {
            let message = &request.message;
            matches!(message, Message::Flush(..) | Message::Append(..))
        };
        if let Some(request) = chosen.filter(|request| !is_once(request)) {
            let copy = Request {
                call: self.calls,
                message: request.message.clone(),
                ..*request
            };
            self.calls += 1;
            self.requests.push(copy);
        }
    }

    /// Ends calls whose callers have waited long enough, and requests that have lingered too long.
    pub fn grow_old(&mut self, now_ms: i64) {
        let is_late = |sent_ms: i64| now_ms - sent_ms > CALL_MS_MAX;
        let late = self
            .waiting
            .iter()
            .filter(|(_, (sent_ms, _))| is_late(*sent_ms));
        let late: Vec<u64> = late.map(|(call, _)| *call).collect();
        for call in late {
            self.end(call, Err(unavailable()));
        }
        self.requests
            .retain(|request| now_ms - request.sent_ms <= LINGERS_MS_MAX);
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
