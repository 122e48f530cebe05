//! What the tenants of a tablet send to the directory: one message for each partition holds what they send in one turn.
//!
//! Invariant: a call is answered as if it were sent by itself. All requests of one object share a context, so one may wake another.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use futures_channel::oneshot;

use crate::host::Host;
use crate::host::object::Object;
use crate::node::shared::call;
use crate::node::shared::call_batcher::take;
use crate::protocol::messages::{Batch, BatchedCall, Call, Fault, Receiver, batch, encode};
use crate::protocol::names::Address;

/// A call that waits to be sent, and who waits for its answer.
struct Waiting {
    path: &'static str,
    message: Vec<u8>,
    answer: oneshot::Sender<Result<Vec<u8>, Fault>>,
}

/// What waits to be sent, by partition: at most what one turn brings, and sent right after it.
pub(super) struct Outbox {
    object: Object,
    host: Host,
    waiting: RefCell<BTreeMap<u32, Vec<Waiting>>>,
}

impl Outbox {
    pub(super) fn new(object: Object, host: Host) -> Rc<Self> {
        Rc::new(Self {
            object,
            host,
            waiting: RefCell::default(),
        })
    }

    /// Sends a message to the root of a counter, and returns what it answers.
    ///
    /// # Errors
    /// As [`call::call`].
    pub(super) async fn call<C: Call>(self: &Rc<Self>, message: &C) -> Result<C::Answer, Fault> {
        let Address::Root(counter) = message.to() else {
            return call::call(&self.host, message).await;
        };
        let partition = call::partition_of(&self.host, counter);
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            path: C::PATH,
            message: encode(message)?,
            answer,
        };
        let is_first = {
            let mut all = self.waiting.borrow_mut();
            let own = all.entry(partition).or_default();
            own.push(waiting);
            own.len() == 1
        };
        if is_first {
            let outbox = self.clone();
            self.object
                .wait_until(async move { outbox.send(partition).await });
        }
        // The message that it travels in ends in time, so it needs no timer of its own.
        let lost = |_| Err(Fault::Unavailable(format!("{} was not answered", C::PATH)));
        call::answer_of::<C>(&answered.await.unwrap_or_else(lost)?)
    }

    /// Sends all that waits for a partition.
    async fn send(self: Rc<Self>, partition: u32) {
        let waiting = self.waiting.borrow_mut().remove(&partition);
        let mut waiting = VecDeque::from(waiting.unwrap_or_default());
        while !waiting.is_empty() {
            let some = take(&mut waiting, batch::CALLS_MAX, |one| one.message.len());
            let outbox = self.clone();
            self.object
                .wait_until(async move { outbox.send_some(partition, some).await });
        }
    }

    async fn send_some(self: Rc<Self>, partition: u32, some: Vec<Waiting>) {
        if let [_] = some.as_slice() {
            for one in some {
                self.send_one(partition, one).await;
            }
            return;
        }
        let batch = Batch {
            to: Receiver::Directory(partition),
            calls: some
                .iter()
                .map(|one| BatchedCall {
                    path: one.path.to_owned(),
                    message: one.message.clone(),
                })
                .collect(),
        };
        match call::call(&self.host, &batch).await {
            Ok(answers) => {
                for (one, answer) in some.into_iter().zip(answers) {
                    match answer {
                        // Nobody listens if its request was ended.
                        Some(bytes) => drop(one.answer.send(Ok(bytes))),
                        None => {
                            let outbox = self.clone();
                            self.object
                                .wait_until(async move { outbox.send_one(partition, one).await });
                        }
                    }
                }
            }
            Err(fault) => {
                for one in some {
                    drop(one.answer.send(Err(fault.clone())));
                }
            }
        }
    }

    /// Sends a call by itself.
    async fn send_one(&self, partition: u32, one: Waiting) {
        let answer = call::carry(
            &self.host,
            Address::Directory(partition),
            one.path,
            one.message,
        )
        .await;
        drop(one.answer.send(answer));
    }
}
