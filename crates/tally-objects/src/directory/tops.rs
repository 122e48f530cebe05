//! A partition's counters in the order of a measure, from its table of totals.

use std::collections::BTreeMap;

use super::top_order::{WIDE_SIZE, amount_sql};
use super::totals::{DirectoryTotals, INDEXES};
use crate::kit::store::{Store, integer, text};
use tally_core::cluster::kept_tops::{KeptTop, OLDEST_MAX, ROWS_MAX, RowlessCounters};
use tally_core::cluster::root::{RootEntry, prefix_end};
use tally_core::cluster::standings::{OldestUnknown, Standing, Standings};
use tally_core::cluster::top_order::{
    OrderBy, TopOrder, TopRow, WITHIN_MAX, WindowStart, first_of, hour_of, row_of_known,
};
use tally_core::counter::id::CounterId;
use tally_core::counter::total::Value;
use tally_core::order::map_of;
use tally_host::object::SqlValue;
use tally_wire::messages::{Fault, Sums};

/// The most counters of a prefix that are found by name and then sorted. More are found by the index of the order.
const FEW: u64 = 1_000;

/// Rows that are kept beyond a limit and a quarter of it.
const SPARE_ROWS: u32 = 16;

/// The counters that are looked up by one statement, which may bind 100 values.
const RESOLVED_AT_ONCE: usize = 96;

/// The largest size of numbers below 2^32: a sum of 2^31 of them is below 2^63.
const NARROW_SIZE: i64 = 8 * 32;

impl DirectoryTotals {
    /// The first counters of an order, and its sums: from its kept top, else from the table.
    pub(super) fn top(
        &self,
        order: &TopOrder,
        limit: u32,
        now_ms: i64,
    ) -> Result<(Vec<TopRow>, Sums), Fault> {
        self.ahead.clear();
        // The kept tops are of written rows.
        self.store.write_waiting()?;
        self.kept.forget_failed(self.store.failures());
        self.resolve(now_ms)?;
        let mut top = match self.kept.take(order) {
            Some(top) => top,
            None => self.begin(order, now_ms)?,
        };
        let named = top.standings.named;
        if top.rowless.is_old(now_ms) {
            top.rowless = RowlessCounters::among(named, self.rowless(order, named)?, now_ms);
        }
        let oldest_ms = match top.standings.oldest_ms() {
            Ok(oldest_ms) => oldest_ms,
            Err(OldestUnknown) => {
                let read = self.oldest(order)?;
                let has_all = read.len() < OLDEST_MAX;
                top.standings.set_oldest(read, has_all);
                top.standings.oldest_ms().unwrap_or_default()
            }
        };
        let rows = self.first(&mut top, limit)?;
        let (rowless, created_ms) = top.rowless.sums(named);
        let is_of_all = order.by == OrderBy::Value && order.since.is_none();
        let total = top.standings.total;
        let magnitude = Value::new(total.unsigned_abs(), 0);
        let total = if total < 0 {
            magnitude.negated()
        } else {
            magnitude
        };
        // Counters that are created later are not in it.
        let as_of_ms = oldest_ms.into_iter().chain(created_ms).chain([now_ms]);
        let sums = Sums {
            counters: top.standings.counters + if is_of_all { rowless } else { 0 },
            total: total.plus(top.wide),
            above: 0,
            as_of_ms: as_of_ms.min(),
            kept_from_ms: 0,
        };
        self.kept.put(top);
        Ok((rows, sums))
    }

    /// Looks up which counters, of those created or ended meanwhile, have no row.
    fn resolve(&self, now_ms: i64) -> Result<(), Fault> {
        let counters = self.kept.take_unresolved();
        for some in counters.chunks(RESOLVED_AT_ONCE) {
            let mut values: Vec<SqlValue> = vec!["".into(); RESOLVED_AT_ONCE];
            for (value, counter) in values.iter_mut().zip(some) {
                *value = counter.as_str().into();
            }
            let placeholders = vec!["?"; RESOLVED_AT_ONCE].join(", ");
            let rowless = self.rowless_of(&format!("id IN ({placeholders})"), values)?;
            self.kept.resolve(some, &rowless, now_ms);
        }
        Ok(())
    }

