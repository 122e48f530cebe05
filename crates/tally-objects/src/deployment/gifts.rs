//! Who gave the keys, shares, alerts and policies of a partition, and whose part of a table each fills.
//!
//! Invariant: a gift is stored and deleted in the commit of what was given. What earlier builds stored has none: nobody
//! gave it, and it fills no part.

use std::cell::Cell;
use std::rc::Rc;

use crate::kit::store::{Store, integer, text};
use tally_host::object::SqlValue;
use tally_wire::messages::Fault;
use tally_wire::rights::{Filled, Gift, Giver};

/// Created with the first gift.
const SCHEMA: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS gifts (name TEXT PRIMARY KEY, giver TEXT NOT NULL, account TEXT NOT NULL, \
     narrow INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS gifts_by_giver ON gifts (giver)",
    "CREATE INDEX IF NOT EXISTS gifts_by_account ON gifts (account, name)",
];

/// What a gift is, by the beginning of its names, and the first text after all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GiftKind(pub(super) &'static str, pub(super) &'static str);

impl GiftKind {
    fn name(self, name: &str) -> String {
        [self.0, name].concat()
    }
}

/// The gifts of a partition.
#[derive(Clone)]
pub(crate) struct GiftStore {
    store: Store,
    has_table: Rc<Cell<bool>>,
}

impl GiftStore {
    /// The gifts in an object's database.
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            has_table: Rc::default(),
        }
    }

    /// Makes the table, if there is none. To be called before a commit of several writes, which may be undone.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn prepare(&self) -> Result<(), Fault> {
        if !self.has_table.get() {
            for statement in SCHEMA {
                self.store.run(statement, vec![])?;
            }
            self.has_table.set(true);
        }
        Ok(())
    }

    fn run(&self, sql: &str, values: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, Fault> {
        self.prepare()?;
        self.store.run(sql, values)
    }

    /// Who gave something; nobody where that is not known.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Unreadable` for a damaged row; as for all methods below.
    pub(super) fn get(&self, kind: GiftKind, name: &str) -> Result<Gift, Fault> {
        let sql = "SELECT body FROM gifts WHERE name = ?";
        let rows = self.run(sql, vec![kind.name(name).into()])?;
        let body = rows.first().and_then(|row| row.first());
        body.map_or_else(|| Ok(Gift::default()), |body| self.store.get(body))
    }

    /// Stores who gave something.
    pub(super) fn put(&self, kind: GiftKind, name: &str, gift: &Gift) -> Result<(), Fault> {
        let giver = match gift.giver {
            Giver::Key(id) => id.to_string(),
            Giver::Nobody | Giver::Configured(..) => String::new(),
        };
        self.run(
            "INSERT INTO gifts VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET giver = excluded.giver, \
             account = excluded.account, narrow = excluded.narrow, body = excluded.body",
            vec![
                kind.name(name).into(),
                giver.into(),
                gift.account.as_str().into(),
                i64::from(gift.is_narrow).into(),
                self.store.put(gift)?,
            ],
        )?;
        Ok(())
    }

    /// Deletes who gave something.
    pub(super) fn remove(&self, kind: GiftKind, name: &str) -> Result<(), Fault> {
        let sql = "DELETE FROM gifts WHERE name = ?";
        self.run(sql, vec![kind.name(name).into()]).map(drop)
    }

    /// The names of what a key gave.
    pub(super) fn given_by(&self, kind: GiftKind, giver: &str) -> Result<Vec<String>, Fault> {
        let (from, to) = (kind.0, kind.1);
        let rows = self.run(
            "SELECT name FROM gifts WHERE giver = ? AND name >= ? AND name < ? ORDER BY name",
            vec![giver.into(), from.into(), to.into()],
        )?;
        let names = rows.iter().filter_map(|row| row.first()).filter_map(text);
        Ok(names
            .filter_map(|name| name.strip_prefix(from).map(str::to_owned))
            .collect())
    }

    /// How many rows of a table narrow callers fill, and the account of this gift; of `rows` in all.
    pub(super) fn filled(&self, kind: GiftKind, gift: &Gift, rows: u64) -> Result<Filled, Fault> {
        let (from, to) = (kind.0, kind.1);
        let count = |sql: &str, values: Vec<SqlValue>| -> Result<u64, Fault> {
            let rows = self.run(sql, values)?;
            let count = rows.first().and_then(|row| row.first()).and_then(integer);
            Ok(count
                .and_then(|count| u64::try_from(count).ok())
                .unwrap_or(u64::MAX))
        };
        Ok(Filled {
            rows,
            own: count(
                "SELECT count(*) FROM gifts WHERE account = ? AND name >= ? AND name < ?",
                vec![gift.account.as_str().into(), from.into(), to.into()],
            )?,
            narrow: count(
                "SELECT count(*) FROM gifts WHERE name >= ? AND name < ? AND narrow = 1",
                vec![from.into(), to.into()],
            )?,
        })
    }
}
