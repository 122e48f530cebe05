//! The queue of one inbox: events that are acknowledged and not counted yet.
//!
//! Invariant: an event is in a log row, in a batch, or counted, and moves from one to the next in one commit:
//! rows become a batch in a commit of the inbox, and what a batch writes is counted by a cell in one commit
//! with its key, which was drawn before the batch was durable. So whatever is sent again after a crash counts
//! nothing, and what a crash came before is sent again.
//!
//! Life of an event: appended to the log → gathered into a batch, one keyed write for each counter → sent
//! until its cell answers → done, or dead where it can never be counted.

mod write_outcome;

pub use write_outcome::{
    DeadLetter, DeadLetterReason, WriteOutcome, retry_after_ms, retry_seconds, verdict,
};

use serde::{Deserialize, Serialize};

use super::id::{CounterId, Datacenter};
use super::ledger::{KeySource, KeyedWrite, WriteKey};
use super::ledgers::is_marked;
use super::nonces::Nonce;
use super::numbers::{COUNTED_WITHIN_MS, NUMBERED};
use crate::order::map_of;

/// Inboxes of one datacenter: each an object of about 1,000 requests/s, and each isolate stays with one.
pub const INBOXES_PER_DATACENTER: u8 = 4;

/// The most events of one append: 500 of at most 600 bytes are 300 KB, in a row of at most 2 MB.
pub const APPEND_ENTRIES_MAX: usize = 500;

/// The most rows of a log, each an append: beyond it events are refused. 20,000 of usually 1 to 20 KB.
pub const LOG_ROWS_MAX: u64 = 20_000;

/// The most rows of one batch.
pub const BATCH_ROWS_MAX: u32 = 200;

/// The most bytes of log rows that are read for one batch, but for its first row: 10,000 events of 400 bytes. Of the
/// longest ids there are 6,600 in a batch.
pub const BATCH_LOG_BYTES_MAX: u64 = 4 << 20;

/// The most events of one batch, but for its first row: 10,000 amounts of at most 26 bytes are 260 KB.
pub const BATCH_ENTRIES_MAX: usize = 10_000;

/// The most writes of one batch, but for its first row: 1,000 of at most 650 bytes are 650 KB, with the
/// amounts below the 2 MB of a row. Many distinct counters end a batch early.
pub const DISTINCT_KEYS_MAX: usize = 1_000;

/// The largest amount that is summed with others. A larger one is a write of its own, so that one that no
/// counter can hold takes no other with it: 10,000 of these are far below 2^128.
pub const SUMMED_MAX: u128 = 1 << 64;

/// The largest sum that others are added to while they wait: two of these are below 2^128.
const WAITING_SUM_MAX: u128 = 1 << 126;

/// The shortest time between the beginnings of two batches.
pub const BATCH_SPACING_MS: i64 = 250;

/// The most batches of an inbox that wait for their first answer: beyond it, events stay in the log.
pub const BATCHES_MAX: u64 = 64;

/// The most rows of what could not be counted yet, beyond it events stay in the log: 20,000 counters that cannot be
/// reached, of usually 300 bytes each.
pub const PARKED_MAX: u64 = 20_000;

/// How coarse the times of amounts become that wait together, once there are [`BATCH_ENTRIES_MAX`] of them, seconds.
const COARSER_SECONDS: [i64; 2] = [60, 3_600];

/// The first wait before a batch that was not wholly counted is tried again, and the longest.
pub const RETRY_MS: (i64, i64) = (250, 30_000);

/// The most dead letters that are kept; beyond it the oldest go, and are counted.
pub const DEAD_LETTERS_MAX: u64 = 10_000;

/// How often a write is tried that its cell calls broken, before it is given up.
pub const BROKEN_TRIES_MAX: u32 = 8;

/// From which delivery on a queue of the platform gives a message that cannot be counted now to an inbox, which
/// goes on trying for as long as it takes. A queue ends after four where nothing is set.
pub const HAND_OVER_DELIVERIES: u32 = 3;

/// The longest that a queue of the platform holds back what could neither be counted nor handed over, seconds.
const QUEUE_RETRY_SECONDS_MAX: u32 = 600;

/// How long after a sender last opened a session a queue may hold events of it, milliseconds: what was accepted may
/// be counted for [`COUNTED_WITHIN_MS`], and clocks may be a day apart. It counts where the sender has ended without
/// closing the session.
pub const QUEUE_HOLDS_MS: i64 = COUNTED_WITHIN_MS + DAY_MS;

