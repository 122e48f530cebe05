//! How an inbox counts what it has logged, as `objects::consume` and `platform::keyed`.

use std::rc::Rc;

use tally::core::counter::id::{CounterId, Datacenter};
use tally::core::counter::inbox::{Batch, Draining, begin};
use tally::core::counter::ledger::{Keyed, KeyedOutcome, WriteKey};
use tally::core::counter::queue::{
    BATCH_SPACING_MS, BATCHES_MAX, BROKEN_TRIES_MAX, Death, Due, Event, PARKED_MAX, SUMMED_MAX,
    Verdict, verdict,
};
use tally::protocol::messages::Fault;

use super::Boxed;
use super::client::{count_keyed, count_unclaimed};
use super::inbox::Core;
use super::network::{Answer, Message, all};
use super::oracle::Oracle;

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
        if self.head.borrow().is_empty() {
            return Ok(());
        }
        let mut parked = self.parked.borrow_mut();
        let parked_rows = parked.rows();
        let first_sent = self.rows.borrow().count_batches() - parked_rows;
        if first_sent >= BATCHES_MAX || parked_rows >= PARKED_MAX {
            return Ok(());
        }
        let now_ms = self.now_ms();
        let rows = self.rows.borrow().first_rows(BATCH_ROWS_MAX);
        let number = self.head.borrow().batch + 1;
        let mut new_key = |counter: &CounterId| self.next_key(counter, now_ms);
        let mut next = begin(number, rows.clone(), now_ms, &mut |counter| match parked
            .holds(counter)
        {
            true => WriteKey([0; 16]),
            false => new_key(counter),
        });
        let stored = |row: i64| Ok::<_, Fault>(self.rows.borrow().batch(row));
        let waiting = parked.set_aside(&mut next.batch, stored, &mut new_key)?;
        let head = self.head.borrow().clone();
        let begun = self.rows.borrow_mut().begin(&next, &waiting, &head, now_ms);
        begun?;
        let numbers = waiting.iter().map(|row| row.number);
        let last = numbers.fold(number, i64::max);
        self.head.borrow_mut().batched(last, next.upto_seq);
        parked.wait_in(&waiting);
        let taken = rows.into_iter().filter(|(seq, _)| *seq <= next.upto_seq);
        let events = taken.flat_map(|(_, row)| row.expect("a row").events);
        let events: Vec<_> = events.collect();
        self.note_batch(&next.batch, &events, Oracle::batches);
        for row in &waiting {
            self.note_batch(row, &events, Oracle::waits);
        }
        Ok(())
    }

    /// Whether nothing is left of a counter in batches up to a number.
    pub fn is_counted(&self, counter: &CounterId, upto: i64) -> bool {
        Draining::is_done(&self.rows.borrow().upto(upto), counter)
    }

    /// Tells the oracles what each write of a batch stands for.
    fn note_batch(
        &self,
        batch: &Batch,
        events: &[(u64, Event)],
        note: fn(&mut Oracle, &Due, Vec<Event>),
    ) {
        for due in &batch.dues {
            let is_in = |(generation, event): &&(u64, Event)| {
                let is_summed = event.key.is_none() && event.delta <= SUMMED_MAX;
                is_summed && event.counter == due.counter && *generation == due.write.generation
            };
            let summed = events.iter().filter(is_in).map(|(_, event)| event.clone());
            let mut oracle = self.air(&due.counter).oracle.borrow_mut();
            note(&mut oracle, due, summed.collect());
        }
    }

    /// Sends the batches that are due. Returns whether there is more to gather.
    fn send_due(self: &Rc<Self>) -> bool {
        let due = self.rows.borrow().due(self.now_ms());
        for batch in due {
            if self.parked.borrow().is_waiting(batch.number) {
                continue;
            }
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
        let counters = before.iter().map(|due| &due.counter);
        let free = self.parked.borrow_mut().settled(&batch, counters);
        for (place, verdict) in verdicts {
            let due = &before[place];
            let air = self.air(&due.counter);
            let mut oracle = air.oracle.borrow_mut();
            oracle.settles(due, verdict, air.latest_ms());
        }
        for row in &free {
            self.rows.borrow_mut().hurry_one(*row, now_ms)?;
        }
        if !free.is_empty() {
            self.arm(0);
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
            false => count_unclaimed(air, here, &writes, first.keys()).await,
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
