//! The deployment's queue.
//!
//! Invariant: at least once. A message leaves the queue when its consumer has said [`MessageOutcome::Acknowledged`], or
//! after too many deliveries, to the dead letters. Messages come in any order, in batches drawn by chance, and now and
//! then once more after they were done.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tally_host::{Delivered, Host, Later, MessageOutcome};

use crate::core::Core;
use crate::intervention::{Verdict, judged};
use crate::isolate::Role;
use crate::network::Site;
use crate::one_shot::OneShot;

/// How long the queue waits for a consumer, milliseconds. Source:
/// <https://developers.cloudflare.com/queues/platform/limits/>.
const CONSUMER_MS_MAX: u64 = 15 * 60 * 1_000;

/// When a batch is delivered again whose consumer has failed, milliseconds at most.
const AGAIN_MS_MAX: u64 = 10_000;

/// Consumes a batch. A message without an outcome is delivered again.
pub type Consumer = Rc<dyn Fn(Host, Vec<Delivered>) -> Later<Vec<MessageOutcome>>>;

struct Message {
    body: Vec<u8>,
    attempts: u32,
}

/// The deployment's queue.
#[derive(Default)]
pub struct Queue {
    consumer: RefCell<Option<Consumer>>,
    /// The messages that may be delivered now.
    due: RefCell<Vec<Message>>,
    /// Messages that are neither done nor dead.
    left: Cell<usize>,
    dead: RefCell<Vec<Vec<u8>>>,
}

impl Queue {
    /// Sets the consumer.
    pub fn set_consumer(&self, consumer: Consumer) {
        *self.consumer.borrow_mut() = Some(consumer);
    }

    /// How many messages are neither done nor dead.
    pub fn left(&self) -> usize {
        self.left.get()
    }

    /// Those that were delivered too often.
    pub fn dead(&self) -> Vec<Vec<u8>> {
        self.dead.borrow().clone()
    }

    /// Drops all messages.
    pub(crate) fn clear(&self) {
        drop(self.consumer.take());
    }
}

impl Core {
    /// Puts messages into the queue, all or none.
    pub(crate) fn enqueue(
        self: &Rc<Self>,
        from: Site,
        messages: Rc<[Vec<u8>]>,
        slot: Rc<OneShot<Result<(), String>>>,
    ) {
        let fails = self.chance.once_in(self.faults.get().enqueue_fails_once_in);
        let is_there = !fails || self.chance.once_in(2);
        let core = self.clone();
        let (there_us, back_us) = (self.delay_us(from, from), self.delay_us(from, from));
        self.after(there_us, move || {
            core.record(|| format!("enqueue  {} messages, fails: {fails}", messages.len()));
            if is_there {
                for body in messages.iter().cloned() {
                    core.queue.left.set(core.queue.left.get() + 1);
                    core.requeue(Message { body, attempts: 0 }, 0);
                }
            }
            let outcome = match fails {
                true => Err("the queue failed".to_owned()),
                false => Ok(()),
            };
            core.after(back_us, move || slot.fill(outcome));
        });
    }

    fn requeue(self: &Rc<Self>, message: Message, after_ms: u64) {
        let late_us = self
            .chance
            .below(self.faults.get().queue_ms_max * 1_000 + 1);
        let core = self.clone();
        self.after(after_ms * 1_000 + late_us, move || {
            core.queue.due.borrow_mut().push(message);
            // All that come due at one instant may share a batch.
            let known = core.clone();
            core.after(0, move || known.deliver_batch());
        });
    }

    fn deliver_batch(self: &Rc<Self>) {
        let mut due = self.queue.due.borrow_mut();
        if due.is_empty() {
            return;
        }
        let most = self
            .chance
            .between(1, u64::try_from(self.options.queue_batch_max).unwrap_or(1));
        let count = usize::try_from(most).unwrap_or(1).min(due.len());
        let mut batch = Vec::new();
        for _ in 0..count {
            let place = self.chance.pick(due.len());
            batch.push(due.swap_remove(place));
        }
        if !due.is_empty() {
            let core = self.clone();
            self.after(1_000, move || core.deliver_batch());
        }
        drop(due);
        for message in &mut batch {
            message.attempts += 1;
        }
        let site = Site(self.chance.pick(self.network.len()));
        let isolates = self.isolates(Role::Aggregator, site, self.options.aggregators.max(1));
        let isolate = isolates[self.chance.pick(isolates.len())].clone();
        let delivered: Vec<Delivered> = batch
            .iter()
            .map(|message| Delivered {
                body: Some(message.body.clone()),
                attempts: message.attempts,
            })
            .collect();
        let count = u64::try_from(delivered.len()).unwrap_or(u64::MAX);
        self.journal.count(|figures| figures.delivered += count);
        self.record(|| format!("queue    {count} messages to {}", isolate.label));
        let consumer = self.queue.consumer.borrow().clone();
        let consumer = consumer.expect("the world has a queue and no consumer: set one");
        let (host, _, request) = self.enter(&isolate);
        let pending = Pending {
            core: self.clone(),
            batch,
        };
        let time_limit = self.executor.sleep(CONSUMER_MS_MAX * 1_000);
        let verdict = self.intervention.verdict("QUEUE", "", "");
        let core = self.clone();
        let work = async move {
            let consume = async {
                let verdict = match verdict {
                    Some(verdict) => verdict.await,
                    None => Verdict::Answered,
                };
                judged(&core, verdict, || consumer(host, delivered)).await
            };
            let consumed = std::pin::pin!(consume);
            let limited = futures_util::future::select(consumed, time_limit).await;
            if let futures_util::future::Either::Left((Ok(outcomes), _)) = limited {
                pending.end(&outcomes);
            }
        };
        self.executor
            .spawn(isolate.owner(), request, Box::pin(work));
    }
}

/// A batch that its consumer has. Dropped without outcomes it is delivered again.
struct Pending {
    core: Rc<Core>,
    batch: Vec<Message>,
}

impl Pending {
    fn end(mut self, outcomes: &[MessageOutcome]) {
        let core = self.core.clone();
        for (place, message) in std::mem::take(&mut self.batch).into_iter().enumerate() {
            match outcomes.get(place) {
                Some(MessageOutcome::Acknowledged) => {
                    if core.chance.once_in(core.faults.get().redelivers_once_in) {
                        core.requeue(message, core.chance.below(AGAIN_MS_MAX));
                    } else {
                        core.queue.left.set(core.queue.left.get() - 1);
                    }
                }
                Some(MessageOutcome::Again { seconds }) => {
                    Self::again(&core, message, u64::from(*seconds) * 1_000);
                }
                None => Self::again(&core, message, 0),
            }
        }
    }

    fn again(core: &Rc<Core>, message: Message, after_ms: u64) {
        if message.attempts > core.options.queue_retries_max {
            core.record(|| "queue    a message is dead".to_owned());
            core.queue.left.set(core.queue.left.get() - 1);
            core.queue.dead.borrow_mut().push(message.body);
            return;
        }
        core.requeue(message, after_ms);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.core.is_closing() {
            return;
        }
        let core = self.core.clone();
        for message in std::mem::take(&mut self.batch) {
            Self::again(&core, message, core.chance.below(AGAIN_MS_MAX));
        }
    }
}
