//! Reads the keys of a command for a keyspace.

use std::collections::{BTreeMap, BTreeSet};

use super::boards::BoardRead;
use super::core::{COUNTERS_AT_ONCE, KeyspaceCore};
use super::counters::CounterRead;
use super::store::{ExpiryTarget, Row};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_redis::command::Command;
use tally_redis::error;
use tally_redis::notifications::KeyEvent;
use tally_redis::reply_error::ReplyError;
use tally_redis::space::{KeyspaceEntry, Space, StoredValue};
use tally_shared::concurrency::all_settled;
use tally_wire::messages::Fault;
use tally_wire::redis::REPLIES_BYTES_MAX;

/// The counters and boards that were read for a command.
#[derive(Default)]
pub(super) struct KeysRead {
    pub(super) counters: BTreeMap<String, CounterRead>,
    boards: BTreeMap<String, BoardRead>,
}

impl KeysRead {
    /// The target of an expiry of this key: the counter, or the board if there is no counter.
    pub(super) fn target(&self, key: &str) -> Option<ExpiryTarget> {
        if let Some(counter) = self.counters.get(key) {
            return Some(ExpiryTarget::Counter(counter.generation));
        }
        let generation = self.boards.get(key)?.generation;
        generation.map(ExpiryTarget::Board)
    }

    /// Whether there is a board of this name whose generation is not known here.
    fn has_board_without_generation(&self, key: &str) -> bool {
        let board = self.boards.get(key);
        board.is_some_and(|board| board.generation.is_none())
    }

    /// Changes the keys for a command that reads what other calls have made: a board without visible members does not
    /// exist, and counters also end by their own settings.
    pub(super) fn show(&self, space: &mut Space) {
        self.end_counters(space, |counter| counter.ends_ms);
        for (key, _) in self.boards.iter().filter(|(_, board)| board.is_empty) {
            space.hide(key);
        }
    }

    /// Changes the keys for a command that writes: a counter with a setting of its own has an end.
    pub(super) fn show_own_ends(&self, space: &mut Space) {
        self.end_counters(space, |counter| counter.own_end_ms);
    }

    fn end_counters(&self, space: &mut Space, end_ms: impl Fn(&CounterRead) -> Option<i64>) {
        for (key, counter) in &self.counters {
            if let Some(at_ms) = end_ms(counter) {
                space.ends_by(key, at_ms);
            }
        }
    }
}

impl KeyspaceCore {
    /// The present state of the keys: small values from the rows, all others from their cells. If the command needs no
    /// values, those of the rows are empty texts.
    pub(super) async fn load(
        &self,
        keys: &BTreeSet<String>,
        here: &Datacenter,
        own_alone: bool,
        command: &Command,
    ) -> Result<(Space, KeysRead), ReplyError> {
        let mut seen = BTreeMap::new();
        let rows = self.living_rows(keys, here, command).await?;
        let without_value = |(key, row): (&String, &Option<Row>)| {
            let has_value = row.as_ref().is_some_and(|row| row.value.is_some());
            let id = CounterId::parse(key.as_str()).ok();
            id.filter(|_| !has_value && !own_alone)
        };
        let ids: Vec<CounterId> = rows.iter().filter_map(without_value).collect();
        let read = |id: &CounterId| {
            let id = id.clone();
            async move { (self.counters.read(&id).await, id) }
        };
        for (found, id) in all_settled(ids.iter().map(read), COUNTERS_AT_ONCE).await {
            if let Some(found) = found? {
                seen.insert(String::from(id), found);
            }
        }
        let mut boards = BTreeMap::new();
        let others = ids.into_iter();
        let others = others.filter(|id| !seen.contains_key(id.as_str()));
        let look = |id: CounterId| async move { (self.boards.look(&id).await, id) };
        for (found, id) in all_settled(others.map(look), COUNTERS_AT_ONCE).await {
            if let Some(found) = found? {
                boards.insert(String::from(id), found);
            }
        }
        self.readable()?;
        let read = KeysRead {
            counters: seen,
            boards,
        };
        let mut space = Space::new(self.host.now_ms());
        if command.name == "SRANDMEMBER" {
            space = space.seeded(self.host.random());
        }
        for (key, row) in rows {
            let is_board = read.boards.contains_key(&key);
            let expires_ms = match &row {
                Some(end) if end.value.is_none() && !own_alone => self.end_of(&key, end, &read)?,
                row => row.as_ref().and_then(|row| row.expires_ms),
            };
            let counter = read.counters.get(&key);
            let is_counter = counter.is_some();
            let text = counter.map(|seen| StoredValue::Text(seen.value.to_string()));
            let elsewhere = text.or_else(|| is_board.then_some(StoredValue::Sorted));
            if let Some(value) = elsewhere.or_else(|| row.and_then(|row| row.value)) {
                let entry = KeyspaceEntry {
                    value,
                    expires_ms,
                    is_counter,
                };
                space.load(key, entry);
            }
        }
        Ok((space, read))
    }

