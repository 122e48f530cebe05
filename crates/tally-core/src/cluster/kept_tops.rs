//! The tops that a partition was lately asked for, in memory. Each changed row updates them.
//!
//! Invariant: a kept top equals the result of its table. Before a row is written, its old state is removed; after that
//! its new state is added. A failed write, or a change of a number of more than 62 bits, cannot be followed: then the
//! top is dropped. The next request reads it again, as after a loss of the object's memory.
//!
//! Memory of a partition: [`ROWS_MAX`] rows of about 150 bytes with their names. Each of [`ORDERS_MAX`] orders has
//! [`OLDEST_MAX`] times of about 20 bytes and [`ROWLESS_MAX`] names of about 80 bytes. That is 4 MB at most with names
//! of 30 bytes, and 110 KB for one order with a limit of 100.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::standings::{Standing, Standings};
use super::top_order::{
    DAY_HOURS, DAYS_KEPT, HOURS_KEPT, KnownTotal, OrderBy, TopOrder, TopRow, WITHIN_MAX,
    WindowStart, hour_of, row_of_known,
};
use crate::counter::id::CounterId;
use crate::counter::total::{Sum, Value};

/// The most kept tops. Beyond it, the least recently requested one is dropped.
pub const ORDERS_MAX: usize = 8;

/// The most kept rows of all orders together. Of an order with a larger limit only the sums are kept.
pub const ROWS_MAX: usize = 4_096;

/// The most different `as_of` that an order keeps. After this many of its oldest rows have changed, its table is
/// scanned for the next.
pub const OLDEST_MAX: usize = 4_096;

/// The most counters without a row that an order keeps by name. If there are more, only their number is counted, from
/// time to time.
pub const ROWLESS_MAX: usize = 4_096;

/// How long a counted number is used, milliseconds.
pub const ROWLESS_REST_MS: i64 = 10_000;

/// The most counters that are looked up later: whether they live and have a row.
const UNRESOLVED_MAX: usize = 4_096;

/// Living counters that have no row yet.
#[derive(Clone, Debug)]
pub enum RowlessCounters {
    /// Their names, and when each was created, unix milliseconds.
    Names(BTreeMap<CounterId, i64>),
    /// There are too many.
    Many {
        /// The number of living counters at the time of the count, including those with a row.
        living: u64,
        /// The creation of the oldest.
        created_ms: i64,
        /// When they were counted.
        counted_ms: i64,
    },
}

/// A kept top.
#[derive(Clone, Debug)]
pub struct KeptTop {
    /// The order.
    pub order: TopOrder,
    /// The sum of the amounts that have more than 62 bits; the standings have all others.
    pub wide: Value,
    /// The first of its rows, and the sums of all.
    pub standings: Standings<TopRow>,
    /// The living counters without a row.
    pub rowless: RowlessCounters,
    /// Its index among the kept ones. It does not change once it was used, so that statements stay the same.
    index: usize,
    used: u64,
}

impl KeptTop {
    /// The top of an order, as its table was read.
    pub fn new(
        order: TopOrder,
        standings: Standings<TopRow>,
        wide: Value,
        rowless: RowlessCounters,
    ) -> Self {
        Self {
            order,
            wide,
            standings,
            rowless,
            index: usize::MAX,
            used: 0,
        }
    }

    /// The standing of a row in this order.
    pub fn standing(&self, amount: i64, as_of_ms: i64) -> Standing {
        standing_of(&self.order, amount, as_of_ms)
    }

    /// Whether the count at the beginning of its window is lost once a row is written in an hour.
    fn is_over(&self, hour: i64) -> bool {
        match self.order.since {
            Some(WindowStart::Hour(start)) => hour - start >= HOURS_KEPT,
            Some(WindowStart::Day(day)) => hour.div_euclid(DAY_HOURS) - day >= DAYS_KEPT,
            Some(WindowStart::Write(_)) | None => false,
        }
    }

