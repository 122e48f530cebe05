//! The alarms of a tablet's tenants: a table by time, and the one alarm of the object.
//!
//! Invariant: an alarm that was set rings until its tenant has done what it rang for, or has set another.

use std::collections::BTreeMap;

use super::store::{integer, text};
use super::tablet_rows::{ALARM, TabletRows, row_key};
use crate::core::counter::id::CounterId;
use crate::protocol::messages::{Fault, decode};

impl TabletRows {
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

    pub(super) fn alarm(&self, counter: &CounterId) -> Result<Option<i64>, Fault> {
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
