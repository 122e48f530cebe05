//! How a tablet's log is folded into its tables.
//!
//! Invariant: what the log holds is written and the log emptied in one transaction, so a restart finds each change in one of them.

use super::tablet_rows::{ALARM, Name, TabletRows, no_rows};
use crate::core::counter::id::CounterId;
use crate::host::object::Value;
use crate::protocol::messages::{Fault, decode};

/// Rows of the table that one statement writes: it may bind 100 values.
const ROWS_AT_ONCE: usize = 33;

impl TabletRows {
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
}