    /// The rows of keys. Expired counters and boards are ended first. A value that the command does not need is dropped
    /// at once: the values of 1,000 keys may have 64 MB.
    async fn living_rows(
        &self,
        keys: &BTreeSet<String>,
        here: &Datacenter,
        command: &Command,
    ) -> Result<BTreeMap<String, Option<Row>>, ReplyError> {
        let (mut rows, mut bytes) = (BTreeMap::new(), 0);
        for key in keys {
            let mut row = self.living_row(key, here).await?;
            if let Some(value) = row.as_mut().and_then(|row| row.value.as_mut())
                && !command.needs_values()
            {
                *value = StoredValue::Text(String::new());
            }
            let value = row.as_ref().and_then(|row| row.value.as_ref());
            bytes += value.map_or(0, StoredValue::bytes);
            if bytes > REPLIES_BYTES_MAX {
                return Err(error::replies_too_large().into());
            }
            rows.insert(key.clone(), row);
        }
        Ok(rows)
    }

    /// Whether the values of these keys are stored here, as far as is known without a call.
    pub(super) fn are_own(&self, keys: &BTreeSet<String>) -> Result<bool, Fault> {
        for key in keys {
            let is_own = match self.rows.row(key)? {
                Some(row) => row.value.is_some(),
                None => !self.is_elsewhere(key),
            };
            if !is_own {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a counter or a board of this name is known.
    pub(super) fn is_elsewhere(&self, key: &str) -> bool {
        CounterId::parse(key)
            .is_ok_and(|id| self.counters.is_known(&id) || self.boards.is_known(&id))
    }

    /// The expiry of a counter or a board that was read. Another call may have ended the target of the expiry. Then the
    /// expiry does not apply to the next one of that name, and is deleted.
    fn end_of(&self, key: &str, end: &Row, read: &KeysRead) -> Result<Option<i64>, Fault> {
        let (is_counter, is_board) = (
            read.counters.contains_key(key),
            read.boards.contains_key(key),
        );
        let applies = match end.target {
            None => is_counter || is_board,
            // The expiry of a board does not apply if a counter has the same name.
            Some(ExpiryTarget::Board(_)) if is_counter => return Ok(None),
            // A board that was spread or moved since then returns no generation.
            Some(ExpiryTarget::Board(_)) if read.has_board_without_generation(key) => true,
            target => target == read.target(key),
        };
        if !applies {
            self.rows.write(&[(key.to_owned(), None)], None)?;
        }
        Ok(end.expires_ms.filter(|_| applies))
    }

    /// Loads the key that holds a limit: it is only read and not locked, so that its users do not wait for each other.
    pub(super) async fn load_limit(&self, key: &str, space: &mut Space) -> Result<(), ReplyError> {
        let row = self.rows.row(key)?;
        let expires_ms = row.as_ref().and_then(|row| row.expires_ms);
        let mut value = row.and_then(|row| row.value);
        if let (None, Ok(id)) = (&value, CounterId::parse(key)) {
            let seen = self.counters.read(&id).await?;
            value = seen.map(|seen| StoredValue::Text(seen.value.to_string()));
        }
        if let Some(value) = value {
            let entry = KeyspaceEntry {
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
    ) -> Result<Option<Row>, ReplyError> {
        let Some(row) = self.rows.row(key)? else {
            return Ok(None);
        };
        let now_ms = self.host.now_ms();
        if row.expires_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return Ok(Some(row));
        }
        let has_ended = row.value.is_some() || self.end_target(key, &row, here).await?;
        self.rows.write(&[(key.to_owned(), None)], None)?;
        if has_ended {
            let names: &[&str] = match &row.value {
                Some(StoredValue::Timed(hash)) if hash.key_end_ms.is_none_or(|at| at > now_ms) => {
                    &["hexpired", "del"]
                }
                _ => &["expired"],
            };
            let events = names.iter().map(|name| KeyEvent::new(name, key));
            self.listeners.notify(|| events.collect());
        }
        Ok(None)
    }

    /// Ends the target of an expiry; returns whether it still existed. Another counter or board may have its name by
    /// now.
    async fn end_target(
        &self,
        key: &str,
        row: &Row,
        here: &Datacenter,
    ) -> Result<bool, ReplyError> {
        let Ok(id) = CounterId::parse(key) else {
            return Ok(false);
        };
        let is_there = match row.target {
            None => {
                self.end(key, here).await?;
                return Ok(true);
            }
            Some(ExpiryTarget::Counter(generation)) => {
                let ended = (generation, row.expires_ms.unwrap_or(i64::MAX));
                self.end_counter(&id, here, ended).await?
            }
            Some(ExpiryTarget::Board(generation)) => {
                let found = self.boards.look(&id).await?;
                let now = found.as_ref().and_then(|board| board.generation);
                let is_there = found.is_some() && now.is_none_or(|now| now == generation);
                if is_there {
                    self.boards.end(&id, now).await?;
                }
                is_there
            }
        };
        Ok(is_there)
    }

    /// Ends a counter, and a board of the same name.
    pub(super) async fn end(&self, key: &str, here: &Datacenter) -> Result<(), ReplyError> {
        self.end_others(key, false, here).await
    }

    /// Ends a counter and a board of this name, or only the board if the counter was ended already: a new counter may
    /// have begun since.
    pub(super) async fn end_others(
        &self,
        key: &str,
        was_counter: bool,
        here: &Datacenter,
    ) -> Result<(), ReplyError> {
        let Ok(id) = CounterId::parse(key) else {
            return Ok(());
        };
        let found = self.boards.find(&id).await?;
        if found.is_counter && !was_counter {
            self.counters.replace(&id, here, None, None).await?;
        }
        if found.is_board {
            self.boards.end(&id, None).await?;
        }
        Ok(())
    }
}
