//! The rows of a cell's breakdowns: what was counted of each value of a dimension, by the hour, by the day and in all.
//!
//! Invariants: rows are written in the commit that counts their writes, so they hold each write as often as it is
//! counted. The rows of a dimension for an hour, a day or all time, plus its part of the pending row, are exactly what
//! writes with that dimension added then. No state is in memory.
//!
//! Life of a value: a commit appends the dimensions of its writes to the *pending* row, which is a log. Once the log
//! has doubled, it is replaced by its sums. If the sums are long, the dimensions with most values are folded into their
//! rows, three or a few for each. So a commit writes one row, and seldom more. A read joins the rows that cover its
//! window with the pending row.
//!
//! Keys of refused checks ([`DimensionName::REFUSED_KEY`]) are kept for [`KEYS_DAYS`] days and today, and have no row
//! of all time. [`forget`] deletes older ones, and returns when it must be called again.
//!
//! Bounds: a pending row is at most [`PENDING_BYTES_MAX`] after a commit and twice that before, except after one larger
//! flush. Any other row has 1,000 values, at most 290 KB and usually 30 KB. A dimension has 216 rows of hours, as many
//! of days as the cell's history keeps, and one of all time. A cell has [`DIMENSIONS_MAX`] dimensions. Even if each
//! value of five years is of maximal length, that is less than the 10 GB that an object may hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dimensions::{Amounts, BrokenLog, DimensionLog, DimensionName, Stamp, ValueSums};
use super::history::Resolution;
use super::uniques_retention::{BY_HOURS_SECONDS, kept_seconds};
use crate::order::put_in_order;
use crate::sketch::{TopValues, VALUES_MAX};

/// The most dimensions of one cell. Of further names only the totals are counted, see [`OVERFLOW`].
pub const DIMENSIONS_MAX: usize = 16;

/// The number of the dimension that counts the totals of names beyond [`DIMENSIONS_MAX`].
const OVERFLOW: i64 = 16;
const _: () = assert!(
    DIMENSIONS_MAX == 16,
    "rows store the number of the overflow: it stays above the dimensions'"
);

/// Sums of a pending row that are longer than this are folded: about 1,000 values.
pub const PENDING_BYTES_MAX: usize = 32 * 1_024;

/// A log is summed once it has doubled and is longer than its last sums by this.
const PENDING_TAIL_BYTES: usize = 2 * 1_024;

/// How many whole days before today keys of refused checks are kept.
pub const KEYS_DAYS: i64 = 7;

/// The most values that a read holds; beyond them it drops those that were counted least.
const READ_VALUES_MAX: usize = 16 * VALUES_MAX;

/// The rows that a read loads at once: 32 of 290 KB are 9 MB at worst.
const ROWS_AT_ONCE: i64 = 32;

/// The hours before and after 1970 that rows can have: 15,000 years.
const HOURS_MAX: i64 = 1 << 27;

/// What a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// The log that is not folded yet, and how many of its bytes are sums; start 0.
    Pending,
    /// The names of the dimensions, by their numbers; start 0.
    Names,
    /// The values of one dimension in an hour; start: see [`start_of`].
    Hour,
    /// The same in a day.
    Day,
    /// The same of all time.
    AllTime,
}

/// Where the rows are.
pub trait BreakdownRows {
    /// Why rows could not be read or written.
    type Fault: From<BrokenLog>;

    /// A row.
    ///
    /// # Errors
    /// Where storage cannot be read.
    fn get(&self, kind: RowKind, start: i64) -> Result<Option<Vec<u8>>, Self::Fault>;

    /// The beginning of the first row that begins in `from..before`.
    ///
    /// # Errors
    /// As [`BreakdownRows::get`].
    fn first(&self, kind: RowKind, from: i64, before: i64) -> Result<Option<i64>, Self::Fault>;

    /// The rows that begin in `from..before`.
    ///
    /// # Errors
    /// As [`BreakdownRows::get`].
    fn between(&self, kind: RowKind, from: i64, before: i64) -> Result<Vec<Vec<u8>>, Self::Fault>;

