//! Events of one isolate on their way to where they wait: an inbox, or a queue of the platform.
//!
//! Invariants: an event is in one message of one batch. For a queue, each message has a key of its own before it
//! is sent: whatever a batch meets on its way, sent twice, delivered twice or out of order, its keys count once.
//! For an inbox, batches of one lane are sent one after the other, so that their nonces rise.
//!
//! Life of an event: joined to a message of the open batch, or a message of its own → the batch is taken, when
//! nothing is in flight or when it is full → it settles, and all who joined it look up how.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::flush_outcomes::FlushOutcomes;
use super::id::{CounterId, Datacenter};
use super::ledger::{KeySource, KeyedWrite, WriteKey};
use super::nonces::Nonce;
use super::queue::{APPEND_ENTRIES_MAX, Due, Event, SUMMED_MAX, keys_of};

/// The most messages that a queue of the platform takes at once. Source: Cloudflare Queues, "Limits".
pub const BATCH_MESSAGES_MAX: usize = 100;

/// The most bytes of messages that the platform takes at once; 1 KB is 1,000 bytes there.
pub const BATCH_BYTES_MAX: usize = 256_000;

/// The longest message of a queue of the platform, in bytes: a counter of 512 bytes, a datacenter of 16, each with
/// its length, two tags, a key of 16, and four numbers of at most 19 + 3 × 10 bytes.
pub const MESSAGE_BYTES_MAX: usize = 512 + 2 + 16 + 1 + 2 + 16 + 19 + 3 * 10;

/// What the platform adds to a message. Source: as above.
const METADATA_BYTES: usize = 100;

// A batch is full by its messages before it is by its bytes: 100 × 698 are 70 KB.
const _: () = assert!(BATCH_MESSAGES_MAX * (MESSAGE_BYTES_MAX + METADATA_BYTES) <= BATCH_BYTES_MAX);

/// The most full batches of messages that wait for the platform's queue: 8 of 500 messages of 600 bytes are 2.4 MB.
pub const FULL_MAX: usize = 8;

/// What batches are bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxLimits {
    /// The most messages of one.
    pub messages_max: usize,
    /// The most that are in flight.
    pub in_flight_max: usize,
    /// Whether events of one counter and second become one message. A queue is paid for by the message; an inbox
    /// adds up what it has logged anyway, and a row tells what was acknowledged.
    pub joins: bool,
}

/// Those to a queue. The platform opens six connections for one request.
pub const QUEUE_LIMITS: OutboxLimits = OutboxLimits {
    messages_max: BATCH_MESSAGES_MAX,
    in_flight_max: 4,
    joins: true,
};

/// Those to an inbox.
pub const INBOX_LIMITS: OutboxLimits = OutboxLimits {
    messages_max: APPEND_ENTRIES_MAX,
    in_flight_max: 1,
    joins: false,
};

/// How long a request waits for its batch, milliseconds. After that the batch is given up, so that others
/// are sent.
pub const WAIT_MS_MAX: i64 = 10_000;

/// Outcomes that are remembered, for those who have not looked yet: 10 s of one each 2.5 ms.
const SETTLED_MAX: usize = 4_096;

/// What one message says. A stored format, inside [`Message`](crate::protocol::queued::Message).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedEvents {
    /// Where it was accepted: the lead there counts it.
    pub datacenter: Datacenter,
    /// The counter.
    pub counter: CounterId,
    /// The generation that lived when it was accepted.
    pub generation: u64,
    /// How much.
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
    /// The write that it stands for.
    pub fn into_due(self) -> Due {
        Due {
            counter: self.counter,
            is_clients: self.is_clients,
            write: KeyedWrite {
                key: self.key,
                fingerprint: self.fingerprint,
                generation: self.generation,
                added: self.added,
                removed: 0,
                live: Vec::new(),
                past: vec![(self.second, self.added)],
                // Nobody is answered with the value.
                seen: Some(Default::default()),
                condition: None,
                samples: Vec::new(),
                dimensions: Default::default(),
            },
        }
    }

    /// What its key is.
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
            // A message that no counter can hold takes no other with it.
            && self.added <= SUMMED_MAX
            && event.added <= SUMMED_MAX
            && self.counter == event.counter
            && self.datacenter == event.datacenter
    }
}

