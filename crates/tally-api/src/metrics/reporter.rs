//! What an isolate has reported of its counts, and its next report.
//!
//! Invariant: until a delta is confirmed, its sequence number belongs to no other delta, and the delta has no other
//! number. So a partition that knows which numbers it has counted counts each delta once.

use super::registry::changed;
use tally_wire::fleet::{Role, STAND_BY_MS};

/// A report that is on its way or was lost.
#[derive(Clone, Debug)]
struct Pending {
    counts: Vec<u64>,
    began_ms: i64,
}

/// The reports of an isolate.
#[derive(Clone, Debug)]
pub struct Reporter {
    incarnation: u64,
    sequence: u64,
    /// The counts as last confirmed.
    confirmed: Vec<u64>,
    confirmed_ms: i64,
    pending: Option<Pending>,
}

/// The counts of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsentReport {
    /// The incarnation.
    pub incarnation: u64,
    /// The report's number.
    pub sequence: u64,
    /// By how much each series rose.
    pub rose: Vec<(u32, u64)>,
    /// Whether it is sent for the first time.
    pub is_new: bool,
}

impl Reporter {
    /// A reporter that has sent nothing.
    pub fn new(incarnation: u64, now_ms: i64) -> Self {
        Self {
            incarnation,
            sequence: 1,
            confirmed: Vec::new(),
            confirmed_ms: now_ms,
            pending: None,
        }
    }

    /// Begins another incarnation where the last may be forgotten. An unconfirmed report of the last one is dropped,
    /// because it may be in the sums already.
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

    /// The next report of these counts: the unconfirmed one again, or else the changes since.
    pub fn report(
        &mut self,
        counts: &[u64],
        role: Role,
        now_ms: i64,
        incarnation: impl FnOnce() -> u64,
    ) -> UnsentReport {
        self.renew(now_ms, incarnation);
        let is_new = self.pending.is_none();
        let pending = self.pending.get_or_insert_with(|| Pending {
            counts: counts.to_vec(),
            began_ms: now_ms,
        });
        UnsentReport {
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

    /// A report was refused and not counted: its delta goes into the next report.
    pub fn refused(&mut self, incarnation: u64, sequence: u64) {
        if (incarnation, sequence) == (self.incarnation, self.sequence) {
            self.pending = None;
        }
    }

    /// The partition no longer knows the incarnation, for example because storage was restored. Another incarnation
    /// begins, with all that is not confirmed.
    pub fn forgotten(&mut self, incarnation: u64, now_ms: i64, next: impl FnOnce() -> u64) {
        if incarnation == self.incarnation {
            self.pending = None;
            (self.incarnation, self.sequence) = (next(), 1);
            self.confirmed_ms = now_ms;
        }
    }

    /// Returns whether a report is unconfirmed.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }
}
