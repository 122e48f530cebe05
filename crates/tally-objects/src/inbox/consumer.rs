//! The counting of an inbox's log.
//!
//! Invariant: every step may be repeated. Rows become a batch in one commit. A batch is sent with the keys in its row.
//! Only writes that are counted, or never can be, are removed.

use std::cell::RefMut;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::object::InboxCore;
use tally_api::metrics::Metric;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::queue::deferred_writes::DeferredWrites;
use tally_core::counter::queue::inbox::{InboxBatch, begin};
use tally_core::counter::queue::write_outcome::{DeadLetterReason, WriteOutcome, verdict};
use tally_core::counter::queue::{
    BATCH_ROWS_MAX, BATCH_SPACING_MS, BATCHES_MAX, BROKEN_TRIES_MAX, DEFERRED_ROWS_MAX, InboxId,
    QueuedDelivery, RETRY_MS,
};
use tally_core::order::set_of;
use tally_shared::concurrency::all_settled;
use tally_shared::flag_guard::FlagGuard;
use tally_shared::metrics;
use tally_shared::queued_writes::{self, count_deliveries};
use tally_wire::messages::{AppendResult, Fault, TakeOver};

/// The counters that one batch counts at once.
const COUNTERS_AT_ONCE: usize = 32;

impl InboxCore {
    /// Begins to make batches, unless that is in progress.
    pub(super) fn go(self: &Rc<Self>) {
        if !self.is_gathering.get() {
            let core = self.clone();
            self.object
                .wait_until(async move { core.gather_all().await });
        }
    }

    /// Makes batches and sends them, until nothing is left that may be sent now.
    pub(super) async fn gather_all(self: &Rc<Self>) {
        if self.is_gathering.replace(true) {
            return;
        }
        let _gathering = FlagGuard(&self.is_gathering);
        loop {
            let wait_ms = self.begun_ms.get() + BATCH_SPACING_MS - self.host.now_ms();
            if (1..=BATCH_SPACING_MS).contains(&wait_ms) {
                let wait_ms = u64::try_from(wait_ms).unwrap_or(0);
                self.host.sleep_ms(wait_ms).await;
            }
            self.begun_ms.set(self.host.now_ms());
            match self.gather_one().and_then(|()| self.send_batches()) {
                Ok(true) => {}
                Ok(false) => return,
                // The alarm is set, and tries again.
                Err(fault) => {
                    self.host.fail(&format!("an inbox: {fault}"));
                    return;
                }
            }
        }
    }

    /// Turns the first rows of the log into a batch: load, decide, write, no await.
    fn gather_one(&self) -> Result<(), Fault> {
        if self.head.borrow().is_empty() {
            return Ok(());
        }
        let mut deferred = self.deferred()?;
        let deferred_rows = deferred.rows();
        let first_sent = self.rows.count_batches()?.saturating_sub(deferred_rows);
        if first_sent >= BATCHES_MAX || deferred_rows >= DEFERRED_ROWS_MAX {
            return Ok(());
        }
        let now_ms = self.host.now_ms();
        let rows = self.rows.first_rows(BATCH_ROWS_MAX)?;
        let number = self.head.borrow().batch + 1;
        let mut numbering = self.numbering.borrow_mut();
        let mut new_key =
            |counter: &CounterId| numbering.next(counter, now_ms, &mut || self.host.random());
        let mut next = begin(number, rows, now_ms, &mut |counter| {
            // A deferred write gets its key when it is known which write it joins.
            let is_named_later = deferred.holds(counter);
            if is_named_later {
                WriteKey([0; 16])
            } else {
                new_key(counter)
            }
        });
        let stored = |row: i64| -> Result<Vec<QueuedDelivery>, Fault> {
            Ok(self
                .rows
                .batch(row)?
                .map_or_else(Vec::new, |batch| batch.deliveries))
        };
        let waiting = deferred.set_aside(&mut next.batch, stored, &mut new_key)?;
        let head = self.head.borrow().clone();
        self.rows.begin(&next, &waiting, &head, now_ms)?;
        let numbers = waiting.iter().map(|row| row.number);
        let last = numbers.fold(number, i64::max);
        self.head.borrow_mut().batched(last, next.upto_seq);
        deferred.wait_in(&waiting);
        Ok(())
    }

