//! What visitors without a key may have done: budgets of an address, in one isolate's memory.
//!
//! Invariants: memory is fixed, whatever is sent; nobody gets more than a budget says, however many others there are.
//! A visitor is a hash by a key that never leaves the isolate, so no address is held or can be found from what is.
//!
//! A budget is kept as the time until which it is used up, in one cell of each of `ROWS` rows, and the least of the
//! four counts. Visitors who share a cell make each other's time later there, never earlier; one is refused too early
//! only where that has happened in all four. So nothing has to be forgotten to make room, and no room is ever
//! missing. **Source**: count-min sketch with conservative update (Cormode & Muthukrishnan 2005; Estan & Varghese
//! 2002), over the generic cell rate algorithm (ITU-T I.371).
//!
//! Isolates do not ask each other: a visitor whose requests reach n of them has n times as much.

/// How much there is at once, and how long one takes to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// At once.
    pub burst: u32,
    /// One more comes each so many milliseconds.
    pub interval_ms: u32,
}

/// Writes to one counter: 60 at once and one a second.
pub const COUNTER_WRITES: Budget = Budget {
    burst: 60,
    interval_ms: 1_000,
};

/// Writes to all counters: 1,200 at once and 20 a second, since many people may share an address. A line of a body is
/// one.
pub const WRITES: Budget = Budget {
    burst: 1_200,
    interval_ms: 50,
};

/// Counters that are written for the first time: 60 at once and 360 an hour. Each takes storage until somebody
/// deletes it.
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

/// Rows of cells; a hash gives [`CELLS_BITS_MAX`] bits to each.
const ROWS: usize = 4;

/// 2^14 cells a row, of 8 bytes: 512 KB. 2,000 visitors who use all they have make a fifth visitor in 6,000 share all
/// four cells with them: (1 - e^(-2,000 / 16,384))^4 = 0.00017.
const CELLS_BITS_MAX: u32 = 14;

/// 2^12 cells a row for budgets of an address alone: 128 KB each.
const CELLS_BITS: u32 = 12;

/// Counters that are known not to be new: 8 bytes each, 128 KB. Whose place another one has taken is new once more.
const KNOWN_BITS: u32 = 14;

/// Budgets of one kind.
#[derive(Clone, Debug)]
struct Table {
    budget: Budget,
    bits: u32,
    /// Until when each is used up, unix milliseconds; made with the first visitor.
    cells: Vec<i64>,
}

impl Table {
    const fn new(budget: Budget, bits: u32) -> Self {
        Self {
            budget,
            bits,
            cells: Vec::new(),
        }
    }

    /// Where the times of a visitor stand.
    fn places(&self, visitor: u64) -> [usize; ROWS] {
        let mask = (1 << self.bits) - 1;
        let mut rest = visitor;
        let mut begin = 0_u64;
        [(); ROWS].map(|()| {
            let place = begin + (rest & mask);
            rest >>= self.bits;
            begin += mask + 1;
            usize::try_from(place).unwrap_or(0)
        })
    }

    fn used_until_ms(&self, visitor: u64, now_ms: i64) -> i64 {
        let places = self.places(visitor);
        let times = places.iter().filter_map(|place| self.cells.get(*place));
        times.copied().min().unwrap_or(now_ms).max(now_ms)
    }

    fn cost_ms(&self, cost: u64) -> i64 {
        i64::try_from(cost.saturating_mul(self.budget.interval_ms.into())).unwrap_or(i64::MAX)
    }

    /// How long until there is enough, milliseconds; 0 where there is.
    fn wait_ms(&self, visitor: u64, cost: u64, now_ms: i64) -> u64 {
        let until_ms = self.used_until_ms(visitor, now_ms);
        let until_ms = until_ms.saturating_add(self.cost_ms(cost));
        let most_ms = now_ms.saturating_add(self.cost_ms(self.budget.burst.into()));
        u64::try_from(until_ms.saturating_sub(most_ms)).unwrap_or(0)
    }

    /// Uses this much, even where less is left: the debt is paid back before anything is left again.
    fn take(&mut self, visitor: u64, cost: u64, now_ms: i64) {
        if self.cells.is_empty() {
            self.cells = vec![0; ROWS << self.bits];
        }
        let until_ms = self.used_until_ms(visitor, now_ms);
        let until_ms = until_ms.saturating_add(self.cost_ms(cost));
        for place in self.places(visitor) {
            if let Some(cell) = self.cells.get_mut(place) {
                *cell = (*cell).max(until_ms);
            }
        }
    }

