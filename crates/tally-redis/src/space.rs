//! The values that a command works on: the keys that it names, in their state before it, and its changes.
//!
//! Invariant: a command reads and writes only a [`Space`], in one synchronous step. The owner of the keys fills it
//! before and stores the changes after: all of them or none.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::random::drawn;
use crate::{VALUE_BYTES_MAX, error};
use tally_core::counter::id::CounterId;
use tally_core::order::set_of;
use tally_wire::redis::Reply;

/// A value. The fields of a hash keep the order in which they were added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredValue {
    /// A string.
    Text(String),
    /// A hash.
    Hash(Vec<(String, String)>),
    /// A set.
    Set(BTreeSet<String>),
    /// A sorted set. Its members are in a board. This value stands for it while commands of all types run, and is never
    /// stored.
    Sorted,
    /// A hash with fields that expire.
    Timed(TimedHash),
}

/// A hash with fields that expire. At least one does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedHash {
    fields: Vec<(String, String)>,
    /// When fields expire, unix milliseconds.
    ends: BTreeMap<String, i64>,
    /// The expiry of the key, unix milliseconds. In its row, the expiry is at most that of the last field.
    pub key_end_ms: Option<i64>,
}

impl TimedHash {
    /// When nothing is left of it, unix milliseconds: at the end of the key, or of the last field.
    pub fn last_end_ms(&self) -> Option<i64> {
        let lasts = self.ends.len() < self.fields.len();
        let last_ms = self.ends.values().max().filter(|_| !lasts).copied();
        last_ms.into_iter().chain(self.key_end_ms).min()
    }

    /// The hash without the fields that have expired; `None` if none is left.
    fn at(mut self, now_ms: i64) -> Option<StoredValue> {
        let ends = &self.ends;
        let lasts = |(name, _): &(String, String)| ends.get(name).is_none_or(|at| *at > now_ms);
        self.fields.retain(lasts);
        hash_of(self.fields, self.ends, self.key_end_ms)
    }
}

impl StoredValue {
    /// Its type, in the reply to `TYPE`.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Hash(_) | Self::Timed(_) => "hash",
            Self::Set(_) => "set",
            Self::Sorted => "zset",
        }
    }

    /// The fields of a hash; none of other values.
    pub fn fields(&self) -> &[(String, String)] {
        match self {
            Self::Hash(fields) => fields,
            Self::Timed(hash) => &hash.fields,
            _ => &[],
        }
    }

    /// Its bytes: fields and members added up.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Hash(fields) => bytes_of(fields),
            Self::Timed(hash) => {
                let names = hash.ends.keys().map(String::len);
                bytes_of(&hash.fields) + names.map(|name| name + END_BYTES).sum::<usize>()
            }
            Self::Set(members) => members.iter().map(String::len).sum(),
            Self::Sorted => 0,
        }
    }
}

/// A hash with these fields, and the expiries of those that are among them; `None` without fields.
fn hash_of(
    fields: Vec<(String, String)>,
    mut ends: BTreeMap<String, i64>,
    key_end_ms: Option<i64>,
) -> Option<StoredValue> {
    if !ends.is_empty() {
        let names = set_of(fields.iter().map(|(name, _)| name));
        ends.retain(|name, _| names.contains(name));
    }
    match (fields.is_empty(), ends.is_empty()) {
        (true, _) => None,
        (false, true) => Some(StoredValue::Hash(fields)),
        (false, false) => Some(StoredValue::Timed(TimedHash {
            fields,
            ends,
            key_end_ms,
        })),
    }
}

/// What the expiry of a field uses besides the name, bytes.
const END_BYTES: usize = 8;

fn bytes_of(fields: &[(String, String)]) -> usize {
    let sizes = fields.iter().map(|(name, value)| name.len() + value.len());
    sizes.sum()
}

/// A key that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceEntry {
    /// Its value.
    pub value: StoredValue,
    /// Its expiry, unix milliseconds; `None` for never.
    pub expires_ms: Option<i64>,
    /// Whether it is a counter, whose value is in cells: its text is a whole number.
    pub is_counter: bool,
}

