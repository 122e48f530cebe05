//! The rows of one tenant of a tablet.
//!
//! Invariant: it holds the same rows as the tables of an object of its own, under names in the same order.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::row_names::{
    ALARM, BundlePage, LEDGER, NamedRows, kind_of, record_key, row_key, start_of,
};
use super::rows::TabletRows;
use super::wakes::WakeRows;
use crate::cell::damage::{DamagedRow, damaged_row};
use tally_core::cluster::push::TOGETHER;
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::WriteKey;
use tally_wire::messages::Fault;

/// The alarm of a tenant.
#[derive(Default)]
pub(super) struct TenantAlarm {
    /// When it rings, unix milliseconds.
    pub(super) set_ms: Cell<Option<i64>>,
    /// While it rings: the time for which it was set. It is then not set any more, but still stored. Once it has rung,
    /// the tablet writes the next one in its place, if any.
    pub(super) rings_ms: Cell<Option<i64>>,
}

/// The rows of one tenant.
pub(crate) struct HostedRows {
    tablet: Rc<TabletRows>,
    counter: CounterId,
    may_hold: Cell<bool>,
    alarm: Rc<TenantAlarm>,
    /// The number of folds of the log at which the table had no rows of it; `None` if it had some.
    not_in_table: Cell<Option<u64>>,
    /// While the cell is read: the rows for it.
    read: RefCell<Option<WakeRows>>,
}

/// The step of tenants' alarms, milliseconds: they ring at whole seconds, so that alarms that are due together ring
/// together.
const ALARM_STEP_MS: i64 = TOGETHER.0;

impl HostedRows {
    /// The rows of a tenant.
    pub(super) fn new(tablet: Rc<TabletRows>, counter: CounterId, alarm: Rc<TenantAlarm>) -> Self {
        Self {
            tablet,
            counter,
            may_hold: Cell::new(false),
            alarm,
            not_in_table: Cell::new(None),
            read: RefCell::default(),
        }
    }

    pub(crate) fn tablet(&self) -> &TabletRows {
        &self.tablet
    }

    /// Returns whether the tenant has rows, and reads at once what a cell reads when it starts.
    pub(crate) fn open(&self) -> Result<bool, Fault> {
        let waking = self.tablet.waking(&self.counter)?;
        let holds = waking.holds();
        self.may_hold.set(holds);
        if self.alarm.rings_ms.get().is_none() {
            self.alarm.set_ms.set(waking.alarm_ms);
        }
        let folds = self.tablet.folds.get();
        let not_in_table = (!waking.is_in_table).then_some(folds);
        self.not_in_table.set(not_in_table);
        self.read.replace(Some(waking));
        Ok(holds)
    }

    /// Whether the table may have rows of it.
    fn is_in_table(&self) -> bool {
        self.not_in_table.get() != Some(self.tablet.folds.get())
    }

    /// The cell has been read.
    pub(crate) fn is_read(&self) {
        self.read.take();
    }

    pub(crate) fn may_hold(&self) -> bool {
        self.may_hold.get()
    }

    pub(crate) fn begin(&self) {
        self.may_hold.set(true);
    }

    pub(crate) fn get(&self, kind: i32, start: i64) -> Result<Option<Vec<u8>>, Fault> {
        let key = row_key(kind_of(kind), start);
        if let Some(row) = self.read.borrow().as_ref().and_then(|read| read.get(&key)) {
            return Ok(row);
        }
        self.row(key)
    }

    pub(crate) fn put(&self, kind: i32, start: i64, body: Vec<u8>) -> Result<(), Fault> {
        self.change(row_key(kind_of(kind), start), Some(body))
    }

    pub(crate) fn delete(&self, kind: i32, start: i64) -> Result<(), Fault> {
        self.change(row_key(kind_of(kind), start), None)
    }

    pub(crate) fn between(
        &self,
        kind: i32,
        (from, before): (i64, i64),
    ) -> Result<Vec<(i64, Vec<u8>)>, Fault> {
        let (from, before) = (row_key(kind_of(kind), from), row_key(kind_of(kind), before));
        let read = self.read.borrow();
        let rows = match read.as_ref().and_then(|read| read.between(&from, &before)) {
            Some(rows) => rows,
            None => self.rows(&from, &before)?,
        };
        let read = |(key, body): (Vec<u8>, Vec<u8>)| Some((start_of(&key)?, body));
        Ok(rows.into_iter().filter_map(read).collect())
    }

    pub(crate) fn delete_between(
        &self,
        kind: i32,
        (from, before): (i64, i64),
    ) -> Result<(), Fault> {
        let (from, before) = (row_key(kind_of(kind), from), row_key(kind_of(kind), before));
        self.delete_where(&from, &before, |_| true)
    }

    pub(crate) fn keep_only(&self, kinds: [i32; 2]) -> Result<(), Fault> {
        let kept = kinds.map(kind_of);
        self.delete_where(&[0], &[ALARM], |kind| !kept.contains(&kind))
    }

