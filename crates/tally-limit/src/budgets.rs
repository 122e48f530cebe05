//! Budgets of any number of callers in fixed memory, by hashes of the callers.
//!
//! Invariants: memory is fixed for any requests. No caller gets more than its budget, for any number of other callers.
//! The hash should be keyed: a caller that can choose hashes can use up the budget of another.
//!
//! A budget is kept as the time until which it is used up, in one cell of each of `ROWS` rows, and the least of the
//! four counts. Callers that share a cell make each other's time later there, never earlier. A caller is refused too
//! early only if that has happened in all four. So no caller is forgotten, and there is always room. **Source**:
//! count-min sketch with conservative update (Cormode & Muthukrishnan 2005; Estan & Varghese 2002), over the generic
//! cell rate algorithm (ITU-T I.371).
//!
//! Such a cell allows no refund: the charge of one caller may be hidden in that of another. For [`Budgets::refundable`]
//! a charge makes the time of each cell later by its full cost.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::meter::NEVER_MS;

/// A burst, and the time in which one unit is refilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The units that may be used at once.
    pub burst: u32,
    /// The time in which one unit is refilled, milliseconds.
    pub interval_ms: u32,
}

/// The refusal of a spent budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSpent {
    /// The spent budget.
    pub budget: Budget,
    /// How long until there is enough, milliseconds, at least 1; [`NEVER_MS`] if the cost is above the burst.
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
    /// Until when each cell is used up, unix milliseconds; allocated with the first caller.
    cells: Vec<i64>,
}

impl Budgets {
    /// Unused budgets: four rows of 2^`bits` cells of 8 bytes each, so 128 KB for 12 bits. At most [`CELL_BITS_MAX`]
    /// bits. If 2^`bits` · x callers use up their budgets, another caller shares all four cells with them with a
    /// probability of (1 - e^(-x))^4: 0.00017 for x = 1/8.
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

    /// The budgets, still unused, with refunds. They refuse others a little earlier, because the use of callers that
    /// share a cell adds up.
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

    /// Uses `cost` of a caller's budget, if there is enough. Times are unix milliseconds.
    ///
    /// # Errors
    /// [`BudgetSpent`]; then nothing was used.
    pub fn check(&mut self, caller: u64, cost: u64, now_ms: i64) -> Result<(), BudgetSpent> {
        self.peek(caller, cost, now_ms)?;
        self.charge(caller, cost, now_ms);
        Ok(())
    }

    /// The result that [`Self::check`] would return; nothing is used.
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

    /// Uses `cost`, even if less is left: the debt is refilled before anything is left again.
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

    /// Refunds a charge of `charged_ms`, once, less what was refilled since then, because others may have used that
    /// time of the cell. Refunds nothing of budgets that are not [`Self::refundable`].
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