    /// The oldest `as_of` of an order.
    fn oldest(&self, order: &TopOrder) -> Result<Vec<i64>, Fault> {
        let (within, mut values) = within_sql(order, "");
        values.push(i64::try_from(OLDEST_MAX).unwrap_or(i64::MAX).into());
        let sql = format!("SELECT as_of FROM totals WHERE {within} ORDER BY as_of LIMIT ?");
        let rows = self.store.run(&sql, values)?;
        Ok(rows.iter().flatten().filter_map(integer).collect())
    }

    /// The first counters, from the kept top, else from the table with some spare ones, so that a few may leave.
    fn first(&self, top: &mut KeptTop, limit: u32) -> Result<Vec<TopRow>, Fault> {
        let rows_of = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
        if limit == 0 {
            return Ok(Vec::new());
        }
        if let Some(rows) = top.standings.first(rows_of(limit)) {
            return Ok(rows);
        }
        let kept_limit = limit.saturating_add(limit / 4).saturating_add(SPARE_ROWS);
        let is_kept = rows_of(kept_limit) <= ROWS_MAX;
        let counts = (top.standings.counters, top.standings.named);
        let read = if is_kept { kept_limit } else { limit };
        let mut rows = self.read_first(&top.order, counts, read)?;
        if is_kept {
            let standing = |row: &TopRow| {
                let amount = row.amount.within_62_bits();
                let standing = Standing {
                    size: top.order.since.map_or(row.amount.size(), |_| 0),
                    ..top.standing(amount, row.as_of_ms)
                };
                (row.counter.clone(), standing, row.clone())
            };
            let placed = rows.iter().map(standing).collect();
            top.standings.set_first(placed, rows_of(kept_limit));
        }
        rows.truncate(rows_of(limit));
        Ok(rows)
    }

    /// The sums over all counters of an order, from the table.
    fn begin(&self, order: &TopOrder, now_ms: i64) -> Result<KeptTop, Fault> {
        let amount = amount_sql(order);
        let (within, ids) = within_sql(order, "");
        let counts = match (order.by, order.since) {
            (OrderBy::Value, _) => "COUNT(*)".to_owned(),
            _ => format!("SUM({amount} > 0)"),
        };
        let sum = format!("CASE WHEN abs({amount}) < {WITHIN_MAX} THEN {amount} ELSE 0 END");
        // Sums of halves take twice as long, and few numbers need them. For few counters the check takes longer than
        // that.
        let parts = match order.prefix.is_empty() && self.are_narrow(order.by)? {
            true => format!("'0', CAST(SUM({amount}) AS TEXT), MIN(as_of), COUNT(*), 0"),
            false => format!(
                "CAST(SUM(({sum}) >> 32) AS TEXT), CAST(SUM(({sum}) & 4294967295) AS TEXT), \
                 MIN(as_of), COUNT(*), SUM(abs({amount}) >= {WITHIN_MAX})"
            ),
        };
        let sql = format!("SELECT {counts}, {parts} FROM totals WHERE {within}");
        let rows = self.store.run(&sql, ids.clone())?;
        let [counters, high, low, as_of, named, wide] =
            rows.first().map(Vec::as_slice).unwrap_or_default()
        else {
            return Err(Fault::Broken(
                "a sum of totals has other columns".to_owned(),
            ));
        };
        let of = |value: &SqlValue| i128::from(number(value).unwrap_or(0));
        let total = (of(high) << 32) + of(low);
        let mut beyond = Value::default();
        if unsigned(wide) > 0 && order.since.is_none() {
            // Amounts that do not fit in 62 bits are in the rows.
            let sql = format!(
                "SELECT id, as_of, body FROM totals WHERE {within} AND abs({amount}) >= {WITHIN_MAX}"
            );
            for row in &self.store.run(&sql, ids)? {
                let row = row_of(&self.store, order, row)?;
                beyond = beyond.plus(row.map_or_else(Value::default, |row| row.amount));
            }
        }
        let (counters, named) = (unsigned(counters), unsigned(named));
        let standings = Standings::new((counters, named), total, integer(as_of), OLDEST_MAX);
        let rowless = RowlessCounters::among(named, self.rowless(order, named)?, now_ms);
        Ok(KeptTop::new(order.clone(), standings, beyond, rowless))
    }