    pub(crate) fn delete_all(&self) -> Result<(), Fault> {
        self.may_hold.set(false);
        self.tablet.turn(&mut || {
            self.clear()?;
            self.tablet.put_alarm(&self.counter, None)?;
            self.alarm.set_ms.set(None);
            self.alarm.rings_ms.set(None);
            Ok(())
        })
    }

    /// Deletes all rows; the alarm stays.
    pub(super) fn clear(&self) -> Result<(), Fault> {
        self.delete_where(&[0], &[ALARM], |_| true)
    }

    /// Some rows after a name, and the position after which there may be more.
    pub(super) fn some_after(&self, after: &[u8], limit: i64) -> Result<BundlePage, Fault> {
        self.tablet.some_after(&self.counter, after, limit)
    }

    /// The damaged rows. Rows of the log are not damaged if the log can be read.
    pub(crate) fn damaged(&self) -> Result<Vec<DamagedRow>, Fault> {
        let damaged = self.tablet.damaged(&self.counter)?;
        Ok(damaged
            .iter()
            .filter_map(|name| damaged_row(name))
            .collect())
    }

    /// Deletes a damaged row.
    pub(crate) fn drop_damaged(&self, row: &DamagedRow) -> Result<(), Fault> {
        self.tablet.drop_damaged(&self.counter, &row.name)
    }

    /// Writes a row by the bytes of its name.
    pub(super) fn put_row(&self, name: &[u8], body: &[u8]) -> Result<(), Fault> {
        self.change(name.to_vec(), Some(body.to_vec()))
    }

    /// Deletes the rows in `from..before` of the kinds that `goes` selects.
    fn delete_where(
        &self,
        from: &[u8],
        before: &[u8],
        goes: impl Fn(u8) -> bool,
    ) -> Result<(), Fault> {
        let rows = self.rows(from, before)?;
        self.tablet.turn(&mut || {
            rows.iter()
                .filter(|(key, _)| key.first().is_some_and(|kind| goes(*kind)))
                .try_for_each(|(key, _)| self.change(key.clone(), None))
        })
    }

    pub(crate) fn record(&self, slot: i64, key: WriteKey) -> Result<Option<Vec<u8>>, Fault> {
        self.row(record_key(slot, key))
    }

    pub(crate) fn put_record(&self, slot: i64, key: WriteKey, body: Vec<u8>) -> Result<(), Fault> {
        self.change(record_key(slot, key), Some(body))
    }

    pub(crate) fn delete_record(&self, slot: i64, key: WriteKey) -> Result<(), Fault> {
        self.change(record_key(slot, key), None)
    }

    pub(crate) fn has_records(&self) -> Result<bool, Fault> {
        let read = self.read.borrow();
        if let Some(has_records) = read.as_ref().and_then(|read| read.has_records) {
            return Ok(has_records);
        }
        Ok(!self.rows(&[LEDGER], &[ALARM])?.is_empty())
    }

    pub(crate) fn delete_records(&self, newest: i64) -> Result<(), Fault> {
        let before = row_key(LEDGER, newest.saturating_add(1));
        self.delete_where(&[LEDGER], &before, |_| true)
    }

    /// Sets the tenant's alarm, unless it is set for an earlier time. Returns when the object's alarm must ring for it.
    pub(crate) fn record_alarm(&self, at_ms: i64) -> Result<i64, Fault> {
        let TenantAlarm { set_ms, rings_ms } = &*self.alarm;
        let mut at_ms = at_ms
            .saturating_add(ALARM_STEP_MS - 1)
            .div_euclid(ALARM_STEP_MS)
            .saturating_mul(ALARM_STEP_MS);
        if rings_ms.get() == Some(at_ms) {
            at_ms = at_ms.saturating_add(ALARM_STEP_MS);
        }
        let set = set_ms.get().filter(|_| set_ms.get() != rings_ms.get());
        if set.is_none_or(|set_ms| set_ms > at_ms) {
            if rings_ms.get().is_none() {
                self.tablet.put_alarm(&self.counter, Some(at_ms))?;
            }
            set_ms.set(Some(at_ms));
        }
        Ok(at_ms)
    }

    /// Sets the tenant's alarm, unless it is set for an earlier time.
    pub(crate) async fn set_alarm_by(&self, at_ms: i64) -> Result<(), Fault> {
        let at_ms = self.record_alarm(at_ms)?;
        self.tablet.arm(at_ms).await
    }

    fn row(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>, Fault> {
        let is_in_table = self.is_in_table();
        self.tablet.get(&self.counter, key, is_in_table)
    }

    fn rows(&self, from: &[u8], before: &[u8]) -> Result<NamedRows, Fault> {
        let is_in_table = self.is_in_table();
        self.tablet
            .between(&self.counter, (from, before), is_in_table)
    }

    fn change(&self, key: Vec<u8>, body: Option<Vec<u8>>) -> Result<(), Fault> {
        self.tablet.change((self.counter.clone(), key), body)
    }
}
