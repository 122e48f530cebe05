//! The decisions of an inbox about its log and its batches. Its object does storage and messages.
//!
//! Invariants: an append is logged once for any number of repeats. A batch holds the first rows of the log, whole rows
//! in their order. A write leaves its batch only when it is counted or dead. A counter is drained only when all its
//! events are gone that the log held when the drain was requested. At a start only the heads of the newest
//! [`NONCES_EVERY_ROWS`] rows are read, for a log of any length.

use std::collections::BTreeMap;

use crate::counter::id::CounterId;
use crate::counter::ledger::{KeySource, WriteKey};
use crate::counter::nonces::{FlushEffect, FlushRecord, Nonce, Nonces};
use crate::counter::queue::write_outcome::{DeadLetter, WriteOutcome, retry_after_ms};
use crate::counter::queue::{InboxId, LogRow, LogRowHead, QueuedDelivery, gather};

/// How many rows of the log are written before the nonces are stored again: one more row in 256. A batch that begins
/// stores them too. At a start the heads of that many rows are read, of 30 bytes each.
pub const NONCES_EVERY_ROWS: i64 = 256;

/// The state of an inbox's rows in memory.
#[derive(Clone, Debug, Default)]
pub struct InboxState {
    /// The id of this inbox, once it is known.
    pub me: Option<InboxId>,
    /// The newest append of each lane.
    pub nonces: Nonces,
    /// The log's first and last row; in an empty log the first is after the last.
    pub log: (i64, i64),
    /// Number of the newest batch.
    pub batch: i64,
    /// The last row that the stored nonces include.
    pub nonces_upto: i64,
}

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It is new, and its row has this number.
    New(i64),
    /// It was logged before.
    Repeated,
    /// Its lane finished with it long ago; no request waits for the answer.
    Stray,
    /// There is no room for it.
    Full,
}

impl InboxState {
    /// Returns the state of these stored rows: the remembered nonces and the last row that they cover; the first and
    /// last row of the log, if there are any; and the heads of the rows after the covered one, in order, each if it can
    /// be read.
    pub fn restore(
        me: Option<InboxId>,
        (nonces, nonces_upto): (Nonces, i64),
        batch: i64,
        log: Option<(i64, i64)>,
        newer: impl IntoIterator<Item = (i64, Option<LogRowHead>)>,
    ) -> Self {
        let mut head = Self {
            me,
            nonces,
            // The numbers continue: at a start, a row whose number the nonces include would not be read.
            log: log.unwrap_or((nonces_upto.saturating_add(1), nonces_upto)),
            batch,
            nonces_upto,
        };
        for (seq, row) in newer {
            if let Some(row) = row {
                head.nonces.remember(row.nonce, outcome_of(seq), row.at_ms);
            }
        }
        head
    }

    /// Whether no row is left.
    pub fn is_empty(&self) -> bool {
        self.log.0 > self.log.1
    }

    /// How many rows the log has.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.log.1 - self.log.0 + 1).unwrap_or(0)
    }

    /// The outcome of an append if the log may have `rows_max` rows. Changes nothing.
    pub fn admit(&self, nonce: Nonce, now_ms: i64, rows_max: u64) -> AppendOutcome {
        match self.nonces.look_up(nonce, now_ms) {
            FlushRecord::Repeated(_) => AppendOutcome::Repeated,
            FlushRecord::Stray => AppendOutcome::Stray,
            FlushRecord::Full => AppendOutcome::Full,
            FlushRecord::New if self.rows() >= rows_max => AppendOutcome::Full,
            FlushRecord::New => AppendOutcome::New(self.log.1 + 1),
        }
    }

    /// The nonces with this append, if they must be stored with its row.
    pub fn nonces_with(&self, nonce: Nonce, seq: i64, now_ms: i64) -> Option<Nonces> {
        self.is_nonces_turn(seq).then(|| {
            let mut nonces = self.nonces.clone();
            nonces.remember(nonce, outcome_of(seq), now_ms);
            nonces
        })
    }

    fn is_nonces_turn(&self, seq: i64) -> bool {
        seq.saturating_sub(self.nonces_upto) >= NONCES_EVERY_ROWS
    }

    /// Records an append whose row has just been written, with [`Self::nonces_with`].
    pub fn logged(&mut self, nonce: Nonce, seq: i64, now_ms: i64) {
        if self.is_nonces_turn(seq) {
            self.nonces_upto = seq;
        }
        self.log.1 = seq;
        self.nonces.remember(nonce, outcome_of(seq), now_ms);
    }

    /// Records that the first rows, up to `upto_seq`, have just become a batch. The nonces were written with it.
    pub fn batched(&mut self, number: i64, upto_seq: i64) {
        self.nonces_upto = self.log.1;
        self.log.0 = upto_seq + 1;
        self.batch = number;
    }
}

/// The record of an append: only its row.
fn outcome_of(seq: i64) -> FlushEffect {
    FlushEffect {
        sequence: u64::try_from(seq).unwrap_or(0),
        ..FlushEffect::default()
    }
}

/// A batch that is not done.
#[derive(Clone, Debug, Default)]
pub struct InboxBatch {
    /// Its number.
    pub number: i64,
    /// How often it was tried.
    pub tries: u32,
    /// The writes that are left in it.
    pub deliveries: Vec<QueuedDelivery>,
    /// Whether its row cannot be read, so that its writes are unknown.
    pub is_broken: bool,
}

