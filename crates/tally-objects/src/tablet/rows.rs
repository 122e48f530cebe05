//! The rows of a tablet's tenants: a log of the changes of each commit, and a table into which it is folded.
//!
//! Invariant: the changes of a turn are one transaction: a row of the log holds all of them. Changes that are in the
//! log and not in the table are in memory too, so a read sees every earlier write. Life of a change: it is noted in
//! memory, appended to the log at the end of its turn, and written to the table when the log is folded, which deletes
//! it from the log and from memory. A restart reads the log again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::rc::Rc;

use super::row_names::{ALARM, BundlePage, Name, NamedRows};
use super::wakes::WakeRows;
use crate::cell::damage::{damaged_in, named};
use crate::kit::store::{Store, finished, in_room, integer};
use tally_core::counter::id::CounterId;
use tally_host::object::SqlValue;
use tally_wire::messages::Fault;

/// Keys sort in the order of their parts, see [`super::row_names::row_key`]. WITHOUT ROWID: an upsert writes one row.
const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS rows (counter TEXT NOT NULL, key BLOB NOT NULL, body BLOB NOT NULL, \
    PRIMARY KEY (counter, key)) WITHOUT ROWID",
    LOG_SCHEMA,
    "CREATE TABLE IF NOT EXISTS alarms (counter TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS alarms_by_time ON alarms (at_ms)",
];

/// A fold creates the log again.
pub(super) const LOG_SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, body BLOB NOT NULL)";

/// The number of rows after which the log is folded: a restart reads them again.
const LOG_ROWS_MAX: u64 = 512;

/// The number of bytes after which the log is folded. In memory the log takes twice as many: 64 busy tablets, whose
/// logs become full together, hold 32 MiB in all. `make bench-tail` shows it.
const LOG_BYTES_MAX: usize = 256 << 10;

/// The most bytes of one row of the log: a row of storage holds 2 MB.
const LOG_ROW_BYTES_MAX: usize = 1 << 20;

/// The state of a row in memory before a change: none, or a body, or deleted.
type Before = Option<Option<Vec<u8>>>;

/// The rows of all tenants of a tablet.
pub(crate) struct TabletRows {
    pub(super) store: Store,
    pub(super) has_schema: Cell<bool>,
    /// The changes in the log: a body, or that the row is deleted.
    pub(super) unfolded: RefCell<BTreeMap<Name, Option<Vec<u8>>>>,
    turn: RefCell<Turn>,
    pub(super) log_rows: Cell<u64>,
    pub(super) log_bytes: Cell<usize>,
    next_number: Cell<i64>,
    /// The number of folds of the log.
    pub(super) folds: Cell<u64>,
    /// Rows that were read for tenants that wake in this turn.
    pub(super) ahead: RefCell<HashMap<CounterId, WakeRows>>,
    /// When the object's alarm rings, unix milliseconds.
    pub(super) armed_ms: Cell<i64>,
    /// Whether it is ringing.
    pub(super) is_ringing: Cell<bool>,
}

/// The changes of the present turn.
#[derive(Default)]
struct Turn {
    depth: u32,
    changed: Vec<(Name, Before)>,
}

pub(super) fn no_rows(result: Result<Vec<Vec<SqlValue>>, Fault>) -> Result<(), Fault> {
    result.map(|_| ())
}

impl TabletRows {
    /// The rows of a tablet, with the changes in its log.
    pub(super) fn open(store: Store) -> (Rc<Self>, Result<(), Fault>) {
        let rows = Rc::new(Self {
            store,
            has_schema: Cell::new(false),
            unfolded: RefCell::default(),
            turn: RefCell::default(),
            log_rows: Cell::new(0),
            log_bytes: Cell::new(0),
            next_number: Cell::new(0),
            folds: Cell::new(0),
            ahead: RefCell::default(),
            armed_ms: Cell::new(i64::MAX),
            is_ringing: Cell::new(false),
        });
        let read = rows.read_log();
        (rows, read)
    }

    /// Reads the log into memory again.
    ///
    /// # Errors
    /// `Unreadable` for data that this build cannot read.
    pub(super) fn read_log(&self) -> Result<(), Fault> {
        let has_schema = self.store.has_schema()?;
        self.has_schema.set(has_schema);
        let mut unfolded = BTreeMap::new();
        let (mut rows, mut bytes, mut next) = (0, 0, 0);
        if has_schema {
            let log = self
                .store
                .run("SELECT number, body FROM log ORDER BY number", vec![])?;
            for row in &log {
                let [number, body] = row.as_slice() else {
                    continue;
                };
                let body = self.store.body(body)?;
                let changes: Vec<(Name, Option<Vec<u8>>)> = self.store.value(body)?;
                unfolded.extend(changes);
                rows += 1;
                bytes += body.len();
                next = integer(number).unwrap_or(0).saturating_add(1);
            }
        }
        self.unfolded.replace(unfolded);
        self.turn.take();
        self.log_rows.set(rows);
        self.log_bytes.set(bytes);
        self.next_number.set(next);
        self.armed_ms.set(i64::MAX);
        Ok(())
    }

