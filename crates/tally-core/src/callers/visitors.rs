//! The budgets of visitors without a key, by address, in one isolate's memory.
//!
//! Invariants: memory is fixed for any requests. No visitor gets more than its budget, for any number of other
//! visitors. A visitor is a hash by a key that never leaves the isolate, so no address is held or can be computed from
//! memory. [`Budgets`] says how.
//!
//! Isolates do not ask each other: a visitor whose requests reach n of them has n times as much.

use tally_limit::budgets::{Budget, BudgetSpent, Budgets};

/// Writes to one counter: 60 at once and one a second.
pub const COUNTER_WRITES: Budget = Budget {
    burst: 60,
    interval_ms: 1_000,
};

/// Writes to all counters: 1,200 at once and 20 a second, because many people may share an address. A line of a body is
/// one write.
pub const WRITES: Budget = Budget {
    burst: 1_200,
    interval_ms: 50,
};

/// Counters that are written for the first time: 60 at once and 360 an hour. Each takes storage until it is deleted.
pub const NEW_COUNTERS: Budget = Budget {
    burst: 60,
    interval_ms: 10_000,
};

/// Calls to objects that reads need: 6,000 at once and 100 a second. A read from memory needs none, a read of a
/// counter of one datacenter two, an aggregate of 5,000 counters 5,016.
pub const READ_CALLS: Budget = Budget {
    burst: 6_000,
    interval_ms: 10,
};

/// 2^14 cells a row, of 8 bytes: 512 KB. If 2,000 visitors use up their budgets, one other visitor in 6,000 shares all
/// four cells with them: (1 - e^(-2,000 / 16,384))^4 = 0.00017.
const CELLS_BITS_OF_COUNTERS: u32 = 14;

/// 2^12 cells a row for budgets by address only: 128 KB each.
const CELLS_BITS: u32 = 12;

/// The slots of counters that are known not to be new: 8 bytes each, 128 KB. A counter whose slot another one has taken
/// counts as new again.
const KNOWN_BITS: u32 = 14;

/// A write of a visitor, by hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitorWrite {
    /// The hash of the visitor.
    pub visitor: u64,
    /// The hash of the counter.
    pub counter: u64,
    /// The hash of both together.
    pub both: u64,
}

/// The budgets of all visitors.
#[derive(Clone, Debug)]
pub struct Visitors {
    counter_writes: Budgets,
    writes: Budgets,
    new_counters: Budgets,
    read_calls: Budgets,
    /// Counters that are not new, each in the slot of its hash.
    known: Vec<u64>,
}

impl Default for Visitors {
    fn default() -> Self {
        Self {
            counter_writes: Budgets::new(COUNTER_WRITES, CELLS_BITS_OF_COUNTERS),
            writes: Budgets::new(WRITES, CELLS_BITS),
            new_counters: Budgets::new(NEW_COUNTERS, CELLS_BITS).refundable(),
            read_calls: Budgets::new(READ_CALLS, CELLS_BITS),
            known: Vec::new(),
        }
    }
}

impl Visitors {
    /// Uses the budgets of a write, if this visitor may write to the counter now. Returns whether the counter was
    /// treated as new.
    ///
    /// # Errors
    /// [`BudgetSpent`]; then nothing was used.
    pub fn write(&mut self, write: VisitorWrite, now_ms: i64) -> Result<bool, BudgetSpent> {
        let VisitorWrite {
            visitor,
            counter,
            both,
        } = write;
        let cell = counter & ((1 << KNOWN_BITS) - 1);
        let cell = usize::try_from(cell).unwrap_or(0);
        let is_new = self.known.get(cell) != Some(&counter);
        let mut used = vec![
            (&mut self.counter_writes, both),
            (&mut self.writes, visitor),
        ];
        if is_new {
            used.push((&mut self.new_counters, visitor));
        }
        for (budgets, subject) in &used {
            budgets.peek(*subject, 1, now_ms)?;
        }
        for (budgets, subject) in used {
            budgets.charge(subject, 1, now_ms);
        }
        if is_new {
            if self.known.is_empty() {
                self.known = vec![0; 1 << KNOWN_BITS];
            }
            if let Some(known) = self.known.get_mut(cell) {
                *known = counter;
            }
        }
        Ok(is_new)
    }

    /// Succeeds if this visitor may make this many writes to one counter now; uses nothing. It does not check the
    /// budget of new counters: a new counter uses one of that for any number of writes.
    ///
    /// # Errors
    /// [`BudgetSpent`].
    pub fn may_write(
        &self,
        write: VisitorWrite,
        writes: u64,
        now_ms: i64,
    ) -> Result<(), BudgetSpent> {
        self.counter_writes.peek(write.both, writes, now_ms)?;
        self.writes.peek(write.visitor, writes, now_ms)
    }

    /// Refunds the budget of new counters that a visitor used at `written_ms` for an existing counter, less what has
    /// been refilled since then.
    pub fn was_there(&mut self, visitor: u64, written_ms: i64, now_ms: i64) {
        self.new_counters.refund(visitor, 1, written_ms, now_ms);
    }

    /// Succeeds if a visitor's read may make this many calls now, and uses them.
    ///
    /// # Errors
    /// [`BudgetSpent`]; then nothing was used.
    pub fn read(&mut self, visitor: u64, calls: u64, now_ms: i64) -> Result<(), BudgetSpent> {
        self.read_calls.check(visitor, calls, now_ms)
    }

    /// Charges calls of a read that were not known in advance: the next read is possible once they are refilled.
    pub fn charge_calls(&mut self, visitor: u64, calls: u64, now_ms: i64) {
        self.read_calls.charge(visitor, calls, now_ms);
    }
}
