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
            let (Some(own_ms), Some(before), Some(after)) = (self.own_end_ms(key), before, after)
            else {
                return false;
            };
            let ends_later = after.expires_ms.is_none_or(|at_ms| at_ms > own_ms);
            after.is_counter && before.expires_ms != after.expires_ms && ends_later
        })
    }

    fn own_end_ms(&self, key: &str) -> Option<i64> {
        self.read.counters.get(key)?.own_end_ms
    }

    /// The stored row of a key: a counter's own end is no expiry of this dialect.
    pub(super) fn row_of(&self, key: &str, entry: &KeyspaceEntry) -> Option<Row> {
        if entry.is_counter && entry.expires_ms == self.own_end_ms(key) {
            return None;
        }
        row_of(entry, self.read.target(key))
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