    /// Runs work as one turn: all its changes are one transaction, or none if it fails. A turn within a turn is a part
    /// of it.
    ///
    /// # Errors
    /// The error of `body`; `Unavailable` where storage refuses. Memory then is as before.
    pub(crate) fn turn<T>(&self, body: &mut dyn FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
        let mark = {
            let mut turn = self.turn.borrow_mut();
            turn.depth += 1;
            turn.changed.len()
        };
        let outcome = body();
        let depth = {
            let mut turn = self.turn.borrow_mut();
            turn.depth -= 1;
            turn.depth
        };
        if outcome.is_err() {
            self.undo(mark);
            return outcome;
        }
        if depth == 0
            && let Err(fault) = self.commit()
        {
            self.undo(0);
            return Err(fault);
        }
        outcome
    }

    /// Reverts the changes since a mark.
    fn undo(&self, mark: usize) {
        let mut turn = self.turn.borrow_mut();
        let mut unfolded = self.unfolded.borrow_mut();
        for (name, before) in turn.changed.split_off(mark).into_iter().rev() {
            match before {
                Some(before) => unfolded.insert(name, before),
                None => unfolded.remove(&name),
            };
        }
    }

    pub(super) fn change(&self, name: Name, body: Option<Vec<u8>>) -> Result<(), Fault> {
        self.turn(&mut || {
            let before = self
                .unfolded
                .borrow_mut()
                .insert(name.clone(), body.clone());
            self.turn.borrow_mut().changed.push((name.clone(), before));
            Ok(())
        })
    }

    /// Appends the changes of the turn to the log.
    fn commit(&self) -> Result<(), Fault> {
        let bodies = self.bodies()?;
        if bodies.is_empty() {
            return Ok(());
        }
        if !self.has_schema.get() {
            self.store.create_schema(SCHEMA)?;
            self.has_schema.set(true);
        }
        let first = self.next_number.get();
        let append = |(number, body): (i64, &Vec<u8>)| {
            no_rows(self.store.run(
                "INSERT INTO log VALUES (?, ?)",
                vec![number.into(), finished(body.clone())],
            ))
        };
        match bodies.as_slice() {
            // A single row is atomic by itself.
            [body] => append((first, body))?,
            bodies => self
                .store
                .atomically(|| (first..).zip(bodies).try_for_each(append))?,
        }
        self.turn.borrow_mut().changed.clear();
        let rows = u64::try_from(bodies.len()).unwrap_or(u64::MAX);
        let bytes: usize = bodies.iter().map(Vec::len).sum();
        self.next_number.set(first.saturating_add_unsigned(rows));
        self.log_rows.set(self.log_rows.get().saturating_add(rows));
        self.log_bytes
            .set(self.log_bytes.get().saturating_add(bytes));
        if self.log_rows.get() >= LOG_ROWS_MAX || self.log_bytes.get() >= LOG_BYTES_MAX {
            // If it fails, the log is longer, and the next commit tries again.
            let _ = self.fold();
        }
        Ok(())
    }

    /// The changes of the turn, as rows of the log after the room for their frames: nearly always one row.
    fn bodies(&self) -> Result<Vec<Vec<u8>>, Fault> {
        let turn = self.turn.borrow();
        let unfolded = self.unfolded.borrow();
        let mut names: Vec<&Name> = turn.changed.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        let mut bodies = Vec::new();
        let (mut part, mut bytes) = (Vec::new(), 0);
        for name in names {
            let Some(body) = unfolded.get(name) else {
                continue;
            };
            part.push((name, body));
            bytes += name.0.as_str().len() + name.1.len() + body.as_ref().map_or(0, Vec::len);
            if bytes >= LOG_ROW_BYTES_MAX {
                bodies.push(in_room(&part)?);
                (part, bytes) = (Vec::new(), 0);
            }
        }
        if !part.is_empty() {
            bodies.push(in_room(&part)?);
        }
        Ok(bodies)
    }

    pub(super) fn body(&self, body: &SqlValue) -> Result<Vec<u8>, Fault> {
        Ok(self.store.body(body)?.to_vec())
    }

