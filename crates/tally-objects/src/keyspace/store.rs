//! The rows of a keyspace: values that are no counters, expiry times of counters, and replies to named attempts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::kit::store::{Insert, Store, blob, integer, text};
use tally_core::callers::account::AccountId;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::ledger::WriteKey;
use tally_host::object::SqlValue;
use tally_redis::account_room::{AccountSizes, ROW_BYTES, RowPart};
use tally_redis::kept_replies::{KeptReplies, size_of};
use tally_redis::space::StoredValue;
use tally_wire::messages::{Fault, KeptSize};
use tally_wire::redis::Reply;
use tally_wire::stored::{Damage, FRAME_BYTES};

const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, body BLOB NOT NULL, expires_ms INTEGER, \
        part BLOB) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS keys_by_end ON keys (expires_ms) WHERE expires_ms IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS tries (name BLOB PRIMARY KEY, fingerprint BLOB NOT NULL, reply BLOB NOT NULL, \
        until_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS tries_by_time ON tries (until_ms)",
    KEPT_SIZES,
    "CREATE TABLE IF NOT EXISTS account_sizes (account BLOB PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID",
];

/// The sizes of stored replies, also of those that boards store.
const KEPT_SIZES: &str = "CREATE TABLE IF NOT EXISTS kept_sizes (slot INTEGER NOT NULL, caller BLOB NOT NULL, \
    body BLOB NOT NULL, PRIMARY KEY (slot, caller)) WITHOUT ROWID";

/// The most cached rows, including missing ones. A read of another row costs a statement.
const ROWS_KNOWN_MAX: usize = 10_000;

/// The most bytes of a cached key and its value, so 10 MB in all: a window of a limit has about 200.
const ROW_KNOWN_BYTES_MAX: usize = 1_024;

/// The names that one statement reads: about 1 MB.
pub(super) const NAMES_PAGE: usize = 10_000;

const PUT_KEY: Insert<'_> = Insert {
    into: "INSERT OR REPLACE INTO keys VALUES",
    places: "(?, ?, ?, ?)",
    conflict: "",
};

/// Used if the key has a row with the same expiry: the index of expiries does not change.
const PUT_VALUE: Insert<'_> = Insert {
    into: "INSERT INTO keys VALUES",
    places: "(?, ?, ?, ?)",
    conflict: "ON CONFLICT (key) DO UPDATE SET body = excluded.body, part = excluded.part",
};

const PUT_SIZE: Insert<'_> = Insert {
    into: "INSERT INTO account_sizes VALUES",
    places: "(?, ?)",
    conflict: "ON CONFLICT (account) DO UPDATE SET bytes = excluded.bytes",
};

/// The row of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Its value; `None` for a counter, whose value is in cells.
    pub(super) value: Option<StoredValue>,
    /// The target of the expiry, if the value is elsewhere.
    pub(super) target: Option<ExpiryTarget>,
    /// Its expiry, unix milliseconds.
    pub(super) expires_ms: Option<i64>,
    /// What it counts for the account that wrote it; set where it is written.
    pub(super) part: Option<RowPart>,
}

impl Row {
    fn part_for(&self, account: AccountId, key: &str) -> Option<RowPart> {
        let value = self.value.as_ref().map_or(0, StoredValue::bytes);
        let bytes = u64::try_from(key.len() + value).unwrap_or(u64::MAX);
        account.is_some().then_some(RowPart {
            account,
            bytes: bytes.saturating_add(ROW_BYTES),
        })
    }
}

/// A counter or a board of one generation; a later generation of that name is another target. Stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ExpiryTarget {
    /// A counter, by its generation.
    Counter(u64),
    /// A board, by its generation.
    Board(u64),
}

/// A key by its name.
pub(super) struct KeyName {
    pub(super) key: String,
    /// The type of a value that is stored here; `None` if it is in cells or in a board.
    pub(super) type_name: Option<&'static str>,
    pub(super) has_ended: bool,
}

/// The reply to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Try {
    pub(crate) name: WriteKey,
    pub(super) fingerprint: u64,
    pub(super) reply: Reply,
    pub(super) caller: u64,
    /// When it may be deleted, unix milliseconds.
    pub(super) slot: i64,
}

