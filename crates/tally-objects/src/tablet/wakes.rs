//! The rows that cells read when they wake in a tablet: for many cells by one statement.
//!
//! Invariant: the rows are used in the turn in which they were read.

use std::collections::{BTreeMap, HashMap};

use super::rows::{ALARM, LEDGER, TabletRows};
use crate::kit::store::{blob, integer, text};
use tally_core::counter::id::CounterId;
use tally_host::object::SqlValue;
use tally_wire::messages::{Fault, decode};

/// How many tenants one statement reads: it may bind 100 values. Only a few sizes, so that few statements are prepared.
const AT_ONCE: [usize; 3] = [1, 12, 96];

/// A waking cell reads all rows of the kinds before this one: address, totals, unique elements of all time and pages.
const READ_BEFORE: u8 = 6;

/// Of this kind it reads one row, nearly always the newest: the unique elements of the open minute.
const MINUTE_UNIQUES: u8 = 6;

/// And all rows of the later kinds before this one: endings, sealed shards, the counts of ledgers. Samples, and unique
/// elements of hours and days, are of later kinds; they never exist without an address.
const READ_LAST: u8 = 9;

/// The rows that a waking cell reads.
#[derive(Default)]
pub(super) struct WakeRows {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether its ledger has a row; `None` where the log has deleted rows of the table.
    pub(super) has_records: Option<bool>,
    /// When its alarm rings, unix milliseconds.
    pub(super) alarm_ms: Option<i64>,
    /// Whether the table has a row of it.
    pub(super) is_in_table: bool,
}

impl WakeRows {
    /// Whether there is any row of it.
    pub(super) fn holds(&self) -> bool {
        !self.rows.is_empty() || self.has_records != Some(false)
    }

    /// A row, if it is known whether it exists.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let row = self.rows.get(key);
        let is_known = row.is_some() || key.first().is_some_and(|kind| is_read_whole(*kind));
        is_known.then(|| row.cloned())
    }

    /// The rows in `from..before` of a kind that is read completely, in order.
    pub(super) fn between(&self, from: &[u8], before: &[u8]) -> Option<super::rows::NamedRows> {
        is_read_whole(*from.first()?).then(|| {
            let rows = self.rows.range(from.to_vec()..before.to_vec());
            rows.map(|(key, body)| (key.clone(), body.clone()))
                .collect()
        })
    }

    fn take_row(
        &mut self,
        rows: &TabletRows,
        key: &SqlValue,
        body: &SqlValue,
    ) -> Result<(), Fault> {
        let Some(key) = blob(key) else { return Ok(()) };
        match key.first() {
            Some(&ALARM) => self.alarm_ms = integer(body),
            Some(&LEDGER) => {
                self.has_records = Some(true);
                self.is_in_table = true;
            }
            _ => {
                self.rows.insert(key.to_vec(), rows.body(body)?);
                self.is_in_table = true;
            }
        }
        Ok(())
    }

    /// Applies a change in the log.
    fn change(&mut self, key: &[u8], body: Option<&Vec<u8>>) -> Result<(), Fault> {
        match (key.first(), body) {
            (Some(&ALARM), body) => {
                self.alarm_ms = body.map(|body| decode(body)).transpose()?;
            }
            (Some(&LEDGER), Some(_)) => self.has_records = Some(true),
            (Some(&LEDGER), None) => {
                if self.is_in_table {
                    self.has_records = None;
                }
            }
            (_, Some(body)) => drop(self.rows.insert(key.to_vec(), body.clone())),
            (_, None) => drop(self.rows.remove(key)),
        }
        Ok(())
    }
}

fn is_read_whole(kind: u8) -> bool {
    kind < READ_BEFORE || (kind > MINUTE_UNIQUES && kind <= READ_LAST)
}

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
                match waking.take_row(self, key, body) {
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

/// The statement for the wakes of so many tenants: all rows of some kinds, the newest minute of unique elements,
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
