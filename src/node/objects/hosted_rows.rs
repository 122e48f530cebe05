//! The rows of one tenant of a tablet.
//!
//! Invariant: it holds what the tables of an object of its own would, under names that sort alike.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::tablet_rows::{ALARM, TabletRows, row_key};
use crate::core::counter::id::CounterId;
use crate::core::counter::ledger::WriteKey;
use crate::protocol::messages::{Fault, encode};

/// Kind of a row of the ledger, behind those of cells.
const LEDGER: u8 = 200;

/// The rows of one tenant.
pub(super) struct HostedRows {
    tablet: Rc<TabletRows>,
    counter: CounterId,
    may_hold: Cell<bool>,
    /// While its alarm rings, that alarm is not set any more.
    rings_ms: Rc<Cell<Option<i64>>>,
    /// While the cell is read: its rows of the kinds before [`READ_BEFORE`].
    read: RefCell<Option<BTreeMap<Vec<u8>, Vec<u8>>>>,
}

/// The first kind of rows that a cell does not read when it wakes: address, totals, unique elements of all time and pages are before.
const READ_BEFORE: u8 = 6;

/// Alarms of tenants ring at whole seconds, so that those that are due together ring together.
const ALARM_STEP_MS: i64 = 1_000;

impl HostedRows {
    /// The rows of a tenant; `rings_ms` says which of its alarms rings just now.
    pub(super) fn new(
        tablet: Rc<TabletRows>,
        counter: CounterId,
        rings_ms: Rc<Cell<Option<i64>>>,
    ) -> Self {
        Self {
            tablet,
            counter,
            may_hold: Cell::new(false),
            rings_ms,
            read: RefCell::default(),
        }
    }

    pub(super) fn tablet(&self) -> &TabletRows {
        &self.tablet
    }

    /// Looks whether the tenant has rows, and reads at once what a cell reads when it wakes.
    pub(super) fn open(&self) -> Result<bool, Fault> {
        let read = self.tablet.between(&self.counter, &[0], &[READ_BEFORE])?;
        let holds = !read.is_empty()
            || self
                .tablet
                .has_rows(&self.counter, &[READ_BEFORE], &[ALARM])?;
        self.may_hold.set(holds);
        self.read.replace(Some(read.into_iter().collect()));
        Ok(holds)
    }

    /// The cell has been read.
    pub(super) fn is_read(&self) {
        self.read.take();
    }

    pub(super) fn may_hold(&self) -> bool {
        self.may_hold.get()
    }

    pub(super) fn begin(&self) {
        self.may_hold.set(true);
    }

    pub(super) fn get(&self, kind: i32, start: i64) -> Result<Option<Vec<u8>>, Fault> {
        let key = row_key(kind_of(kind), start);
        if let Some(read) = self
            .read
            .borrow()
            .as_ref()
            .filter(|_| kind_of(kind) < READ_BEFORE)
        {
            return Ok(read.get(&key).cloned());
        }
        self.tablet.get(&self.counter, key)
    }

    pub(super) fn put(&self, kind: i32, start: i64, body: Vec<u8>) -> Result<(), Fault> {
        self.change(row_key(kind_of(kind), start), Some(body))
    }

    pub(super) fn delete(&self, kind: i32, start: i64) -> Result<(), Fault> {
        self.change(row_key(kind_of(kind), start), None)
    }

    pub(super) fn between(
        &self,
        kind: i32,
        (from, before): (i64, i64),
    ) -> Result<Vec<(i64, Vec<u8>)>, Fault> {
        let (from, before) = (row_key(kind_of(kind), from), row_key(kind_of(kind), before));
        if let Some(read) = self
            .read
            .borrow()
            .as_ref()
            .filter(|_| kind_of(kind) < READ_BEFORE)
        {
            let rows = read.range(from..before);
            return Ok(rows
                .filter_map(|(key, body)| Some((start_of(key)?, body.clone())))
                .collect());
        }
        let rows = self.tablet.between(&self.counter, &from, &before)?;
        let read = |(key, body): (Vec<u8>, Vec<u8>)| Some((start_of(&key)?, body));
        Ok(rows.into_iter().filter_map(read).collect())
    }

