//! The rows of a tablet's tenants: a log of what each commit changed, and a table that it is folded into.
//!
//! Invariant: what a turn changes is one transaction: a row of the log holds all of it. What the log holds and the table does not is in
//! memory too, so a read sees every write before it. Life of a change: it is noted in memory, appended to the log at the end of its
//! turn, and written to the table when the log is folded, which deletes it from the log and from memory. A restart reads the log again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::store::{Store, blob, integer, text};
use crate::core::counter::id::CounterId;
use crate::core::counter::ledger::WriteKey;
use crate::host::object::Value;
use crate::protocol::messages::{Fault, decode, encode};

const SCHEMA_VERSION: i64 = 1;

/// `key` sorts as what it is made of, see [`row_key`]. WITHOUT ROWID: an upsert writes one row.
const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS rows (counter TEXT NOT NULL, key BLOB NOT NULL, body BLOB NOT NULL, \
    PRIMARY KEY (counter, key)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS alarms (counter TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS alarms_by_time ON alarms (at_ms)",
];

/// The log is folded after so many rows: a restart reads them again, in some 10 ms.
const LOG_ROWS_MAX: u64 = 512;

/// The log is folded after so many bytes: they are in memory too, for each of at most 64 tablets that are busy at once 64 MiB in all.
const LOG_BYTES_MAX: usize = 1 << 20;

/// The most bytes of one row of the log: a row of storage holds 2 MB.
const LOG_ROW_BYTES_MAX: usize = 1 << 20;

/// Rows of the table that one statement writes: it may bind 100 values.
const ROWS_AT_ONCE: usize = 33;

/// Kind of a row of the ledger, behind those of cells.
const LEDGER: u8 = 200;

/// Kind of a cell's alarm.
const ALARM: u8 = 201;

/// A row: whose, and which.
type Name = (CounterId, Vec<u8>);

/// What a row held in memory before it was changed: nothing, or a body, or that it is deleted.
type Before = Option<Option<Vec<u8>>>;

/// The rows of all tenants of a tablet.
pub(super) struct TabletRows {
    store: Store,
    has_schema: Cell<bool>,
    /// What the log holds: a body, or that the row is deleted.
    unfolded: RefCell<BTreeMap<Name, Option<Vec<u8>>>>,
    turn: RefCell<Turn>,
    log_rows: Cell<u64>,
    log_bytes: Cell<usize>,
    next_number: Cell<i64>,
    /// When the object's alarm rings, unix milliseconds.
    armed_ms: Cell<i64>,
}

/// What the turn under way has changed.
#[derive(Default)]
struct Turn {
    depth: u32,
    changed: Vec<(Name, Before)>,
}

/// The bytes of a row's name: its kind, and its start in big endian with the sign turned, so that they sort alike.
fn row_key(kind: u8, start: i64) -> Vec<u8> {
    let mut key = Vec::with_capacity(9);
    key.push(kind);
    key.extend_from_slice(&(start ^ i64::MIN).to_be_bytes());
    key
}

fn start_of(key: &[u8]) -> Option<i64> {
    let bytes = key.get(1..9)?.try_into().ok()?;
    Some(i64::from_be_bytes(bytes) ^ i64::MIN)
}

fn kind_of(kind: i32) -> u8 {
    u8::try_from(kind).unwrap_or(LEDGER)
}

fn no_rows(result: Result<Vec<Vec<Value>>, Fault>) -> Result<(), Fault> {
    result.map(|_| ())
}

impl TabletRows {
    /// The rows of a tablet, with what its log holds.
    pub(super) fn open(store: Store) -> (Rc<Self>, Result<(), Fault>) {
        let rows = Rc::new(Self {
            store,
            has_schema: Cell::new(false),
            unfolded: RefCell::default(),
            turn: RefCell::default(),
            log_rows: Cell::new(0),
            log_bytes: Cell::new(0),
            next_number: Cell::new(0),
            armed_ms: Cell::new(i64::MAX),
        });
        let read = rows.read_log();
        (rows, read)
    }

    /// Reads the log into memory, anew.
    ///
    /// # Errors
    /// `Broken` for what this build cannot read.
    pub(super) fn read_log(&self) -> Result<(), Fault> {
        let version = self.store.schema_version(SCHEMA_VERSION)?;
        self.has_schema.set(version.is_some());
        let mut unfolded = BTreeMap::new();
        let (mut rows, mut bytes, mut next) = (0, 0, 0);
        if version.is_some() {
            let log = self
                .store
                .run("SELECT number, body FROM log ORDER BY number", vec![])?;
            for row in &log {
                let [number, body] = row.as_slice() else {
                    continue;
                };
                let body = blob(body).unwrap_or_default();
                let changes: Vec<(Name, Option<Vec<u8>>)> = decode(body)?;
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

    /// Does something as one turn: all that it changes is one transaction, or, if it fails, nothing. A turn within a turn is part of it.
    ///
    /// # Errors
    /// What `body` fails with; `Unavailable` where storage refuses. Then memory holds what it held before.
    pub(super) fn turn<T>(&self, body: &mut dyn FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
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

    /// Takes back what was changed since then.
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

    fn change(&self, name: Name, body: Option<Vec<u8>>) -> Result<(), Fault> {
        self.turn(&mut || {
            let before = self
                .unfolded
                .borrow_mut()
                .insert(name.clone(), body.clone());
            self.turn.borrow_mut().changed.push((name.clone(), before));
            Ok(())
        })
    }

    /// Appends what the turn has changed to the log.
    fn commit(&self) -> Result<(), Fault> {
        let bodies = self.bodies()?;
        if bodies.is_empty() {
            return Ok(());
        }
        if !self.has_schema.get() {
            self.store.create_schema(SCHEMA_VERSION, SCHEMA)?;
            self.has_schema.set(true);
        }
        let first = self.next_number.get();
        let append = |(number, body): (i64, &Vec<u8>)| {
            no_rows(self.store.run(
                "INSERT INTO log VALUES (?, ?)",
                vec![number.into(), body.clone().into()],
            ))
        };
        match bodies.as_slice() {
            // One row is atomic by itself.
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
            // Where it fails the log is longer, and the next commit tries again.
            let _ = self.fold();
        }
        Ok(())
    }

    /// What the turn has changed, as rows of the log: nearly always one.
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
                bodies.push(encode(&part)?);
                (part, bytes) = (Vec::new(), 0);
            }
        }
        if !part.is_empty() {
            bodies.push(encode(&part)?);
        }
        Ok(bodies)
    }

    /// Whether the log holds anything.
    pub(super) fn is_unfolded(&self) -> bool {
        self.log_rows.get() > 0
    }

    /// Writes what the log holds to the table, and empties it.
    ///
    /// # Errors
    /// `Unavailable`; then nothing has changed.
    pub(super) fn fold(&self) -> Result<(), Fault> {
        if !self.is_unfolded() {
            return Ok(());
        }
        {
            let unfolded = self.unfolded.borrow();
            let kept = |name: &Name| name.1.first() != Some(&ALARM);
            let puts: Vec<(&Name, &Vec<u8>)> = unfolded
                .iter()
                .filter_map(|(name, body)| Some((name, body.as_ref()?)))
                .filter(|(name, _)| kept(name))
                .collect();
            self.store.atomically(|| {
                puts.chunks(ROWS_AT_ONCE)
                    .try_for_each(|some| self.put_rows(some))?;
                for (name, body) in unfolded.iter() {
                    match (kept(name), body) {
                        (true, Some(_)) => {}
                        (true, None) => no_rows(self.store.run(
                            "DELETE FROM rows WHERE counter = ? AND key = ?",
                            vec![name.0.as_str().into(), name.1.clone().into()],
                        ))?,
                        (false, body) => self.put_alarm(&name.0, body.as_deref())?,
                    }
                }
                no_rows(self.store.run("DELETE FROM log", vec![]))
            })?;
        }
        self.unfolded.borrow_mut().clear();
        self.log_rows.set(0);
        self.log_bytes.set(0);
        Ok(())
    }

    fn put_rows(&self, rows: &[(&Name, &Vec<u8>)]) -> Result<(), Fault> {
        let places = vec!["(?, ?, ?)"; rows.len()].join(", ");
        let statement = [
            "INSERT INTO rows VALUES ",
            &places,
            " ON CONFLICT (counter, key) DO UPDATE SET body = excluded.body",
        ];
        let values = rows.iter().flat_map(|((counter, key), body)| {
            [
                counter.as_str().into(),
                key.clone().into(),
                body.to_vec().into(),
            ]
        });
        no_rows(self.store.run(&statement.concat(), values.collect()))
    }

    fn put_alarm(&self, counter: &CounterId, body: Option<&[u8]>) -> Result<(), Fault> {
        let counter: Value = counter.as_str().into();
        no_rows(match body {
            Some(body) => self.store.run(
                "INSERT INTO alarms VALUES (?, ?) ON CONFLICT (counter) DO UPDATE SET at_ms = excluded.at_ms",
                vec![counter, decode::<i64>(body)?.into()],
            ),
            None => self
                .store
                .run("DELETE FROM alarms WHERE counter = ?", vec![counter]),
        })
    }

    /// A row.
    fn get(&self, counter: &CounterId, key: Vec<u8>) -> Result<Option<Vec<u8>>, Fault> {
        let name = (counter.clone(), key);
        if let Some(body) = self.unfolded.borrow().get(&name) {
            return Ok(body.clone());
        }
        if !self.has_schema.get() {
            return Ok(None);
        }
        let rows = self.store.run(
            "SELECT body FROM rows WHERE counter = ? AND key = ?",
            vec![counter.as_str().into(), name.1.into()],
        )?;
        let body = rows.first().and_then(|row| row.first()).and_then(blob);
        Ok(body.map(<[u8]>::to_vec))
    }

    /// The rows of a tenant in `from..before`, in order.
    fn between(
        &self,
        counter: &CounterId,
        from: &[u8],
        before: &[u8],
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Fault> {
        let mut found = BTreeMap::new();
        if self.has_schema.get() {
            let rows = self.store.run(
                "SELECT key, body FROM rows WHERE counter = ? AND key >= ? AND key < ?",
                vec![
                    counter.as_str().into(),
                    from.to_vec().into(),
                    before.to_vec().into(),
                ],
            )?;
            for row in rows {
                if let [Value::Blob(key), Value::Blob(body)] = row.as_slice() {
                    found.insert(key.clone(), body.clone());
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

    /// Whether a tenant has a row in `from..before`.
    fn has_rows(&self, counter: &CounterId, from: &[u8], before: &[u8]) -> Result<bool, Fault> {
        let range = (counter.clone(), from.to_vec())..(counter.clone(), before.to_vec());
        let (mut is_there, mut is_changed) = (false, false);
        for body in self.unfolded.borrow().range(range).map(|(_, body)| body) {
            is_there |= body.is_some();
            is_changed = true;
        }
        if is_there || !self.has_schema.get() {
            return Ok(is_there);
        }
        if is_changed {
            return Ok(!self.between(counter, from, before)?.is_empty());
        }
        let rows = self.store.run(
            "SELECT 1 FROM rows WHERE counter = ? AND key >= ? AND key < ? LIMIT 1",
            vec![
                counter.as_str().into(),
                from.to_vec().into(),
                before.to_vec().into(),
            ],
        )?;
        Ok(!rows.is_empty())
    }

    /// Waits until all that was written so far is durable.
    pub(super) async fn sync(&self) -> Result<(), Fault> {
        self.store.sync().await
    }

    /// The tenants whose alarms ring by then, at most so many, with the times that they were set to; the earliest first.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn due(&self, by_ms: i64, most: usize) -> Result<Vec<(CounterId, i64)>, Fault> {
        let mut due = BTreeMap::new();
        if self.has_schema.get() {
            // What the log says of some of these is not in the table yet.
            let limit = most.saturating_add(self.unfolded.borrow().len());
            let rows = self.store.run(
                "SELECT counter, at_ms FROM alarms WHERE at_ms <= ? ORDER BY at_ms LIMIT ?",
                vec![
                    by_ms.into(),
                    i64::try_from(limit).unwrap_or(i64::MAX).into(),
                ],
            )?;
            for row in &rows {
                if let [counter, at_ms] = row.as_slice()
                    && let (Some(counter), Some(at_ms)) = (text(counter), integer(at_ms))
                    && let Ok(counter) = CounterId::parse(counter)
                {
                    due.insert(counter, at_ms);
                }
            }
        }
        for ((counter, key), body) in self.unfolded.borrow().iter() {
            if key.first() == Some(&ALARM) {
                due.remove(counter);
                let at_ms = body.as_deref().map(decode::<i64>).transpose()?;
                if let Some(at_ms) = at_ms.filter(|at_ms| *at_ms <= by_ms) {
                    due.insert(counter.clone(), at_ms);
                }
            }
        }
        let mut due: Vec<(CounterId, i64)> = due.into_iter().collect();
        due.sort_unstable_by_key(|(_, at_ms)| *at_ms);
        due.truncate(most);
        Ok(due)
    }

    /// Deletes the alarm of a tenant that has rung, unless it was set anew meanwhile.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn rung(&self, counter: &CounterId, at_ms: i64) -> Result<(), Fault> {
        if self.alarm(counter)? == Some(at_ms) {
            self.change((counter.clone(), row_key(ALARM, 0)), None)?;
        }
        Ok(())
    }

    fn alarm(&self, counter: &CounterId) -> Result<Option<i64>, Fault> {
        let name = (counter.clone(), row_key(ALARM, 0));
        if let Some(body) = self.unfolded.borrow().get(&name) {
            return body.as_deref().map(decode).transpose();
        }
        if !self.has_schema.get() {
            return Ok(None);
        }
        let rows = self.store.run(
            "SELECT at_ms FROM alarms WHERE counter = ?",
            vec![counter.as_str().into()],
        )?;
        Ok(rows.first().and_then(|row| row.first()).and_then(integer))
    }

    /// Sets the object's alarm, unless it rings before.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) async fn arm(&self, at_ms: i64) -> Result<(), Fault> {
        if at_ms >= self.armed_ms.get() {
            return Ok(());
        }
        self.armed_ms.set(at_ms);
        let set = self.store.set_alarm_by(at_ms).await;
        if set.is_err() {
            self.armed_ms.set(i64::MAX);
        }
        set
    }

    /// The object's alarm has rung: it is not set any more.
    pub(super) fn disarmed(&self) {
        self.armed_ms.set(i64::MAX);
    }
}

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

    pub(super) fn delete_between(&self, kind: i32, between: (i64, i64)) -> Result<(), Fault> {
        let starts = self.between(kind, between)?;
        self.tablet.turn(&mut || {
            starts
                .iter()
                .try_for_each(|(start, _)| self.delete(kind, *start))
        })
    }

    pub(super) fn keep_only(&self, kinds: [i32; 2]) -> Result<(), Fault> {
        let kept = kinds.map(kind_of);
        let rows = self.tablet.between(&self.counter, &[0], &[ALARM])?;
        self.tablet.turn(&mut || {
            rows.iter()
                .filter(|(key, _)| !key.first().is_some_and(|kind| kept.contains(kind)))
                .try_for_each(|(key, _)| self.change(key.clone(), None))
        })
    }

    pub(super) fn delete_all(&self) -> Result<(), Fault> {
        self.may_hold.set(false);
        let rows = self.tablet.between(&self.counter, &[0], &[ALARM])?;
        self.tablet.turn(&mut || {
            rows.iter()
                .try_for_each(|(key, _)| self.change(key.clone(), None))?;
            self.change(row_key(ALARM, 0), None)
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
        let rows = self.tablet.between(&self.counter, &[LEDGER], &before)?;
        self.tablet.turn(&mut || {
            rows.iter()
                .try_for_each(|(key, _)| self.change(key.clone(), None))
        })
    }

    /// Sets the tenant's alarm, unless it rings before.
    pub(super) async fn set_alarm_by(&self, at_ms: i64) -> Result<(), Fault> {
        let at_ms = at_ms
            .saturating_add(ALARM_STEP_MS - 1)
            .div_euclid(ALARM_STEP_MS)
            .saturating_mul(ALARM_STEP_MS);
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