const DAY_MS: i64 = 86_400_000;

/// The number that stands for a queue of the platform among the inboxes of a root.
const QUEUE_NUMBER: u8 = u8::MAX;

/// Which inbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InboxId {
    /// Its datacenter.
    pub datacenter: Datacenter,
    /// Its number there, below [`INBOXES_PER_DATACENTER`].
    pub number: u8,
}

impl InboxId {
    /// The deployment's queue, as its senders name it. The inbox of that name keeps what could not be read.
    pub fn of_queue() -> Self {
        Self {
            datacenter: Datacenter::local(),
            number: QUEUE_NUMBER,
        }
    }

    /// What stands in a root for the deployment's queue while sessions of its senders, see [`super::sessions`], are
    /// open, or something that they put there is not counted. No read of the counter is exact meanwhile.
    pub fn of_sessions() -> Self {
        Self {
            // No day begins so.
            datacenter: Datacenter::parse("SESSIONS").unwrap_or_else(Datacenter::local),
            ..Self::of_queue()
        }
    }

    /// What stands in a root for the deployment's queue where a sender has no session: it is of an earlier build, or
    /// there are too many. No read of the counter is exact while the queue may hold what was accepted on that day.
    pub fn of_queue_at(now_ms: i64) -> Self {
        let day = now_ms.div_euclid(DAY_MS);
        Self {
            datacenter: Datacenter::parse(&format!("Q{day}")).unwrap_or_else(Datacenter::local),
            ..Self::of_queue()
        }
    }

    /// Whether it stands for the deployment's queue, and nothing of its day can wait there any more. One without a
    /// day, of earlier builds, never says so.
    pub fn is_over(&self, now_ms: i64) -> bool {
        let day = self.datacenter.as_str().strip_prefix('Q');
        let day = day
            .filter(|_| self.is_queue())
            .and_then(|day| day.parse::<i64>().ok());
        day.is_some_and(|day| {
            now_ms
                >= (day + 1)
                    .saturating_mul(DAY_MS)
                    .saturating_add(QUEUE_HOLDS_MS)
        })
    }

    /// Whether it stands for the deployment's queue, in one way or the other.
    pub fn is_queue(&self) -> bool {
        self.number == QUEUE_NUMBER
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The counter.
    pub counter: CounterId,
    /// How much, 1 or more.
    pub delta: u128,
    /// When, in unix seconds.
    pub second: i64,
    /// Its idempotency key and the hash of what it asks for, if it has one.
    pub key: Option<(WriteKey, u64)>,
}

/// A row of the log. A stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRow {
    /// The append's name.
    pub nonce: Nonce,
    /// When it was logged, unix milliseconds.
    pub at_ms: i64,
    /// Its events, each with the generation of its counter that was living then.
    pub events: Vec<(u64, Event)>,
}

/// What a row of the log begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRowHead {
    /// The append's name.
    pub nonce: Nonce,
    /// When it was logged, unix milliseconds.
    pub at_ms: i64,
}

/// The most bytes of a [`LogRowHead`]: three numbers of 64 bits, of at most ten bytes each.
pub const LOGGED_HEAD_BYTES: i64 = 30;

/// A write that is to be made. A stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedDelivery {
    /// The counter.
    pub counter: CounterId,
    /// Whether its key is a client's, which others may have claimed.
    pub is_clients: bool,
    /// The write; its generation is that in which its events were acknowledged.
    pub write: KeyedWrite,
}

impl QueuedDelivery {
    /// Whether it was accepted so long ago that it is not counted any more. The number of a numbered one decides that.
    pub fn is_over(&self, now_ms: i64) -> bool {
        if self.keys() == KeySource::Numbered {
            return false;
        }
        let seconds = self.write.past.iter().map(|(second, _)| *second);
        seconds.max().is_some_and(|second| {
            now_ms.saturating_sub(second.saturating_mul(1_000)) >= COUNTED_WITHIN_MS
        })
    }

    /// What its key is.
    pub fn keys(&self) -> KeySource {
        keys_of(self.is_clients, self.write.fingerprint)
    }
}

/// What a key is, by whether it is a client's, and its fingerprint. One that was drawn by builds before keys were
/// numbered has the record that those gave it.
pub(super) fn keys_of(is_clients: bool, fingerprint: u64) -> KeySource {
    match is_clients {
        false if fingerprint == NUMBERED => KeySource::Numbered,
        true if is_marked(fingerprint) => KeySource::Public,
        _ => KeySource::Clients,
    }
}

