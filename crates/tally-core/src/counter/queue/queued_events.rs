//! Events of one isolate on their way to an inbox, or to a queue of the platform.
//!
//! Invariants: an event is in one message of one batch. For a queue, each message has a separate key before it is sent.
//! So each key counts once, also if its batch is sent twice, delivered twice or out of order.
//!
//! Life of an event: it joins the lane of its inbox or queue, see [`crate::counter::lane`]. There it joins a message of
//! the batch, or becomes a message. Batches of one lane are sent one after the other, so that their nonces rise. A
//! batch that is larger than one send is sent in parts, at the same time. Each event has the outcome of its part.

use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::counter::id::{CounterId, Datacenter};
use crate::counter::lane::batchable::Batchable;
use crate::counter::ledger::{KeySource, KeyedWrite, WriteKey};
use crate::counter::queue::{APPEND_ENTRIES_MAX, Event, QueuedDelivery, SUMMED_MAX, keys_of};

/// The most messages that a queue of the platform takes at once. Source: Cloudflare Queues, "Limits".
pub const BATCH_MESSAGES_MAX: usize = 100;

/// The most bytes of messages that the platform takes at once; 1 KB is 1,000 bytes there.
pub const BATCH_BYTES_MAX: usize = 256_000;

/// The longest message of a queue of the platform, in bytes: a counter of 512 bytes and a datacenter of 16, each with
/// its length; two tags; a key of 16; and four numbers of at most 19 + 3 × 10 bytes.
pub const MESSAGE_BYTES_MAX: usize = 512 + 2 + 16 + 1 + 2 + 16 + 19 + 3 * 10;

/// The bytes that the platform adds to a message. Source: as above.
const METADATA_BYTES: usize = 100;

// A batch reaches its maximum of messages before that of bytes: 100 × 698 are 70 KB.
const _: () = assert!(BATCH_MESSAGES_MAX * (MESSAGE_BYTES_MAX + METADATA_BYTES) <= BATCH_BYTES_MAX);

/// The limits of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventBatchLimits {
    /// The most messages of one send.
    pub messages_max: usize,
    /// The most sends of a batch, at the same time.
    pub sends_max: usize,
    /// Whether events of one counter and second become one message. A queue is billed by the message. An inbox sums its
    /// log anyway, and a row of it holds each acknowledged event.
    pub joins: bool,
}

/// The limits of batches to a queue. The platform opens at most six connections for one request.
pub const QUEUE_LIMITS: EventBatchLimits = EventBatchLimits {
    messages_max: BATCH_MESSAGES_MAX,
    sends_max: 4,
    joins: true,
};

/// The limits of batches to an inbox.
pub const INBOX_LIMITS: EventBatchLimits = EventBatchLimits {
    messages_max: APPEND_ENTRIES_MAX,
    sends_max: 1,
    joins: false,
};

/// The content of one message. A stored format, inside `Message` of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedEvents {
    /// The datacenter that accepted it, whose lead counts it.
    pub datacenter: Datacenter,
    /// The counter.
    pub counter: CounterId,
    /// The generation that lived when it was accepted.
    pub generation: u64,
    /// The amount.
    pub added: u128,
    /// When it was accepted, in unix seconds.
    pub second: i64,
    /// Whether its key is a client's, which others may have claimed.
    pub is_clients: bool,
    /// Its key.
    pub key: WriteKey,
    /// Hash of what it asks for.
    pub fingerprint: u64,
}

impl QueuedEvents {
    /// The write of this message.
    pub fn into_delivery(self) -> QueuedDelivery {
        QueuedDelivery {
            counter: self.counter,
            is_clients: self.is_clients,
            write: KeyedWrite {
                generation: self.generation,
                added: self.added,
                past: vec![(self.second, self.added)],
                // No answer has the value.
                seen: Some(Default::default()),
                ..KeyedWrite::new(self.key, self.fingerprint)
            },
        }
    }

    /// The source of its key.
    pub fn keys(&self) -> KeySource {
        keys_of(self.is_clients, self.fingerprint)
    }

    /// The event that an inbox logs.
    pub fn into_event(self) -> Event {
        Event {
            key: self.is_clients.then_some((self.key, self.fingerprint)),
            counter: self.counter,
            delta: self.added,
            second: self.second,
        }
    }

    /// Whether another event may be added to this message.
    fn takes(&self, event: &Self) -> bool {
        !self.is_clients
            && !event.is_clients
            && self.second == event.second
            && self.generation == event.generation
            // A message that no counter can hold must fail alone.
            && self.added <= SUMMED_MAX
            && event.added <= SUMMED_MAX
            && self.counter == event.counter
            && self.datacenter == event.datacenter
    }
}

/// Gives a key to an event that begins a message.
pub type NameEvent = Rc<dyn Fn(&mut QueuedEvents)>;

/// The messages of one batch.
#[derive(Clone)]
pub struct EventBatch {
    limits: EventBatchLimits,
    name: NameEvent,
    messages: Vec<QueuedEvents>,
    /// The index of the message with the last event.
    last: usize,
}

impl fmt::Debug for EventBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.messages).finish()
    }
}

impl EventBatch {
    /// A batch of one event. An event that begins a message gets its key by `name`.
    pub fn new(event: QueuedEvents, limits: EventBatchLimits, name: NameEvent) -> Self {
        Self {
            limits,
            name,
            messages: vec![event],
            last: 0,
        }
    }

    /// The messages to send.
    pub fn into_messages(self) -> Vec<QueuedEvents> {
        self.messages
    }
}

impl EventBatchLimits {
    /// The index of the send that a message is in.
    pub fn send_of(&self, message: usize) -> usize {
        message / self.messages_max
    }
}

impl Batchable for EventBatch {
    /// The index of an event's message.
    type Position = usize;

    fn open(&mut self) {
        self.messages
            .iter_mut()
            .for_each(|event| (self.name)(event));
    }

    /// Cost: O(messages of the batch).
    fn absorb(&mut self, item: &Self) -> bool {
        let [event] = item.messages.as_slice() else {
            return false;
        };
        let joins = self.limits.joins;
        let mut messages = self.messages.iter_mut().enumerate();
        if let Some((index, message)) = messages.find(|(_, message)| joins && message.takes(event))
        {
            // No overflow: see `SUMMED_MAX`.
            message.added = message.added.saturating_add(event.added);
            self.last = index;
            return true;
        }
        let has_room = self.messages.len() < self.limits.messages_max * self.limits.sends_max;
        if has_room {
            let mut event = event.clone();
            (self.name)(&mut event);
            self.last = self.messages.len();
            self.messages.push(event);
        }
        has_room
    }

    fn position(&self) -> usize {
        self.last
    }

    fn seen_from(item: usize, _last: usize) -> usize {
        item
    }

    fn entries(&self) -> usize {
        self.messages.len()
    }

    fn depart(&mut self, _items: u32, _generation: u64, _now_ms: i64) {}
}
