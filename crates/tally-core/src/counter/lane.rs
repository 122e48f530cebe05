//! The queue of one (counter, shard) inside one isolate: concurrent writes join into one flush. Checks of rate limits,
//! writes to boards and queued events join in the same way. The items of a lane are its [`Batchable`].
//!
//! Invariants: at most one batch is in flight. Batches are sent in the order in which they were opened. Every ticket
//! gets the outcome of its own batch. Memory is bounded by [`BATCHES_MAX`] × [`BATCH_ITEMS_MAX`] waiting writes and
//! [`OUTCOMES_MAX`] outcomes, or as many as are unread. A batch counts in no generation that begins after it was taken,
//! except as [`super::flush::newest_at`] says.
//!
//! Life of a write: it joins the youngest batch, or opens one. A batch has one *sender*, which is one of its writes.
//! The sender takes the batch once it is first in line, nothing is in flight and the lane has gathered long enough. It
//! sends the batch, and completes it with its outcome. All other writes look for that outcome. A single write is the
//! sender unless the batch has one. A bulk body joins many lanes at once and takes the batches that it opened one after
//! the other, so those may wait without a sender. No write wakes another: each looks by its own timer, because the
//! platform forbids one request to resume another. A bulk body leaves a *watcher* with each of its writes. The
//! completion of the batch reports the outcome to the watcher, so the body does not look at each lane.

use std::collections::VecDeque;

use super::autoscale::LINGER_MS_MAX;
use super::flush::Load;
use super::nonces::Nonce;

pub mod batchable;
pub mod flush_outcomes;

use self::batchable::Batchable;
use self::flush_outcomes::FlushOutcomes;

/// The most writes in one batch: 400 KB, at about 40 bytes each with stamps and tokens.
pub const BATCH_ITEMS_MAX: u32 = 10_000;

/// The most entries (stamps and tokens) in one batch, 16 bytes each; a bulk write has many.
pub const BATCH_ENTRIES_MAX: usize = 100_000;

/// The most batches that wait in one lane. Beyond it writes are refused, and may be sent again.
pub const BATCHES_MAX: usize = 16;

/// How long a batch may be in flight, retries included, before its outcome is unknown.
pub const IN_FLIGHT_MS_MAX: i64 = 5_000;

/// How long a batch without a sender may wait: a little longer than a bulk body may take.
pub const UNSENT_MS_MAX: i64 = 65_000;

/// The longest that a write waits between two looks.
const LOOK_MS_MAX: u64 = 50;

/// The outcomes that are kept though all writes have looked. Those that a write may still look for are kept beyond it,
/// because batches may complete faster than a write looks.
pub const OUTCOMES_MAX: usize = 64;

/// The position of a write in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket<P = (u128, u128)> {
    /// The lane: another lane to the same cell numbers its batches from one too.
    pub lane: u64,
    /// The batch.
    pub batch: u64,
    /// Whether the holder is the sender: then it must take and complete the batch.
    pub sends: bool,
    /// Whether the write opened the batch.
    pub opens: bool,
    /// The write's position in its batch.
    position: P,
}

#[derive(Debug)]
struct Batch<W, C> {
    number: u64,
    load: C,
    items: u32,
    opened_ms: i64,
    full: bool,
    /// When it got its sender.
    sender_since_ms: Option<i64>,
    watchers: Vec<W>,
}

impl<W, C> Batch<W, C> {
    /// How many of its writes look for the outcome themselves: all others have watchers.
    fn awaited(&self) -> u32 {
        let watched = u32::try_from(self.watchers.len()).unwrap_or(u32::MAX);
        self.items.saturating_sub(watched)
    }
}

/// A lane of items `C`, whose outcomes are `R` and whose watchers are `W`.
#[derive(Debug)]
pub struct Lane<R, W, C: Batchable = Load> {
    id: u64,
    next: u64,
    waiting: VecDeque<Batch<W, C>>,
    in_flight: Option<InFlight<W, C::Position>>,
    /// Outcomes of batches, and the position that each batch ended at.
    outcomes: FlushOutcomes<(C::Position, R), OUTCOMES_MAX>,
    /// When a batch was last taken, and for how long the next one gathers from then on.
    taken_ms: i64,
    linger_ms: u32,
    /// How long it takes from sending a batch to its outcome, smoothed.
    round_trip_ms: i64,
    /// The generation that the cell last counted in, or refused a flush for; 0 before any.
    generation: u64,
}

#[derive(Debug)]
struct InFlight<W, P> {
    number: u64,
    last: P,
    since_ms: i64,
    watchers: Vec<W>,
    awaited: u32,
}

/// The outcome of a ticket's batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival<R, P = (u128, u128)> {
    /// The outcome of the batch.
    pub outcome: R,
    /// The part of the batch after the write, (added, removed), see [`Batchable::seen_from`].
    pub later: P,
}