    /// Whether the log holds anything.
    pub(super) fn is_unfolded(&self) -> bool {
        self.log_rows.get() > 0
    }

    /// A row; for a tenant without rows in the table, from the log only.
    pub(super) fn get(
        &self,
        counter: &CounterId,
        key: Vec<u8>,
        is_in_table: bool,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let name = (counter.clone(), key);
        if let Some(body) = self.unfolded.borrow().get(&name) {
            return Ok(body.clone());
        }
        if !is_in_table || !self.has_schema.get() {
            return Ok(None);
        }
        let rows = self.store.run(
            "SELECT body FROM rows WHERE counter = ? AND key = ?",
            vec![counter.as_str().into(), name.1.into()],
        )?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.body(body)).transpose()
    }

    /// The rows of a tenant in `from..before`, in order, as [`TabletRows::get`].
    pub(super) fn between(
        &self,
        counter: &CounterId,
        (from, before): (&[u8], &[u8]),
        is_in_table: bool,
    ) -> Result<NamedRows, Fault> {
        let mut found = BTreeMap::new();
        if is_in_table && self.has_schema.get() {
            let rows = self.store.run(
                "SELECT key, body FROM rows WHERE counter = ? AND key >= ? AND key < ?",
                vec![
                    counter.as_str().into(),
                    from.to_vec().into(),
                    before.to_vec().into(),
                ],
            )?;
            for row in rows {
                if let [SqlValue::Blob(key), body] = row.as_slice() {
                    found.insert(key.clone(), self.body(body)?);
                }
            }
        }
        let range = (counter.clone(), from.to_vec())..(counter.clone(), before.to_vec());
        for ((_, key), body) in self.unfolded.borrow().range(range) {
            match body {
                Some(body) => found.insert(key.clone(), body.clone()),
                None => found.remove(key),
            };
        }
        Ok(found.into_iter().collect())
    }

    /// Some rows of a tenant after a name, except its alarm, and the name after which there may be more.
    pub(super) fn some_after(
        &self,
        counter: &CounterId,
        after: &[u8],
        limit: i64,
    ) -> Result<BundlePage, Fault> {
        let mut found = BTreeMap::new();
        let mut next = None;
        if self.has_schema.get() {
            let rows = self.store.run(
                "SELECT key, body FROM rows WHERE counter = ? AND key > ? AND key < ? ORDER BY key LIMIT ?",
                vec![
                    counter.as_str().into(),
                    after.to_vec().into(),
                    vec![ALARM].into(),
                    limit.into(),
                ],
            )?;
            let is_full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
            for row in rows {
                if let [SqlValue::Blob(key), body] = row.as_slice() {
                    next = is_full.then(|| key.clone());
                    found.insert(key.clone(), self.body(body)?);
                }
            }
        }
        let end = next
            .clone()
            .map_or(Bound::Excluded(vec![ALARM]), Bound::Included);
        let named = |key| (counter.clone(), key);
        let range = (Bound::Excluded(named(after.to_vec())), end.map(named));
        for ((_, key), body) in self.unfolded.borrow().range(range) {
            match body {
                Some(body) => found.insert(key.clone(), body.clone()),
                None => found.remove(key),
            };
        }
        Ok((found.into_iter().collect(), next))
    }

    /// The names of a tenant's damaged rows in the table that the log does not replace.
    pub(super) fn damaged(&self, counter: &CounterId) -> Result<Vec<Vec<u8>>, Fault> {
        if !self.has_schema.get() {
            return Ok(Vec::new());
        }
        let mut damaged = damaged_in(&self.store, Vec::new(), |after: &Vec<u8>, limit| {
            let rows = self.store.run(
                "SELECT key, body FROM rows WHERE counter = ? AND key > ? ORDER BY key LIMIT ?",
                vec![counter.as_str().into(), after.clone().into(), limit.into()],
            )?;
            Ok(rows.iter().filter_map(|row| named(row)).collect())
        })?;
        let unfolded = self.unfolded.borrow();
        damaged.retain(|name| !unfolded.contains_key(&(counter.clone(), name.clone())));
        Ok(damaged)
    }

    /// Deletes a row of the table.
    pub(super) fn drop_damaged(&self, counter: &CounterId, name: &[u8]) -> Result<(), Fault> {
        no_rows(self.store.run(
            "DELETE FROM rows WHERE counter = ? AND key = ?",
            vec![counter.as_str().into(), name.to_vec().into()],
        ))
    }

    /// Waits until all former writes are durable.
    pub(crate) async fn sync(&self) -> Result<(), Fault> {
        self.store.sync().await
    }
}
