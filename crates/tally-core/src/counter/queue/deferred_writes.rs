//! Queued writes of counters that could not be counted when they were sent.
//!
//! Invariant: deferred writes of a counter are sent before its later writes, and delay no other counter.

use std::collections::{BTreeMap, BTreeSet};

use crate::counter::id::CounterId;
use crate::counter::ledger::{KeySource, WriteKey};
use crate::counter::queue::inbox::InboxBatch;
use crate::counter::queue::{DISTINCT_KEYS_MAX, QueuedDelivery, wait_with};
use crate::order::set_of;

/// Counters whose writes could not be counted when they were sent. Later writes of such a counter wait in a separate
/// row, which is sent once the earlier ones are decided. So the room and the calls for one counter do not grow with
/// time, and other counters continue.
#[derive(Clone, Debug, Default)]
pub struct DeferredWrites {
    counters: BTreeMap<CounterId, Parking>,
}

#[derive(Clone, Debug, Default)]
struct Parking {
    /// The batches with sent writes of the counter.
    sent: BTreeSet<i64>,
    /// The row that waits and was never sent.
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

    /// Records the writes that are left of a sent batch, which had writes of the counters in `before`. Returns the rows
    /// that may be sent now.
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

    /// Whether further writes of a counter must wait.
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

    /// The number of rows with writes that were sent before, or that wait for those.
    pub fn rows(&self) -> u64 {
        let parkings = || self.counters.values();
        let sent = set_of(parkings().flat_map(|parking| &parking.sent).copied());
        let waiting = parkings().filter(|parking| parking.waiting.is_some());
        u64::try_from(sent.len() + waiting.count()).unwrap_or(u64::MAX)
    }

    /// Takes the writes of counters that must wait out of a batch. Returns the rows in which they wait, together with
    /// the writes that wait there already; `stored` reads those.
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