    /// Writes a row.
    ///
    /// # Errors
    /// Where storage refuses.
    fn put(&mut self, kind: RowKind, start: i64, body: Vec<u8>) -> Result<(), Self::Fault>;

    /// Deletes the rows that begin in `from..before`.
    ///
    /// # Errors
    /// Where storage refuses.
    fn delete(&mut self, kind: RowKind, from: i64, before: i64) -> Result<(), Self::Fault>;
}

/// The time from which rows are kept, unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionStart {
    /// Those of hours.
    pub hours: i64,
    /// Those of days.
    pub days: i64,
    /// Those of keys of refused checks.
    pub keys: i64,
}

impl RetentionStart {
    /// The beginnings by a cell's clock, unix seconds, and by the first day that its history keeps.
    pub fn at(now: i64, first_day: i64) -> Self {
        Self {
            hours: Resolution::Hour.start_of(now.saturating_sub(kept_seconds(Resolution::Hour))),
            days: Resolution::Day.start_of(first_day.max(second_of(0))),
            keys: keys_kept_from(now),
        }
    }

    /// The beginnings for the values of this dimension.
    fn of_dimension(self, name: &str) -> Self {
        match is_of_keys(name) {
            true => Self {
                hours: self.hours.max(self.keys),
                days: self.days.max(self.keys),
                ..self
            },
            false => self,
        }
    }

    fn of(self, kind: RowKind) -> i64 {
        match kind {
            RowKind::Hour => self.hours,
            RowKind::Day => self.days,
            RowKind::Pending | RowKind::Names | RowKind::AllTime => i64::MIN,
        }
    }
}

fn is_of_keys(name: &str) -> bool {
    name == DimensionName::REFUSED_KEY.as_str()
}

/// The time from which keys of refused checks are kept, unix seconds.
pub fn keys_kept_from(now: i64) -> i64 {
    Resolution::Day
        .start_of(now)
        .saturating_sub(KEYS_DAYS * Resolution::Day.seconds())
}

/// The start of a row of a dimension: the dimension's number, and the hour.
fn start_of(number: i64, second: i64) -> i64 {
    let hour = second.div_euclid(Resolution::Hour.seconds());
    (number << 32) | (hour.clamp(-HOURS_MAX, HOURS_MAX) + HOURS_MAX)
}

/// The second at which the time of a row begins.
fn second_of(start: i64) -> i64 {
    ((start & 0xffff_ffff) - HOURS_MAX).saturating_mul(Resolution::Hour.seconds())
}

/// The row that is not folded yet. A stored format.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Pending {
    /// How many bytes of the log are sums.
    summed: u32,
    log: DimensionLog,
}

fn read_row<T: for<'de> Deserialize<'de> + Default>(body: Option<&[u8]>) -> Result<T, BrokenLog> {
    let read = body.map(postcard::from_bytes::<T>).transpose();
    read.map(Option::unwrap_or_default).map_err(|_| BrokenLog)
}

fn write_row<R: BreakdownRows>(
    rows: &mut R,
    kind: RowKind,
    start: i64,
    value: &impl Serialize,
) -> Result<(), R::Fault> {
    let body = postcard::to_allocvec(value).map_err(|_| BrokenLog)?;
    rows.put(kind, start, body)
}

fn pending<R: BreakdownRows>(rows: &R) -> Result<Pending, R::Fault> {
    Ok(read_row(rows.get(RowKind::Pending, 0)?.as_deref())?)
}

fn names<R: BreakdownRows>(rows: &R) -> Result<Vec<String>, R::Fault> {
    Ok(read_row(rows.get(RowKind::Names, 0)?.as_deref())?)
}

