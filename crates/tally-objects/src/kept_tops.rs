//! The tops that a partition was lately asked for, in memory, kept up to date by each row that changes.
//!
//! Invariant: a kept top tells what its table would tell. A row is taken off as it was before it is written, and is
//! added as it is after. What cannot be followed so, a failed write or a change of a number of more than 62 bits, makes
//! the top be forgotten: it is read anew when it is asked for again, as after the object's memory was lost.
//!
//! Memory of a partition: [`ROWS_MAX`] rows of some 150 bytes with their names, and for each of [`ORDERS_MAX`] orders
//! [`OLDEST_MAX`] times of some 20 bytes and [`ROWLESS_MAX`] names of some 80: 4 MB at most with names of 30 bytes, and
//! 110 KB for one order with a limit of 100 of which all is told.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::directory_tops::{amount_sql, first_of, hour_of, row_of_known};
use super::directory_totals::{DAY_HOURS, DAYS_KEPT, HOURS_KEPT};
use super::store::text;
use tally_core::cluster::root::prefix_end;
use tally_core::cluster::standings::{Standing, Standings};
use tally_core::counter::id::CounterId;
use tally_core::counter::total::{Sum, Value};
use tally_host::object::SqlValue;
use tally_protocol::messages::{KnownTotal, OrderBy, TopOrder, TopRow, WindowStart};

/// The most orders of which the top is kept; beyond, the one that was asked for longest ago is forgotten.
pub(super) const ORDERS_MAX: usize = 8;

/// The most rows that are kept of all orders together. Of an order with a larger limit the sums alone are kept.
pub(super) const ROWS_MAX: usize = 4_096;

/// The most different `as_of` that an order keeps: after so many of its oldest rows have changed, its table is looked
/// through for the next.
pub(super) const OLDEST_MAX: usize = 4_096;

/// The most counters without a row that an order keeps by name. Of more the number is counted from time to time.
pub(super) const ROWLESS_MAX: usize = 4_096;

/// How long a counted number is used, milliseconds.
pub(super) const ROWLESS_REST_MS: i64 = 10_000;

/// The most counters of which it is looked up later whether they live and have a row.
const UNRESOLVED_MAX: usize = 4_096;

/// The bound of [`Value::within_62_bits`].
pub(super) const WITHIN_MAX: i64 = 1 << 62;

/// Living counters that have no row yet.
#[derive(Clone, Debug)]
pub(super) enum RowlessCounters {
    /// Their names, and when each was created, unix milliseconds.
    Names(BTreeMap<CounterId, i64>),
    /// There are too many.
    Many {
        /// All that lived when they were counted, also those with a row.
        living: u64,
        /// The creation of the oldest.
        created_ms: i64,
        /// When they were counted.
        counted_ms: i64,
    },
}

/// A top that is kept.
#[derive(Clone, Debug)]
pub(super) struct KeptTop {
    pub(super) order: TopOrder,
    /// The sum of the amounts that have more than 62 bits; the standings have all others.
    pub(super) wide: Value,
    pub(super) standings: Standings<TopRow>,
    pub(super) rowless: RowlessCounters,
    /// Where its names end.
    end: Option<String>,
    /// Its index among the kept ones: the same again once it was used, so that statements stay the same.
    index: usize,
    used: u64,
}

impl KeptTop {
    pub(super) fn new(
        order: TopOrder,
        standings: Standings<TopRow>,
        wide: Value,
        rowless: RowlessCounters,
    ) -> Self {
        Self {
            end: prefix_end(&order.prefix),
            order,
            wide,
            standings,
            rowless,
            index: usize::MAX,
            used: 0,
        }
    }

    fn has(&self, counter: &CounterId) -> bool {
        let id = counter.as_str();
        id >= first_of(&self.order) && self.end.as_deref().is_none_or(|end| id < end)
    }

    /// What a row is in this order.
    pub(super) fn standing(&self, amount: i64, as_of_ms: i64) -> Standing {
        standing_of(&self.order, amount, as_of_ms)
    }

    /// Whether the beginning of its window is not stored any more once a row was written in an hour.
    fn is_over(&self, hour: i64) -> bool {
        match self.order.since {
            Some(WindowStart::Hour(start)) => hour - start >= HOURS_KEPT,
            Some(WindowStart::Day(day)) => hour.div_euclid(DAY_HOURS) - day >= DAYS_KEPT,
            Some(WindowStart::Write(_)) | None => false,
        }
    }

