//! The queue of one inbox: events that are acknowledged and not counted yet.
//!
//! Invariant: an event is in a log row, in a batch, or counted, and each step is one commit. Rows become a batch in a
//! commit of the inbox. A cell counts a write of a batch in one commit with its key, which was drawn before the batch
//! was durable. So a write that is sent again after a crash counts nothing, and a write that was not sent before the
//! crash is sent after it.
//!
//! Life of an event: appended to the log → gathered into a batch, one keyed write for each counter → sent until its
//! cell answers → done, or dead if it can never be counted.

pub mod deferred_writes;
pub mod inbox;
pub mod queued_events;
pub mod sessions;
pub mod write_outcome;

use serde::{Deserialize, Serialize};

use super::id::{CounterId, Datacenter};
use super::ledger::{KeySource, KeyedWrite, WriteKey};
use super::ledgers::is_marked;
use super::nonces::Nonce;
use super::numbered_writes::{COUNTED_WITHIN_MS, NUMBERED};
use crate::order::map_of;

/// Inboxes of one datacenter. Each is an object of about 1,000 requests/s, and each isolate always uses the same one.
pub const INBOXES_PER_DATACENTER: u8 = 4;

/// The most events of one append: 500 of at most 600 bytes are 300 KB, in a row of at most 2 MB.
pub const APPEND_ENTRIES_MAX: usize = 500;

/// The most rows of a log, each an append of usually 1 to 20 KB. Beyond it events are refused.
pub const LOG_ROWS_MAX: u64 = 20_000;

/// The most rows of one batch.
pub const BATCH_ROWS_MAX: u32 = 200;

/// The most bytes of log rows that are read for one batch, without its first row: 10,000 events of 400 bytes, or 6,600
/// with the longest ids.
pub const BATCH_LOG_BYTES_MAX: u64 = 4 << 20;

/// The most events of one batch, without its first row: 10,000 amounts of at most 26 bytes are 260 KB.
pub const BATCH_ENTRIES_MAX: usize = 10_000;

/// The most writes of one batch, without its first row. 1,000 of at most 650 bytes are 650 KB: with the amounts, that
/// is below the 2 MB of a row. Many distinct counters end a batch early.
pub const DISTINCT_KEYS_MAX: usize = 1_000;

/// The largest amount that is summed with others: 10,000 of these are far below 2^128. A larger one is a separate
/// write, so that an amount that no counter can hold fails alone.
pub const SUMMED_MAX: u128 = 1 << 64;

/// The largest waiting sum that others are added to: two of these are below 2^128.
const WAITING_SUM_MAX: u128 = 1 << 126;

/// The shortest time between the beginnings of two batches.
pub const BATCH_SPACING_MS: i64 = 250;

/// The most batches of an inbox that wait for their first answer. Beyond it, events stay in the log.
pub const BATCHES_MAX: u64 = 64;

/// The most rows of writes that could not be counted yet: 20,000 unreachable counters, of usually 300 bytes each.
/// Beyond it, events stay in the log.
pub const DEFERRED_ROWS_MAX: u64 = 20_000;

/// The resolutions, in seconds, to which the times of waiting amounts are rounded once there are [`BATCH_ENTRIES_MAX`]
/// of them.
const COARSER_SECONDS: [i64; 2] = [60, 3_600];

/// The first and the longest wait before a batch with uncounted writes is sent again, milliseconds.
pub const RETRY_MS: (i64, i64) = (250, 30_000);

/// The most dead letters that are kept. Beyond it the oldest are deleted, and their number is counted.
pub const DEAD_LETTERS_MAX: u64 = 10_000;

/// How often a write is sent whose cell answers `Broken`, before it is given up.
pub const BROKEN_TRIES_MAX: u32 = 8;

/// The delivery from which on a message of a queue of the platform that cannot be counted is handed to an inbox. The
/// inbox has no limit of attempts. The platform's default for a queue is four deliveries.
pub const HAND_OVER_DELIVERIES: u32 = 3;

/// The longest delay, in seconds, for which a queue of the platform holds a message back that could neither be counted
/// nor handed over.
const QUEUE_RETRY_SECONDS_MAX: u32 = 600;

/// How long after a sender last opened a session a queue may hold its events, milliseconds. An accepted event may be
/// counted for [`COUNTED_WITHIN_MS`], and clocks may be a day apart. It matters if the sender has ended without closing
/// the session.
pub const QUEUE_HOLDS_MS: i64 = COUNTED_WITHIN_MS + DAY_MS;

