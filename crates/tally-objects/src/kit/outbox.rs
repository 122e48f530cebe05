//! Messages between objects that host many tenants, from a tablet to the directory and from a partition to tablets: one
//! message for each receiver holds the calls of one turn, and those that waited while other messages were in flight.
//!
//! Invariant: a call is answered as if it were sent alone. All requests of one object share a context, so one may wake
//! another.

use std::cell::RefCell;
use std::rc::Rc;

use tally_core::counter::coalescing_queue::CoalescingQueue;
use tally_host::Host;
use tally_host::object::Object;
use tally_shared::call::{self, CALL_MS_MAX, target};
use tally_shared::call_batcher::{CallBytes, QueuedCall, room_for, send_alone, send_together};
use tally_shared::open_objects;
use tally_wire::messages::{Call, Fault, Receiver, batch, encode};

/// A message in flight, until it is dropped: then the waiting calls are sent.
struct MessageGuard {
    outbox: Rc<Outbox>,
    to: Receiver,
}

impl Drop for MessageGuard {
    fn drop(&mut self) {
        let Self { outbox, to } = self;
        let is_next = outbox.queue.borrow_mut().end(to);
        if is_next {
            outbox.begin_to_send(to.clone());
        }
    }
}

/// Waiting calls, by receiver: at most those of one turn, which are sent right after it.
pub(crate) struct Outbox {
    object: Object,
    host: Host,
    queue: RefCell<CoalescingQueue<Receiver, QueuedCall>>,
}

impl Outbox {
    /// An outbox that sends the calls of a turn right after it, as long as fewer messages than `at_once` are in flight
    /// to their receiver.
    pub(crate) fn new(object: Object, host: Host, at_once: usize) -> Rc<Self> {
        Rc::new(Self {
            object,
            host,
            queue: RefCell::new(CoalescingQueue::new(at_once)),
        })
    }

    /// Sends a message, and returns its answer; together with others if its receiver hosts many.
    ///
    /// # Errors
    /// As [`call::call`].
    pub(crate) async fn call<C: Call>(self: &Rc<Self>, message: &C) -> Result<C::Answer, Fault> {
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
    /// As [`open_objects::call_open`].
    pub(crate) async fn notify<C: Call>(self: &Rc<Self>, message: &C) -> Result<C::Answer, Fault> {
        match call::receiver_of(&self.host, message.to()) {
            Some(_) => self.call(message).await,
            None => open_objects::call_open(&self.host, message).await,
        }
    }

    /// Queues a message. Not generic, so that the code for it is there once.
    async fn queue(
        self: &Rc<Self>,
        receiver: Receiver,
        path: &'static str,
        message: Vec<u8>,
    ) -> CallBytes {
        let (queued, answer) = QueuedCall::new(path, message, CALL_MS_MAX);
        let is_next = self.queue.borrow_mut().join(&receiver, queued);
        if is_next {
            self.begin_to_send(receiver);
        }
        // The message that it travels in ends in time, so it needs no timer of its own.
        let lost = |_| Err(Fault::Unavailable(format!("{path} was not answered")));
        answer.await.unwrap_or_else(lost)
    }

    /// Sends the waiting calls for a receiver after this turn.
    fn begin_to_send(self: &Rc<Self>, receiver: Receiver) {
        let outbox = self.clone();
        self.object.wait_until(async move {
            let next = || {
                let mut queue = outbox.queue.borrow_mut();
                queue.take(&receiver, room_for(batch::CALLS_MAX))
            };
            while let Some(calls) = next() {
                outbox.begin_message(receiver.clone(), calls);
            }
        });
    }

    fn begin_message(self: &Rc<Self>, to: Receiver, calls: Vec<QueuedCall>) {
        let outbox = self.clone();
        let guard = MessageGuard { outbox, to };
        self.object.wait_until(async move {
            let MessageGuard { outbox, to } = &guard;
            for one in send_together(&outbox.host, to, calls).await {
                let (host, to) = (outbox.host.clone(), to.clone());
                outbox.object.wait_until(async move {
                    send_alone(&host, target(&host, to.address()), one.anew()).await;
                });
            }
        });
    }
}
