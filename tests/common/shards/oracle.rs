//! What the simulated datacenter is compared with: plain integers, noted at every commit.
//!
//! Invariants: a write is counted at most once; what was acknowledged is in every later complete read,
//! and no read has anything that was not counted before it ended.

use std::collections::BTreeMap;

use tally::counter::merge::CellTotals;
use tally::counter::nonces::{Nonce, Outcome};
use tally::counter::total::{Sum, Value};
use tally::protocol::messages::{DatacenterSum, Flushed};

use super::CELLS;

/// (added, removed).
pub type Totals = (u128, u128);

/// What the client of a write was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Counted,
    /// Nothing was counted, and never will be.
    Refused,
    Unknown,
}

#[derive(Debug)]
struct Write {
    delta: Totals,
    /// The commit that counted it.
    commit: Option<usize>,
    end: Option<End>,
}

/// The truth.
pub struct Oracle {
    writes: Vec<Write>,
    flushes: BTreeMap<(u64, u64), usize>,
    /// The counter after each commit; at first nothing.
    totals: Vec<Totals>,
    /// Each cell after each of its commits, with the number of the commit; at first nothing.
    cells: Vec<Vec<(usize, Totals)>>,
    /// Whether the root was told that nobody counts.
    pub is_stopped: bool,
}

impl Default for Oracle {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            flushes: BTreeMap::new(),
            totals: vec![(0, 0)],
            cells: vec![vec![(0, (0, 0))]; CELLS],
            is_stopped: false,
        }
    }
}

fn value(own: &Outcome, elsewhere: (Sum, Sum)) -> Value {
    Value::new(own.added, own.removed).plus(Value::new(elsewhere.0, elsewhere.1))
}

fn sum(totals: Totals) -> Value {
    Value::new(totals.0, totals.1)
}

impl Oracle {
    pub fn begin_write(&mut self, delta: Totals) -> usize {
        self.writes.push(Write {
            delta,
            commit: None,
            end: None,
        });
        self.writes.len() - 1
    }

    /// A write goes out under this name.
    pub fn begin_flush(&mut self, write: usize, nonce: Nonce) {
        self.flushes.insert((nonce.lane, nonce.number), write);
    }

    /// A cell has counted a flush that was new to it. Where it calls the counter's value exact, that is
    /// the value right after the flush.
    pub fn committed(
        &mut self,
        shard: u8,
        nonce: Nonce,
        outcome: &Outcome,
        elsewhere: Option<(Sum, Sum)>,
    ) {
        assert!(
            !self.is_stopped,
            "shard {shard} counts after all were stopped"
        );
        let number = self.flushes.get(&(nonce.lane, nonce.number));
        let write = &mut self.writes[*number.expect("a flush that was sent")];
        assert_eq!(write.commit, None, "a write was counted twice: {write:?}");
        write.commit = Some(self.totals.len());
        let plus = |(added, removed): Totals| (added + write.delta.0, removed + write.delta.1);
        let cell = &mut self.cells[usize::from(shard)];
        let (_, held) = cell[cell.len() - 1];
        let now = plus(held);
        assert_eq!(
            (outcome.added, outcome.removed),
            now,
            "shard {shard} lost something"
        );
        assert_eq!(
            outcome.sequence,
            u64::try_from(cell.len()).expect("few commits")
        );
        cell.push((self.totals.len(), now));
        let total = plus(self.totals[self.totals.len() - 1]);
        self.totals.push(total);
        if let Some(elsewhere) = elsewhere {
            assert_eq!(
                value(outcome, elsewhere),
                sum(total),
                "a value called exact"
            );
        }
    }

    /// A client got its answer. A value that is called exact was the counter's at some moment after the
    /// write was counted: one whose flush was repeated may be told the moment of the repetition.
    pub fn ended(&mut self, write: usize, end: End, flushed: Option<&Flushed>) {
        let write = &mut self.writes[write];
        write.end = Some(end);
        let told = flushed.and_then(|flushed| Some((flushed.outcome, flushed.elsewhere?)));
        if let Some((own, elsewhere)) = told {
            let value = value(&own, elsewhere);
            let commit = write.commit.expect("an acknowledged write is counted");
            let since = &self.totals[commit..];
            let is_true = since.iter().any(|totals| sum(*totals) == value);
            assert!(is_true, "a value that never was is called exact: {value}");
        }
    }

    /// Commits so far: what a read that begins now must have.
    pub fn commits(&self) -> usize {
        self.totals.len() - 1
    }

    /// Looks at a read that began after so many commits and ends now.
    pub fn check_read(&self, begun: usize, read: &DatacenterSum, about_times: bool) {
        let mut total = (Sum::ZERO, Sum::ZERO);
        for shard in 0..CELLS {
            let number = u8::try_from(shard).expect("few cells");
            let told: Vec<&CellTotals> = read
                .cells
                .iter()
                .filter(|cell| cell.0 == number)
                .map(|cell| &cell.1)
                .collect();
            assert!(told.len() <= 1, "shard {shard} is in a sum twice");
            let log = &self.cells[shard];
            let known = log
                .iter()
                .take_while(|(commit, _)| *commit <= begun)
                .count()
                - 1;
            let Some(told) = told.first() else {
                let is_missing = read.missing.contains(&number);
                assert!(known == 0 || is_missing, "a sum lacks shard {shard}");
                continue;
            };
            let sequence = usize::try_from(told.sequence).expect("few commits");
            assert!(
                sequence >= known,
                "shard {shard} is told as it was before the read"
            );
            assert!(
                sequence < log.len(),
                "shard {shard} counted less than is told"
            );
            assert_eq!((told.added, told.removed), log[sequence].1, "shard {shard}");
            total = (
                total.0.plus(told.added.into()),
                total.1.plus(told.removed.into()),
            );
        }
        assert_eq!((read.summary.added, read.summary.removed), total);
        if about_times && read.missing.is_empty() {
            // The window covers all of the time that the simulation takes.
            let window = read.summary.window.count;
            assert!(window >= self.totals[begun].0, "a window lacks something");
            assert!(
                window <= self.totals[self.commits()].0,
                "a window has too much"
            );
        }
    }

    /// Compares with the plain integers once everything is at rest and every client has its answer.
    pub fn check_rest(&self, read: &DatacenterSum) {
        assert!(read.missing.is_empty(), "the last read is complete");
        self.check_read(self.commits(), read, false);
        let mut plain: Totals = (0, 0);
        for write in &self.writes {
            let is_counted = write.commit.is_some();
            match write.end.expect("every client has an answer") {
                End::Counted => assert!(is_counted, "lost: {write:?}"),
                End::Refused => assert!(!is_counted, "counted though refused: {write:?}"),
                End::Unknown => {}
            }
            if is_counted {
                plain = (plain.0 + write.delta.0, plain.1 + write.delta.1);
            }
        }
        assert_eq!(read.summary.value(), sum(plain));
    }
}