    pub(super) fn delete_between(
        &self,
        kind: i32,
        (from, before): (i64, i64),
    ) -> Result<(), Fault> {
        let (from, before) = (row_key(kind_of(kind), from), row_key(kind_of(kind), before));
        self.delete_where(&from, &before, |_| true)
    }

    pub(super) fn keep_only(&self, kinds: [i32; 2]) -> Result<(), Fault> {
        let kept = kinds.map(kind_of);
        self.delete_where(&[0], &[ALARM], |kind| !kept.contains(&kind))
    }

    pub(super) fn delete_all(&self) -> Result<(), Fault> {
        self.may_hold.set(false);
        self.tablet.turn(&mut || {
            self.delete_where(&[0], &[ALARM], |_| true)?;
            self.change(row_key(ALARM, 0), None)
        })
    }

    /// Deletes the rows in `from..before` whose kinds go.
    fn delete_where(
        &self,
        from: &[u8],
        before: &[u8],
        goes: impl Fn(u8) -> bool,
    ) -> Result<(), Fault> {
        let rows = self.tablet.between(&self.counter, from, before)?;
        self.tablet.turn(&mut || {
            rows.iter()
                .filter(|(key, _)| key.first().is_some_and(|kind| goes(*kind)))
                .try_for_each(|(key, _)| self.change(key.clone(), None))
        })
    }

    pub(super) fn record(&self, slot: i64, key: WriteKey) -> Result<Option<Vec<u8>>, Fault> {
        self.tablet.get(&self.counter, record_key(slot, key))
    }

    pub(super) fn put_record(&self, slot: i64, key: WriteKey, body: Vec<u8>) -> Result<(), Fault> {
        self.change(record_key(slot, key), Some(body))
    }

    pub(super) fn delete_record(&self, slot: i64, key: WriteKey) -> Result<(), Fault> {
        self.change(record_key(slot, key), None)
    }

    pub(super) fn has_records(&self) -> Result<bool, Fault> {
        self.tablet.has_rows(&self.counter, &[LEDGER], &[ALARM])
    }

    pub(super) fn delete_records(&self, newest: i64) -> Result<(), Fault> {
        let before = row_key(LEDGER, newest.saturating_add(1));
        self.delete_where(&[LEDGER], &before, |_| true)
    }

    /// Sets the tenant's alarm, unless it rings before.
    pub(super) async fn set_alarm_by(&self, at_ms: i64) -> Result<(), Fault> {
        let mut at_ms = at_ms
            .saturating_add(ALARM_STEP_MS - 1)
            .div_euclid(ALARM_STEP_MS)
            .saturating_mul(ALARM_STEP_MS);
        if self.rings_ms.get() == Some(at_ms) {
            at_ms = at_ms.saturating_add(ALARM_STEP_MS);
        }
        let set = self.tablet.alarm(&self.counter)?;
        let set = set.filter(|set_ms| self.rings_ms.get() != Some(*set_ms));
        if set.is_none_or(|set_ms| set_ms > at_ms) {
            let name = (self.counter.clone(), row_key(ALARM, 0));
            self.tablet.change(name, Some(encode(&at_ms)?))?;
        }
        self.tablet.arm(at_ms).await
    }

    fn change(&self, key: Vec<u8>, body: Option<Vec<u8>>) -> Result<(), Fault> {
        self.tablet.change((self.counter.clone(), key), body)
    }
}

/// The bytes of the name of a row of the ledger.
fn record_key(slot: i64, key: WriteKey) -> Vec<u8> {
    let mut name = row_key(LEDGER, slot);
    name.extend_from_slice(&key.0);
    name
}

fn start_of(key: &[u8]) -> Option<i64> {
    let bytes = key.get(1..9)?.try_into().ok()?;
    Some(i64::from_be_bytes(bytes) ^ i64::MIN)
}

fn kind_of(kind: i32) -> u8 {
    u8::try_from(kind).unwrap_or(LEDGER)
}
