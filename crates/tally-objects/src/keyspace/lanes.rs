//! Joins additions to counters of a keyspace. While one message is in flight to a cell, further additions to that
//! counter wait, and go together as the next message. If additions of several requests were joined lately, the first
//! one waits for others: while the platform handles one request, it accepts no other.
//!
//! Invariant: each waiter holds its key, so no other command runs in between. Its answer is the counter's value right
//! after its own addition. All requests of one object share a context, so one may wake another.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_channel::oneshot;

use super::counters::Counters;
use tally_core::counter::coalescing_queue::CoalescingQueue;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::Host;
use tally_host::object::Object;
use tally_redis::reply_error::ReplyError;
use tally_wire::messages::Fault;

/// How long an addition waits for others, milliseconds.
const GATHER_MS: u64 = 1;

/// The number of messages that wait [`GATHER_MS`] after one that joined additions. Each message that joined none halves
/// the rest.
const GATHERING_MESSAGES: u32 = 64;

/// Otherwise one message in this many waits, to test whether additions can be joined.
const GATHER_EVERY: u32 = 256;

/// The counter's value after the addition; `None` if it was refused, and nothing was added.
type Added = Result<Option<i64>, Fault>;

/// A waiting addition, at least 0. Its request is open, so there are at most as many as open requests have keys.
struct Waiting {
    sum: i64,
    answer_sender: oneshot::Sender<Added>,
}

/// The waiting additions of each counter with a message in flight.
pub(super) struct AddLanes {
    object: Object,
    counters: Rc<Counters>,
    queue: RefCell<CoalescingQueue<CounterId, Waiting>>,
    host: Host,
    /// How many of the next messages wait for others, see [`GATHERING_MESSAGES`].
    gathering_messages_left: Cell<u32>,
    /// How many messages have been sent since one waited.
    messages_since_gather: Cell<u32>,
}

/// Held while a message is in flight. Its drop sends the additions that wait.
struct AdditionGuard {
    lanes: Rc<AddLanes>,
    id: CounterId,
    here: Datacenter,
}

impl Drop for AdditionGuard {
    fn drop(&mut self) {
        let Self { lanes, id, here } = self;
        let is_next = lanes.queue.borrow_mut().end(id);
        if is_next {
            lanes.begin(id.clone(), here.clone());
        }
    }
}

impl AddLanes {
    pub(super) fn new(object: Object, host: Host, counters: Rc<Counters>) -> Rc<Self> {
        Rc::new(Self {
            object,
            counters,
            queue: RefCell::new(CoalescingQueue::new(1)),
            host,
            gathering_messages_left: Cell::default(),
            messages_since_gather: Cell::default(),
        })
    }

    /// Waits for other additions if some are expected. Where one request may wake another, those that arrive together
    /// are handled in one turn, so it waits for none.
    async fn gather(&self) {
        if self.host.platform().wakes_requests() {
            return;
        }
        let messages_left = self.gathering_messages_left.get();
        let messages = self.messages_since_gather.get() + 1;
        if messages_left == 0 && messages < GATHER_EVERY {
            self.messages_since_gather.set(messages);
            return;
        }
        self.messages_since_gather.set(0);
        self.host.sleep_ms(GATHER_MS).await;
    }

    /// Adds an amount of at least 0 to a counter, together with other additions that come while a message is in flight.
    ///
    /// # Errors
    /// `Unavailable` if it is not known whether it was added.
    pub(super) async fn add(self: &Rc<Self>, id: &CounterId, here: &Datacenter, sum: i64) -> Added {
        let (answer_sender, receiver) = oneshot::channel();
        let is_next = self
            .queue
            .borrow_mut()
            .join(id, Waiting { sum, answer_sender });
        if is_next {
            self.begin(id.clone(), here.clone());
        }
        let lost = |_| {
            Err(Fault::Unavailable(
                "an addition was not answered".to_owned(),
            ))
        };
        receiver.await.unwrap_or_else(lost)
    }

    /// Sends the waiting additions of a counter.
    fn begin(self: &Rc<Self>, id: CounterId, here: Datacenter) {
        let lanes = self.clone();
        self.object.wait_until(async move {
            lanes.gather().await;
            let Some(together) = lanes.queue.borrow_mut().take(&id, one_number()) else {
                return;
            };
            let guard = AdditionGuard { lanes, id, here };
            let AdditionGuard { lanes, id, here } = &guard;
            lanes.gathering_messages_left.set(match together.len() {
                1 => lanes.gathering_messages_left.get() / 2,
                _ => GATHERING_MESSAGES,
            });
            let all = together.iter().map(|waiting| waiting.sum).sum();
            let added = lanes.add_sum(id, here, all).await;
            let mut so_far = 0;
            for Waiting { sum, answer_sender } in together {
                so_far += sum;
                // Later additions of the message are not in its own value.
                let later = all - so_far;
                let own = added.clone();
                let own = own.map(|after| after.map(|after| after.saturating_sub(later)));
                // There is no receiver if the request has ended.
                let _ = answer_sender.send(own);
            }
        });
    }

    async fn add_sum(&self, id: &CounterId, here: &Datacenter, sum: i64) -> Added {
        match self.counters.add(id, here, sum, Default::default()).await {
            Ok(added) => Ok(added.map(|(value, _)| value)),
            Err(ReplyError::Fault(fault)) => Err(fault),
            Err(ReplyError::Reply(_)) => Ok(None),
        }
    }
}

/// Returns a function that tells for one addition after the other whether their sum fits into one number.
fn one_number() -> impl FnMut(&Waiting) -> bool {
    let mut sum = Some(0_i64);
    move |waiting| {
        sum = sum.and_then(|sum| sum.checked_add(waiting.sum));
        sum.is_some()
    }
}
