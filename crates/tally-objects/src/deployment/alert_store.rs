//! The stored alerts of a partition of the directory, and their deliveries.
//!
//! Invariant: the tables are created with the first alert, so a deployment without alerts has none. Deliveries of one
//! alert are sent in order: only the first that waits is ever due.

use std::cell::Cell;

use serde::{Deserialize, Serialize};

use crate::kit::store::{Store, integer, text};
use tally_core::alert::record::AlertRecord;
use tally_host::object::SqlValue;
use tally_wire::alerts::{Alert, DELIVERIES_MAX, Delivery, ScheduledDelivery, Secret};
use tally_wire::messages::{AlertDetails, Fault};
use tally_wire::names::alert::AlertName;
use tally_wire::rights::AdminRights;
use tally_wire::stored::Damage;

const SCHEMA: [&str; 4] = [
    "CREATE TABLE IF NOT EXISTS alerts (name TEXT PRIMARY KEY, due_ms INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS alert_deliveries (number INTEGER PRIMARY KEY, alert TEXT NOT NULL, due_ms INTEGER, body BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS alert_deliveries_alert ON alert_deliveries (alert, number)",
    "CREATE INDEX IF NOT EXISTS alert_deliveries_due ON alert_deliveries (due_ms) WHERE due_ms IS NOT NULL",
];

/// How many deliveries of all alerts are in memory at once: at most 200 KB.
const DELIVERIES_PAGE: i64 = 200;

/// Above the number of every delivery: numbers cross the platform exactly up to here.
const NUMBERS_END: i64 = 1 << 53;

/// The SQL condition that a delivery is the first waiting one of its alert.
const IS_FIRST: &str = "due_ms IS NOT NULL AND NOT EXISTS (SELECT 1 FROM alert_deliveries AS other \
    WHERE other.alert = alert_deliveries.alert AND other.number < alert_deliveries.number AND other.due_ms IS NOT NULL)";

/// A stored alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredAlert {
    /// Its settings.
    pub(super) alert: Alert,
    /// The secret that signs its deliveries.
    pub(super) secret: Secret,
    /// Its state.
    pub(super) record: AlertRecord,
    /// Random, and new with each put: a measurement of the former settings is recognised by it.
    pub(super) revision: u64,
}

/// The alerts in this database.
#[derive(Clone)]
pub(crate) struct AlertStore {
    store: Store,
    /// Whether the tables exist, once checked.
    exists: std::rc::Rc<Cell<Option<bool>>>,
}

