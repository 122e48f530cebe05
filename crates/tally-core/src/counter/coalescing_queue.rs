//! Joins items into batches by receiver: items that come while a receiver's batches are in flight leave together as its
//! next batch.
//!
//! Invariants: items of one receiver leave in the order in which they came, each in one batch. No more batches of one
//! receiver are in flight than allowed. If items of a receiver wait and it may have another batch,
//! [`CoalescingQueue::join`] or [`CoalescingQueue::end`] has told one caller to begin it. A receiver without items and
//! batches holds no memory. An item waits only while its request is open, which bounds the number of items.
//!
//! It is for callers that may wake each other: the calls of one request, and all requests of one object. Requests of an
//! isolate may not. Their writes join a [`super::lane`], where each looks for its outcome.

use std::collections::{BTreeMap, VecDeque};

/// The items of all receivers.
#[derive(Debug)]
pub struct CoalescingQueue<K, T> {
    /// The most batches of one receiver in flight.
    batches_max: usize,
    in_flight: usize,
    receivers: BTreeMap<K, Pending<T>>,
}

#[derive(Debug)]
struct Pending<T> {
    waiting: VecDeque<T>,
    in_flight: usize,
}

impl<K: Clone + Ord, T> CoalescingQueue<K, T> {
    /// An empty queue. Each receiver has at most `batches_max` batches in flight, and at least one.
    pub fn new(batches_max: usize) -> Self {
        Self {
            batches_max: batches_max.max(1),
            in_flight: 0,
            receivers: BTreeMap::new(),
        }
    }

    /// Queues an item. Returns whether the caller must begin the receiver's next batch; no other caller got that
    /// answer.
    pub fn join(&mut self, to: &K, item: T) -> bool {
        let begin = || Pending {
            waiting: VecDeque::new(),
            in_flight: 0,
        };
        let pending = self.receivers.entry(to.clone()).or_insert_with(begin);
        pending.waiting.push_back(item);
        pending.waiting.len() == 1 && pending.in_flight < self.batches_max
    }

    /// The first receivers to which a batch may be sent: at most `in_flight_max` less the batches in flight. Cost:
    /// O(receivers).
    pub fn ready(&self, in_flight_max: usize) -> Vec<K> {
        let all = self.receivers.iter();
        let ready = all.filter(|(_, pending)| pending.may_leave(self.batches_max));
        let room = in_flight_max.saturating_sub(self.in_flight);
        ready.take(room).map(|(to, _)| to.clone()).collect()
    }

    /// Takes the next batch of a receiver, which is then in flight: the first items as long as each fits, and at least
    /// one. `None` if nothing waits, or if too many are in flight. Cost: O(items of the batch).
    pub fn take(&mut self, to: &K, mut fits: impl FnMut(&T) -> bool) -> Option<Vec<T>> {
        let pending = self.receivers.get_mut(to)?;
        if !pending.may_leave(self.batches_max) {
            return None;
        }
        let fitting = pending.waiting.iter().take_while(|item| fits(item)).count();
        let batch = pending.waiting.drain(..fitting.max(1)).collect();
        pending.in_flight += 1;
        self.in_flight += 1;
        Some(batch)
    }

    /// Ends a batch of a receiver. Returns whether the caller must begin its next batch.
    pub fn end(&mut self, to: &K) -> bool {
        let Some(pending) = self.receivers.get_mut(to) else {
            return false;
        };
        pending.in_flight = pending.in_flight.saturating_sub(1);
        self.in_flight = self.in_flight.saturating_sub(1);
        if pending.in_flight == 0 && pending.waiting.is_empty() {
            self.receivers.remove(to);
            return false;
        }
        !pending.waiting.is_empty()
    }
}

impl<T> Pending<T> {
    fn may_leave(&self, batches_max: usize) -> bool {
        !self.waiting.is_empty() && self.in_flight < batches_max
    }
}
