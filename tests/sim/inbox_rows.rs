//! An inbox's storage, as `objects::inbox_store`: what one method writes is written in one commit.

use std::cell::Cell;
use std::collections::BTreeMap;

use tally::core::counter::id::CounterId;
use tally::core::counter::inbox::{Batch, Beginning, Head, NONCES_EVERY_ROWS};
use tally::core::counter::nonces::Nonces;
use tally::core::counter::queue::{Due, InboxId, LOGGED_HEAD_BYTES, Logged, LoggedHead, RETRY_MS};
use tally::protocol::messages::{Fault, decode, encode};

use super::network::unavailable;

/// A batch at rest: how often it was tried, when it is due, what is left of it.
type Stored = (u32, i64, Vec<u8>);

/// What an inbox has on disk.
#[derive(Default)]
pub struct InboxRows {
    me: Option<InboxId>,
    nonces: Vec<u8>,
    /// The last row that they know of.
    nonces_upto: i64,
    log: BTreeMap<i64, Vec<u8>>,
    batches: BTreeMap<i64, Stored>,
    known: BTreeMap<CounterId, u64>,
    /// When the alarm rings, unix milliseconds.
    pub alarm_ms: Option<i64>,
    /// How many of the next writes storage refuses.
    pub refused_writes: Cell<u32>,
}

impl InboxRows {
    pub fn load(&self) -> Head {
        let nonces = match self.nonces.as_slice() {
            [] => Nonces::default(),
            body => decode(body).expect("nonces"),
        };
        let newer = self.log.range(self.nonces_upto + 1..);
        let newer = newer.map(|(seq, body)| (*seq, Some(head_of(body))));
        let newer: Vec<(i64, Option<LoggedHead>)> = newer.collect();
        assert!(
            newer.len() < usize::try_from(NONCES_EVERY_ROWS).expect("few rows"),
            "a start reads {} rows",
            newer.len()
        );
        let batch = self.batches.last_key_value().map_or(0, |(last, _)| *last);
        let log = self.log.first_key_value().zip(self.log.last_key_value());
        let log = log.map(|((first, _), (last, _))| (*first, *last));
        let nonces = (nonces, self.nonces_upto);
        Head::restore(self.me.clone(), nonces, batch, log, newer)
    }

    fn may_write(&self) -> Result<(), Fault> {
        match self.refused_writes.get() {
            0 => Ok(()),
            refused => {
                self.refused_writes.set(refused - 1);
                Err(unavailable())
            }
        }
    }

    pub fn put_me(&mut self, me: &InboxId) -> Result<(), Fault> {
        self.may_write()?;
        self.me = Some(me.clone());
        Ok(())
    }

    pub fn generation_of(&self, counter: &CounterId) -> Option<u64> {
        self.known.get(counter).copied()
    }

    pub fn put_generation(&mut self, counter: &CounterId, generation: u64) -> Result<(), Fault> {
        self.may_write()?;
        self.known.insert(counter.clone(), generation);
        Ok(())
    }

    pub fn forget(&mut self, counter: &CounterId) -> Result<(), Fault> {
        self.may_write()?;
        self.known.remove(counter);
        Ok(())
    }

    pub fn log(&mut self, seq: i64, row: &Logged, nonces: Option<&Nonces>) -> Result<(), Fault> {
        self.may_write()?;
        if let Some(nonces) = nonces {
            self.nonces = encode(nonces)?;
            self.nonces_upto = seq;
        }
        let before = self.log.insert(seq, encode(row)?);
        assert_eq!(before, None, "a row is written once");
        Ok(())
    }

    pub fn first_rows(&self, limit: usize) -> Vec<(i64, Option<Logged>)> {
        let first = self.log.iter().take(limit);
        first.map(|(seq, body)| (*seq, decode(body).ok())).collect()
    }

    pub fn begin(
        &mut self,
        next: &Beginning,
        waiting: &[Batch],
        head: &Head,
        now_ms: i64,
    ) -> Result<(), Fault> {
        self.may_write()?;
        assert!(next.dead.is_empty(), "all rows can be read");
        self.nonces = encode(&head.nonces)?;
        self.nonces_upto = head.log.1;
        self.log.retain(|seq, _| *seq > next.upto_seq);
        for row in waiting {
            self.put_batch(row, now_ms + RETRY_MS.1)?;
        }
        self.put_batch(&next.batch, now_ms)
    }

    fn put_batch(&mut self, batch: &Batch, due_at_ms: i64) -> Result<(), Fault> {
        if batch.dues.is_empty() {
            self.batches.remove(&batch.number);
        } else {
            let stored = (batch.tries, due_at_ms, encode(&batch.dues)?);
            self.batches.insert(batch.number, stored);
        }
        Ok(())
    }

    pub fn end(&mut self, batch: &Batch, due_at_ms: i64) -> Result<(), Fault> {
        self.may_write()?;
        self.put_batch(batch, due_at_ms)
    }

    fn batches(&self, is_wanted: impl Fn(i64, &Stored) -> bool) -> Vec<Batch> {
        let all = self.batches.iter();
        let wanted = all.filter(|(number, stored)| is_wanted(**number, stored));
        let read = |(number, (tries, _, body)): (&i64, &Stored)| Batch {
            number: *number,
            tries: *tries,
            dues: decode(body).expect("a batch"),
            is_broken: false,
        };
        wanted.map(read).collect()
    }

    pub fn due(&self, now_ms: i64) -> Vec<Batch> {
        self.batches(|_, (_, due_at_ms, _)| *due_at_ms <= now_ms)
    }

    pub fn upto(&self, last: i64) -> Vec<Batch> {
        self.batches(|number, _| number <= last)
    }

    pub fn all(&self) -> Vec<Batch> {
        self.batches(|_, _| true)
    }

    pub fn batch(&self, row: i64) -> Vec<Due> {
        let batches = self.batches(|number, _| number == row);
        batches.into_iter().flat_map(|batch| batch.dues).collect()
    }

    pub fn hurry_one(&mut self, row: i64, now_ms: i64) -> Result<(), Fault> {
        self.may_write()?;
        if let Some((_, due_at_ms, _)) = self.batches.get_mut(&row) {
            *due_at_ms = now_ms;
        }
        Ok(())
    }

    pub fn count_batches(&self) -> u64 {
        u64::try_from(self.batches.len()).expect("few batches")
    }

    /// When a batch is next due; 0 for none.
    pub fn next_due_ms(&self) -> i64 {
        let dues = self.batches.values().map(|(_, due_at_ms, _)| *due_at_ms);
        dues.min().unwrap_or(0)
    }

    pub fn hurry(&mut self, now_ms: i64) -> Result<(), Fault> {
        self.may_write()?;
        for (_, due_at_ms, _) in self.batches.values_mut() {
            *due_at_ms = now_ms.min(*due_at_ms);
        }
        Ok(())
    }

    pub fn set_alarm_by(&mut self, by_ms: i64) {
        self.alarm_ms = Some(self.alarm_ms.map_or(by_ms, |set| set.min(by_ms)));
    }

    /// Whether nothing is left to be counted.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty() && self.batches.is_empty()
    }
}

/// As SQL's `substr`.
fn head_of(body: &[u8]) -> LoggedHead {
    let most = usize::try_from(LOGGED_HEAD_BYTES).expect("few bytes");
    decode(&body[..body.len().min(most)]).expect("a row's head")
}