/// Writes the dimensions of a commit's writes, within that commit. Their stamps are beginnings of hours.
///
/// # Errors
/// Those of storage.
pub fn append<R: BreakdownRows>(
    rows: &mut R,
    new: &DimensionLog,
    kept: RetentionStart,
) -> Result<(), R::Fault> {
    let Pending { summed, mut log } = pending(rows)?;
    log.append(new);
    let before = usize::try_from(summed).unwrap_or(0);
    let may_grow = before.max(PENDING_TAIL_BYTES);
    if log.len().saturating_sub(before) <= may_grow {
        return write_row(rows, RowKind::Pending, 0, &Pending { summed, log });
    }
    let mut sums = ValueSums::of(&log)?;
    log = sums.to_log();
    if log.len() > PENDING_BYTES_MAX {
        while log.len() > PENDING_BYTES_MAX / 2 {
            let Some((name, stamps)) = sums.take_largest() else {
                break;
            };
            fold(rows, &name, stamps, kept)?;
            log = sums.to_log();
        }
    }
    let summed = u32::try_from(log.len()).unwrap_or(u32::MAX);
    write_row(rows, RowKind::Pending, 0, &Pending { summed, log })
}

/// Adds sums of a dimension to its rows.
fn fold<R: BreakdownRows>(
    rows: &mut R,
    name: &str,
    stamps: BTreeMap<Stamp, Amounts>,
    kept: RetentionStart,
) -> Result<(), R::Fault> {
    let number = number_of(rows, name)?;
    let kept = kept.of_dimension(name);
    let (mut days, mut all) = (BTreeMap::<i64, Amounts>::new(), Amounts::new());
    for (stamp, amounts) in stamps {
        let (Stamp::Live(second) | Stamp::Past(second)) = stamp;
        let amounts = match number {
            OVERFLOW => one_sum(name, &amounts),
            _ => amounts,
        };
        if second >= kept.hours {
            merge_row(rows, RowKind::Hour, number, second, &amounts, kept)?;
        }
        let day = days.entry(Resolution::Day.start_of(second)).or_default();
        for (value, amount) in amounts {
            add(&mut all, &value, amount);
            add(day, &value, amount);
        }
    }
    for (day, amounts) in days {
        if day >= kept.days {
            merge_row(rows, RowKind::Day, number, day, &amounts, kept)?;
        }
    }
    match is_of_keys(name) {
        true => Ok(()),
        false => merge_row(rows, RowKind::AllTime, number, 0, &all, kept),
    }
}

/// Deletes keys of refused checks that have been kept long enough. Returns when the next are due, unix seconds.
///
/// # Errors
/// Those of storage.
pub fn forget<R: BreakdownRows>(rows: &mut R, now: i64) -> Result<Option<i64>, R::Fault> {
    let kept_from = keys_kept_from(now);
    let (mut oldest, mut kept, mut has_old) = (None::<i64>, DimensionLog::default(), false);
    pending(rows)?.log.each(|entry| {
        let (Stamp::Live(second) | Stamp::Past(second)) = entry.stamp;
        if second < kept_from && entry.values.iter().any(|(name, _)| is_of_keys(name)) {
            has_old = true;
        } else {
            oldest = Some(oldest.map_or(second, |oldest| oldest.min(second)));
            kept.push(entry.stamp, entry.amount, entry.values);
        }
    })?;
    if has_old {
        let summed = u32::try_from(kept.len()).unwrap_or(u32::MAX);
        write_row(rows, RowKind::Pending, 0, &Pending { summed, log: kept })?;
    }
    let number = known_number(&names(rows)?, DimensionName::REFUSED_KEY.as_str());
    if let Some(number) = number {
        let (first, end) = (start_of(number, kept_from), start_of(number, i64::MAX));
        for kind in [RowKind::Hour, RowKind::Day] {
            rows.delete(kind, start_of(number, i64::MIN), first)?;
            let row = rows.first(kind, first, end)?.map(second_of);
            oldest = oldest.into_iter().chain(row).min();
        }
    }
    let due_second = |second: i64| {
        Resolution::Day.start_of(second) + (KEYS_DAYS + 1) * Resolution::Day.seconds()
    };
    Ok(oldest.map(due_second))
}

fn add(amounts: &mut Amounts, value: &str, amount: u128) {
    match amounts.get_mut(value) {
        Some(held) => *held = held.saturating_add(amount),
        None => {
            amounts.insert(value.to_owned(), amount);
        }
    }
}