impl AlertStore {
    /// The alerts of an object.
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            exists: std::rc::Rc::default(),
        }
    }

    /// Whether the tables exist.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Unreadable` for a damaged row; as for all methods below.
    fn exists(&self) -> Result<bool, Fault> {
        if let Some(exists) = self.exists.get() {
            return Ok(exists);
        }
        let sql = "SELECT 1 FROM sqlite_master WHERE name = 'alert_deliveries_due'";
        let exists = !self.store.run(sql, vec![])?.is_empty();
        self.exists.set(Some(exists));
        Ok(exists)
    }

    /// Makes the tables, if there are none.
    pub(super) fn prepare(&self) -> Result<(), Fault> {
        if !self.exists()? {
            for statement in SCHEMA {
                self.store.run(statement, vec![])?;
            }
            self.exists.set(Some(true));
        }
        Ok(())
    }

    fn rows(&self, sql: &str, values: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, Fault> {
        match self.exists()? {
            true => self.store.run(sql, values),
            false => Ok(Vec::new()),
        }
    }

    /// Runs several writes as one.
    pub(super) fn atomically(&self, body: impl FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
        self.store.atomically(body)
    }

    /// Stores an alert; it is evaluated at that time, unix milliseconds.
    pub(super) fn put(
        &self,
        name: &AlertName,
        stored: &StoredAlert,
        due_ms: i64,
    ) -> Result<(), Fault> {
        self.prepare()?;
        let values = vec![name.as_str().into(), due_ms.into(), self.store.put(stored)?];
        self.store.run(
            "INSERT INTO alerts VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET due_ms = excluded.due_ms, body = excluded.body",
            values,
        )?;
        Ok(())
    }

    /// Reads an alert.
    pub(super) fn get(&self, name: &AlertName) -> Result<Option<StoredAlert>, Fault> {
        let sql = "SELECT body FROM alerts WHERE name = ?";
        let rows = self.rows(sql, vec![name.as_str().into()])?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.store.get(body)).transpose()
    }

    /// How many there are.
    pub(super) fn count(&self) -> Result<u64, Fault> {
        let rows = self.rows("SELECT count(*) FROM alerts", vec![])?;
        let count = rows.first().and_then(|row| row.first()).and_then(integer);
        Ok(u64::try_from(count.unwrap_or(0)).unwrap_or(u64::MAX))
    }

    /// All alerts, in order of their names.
    pub(super) fn list(&self) -> Result<Vec<AlertDetails>, Fault> {
        let rows = self.rows("SELECT name, body FROM alerts ORDER BY name", vec![])?;
        let read = |row: &Vec<SqlValue>| match row.as_slice() {
            [name, body] => self.seen(self.name_of(name)?, self.store.get(body)?),
            _ => Err(self.store.damaged(Damage::Changed)),
        };
        rows.iter().map(read).collect()
    }

    /// An alert in the form of an answer.
    pub(super) fn seen(&self, name: AlertName, stored: StoredAlert) -> Result<AlertDetails, Fault> {
        let mut record = stored.record;
        record.samples = Default::default();
        Ok(AlertDetails {
            alert: stored.alert,
            record,
            last: self.deliveries(&name, 1)?.into_iter().next(),
            name,
        })
    }

    fn name_of(&self, value: &SqlValue) -> Result<AlertName, Fault> {
        let name = text(value).and_then(|name| AlertName::parse(name).ok());
        name.ok_or_else(|| self.store.damaged(Damage::Changed))
    }

    /// Deletes an alert and its deliveries. Returns whether it existed.
    pub(super) fn delete(&self, name: &AlertName) -> Result<bool, Fault> {
        let rows = self.rows(
            "DELETE FROM alerts WHERE name = ? RETURNING name",
            vec![name.as_str().into()],
        )?;
        let sql = "DELETE FROM alert_deliveries WHERE alert = ?";
        self.rows(sql, vec![name.as_str().into()])?;
        Ok(!rows.is_empty())
    }

    /// The alerts that must be evaluated now. They are due again at `again_ms`, in case this object stops before.
    pub(super) fn take_due(&self, now_ms: i64, again_ms: i64) -> Result<Vec<AlertName>, Fault> {
        let rows = self.rows(
            "UPDATE alerts SET due_ms = ? WHERE due_ms <= ? RETURNING name",
            vec![again_ms.into(), now_ms.into()],
        )?;
        let names = rows.iter().filter_map(|row| row.first());
        names.map(|name| self.name_of(name)).collect()
    }

    /// The next time at which something is due, unix milliseconds.
    pub(crate) fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        if !self.exists()? {
            return Ok(None);
        }
        let first = format!("SELECT MIN(due_ms) FROM alert_deliveries WHERE {IS_FIRST}");
        let mut times_ms = Vec::new();
        for sql in ["SELECT MIN(due_ms) FROM alerts", &first] {
            let rows = self.store.run(sql, vec![])?;
            times_ms.extend(rows.first().and_then(|row| row.first()).and_then(integer));
        }
        Ok(times_ms.into_iter().min())
    }

    /// Stores a new delivery, which is due at that time, unix milliseconds, if any; deletes the oldest completed ones.
    /// Returns its number.
    pub(super) fn deliver(&self, delivery: &Delivery, due_ms: Option<i64>) -> Result<i64, Fault> {
        self.prepare()?;
        let name = || SqlValue::from(delivery.name.as_str());
        let rows = self.store.run(
            "INSERT INTO alert_deliveries (alert, due_ms, body) VALUES (?, ?, ?) RETURNING number",
            vec![name(), due_ms.into(), self.store.put(delivery)?],
        )?;
        let kept = i64::try_from(DELIVERIES_MAX).unwrap_or(i64::MAX);
        self.store.run(
            "DELETE FROM alert_deliveries WHERE alert = ? AND due_ms IS NULL AND number <= \
             (SELECT number FROM alert_deliveries WHERE alert = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            vec![name(), name(), kept.into()],
        )?;
        let number = rows.first().and_then(|row| row.first()).and_then(integer);
        number.ok_or_else(|| Fault::Broken("a delivery has no number".to_owned()))
    }

    /// Stores the state of a delivery, and when it is due, unless it has changed meanwhile.
    pub(super) fn update_delivery(
        &self,
        number: i64,
        delivery: &Delivery,
        due_ms: Option<i64>,
    ) -> Result<(), Fault> {
        self.store.run(
            "UPDATE alert_deliveries SET due_ms = ?, body = ? WHERE number = ?",
            vec![due_ms.into(), self.store.put(delivery)?, number.into()],
        )?;
        Ok(())
    }

    /// A stored delivery, and when it is due.
    pub(super) fn delivery(&self, number: i64) -> Result<Option<ScheduledDelivery>, Fault> {
        let sql = "SELECT body, due_ms FROM alert_deliveries WHERE number = ?";
        let rows = self.rows(sql, vec![number.into()])?;
        rows.first().map(|row| self.kept(row)).transpose()
    }

    fn kept(&self, row: &[SqlValue]) -> Result<ScheduledDelivery, Fault> {
        match row {
            [body, due_ms] => Ok((self.store.get(body)?, integer(due_ms))),
            _ => Err(self.store.damaged(Damage::Changed)),
        }
    }

    /// The last deliveries of an alert, newest first.
    pub(super) fn deliveries(
        &self,
        name: &AlertName,
        limit: usize,
    ) -> Result<Vec<ScheduledDelivery>, Fault> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.rows(
            "SELECT body, due_ms FROM alert_deliveries WHERE alert = ? ORDER BY number DESC LIMIT ?",
            vec![name.as_str().into(), limit.into()],
        )?;
        rows.iter().map(|row| self.kept(row)).collect()
    }

    /// The last deliveries of all alerts that a caller administers, newest first. Cost: in the worst case it reads the
    /// deliveries of all alerts of the partition, about 15,000 of at most 1 KB, a page in memory.
    pub(super) fn all_deliveries(
        &self,
        of: &AdminRights,
        limit: usize,
    ) -> Result<Vec<ScheduledDelivery>, Fault> {
        let mut found = Vec::new();
        let mut before = NUMBERS_END;
        loop {
            let sql = "SELECT body, due_ms, number FROM alert_deliveries WHERE number < ? ORDER BY number DESC LIMIT ?";
            let rows = self.rows(sql, vec![before.into(), DELIVERIES_PAGE.into()])?;
            for row in &rows {
                let kept = self.kept(row.get(..2).unwrap_or_default())?;
                if of.cover(&kept.0.event.alert.watched) {
                    found.push(kept);
                }
                if found.len() >= limit {
                    return Ok(found);
                }
            }
            match rows.last().and_then(|row| row.get(2)).and_then(integer) {
                Some(number) => before = number,
                None => return Ok(found),
            }
        }
    }

    /// At most `limit` due deliveries, each the first waiting one of its alert.
    pub(super) fn due_deliveries(&self, now_ms: i64, limit: usize) -> Result<Vec<i64>, Fault> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = format!(
            "SELECT number FROM alert_deliveries WHERE due_ms <= ? AND {IS_FIRST} ORDER BY due_ms LIMIT ?"
        );
        let rows = self.rows(&sql, vec![now_ms.into(), limit.into()])?;
        let numbers = rows.iter().filter_map(|row| row.first());
        Ok(numbers.filter_map(integer).collect())
    }

    /// How many deliveries of an alert wait.
    pub(super) fn waiting(&self, name: &AlertName) -> Result<usize, Fault> {
        let sql = "SELECT count(*) FROM alert_deliveries WHERE alert = ? AND due_ms IS NOT NULL";
        let rows = self.rows(sql, vec![name.as_str().into()])?;
        let count = rows.first().and_then(|row| row.first()).and_then(integer);
        Ok(usize::try_from(count.unwrap_or(0)).unwrap_or(usize::MAX))
    }

    /// Sets when a delivery that waits is due, unix milliseconds, without reading its body.
    pub(super) fn put_off_one(&self, number: i64, due_ms: i64) -> Result<(), Fault> {
        let sql = "UPDATE alert_deliveries SET due_ms = ? WHERE number = ? AND due_ms IS NOT NULL";
        self.rows(sql, vec![due_ms.into(), number.into()])?;
        Ok(())
    }

    /// Sets when the waiting deliveries of an alert are due, unix milliseconds.
    pub(super) fn put_off(&self, name: &AlertName, due_ms: i64) -> Result<(), Fault> {
        let sql = "UPDATE alert_deliveries SET due_ms = ? WHERE alert = ? AND due_ms IS NOT NULL";
        self.rows(sql, vec![due_ms.into(), name.as_str().into()])?;
        Ok(())
    }
}