    /// Whether the numbers of an order are far from the limit of a sum. Cost: two seeks of an index.
    fn are_narrow(&self, by: OrderBy) -> Result<bool, Fault> {
        if by == OrderBy::Uniques {
            // The index does not have all rows.
            return Ok(false);
        }
        let size = size_sql(by);
        let extreme = |extreme: &str| format!("(SELECT {extreme}({size}) FROM totals)");
        let sql = format!("SELECT {}, {}", extreme("MAX"), extreme("MIN"));
        let rows = self.store.run(&sql, vec![])?;
        let mut sizes = rows.iter().flatten().filter_map(integer);
        Ok(sizes.all(|size| size.abs() <= NARROW_SIZE))
    }

    /// Counters of the order without a row in the table yet, and the creation of each, unix milliseconds; `listed`
    /// counters have a row. No write of a counter was acknowledged before its creation.
    fn rowless(&self, order: &TopOrder, listed: u64) -> Result<BTreeMap<CounterId, i64>, Fault> {
        let (within, ids) = within_sql(order, "");
        let sql = format!("SELECT COUNT(*) FROM roots WHERE live = 1 AND {within}");
        let rows = self.store.run(&sql, ids.clone())?;
        let living = rows.first().and_then(|row| row.first()).map_or(0, unsigned);
        if living <= listed {
            return Ok(BTreeMap::new());
        }
        let rowless = self.rowless_of(&within, ids)?;
        Ok(map_of(rowless))
    }

    /// The counters without a row that meet a condition.
    fn rowless_of(
        &self,
        within: &str,
        values: Vec<SqlValue>,
    ) -> Result<Vec<(CounterId, i64)>, Fault> {
        let sql = format!(
            "SELECT id, body FROM roots WHERE live = 1 AND {within} \
             AND NOT EXISTS (SELECT 1 FROM totals WHERE totals.id = roots.id)"
        );
        let mut rowless = Vec::new();
        for row in &self.store.run(&sql, values)? {
            if let [id, body] = row.as_slice()
                && let Some(Ok(counter)) = text(id).map(CounterId::stored)
                && let RootEntry::Live(root) = self.store.get(body)?
            {
                rowless.push((counter, root.created_at_ms));
            }
        }
        Ok(rowless)
    }

    /// The number of counters with more than an amount.
    pub(super) fn above(&self, order: &TopOrder, than: Value) -> Result<u64, Fault> {
        let amount = amount_sql(order);
        let [hour, ..] = INDEXES;
        self.make_index(order.since.map_or_else(|| index_of(order), |_| hour));
        let (within, ids) = within_sql(order, "+");
        let first = match order.since {
            Some(since) => format!("hour >= {}", hour_of(since)),
            None if than.size().abs() >= WIDE_SIZE => return self.above_wide(order, than),
            None => format!("{} >= {}", size_sql(order.by), than.size()),
        };
        let than = than.within_62_bits();
        let sql =
            format!("SELECT COUNT(*) FROM totals WHERE {first} AND {amount} > {than} AND {within}");
        let rows = self.store.run(&sql, ids)?;
        Ok(rows.first().and_then(|row| row.first()).map_or(0, unsigned))
    }

    /// The number of counters with more than an amount of more than 62 bits. Counters of the same size are compared by
    /// their bodies. Cost: a row read for each of those.
    fn above_wide(&self, order: &TopOrder, than: Value) -> Result<u64, Fault> {
        let (within, ids) = within_sql(order, "+");
        let (size, of) = (size_sql(order.by), than.size());
        let sql = format!("SELECT COUNT(*) FROM totals WHERE {size} > {of} AND {within}");
        let rows = self.store.run(&sql, ids.clone())?;
        let mut above = rows.iter().flatten().map(unsigned).sum();
        let sql = format!("SELECT id, as_of, body FROM totals WHERE {size} = {of} AND {within}");
        for row in &self.store.run(&sql, ids)? {
            let row = row_of(&self.store, order, row)?;
            above += u64::from(row.is_some_and(|row| than.is_below(row.amount)));
        }
        Ok(above)
    }

    /// Makes an index, unless it exists. Without it, reads are only slower.
    fn make_index(&self, statement: &str) {
        let _ = self.store.run(statement, vec![]);
    }