    /// The amount of a row that is written, as SQL would compute it: its count since its window began. The count at
    /// that beginning is the count before the first write in the window's first hour.
    fn amount_after(&self, before: Option<(&RowBefore, i64)>, row: &Written) -> i64 {
        let Some(since) = self.order.since else {
            return amount_of(self.order.by, &row.known).within_62_bits();
        };
        let counted = counted_of(row.known.total.count);
        let more = match before {
            _ if row.hour < hour_of(since) => 0,
            _ if matches!(since, WindowStart::Write(_)) => {
                return amount_of(OrderBy::Count, &row.known).within_62_bits();
            }
            None => counted,
            Some((then, amount)) if then.hour >= hour_of(since) => {
                amount + (counted - then.counted)
            }
            Some((then, _)) => counted - then.counted,
        };
        more.rem_euclid(WITHIN_MAX)
    }
}

/// The stored form of a count: modulo 2^62, so that differences are right for counts of any size.
pub fn counted_of(count: Sum) -> i64 {
    let below = count.low_bits() % u128::from(WITHIN_MAX.unsigned_abs());
    i64::try_from(below).unwrap_or(0)
}

/// The standing of a row with this amount in an order.
fn standing_of(order: &TopOrder, amount: i64, as_of_ms: i64) -> Standing {
    let size = match order.since {
        // All rows are in order of their amounts.
        Some(_) => 0,
        None => narrow(amount).size(),
    };
    Standing {
        size,
        amount,
        as_of_ms,
        is_counted: amount > 0 || (order.by, order.since) == (OrderBy::Value, None),
    }
}

/// A value of at most 62 bits.
fn narrow(amount: i64) -> Value {
    let magnitude = Value::new(u128::from(amount.unsigned_abs()), 0);
    match amount < 0 {
        true => magnitude.negated(),
        false => magnitude,
    }
}

fn amount_of(by: OrderBy, known: &KnownTotal) -> Value {
    match by {
        OrderBy::Value => known.total.value,
        OrderBy::Count => Value::new(known.total.count, 0),
        OrderBy::Uniques => {
            let estimate = known.uniques.map_or(0, |uniques| uniques.estimate);
            Value::new(u128::from(estimate), 0)
        }
    }
}

/// A row before it is written.
pub struct RowBefore {
    /// The hour of its last write, of unix time.
    pub hour: i64,
    /// The sizes of its value, its count and its unique elements.
    pub sizes: [i64; 3],
    as_of_ms: i64,
    counted: i64,
    /// Its amount in each kept order.
    amounts: Vec<i64>,
}

impl RowBefore {
    /// Parses the column: numbers with spaces between them. Another form has no amounts, so that it changes no top.
    pub fn read(column: &str) -> Self {
        let numbers = column.split(' ');
        let mut numbers = numbers.map_while(|number| number.parse().ok());
        let mut next = || numbers.next().unwrap_or_default();
        Self {
            hour: next(),
            sizes: [next(), next(), next()],
            as_of_ms: next(),
            counted: next(),
            amounts: numbers.collect(),
        }
    }
}

/// A row as it is written.
pub struct Written {
    /// The hour, of unix time.
    pub hour: i64,
    /// What is known of the counter.
    pub known: KnownTotal,
}

/// The kept tops of a partition.
#[derive(Default)]
pub struct KeptTops {
    tops: RefCell<Vec<KeptTop>>,
    /// Counters whose root was written, or whose row came or went.
    unresolved: RefCell<BTreeSet<CounterId>>,
    /// The store's number of failures when the tops were made.
    failures: Cell<u64>,
    uses: Cell<u64>,
}

impl KeptTops {
    /// Drops all tops.
    pub fn clear(&self) {
        self.tops.borrow_mut().clear();
        self.unresolved.borrow_mut().clear();
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tops.borrow().is_empty()
    }

    /// Drops all tops if a write has failed meanwhile, by the number of failures: memory has changes that were not
    /// written.
    pub fn forget_failed(&self, failures: u64) {
        if self.failures.replace(failures) != failures {
            self.clear();
        }
    }

