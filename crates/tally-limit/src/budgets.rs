//! Budgets of any number of callers in fixed memory, by hashes of the callers.
//!
//! Invariants: memory is fixed, whatever is sent; nobody gets more than a budget says, however many others there are.
//! The hash should be keyed: who can choose hashes can use up the budget of another.
//!
//! A budget is kept as the time until which it is used up, in one cell of each of `ROWS` rows, and the least of the
//! four counts. Callers who share a cell make each other's time later there, never earlier; one is refused too early
//! only where that has happened in all four. So nothing has to be forgotten to make room, and no room is ever
//! missing. **Source**: count-min sketch with conservative update (Cormode & Muthukrishnan 2005; Estan & Varghese
//! 2002), over the generic cell rate algorithm (ITU-T I.371).
//!
//! Nothing can be given back of such a cell: the charge of one caller may be hidden in that of another. Where that is
//! needed ([`Budgets::refundable`]) a charge makes the time of each cell later by all it costs.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::meter::NEVER_MS;

/// How much there is at once, and how long one takes to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// At once.
    pub burst: u32,
    /// One more comes each so many milliseconds.
    pub interval_ms: u32,
}

/// Why something is not done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSpent {
    /// Which budget is used up.
    pub budget: Budget,
    /// How long until there is enough, milliseconds, at least 1; [`NEVER_MS`] where it costs more than the burst.
    pub wait_ms: u64,
}

impl fmt::Display for BudgetSpent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wait_ms {
            NEVER_MS => formatter.write_str("this costs more than the budget: send a smaller one"),
            wait_ms => write!(formatter, "the budget is used: try again in {wait_ms} ms"),
        }
    }
}

impl core::error::Error for BudgetSpent {}

/// Rows of cells; a hash gives up to 16 bits to each.
const ROWS: usize = 4;

/// The most bits of the number of a cell: 64 / 4 = 16.
pub const CELL_BITS_MAX: u32 = 16;

/// Budgets of one kind, of all callers.
///
/// ```
/// use tally_limit::budgets::{Budget, Budgets};
///
/// let budget = Budget { burst: 2, interval_ms: 500 };
/// let mut budgets = Budgets::new(budget, 12);
/// let caller = 0x9e37_79b9_7f4a_7c15;
/// assert!(budgets.check(caller, 2, 0).is_ok());
/// assert_eq!(budgets.check(caller, 1, 100).unwrap_err().wait_ms, 400);
/// assert!(budgets.check(caller, 1, 500).is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Budgets {
    budget: Budget,
    bits: u32,
    /// Whether charges of callers who share a cell add up there.
    adds: bool,
    /// The latest time of a call, unix milliseconds.
    latest_ms: i64,
    /// Until when each is used up, unix milliseconds; made with the first caller.
    cells: Vec<i64>,
}

impl Budgets {
    /// Budgets of which nothing is used: four rows of 2^`bits` cells of 8 bytes each, so 128 KB for 12 bits. At most
    /// [`CELL_BITS_MAX`] bits. Of 2^`bits` · x callers who use all they have, another caller shares all four cells
    /// with a probability of (1 - e^(-x))^4: 0.00017 for an eighth.
    pub const fn new(budget: Budget, bits: u32) -> Self {
        Self {
            budget,
            bits: if bits < CELL_BITS_MAX {
                bits
            } else {
                CELL_BITS_MAX
            },
            adds: false,
            latest_ms: 0,
            cells: Vec::new(),
        }
    }

    /// The same, still unused, of which charges may be given back. It refuses others a little earlier: what callers
    /// who share a cell use adds up there.
    #[must_use]
    pub fn refundable(self) -> Self {
        Self { adds: true, ..self }
    }

    /// The indices of a caller's cells.
    fn cells_of(&self, caller: u64) -> [usize; ROWS] {
        let mask = (1 << self.bits) - 1;
        let mut rest = caller;
        let mut begin = 0_u64;
        [(); ROWS].map(|()| {
            let index = begin + (rest & mask);
            rest >>= self.bits;
            begin += mask + 1;
            usize::try_from(index).unwrap_or(0)
        })
    }

    fn used_until_ms(&self, caller: u64, now_ms: i64) -> i64 {
        let indices = self.cells_of(caller);
        let times = indices.iter().filter_map(|index| self.cells.get(*index));
        times.copied().min().unwrap_or(now_ms).max(now_ms)
    }

    fn cost_ms(&self, cost: u64) -> i64 {
        i64::try_from(cost.saturating_mul(self.budget.interval_ms.into())).unwrap_or(i64::MAX)
    }

    /// Uses so much of a caller's budget, where there is enough. Times are unix milliseconds.
    ///
    /// # Errors
    /// [`BudgetSpent`]; then nothing was used.
    pub fn check(&mut self, caller: u64, cost: u64, now_ms: i64) -> Result<(), BudgetSpent> {
        self.peek(caller, cost, now_ms)?;
        self.charge(caller, cost, now_ms);
        Ok(())
    }

    /// What [`Self::check`] would say; nothing is used.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn peek(&self, caller: u64, cost: u64, now_ms: i64) -> Result<(), BudgetSpent> {
        let budget = self.budget;
        let until_ms = self.used_until_ms(caller, now_ms);
        let until_ms = until_ms.checked_add(self.cost_ms(cost));
        let limit_ms = now_ms.saturating_add(self.cost_ms(budget.burst.into()));
        let wait_ms = match until_ms {
            Some(until_ms) if cost <= budget.burst.into() => {
                u64::try_from(until_ms.saturating_sub(limit_ms)).unwrap_or(0)
            }
            _ => NEVER_MS,
        };
        match wait_ms {
            0 => Ok(()),
            wait_ms => Err(BudgetSpent { budget, wait_ms }),
        }
    }

    /// Uses so much, even where less is left: the debt is paid back before anything is left again.
    pub fn charge(&mut self, caller: u64, cost: u64, now_ms: i64) {
        if self.cells.is_empty() {
            self.cells = vec![0; ROWS << self.bits];
        }
        self.latest_ms = self.latest_ms.max(now_ms);
        let cost_ms = self.cost_ms(cost);
        let until_ms = self.used_until_ms(caller, now_ms);
        let until_ms = until_ms.saturating_add(cost_ms);
        let adds = self.adds;
        for index in self.cells_of(caller) {
            if let Some(cell) = self.cells.get_mut(index) {
                *cell = match adds {
                    true => (*cell).max(now_ms).saturating_add(cost_ms),
                    false => (*cell).max(until_ms),
                };
            }
        }
    }

    /// Gives back what was used for nothing at `charged_ms`, once, less what has come back by itself since then: of
    /// that, others may have used the cell's time. Gives back nothing of budgets that are not
    /// [`Self::refundable`].
    pub fn refund(&mut self, caller: u64, cost: u64, charged_ms: i64, now_ms: i64) {
        if !self.adds {
            return;
        }
        self.latest_ms = self.latest_ms.max(now_ms);
        let passed_ms = self.latest_ms.saturating_sub(charged_ms).max(0);
        let left_ms = self.cost_ms(cost).saturating_sub(passed_ms).max(0);
        for index in self.cells_of(caller) {
            if let Some(cell) = self.cells.get_mut(index) {
                *cell = cell.saturating_sub(left_ms);
            }
        }
    }
}