/// What was gathered from the first rows of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogBatch {
    /// The writes.
    pub deliveries: Vec<QueuedDelivery>,
    /// How many rows they are of.
    pub rows: usize,
}

/// Gathers a batch from rows in order: events of one counter and generation become one write. `new_key` gives the key
/// of a counter's next write. At least one row is taken where there is one. Cost: O(events × writes of small
/// batches), O(events × log writes) else.
pub fn gather(rows: &[LogRow], new_key: &mut dyn FnMut(&CounterId) -> WriteKey) -> LogBatch {
    let mut gathered = LogBatch::default();
    let mut indices: std::collections::HashMap<(&CounterId, u64), usize> = Default::default();
    let mut events = 0_usize;
    for row in rows {
        let is_full = events + row.events.len() > BATCH_ENTRIES_MAX
            || gathered.deliveries.len() + row.events.len() > DISTINCT_KEYS_MAX;
        if is_full && gathered.rows > 0 {
            break;
        }
        gathered.rows += 1;
        events += row.events.len();
        for (generation, event) in &row.events {
            let summed = event.key.is_none() && event.delta <= SUMMED_MAX;
            let group = (&event.counter, *generation);
            let known = indices.get(&group).filter(|_| summed);
            let delivery = known.and_then(|known| gathered.deliveries.get_mut(*known));
            if let Some(delivery) = delivery {
                add(&mut delivery.write, event);
                continue;
            }
            if summed {
                indices.insert(group, gathered.deliveries.len());
            }
            let numbered = || (new_key(&event.counter), NUMBERED);
            let (key, fingerprint) = event.key.unwrap_or_else(numbered);
            gathered.deliveries.push(QueuedDelivery {
                counter: event.counter.clone(),
                is_clients: event.key.is_some(),
                write: KeyedWrite {
                    key,
                    fingerprint,
                    generation: *generation,
                    added: event.delta,
                    removed: 0,
                    live: Vec::new(),
                    past: vec![(event.second, event.delta)],
                    // Nobody is answered with the value.
                    seen: Some(Default::default()),
                    condition: None,
                    samples: Vec::new(),
                    dimensions: Default::default(),
                    within_64_bits: false,
                },
            });
        }
    }
    gathered
}

fn add(write: &mut KeyedWrite, event: &Event) {
    // Neither sum can overflow: see `SUMMED_MAX`.
    write.added = write.added.saturating_add(event.delta);
    add_amount(&mut write.past, event.second, event.delta);
}

fn add_amount(past: &mut Vec<(i64, u128)>, second: i64, amount: u128) {
    match past.iter_mut().find(|(known, _)| *known == second) {
        Some((_, sum)) => *sum = sum.saturating_add(amount),
        None => past.push((second, amount)),
    }
}

/// Adds a write to those of its counter that wait and have not been sent: to one of the same generation, if there is
/// one. `new_key` gives a key otherwise. Cost: O(times of both).
pub fn wait_with(
    waiting: &mut Vec<QueuedDelivery>,
    delivery: QueuedDelivery,
    new_key: &mut dyn FnMut(&CounterId) -> WriteKey,
) {
    let joins = |delivery: &QueuedDelivery| {
        delivery.keys() == KeySource::Numbered && delivery.write.added <= WAITING_SUM_MAX
    };
    let (generation, joined) = (delivery.write.generation, joins(&delivery));
    let mut known = waiting.iter_mut();
    let known = known.find(|known| joined && joins(known) && known.write.generation == generation);
    let Some(QueuedDelivery { write, .. }) = known else {
        let mut delivery = delivery;
        if delivery.keys() == KeySource::Numbered {
            delivery.write.key = new_key(&delivery.counter);
        }
        waiting.push(delivery);
        return;
    };
    write.added = write.added.saturating_add(delivery.write.added);
    let mut past = map_of(write.past.drain(..));
    for (second, amount) in delivery.write.past {
        let sum = past.entry(second).or_default();
        *sum = sum.saturating_add(amount);
    }
    for step in COARSER_SECONDS {
        if past.len() > BATCH_ENTRIES_MAX {
            let seconds = std::mem::take(&mut past);
            for (second, amount) in seconds {
                let sum = past.entry(second - second.rem_euclid(step)).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
    }
    write.past = past.into_iter().collect();
}
