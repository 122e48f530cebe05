//! Rows that were read together, for the calls of one batch.
//!
//! Invariant: a row is dropped here when it is written, so the remaining rows are as in the table.

use std::cell::RefCell;
use std::collections::HashMap;

use super::store::{Store, text};
use tally_core::counter::id::CounterId;
use tally_host::object::SqlValue;
use tally_wire::messages::Fault;

/// How many rows one statement reads: it may bind 100 values.
const AT_ONCE: usize = 96;

/// Rows of one table by their `id`: one column of each, or that there is none.
pub(crate) struct RowPrefetch {
    store: Store,
    /// The table, and the column.
    of: (&'static str, &'static str),
    rows: RefCell<HashMap<CounterId, Option<SqlValue>>>,
}

impl RowPrefetch {
    /// No rows of this table.
    pub(crate) fn new(store: &Store, table: &'static str, column: &'static str) -> Self {
        Self {
            store: store.clone(),
            of: (table, column),
            rows: RefCell::default(),
        }
    }

    /// Reads the rows of these counters.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; each row is then read by itself.
    pub(crate) fn read(&self, counters: &[CounterId]) -> Result<(), Fault> {
        self.read_as(counters, self.of.1)
    }

    /// As [`RowPrefetch::read`], with this SQL in place of the column.
    pub(crate) fn read_as(&self, counters: &[CounterId], column: &str) -> Result<(), Fault> {
        let (table, _) = self.of;
        for some in counters.chunks(AT_ONCE) {
            // A single statement, so that it is prepared once; no counter has an empty name.
            let mut values: Vec<SqlValue> = vec!["".into(); AT_ONCE];
            for (value, counter) in values.iter_mut().zip(some) {
                *value = counter.as_str().into();
            }
            let placeholders = vec!["?"; AT_ONCE].join(", ");
            let sql = format!("SELECT id, {column} FROM {table} WHERE id IN ({placeholders})");
            let found = self.store.run(&sql, values)?;
            let mut rows = self.rows.borrow_mut();
            rows.extend(some.iter().map(|counter| (counter.clone(), None)));
            for row in found {
                if let [id, value] = row.as_slice()
                    && let Some(Ok(counter)) = text(id).map(CounterId::stored)
                {
                    rows.insert(counter, Some(value.clone()));
                }
            }
        }
        Ok(())
    }

    /// The row of a counter, if it was read: the column, or that there is no row.
    pub(crate) fn get(&self, counter: &CounterId) -> Option<Option<SqlValue>> {
        self.rows.borrow().get(counter).cloned()
    }

    /// The row of a counter changes.
    pub(crate) fn forget(&self, counter: &CounterId) {
        self.rows.borrow_mut().remove(counter);
    }

    /// The batch has been answered.
    pub(crate) fn clear(&self) {
        self.rows.take();
    }
}