    /// The first counters of an order, by the number of counters that are in it and the number that have the prefix.
    fn read_first(
        &self,
        order: &TopOrder,
        (counters, named): (u64, u64),
        limit: u32,
    ) -> Result<Vec<TopRow>, Fault> {
        let amount = amount_sql(order);
        // The index of hours is worth its cost if few have counted since.
        let is_by_size = !order.since.is_some_and(WindowStart::is_kept);
        let is_by_order = named > FEW && (is_by_size || counters < named / 4);
        if is_by_order {
            self.make_index(index_of(order));
        }
        let (by_name, by_order) = if is_by_order { ("+", "") } else { ("", "+") };
        let (within, mut values) = within_sql(order, by_name);
        let size = size_sql(order.by);
        let sql = match order.since {
            Some(since) => {
                // Rows that were written since are read in order of the sizes of all time.
                let (by_size, by_hour) = match is_by_size {
                    true => (format!("{by_order}{size} DESC, "), "+"),
                    false => (String::new(), by_order),
                };
                format!(
                    "SELECT id, as_of, CAST({amount} AS TEXT) FROM totals \
                     WHERE {within} AND {by_hour}hour >= {} AND {amount} > 0 \
                     ORDER BY {by_size}{amount} DESC, id LIMIT ?",
                    hour_of(since)
                )
            }
            None => {
                let counts = match order.by {
                    OrderBy::Value => String::new(),
                    OrderBy::Count | OrderBy::Uniques => format!("AND {by_order}{size} > 0"),
                };
                format!(
                    "SELECT id, as_of, body FROM totals WHERE {within} {counts} \
                     ORDER BY {by_order}{size} DESC, {amount} DESC, id LIMIT ?"
                )
            }
        };
        values.push(i64::from(limit).into());
        let rows = self.store.run(&sql, values)?;
        let rows = rows.iter().map(|row| row_of(&self.store, order, row));
        rows.filter_map(Result::transpose).collect()
    }

    /// The amount of one counter in an order, if it is in the table.
    pub(super) fn amount(
        &self,
        counter: &CounterId,
        order: &TopOrder,
    ) -> Result<Option<TopRow>, Fault> {
        let column = match order.since {
            Some(_) => format!("CAST({} AS TEXT)", amount_sql(order)),
            None => "body".to_owned(),
        };
        let sql = format!("SELECT id, as_of, {column} FROM totals WHERE id = ?");
        let rows = self.store.run(&sql, vec![counter.as_str().into()])?;
        let row = rows.first().map(|row| row_of(&self.store, order, row));
        Ok(row.transpose()?.flatten())
    }
}

/// The statement that makes the index of an order.
fn index_of(order: &TopOrder) -> &'static str {
    let [hour, value, counted, uniques] = INDEXES;
    match order.by {
        _ if order.since.is_some_and(WindowStart::is_kept) => hour,
        OrderBy::Value => value,
        OrderBy::Count => counted,
        OrderBy::Uniques => uniques,
    }
}

/// The column of the sizes of an order of all time.
fn size_sql(by: OrderBy) -> &'static str {
    match by {
        OrderBy::Value => "value_size",
        OrderBy::Count => "counted_size",
        OrderBy::Uniques => "uniques_size",
    }
}

/// The condition on names, as SQL with its values; a plus before them prevents the use of their index.
fn within_sql(order: &TopOrder, plus: &str) -> (String, Vec<SqlValue>) {
    let mut values: Vec<SqlValue> = vec![first_of(order).into()];
    let mut sql = format!("{plus}id >= ?");
    if let Some(end) = prefix_end(&order.prefix) {
        sql.push_str(&format!(" AND {plus}id < ?"));
        values.push(end.into());
    }
    (sql, values)
}

fn row_of(store: &Store, order: &TopOrder, row: &[SqlValue]) -> Result<Option<TopRow>, Fault> {
    let [id, as_of, column] = row else {
        return Ok(None);
    };
    let counter = text(id).and_then(|id| CounterId::stored(id).ok());
    let (Some(counter), Some(as_of_ms)) = (counter, integer(as_of)) else {
        return Ok(None);
    };
    if order.since.is_some() {
        let count = number(column).and_then(|count| u128::try_from(count).ok());
        return Ok(Some(TopRow {
            counter,
            amount: Value::new(count.unwrap_or(0), 0),
            uniques: None,
            as_of_ms,
        }));
    }
    Ok(Some(row_of_known(counter, order.by, store.get(column)?)))
}

/// An integer that was read as text.
fn number(value: &SqlValue) -> Option<i64> {
    text(value)?.parse().ok()
}

/// A count of rows.
fn unsigned(value: &SqlValue) -> u64 {
    let count = integer(value).and_then(|count| u64::try_from(count).ok());
    count.unwrap_or(0)
}