/// The total of a name beyond [`DIMENSIONS_MAX`], by that name.
fn one_sum(name: &str, amounts: &Amounts) -> Amounts {
    let sum = amounts
        .values()
        .fold(0, |sum: u128, one| sum.saturating_add(*one));
    Amounts::from([(name.to_owned(), sum)])
}

/// The number of a dimension. A dimension without a number gets one now, if one is left.
fn number_of<R: BreakdownRows>(rows: &mut R, name: &str) -> Result<i64, R::Fault> {
    let mut names = names(rows)?;
    if let Some(number) = known_number(&names, name) {
        return Ok(number);
    }
    if names.len() >= DIMENSIONS_MAX {
        return Ok(OVERFLOW);
    }
    let number = i64::try_from(names.len()).unwrap_or(OVERFLOW);
    names.push(name.to_owned());
    write_row(rows, RowKind::Names, 0, &names)?;
    Ok(number)
}

fn known_number(names: &[String], name: &str) -> Option<i64> {
    let index = names.iter().position(|known| known == name)?;
    i64::try_from(index).ok()
}

fn merge_row<R: BreakdownRows>(
    rows: &mut R,
    kind: RowKind,
    number: i64,
    second: i64,
    amounts: &Amounts,
    kept: RetentionStart,
) -> Result<(), R::Fault> {
    let start = start_of(number, second);
    let stored = rows.get(kind, start)?;
    let mut values: TopValues = read_row(stored.as_deref())?;
    for (value, amount) in amounts {
        values.add(value, *amount);
    }
    values.prune(VALUES_MAX);
    write_row(rows, kind, start, &values)?;
    if stored.is_some() || kind == RowKind::AllTime {
        return Ok(());
    }
    // A new row deletes those that were kept long enough.
    let first = start_of(number, i64::MIN);
    rows.delete(kind, first, start_of(number, kept.of(kind)))
}

/// The names of all dimensions that there are, in order.
///
/// # Errors
/// Those of storage.
pub fn names_of<R: BreakdownRows>(rows: &R) -> Result<Vec<String>, R::Fault> {
    Ok(read(rows, "", None)?.names)
}

/// Adds counts of a dimension's values that were made elsewhere at unknown times, within a commit.
///
/// # Errors
/// Those of storage.
pub fn install<R: BreakdownRows>(
    rows: &mut R,
    name: &str,
    values: TopValues,
) -> Result<(), R::Fault> {
    let number = number_of(rows, name)?;
    let start = start_of(number, 0);
    let mut held: TopValues = read_row(rows.get(RowKind::AllTime, start)?.as_deref())?;
    match number {
        OVERFLOW => held.add(name, values.sum()),
        _ => held.merge(values),
    }
    held.prune(VALUES_MAX);
    write_row(rows, RowKind::AllTime, start, &held)
}

/// The counts of one dimension in a window, of any number of cells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakdown {
    /// What was counted of its values.
    pub values: TopValues,
    /// The names of all dimensions that there are.
    pub names: Vec<String>,
}

impl Breakdown {
    /// Decodes a breakdown; no bytes are an empty one.
    pub fn from_rest(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::default();
        }
        // The sender is our own build.
        postcard::from_bytes(bytes).unwrap_or_default()
    }

    /// Its bytes; none for an empty breakdown.
    pub fn to_rest(&self) -> Vec<u8> {
        if self.values.is_empty() && self.names.is_empty() {
            return Vec::new();
        }
        postcard::to_allocvec(self).unwrap_or_default()
    }

    fn merge(&mut self, other: Self) {
        self.values.merge(other.values);
        self.values.prune(VALUES_MAX);
        for name in other.names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        put_in_order(&mut self.names, Ord::cmp);
    }
}

/// Adds the breakdown of other cells to one, both at rest.
pub fn join_breakdowns(into: &mut Vec<u8>, other: Vec<u8>) {
    if into.is_empty() {
        *into = other;
    } else if !other.is_empty() {
        let mut joined = Breakdown::from_rest(into);
        joined.merge(Breakdown::from_rest(&other));
        *into = joined.to_rest();
    }
}