    /// Takes the top of an order out, to be put back.
    pub fn take(&self, order: &TopOrder) -> Option<KeptTop> {
        let mut tops = self.tops.borrow_mut();
        let index = tops.iter().position(|top| top.order == *order)?;
        let mut top = tops.remove(index);
        top.index = index;
        Some(top)
    }

    /// Stores a top, and drops the least recently requested ones if there is no room.
    pub fn put(&self, mut top: KeptTop) {
        self.uses.set(self.uses.get() + 1);
        top.used = self.uses.get();
        let mut tops = self.tops.borrow_mut();
        let index = top.index.min(tops.len());
        tops.insert(index, top);
        let rows = |tops: &Vec<KeptTop>| -> usize {
            tops.iter().map(|top| top.standings.first_max()).sum()
        };
        while tops.len() > 1 && (tops.len() > ORDERS_MAX || rows(&tops) > ROWS_MAX) {
            let oldest = (0..).zip(tops.iter()).min_by_key(|(_, top)| top.used);
            let oldest = oldest.map_or(0, |(index, _)| index);
            tops.remove(oldest);
        }
    }

    /// Something of each kept order, in their order.
    pub fn map_orders<T>(&self, of: impl Fn(&TopOrder) -> T) -> Vec<T> {
        self.tops
            .borrow()
            .iter()
            .map(|top| of(&top.order))
            .collect()
    }

    /// Updates the tops after a row was written; `before` is `None` for a new row.
    pub fn written(&self, counter: &CounterId, before: Option<&RowBefore>, row: &Written) {
        if self.is_empty() {
            return;
        }
        let as_of_ms = row.known.total.as_of_ms;
        self.change(counter, before, |index, top| {
            let before = match before {
                Some(then) => Some((then, *then.amounts.get(index)?)),
                None => None,
            };
            let amount = before.map_or(0, |(_, amount)| amount);
            if top.is_over(row.hour) || !are_narrow([amount]) {
                return None;
            }
            let after = top.amount_after(before, row);
            if !are_narrow([after]) {
                return None;
            }
            if let Some((then, amount)) = before {
                take_off(top, counter, amount, then.as_of_ms)?;
            }
            add(top, counter, after, as_of_ms, &row.known);
            Some(())
        });
        if before.is_none() {
            self.touch(counter);
        }
    }

    /// Updates the tops before a row is deleted.
    pub fn leaves(&self, counter: &CounterId, column: Option<&str>) {
        if let Some(before) = column.map(RowBefore::read) {
            self.change(counter, Some(&before), |index, top| {
                let amount = *before.amounts.get(index)?;
                take_off(top, counter, amount, before.as_of_ms)
            });
        }
        self.touch(counter);
    }

    /// Updates the tops with a row that has come from another partition.
    pub fn comes(&self, counter: &CounterId, column: Option<&str>, known: &KnownTotal) {
        if let Some(now) = column.map(RowBefore::read) {
            self.change(counter, Some(&now), |index, top| {
                let amount = *now.amounts.get(index)?;
                add(top, counter, amount, now.as_of_ms, known);
                are_narrow([amount]).then_some(())
            });
        }
        self.touch(counter);
    }

    /// Changes the tops that have a counter, each by its index. A top for which `change` returns `None` is dropped.
    /// `column` is what was read of the row, possibly before tops were dropped.
    fn change(
        &self,
        counter: &CounterId,
        column: Option<&RowBefore>,
        mut change: impl FnMut(usize, &mut KeptTop) -> Option<()>,
    ) {
        let is_outdated = |then: &RowBefore| then.amounts.len() != self.tops.borrow().len();
        if column.is_some_and(is_outdated) {
            self.clear();
        }
        let mut index = 0;
        self.tops.borrow_mut().retain_mut(|top| {
            let is_kept = !top.order.has(counter) || change(index, top).is_some();
            index += 1;
            is_kept
        });
    }