impl<R: Clone, W, C: Batchable> Lane<R, W, C> {
    /// An empty lane. Its id must be random.
    pub fn new(id: u64) -> Self {
        Self {
            id,
            next: 1,
            waiting: VecDeque::new(),
            in_flight: None,
            outcomes: FlushOutcomes::default(),
            taken_ms: i64::MIN,
            linger_ms: 0,
            round_trip_ms: 0,
            generation: 0,
        }
    }

    /// Records the generation that the cell has counted in, or has refused a flush for.
    pub fn set_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// Lets a write join. `None`, without any change, if [`BATCHES_MAX`] batches wait. A write without a watcher
    /// becomes the sender of a batch that has none. Cost: O(entries of the write).
    pub fn join(
        &mut self,
        mut load: C,
        now_ms: i64,
        watcher: Option<W>,
    ) -> Option<Ticket<C::Position>> {
        let sends = watcher.is_none();
        let youngest = self.waiting.back_mut();
        if let Some(batch) = youngest.filter(|batch| !batch.full)
            && batch.load.absorb(&load)
        {
            batch.items += 1;
            batch.full = is_full(batch);
            let sends = sends && batch.sender_since_ms.is_none();
            if sends {
                batch.sender_since_ms = Some(now_ms);
            }
            batch.watchers.extend(watcher);
            return Some(Ticket {
                lane: self.id,
                batch: batch.number,
                sends,
                opens: false,
                position: batch.load.position(),
            });
        }
        if self.waiting.len() >= BATCHES_MAX {
            return None;
        }
        let number = self.next;
        self.next += 1;
        load.open();
        let position = load.position();
        let mut batch = Batch {
            number,
            load,
            items: 1,
            opened_ms: now_ms,
            full: false,
            sender_since_ms: sends.then_some(now_ms),
            watchers: watcher.into_iter().collect(),
        };
        batch.full = is_full(&batch);
        self.waiting.push_back(batch);
        Some(Ticket {
            lane: self.id,
            batch: number,
            sends,
            opens: true,
            position,
        })
    }

    /// Hands a ticket's batch out, see [`Lane::take`].
    pub fn take_for(&mut self, ticket: &Ticket<C::Position>, now_ms: i64) -> Option<(Nonce, C)> {
        if ticket.lane == self.id {
            self.take(ticket.batch, now_ms)
        } else {
            None
        }
    }

    /// Hands a batch out once it may be sent: it is first in line, nothing is in flight, and the lane
    /// has gathered long enough (a full batch does not wait).
    pub fn take(&mut self, batch: u64, now_ms: i64) -> Option<(Nonce, C)> {
        let first = self.waiting.front()?;
        // After a clock step back, the time that the lane has gathered is unknown.
        let since_ms = now_ms.saturating_sub(self.taken_ms);
        let gathered = since_ms < 0 || since_ms >= self.linger_ms.into();
        if self.in_flight.is_some() || first.number != batch || !(gathered || first.full) {
            return None;
        }
        let mut batch = self.waiting.pop_front()?;
        batch.load.depart(batch.items, self.generation, now_ms);
        self.taken_ms = now_ms;
        self.in_flight = Some(InFlight {
            number: batch.number,
            last: batch.load.position(),
            since_ms: now_ms,
            awaited: batch.awaited(),
            watchers: batch.watchers,
        });
        let nonce = Nonce {
            lane: self.id,
            number: batch.number,
        };
        Some((nonce, batch.load))
    }

    /// Hands out the batch that is first in line, if it may be sent.
    pub fn take_first(&mut self, now_ms: i64) -> Option<(Nonce, C)> {
        let first = self.waiting.front()?.number;
        self.take(first, now_ms)
    }

    /// Whether a ticket's batch has not been taken yet.
    pub fn is_waiting(&self, ticket: &Ticket<C::Position>) -> bool {
        let mut waiting = self.waiting.iter();
        ticket.lane == self.id && waiting.any(|batch| batch.number == ticket.batch)
    }

    /// How many items wait in it, the batch in flight not included.
    pub fn waiting_items(&self) -> u32 {
        self.waiting.iter().map(|batch| batch.items).sum()
    }

    /// How long the next batch gathers, as the cell asks: 0 to [`LINGER_MS_MAX`].
    pub fn linger(&mut self, milliseconds: u32) {
        self.linger_ms = milliseconds.min(LINGER_MS_MAX);
    }

