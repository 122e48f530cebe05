//! Folding of a tablet's log into its tables.
//!
//! Invariant: the changes of the log are written and the log is emptied in one transaction, so a restart finds each
//! change in one of them.

use super::row_names::{ALARM, Name};
use super::rows::{LOG_SCHEMA, TabletRows, no_rows};
use crate::kit::store::{framed, statement_sizes};
use tally_host::object::SqlValue;
use tally_wire::messages::{Fault, decode};

/// How many rows of the table one statement writes: it may bind 100 values.
const ROWS_AT_ONCE: usize = 33;

/// How many names of rows, or alarms, one statement takes.
const NAMES_AT_ONCE: usize = 50;

/// A row that the log has changed.
type Change<'a> = (&'a Name, &'a Option<Vec<u8>>);

impl TabletRows {
    /// Writes the changes of the log to the table, and empties the log.
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
            let gone: Vec<&Name> = unfolded
                .iter()
                .filter(|(name, body)| kept(name) && body.is_none())
                .map(|(name, _)| name)
                .collect();
            let alarms = unfolded.iter().filter(|(name, _)| !kept(name));
            let (set, unset): (Vec<_>, Vec<_>) = alarms.partition(|(_, body)| body.is_some());
            self.store.atomically(|| {
                by_statements(&puts, ROWS_AT_ONCE, |some| self.put_rows(some))?;
                by_statements(&gone, NAMES_AT_ONCE, |some| self.delete_rows(some))?;
                by_statements(&set, NAMES_AT_ONCE, |some| self.put_alarms(some))?;
                by_statements(&unset, NAMES_AT_ONCE, |some| self.delete_alarms(some))?;
                // A deletion of each row would count as a written row.
                no_rows(self.store.run("DROP TABLE log", vec![]))?;
                no_rows(self.store.run(LOG_SCHEMA, vec![]))
            })?;
        }
        self.folds.set(self.folds.get().wrapping_add(1));
        self.unfolded.borrow_mut().clear();
        self.log_rows.set(0);
        self.log_bytes.set(0);
        Ok(())
    }

    fn put_rows(&self, rows: &[(&Name, &Vec<u8>)]) -> Result<(), Fault> {
        let placeholders = vec!["(?, ?, ?)"; rows.len()].join(", ");
        let statement = [
            "INSERT INTO rows VALUES ",
            &placeholders,
            " ON CONFLICT (counter, key) DO UPDATE SET body = excluded.body",
        ];
        let mut values: Vec<SqlValue> = Vec::with_capacity(3 * rows.len());
        for ((counter, key), body) in rows {
            let body = framed(body);
            values.extend([counter.as_str().into(), key.clone().into(), body]);
        }
        no_rows(self.store.run(&statement.concat(), values))
    }

    fn delete_rows(&self, names: &[&Name]) -> Result<(), Fault> {
        let placeholders = vec!["(?, ?)"; names.len()].join(", ");
        let statement = [
            "DELETE FROM rows WHERE (counter, key) IN (VALUES ",
            &placeholders,
            ")",
        ];
        let values = names
            .iter()
            .flat_map(|(counter, key)| [counter.as_str().into(), key.clone().into()]);
        no_rows(self.store.run(&statement.concat(), values.collect()))
    }

    fn put_alarms(&self, alarms: &[Change<'_>]) -> Result<(), Fault> {
        let placeholders = vec!["(?, ?)"; alarms.len()].join(", ");
        let statement = [
            "INSERT INTO alarms VALUES ",
            &placeholders,
            " ON CONFLICT (counter) DO UPDATE SET at_ms = excluded.at_ms",
        ];
        let mut values: Vec<SqlValue> = Vec::new();
        for ((counter, _), body) in alarms {
            let at_ms: i64 = decode(body.as_deref().unwrap_or_default())?;
            values.extend([counter.as_str().into(), at_ms.into()]);
        }
        no_rows(self.store.run(&statement.concat(), values))
    }

    fn delete_alarms(&self, alarms: &[Change<'_>]) -> Result<(), Fault> {
        let placeholders = vec!["?"; alarms.len()].join(", ");
        let statement = ["DELETE FROM alarms WHERE counter IN (", &placeholders, ")"];
        let values = alarms
            .iter()
            .map(|((counter, _), _)| counter.as_str().into());
        no_rows(self.store.run(&statement.concat(), values.collect()))
    }
}

/// Writes all, as many by a statement as [`statement_sizes`] says.
fn by_statements<T>(
    all: &[T],
    size_max: usize,
    write: impl Fn(&[T]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut rest = all;
    for size in statement_sizes(all.len(), size_max) {
        let (some, after) = rest.split_at(size);
        write(some)?;
        rest = after;
    }
    Ok(())
}
