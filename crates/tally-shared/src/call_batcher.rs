//! Joins concurrent calls of one request into batches, by receiver.
//!
//! Invariants: each call gets its own answer, or [`Fault::Unavailable`] if its outcome is unknown. A receiver has one
//! batch of a batcher in flight at a time. A batcher belongs to one request, since no request may wake another.
//!
//! Life of a call: it is *queued*. It is *sent*, in a batch with all others that are queued for its receiver, or alone
//! if the receiving object hosts one tenant. It is *answered*. A call of a batch whose receiver answers that it is
//! still under way is sent again, with the same message: all calls that are made here may be repeated without harm.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use futures_channel::oneshot;
use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::call::{answer_of, call_within, exchange, receiver_of, target};
use super::concurrency::all_in_order;
use super::open_objects;
use tally_core::counter::coalescing_queue::CoalescingQueue;
use tally_host::{Host, Target};
use tally_wire::messages::{Batch, BatchedCall, Call, Fault, Receiver, batch, encode};

/// The most batches of a batcher in flight at once: 16 MiB of messages at most.
pub const BATCHES_AT_ONCE: usize = 16;

/// The most calls of a batcher in flight at once outside of batches.
pub const ALONE_AT_ONCE: usize = 64;

/// Up to this many unfinished calls of a batch are repeated one by one; more are sent as a batch again.
pub const REPEATED_ALONE_MAX: usize = 64;

/// The size of a call without its message, bytes.
const CALL_BYTES: usize = 32;

/// The encoded answer to a call.
pub type CallBytes = Result<Vec<u8>, Fault>;

/// A call that waits to be sent.
pub struct QueuedCall {
    path: &'static str,
    message: Vec<u8>,
    milliseconds: u64,
    /// Its deadline, once it was sent.
    until_ms: Option<i64>,
    answer_sender: oneshot::Sender<CallBytes>,
}

impl QueuedCall {
    /// A call that has so much time once it is sent, and the receiver of its answer.
    pub fn new(
        path: &'static str,
        message: Vec<u8>,
        milliseconds: u64,
    ) -> (Self, oneshot::Receiver<CallBytes>) {
        let (answer_sender, answer_receiver) = oneshot::channel();
        let queued = Self {
            path,
            message,
            milliseconds,
            until_ms: None,
            answer_sender,
        };
        (queued, answer_receiver)
    }

    /// The call as it was before it was sent.
    pub fn anew(self) -> Self {
        Self {
            until_ms: None,
            ..self
        }
    }

    /// The time it has left. The time begins when it is first sent.
    fn left_ms(&mut self, now_ms: i64) -> u64 {
        let whole_ms = self.milliseconds;
        let until_ms = *self
            .until_ms
            .get_or_insert_with(|| now_ms.saturating_add_unsigned(whole_ms));
        u64::try_from(until_ms.saturating_sub(now_ms)).unwrap_or(0)
    }

    fn answer(self, answer: CallBytes) {
        // There is no receiver if the caller was dropped.
        let _ = self.answer_sender.send(answer);
    }
}

struct Queues {
    batched: CoalescingQueue<Receiver, QueuedCall>,
    alone: VecDeque<(Target, QueuedCall)>,
    sent_alone: usize,
}

/// The calls of one request.
pub struct Batcher {
    host: Host,
    queues: RefCell<Queues>,
}

/// The calls in flight.
type CallsInFlight<'a> = FuturesUnordered<LocalBoxFuture<'a, ()>>;

impl Batcher {
    /// A batcher without calls.
    pub fn new(host: &Host) -> Self {
        Self {
            host: host.clone(),
            queues: RefCell::new(Queues {
                batched: CoalescingQueue::new(1),
                alone: VecDeque::new(),
                sent_alone: 0,
            }),
        }
    }

    /// Sends a message to its receiver, in a batch if possible. The receiver must answer within this time after it was
    /// sent. Only within [`Batcher::run`].
    ///
    /// # Errors
    /// What the receiver answers, or `Unavailable` where it does not.
    pub async fn call<C: Call>(&self, message: &C, milliseconds: u64) -> Result<C::Answer, Fault> {
        let bytes = encode(message)?;
        let receiver = receiver_of(&self.host, message.to());
        let to = match receiver {
            Some(receiver) => Ok(receiver),
            None => Err(target(&self.host, message.to())),
        };
        let answer = self.queue(to, C::PATH, bytes, milliseconds).await;
        answer_of::<C>(&self.host, &answer?)
    }

    /// Queues a call. Not generic, so that its code exists once.
    async fn queue(
        &self,
        to: Result<Receiver, Target>,
        path: &'static str,
        message: Vec<u8>,
        milliseconds: u64,
    ) -> CallBytes {
        let (queued, answer_receiver) = QueuedCall::new(path, message, milliseconds);
        {
            let mut queues = self.queues.borrow_mut();
            match to {
                // `begin` finds what is ready.
                Ok(receiver) => drop(queues.batched.join(&receiver, queued)),
                Err(target) => queues.alone.push_back((target, queued)),
            }
        }
        let dropped = |_| Err(Fault::Unavailable(format!("{path} was not sent")));
        answer_receiver.await.unwrap_or_else(dropped)
    }

