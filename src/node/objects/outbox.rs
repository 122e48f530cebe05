//! Messages between objects that host many tenants, from a tablet to the directory and from a partition to tablets: one
//! message for each receiver holds the calls of one turn, and those that waited while other messages were in flight.
//!
//! Invariant: a call is answered as if it were sent alone. All requests of one object share a context, so one may wake
//! another.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use futures_channel::oneshot;

use crate::host::Host;
use crate::host::object::Object;
use crate::node::shared::call;
use crate::node::shared::call_batcher::take;
use crate::node::shared::open_objects;
use crate::protocol::messages::{Batch, BatchedCall, Call, Fault, Receiver, batch, encode};

/// A call that waits to be sent, and the receiver of its answer.
struct Waiting {
    path: &'static str,
    message: Vec<u8>,
    answer: oneshot::Sender<Result<Vec<u8>, Fault>>,
}

/// A message in flight, until it is dropped: then the waiting calls are sent.
struct UnderWay {
    outbox: Rc<Outbox>,
    to: Receiver,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Self { outbox, to } = self;
        let left = {
            let mut under_way = outbox.under_way.borrow_mut();
            let left = under_way.remove(to).unwrap_or(0).saturating_sub(1);
            if left > 0 {
                under_way.insert(to.clone(), left);
            }
            left
        };
        if left < outbox.at_once && outbox.waiting.borrow().contains_key(to) {
            outbox.begin_to_send(to.clone());
        }
    }
}

/// Waiting calls, by receiver: at most those of one turn, which are sent right after it.
pub(super) struct Outbox {
    object: Object,
    host: Host,
    waiting: RefCell<BTreeMap<Receiver, Vec<Waiting>>>,
    /// How many messages to one receiver may be in flight at once, and how many are.
    at_once: usize,
    under_way: RefCell<BTreeMap<Receiver, usize>>,
}

impl Outbox {
    /// An outbox that sends the calls of a turn right after it, as long as fewer messages than `at_once` are in flight
    /// to their receiver.
    pub(super) fn new(object: Object, host: Host, at_once: usize) -> Rc<Self> {
        Rc::new(Self {
            object,
            host,
            waiting: RefCell::default(),
            at_once,
            under_way: RefCell::default(),
        })
    }

    /// Sends a message, and returns its answer; together with others if its receiver hosts many.
    ///
    /// # Errors
    /// As [`call::call`].
    pub(super) async fn call<C: Call>(self: &Rc<Self>, message: &C) -> Result<C::Answer, Fault> {
        let Some(receiver) = call::receiver_of(&self.host, message.to()) else {
            return call::call(&self.host, message).await;
        };
        call::answer_of::<C>(
            &self.host,
            &self.queue(receiver, C::PATH, encode(message)?).await?,
        )
    }

    /// Sends a lead a change of its counter, if its object may be open; as [`Outbox::call`].
    ///
    /// # Errors
    /// As [`open_objects::tell`].
    pub(super) async fn tell<C: Call>(self: &Rc<Self>, message: &C) -> Result<C::Answer, Fault> {
        match call::receiver_of(&self.host, message.to()) {
            Some(_) => self.call(message).await,
            None => open_objects::tell(&self.host, message).await,
        }
    }

    /// Queues a message. Not generic, so that the code for it is there once.
    async fn queue(
        self: &Rc<Self>,
        receiver: Receiver,
        path: &'static str,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, Fault> {
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            path,
            message,
            answer,
        };
        let is_first = {
            let mut all = self.waiting.borrow_mut();
            let own = all.entry(receiver.clone()).or_default();
            own.push(waiting);
            own.len() == 1
        };
        let under_way = self.under_way.borrow().get(&receiver).copied();
        if is_first && under_way.unwrap_or(0) < self.at_once {
            self.begin_to_send(receiver);
        }
        // The message that it travels in ends in time, so it needs no timer of its own.
        let lost = |_| Err(Fault::Unavailable(format!("{path} was not answered")));
        answered.await.unwrap_or_else(lost)
    }

    /// Sends all waiting calls for a receiver after this turn.
    fn begin_to_send(self: &Rc<Self>, receiver: Receiver) {
        let outbox = self.clone();
        self.object.wait_until(async move {
            let waiting = outbox.waiting.borrow_mut().remove(&receiver);
            let mut waiting = VecDeque::from(waiting.unwrap_or_default());
            while !waiting.is_empty() {
                let some = take(&mut waiting, batch::CALLS_MAX, |one| one.message.len());
                outbox.begin_message(receiver.clone(), some);
            }
        });
    }

    fn begin_message(self: &Rc<Self>, receiver: Receiver, some: Vec<Waiting>) {
        let mut under_way = self.under_way.borrow_mut();
        *under_way.entry(receiver.clone()).or_default() += 1;
        let (outbox, to) = (self.clone(), receiver.clone());
        let under_way = UnderWay { outbox, to };
        let outbox = self.clone();
        self.object.wait_until(async move {
            outbox.send_some(receiver, some).await;
            drop(under_way);
        });
    }

    async fn send_some(self: &Rc<Self>, receiver: Receiver, mut some: Vec<Waiting>) {
        if let [_] = some.as_slice() {
            for one in some {
                self.send_one(&receiver, one).await;
            }
            return;
        }
        let calls = some.iter_mut().map(|one| BatchedCall {
            path: one.path.to_owned(),
            message: std::mem::take(&mut one.message),
        });
        let batch = Batch {
            to: receiver,
            calls: calls.collect(),
        };
        let answers = match call::call(&self.host, &batch).await {
            Ok(answers) => answers,
            Err(fault) => {
                for one in some {
                    drop(one.answer.send(Err(fault.clone())));
                }
                return;
            }
        };
        let Batch { to, calls } = batch;
        for ((mut one, sent), answer) in some.into_iter().zip(calls).zip(answers) {
            match answer {
                // Nobody listens if its request was ended.
                Some(bytes) => drop(one.answer.send(Ok(bytes))),
                None => {
                    one.message = sent.message;
                    let (outbox, to) = (self.clone(), to.clone());
                    self.object
                        .wait_until(async move { outbox.send_one(&to, one).await });
                }
            }
        }
    }

    /// Sends a single call.
    async fn send_one(&self, receiver: &Receiver, one: Waiting) {
        let answer = call::carry(&self.host, receiver.address(), one.path, one.message).await;
        drop(one.answer.send(answer));
    }
}
