//! The alarms of a tablet's tenants: a table by time, and the one alarm of the object.
//!
//! Invariant: an alarm that was set rings repeatedly until its tenant has done the work that was due, or has set
//! another.

use std::collections::BTreeMap;

use super::row_names::{ALARM, row_key};
use super::rows::TabletRows;
use crate::kit::store::{integer, text};
use tally_core::counter::id::CounterId;
use tally_core::order::in_order;
use tally_wire::messages::{Fault, decode, encode};

impl TabletRows {
    /// The tenants whose alarms ring next, at most so many, with their times; the earliest first.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn next_alarms(&self, limit: usize) -> Result<Vec<(CounterId, i64)>, Fault> {
        let mut next = BTreeMap::new();
        let unfolded = self.unfolded.borrow();
        let is_alarm = |key: &[u8]| key.first() == Some(&ALARM);
        let changed = unfolded.iter().filter(|((_, key), _)| is_alarm(key));
        if self.has_schema.get() {
            // Some of these are changed in the log, but not in the table yet.
            let rows_max = limit.saturating_add(changed.clone().count());
            let rows = self.store.run(
                "SELECT counter, at_ms FROM alarms ORDER BY at_ms LIMIT ?",
                vec![i64::try_from(rows_max).unwrap_or(i64::MAX).into()],
            )?;
            for row in &rows {
                if let [counter, at_ms] = row.as_slice()
                    && let (Some(counter), Some(at_ms)) = (text(counter), integer(at_ms))
                    && let Ok(counter) = CounterId::stored(counter)
                {
                    next.insert(counter, at_ms);
                }
            }
        }
        for ((counter, _), body) in changed {
            match body {
                Some(body) => drop(next.insert(counter.clone(), decode(body)?)),
                None => drop(next.remove(counter)),
            }
        }
        let next = next.into_iter().collect();
        let mut next = in_order(next, |(_, one): &(CounterId, i64), (_, other)| {
            one.cmp(other)
        });
        next.truncate(limit);
        Ok(next)
    }

    /// Writes when the alarm of a tenant rings, unix milliseconds, or deletes it.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn put_alarm(&self, counter: &CounterId, at_ms: Option<i64>) -> Result<(), Fault> {
        let body = at_ms.map(|at_ms| encode(&at_ms)).transpose()?;
        self.change((counter.clone(), row_key(ALARM, 0)), body)
    }

    /// Whether the object's alarm must be set to ring by then, because it does not yet. It counts as set from now on.
    /// While it rings it is not set: whoever handles it does that once, at the end.
    pub(crate) fn must_arm(&self, at_ms: i64) -> bool {
        let must = at_ms < self.armed_ms.get();
        if must {
            self.armed_ms.set(at_ms);
        }
        must && !self.is_ringing.get()
    }

    /// Sets the object's alarm, unless it rings before.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) async fn arm(&self, at_ms: i64) -> Result<(), Fault> {
        if !self.must_arm(at_ms) {
            return Ok(());
        }
        self.set_armed(at_ms).await
    }

    /// Sets the object's alarm after [`TabletRows::must_arm`] has returned true.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) async fn set_armed(&self, at_ms: i64) -> Result<(), Fault> {
        let set = self.store.set_alarm_by(at_ms).await;
        if set.is_err() {
            self.armed_ms.set(i64::MAX);
        }
        set
    }

    /// The object's alarm rings: it is not set any more.
    pub(super) fn rings(&self) {
        self.is_ringing.set(true);
        self.armed_ms.set(i64::MAX);
    }

    /// The object's alarm has been handled. Returns the time by which it was to be set meanwhile, if any.
    pub(super) fn rung(&self) -> Option<i64> {
        self.is_ringing.set(false);
        let at_ms = self.armed_ms.replace(i64::MAX);
        (at_ms < i64::MAX).then_some(at_ms)
    }
}