/// Reads the counts of a dimension in a window: its first and its last second, widened by [`covered`]; of all time
/// without a window. Cost: a row read and a merge for each day, and for each hour at the window's ends.
///
/// # Errors
/// Those of storage.
pub fn read<R: BreakdownRows>(
    rows: &R,
    name: &str,
    window: Option<(i64, i64)>,
) -> Result<Breakdown, R::Fault> {
    let mut names = names(rows)?;
    let mut values = TopValues::default();
    match known_number(&names, name) {
        Some(number) => values = read_number(rows, number, window)?,
        None if names.len() >= DIMENSIONS_MAX => {
            let dropped = read_number(rows, OVERFLOW, window)?.get(name);
            values.add_rest(dropped.count, dropped.count_max());
        }
        None => {}
    }
    let mut unknown: BTreeMap<String, ()> = BTreeMap::new();
    pending(rows)?.log.each(|entry| {
        let (Stamp::Live(second) | Stamp::Past(second)) = entry.stamp;
        let is_within = window.is_none_or(|(from, to)| (from..=to).contains(&second));
        for (other, value) in entry.values {
            if other == name && is_within {
                values.add(value, entry.amount);
            }
            if !names.iter().any(|known| known == other) && !unknown.contains_key(other) {
                unknown.insert(other.to_owned(), ());
            }
        }
    })?;
    values.prune(VALUES_MAX);
    names.extend(unknown.into_keys());
    put_in_order(&mut names, Ord::cmp);
    Ok(Breakdown { values, names })
}

/// The counts in the rows of a dimension for a window.
fn read_number<R: BreakdownRows>(
    rows: &R,
    number: i64,
    window: Option<(i64, i64)>,
) -> Result<TopValues, R::Fault> {
    let mut values = TopValues::default();
    let Some((from, to)) = window else {
        let stored = rows.get(RowKind::AllTime, start_of(number, 0))?;
        return Ok(read_row(stored.as_deref())?);
    };
    let end = to.saturating_add(1);
    let first_day = Resolution::Day.start_of(from.saturating_add(Resolution::Day.seconds() - 1));
    let end_day = Resolution::Day.start_of(end);
    let parts = match first_day < end_day {
        true => [
            (RowKind::Hour, from, first_day),
            (RowKind::Day, first_day, end_day),
            (RowKind::Hour, end_day, end),
        ],
        false => [
            (RowKind::Hour, from, end),
            (RowKind::Day, end, end),
            (RowKind::Hour, end, end),
        ],
    };
    for (kind, from, before) in parts {
        merge_rows(rows, kind, number, (from, before), &mut values)?;
    }
    Ok(values)
}

fn merge_rows<R: BreakdownRows>(
    rows: &R,
    kind: RowKind,
    number: i64,
    (from, before): (i64, i64),
    into: &mut TopValues,
) -> Result<(), R::Fault> {
    let step = match kind {
        RowKind::Day => Resolution::Day,
        _ => Resolution::Hour,
    };
    let (mut first, end) = (start_of(number, from), start_of(number, before));
    // Goes from row to row: for a window of any length this ends with the last row that is kept.
    while let Some(row) = rows.first(kind, first, end)? {
        let next = second_of(row).saturating_add(ROWS_AT_ONCE * step.seconds());
        let next = start_of(number, next).min(end);
        for body in rows.between(kind, row, next)? {
            into.merge(read_row(Some(&body))?);
            if into.len() > READ_VALUES_MAX {
                into.prune(VALUES_MAX);
            }
        }
        first = next;
    }
    Ok(())
}

/// Widens a window to the whole hours, or days, that it touches, as its first and its last second. It depends on the
/// time of the question, because hours are kept for a week.
pub fn covered((from, to): (i64, i64), now: i64) -> (i64, i64) {
    let by_hours_from = now.saturating_sub(BY_HOURS_SECONDS);
    let step_at = |second: i64| match second >= by_hours_from {
        true => Resolution::Hour,
        false => Resolution::Day,
    };
    let last = step_at(to);
    let end = last.start_of(to).saturating_add(last.seconds() - 1);
    (step_at(from).start_of(from), end)
}