    /// The amount of a row that is written, as SQL would tell it: what it counted since its window began. The count of
    /// that moment is stored when the first hour of the window is, as the count before that write.
    fn amount_after(&self, before: Option<(&Before, i64)>, row: &Written) -> i64 {
        let Some(since) = self.order.since else {
            return amount_of(self.order.by, &row.known).within_62_bits();
        };
        let counted = counted_of(row.known.total.count);
        let more = match before {
            _ if row.hour < hour_of(since) => 0,
            _ if matches!(since, WindowStart::Write(_)) => {
                return amount_of(OrderBy::Count, &row.known).within_62_bits();
            }
            None if row.is_late => 0,
            None => counted,
            Some((then, amount)) if then.hour >= hour_of(since) => {
                amount + (counted - then.counted)
            }
            Some((then, _)) => counted - then.counted,
        };
        more.rem_euclid(WITHIN_MAX)
    }
}

/// What a row stores of a count: modulo 2^62, so that a difference is right however large the counts are.
pub(super) fn counted_of(count: Sum) -> i64 {
    let below = count.low_bits() % u128::from(WITHIN_MAX.unsigned_abs());
    i64::try_from(below).unwrap_or(0)
}

/// What a row with this amount is in an order.
pub(super) fn standing_of(order: &TopOrder, amount: i64, as_of_ms: i64) -> Standing {
    let size = match order.since {
        // All are in order of their amounts.
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
pub(super) fn narrow(amount: i64) -> Value {
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

/// A row before it is written, by [`KeptTops::columns`].
pub(super) struct Before {
    pub(super) hour: i64,
    /// Of its value, its count and its unique elements.
    pub(super) sizes: [i64; 3],
    as_of_ms: i64,
    counted: i64,
    /// In each kept order.
    amounts: Vec<i64>,
}

impl Before {
    /// Reads the column. What is not of its form has no amounts: no top can be changed by it.
    pub(super) fn read(column: &SqlValue) -> Self {
        let numbers = text(column).unwrap_or_default().split(' ');
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
pub(super) struct Written {
    pub(super) hour: i64,
    pub(super) known: KnownTotal,
    /// When it counted is not known.
    pub(super) is_late: bool,
}

/// The kept tops of a partition.
#[derive(Default)]
pub(super) struct KeptTops {
    tops: RefCell<Vec<KeptTop>>,
    /// Counters whose root was written, or whose row came or went.
    unresolved: RefCell<BTreeSet<CounterId>>,
    /// Failures of the store when they were made.
    failures: Cell<u64>,
    uses: Cell<u64>,
}

impl KeptTops {
    /// Forgets all.
    pub(super) fn clear(&self) {
        self.tops.borrow_mut().clear();
        self.unresolved.borrow_mut().clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tops.borrow().is_empty()
    }

    /// Forgets all if a write has failed meanwhile, by their number: memory holds changes that were not written.
    pub(super) fn forget_failed(&self, failures: u64) {
        if self.failures.replace(failures) != failures {
            self.clear();
        }
    }

    /// The top of an order, to be put back.
    pub(super) fn take(&self, order: &TopOrder) -> Option<KeptTop> {
        let mut tops = self.tops.borrow_mut();
        let index = tops.iter().position(|top| top.order == *order)?;
        let mut top = tops.remove(index);
        top.index = index;
        Some(top)
    }

    /// Keeps a top, and forgets those asked for longest ago that have no room beside it.
    pub(super) fn put(&self, mut top: KeptTop) {
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

    /// What is read of a row before it is written, as SQL: what has an index, and what it is in each kept order.
    pub(super) fn columns(&self) -> String {
        let tops = self.tops.borrow();
        let amounts = tops.iter().map(|top| amount_sql(&top.order));
        let amounts: String = amounts
            .map(|amount| format!(" || ' ' || {amount}"))
            .collect();
        format!(
            "hour || ' ' || value_size || ' ' || counted_size || ' ' || uniques_size || ' ' || as_of || ' ' || \
             counted{amounts}"
        )
    }

    /// A row was written; `None` before for a new row.
    pub(super) fn written(&self, counter: &CounterId, before: Option<&Before>, row: &Written) {
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

    /// A row is about to be deleted, as it is now.
    pub(super) fn leaves(&self, counter: &CounterId, column: Option<&SqlValue>) {
        if let Some(before) = column.map(Before::read) {
            self.change(counter, Some(&before), |index, top| {
                let amount = *before.amounts.get(index)?;
                take_off(top, counter, amount, before.as_of_ms)
            });
        }
        self.touch(counter);
    }

    /// A row has come from another partition, as it is now.
    pub(super) fn comes(&self, counter: &CounterId, column: Option<&SqlValue>, known: &KnownTotal) {
        if let Some(now) = column.map(Before::read) {
            self.change(counter, Some(&now), |index, top| {
                let amount = *now.amounts.get(index)?;
                add(top, counter, amount, now.as_of_ms, known);
                are_narrow([amount]).then_some(())
            });
        }
        self.touch(counter);
    }

    /// Changes the tops that have a counter, each by its index; those of which `None` is returned are forgotten.
    /// `column`: what was read of the row, which may have been before others were forgotten.
    fn change(
        &self,
        counter: &CounterId,
        column: Option<&Before>,
        mut change: impl FnMut(usize, &mut KeptTop) -> Option<()>,
    ) {
        let is_outdated = |then: &Before| then.amounts.len() != self.tops.borrow().len();
        if column.is_some_and(is_outdated) {
            self.clear();
        }
        let mut index = 0;
        self.tops.borrow_mut().retain_mut(|top| {
            let is_kept = !top.has(counter) || change(index, top).is_some();
            index += 1;
            is_kept
        });
    }

    /// Whether a counter lives and has no row is looked up when a top is asked for. Returns whether that is due now.
    pub(super) fn touch(&self, counter: &CounterId) {
        if self.is_empty() {
            return;
        }
        let mut unresolved = self.unresolved.borrow_mut();
        unresolved.insert(counter.clone());
        if unresolved.len() > UNRESOLVED_MAX {
            unresolved.clear();
            // All are counted again.
            for top in self.tops.borrow_mut().iter_mut() {
                top.rowless = RowlessCounters::Many {
                    living: 0,
                    created_ms: 0,
                    counted_ms: i64::MIN,
                };
            }
        }
    }

    /// The counters of which that is to be looked up, if any top keeps their names.
    pub(super) fn take_unresolved(&self) -> Vec<CounterId> {
        let unresolved = self.unresolved.take();
        let has_names = |top: &KeptTop| matches!(top.rowless, RowlessCounters::Names(_));
        match self.tops.borrow().iter().any(has_names) {
            true => unresolved.into_iter().collect(),
            false => Vec::new(),
        }
    }

    /// Stores which of `counters` live and have no row: `rowless` holds those, each with its time of creation.
    pub(super) fn resolve(
        &self,
        counters: &[CounterId],
        rowless: &[(CounterId, i64)],
        now_ms: i64,
    ) {
        for top in self.tops.borrow_mut().iter_mut() {
            let own = rowless.iter().filter(|(counter, _)| top.has(counter));
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
    /// These counters, of an order with so many rows.
    pub(super) fn among(named: u64, names: BTreeMap<CounterId, i64>, now_ms: i64) -> Self {
        if names.len() <= ROWLESS_MAX {
            return Self::Names(names);
        }
        Self::Many {
            living: named + u64::try_from(names.len()).unwrap_or(u64::MAX),
            created_ms: names.values().copied().min().unwrap_or(now_ms),
            counted_ms: now_ms,
        }
    }

    /// Whether they must be counted anew.
    pub(super) fn is_old(&self, now_ms: i64) -> bool {
        match self {
            Self::Names(_) => false,
            Self::Many { counted_ms, .. } => {
                !(0..ROWLESS_REST_MS).contains(&now_ms.saturating_sub(*counted_ms))
            }
        }
    }

    /// How many they are beside so many rows, and when the oldest was created, unix milliseconds.
    pub(super) fn sums(&self, named: u64) -> (u64, Option<i64>) {
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

/// Takes a row off; `None` for an amount that the standings do not have.
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