impl KeyspaceEntry {
    /// The number in its text.
    pub fn number(&self) -> Option<i64> {
        match &self.value {
            StoredValue::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

/// The keys of a command.
#[derive(Clone, Debug, Default)]
pub struct Space {
    now_ms: i64,
    seed: u64,
    entries: BTreeMap<String, KeyspaceEntry>,
    changed: BTreeSet<String>,
}

/// The reply of a refused command.
pub type CommandRefused = Reply;

impl Space {
    /// An empty one, at a time in unix milliseconds.
    pub fn new(now_ms: i64) -> Self {
        Self {
            now_ms,
            ..Self::default()
        }
    }

    /// The same with a random seed, for a command that draws.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// A random number: another at each call.
    pub(super) fn random(&mut self) -> u64 {
        drawn(&mut self.seed)
    }

    /// The time of the command, unix milliseconds.
    pub const fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Adds a key in its present state; one that has expired is skipped.
    pub fn load(&mut self, key: String, mut entry: KeyspaceEntry) {
        if let StoredValue::Timed(hash) = entry.value {
            entry.expires_ms = hash.key_end_ms;
            let Some(value) = hash.at(self.now_ms) else {
                return;
            };
            entry.value = value;
        }
        if entry.expires_ms.is_none_or(|at_ms| at_ms > self.now_ms) {
            self.entries.insert(key, entry);
        }
    }

    /// A key.
    pub fn get(&self, key: &str) -> Option<&KeyspaceEntry> {
        self.entries.get(key)
    }

    /// The keys that commands have changed.
    pub fn changed(&self) -> impl Iterator<Item = &String> {
        self.changed.iter()
    }

    /// Forgets which keys have changed: they are stored now.
    pub fn kept(&mut self) {
        self.changed.clear();
    }

    /// A string's text.
    ///
    /// # Errors
    /// `WRONGTYPE`.
    pub fn text(&self, key: &str) -> Result<Option<&str>, CommandRefused> {
        match self.get(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(StoredValue::Text(text)) => Ok(Some(text)),
            Some(_) => Err(error::wrong_type()),
        }
    }

    /// A hash's fields; empty where there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE`.
    pub fn hash(&self, key: &str) -> Result<&[(String, String)], CommandRefused> {
        match self.get(key).map(|entry| &entry.value) {
            None => Ok(&[]),
            Some(hash @ (StoredValue::Hash(_) | StoredValue::Timed(_))) => Ok(hash.fields()),
            Some(_) => Err(error::wrong_type()),
        }
    }

    /// When fields of a hash expire, unix milliseconds; those that do not are not among them.
    pub fn field_ends(&self, key: &str) -> BTreeMap<String, i64> {
        match self.get(key).map(|entry| &entry.value) {
            Some(StoredValue::Timed(hash)) => hash.ends.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// Stores a hash with the key's present expiry, or removes it where no field is left.
    ///
    /// # Errors
    /// If it is too large.
    pub fn put_hash(
        &mut self,
        key: &str,
        fields: Vec<(String, String)>,
        ends: BTreeMap<String, i64>,
    ) -> Result<(), CommandRefused> {
        let key_end_ms = self.get(key).and_then(|entry| entry.expires_ms);
        match hash_of(fields, ends, key_end_ms) {
            Some(hash) => self.put_value(key, hash)?,
            None => {
                self.remove(key);
            }
        }
        Ok(())
    }

    /// A set's members; empty where there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE`.
    pub fn set(&self, key: &str) -> Result<BTreeSet<String>, CommandRefused> {
        match self.get(key).map(|entry| &entry.value) {
            None => Ok(BTreeSet::new()),
            Some(StoredValue::Set(members)) => Ok(members.clone()),
            Some(_) => Err(error::wrong_type()),
        }
    }

    /// Stores a string. It becomes a counter if it is a whole number without expiry; a key that was a counter stays one
    /// if it still is a whole number.
    ///
    /// # Errors
    /// If the text is too long.
    pub fn put_text(
        &mut self,
        key: &str,
        text: String,
        expires_ms: Option<i64>,
    ) -> Result<(), CommandRefused> {
        let was_counter = self.get(key).is_some_and(|entry| entry.is_counter);
        let may_be = was_counter || expires_ms.is_none();
        let is_counter = may_be && whole(&text).is_some() && CounterId::parse(key).is_ok();
        self.put(key, StoredValue::Text(text), expires_ms, is_counter)
    }

    /// Stores a value with the key's present expiry. A counter stays one while it is a whole number: a script that may
    /// only write must not end it.
    ///
    /// # Errors
    /// If it is too large.
    pub fn put_value(&mut self, key: &str, value: StoredValue) -> Result<(), CommandRefused> {
        let before = self.get(key);
        let expires_ms = before.and_then(|entry| entry.expires_ms);
        let is_whole = matches!(&value, StoredValue::Text(text) if whole(text).is_some());
        let is_counter = is_whole && before.is_some_and(|entry| entry.is_counter);
        self.put(key, value, expires_ms, is_counter)
    }

    fn put(
        &mut self,
        key: &str,
        value: StoredValue,
        expires_ms: Option<i64>,
        is_counter: bool,
    ) -> Result<(), CommandRefused> {
        if key.len() + value.bytes() > VALUE_BYTES_MAX {
            return Err(error::too_large());
        }
        // A value that expires at once is removed.
        if expires_ms.is_some_and(|at_ms| at_ms <= self.now_ms) {
            self.entries.remove(key);
            self.changed.insert(key.to_owned());
            return Ok(());
        }
        let entry = KeyspaceEntry {
            value,
            expires_ms,
            is_counter,
        };
        self.changed.insert(key.to_owned());
        self.entries.insert(key.to_owned(), entry);
        Ok(())
    }

    /// Changes the expiry of an existing key.
    pub fn expire(&mut self, key: &str, expires_ms: Option<i64>) {
        if expires_ms.is_some_and(|at_ms| at_ms <= self.now_ms) {
            self.remove(key);
            return;
        }
        if let Some(entry) = self.entries.get_mut(key) {
            entry.expires_ms = expires_ms;
            self.changed.insert(key.to_owned());
        }
    }

    /// Makes a key end at this time at the latest. This does not count as a change.
    pub fn ends_by(&mut self, key: &str, at_ms: i64) {
        if let Some(entry) = self.entries.get_mut(key)
            && at_ms > self.now_ms
        {
            let before_ms = entry.expires_ms.unwrap_or(i64::MAX);
            entry.expires_ms = Some(before_ms.min(at_ms));
        }
    }

    /// Leaves a key out. This does not count as a change.
    pub fn hide(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// Removes a key; returns whether it existed.
    pub fn remove(&mut self, key: &str) -> bool {
        let was = self.entries.remove(key).is_some();
        if was {
            self.changed.insert(key.to_owned());
        }
        was
    }
}

/// A whole number in Redis's form: 64 bits and a sign, without spaces, plus or leading zeros.
pub fn whole(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}
