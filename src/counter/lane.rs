//! The queue of one (counter, shard) inside one isolate: concurrent writes join into one flush.
//!
//! Invariants: at most one batch is in flight; batches fly in the order in which they were opened;
//! every ticket gets the outcome of its own batch, and of no other; memory is bounded by
//! [`BATCHES_MAX`] × [`BATCH_ITEMS_MAX`] waiting writes and [`LANDED_MAX`] outcomes.
//!
//! Life of a write: it joins the youngest batch, or opens one and *leads* it. The leader takes the
//! batch once it is first in line and nothing flies, sends it, and lands it with its outcome; all
//! others look for that outcome. Nobody wakes anybody: each looks by its own timer, because the
//! platform forbids one request to resume another.

use std::collections::VecDeque;

use super::flush::Load;
use super::nonces::Nonce;

/// The most writes in one batch: with stamps and tokens at most about 40 bytes each, 400 KB.
pub const BATCH_ITEMS_MAX: u32 = 10_000;

/// The most entries (stamps and tokens) in one batch; bulk writes bring many each. 16 bytes each.
pub const BATCH_ENTRIES_MAX: usize = 100_000;

/// The most batches that wait in one lane; more writes are told to come again.
pub const BATCHES_MAX: usize = 16;

/// How long a batch may be on its way, retries included, before its outcome is called unknown.
pub const FLIGHT_MS_MAX: i64 = 5_000;

/// Outcomes that are kept for writes that have not looked yet. One lands per flight, and a write
/// looks every few milliseconds, so 64 reach back far longer than anybody waits.
pub const LANDED_MAX: usize = 64;

/// A delta from which on a write flies alone: if it makes the total overflow, only it is refused.
const WIDE: u128 = 1 << 64;

/// The place of a write in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Which batch.
    pub batch: u64,
    /// Whether the holder must send the batch.
    pub leads: bool,
    /// What the batch held with this write: (added, removed).
    upto: (u128, u128),
}

#[derive(Debug)]
struct Batch {
    number: u64,
    load: Load,
    items: u32,
    opened_ms: i64,
    full: bool,
}

#[derive(Debug)]
struct Landed<R> {
    number: u64,
    totals: (u128, u128),
    outcome: R,
}

/// A lane whose flights end with an `R`.
#[derive(Debug)]
pub struct Lane<R> {
    id: u64,
    next: u64,
    waiting: VecDeque<Batch>,
    flying: Option<(u64, (u128, u128), i64)>,
    landed: VecDeque<Landed<R>>,
}

/// What came of a ticket's batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival<R> {
    /// The outcome of the flight.
    pub outcome: R,
    /// What the batch added after this write: (added, removed).
    pub later: (u128, u128),
}

impl<R: Clone> Lane<R> {
    /// A lane of this name; draw it at random.
    pub fn new(id: u64) -> Self {
        Self {
            id,
            next: 1,
            waiting: VecDeque::new(),
            flying: None,
            landed: VecDeque::new(),
        }
    }

    /// Lets a write join; `None` where the lane is full. Cost: O(entries of the write).
    pub fn join(&mut self, load: &Load, now_ms: i64) -> Option<Ticket> {
        let wide = load.added >= WIDE || load.removed >= WIDE;
        let youngest = self.waiting.back_mut();
        if let Some(batch) = youngest.filter(|batch| !batch.full && !wide)
            && batch.load.absorb(load)
        {
            batch.items += 1;
            batch.full = is_full(batch);
            return Some(Ticket {
                batch: batch.number,
                leads: false,
                upto: (batch.load.added, batch.load.removed),
            });
        }
        if self.waiting.len() >= BATCHES_MAX {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let mut batch = Batch {
            number,
            load: load.clone(),
            items: 1,
            opened_ms: now_ms,
            full: wide,
        };
        batch.full |= is_full(&batch);
        self.waiting.push_back(batch);
        Some(Ticket {
            batch: number,
            leads: true,
            upto: (load.added, load.removed),
        })
    }

    /// Hands the batch to its leader once it may fly: it is first in line and nothing is in flight.
    pub fn take(&mut self, batch: u64, now_ms: i64) -> Option<(Nonce, Load)> {
        let first = self.waiting.front()?;
        if self.flying.is_some() || first.number != batch {
            return None;
        }
        let batch = self.waiting.pop_front()?;
        self.flying = Some((batch.number, (batch.load.added, batch.load.removed), now_ms));
        Some((
            Nonce {
                lane: self.id,
                number: batch.number,
            },
            batch.load,
        ))
    }

    /// Whether another batch already waits behind the one in flight.
    pub fn first_waiting(&self) -> Option<u64> {
        self.waiting.front().map(|batch| batch.number)
    }

    /// Notes the outcome of a flight.
    pub fn land(&mut self, batch: u64, outcome: R) {
        let Some((number, totals, _)) = self.flying.filter(|(number, _, _)| *number == batch)
        else {
            return;
        };
        self.flying = None;
        self.keep(Landed {
            number,
            totals,
            outcome,
        });
    }

    fn keep(&mut self, landed: Landed<R>) {
        if self.landed.len() >= LANDED_MAX {
            self.landed.pop_front();
        }
        self.landed.push_back(landed);
    }

    /// The outcome for a ticket, once its batch has landed. Cost: O([`LANDED_MAX`]).
    pub fn arrival(&self, ticket: &Ticket) -> Option<Arrival<R>> {
        let landed = self
            .landed
            .iter()
            .rev()
            .find(|landed| landed.number == ticket.batch)?;
        let later = (
            landed.totals.0.saturating_sub(ticket.upto.0),
            landed.totals.1.saturating_sub(ticket.upto.1),
        );
        Some(Arrival {
            outcome: landed.outcome.clone(),
            later,
        })
    }

    /// Gives up batches whose leader is gone (the platform may end a request at any await), so
    /// that the lane moves on. `lost` is the outcome their other writes get.
    pub fn give_up_stale(&mut self, now_ms: i64, lost: &R) {
        let is_stale =
            |since_ms: i64| now_ms.saturating_sub(since_ms) > FLIGHT_MS_MAX + FLIGHT_MS_MAX / 2;
        if let Some((number, totals, _)) =
            self.flying.filter(|(_, _, since_ms)| is_stale(*since_ms))
        {
            self.flying = None;
            self.keep(Landed {
                number,
                totals,
                outcome: lost.clone(),
            });
        }
        while self
            .waiting
            .front()
            .is_some_and(|batch| is_stale(batch.opened_ms))
        {
            let Some(batch) = self.waiting.pop_front() else {
                return;
            };
            let totals = (batch.load.added, batch.load.removed);
            self.keep(Landed {
                number: batch.number,
                totals,
                outcome: lost.clone(),
            });
        }
    }

    /// Whether nothing waits and nothing flies, so that the lane may be let go.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.flying.is_none()
    }
}

fn is_full(batch: &Batch) -> bool {
    let entries = batch.load.live.len() + batch.load.past.len() + batch.load.tokens.len();
    batch.items >= BATCH_ITEMS_MAX || entries >= BATCH_ENTRIES_MAX
}
