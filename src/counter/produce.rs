//! Events of one isolate on their way into a queue of the platform.
//!
//! Invariants: an event is in one message of one batch, and each message has a key of its own before it is
//! sent: whatever a batch meets on its way, sent twice, delivered twice or out of order, its keys count once.
//!
//! Life of an event: joined to a message of the open batch, or a message of its own → the batch is taken, when
//! nothing flies or when it is full → it lands, and all who joined it look up how.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::id::{CounterId, Datacenter};
use super::ledger::{Keyed, WriteKey};
use super::queue::{Due, SUMMED_MAX};

/// The most messages that the platform takes at once. Source: Cloudflare Queues, "Limits".
pub const BATCH_MESSAGES_MAX: usize = 100;

/// The most bytes that it takes at once; 1 KB is 1,000 bytes there.
pub const BATCH_BYTES_MAX: usize = 256_000;

/// The longest message: a counter of 512 bytes, a datacenter of 16, each with its length, two tags, a key of
/// 16, and four numbers of at most 19 + 3 × 10 bytes.
pub const MESSAGE_BYTES_MAX: usize = 512 + 2 + 16 + 1 + 2 + 16 + 19 + 3 * 10;

/// What the platform adds to a message. Source: as above.
const METADATA_BYTES: usize = 100;

// A batch is full by its messages before it is by its bytes: 100 × 698 are 70 KB.
const _: () = assert!(BATCH_MESSAGES_MAX * (MESSAGE_BYTES_MAX + METADATA_BYTES) <= BATCH_BYTES_MAX);

/// The most batches in flight. The platform opens six connections for one request.
pub const FLIGHTS_MAX: usize = 4;

/// The most full batches that wait: 32 × 70 KB are 2.2 MB.
pub const FULL_MAX: usize = 32;

/// When a batch is called lost of which nothing was heard, so that others fly, milliseconds.
pub const FLIGHT_MS_MAX: i64 = 10_000;

/// Outcomes that are remembered, for those who have not looked yet: 10 s of one each 2.5 ms.
const LANDED_MAX: usize = 4_096;

/// What one message says. A stored format, inside [`Message`](crate::protocol::queued::Message).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
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

impl Sent {
    /// The write that it stands for.
    pub fn into_due(self) -> Due {
        Due {
            counter: self.counter,
            is_clients: self.is_clients,
            write: Keyed {
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
            },
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

/// What an isolate sends. `O` is how a batch ended.
#[derive(Clone, Debug)]
pub struct Producer<O> {
    /// Number of the batch that is gathered now.
    number: u64,
    open: Vec<Sent>,
    full: VecDeque<(u64, Vec<Sent>)>,
    /// Batches in flight, and since when, unix milliseconds.
    flying: Vec<(u64, i64)>,
    landed: VecDeque<(u64, O)>,
}

impl<O> Default for Producer<O> {
    fn default() -> Self {
        Self {
            number: 1,
            open: Vec::new(),
            full: VecDeque::new(),
            flying: Vec::new(),
            landed: VecDeque::new(),
        }
    }
}

impl<O: Clone> Producer<O> {
    /// Adds an event, whose key is its own or was drawn for it. Returns the number of its batch; `None` where
    /// too many wait, and it was not added. Cost: O(messages of a batch).
    pub fn join(&mut self, event: Sent) -> Option<u64> {
        if let Some(message) = self.open.iter_mut().find(|message| message.takes(&event)) {
            // No overflow: see `SUMMED_MAX`.
            message.added = message.added.saturating_add(event.added);
            return Some(self.number);
        }
        if self.open.len() >= BATCH_MESSAGES_MAX {
            if self.full.len() >= FULL_MAX {
                return None;
            }
            let full = std::mem::take(&mut self.open);
            self.full.push_back((self.number, full));
            self.number += 1;
        }
        self.open.push(event);
        Some(self.number)
    }

    /// Takes a batch that may fly now, with its number: one that is full as long as not too many fly, the open
    /// one if none does, so that what comes meanwhile flies together.
    pub fn take(&mut self, now_ms: i64) -> Option<(u64, Vec<Sent>)> {
        // The request that flew it was ended.
        self.flying
            .retain(|(_, since_ms)| (0..=FLIGHT_MS_MAX).contains(&(now_ms - since_ms)));
        let taken = if self.full.is_empty() {
            if !self.flying.is_empty() || self.open.is_empty() {
                return None;
            }
            self.number += 1;
            (self.number - 1, std::mem::take(&mut self.open))
        } else {
            if self.flying.len() >= FLIGHTS_MAX {
                return None;
            }
            self.full.pop_front()?
        };
        self.flying.push((taken.0, now_ms));
        Some(taken)
    }

    /// Notes how a batch ended.
    pub fn land(&mut self, number: u64, outcome: O) {
        self.flying.retain(|(flying, _)| *flying != number);
        if self.landed.len() >= LANDED_MAX {
            self.landed.pop_front();
        }
        self.landed.push_back((number, outcome));
    }

    /// How a batch ended; `None` while that is not known.
    pub fn outcome(&self, number: u64) -> Option<O> {
        let mut newest_first = self.landed.iter().rev();
        let found = newest_first.find(|(landed, _)| *landed == number);
        found.map(|(_, outcome)| outcome.clone())
    }
}