/// The rows.
pub(super) struct KeyspaceStore {
    store: Store,
    /// Cached rows. Only this object writes them.
    known: RefCell<BoundedMap<String, Option<Row>, ROWS_KNOWN_MAX>>,
    /// The sizes of stored replies; `None` until they are read, and after a write that failed.
    kept: RefCell<Option<KeptReplies>>,
    /// The sizes of accounts, likewise.
    sizes: RefCell<Option<AccountSizes>>,
    /// The keys whose rows wait to be written in this turn, and whether their expiries are written too.
    whole: RefCell<BTreeMap<String, bool>>,
}

impl KeyspaceStore {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            known: RefCell::default(),
            kept: RefCell::default(),
            sizes: RefCell::default(),
            whole: RefCell::default(),
        }
    }

    /// Creates the tables where there are none.
    ///
    /// # Errors
    /// `Unreadable` for a schema from the future, `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) fn open(&self) -> Result<(), Fault> {
        match self.store.has_schema()? {
            true => Ok(()),
            false => self.store.create_schema(SCHEMA),
        }
    }

    /// The row of a key, also if it has expired.
    pub(super) fn row(&self, key: &str) -> Result<Option<Row>, Fault> {
        if let Some(known) = self.known.borrow_mut().get(key) {
            return Ok(known.clone());
        }
        let query = "SELECT body, expires_ms, part FROM keys WHERE key = ?";
        let rows = self.store.run(query, vec![key.into()])?;
        let row = match rows.first() {
            None => None,
            Some(row) => {
                let (value, target) = self.value(row.first().unwrap_or(&SqlValue::Null))?;
                Some(Row {
                    value,
                    target,
                    expires_ms: row.get(1).and_then(integer),
                    part: row.get(2).and_then(blob).and_then(RowPart::of_bytes),
                })
            }
        };
        self.remember(key, &row);
        Ok(row)
    }

    /// A value, or the expiry target if the value is elsewhere.
    fn value(&self, body: &SqlValue) -> Result<(Option<StoredValue>, Option<ExpiryTarget>), Fault> {
        self.store.get(body)
    }

    fn remember(&self, key: &str, row: &Option<Row>) {
        let value = row.as_ref().and_then(|row| row.value.as_ref());
        let bytes = key.len() + value.map_or(0, StoredValue::bytes);
        let mut known = self.known.borrow_mut();
        if bytes <= ROW_KNOWN_BYTES_MAX {
            known.insert(key.to_owned(), row.clone());
        } else {
            known.remove(key);
        }
    }

    /// Runs work that reads and writes rows in one turn. Single rows are written together, at the end.
    ///
    /// # Errors
    /// `Unavailable` if any row could not be written: then no reply of this turn may be sent.
    pub(super) fn together<T>(&self, work: impl FnOnce() -> T) -> Result<T, Fault> {
        self.store.gather(true);
        self.whole.borrow_mut().clear();
        let done = work();
        let written = self.store.write_gathered();
        self.whole.borrow_mut().clear();
        if written.is_err() {
            self.forget_all();
        }
        written.map(|()| done)
    }

    /// Forgets what is cached: a write has failed.
    fn forget_all(&self) {
        self.known.borrow_mut().clear();
        self.kept.take();
        self.sizes.take();
    }

    fn with_sizes<T>(&self, work: impl FnOnce(&mut AccountSizes) -> T) -> Result<T, Fault> {
        let mut known = self.sizes.borrow_mut();
        if known.is_none() {
            let rows = self
                .store
                .run("SELECT account, bytes FROM account_sizes", vec![])?;
            let read = |row: &Vec<SqlValue>| {
                let account = row.first().and_then(blob)?.try_into().ok()?;
                let bytes = row.get(1).and_then(integer)?;
                let bytes = u64::try_from(bytes).unwrap_or(0);
                Some((AccountId(u64::from_le_bytes(account)), bytes))
            };
            *known = Some(AccountSizes::of(rows.iter().filter_map(read)));
        }
        Ok(work(known.get_or_insert_default()))
    }

    /// What the row of a key counts now. Its value is not read.
    fn part(&self, key: &str) -> Result<Option<RowPart>, Fault> {
        if let Some(known) = self.known.borrow_mut().get(key) {
            return Ok(known.as_ref().and_then(|row| row.part));
        }
        let rows = (self.store).run("SELECT part FROM keys WHERE key = ?", vec![key.into()])?;
        let part = rows.first().and_then(|row| row.first()).and_then(blob);
        Ok(part.and_then(RowPart::of_bytes))
    }

    /// Whether an account may write these rows.
    pub(super) fn has_room_for(
        &self,
        account: AccountId,
        changes: &[(String, Option<Row>)],
    ) -> Result<bool, Fault> {
        if !account.is_some() {
            return Ok(true);
        }
        let (mut replaced, mut bytes) = (0_u64, 0_u64);
        for (key, row) in changes {
            let before = self.part(key)?.filter(|part| part.account == account);
            replaced = replaced.saturating_add(before.map_or(0, |part| part.bytes));
            let after = row.as_ref().and_then(|row| row.part_for(account, key));
            bytes = bytes.saturating_add(after.map_or(0, |part| part.bytes));
        }
        self.with_sizes(|sizes| sizes.has_room(account, replaced, bytes))
    }

    /// Counts these changes for the accounts of their rows. Returns the rows as they are stored, and the accounts whose
    /// sizes change. Cost: none while no account has a row.
    #[expect(clippy::type_complexity, reason = "both are used at once")]
    fn count_parts(
        &self,
        account: AccountId,
        changes: &[(String, Option<Row>)],
    ) -> Result<(Vec<(String, Option<Row>)>, BTreeSet<AccountId>), Fault> {
        let mut rows = changes.to_vec();
        let mut changed = BTreeSet::new();
        if !account.is_some() && self.with_sizes(|sizes| sizes.is_empty())? {
            return Ok((rows, changed));
        }
        for (key, row) in &mut rows {
            let before = self.part(key)?;
            if let Some(row) = row {
                row.part = row.part_for(account, key);
            }
            let after = row.as_ref().and_then(|row| row.part);
            changed.extend(self.with_sizes(|sizes| sizes.replace(before, after))?);
        }
        Ok((rows, changed))
    }

    /// Deletes these keys, and writes the reply to an attempt: all or nothing.
    pub(super) fn write(
        &self,
        changes: &[(String, Option<Row>)],
        answered: Option<&Try>,
    ) -> Result<(), Fault> {
        self.write_for(AccountId::default(), changes, answered)
    }

    /// Writes these keys for an account, or deletes those without a row, and the reply to an attempt: all or nothing.
    pub(super) fn write_for(
        &self,
        account: AccountId,
        changes: &[(String, Option<Row>)],
        answered: Option<&Try>,
    ) -> Result<(), Fault> {
        if changes.is_empty() && answered.is_none() {
            return Ok(());
        }
        let (rows, accounts) = self.count_parts(account, changes)?;
        let written = match (rows.as_slice(), answered) {
            ([(key, Some(row))], None) if accounts.is_empty() => self.put(key, row),
            _ => self.write_several(&rows, &accounts, answered),
        };
        if written.is_err() {
            self.forget_all();
        } else {
            for (key, row) in &rows {
                self.remember(key, row);
            }
        }
        written
    }

    fn write_several(
        &self,
        changes: &[(String, Option<Row>)],
        accounts: &BTreeSet<AccountId>,
        answered: Option<&Try>,
    ) -> Result<(), Fault> {
        self.store.atomically(|| {
            for account in accounts {
                let size = self.with_sizes(|sizes| sizes.size(*account))?;
                let size = i64::try_from(size).unwrap_or(i64::MAX);
                let account = account.0.to_le_bytes().to_vec();
                self.store
                    .insert(&PUT_SIZE, vec![account.into(), size.into()])?;
            }
            for (key, row) in changes {
                match row {
                    Some(row) => self.put(key, row)?,
                    None => {
                        self.store
                            .run("DELETE FROM keys WHERE key = ?", vec![key.as_str().into()])?;
                    }
                }
            }
            answered.map_or(Ok(()), |answered| self.put_try(answered))
        })
    }

    fn put(&self, key: &str, row: &Row) -> Result<(), Fault> {
        let body = self.store.put(&(&row.value, row.target))?;
        let part = row.part.map(|part| part.to_bytes().to_vec());
        let part = part.map_or(SqlValue::Null, SqlValue::from);
        let values = vec![key.into(), body, SqlValue::from(row.expires_ms), part];
        let ends_as_before = {
            let known = self.known.borrow();
            let before = known.peek(key).and_then(Option::as_ref);
            before.is_some_and(|before| before.expires_ms == row.expires_ms)
        };
        // Rows of one kind are written before those of the other: a key has one kind.
        let mut whole = self.whole.borrow_mut();
        let is_whole = match whole.get(key) {
            Some(false) if !ends_as_before => {
                self.store.write_waiting()?;
                whole.clear();
                true
            }
            Some(is_whole) => *is_whole,
            None => !ends_as_before,
        };
        if self.store.gathers() {
            whole.insert(key.to_owned(), is_whole);
        }
        let insert = if is_whole { &PUT_KEY } else { &PUT_VALUE };
        self.store.insert(insert, values)
    }

    fn put_try(&self, answered: &Try) -> Result<(), Fault> {
        let values = vec![
            answered.name.0.to_vec().into(),
            answered.fingerprint.to_le_bytes().to_vec().into(),
            self.store.put(&answered.reply)?,
            answered.slot.into(),
        ];
        self.store
            .run("INSERT OR REPLACE INTO tries VALUES (?, ?, ?, ?)", values)?;
        let size = size_of(&answered.reply);
        self.account(answered.slot, answered.caller, size)
    }

    /// Whether a caller may store replies of this size.
    pub(super) fn has_room(&self, caller: u64, more: KeptSize, now_ms: i64) -> Result<bool, Fault> {
        self.with_kept(|kept| {
            // Their rows are deleted by the next alarm.
            kept.expire(now_ms);
            kept.has_room(caller, more)
        })
    }

    /// Counts replies that are stored for a caller, here or at a board.
    pub(super) fn account(&self, slot: i64, caller: u64, more: KeptSize) -> Result<(), Fault> {
        if more == KeptSize::default() {
            return Ok(());
        }
        let size = self.with_kept(|kept| kept.add(slot, caller, more))?;
        let values = vec![
            slot.into(),
            caller.to_le_bytes().to_vec().into(),
            self.store.put(&size)?,
        ];
        let statement = "INSERT OR REPLACE INTO kept_sizes VALUES (?, ?, ?)";
        let written = self.store.run(statement, values).map(|_| ());
        if written.is_err() {
            self.kept.take();
        }
        written
    }

    fn with_kept<T>(&self, work: impl FnOnce(&mut KeptReplies) -> T) -> Result<T, Fault> {
        let mut known = self.kept.borrow_mut();
        if known.is_none() {
            *known = Some(self.read_kept()?);
        }
        Ok(work(known.get_or_insert_default()))
    }

    fn read_kept(&self) -> Result<KeptReplies, Fault> {
        let mut kept = KeptReplies::default();
        let query = "SELECT slot, caller, body FROM kept_sizes";
        for row in self.store.run(query, vec![])? {
            let [slot, caller, body] = row.as_slice() else {
                continue;
            };
            let caller = blob(caller).and_then(|bytes| bytes.try_into().ok());
            if let (Some(slot), Some(caller)) = (integer(slot), caller) {
                kept.add(slot, u64::from_le_bytes(caller), self.store.get(body)?);
            }
        }
        Ok(kept)
    }

    /// The reply to an attempt, and the hash of its content.
    pub(super) fn answered(&self, name: WriteKey) -> Result<Option<(u64, Reply)>, Fault> {
        let query = "SELECT fingerprint, reply FROM tries WHERE name = ?";
        let rows = self.store.run(query, vec![name.0.to_vec().into()])?;
        let Some([fingerprint, reply]) = rows.first().map(Vec::as_slice) else {
            return Ok(None);
        };
        let fingerprint = blob(fingerprint).and_then(|bytes| bytes.try_into().ok());
        let fingerprint = fingerprint.map_or(0, u64::from_le_bytes);
        Ok(Some((fingerprint, self.store.get(reply)?)))
    }

    /// A page of the names that follow this one, or begin with it, in their order; bodies are not read.
    pub(super) fn names(
        &self,
        prefix: &str,
        after: Option<&str>,
        now_ms: i64,
    ) -> Result<Vec<KeyName>, Fault> {
        const FROM: &str = "SELECT key, substr(body, 1, 8), expires_ms FROM keys WHERE key >= ? ORDER BY key LIMIT ?";
        const AFTER: &str = "SELECT key, substr(body, 1, 8), expires_ms FROM keys WHERE key > ? ORDER BY key LIMIT ?";
        let (query, first) = after.map_or((FROM, prefix), |after| (AFTER, after));
        let limit = i64::try_from(NAMES_PAGE).unwrap_or(i64::MAX);
        let rows = self.store.run(query, vec![first.into(), limit.into()])?;
        let mut names = Vec::with_capacity(rows.len());
        for row in &rows {
            if let [key, head, expires_ms] = row.as_slice()
                && let Some(key) = text(key)
            {
                let head = blob(head).unwrap_or_default();
                names.push(KeyName {
                    key: key.to_owned(),
                    type_name: type_of(head).ok_or_else(|| self.store.damaged(Damage::Changed))?,
                    has_ended: integer(expires_ms).is_some_and(|at_ms| at_ms <= now_ms),
                });
            }
        }
        Ok(names)
    }

    /// Expired keys, in the order of their expiries.
    pub(super) fn lapsed(&self, now_ms: i64, limit: usize) -> Result<Vec<String>, Fault> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let query = "SELECT key FROM keys WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?";
        let rows = self.store.run(query, vec![now_ms.into(), limit.into()])?;
        let keys = rows.iter().filter_map(|row| row.first().and_then(text));
        Ok(keys.map(str::to_owned).collect())
    }

    /// Deletes old attempts.
    pub(super) fn forget_tries(&self, now_ms: i64) -> Result<(), Fault> {
        for statement in [
            "DELETE FROM tries WHERE until_ms <= ?",
            "DELETE FROM kept_sizes WHERE slot <= ?",
        ] {
            self.store.run(statement, vec![now_ms.into()])?;
        }
        Ok(())
    }

    /// Deletes all keys.
    pub(super) fn clear(&self) -> Result<(), Fault> {
        self.known.borrow_mut().clear();
        self.sizes.take();
        self.store.atomically(|| {
            for statement in ["DELETE FROM account_sizes", "DELETE FROM keys"] {
                self.store.run(statement, vec![])?;
            }
            Ok(())
        })
    }

    /// When the next key expires after a time, or the next attempt may be deleted, unix milliseconds.
    pub(super) fn next_due_ms(&self, after_ms: i64) -> Result<Option<i64>, Fault> {
        let query = "SELECT MIN(due) FROM (SELECT MIN(expires_ms) AS due FROM keys WHERE expires_ms > ? \
            UNION ALL SELECT MIN(until_ms) FROM tries UNION ALL SELECT MIN(slot) FROM kept_sizes)";
        let rows = self.store.run(query, vec![after_ms.into()])?;
        Ok(rows.first().and_then(|row| row.first()).and_then(integer))
    }

    /// Sets the object's alarm, unless it rings before.
    pub(super) async fn arm_by(&self, at_ms: i64) -> Result<(), Fault> {
        self.store.set_alarm_by(at_ms).await
    }

    /// Sets the object's alarm.
    pub(super) async fn arm(&self, at_ms: i64) -> Result<(), Fault> {
        self.store.set_alarm(at_ms).await
    }
}

/// The type of a stored value by the first bytes of its body, with or without a frame; `Some(None)` if the value is
/// elsewhere, `None` for bytes that are no body.
fn type_of(head: &[u8]) -> Option<Option<&'static str>> {
    let bare = head.first().is_some_and(|first| *first <= 1);
    let body = if bare {
        Some(head)
    } else {
        head.get(FRAME_BYTES..)
    };
    match body? {
        [0, ..] => Some(None),
        [1, 0, ..] => Some(Some("string")),
        [1, 1 | 4, ..] => Some(Some("hash")),
        [1, 2, ..] => Some(Some("set")),
        _ => None,
    }
}
