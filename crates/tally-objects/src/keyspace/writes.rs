//! The changes of a command, and the rows that are stored of them.

use super::counters::kept_end;
use super::loads::KeysRead;
use super::store::{ExpiryTarget, Row};
use tally_redis::space::{KeyspaceEntry, Space, StoredValue};

/// The changes of a command.
pub(super) struct Writes<'a> {
    pub(super) before: &'a Space,
    pub(super) after: &'a Space,
    pub(super) read: &'a KeysRead,
    /// Whether they are stored whatever the former state of the keys is.
    pub(super) is_blind: bool,
}

impl Writes<'_> {
    /// Whether a counter would have to end later than its own setting says, which only other calls change.
    pub(super) fn outlasts_own_end(&self) -> bool {
        self.after.changed().any(|key| {
            let (before, after) = (self.before.get(key), self.after.get(key));
            let counters = before.zip(after.filter(|entry| entry.is_counter));
            let ends = counters.map(|(before, after)| (before.expires_ms, after.expires_ms));
            let outlasts = |(was_ms, is_ms): (Option<i64>, Option<i64>), own_ms: i64| {
                was_ms != is_ms && is_ms.is_none_or(|is_ms| is_ms > own_ms)
            };
            ends.zip(self.own_end_ms(key))
                .is_some_and(|(ends, own_ms)| outlasts(ends, own_ms))
        })
    }

    fn own_end_ms(&self, key: &str) -> Option<i64> {
        self.read.counters.get(key)?.own_end_ms
    }

    /// The stored row of a key: a counter's own end is no expiry of this dialect.
    pub(super) fn row_of(&self, key: &str, entry: &KeyspaceEntry) -> Option<Row> {
        let mut row = row_of(entry, self.read.target(key))?;
        let own_end_ms = self.own_end_ms(key).filter(|_| entry.is_counter);
        if row.value.is_none() && own_end_ms.is_some() && row.expires_ms == own_end_ms {
            row.expires_ms = None;
        }
        (row.value.is_some() || row.expires_ms.is_some()).then_some(row)
    }
}

/// The stored row of a key; `None` for a counter or a board without expiry. A row with an expiry has the target that
/// expires.
pub(super) fn row_of(entry: &KeyspaceEntry, target: Option<ExpiryTarget>) -> Option<Row> {
    let is_elsewhere = entry.is_counter || matches!(entry.value, StoredValue::Sorted);
    let mut value = (!is_elsewhere).then(|| entry.value.clone());
    let expires_ms = match &mut value {
        Some(StoredValue::Timed(hash)) => {
            hash.key_end_ms = entry.expires_ms;
            kept_end(hash.last_end_ms())
        }
        _ => kept_end(entry.expires_ms),
    };
    (value.is_some() || expires_ms.is_some()).then_some(Row {
        value,
        target: target.filter(|_| is_elsewhere),
        expires_ms,
        part: None,
    })
}