/// A batch that is about to begin, in one commit.
#[derive(Clone, Debug)]
pub struct NewBatch {
    /// The batch.
    pub batch: InboxBatch,
    /// The last row that is in it.
    pub upto_seq: i64,
    /// Dead letters of rows that cannot be read.
    pub dead: Vec<DeadLetter>,
}

/// The last of the first rows that are read for a batch: as many as have at most `bytes_max` bytes together, but at
/// least one. `lengths` are their numbers and lengths in bytes.
pub fn last_within(lengths: &[(i64, u64)], bytes_max: u64) -> Option<i64> {
    let mut bytes = 0_u64;
    let fits = |(_, length): &&(i64, u64)| {
        bytes = bytes.saturating_add(*length);
        bytes <= bytes_max
    };
    let fitting = lengths.iter().take_while(fits).last();
    fitting.or(lengths.first()).map(|(seq, _)| *seq)
}

/// The batch of this number, of the first rows of the log; `None` stands for a row that cannot be read.
/// Cost: as [`gather`].
pub fn begin(
    number: i64,
    rows: Vec<(i64, Option<LogRow>)>,
    now_ms: i64,
    new_key: &mut dyn FnMut(&CounterId) -> WriteKey,
) -> NewBatch {
    let mut dead = Vec::new();
    let mut readable = Vec::with_capacity(rows.len());
    let mut seqs = Vec::with_capacity(rows.len());
    let mut last = 0;
    for (seq, row) in rows {
        match row {
            Some(row) => {
                readable.push(row);
                seqs.push(seq);
            }
            // If the row stayed, it would be read again at every start.
            None if readable.is_empty() => {
                last = seq;
                dead.push(DeadLetter::unreadable(now_ms));
            }
            None => break,
        }
    }
    let gathered = gather(&readable, new_key);
    let taken = gathered.rows.checked_sub(1).and_then(|row| seqs.get(row));
    NewBatch {
        batch: InboxBatch {
            number,
            tries: 0,
            deliveries: gathered.deliveries,
            is_broken: false,
        },
        upto_seq: taken.copied().unwrap_or(last),
        dead,
    }
}

impl InboxBatch {
    /// The groups of writes that are sent together, by index. A group has one counter, one generation and one source of
    /// keys.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<(&CounterId, bool, u64, KeySource), Vec<usize>> = BTreeMap::new();
        for (index, delivery) in self.deliveries.iter().enumerate() {
            let generation = delivery.write.generation;
            let group = (
                &delivery.counter,
                delivery.is_clients,
                generation,
                delivery.keys(),
            );
            groups.entry(group).or_default().push(index);
        }
        groups.into_values().collect()
    }

    /// Removes writes that are counted or dead, by the verdicts of their indices. A write without a verdict is sent
    /// again. Returns the dead letters, and how long the other writes wait, milliseconds.
    pub fn resolve(
        &mut self,
        verdicts: impl IntoIterator<Item = (usize, WriteOutcome)>,
        now_ms: i64,
    ) -> (Vec<DeadLetter>, i64) {
        let mut known = vec![WriteOutcome::Later; self.deliveries.len()];
        for (index, verdict) in verdicts {
            if let Some(known) = known.get_mut(index) {
                *known = verdict;
            }
        }
        let mut dead = Vec::new();
        if self.is_broken {
            // If the row stayed, it would be read again at every start.
            dead.push(DeadLetter::unreadable(now_ms));
        }
        let mut left = Vec::new();
        for (delivery, verdict) in std::mem::take(&mut self.deliveries).into_iter().zip(known) {
            match verdict {
                WriteOutcome::Done => {}
                WriteOutcome::Dead(death) => dead.push(DeadLetter::of(&delivery, death, now_ms)),
                WriteOutcome::Later => left.push(delivery),
            }
        }
        self.deliveries = left;
        let wait_ms = retry_after_ms(self.tries);
        self.tries = self.tries.saturating_add(1);
        (dead, wait_ms)
    }
}

/// Waits until all events of a counter that an inbox had acknowledged are counted.
#[derive(Clone, Copy, Debug)]
pub struct DrainWait {
    /// The last row at the time of the request.
    last: i64,
    /// The newest batch at the time when that row was in a batch.
    horizon: Option<i64>,
}

impl DrainWait {
    /// A wait for everything that is acknowledged now.
    pub fn new(head: &InboxState) -> Self {
        Self {
            last: head.log.1,
            horizon: None,
        }
    }

    /// The newest batch to wait for, once all rows to wait for are in batches; `None` before that.
    pub fn horizon(&mut self, head: &InboxState) -> Option<i64> {
        if self.horizon.is_none() && head.log.0 > self.last {
            self.horizon = Some(head.batch);
        }
        self.horizon
    }

    /// Whether those batches, as they are stored now, have no writes of the counter any more.
    pub fn is_done(batches: &[InboxBatch], counter: &CounterId) -> bool {
        let mut deliveries = batches.iter().flat_map(|batch| &batch.deliveries);
        !deliveries.any(|delivery| delivery.counter == *counter)
    }
}