const DAY_MS: i64 = 86_400_000;

/// The number that stands for a queue of the platform among the inboxes of a root.
const QUEUE_NUMBER: u8 = u8::MAX;

/// The id of an inbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InboxId {
    /// Its datacenter.
    pub datacenter: Datacenter,
    /// Its number there, below [`INBOXES_PER_DATACENTER`].
    pub number: u8,
}

impl InboxId {
    /// The deployment's queue, as its senders name it. The inbox of that name keeps unreadable messages.
    pub fn of_queue() -> Self {
        Self {
            datacenter: Datacenter::local(),
            number: QUEUE_NUMBER,
        }
    }

    /// The entry of a root for the deployment's queue while sessions of its senders, see [`sessions`], are open,
    /// or while an accepted event is not counted. No read of the counter is exact meanwhile.
    pub fn of_sessions() -> Self {
        Self {
            // No name of a day begins so.
            datacenter: Datacenter::parse("SESSIONS").unwrap_or_else(Datacenter::local),
            ..Self::of_queue()
        }
    }

    /// The entry of a root for the deployment's queue if a sender has no session, because
    /// there are too many. No read of the counter is exact while the queue may hold events that were accepted on that
    /// day.
    pub fn of_queue_at(now_ms: i64) -> Self {
        let day = now_ms.div_euclid(DAY_MS);
        Self {
            datacenter: Datacenter::parse(&format!("Q{day}")).unwrap_or_else(Datacenter::local),
            ..Self::of_queue()
        }
    }

    /// Whether it stands for the deployment's queue, and no event of its day can wait there any more.
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

    /// Whether it stands for the deployment's queue, in either form.
    pub fn is_queue(&self) -> bool {
        self.number == QUEUE_NUMBER
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The counter.
    pub counter: CounterId,
    /// The amount, 1 or more.
    pub delta: u128,
    /// Its time, unix seconds.
    pub second: i64,
    /// Its idempotency key, if it has one, and the hash of what it asks for.
    pub key: Option<(WriteKey, u64)>,
}

/// A row of the log. A stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRow {
    /// The append's name.
    pub nonce: Nonce,
    /// When it was logged, unix milliseconds.
    pub at_ms: i64,
    /// Its events, each with the generation of its counter at that time.
    pub events: Vec<(u64, Event)>,
}

/// The head of a row of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRowHead {
    /// The append's name.
    pub nonce: Nonce,
    /// When it was logged, unix milliseconds.
    pub at_ms: i64,
}

/// The most bytes of a [`LogRowHead`]: three numbers of 64 bits, of at most ten bytes each.
pub const LOGGED_HEAD_BYTES: i64 = 30;

/// A write of a batch. A stored format.
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
    /// Whether it was accepted so long ago that it is not counted any more. For a numbered write its number tells.
    pub fn is_over(&self, now_ms: i64) -> bool {
        if self.keys() == KeySource::Numbered {
            return false;
        }
        let seconds = self.write.past.iter().map(|(second, _)| *second);
        seconds.max().is_some_and(|second| {
            now_ms.saturating_sub(second.saturating_mul(1_000)) >= COUNTED_WITHIN_MS
        })
    }

    /// The source of its key.
    pub fn keys(&self) -> KeySource {
        keys_of(self.is_clients, self.write.fingerprint)
    }
}

/// The source of a key, by whether it is a client's, and by its fingerprint.
pub(super) fn keys_of(is_clients: bool, fingerprint: u64) -> KeySource {
    match is_clients {
        false if fingerprint == NUMBERED => KeySource::Numbered,
        true if is_marked(fingerprint) => KeySource::Public,
        _ => KeySource::Clients,
    }
}

/// The writes that were gathered from the first rows of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogBatch {
    /// The writes.
    pub deliveries: Vec<QueuedDelivery>,
    /// The number of rows that they come from.
    pub rows: usize,
}

/// Gathers a batch from rows in order: events of one counter and generation become one write. `new_key` gives the key
/// of a counter's next write. At least one row is taken if there is one. Cost: O(events × writes) for small batches,
/// else O(events × log writes).
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
                    generation: *generation,
                    added: event.delta,
                    past: vec![(event.second, event.delta)],
                    // No answer has the value.
                    seen: Some(Default::default()),
                    ..KeyedWrite::new(key, fingerprint)
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

/// Adds a write to the waiting, unsent writes of its counter. It is joined to one of the same generation if there is
/// one; else it gets a key by `new_key`. Cost: O(times of both).
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
