//! The reading of the rows of cells that wake, for many of them by one statement.

use std::collections::HashMap;

use super::row_names::ALARM;
use super::rows::TabletRows;
use super::wakes::WakeRows;
use crate::kit::store::{integer, text};
use tally_core::counter::id::CounterId;
use tally_host::object::SqlValue;
use tally_wire::messages::Fault;

/// How many tenants one statement reads: it may bind 100 values. Only a few sizes, so that few statements are prepared.
const AT_ONCE: [usize; 3] = [1, 12, 96];

impl TabletRows {
    /// Reads the rows for the wakes of these tenants. Each takes them by [`TabletRows::waking`] in this turn.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn read_ahead(&self, counters: &[CounterId]) -> Result<(), Fault> {
        let mut found: HashMap<CounterId, WakeRows> = HashMap::new();
        for counter in counters {
            found.insert(
                counter.clone(),
                WakeRows {
                    has_records: Some(false),
                    ..WakeRows::default()
                },
            );
        }
        let [_, _, tenants_max] = AT_ONCE;
        for some in counters
            .chunks(tenants_max)
            .filter(|_| self.has_schema.get())
        {
            self.read_table(some, &mut found)?;
        }
        let unfolded = self.unfolded.borrow();
        for (counter, waking) in &mut found {
            let range = (counter.clone(), vec![0])..(counter.clone(), vec![ALARM + 1]);
            for ((_, key), body) in unfolded.range(range) {
                waking.change(key, body.as_ref())?;
            }
        }
        self.ahead.replace(found);
        Ok(())
    }

    /// Drops the rows that were read ahead and not taken.
    pub(super) fn forget_ahead(&self) {
        self.ahead.take();
    }

    /// The rows for the wake of a tenant.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn waking(&self, counter: &CounterId) -> Result<WakeRows, Fault> {
        if let Some(ahead) = self.ahead.borrow_mut().remove(counter) {
            return Ok(ahead);
        }
        let others = self.ahead.take();
        let read = self.read_ahead(std::slice::from_ref(counter));
        let mut found = self.ahead.replace(others);
        read?;
        Ok(found.remove(counter).unwrap_or_default())
    }

    fn read_table(
        &self,
        counters: &[CounterId],
        found: &mut HashMap<CounterId, WakeRows>,
    ) -> Result<(), Fault> {
        let enough = AT_ONCE.into_iter().find(|size| *size >= counters.len());
        let tenants = enough.unwrap_or(counters.len());
        // No counter has an empty name.
        let mut values: Vec<SqlValue> = vec!["".into(); tenants];
        for (value, counter) in values.iter_mut().zip(counters) {
            *value = counter.as_str().into();
        }
        for row in self.store.run(&statement(tenants), values)? {
            if let [id, key, body] = row.as_slice()
                && let Some(id) = text(id)
                && let Ok(counter) = CounterId::stored(id)
                && let Some(waking) = found.get_mut(&counter)
            {
                match waking.take_row(key, || self.body(body), integer(body)) {
                    // Of many that are read together the others continue; this one is read by itself, and refused.
                    Err(Fault::Unreadable(_)) if counters.len() > 1 => {
                        found.remove(&counter);
                    }
                    taken => taken?,
                }
            }
        }
        Ok(())
    }
}

/// The statement for the wakes of that number of tenants: all rows of some kinds, the newest minute of unique elements,
/// whether there is a record, the alarm.
fn statement(tenants: usize) -> String {
    let ids = vec!["(?)"; tenants].join(", ");
    let of = "ids CROSS JOIN rows ON rows.counter = id AND rows.key";
    let one = "(SELECT r.key FROM rows AS r WHERE r.counter = id AND r.key";
    format!(
        "WITH ids(id) AS (VALUES {ids}) \
         SELECT id, key, body FROM {of} < x'06' \
         UNION ALL SELECT id, key, body FROM {of} >= x'07' AND rows.key < x'0A' \
         UNION ALL SELECT id, key, body FROM {of} = {one} >= x'06' AND r.key < x'07' ORDER BY r.key DESC LIMIT 1) \
         UNION ALL SELECT id, x'C8', NULL FROM {of} = {one} >= x'C8' AND r.key < x'C9' ORDER BY r.key LIMIT 1) \
         UNION ALL SELECT id, x'C9', at_ms FROM ids CROSS JOIN alarms ON alarms.counter = id"
    )
}