/// What an isolate sends to one place. `O` is how a batch ended.
#[derive(Clone, Debug)]
pub struct Producer<O> {
    limits: OutboxLimits,
    lane: u64,
    /// Number of the batch that is gathered now.
    number: u64,
    open: Vec<QueuedEvents>,
    full: VecDeque<(u64, Vec<QueuedEvents>)>,
    /// Batches in flight, and since when, unix milliseconds.
    in_flight: Vec<(u64, i64)>,
    settled: FlushOutcomes<O, SETTLED_MAX>,
}

impl<O: Clone> Producer<O> {
    /// Nothing is gathered yet.
    pub fn new(limits: OutboxLimits) -> Self {
        Self {
            limits,
            lane: 0,
            number: 1,
            open: Vec::new(),
            full: VecDeque::new(),
            in_flight: Vec::new(),
            settled: FlushOutcomes::default(),
        }
    }

    /// Whether nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.full.is_empty() && self.in_flight.is_empty()
    }

    /// Adds an event. Returns the number of its batch; `None` where too many wait, and it was not added. Cost:
    /// O(messages of a batch).
    pub fn join(&mut self, event: QueuedEvents) -> Option<u64> {
        self.join_named(event, &mut |_| {})
    }

    /// [`Producer::join`], where `name` gives a key to an event that begins a message.
    pub fn join_named(
        &mut self,
        mut event: QueuedEvents,
        name: &mut dyn FnMut(&mut QueuedEvents),
    ) -> Option<u64> {
        let joins = self.limits.joins;
        let mut open = self.open.iter_mut();
        if let Some(message) = open.find(|message| joins && message.takes(&event)) {
            // No overflow: see `SUMMED_MAX`.
            message.added = message.added.saturating_add(event.added);
            return Some(self.number);
        }
        if self.open.len() >= self.limits.messages_max {
            if self.full.len() >= FULL_MAX {
                return None;
            }
            let full = std::mem::take(&mut self.open);
            self.full.push_back((self.number, full));
            self.number += 1;
        }
        name(&mut event);
        self.open.push(event);
        Some(self.number)
    }

    /// Takes a batch that may be sent now, with its name: one that is full as long as not too many are in flight, the
    /// open one if none is, so that what comes meanwhile is sent together. `new_lane` is drawn at random.
    pub fn take(
        &mut self,
        now_ms: i64,
        new_lane: &mut dyn FnMut() -> u64,
    ) -> Option<(Nonce, Vec<QueuedEvents>)> {
        let before = self.in_flight.len();
        // The request that sent it was ended.
        self.in_flight
            .retain(|(_, since_ms)| (0..=WAIT_MS_MAX).contains(&(now_ms - since_ms)));
        let is_lost = self.in_flight.len() < before;
        let (number, messages) = if self.full.is_empty() {
            if !self.in_flight.is_empty() || self.open.is_empty() {
                return None;
            }
            self.number += 1;
            (self.number - 1, std::mem::take(&mut self.open))
        } else {
            if self.in_flight.len() >= self.limits.in_flight_max {
                return None;
            }
            self.full.pop_front()?
        };
        if is_lost || self.lane == 0 {
            // What becomes of what was lost is unknown: it may still arrive, after this.
            self.lane = new_lane();
        }
        self.in_flight.push((number, now_ms));
        let lane = self.lane;
        Some((Nonce { lane, number }, messages))
    }

    /// Notes how a batch ended.
    pub fn settle(&mut self, number: u64, outcome: O) {
        self.in_flight.retain(|(in_flight, _)| *in_flight != number);
        self.settled.keep(number, outcome);
    }

    /// How a batch ended; `None` while that is not known. Cost: as [`FlushOutcomes::outcome`].
    pub fn outcome(&self, number: u64) -> Option<O> {
        self.settled.outcome(number).cloned()
    }
}