    /// Records that it must be looked up at the next request whether a counter lives and has a row.
    pub fn touch(&self, counter: &CounterId) {
        if self.is_empty() {
            return;
        }
        let mut unresolved = self.unresolved.borrow_mut();
        unresolved.insert(counter.clone());
        if unresolved.len() > UNRESOLVED_MAX {
            unresolved.clear();
            // There are too many: all are counted again.
            for top in self.tops.borrow_mut().iter_mut() {
                top.rowless = RowlessCounters::Many {
                    living: 0,
                    created_ms: 0,
                    counted_ms: i64::MIN,
                };
            }
        }
    }

    /// The counters to look up, if any top keeps names.
    pub fn take_unresolved(&self) -> Vec<CounterId> {
        let unresolved = self.unresolved.take();
        let has_names = |top: &KeptTop| matches!(top.rowless, RowlessCounters::Names(_));
        match self.tops.borrow().iter().any(has_names) {
            true => unresolved.into_iter().collect(),
            false => Vec::new(),
        }
    }

    /// Stores which of `counters` live without a row: those in `rowless`, each with its time of creation.
    pub fn resolve(&self, counters: &[CounterId], rowless: &[(CounterId, i64)], now_ms: i64) {
        for top in self.tops.borrow_mut().iter_mut() {
            let own = rowless.iter().filter(|(counter, _)| top.order.has(counter));
            let own: Vec<(CounterId, i64)> = own.cloned().collect();
            let RowlessCounters::Names(names) = &mut top.rowless else {
                continue;
            };
            for counter in counters {
                names.remove(counter);
            }
            names.extend(own);
            if names.len() > ROWLESS_MAX {
                let names = std::mem::take(names);
                top.rowless = RowlessCounters::among(top.standings.named, names, now_ms);
            }
        }
    }
}

impl RowlessCounters {
    /// The rowless counters of an order with `named` rows.
    pub fn among(named: u64, names: BTreeMap<CounterId, i64>, now_ms: i64) -> Self {
        if names.len() <= ROWLESS_MAX {
            return Self::Names(names);
        }
        Self::Many {
            living: named + u64::try_from(names.len()).unwrap_or(u64::MAX),
            created_ms: names.values().copied().min().unwrap_or(now_ms),
            counted_ms: now_ms,
        }
    }

    /// Whether they must be counted again.
    pub fn is_old(&self, now_ms: i64) -> bool {
        match self {
            Self::Names(_) => false,
            Self::Many { counted_ms, .. } => {
                !(0..ROWLESS_REST_MS).contains(&now_ms.saturating_sub(*counted_ms))
            }
        }
    }

    /// Their number, if there are `named` rows, and when the oldest was created, unix milliseconds.
    pub fn sums(&self, named: u64) -> (u64, Option<i64>) {
        match self {
            Self::Names(names) => {
                let count = u64::try_from(names.len()).unwrap_or(u64::MAX);
                (count, names.values().copied().min())
            }
            Self::Many {
                living, created_ms, ..
            } => (living.saturating_sub(named), Some(*created_ms)),
        }
    }
}

fn are_narrow(amounts: impl IntoIterator<Item = i64>) -> bool {
    amounts.into_iter().all(|amount| amount.abs() < WITHIN_MAX)
}

/// Removes a row; `None` for an amount that the standings do not have.
fn take_off(top: &mut KeptTop, counter: &CounterId, amount: i64, as_of_ms: i64) -> Option<()> {
    let standing = top.standing(amount, as_of_ms);
    top.standings.remove(counter, &standing);
    are_narrow([amount]).then_some(())
}

fn add(top: &mut KeptTop, counter: &CounterId, amount: i64, as_of_ms: i64, known: &KnownTotal) {
    let standing = top.standing(amount, as_of_ms);
    let (by, since) = (top.order.by, top.order.since);
    top.standings.add(counter, &standing, || match since {
        Some(_) => TopRow {
            counter: counter.clone(),
            amount: narrow(amount),
            uniques: None,
            as_of_ms,
        },
        None => row_of_known(counter.clone(), by, *known),
    });
}
