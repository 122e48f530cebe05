//! Rows that were read together, for calls of one batch that need them next.
//!
//! Invariant: whoever writes a row forgets it here, so what is told is what the table says.

use std::cell::RefCell;
use std::collections::HashMap;

use super::store::{Store, text};
use crate::core::counter::id::CounterId;
use crate::host::object::SqlValue;
use crate::protocol::messages::Fault;

/// Rows that one statement reads: it may bind 100 values.
const AT_ONCE: usize = 96;

/// Rows of one table by their `id`: of each one column, or that there is none.
pub(super) struct RowPrefetch {
    store: Store,
    /// The table, and the column.
    of: (&'static str, &'static str),
    rows: RefCell<HashMap<CounterId, Option<SqlValue>>>,
}

impl RowPrefetch {
    /// None of this table.
    pub(super) fn new(store: &Store, table: &'static str, column: &'static str) -> Self {
        Self {
            store: store.clone(),
            of: (table, column),
            rows: RefCell::default(),
        }
    }

    /// Reads the rows of these counters.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; each is read by itself then.
    pub(super) fn read(&self, counters: &[CounterId]) -> Result<(), Fault> {
        let (table, column) = self.of;
        for some in counters.chunks(AT_ONCE) {
            // One statement, so that it is prepared once; no counter has an empty name.
            let mut values: Vec<SqlValue> = vec!["".into(); AT_ONCE];
            for (value, counter) in values.iter_mut().zip(some) {
                *value = counter.as_str().into();
            }
            let places = vec!["?"; AT_ONCE].join(", ");
            let sql = format!("SELECT id, {column} FROM {table} WHERE id IN ({places})");
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
    pub(super) fn get(&self, counter: &CounterId) -> Option<Option<SqlValue>> {
        self.rows.borrow().get(counter).cloned()
    }

    /// The row of a counter changes.
    pub(super) fn forget(&self, counter: &CounterId) {
        self.rows.borrow_mut().remove(counter);
    }

    /// The batch is answered.
    pub(super) fn clear(&self) {
        self.rows.take();
    }
}