    /// Gives back what was used for nothing.
    fn give_back(&mut self, visitor: u64, cost: u64, now_ms: i64) {
        let until_ms = self.used_until_ms(visitor, now_ms);
        let earlier_ms = until_ms.saturating_sub(self.cost_ms(cost));
        for place in self.places(visitor) {
            if let Some(cell) = self.cells.get_mut(place).filter(|cell| **cell == until_ms) {
                *cell = earlier_ms;
            }
        }
    }
}

/// Why something is not done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSpent {
    /// Which budget is used up.
    pub budget: Budget,
    /// How long until there is enough, milliseconds, at least 1.
    pub wait_ms: u64,
}

/// A write of a visitor, by hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitorWrite {
    /// Of the visitor.
    pub visitor: u64,
    /// Of the counter.
    pub counter: u64,
    /// Of both together.
    pub both: u64,
}

/// The budgets of all visitors.
#[derive(Clone, Debug)]
pub struct Visitors {
    counter_writes: Table,
    writes: Table,
    new_counters: Table,
    read_calls: Table,
    /// Counters that are not new, each in the place that its hash names.
    known: Vec<u64>,
}

impl Default for Visitors {
    fn default() -> Self {
        Self {
            counter_writes: Table::new(COUNTER_WRITES, CELLS_BITS_MAX),
            writes: Table::new(WRITES, CELLS_BITS),
            new_counters: Table::new(NEW_COUNTERS, CELLS_BITS),
            read_calls: Table::new(READ_CALLS, CELLS_BITS),
            known: Vec::new(),
        }
    }
}

impl Visitors {
    /// Whether the counter was taken for a new one, where this visitor may write to it now; all that the write needs
    /// is then used.
    ///
    /// # Errors
    /// [`BudgetSpent`]; then nothing was used.
    pub fn write(&mut self, write: VisitorWrite, now_ms: i64) -> Result<bool, BudgetSpent> {
        let VisitorWrite {
            visitor,
            counter,
            both,
        } = write;
        let place = counter & ((1 << KNOWN_BITS) - 1);
        let place = usize::try_from(place).unwrap_or(0);
        let is_new = self.known.get(place) != Some(&counter);
        let mut used = vec![
            (&mut self.counter_writes, both),
            (&mut self.writes, visitor),
        ];
        if is_new {
            used.push((&mut self.new_counters, visitor));
        }
        for (table, subject) in &used {
            enough(table, *subject, 1, now_ms)?;
        }
        for (table, subject) in used {
            table.take(subject, 1, now_ms);
        }
        if is_new {
            if self.known.is_empty() {
                self.known = vec![0; 1 << KNOWN_BITS];
            }
            if let Some(known) = self.known.get_mut(place) {
                *known = counter;
            }
        }
        Ok(is_new)
    }

    /// Gives back what a visitor has used for a counter that was there before.
    pub fn was_there(&mut self, visitor: u64, now_ms: i64) {
        self.new_counters.give_back(visitor, 1, now_ms);
    }

    /// Nothing where a visitor's read may make so many calls now, which are then used.
    ///
    /// # Errors
    /// [`BudgetSpent`]; then nothing was used.
    pub fn read(&mut self, visitor: u64, calls: u64, now_ms: i64) -> Result<(), BudgetSpent> {
        enough(&self.read_calls, visitor, calls, now_ms)?;
        self.read_calls.take(visitor, calls, now_ms);
        Ok(())
    }

    /// Notes calls that a read has made which nobody could foresee: they are made up for before the next.
    pub fn note_calls(&mut self, visitor: u64, calls: u64, now_ms: i64) {
        self.read_calls.take(visitor, calls, now_ms);
    }
}

fn enough(table: &Table, subject: u64, cost: u64, now_ms: i64) -> Result<(), BudgetSpent> {
    match table.wait_ms(subject, cost, now_ms) {
        0 => Ok(()),
        wait_ms => Err(BudgetSpent {
            budget: table.budget,
            wait_ms,
        }),
    }
}