    /// The writes that could not be counted yet; read from storage the first time.
    fn deferred(&self) -> Result<RefMut<'_, DeferredWrites>, Fault> {
        let mut deferred = self.deferred.borrow_mut();
        if deferred.is_none() {
            let mut known = DeferredWrites::default();
            let mut last = 0;
            while let Some(batch) = self.rows.next_batch(last)? {
                last = batch.number;
                known.restore(&[batch]);
            }
            *deferred = Some(known);
        }
        Ok(RefMut::map(deferred, |deferred| {
            deferred.get_or_insert_default()
        }))
    }

    /// Takes over dead letters, and writes that could not be counted yet, from a queue. They become a separate batch.
    pub(super) async fn on_take_over(
        self: &Rc<Self>,
        taken: Result<TakeOver, Fault>,
    ) -> Result<AppendResult, Fault> {
        let TakeOver {
            to,
            dead,
            deliveries,
        } = taken?;
        self.readable()?;
        self.put_name(&to)?;
        if !deliveries.is_empty() {
            if self.rows.count_batches()? >= DEFERRED_ROWS_MAX {
                return Ok(AppendResult::Full);
            }
            // The alarm is set before the write, because uncounted events must have one.
            self.arm(RETRY_MS.0).await?;
        }
        let batch = InboxBatch {
            number: self.head.borrow().batch + 1,
            tries: 0,
            deliveries,
            is_broken: false,
        };
        self.rows.end(&batch, self.host.now_ms(), &dead)?;
        self.head.borrow_mut().batch = batch.number;
        self.go();
        Ok(AppendResult::Logged)
    }

    /// Sends the due batches for which there is memory. Returns whether there is more to do.
    fn send_batches(self: &Rc<Self>) -> Result<bool, Fault> {
        for (number, bytes) in self.rows.due_batches(self.host.now_ms())? {
            if self.sending.borrow().is_sent(number) || self.deferred()?.is_waiting(number) {
                continue;
            }
            if !self.sending.borrow().has_room() {
                return Ok(true);
            }
            let Some(batch) = self.rows.batch(number)? else {
                continue;
            };
            self.sending.borrow_mut().begin(number, bytes);
            let core = self.clone();
            self.object.wait_until(async move {
                if let Err(fault) = core.send(batch).await {
                    core.host.fail(&format!("an inbox's batch: {fault}"));
                }
                core.sending.borrow_mut().end(number);
                // If it cannot be reported now, it is reported with the next batch.
                let _ = core.report_backlog();
            });
        }
        Ok(!self.head.borrow().is_empty())
    }

    /// Sends a batch once, and removes the deliveries that are complete.
    async fn send(&self, mut batch: InboxBatch) -> Result<(), Fault> {
        let me = self.head.borrow().me.clone();
        let Some(InboxId { datacenter, .. }) = me else {
            return Err(Fault::Broken("an inbox does not know its name".to_owned()));
        };
        let seconds = batch
            .deliveries
            .iter()
            .flat_map(|delivery| &delivery.write.past);
        let since_ms = seconds
            .map(|(second, _)| second.saturating_mul(1_000))
            .min();
        let (deliveries, here, tries) = (&batch.deliveries, &datacenter, batch.tries);
        let count = |indices: Vec<usize>| async move {
            let some: Vec<&QueuedDelivery> = indices
                .iter()
                .filter_map(|index| deliveries.get(*index))
                .collect();
            let verdicts = self.count(here, &some, tries).await;
            (indices, verdicts)
        };
        let counted = all_settled(batch.groups().into_iter().map(count), COUNTERS_AT_ONCE).await;

        let now_ms = self.host.now_ms();
        let verdicts = counted
            .into_iter()
            .flat_map(|(indices, some)| indices.into_iter().zip(some));
        let verdicts: Vec<(usize, WriteOutcome)> = verdicts.collect();
        let counters = batch
            .deliveries
            .iter()
            .map(|delivery| delivery.counter.clone());
        let before: BTreeSet<CounterId> = set_of(counters);
        // The deferred writes are read before any outcome is recorded: storage still has all sent writes.
        drop(self.deferred()?);
        let (dead, wait_ms) = batch.resolve(verdicts, now_ms);
        self.rows.end(&batch, now_ms + wait_ms, &dead)?;
        let free = self.deferred()?.record_outcome(&batch, &before);
        for row in &free {
            self.rows.hurry_one(*row, now_ms)?;
        }
        if !free.is_empty() {
            self.arm(0).await?;
        }
        let lag_ms = since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
        metrics::add(
            &self.host,
            Metric::QueueLagSum,
            u64::try_from(lag_ms).unwrap_or(0),
        );
        metrics::add(&self.host, Metric::QueueLagCount, 1);
        metrics::add(
            &self.host,
            Metric::DeadLetter,
            u64::try_from(dead.len()).unwrap_or(u64::MAX),
        );
        if batch.deliveries.is_empty() {
            return Ok(());
        }
        self.arm(wait_ms).await
    }

    /// Counts writes of one counter and generation. Returns the outcome of each.
    async fn count(
        &self,
        here: &Datacenter,
        deliveries: &[&QueuedDelivery],
        tries: u32,
    ) -> Vec<WriteOutcome> {
        let Some(first) = deliveries.first() else {
            return Vec::new();
        };
        let (counter, generation) = (&first.counter, first.write.generation);
        let all = |verdict: WriteOutcome| vec![verdict; deliveries.len()];
        // A write would create a deleted counter again.
        match self.is_living(counter, generation).await {
            Ok(true) => {}
            Ok(false) => return all(WriteOutcome::Dead(DeadLetterReason::Ended)),
            Err(_) => return all(WriteOutcome::Later),
        }
        let of_fault = |fault: &Fault| match fault {
            Fault::Broken(_) | Fault::TooMany(_) if tries + 1 >= BROKEN_TRIES_MAX => {
                WriteOutcome::Dead(DeadLetterReason::Broken)
            }
            _ => WriteOutcome::Later,
        };
        let now_ms = self.host.now_ms();
        let live = deliveries
            .iter()
            .filter(|delivery| !delivery.is_over(now_ms));
        let live: Vec<&QueuedDelivery> = live.copied().collect();
        let mut counted = count_deliveries(&self.host, here, &live).await.into_iter();
        let verdicts = deliveries.iter().map(|delivery| {
            if delivery.is_over(now_ms) {
                return WriteOutcome::Dead(DeadLetterReason::Broken);
            }
            match counted.next() {
                Some(Ok(outcome)) => verdict(outcome),
                Some(Err(fault)) => of_fault(&fault),
                None => WriteOutcome::Later,
            }
        });
        verdicts.collect()
    }

    async fn is_living(&self, counter: &CounterId, generation: u64) -> Result<bool, Fault> {
        if self.rows.generation_of(counter)? == Some(generation) {
            return Ok(true);
        }
        queued_writes::is_living(&self.host, counter, generation).await
    }
}