    /// Runs work that makes calls, and sends them.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut sent = CallsInFlight::new();
        poll_fn(|context| {
            loop {
                if let Poll::Ready(done) = work.as_mut().poll(context) {
                    return Poll::Ready(done);
                }
                self.begin(&mut sent);
                // An answer wakes the work, and lets other calls begin.
                if !take_answers(&mut sent, context) {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Sends the calls that may be sent now.
    fn begin<'a>(&'a self, sent: &mut CallsInFlight<'a>) {
        let mut queues = self.queues.borrow_mut();
        let calls_max = open_objects::batch_max(&self.host);
        for receiver in queues.batched.ready(BATCHES_AT_ONCE) {
            let calls = queues.batched.take(&receiver, room_for(calls_max));
            sent.extend(calls.map(|calls| self.send(receiver, calls).boxed_local()));
        }
        while queues.sent_alone < ALONE_AT_ONCE
            && let Some((to, queued)) = queues.alone.pop_front()
        {
            queues.sent_alone += 1;
            sent.push(self.send_alone(to, queued).boxed_local());
        }
    }

    async fn send_alone(&self, to: Target, queued: QueuedCall) {
        send_alone(&self.host, to, queued).await;
        let mut queues = self.queues.borrow_mut();
        queues.sent_alone = queues.sent_alone.saturating_sub(1);
    }

    async fn send(&self, to: Receiver, calls: Vec<QueuedCall>) {
        let turn = open_objects::turn_of_batch(&self.host, &to, calls.len()).await;
        let again = send_together(&self.host, &to, calls).await;
        drop(turn);
        self.repeat(&to, again);
        self.queues.borrow_mut().batched.end(&to);
    }

    /// Queues calls again that are still under way at their receiver.
    fn repeat(&self, to: &Receiver, calls: Vec<QueuedCall>) {
        let now_ms = self.host.now_ms();
        let is_alone = calls.len() <= REPEATED_ALONE_MAX;
        let mut queues = self.queues.borrow_mut();
        for mut queued in calls {
            if queued.left_ms(now_ms) == 0 {
                let what = format!("{} took too long", queued.path);
                queued.answer(Err(Fault::Unavailable(what)));
            } else if is_alone {
                let target = target(&self.host, to.address());
                queues.alone.push_back((target, queued));
            } else {
                queues.batched.join(to, queued);
            }
        }
    }
}

/// Takes the answers that have come. Returns whether there was any.
fn take_answers(sent: &mut CallsInFlight<'_>, context: &mut Context<'_>) -> bool {
    let mut has_answers = false;
    while let Poll::Ready(Some(())) = sent.poll_next_unpin(context) {
        has_answers = true;
    }
    has_answers
}

/// Returns a function that tells for one call after the other whether it fits into a batch of `calls_max`.
pub fn room_for(calls_max: usize) -> impl FnMut(&QueuedCall) -> bool {
    let (mut calls, mut bytes) = (0, 0);
    move |queued| {
        calls += 1;
        bytes += queued.message.len() + CALL_BYTES;
        calls <= calls_max && bytes <= batch::BYTES_MAX
    }
}

/// Sends a call by itself, and hands out the answer.
pub fn send_alone(host: &Host, to: Target, mut queued: QueuedCall) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let left_ms = queued.left_ms(host.now_ms());
        let message = std::mem::take(&mut queued.message);
        let answer = exchange(host, to, queued.path, message, left_ms).await;
        queued.answer(answer);
    })
}

/// Sends calls to their receiver, and hands out the answers.
pub fn send_together<'a>(
    host: &'a Host,
    to: &'a Receiver,
    mut calls: Vec<QueuedCall>,
) -> LocalBoxFuture<'a, Vec<QueuedCall>> {
    Box::pin(async move {
        let now_ms = host.now_ms();
        // A repeated call has less time left; the others keep the longer time.
        let left_ms = calls.iter_mut().map(|queued| queued.left_ms(now_ms)).max();
        let left_ms = left_ms.unwrap_or(0);
        if let [_] = &calls[..] {
            // Without a batch the plain message is sent.
            for queued in calls {
                send_alone(host, target(host, to.address()), queued).await;
            }
            return Vec::new();
        }
        let batch = Batch {
            to: to.clone(),
            calls: calls.iter_mut().map(batched_call).collect(),
        };
        let answers = match call_within(host, &batch, left_ms).await {
            Ok(answers) => answers,
            Err(fault) => {
                for queued in calls {
                    queued.answer(Err(fault.clone()));
                }
                return Vec::new();
            }
        };
        let mut again = Vec::new();
        let mut answers = answers.into_iter();
        for (mut queued, sent) in calls.into_iter().zip(batch.calls) {
            match answers.next() {
                Some(Some(bytes)) => queued.answer(Ok(bytes)),
                Some(None) => {
                    queued.message = sent.message;
                    again.push(queued);
                }
                None => {
                    let what = format!("{} was not answered in its batch", queued.path);
                    queued.answer(Err(Fault::Unavailable(what)));
                }
            }
        }
        again
    })
}

fn batched_call(queued: &mut QueuedCall) -> BatchedCall {
    BatchedCall {
        path: queued.path.to_owned(),
        message: std::mem::take(&mut queued.message),
    }
}

/// Sends many messages, in batches if possible. Returns the answers in the order of the messages. Each must be answered
/// within this time after it was sent. All may be repeated without harm.
pub async fn call_many<C: Call>(
    host: &Host,
    messages: &[C],
    milliseconds: u64,
) -> Vec<Result<C::Answer, Fault>> {
    let batcher = Batcher::new(host);
    let calls = messages
        .iter()
        .map(|message| batcher.call(message, milliseconds));
    batcher.run(all_in_order(calls)).await
}
