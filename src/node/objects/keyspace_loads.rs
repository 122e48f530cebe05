//! How a keyspace reads the keys of a command.

use std::collections::{BTreeMap, BTreeSet};

use super::keyspace::{COUNTERS_AT_ONCE, KeyspaceCore};
use super::keyspace_counters::CounterRead;
use super::keyspace_store::Row;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::node::shared::concurrency::all_settled;
use crate::protocol::redis::notifications::KeyEvent;
use crate::protocol::redis::reply::Refused;
use crate::protocol::redis::space::{Entry, Space, Value};

impl KeyspaceCore {
    /// The present state of the keys: small values from the rows, all others from their cells.
    pub(super) async fn load(
        &self,
        keys: &BTreeSet<String>,
        here: &Datacenter,
        own_alone: bool,
    ) -> Result<(Space, BTreeMap<String, CounterRead>), Refused> {
        let mut seen = BTreeMap::new();
        let mut rows = BTreeMap::new();
        let mut asked = Vec::new();
        for key in keys {
            let row = self.living_row(key, here).await?;
            let has_value = row.as_ref().is_some_and(|row| row.value.is_some());
            rows.insert(key.clone(), row);
            if let Ok(id) = CounterId::parse(key.as_str())
                && !has_value
                && !own_alone
            {
                asked.push(id);
            }
        }
        let read = |id: CounterId| async move {
            let seen = self.counters.read(&id).await;
            (id, seen)
        };
        for (id, found) in all_settled(asked.into_iter().map(read), COUNTERS_AT_ONCE).await {
            if let Some(found) = found? {
                seen.insert(id.as_str().to_owned(), found);
            }
        }
        let mut boards = BTreeSet::new();
        let others = rows.iter().filter(|(key, row)| {
            let has_value = row.as_ref().is_some_and(|row| row.value.is_some());
            !has_value && !own_alone && !seen.contains_key(*key)
        });
        let others = others.filter_map(|(key, _)| CounterId::parse(key.as_str()).ok());
        let look = |id: CounterId| async move { (self.boards.has(&id).await, id) };
        for (found, id) in all_settled(others.map(look), COUNTERS_AT_ONCE).await {
            if found? {
                boards.insert(String::from(id));
            }
        }
        self.readable()?;
        let mut space = Space::new(self.host.now_ms());
        for (key, row) in rows {
            let is_board = boards.contains(&key);
            let is_end = row.as_ref().is_some_and(|row| row.value.is_none());
            if is_end && !own_alone && !is_board && !seen.contains_key(&key) {
                // It was ended by another call; its expiry does not apply to the next key of that name.
                self.rows.write(&[(key, None)], None)?;
                continue;
            }
            let expires_ms = row.as_ref().and_then(|row| row.expires_ms);
            let counter = seen.get(&key);
            let is_counter = counter.is_some();
            let text = counter.map(|seen| Value::Text(seen.text.clone()));
            let elsewhere = text.or_else(|| is_board.then_some(Value::Sorted));
            if let Some(value) = elsewhere.or_else(|| row.and_then(|row| row.value)) {
                let entry = Entry {
                    value,
                    expires_ms,
                    is_counter,
                };
                space.load(key, entry);
            }
        }
        Ok((space, seen))
    }

    /// Loads the key that holds a limit: it is only read and not locked, so that its users do not wait for each other.
    pub(super) async fn load_limit(&self, key: &str, space: &mut Space) -> Result<(), Refused> {
        let row = self.rows.row(key)?;
        let expires_ms = row.as_ref().and_then(|row| row.expires_ms);
        let mut value = row.and_then(|row| row.value);
        if let (None, Ok(id)) = (&value, CounterId::parse(key)) {
            let seen = self.counters.read(&id).await?;
            value = seen.map(|seen| Value::Text(seen.text));
        }
        if let Some(value) = value {
            let entry = Entry {
                value,
                expires_ms,
                is_counter: false,
            };
            space.load(key.to_owned(), entry);
        }
        Ok(())
    }

    /// The row of a key. A counter that has expired is ended first.
    pub(super) async fn living_row(
        &self,
        key: &str,
        here: &Datacenter,
    ) -> Result<Option<Row>, Refused> {
        let Some(row) = self.rows.row(key)? else {
            return Ok(None);
        };
        let now_ms = self.host.now_ms();
        if row.expires_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return Ok(Some(row));
        }
        if row.value.is_none() {
            self.end(key, here).await?;
        }
        self.rows.write(&[(key.to_owned(), None)], None)?;
        self.listeners.tell(|| vec![KeyEvent::new("expired", key)]);
        Ok(None)
    }

    /// Ends a counter, and a board of the same name.
    pub(super) async fn end(&self, key: &str, here: &Datacenter) -> Result<(), Refused> {
        let Ok(id) = CounterId::parse(key) else {
            return Ok(());
        };
        let found = self.boards.find(&id).await?;
        if found.is_counter {
            self.counters.replace(&id, here, None, None).await?;
        }
        if found.is_board {
            self.boards.end(&id).await?;
        }
        Ok(())
    }
}