    /// After how many milliseconds the holder should look at its batch, at least 1. A look each millisecond took a
    /// third of the time of a hot increment.
    pub fn look_in_ms(&self, ticket: &Ticket<C::Position>, now_ms: i64) -> u64 {
        let until = |since_ms: i64| {
            since_ms
                .saturating_add(self.round_trip_ms)
                .saturating_sub(now_ms)
        };
        let in_flight_ms = self
            .in_flight
            .as_ref()
            .map_or(0, |in_flight| until(in_flight.since_ms).max(0));
        let ahead = self
            .waiting
            .iter()
            .take_while(|batch| batch.number <= ticket.batch)
            .count();
        let ahead_ms = i64::try_from(ahead)
            .unwrap_or(1)
            .saturating_mul(self.round_trip_ms);
        let gathers_ms = if ahead > 0 {
            self.gathers_ms(now_ms)
        } else {
            0
        };
        // One more: an early look costs another timer, a late one costs a millisecond.
        u64::try_from(in_flight_ms.max(gathers_ms).saturating_add(ahead_ms))
            .unwrap_or(0)
            .saturating_add(1)
            .min(LOOK_MS_MAX)
    }

    /// How much longer the lane gathers before its next batch may be sent, 0 to [`LINGER_MS_MAX`].
    pub fn gathers_ms(&self, now_ms: i64) -> i64 {
        // As in `take`: after a clock step back the time is unknown.
        if now_ms < self.taken_ms {
            return 0;
        }
        let gathered_ms = self.taken_ms.saturating_add(self.linger_ms.into());
        gathered_ms.saturating_sub(now_ms).max(0)
    }

    /// Records the outcome of a batch, and returns the watchers to notify.
    pub fn complete(&mut self, batch: u64, outcome: R, now_ms: i64) -> Vec<W> {
        match self
            .in_flight
            .take_if(|in_flight| in_flight.number == batch)
        {
            Some(in_flight) => {
                let took_ms = now_ms.saturating_sub(in_flight.since_ms).max(0);
                // A new value counts an eighth: one slow batch must not make the next writes wait as long.
                self.round_trip_ms = (self.round_trip_ms * 7 + took_ms.min(IN_FLIGHT_MS_MAX)) / 8;
                if in_flight.awaited > 0 {
                    let settled = (in_flight.last, outcome);
                    self.outcomes
                        .keep(in_flight.number, settled, in_flight.awaited);
                } else if self.waiting.is_empty() {
                    // A bulk body uses thousands of lanes once, so each frees the memory that it held.
                    self.waiting = VecDeque::new();
                }
                in_flight.watchers
            }
            None => Vec::new(),
        }
    }

    /// The outcome for a ticket, once its batch is complete; `None` if all writes of the batch have watchers. Cost:
    /// O(batches completed since).
    pub fn arrival(&self, ticket: &Ticket<C::Position>) -> Option<Arrival<R, C::Position>> {
        if ticket.lane != self.id {
            return None;
        }
        let (last, outcome) = self.outcomes.outcome(ticket.batch)?;
        Some(Arrival {
            outcome: outcome.clone(),
            later: C::seen_from(ticket.position, *last),
        })
    }

    /// Gives up batches whose sender is gone, so that the lane continues: the platform may end a request at any await.
    /// Their writes get the outcome `lost`. Returns their watchers.
    pub fn give_up_stale(&mut self, now_ms: i64, lost: &R) -> Vec<W> {
        let sender_ms_max = IN_FLIGHT_MS_MAX + IN_FLIGHT_MS_MAX / 2;
        let age = |since_ms: i64| now_ms.saturating_sub(since_ms);
        let mut watchers = Vec::new();
        if let Some(in_flight) = self
            .in_flight
            .take_if(|in_flight| age(in_flight.since_ms) > sender_ms_max)
        {
            if in_flight.awaited > 0 {
                let settled = (in_flight.last, lost.clone());
                self.outcomes
                    .keep(in_flight.number, settled, in_flight.awaited);
            }
            watchers.extend(in_flight.watchers);
        }
        let is_stale = |batch: &mut Batch<W, C>| match batch.sender_since_ms {
            Some(since_ms) => age(since_ms) > sender_ms_max,
            None => age(batch.opened_ms) > UNSENT_MS_MAX,
        };
        while let Some(batch) = self.waiting.pop_front_if(is_stale) {
            if batch.awaited() > 0 {
                let settled = (batch.load.position(), lost.clone());
                self.outcomes.keep(batch.number, settled, batch.awaited());
            }
            watchers.extend(batch.watchers);
        }
        watchers
    }

    /// Whether the lane may be dropped: nothing waits, nothing is in flight, and no write can still be looking for an
    /// outcome.
    pub fn is_idle(&self, now_ms: i64) -> bool {
        let rested = now_ms.saturating_sub(self.taken_ms) > 2 * IN_FLIGHT_MS_MAX;
        self.waiting.is_empty() && self.in_flight.is_none() && (rested || self.outcomes.is_empty())
    }
}

fn is_full<W, C: Batchable>(batch: &Batch<W, C>) -> bool {
    batch.items >= BATCH_ITEMS_MAX || batch.load.entries() >= BATCH_ENTRIES_MAX
}
