//! Queued writes of counters that could not be counted when they were sent.
//!
//! Invariant: what is set aside of a counter is sent before what came for it later, and delays no other counter.

use std::collections::{BTreeMap, BTreeSet};

use super::id::CounterId;
use super::inbox::InboxBatch;
use super::ledger::{KeySource, WriteKey};
use super::queue::{DISTINCT_KEYS_MAX, QueuedDelivery, wait_with};
use crate::order::set_of;

/// Counters whose writes could not be counted when they were sent. What comes for them meanwhile waits in a row of
/// its own, which is sent once those are settled: so one counter takes no more room and no more calls the longer it
/// lasts, and the others go on.
#[derive(Clone, Debug, Default)]
pub struct DeferredWrites {
    counters: BTreeMap<CounterId, Parking>,
}

#[derive(Clone, Debug, Default)]
struct Parking {
    /// The batches that hold writes of it which were sent.
    sent: BTreeSet<i64>,
    /// The row that waits, which was never sent.
    waiting: Option<i64>,
}

impl DeferredWrites {
    /// Restores stored batches. Whether they were sent before is unknown.
    pub fn restore(&mut self, batches: &[InboxBatch]) {
        for batch in batches {
            self.record(batch);
        }
    }

    fn record(&mut self, left: &InboxBatch) {
        for delivery in &left.deliveries {
            let parking = self.counters.entry(delivery.counter.clone()).or_default();
            parking.sent.insert(left.number);
        }
    }

    /// Records what is left of a batch that was sent, which held writes of `before`. Returns the rows that may be sent
    /// now.
    pub fn record_outcome<'a>(
        &mut self,
        left: &InboxBatch,
        before: impl IntoIterator<Item = &'a CounterId>,
    ) -> Vec<i64> {
        self.record(left);
        let is_left = |counter: &CounterId| {
            left.deliveries
                .iter()
                .any(|delivery| delivery.counter == *counter)
        };
        let mut free = Vec::new();
        for counter in before {
            let Some(parking) = self.counters.get_mut(counter) else {
                continue;
            };
            if !is_left(counter) {
                parking.sent.remove(&left.number);
            }
            if parking.sent.is_empty() {
                free.extend(parking.waiting);
                self.counters.remove(counter);
            }
        }
        free
    }

    /// Whether what comes for a counter must wait.
    pub fn holds(&self, counter: &CounterId) -> bool {
        self.counters.contains_key(counter)
    }

    /// The row in which writes of a counter wait, if there is one.
    fn waiting(&self, counter: &CounterId) -> Option<i64> {
        self.counters.get(counter)?.waiting
    }

    /// Whether a row must not be sent yet.
    pub fn is_waiting(&self, row: i64) -> bool {
        let mut parkings = self.counters.values();
        parkings.any(|parking| parking.waiting == Some(row))
    }

    /// How many rows hold what was sent before, or waits for that.
    pub fn rows(&self) -> u64 {
        let parkings = || self.counters.values();
        let sent = set_of(parkings().flat_map(|parking| &parking.sent).copied());
        let waiting = parkings().filter(|parking| parking.waiting.is_some());
        u64::try_from(sent.len() + waiting.count()).unwrap_or(u64::MAX)
    }

    /// Takes out of a batch the writes of counters that must wait, and returns the rows that they wait in, with what
    /// waits there already by `stored`.
    ///
    /// # Errors
    /// Those of `stored`.
    pub fn set_aside<E>(
        &self,
        batch: &mut InboxBatch,
        stored: impl Fn(i64) -> Result<Vec<QueuedDelivery>, E>,
        new_key: &mut dyn FnMut(&CounterId) -> WriteKey,
    ) -> Result<Vec<InboxBatch>, E> {
        let mut rows: BTreeMap<CounterId, InboxBatch> = BTreeMap::new();
        if self.counters.is_empty() {
            return Ok(Vec::new());
        }
        let mut number = batch.number;
        for mut delivery in std::mem::take(&mut batch.deliveries) {
            if !self.holds(&delivery.counter) {
                batch.deliveries.push(delivery);
                continue;
            }
            if !rows.contains_key(&delivery.counter) {
                let mut row = InboxBatch::default();
                if let Some(waiting) = self.waiting(&delivery.counter) {
                    row.number = waiting;
                    row.deliveries = stored(waiting)?;
                } else {
                    number += 1;
                    row.number = number;
                }
                rows.insert(delivery.counter.clone(), row);
            }
            let row = rows.get_mut(&delivery.counter);
            match row.filter(|row| row.deliveries.len() < DISTINCT_KEYS_MAX) {
                Some(row) => wait_with(&mut row.deliveries, delivery, new_key),
                None => {
                    if delivery.keys() == KeySource::Numbered {
                        delivery.write.key = new_key(&delivery.counter);
                    }
                    batch.deliveries.push(delivery);
                }
            }
        }
        Ok(rows.into_values().collect())
    }

    /// Records rows that [`DeferredWrites::set_aside`] made, once they are stored.
    pub fn wait_in(&mut self, rows: &[InboxBatch]) {
        for row in rows {
            let counter = row.deliveries.first().map(|delivery| &delivery.counter);
            let parking = counter.and_then(|counter| self.counters.get_mut(counter));
            if let Some(parking) = parking {
                parking.waiting = Some(row.number);
            }
        }
    }
}
