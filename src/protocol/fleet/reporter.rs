//! What an isolate has told of what it counted, and what it tells next.
//!
//! Invariant: a delta has one number, and a number one delta, until it is confirmed. So whoever knows which numbers were counted counts
//! each delta once.

use super::{Role, STAND_BY_MS};
use crate::protocol::metrics::changed;

/// A report that is on its way, or was lost.
#[derive(Clone, Debug)]
struct Pending {
    counts: Vec<u64>,
    began_ms: i64,
}

/// What an isolate has told.
#[derive(Clone, Debug)]
pub struct Reporter {
    incarnation: u64,
    sequence: u64,
    /// The numbers as they were last confirmed.
    confirmed: Vec<u64>,
    confirmed_ms: i64,
    pending: Option<Pending>,
}

/// What a report says of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The incarnation.
    pub incarnation: u64,
    /// The report's number.
    pub sequence: u64,
    /// By how much each series rose.
    pub rose: Vec<(u32, u64)>,
    /// Whether it is told for the first time.
    pub is_new: bool,
}

impl Reporter {
    /// One that has told nothing.
    pub fn new(incarnation: u64, now_ms: i64) -> Self {
        Self {
            incarnation,
            sequence: 1,
            confirmed: Vec::new(),
            confirmed_ms: now_ms,
            pending: None,
        }
    }

    /// Begins another incarnation where the last may be forgotten: what was told of that and never confirmed is given up, since it may be
    /// in the sums.
    fn renew(&mut self, now_ms: i64, incarnation: impl FnOnce() -> u64) {
        let since_ms = match &self.pending {
            Some(pending) => pending.began_ms,
            None => self.confirmed_ms,
        };
        if (0..STAND_BY_MS).contains(&now_ms.saturating_sub(since_ms)) {
            return;
        }
        if let Some(pending) = self.pending.take() {
            self.confirmed = pending.counts;
        }
        (self.incarnation, self.sequence) = (incarnation(), 1);
        self.confirmed_ms = now_ms;
    }

    /// What must be told of these numbers: what was told before and not confirmed, or else what has changed since.
    pub fn tell(
        &mut self,
        counts: &[u64],
        role: Role,
        now_ms: i64,
        incarnation: impl FnOnce() -> u64,
    ) -> Unsent {
        self.renew(now_ms, incarnation);
        let is_new = self.pending.is_none();
        let pending = self.pending.get_or_insert_with(|| Pending {
            counts: counts.to_vec(),
            began_ms: now_ms,
        });
        Unsent {
            incarnation: self.incarnation,
            sequence: self.sequence,
            rose: changed(&pending.counts, &self.confirmed, role),
            is_new,
        }
    }

    /// A report was counted, now or before.
    pub fn confirmed(&mut self, incarnation: u64, sequence: u64, now_ms: i64) {
        if (incarnation, sequence) != (self.incarnation, self.sequence) {
            return;
        }
        if let Some(pending) = self.pending.take() {
            self.confirmed = pending.counts;
            self.sequence += 1;
            self.confirmed_ms = now_ms;
        }
    }

    /// A report was refused: it was not counted, and what it said is said with the next.
    pub fn refused(&mut self, incarnation: u64, sequence: u64) {
        if (incarnation, sequence) == (self.incarnation, self.sequence) {
            self.pending = None;
        }
    }

    /// The incarnation is not known any more, as where storage was put back: another begins, with what is not confirmed.
    pub fn forgotten(&mut self, incarnation: u64, now_ms: i64, next: impl FnOnce() -> u64) {
        if incarnation == self.incarnation {
            self.pending = None;
            (self.incarnation, self.sequence) = (next(), 1);
            self.confirmed_ms = now_ms;
        }
    }

    /// Whether something was told that is not confirmed.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }
}
