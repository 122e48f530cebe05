//! The rows of a root as a bundle, which moves from one partition of the directory to another.
//!
//! Invariant: it holds all rows of one name and no others: its root, duties, claims, operations, view, totals, senders,
//! and its note as a board. Rows of the deployment (policies, shares, secrets) belong to no counter and stay.
//!
//! There may be very many claims and operations, so they are read in place. The other rows are set aside in pages when
//! the root is sealed: no list and no alarm of the partition finds them then.

use super::claim_store::{CLAIMS_SCHEMA, ClaimStore};
use super::operation_store::OPERATIONS_SCHEMA;
use crate::kit::store::{Store, blob, framed, integer, text};
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::KeySource;
use tally_core::counter::ledgers::{Ledgers, is_public};
use tally_core::order::put_in_order;
use tally_host::Host;
use tally_host::object::SqlValue;
use tally_wire::messages::{Column, Fault, RootCursor, RootRow, decode, encode};

/// Sealed roots with their targets; and the pages of their rows.
pub(super) const LEAVING_SCHEMA: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS leaving (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS leaving_rows (id TEXT NOT NULL, page INTEGER NOT NULL, body BLOB NOT NULL, \
        PRIMARY KEY (id, page)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS arrived (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
];

/// Claims in one page, of about 80 bytes each.
const CLAIMS_AT_ONCE: i64 = 2_048;

/// Operations in one page: the stored answer of one has at most 16 KB.
const OPERATIONS_AT_ONCE: i64 = 16;

/// Bytes of a page of the other rows; each has at least one row.
const PAGE_BYTES_MAX: usize = 256 << 10;

/// A table with rows by name, and how its columns are read.
struct Table {
    name: &'static str,
    /// The column with the name.
    id: &'static str,
    columns: &'static [&'static str],
    /// The indices of the columns that are bodies, which are stored with a frame.
    bodies: &'static [usize],
}

/// The numbers of tables are part of messages: they never change.
const TABLES: [Table; 5] = [
    Table {
        name: "roots",
        id: "id",
        columns: &["id", "live", "due_at", "body"],
        bodies: &[3],
    },
    Table {
        name: "duties",
        id: "id",
        columns: &["id", "datacenter", "kind", "generation", "due_at", "tries"],
        bodies: &[],
    },
    Table {
        name: "views",
        id: "id",
        columns: &["id", "body"],
        bodies: &[1],
    },
    Table {
        name: "senders",
        id: "id",
        columns: &["id", "lane", "at", "holds", "body"],
        bodies: &[4],
    },
    Table {
        name: "boards",
        id: "name",
        columns: &["name", "generation"],
        bodies: &[],
    },
];
const TOTALS: u8 = 5;
const CLAIMS: u8 = 6;
const OPERATIONS: u8 = 7;

/// The columns of totals that JavaScript numbers hold exactly, and the body. All others are sent as texts.
const TOTALS_PLAIN: [&str; 7] = [
    "id",
    "as_of",
    "hour",
    "value_size",
    "counted_size",
    "uniques_size",
    "body",
];
const TOTALS_BODY: usize = 6;

/// A page of rows, and the position of the next.
pub(super) type RootPage = (Vec<RootRow>, Option<RootCursor>);

/// The rows of names in one partition.
pub(super) struct RootBundles {
    store: Store,
    claims: ClaimStore,
    /// The columns of totals that are sent as texts.
    wide: Vec<String>,
}

impl RootBundles {
    /// The bundles in an object's database.
    pub(super) fn new(host: &Host, store: &Store, wide: Vec<String>) -> Self {
        Self {
            store: store.clone(),
            claims: ClaimStore::new(host, store),
            wide,
        }
    }

    fn column(&self, value: &SqlValue, is_body: bool) -> Result<Column, Fault> {
        Ok(match value {
            SqlValue::Null => Column::Null,
            _ if is_body => Column::Bytes(self.store.body(value)?.to_vec()),
            SqlValue::Integer(number) => Column::Whole(*number),
            SqlValue::Text(text) => Column::Text(text.clone()),
            SqlValue::Blob(bytes) => Column::Bytes(bytes.clone()),
            SqlValue::Real(_) => return Err(Fault::Broken("a row holds a fraction".to_owned())),
        })
    }

    fn value(&self, column: Column, is_body: bool) -> Result<SqlValue, Fault> {
        Ok(match column {
            Column::Null => SqlValue::Null,
            Column::Bytes(bytes) if is_body => framed(&bytes),
            Column::Whole(number) => number.into(),
            Column::Text(text) => text.into(),
            Column::Bytes(bytes) => bytes.into(),
        })
    }

    fn columns(&self, row: &[SqlValue], bodies: &[usize]) -> Result<Vec<Column>, Fault> {
        let column =
            |(index, value): (usize, &SqlValue)| self.column(value, bodies.contains(&index));
        row.iter().enumerate().map(column).collect()
    }

    fn values(&self, row: Vec<Column>, bodies: &[usize]) -> Result<Vec<SqlValue>, Fault> {
        let value = |(index, column)| self.value(column, bodies.contains(&index));
        row.into_iter().enumerate().map(value).collect()
    }

    fn has_totals(&self) -> Result<bool, Fault> {
        let sql = "SELECT 1 FROM sqlite_master WHERE name = 'totals'";
        Ok(!self.store.run(sql, vec![])?.is_empty())
    }

    /// The rows of a name except claims and operations.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) fn rows(&self, name: &CounterId) -> Result<Vec<RootRow>, Fault> {
        let mut all = Vec::new();
        for (number, table) in (0..).zip(&TABLES) {
            let sql = format!(
                "SELECT {} FROM {} WHERE {} = ?",
                table.columns.join(", "),
                table.name,
                table.id
            );
            for row in self.store.run(&sql, vec![name.as_str().into()])? {
                all.push((number, self.columns(&row, table.bodies)?));
            }
        }
        if self.has_totals()? {
            let wide = self.wide.iter().map(|name| format!("CAST({name} AS TEXT)"));
            let wide: Vec<String> = wide.collect();
            let plain = TOTALS_PLAIN.join(", ");
            let sql = format!(
                "SELECT {plain}, {} FROM totals WHERE id = ?",
                wide.join(", ")
            );
            for row in self.store.run(&sql, vec![name.as_str().into()])? {
                all.push((TOTALS, self.columns(&row, &[TOTALS_BODY])?));
            }
        }
        Ok(all)
    }

    /// Whether a name is here: its root, its note as a board, or notifications of its end. All other rows belong to one
    /// of these, and are leftovers without them. The record of an ended generation is kept for as long as claims and
    /// operations ([`RootBundles::last_record_ms`]).
    pub(super) fn is_home(&self, name: &CounterId) -> Result<bool, Fault> {
        let sql = "SELECT 1 FROM roots WHERE id = ?1 UNION ALL SELECT 1 FROM boards WHERE name = ?1 \
            UNION ALL SELECT 1 FROM duties WHERE id = ?1 LIMIT 1";
        Ok(!self.store.run(sql, vec![name.as_str().into()])?.is_empty())
    }

    /// Deletes the rows of a name except claims and operations.
    pub(super) fn delete_rows(&self, name: &CounterId) -> Result<(), Fault> {
        for table in &TABLES {
            let sql = format!("DELETE FROM {} WHERE {} = ?", table.name, table.id);
            self.store.run(&sql, vec![name.as_str().into()])?;
        }
        if self.has_totals()? {
            let id = vec![name.as_str().into()];
            self.store.run("DELETE FROM totals WHERE id = ?", id)?;
        }
        Ok(())
    }

    /// Writes such rows. The table of totals exists.
    pub(super) fn put_rows(&self, rows: Vec<RootRow>) -> Result<(), Fault> {
        let broken = || Fault::Broken("a row of a root is of no table".to_owned());
        for (number, columns) in rows {
            if number == TOTALS {
                self.put_totals(columns)?;
                continue;
            }
            let table = TABLES.get(usize::from(number)).ok_or_else(broken)?;
            let values = self.values(columns, table.bodies)?;
            let placeholders = vec!["?"; table.columns.len()].join(", ");
            let columns = table.columns.join(", ");
            let sql = format!(
                "INSERT INTO {} ({columns}) VALUES ({placeholders})",
                table.name
            );
            self.store.run(&sql, values)?;
        }
        Ok(())
    }

    fn put_totals(&self, columns: Vec<Column>) -> Result<(), Fault> {
        let values = self.values(columns, &[TOTALS_BODY])?;
        let plain = vec!["?"; TOTALS_PLAIN.len()].join(", ");
        let wide = vec!["CAST(? AS INTEGER)"; self.wide.len()].join(", ");
        let sql = format!(
            "INSERT INTO totals ({}, {}) VALUES ({plain}, {wide})",
            TOTALS_PLAIN.join(", "),
            self.wide.join(", ")
        );
        self.store.run(&sql, values).map(drop)
    }

    /// Sets the rows of a name aside in pages.
    pub(super) fn lay_aside(&self, name: &CounterId) -> Result<(), Fault> {
        let (mut page, mut bytes, mut number) = (Vec::new(), 0_usize, 0_i64);
        let write = |page: &mut Vec<RootRow>, number: i64| {
            let body = framed(&encode(&std::mem::take(page))?);
            let values = vec![name.as_str().into(), number.into(), body];
            let sql = "INSERT INTO leaving_rows VALUES (?, ?, ?)";
            self.store.run(sql, values).map(drop)
        };
        for row in self.rows(name)? {
            bytes = bytes.saturating_add(encode(&row)?.len());
            page.push(row);
            if bytes > PAGE_BYTES_MAX {
                write(&mut page, number)?;
                (bytes, number) = (0, number + 1);
            }
        }
        write(&mut page, number)?;
        self.delete_rows(name)
    }

    /// One page of the rows set aside.
    fn laid_aside(&self, name: &CounterId, page: u32) -> Result<RootPage, Fault> {
        let rows = self.store.run(
            "SELECT body FROM leaving_rows WHERE id = ? AND page >= ? ORDER BY page LIMIT 2",
            vec![name.as_str().into(), i64::from(page).into()],
        )?;
        let body = rows.first().and_then(|row| row.first());
        let missing = || Fault::Broken("a page of a root is not there".to_owned());
        let body = self.store.body(body.ok_or_else(missing)?)?;
        let next = (rows.len() > 1).then(|| RootCursor::Rest(page.saturating_add(1)));
        Ok((decode(body)?, next))
    }

    /// Restores the rows set aside.
    pub(super) fn put_back(&self, name: &CounterId) -> Result<(), Fault> {
        let mut page = 0;
        loop {
            let (rows, next) = self.laid_aside(name, page)?;
            self.put_rows(rows)?;
            match next {
                Some(RootCursor::Rest(next)) => page = next,
                _ => break,
            }
        }
        self.forget_laid_aside(name)
    }

    /// Deletes the rows set aside.
    pub(super) fn forget_laid_aside(&self, name: &CounterId) -> Result<(), Fault> {
        let id = vec![name.as_str().into()];
        self.store
            .run("DELETE FROM leaving_rows WHERE id = ?", id)?;
        Ok(())
    }

    /// The rows of a sealed root, from a position on.
    pub(super) fn page(
        &self,
        name: &CounterId,
        from: Option<RootCursor>,
    ) -> Result<RootPage, Fault> {
        let from = from.unwrap_or(RootCursor::Claims(i64::MIN, Vec::new()));
        match from {
            RootCursor::Rest(page) => self.laid_aside(name, page),
            from => self.records(name, from),
        }
    }

    /// Claims or operations of a name, of one slot.
    fn records(&self, name: &CounterId, from: RootCursor) -> Result<RootPage, Fault> {
        let (number, slot, after) = match from {
            RootCursor::Claims(slot, after) => (CLAIMS, slot, after),
            RootCursor::Operations(slot, after) => (OPERATIONS, slot, after),
            RootCursor::Rest(_) => return Ok((Vec::new(), None)),
        };
        let mut slots = self.claims.claims()?.slots(KeySource::Clients);
        put_in_order(&mut slots, Ord::cmp);
        for at in slots.into_iter().filter(|at| *at >= slot) {
            let after = if at == slot {
                after.clone()
            } else {
                Vec::new()
            };
            let limit = if number == CLAIMS {
                CLAIMS_AT_ONCE
            } else {
                OPERATIONS_AT_ONCE
            };
            let rows = self.records_of(name, number, (at, after), limit)?;
            let is_full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
            if rows.is_empty() {
                continue;
            }
            let next = match rows.last() {
                Some((_, columns)) if is_full => match columns.get(1) {
                    Some(Column::Bytes(key)) => (at, key.clone()),
                    _ => (at.saturating_add(1), Vec::new()),
                },
                _ => (at.saturating_add(1), Vec::new()),
            };
            let next = match number {
                CLAIMS => RootCursor::Claims(next.0, next.1),
                _ => RootCursor::Operations(next.0, next.1),
            };
            return Ok((rows, Some(next)));
        }
        let next = match number {
            CLAIMS => RootCursor::Operations(i64::MIN, Vec::new()),
            _ => RootCursor::Rest(0),
        };
        Ok((Vec::new(), Some(next)))
    }

    fn records_of(
        &self,
        name: &CounterId,
        number: u8,
        (slot, after): (i64, Vec<u8>),
        limit: i64,
    ) -> Result<Vec<RootRow>, Fault> {
        let (columns, table, bodies): (&str, &str, &[usize]) = match number {
            CLAIMS => ("slot, key, datacenter, generation, moves", "claims", &[]),
            _ => (
                "slot, key, fingerprint, done, answer",
                "operations",
                &[3, 4],
            ),
        };
        let sql = format!(
            "SELECT {columns} FROM {table} WHERE slot = ? AND id = ? AND key > ? ORDER BY key LIMIT ?"
        );
        let values = vec![
            slot.into(),
            name.as_str().into(),
            after.into(),
            limit.into(),
        ];
        let rows = self.store.run(&sql, values)?;
        let row = |row: &Vec<SqlValue>| Ok((number, self.columns(row, bodies)?));
        rows.iter().map(row).collect()
    }

    /// Writes claims and operations of a root that arrives, into slots of this partition that end no sooner than their
    /// own.
    pub(super) fn put_records(&self, name: &CounterId, rows: Vec<RootRow>) -> Result<(), Fault> {
        let before = self.claims.claims()?;
        let mut claims = before.clone();
        let broken = || Fault::Broken("a record of a root has no slot".to_owned());
        for (number, columns) in rows {
            let mut columns = columns.into_iter();
            let Some(Column::Whole(slot)) = columns.next() else {
                return Err(broken());
            };
            let slot = slot_here(&before, slot);
            let (sql, bodies): (&str, &[usize]) = match number {
                CLAIMS => {
                    claims.take(slot);
                    let sql = "INSERT OR REPLACE INTO claims (slot, id, key, datacenter, generation, moves) \
                        VALUES (?, ?, ?, ?, ?, ?)";
                    (sql, &[])
                }
                _ => {
                    let sql = "INSERT OR REPLACE INTO operations (slot, id, key, fingerprint, done, answer) \
                        VALUES (?, ?, ?, ?, ?, ?)";
                    (sql, &[2, 3])
                }
            };
            let mut values = vec![slot.into(), name.as_str().into()];
            values.extend(self.values(columns.collect(), bodies)?);
            self.store.run(sql, values)?;
        }
        self.claims.put_claims(&claims, &before)
    }

    /// Deletes the claims and operations of a name.
    pub(super) fn delete_records(&self, name: &CounterId) -> Result<(), Fault> {
        self.store.run(CLAIMS_SCHEMA, vec![])?;
        self.store.run(OPERATIONS_SCHEMA, vec![])?;
        let before = self.claims.claims()?;
        let mut claims = before.clone();
        for slot in before.slots(KeySource::Clients) {
            let of = || vec![slot.into(), name.as_str().into()];
            let counted = "SELECT COUNT(*) FROM claims WHERE slot = ? AND id = ?";
            let counted = self.store.run(counted, of())?;
            let counted = counted.iter().flatten().find_map(integer).unwrap_or(0);
            let keys = if is_public(slot) {
                KeySource::Public
            } else {
                KeySource::Clients
            };
            for _ in 0..counted {
                claims.of_mut(keys).remove(slot);
            }
            if counted > 0 {
                let sql = "DELETE FROM claims WHERE slot = ? AND id = ?";
                self.store.run(sql, of())?;
            }
            let sql = "DELETE FROM operations WHERE slot = ? AND id = ?";
            self.store.run(sql, of())?;
        }
        self.claims.put_claims(&claims, &before)
    }

    /// The first names after one with any rows here except claims and operations.
    pub(super) fn names_after(&self, after: &str, limit: u32) -> Result<Vec<CounterId>, Fault> {
        let mut names = Vec::new();
        let tables = TABLES.iter().map(|table| (table.name, table.id));
        for (table, id) in tables.chain([("leaving", "id"), ("arrived", "id")]) {
            let sql =
                format!("SELECT DISTINCT {id} FROM {table} WHERE {id} > ? ORDER BY {id} LIMIT ?");
            let values = vec![after.into(), i64::from(limit).into()];
            names.extend(self.store.run(&sql, values)?.into_iter().flatten());
        }
        let mut names: Vec<CounterId> = names.iter().filter_map(named).collect();
        put_in_order(&mut names, Ord::cmp);
        names.dedup();
        names.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(names)
    }

    /// When the last claim or operation of a name may be deleted, unix milliseconds; `None` if it has none. Cost: a
    /// look-up for each slot, at most 12, and as many of an earlier setting.
    pub(super) fn last_record_ms(&self, name: &CounterId) -> Result<Option<i64>, Fault> {
        let sql = "SELECT 1 FROM claims WHERE slot = ?1 AND id = ?2 \
            UNION ALL SELECT 1 FROM operations WHERE slot = ?1 AND id = ?2 LIMIT 1";
        let mut last = None;
        for slot in self.claims.claims()?.slots(KeySource::Clients) {
            let values = vec![slot.into(), name.as_str().into()];
            if !self.store.run(sql, values)?.is_empty() {
                last = last.max(Some(slot));
            }
        }
        Ok(last)
    }

    /// The first name after one with claims or operations here.
    pub(super) fn record_after(&self, after: &str) -> Result<Option<CounterId>, Fault> {
        let mut names = Vec::new();
        for slot in self.claims.claims()?.slots(KeySource::Clients) {
            for table in ["claims", "operations"] {
                let sql = format!("SELECT MIN(id) FROM {table} WHERE slot = ? AND id > ?");
                let values = vec![slot.into(), after.into()];
                names.extend(self.store.run(&sql, values)?.into_iter().flatten());
            }
        }
        Ok(names.iter().filter_map(named).min())
    }

    /// The note about a name in a table of moves.
    pub(super) fn note<T: serde::de::DeserializeOwned>(
        &self,
        table: &str,
        name: &CounterId,
    ) -> Result<Option<T>, Fault> {
        let sql = format!("SELECT body FROM {table} WHERE id = ?");
        let rows = self.store.run(&sql, vec![name.as_str().into()])?;
        let body = rows.first().and_then(|row| row.first());
        body.filter(|body| blob(body).is_some())
            .map(|body| self.store.get(body))
            .transpose()
    }

    /// Whether there is a note about a name in a table of moves.
    pub(super) fn has_note(&self, table: &str, name: &CounterId) -> Result<bool, Fault> {
        let sql = format!("SELECT 1 FROM {table} WHERE id = ?");
        Ok(!self.store.run(&sql, vec![name.as_str().into()])?.is_empty())
    }

    /// Stores a note about a name in a table of moves.
    pub(super) fn put_note<T: serde::Serialize>(
        &self,
        table: &str,
        name: &CounterId,
        note: &T,
    ) -> Result<(), Fault> {
        let sql = format!("INSERT OR REPLACE INTO {table} VALUES (?, ?)");
        let values = vec![name.as_str().into(), self.store.put(note)?];
        self.store.run(&sql, values).map(drop)
    }

    /// Deletes the note about a name in a table of moves.
    pub(super) fn forget_note(&self, table: &str, name: &CounterId) -> Result<(), Fault> {
        let sql = format!("DELETE FROM {table} WHERE id = ?");
        self.store.run(&sql, vec![name.as_str().into()]).map(drop)
    }

    /// Names with notes in a table of moves, at most `limit`.
    pub(super) fn names_with_notes(
        &self,
        table: &str,
        limit: u32,
    ) -> Result<Vec<CounterId>, Fault> {
        let sql = format!("SELECT id FROM {table} ORDER BY id LIMIT ?");
        let rows = self.store.run(&sql, vec![i64::from(limit).into()])?;
        Ok(rows.iter().flatten().filter_map(named).collect())
    }
}

fn named(value: &SqlValue) -> Option<CounterId> {
    CounterId::stored(text(value)?).ok()
}

/// The slot of this partition for a record of another one's slot.
fn slot_here(claims: &Ledgers, slot: i64) -> i64 {
    let own = claims.slots(KeySource::Clients).into_iter();
    let fits = own.filter(|own| *own >= slot && is_public(*own) == is_public(slot));
    fits.min().unwrap_or(slot)
}
