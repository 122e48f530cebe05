//! How an inbox counts what it has logged, as `objects::consume` and `platform::keyed`.

use std::rc::Rc;

use tally::counter::id::{CounterId, Datacenter};
use tally::counter::inbox::{Batch, begin};
use tally::counter::ledger::{Keyed, KeyedOutcome, WriteKey};
use tally::counter::queue::{
    BATCH_SPACING_MS, BATCHES_MAX, BROKEN_TRIES_MAX, Death, Due, Event, SUMMED_MAX, Verdict,
    verdict,
};
use tally::protocol::messages::Fault;

use super::Boxed;
use super::client::{count_keyed, count_unclaimed};
use super::inbox::Core;
use super::network::{Answer, Message, all};

/// So few that a log becomes several batches.
const BATCH_ROWS_MAX: usize = 4;

/// Gives way to the next gatherer however this one ends.
struct Gathering<'a>(&'a Core);

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.0.is_gathering.set(false);
    }
}

impl Core {
    pub fn go(self: &Rc<Self>) {
        if !self.is_gathering.get() {
            let core = self.clone();
            self.wait_until(async move { core.gather_all().await });
        }
    }

    pub async fn gather_all(self: &Rc<Self>) {
        if self.is_gathering.replace(true) {
            return;
        }
        let _gathering = Gathering(self);
        loop {
            let wait_ms = self.begun_ms.get() + BATCH_SPACING_MS - self.now_ms();
            if (1..=BATCH_SPACING_MS).contains(&wait_ms) {
                self.sleep(wait_ms).await;
            }
            self.begun_ms.set(self.now_ms());
            if self.gather_one().is_err() || !self.send_due() {
                return;
            }
        }
    }

    /// Load, decide, write: no await.
    fn gather_one(&self) -> Result<(), Fault> {
        let is_empty = self.head.borrow().is_empty();
        if is_empty || self.rows.borrow().count_batches() >= BATCHES_MAX {
            return Ok(());
        }
        let now_ms = self.now_ms();
        let rows = self.rows.borrow().first_rows(BATCH_ROWS_MAX);
        let number = self.head.borrow().batch + 1;
        let mut new_key = || WriteKey(self.random_key());
        let next = begin(number, rows.clone(), now_ms, &mut new_key);
        let head = self.head.borrow().clone();
        self.rows.borrow_mut().begin(&next, &head, now_ms)?;
        self.head.borrow_mut().batched(number, next.upto_seq);
        let taken = rows.into_iter().filter(|(seq, _)| *seq <= next.upto_seq);
        let events = taken.flat_map(|(_, row)| row.expect("a row").events);
        self.note_batch(&next.batch, &events.collect::<Vec<_>>());
        Ok(())
    }

    /// Tells the oracles what each write of a batch stands for.
    fn note_batch(&self, batch: &Batch, events: &[(u64, Event)]) {
        for due in &batch.dues {
            let is_in = |(generation, event): &&(u64, Event)| {
                let is_summed = event.key.is_none() && event.delta <= SUMMED_MAX;
                is_summed && event.counter == due.counter && *generation == due.write.generation
            };
            let summed = events.iter().filter(is_in).map(|(_, event)| event.clone());
            let mut oracle = self.air(&due.counter).oracle.borrow_mut();
            oracle.batches(due, summed.collect());
        }
    }

    /// Sends the batches that are due. Returns whether there is more to gather.
    fn send_due(self: &Rc<Self>) -> bool {
        let due = self.rows.borrow().due(self.now_ms());
        for batch in due {
            if self.sending.borrow_mut().insert(batch.number) {
                let core = self.clone();
                self.wait_until(async move {
                    let number = batch.number;
                    let _ = core.send(batch).await;
                    core.sending.borrow_mut().remove(&number);
                });
            }
        }
        !self.head.borrow().is_empty()
    }

    async fn send(self: &Rc<Self>, mut batch: Batch) -> Result<(), Fault> {
        let count = |places: Vec<usize>| {
            let dues: Vec<Due> = places
                .iter()
                .map(|place| batch.dues[*place].clone())
                .collect();
            let (core, tries) = (self.clone(), batch.tries);
            async move {
                let verdicts = core.count(&dues, tries).await;
                places.into_iter().zip(verdicts)
            }
            .boxed()
        };
        let counted = all(batch.groups().into_iter().map(count).collect()).await;
        let now_ms = self.now_ms();
        let verdicts: Vec<(usize, Verdict)> = counted.into_iter().flatten().collect();
        let before = batch.dues.clone();
        let (_, wait_ms) = batch.settle(verdicts.iter().copied(), now_ms);
        self.rows.borrow_mut().end(&batch, now_ms + wait_ms)?;
        for (place, verdict) in verdicts {
            let due = &before[place];
            let air = self.air(&due.counter);
            let mut oracle = air.oracle.borrow_mut();
            oracle.settles(due, verdict, air.latest_ms());
        }
        if !batch.dues.is_empty() {
            self.arm(wait_ms);
        }
        Ok(())
    }

    /// Counts writes of one counter and generation. Returns what becomes of each.
    async fn count(&self, dues: &[Due], tries: u32) -> Vec<Verdict> {
        let first = dues.first().expect("a group has a write");
        let all = |verdict: Verdict| vec![verdict; dues.len()];
        match self.is_living(&first.counter, first.write.generation).await {
            Ok(true) => {}
            Ok(false) => return all(Verdict::Dead(Death::Ended)),
            Err(_) => return all(Verdict::Later),
        }
        let writes: Vec<Keyed> = dues.iter().map(|due| due.write.clone()).collect();
        let of_fault = |fault: &Fault| match fault {
            Fault::Broken(_) | Fault::TooMany(_) if tries + 1 >= BROKEN_TRIES_MAX => {
                Verdict::Dead(Death::Broken)
            }
            _ => Verdict::Later,
        };
        let of_outcome = |outcome: Result<KeyedOutcome, Fault>| match outcome {
            Ok(outcome) => verdict(outcome),
            Err(fault) => of_fault(&fault),
        };
        let here: &Datacenter = &self.me.datacenter;
        let air = self.air(&first.counter);
        let landed = match first.is_clients {
            true => count_keyed(air, here, &writes).await,
            false => count_unclaimed(air, here, &writes).await,
        };
        landed.into_iter().map(|(_, one)| of_outcome(one)).collect()
    }

    async fn is_living(&self, counter: &CounterId, generation: u64) -> Result<bool, Fault> {
        if self.rows.borrow().generation_of(counter) == Some(generation) {
            return Ok(true);
        }
        let air = self.air(counter);
        match air.call(air.root(), Message::LookUp).await? {
            Answer::Root(root) => Ok(root.is_some_and(|root| root.generation == generation)),
            other => unreachable!("{other:?} answers no question for a root"),
        }
    }
}
