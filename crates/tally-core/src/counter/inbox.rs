//! What an inbox decides about its log and its batches; storage and messages are its shell's.
//!
//! Invariants: an append is logged once, however often it comes; a batch holds the first rows of the log,
//! whole rows in their order; a write leaves its batch only when it is counted or dead; a counter is drained
//! only when nothing is left of what the log held of it when it was asked; and at a start only the heads of the newest
//! [`NONCES_EVERY_ROWS`] rows are read, however long the log is.

use std::collections::BTreeMap;

use super::id::CounterId;
use super::ledger::{KeySource, WriteKey};
use super::nonces::{FlushEffect, FlushRecord, Nonce, Nonces};
use super::queue::{
    DeadLetter, InboxId, LogRow, LogRowHead, QueuedDelivery, WriteOutcome, gather, retry_after_ms,
};

/// How many rows of the log are written between two rows of what is remembered of appends, where no batch begins, which
/// writes it too: one row in 256 more. The heads of so many are read at a start, of 30 bytes each.
pub const NONCES_EVERY_ROWS: i64 = 256;

/// What an inbox has in memory of its rows.
#[derive(Clone, Debug, Default)]
pub struct InboxState {
    /// Which inbox it is, once it knows that.
    pub me: Option<InboxId>,
    /// The newest append of each lane.
    pub nonces: Nonces,
    /// The log's first and last row; the first is behind the last where it is empty.
    pub log: (i64, i64),
    /// Number of the newest batch.
    pub batch: i64,
    /// The last row that the stored nonces know of.
    pub nonces_upto: i64,
}

/// What becomes of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It is new, and its row has this number.
    New(i64),
    /// It was logged before.
    Repeated,
    /// Its lane finished with it long ago; nobody waits for the answer.
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
            // Numbers go on where they ended: a row of a number that the nonces know of would not be read.
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

    /// What becomes of an append where the log may have `rows_max` rows. Nothing has changed.
    pub fn admit(&self, nonce: Nonce, now_ms: i64, rows_max: u64) -> AppendOutcome {
        match self.nonces.look_up(nonce, now_ms) {
            FlushRecord::Repeated(_) => AppendOutcome::Repeated,
            FlushRecord::Stray => AppendOutcome::Stray,
            FlushRecord::Full => AppendOutcome::Full,
            FlushRecord::New if self.rows() >= rows_max => AppendOutcome::Full,
            FlushRecord::New => AppendOutcome::New(self.log.1 + 1),
        }
    }

    /// What is remembered of appends with this one, if it is to be written with its row.
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

    /// Records that the first rows, up to `upto_seq`, have just become a batch, which was written with the nonces.
    pub fn batched(&mut self, number: i64, upto_seq: i64) {
        self.nonces_upto = self.log.1;
        self.log.0 = upto_seq + 1;
        self.batch = number;
    }
}

/// What is remembered of an append: only its row.
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
    /// What is left of it.
    pub deliveries: Vec<QueuedDelivery>,
    /// Whether its row cannot be read: what was left of it is not known.
    pub is_broken: bool,
}

/// A batch that is about to begin, all of it in one commit.
#[derive(Clone, Debug)]
pub struct NewBatch {
    /// The batch.
    pub batch: InboxBatch,
    /// The last row that is in it.
    pub upto_seq: i64,
    /// What can never be counted: rows that cannot be read.
    pub dead: Vec<DeadLetter>,
}

/// The last of the first rows that are read for a batch, by their numbers and lengths in bytes: all that have at most
/// `bytes_max` together, but at least one.
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
            // If it stayed it would be read again at every start.
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
    /// The indices of the writes that go together. A group has one counter, one generation and one kind of keys.
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

    /// Removes what is counted or dead, by the verdicts of indices; what has none is sent again. Returns what was
    /// given up, and how long what is left waits, milliseconds.
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
            // If it stayed it would be read again at every start.
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

/// Waits until everything is counted that an inbox had acknowledged of a counter.
#[derive(Clone, Copy, Debug)]
pub struct DrainWait {
    /// The last row when it was asked.
    last: i64,
    /// The newest batch when that row was in one.
    horizon: Option<i64>,
}

impl DrainWait {
    /// Everything that is acknowledged now.
    pub fn new(head: &InboxState) -> Self {
        Self {
            last: head.log.1,
            horizon: None,
        }
    }

    /// The newest of the batches that matter, once all rows that matter are in one: nothing is drained before.
    pub fn horizon(&mut self, head: &InboxState) -> Option<i64> {
        if self.horizon.is_none() && head.log.0 > self.last {
            self.horizon = Some(head.batch);
        }
        self.horizon
    }

    /// Whether those batches, as they are stored now, hold nothing of the counter any more.
    pub fn is_done(batches: &[InboxBatch], counter: &CounterId) -> bool {
        let mut deliveries = batches.iter().flat_map(|batch| &batch.deliveries);
        !deliveries.any(|delivery| delivery.counter == *counter)
    }
}
