//! Values that an isolate caches, and their ages: keys, shares, policies, and summaries of boards.
//!
//! The caller decides by the age. A fresh value is used as it is. An older one is used while a request reads it anew in
//! the background (`stale-while-revalidate` of RFC 5861). A still older one is used only if the directory does not
//! answer (`stale-if-error`).
//!
//! Invariant: a value that was read earlier never replaces one that was read later, although its answer comes later.

use std::borrow::Borrow;
use std::hash::Hash;

use tally_core::counter::bounded_map::BoundedMap;

struct Entry<V> {
    value: V,
    read_ms: i64,
    is_being_read: bool,
}

/// A value as it is cached.
pub struct AgedValue<V> {
    /// The value.
    pub value: V,
    /// The time since it was read, milliseconds.
    pub age_ms: i64,
    /// Whether the request that found it reads it anew: no other does meanwhile.
    pub must_read: bool,
}

/// At most `MAX` values by their names, with their ages.
pub struct AgedCache<K, V, const MAX: usize>(BoundedMap<K, Entry<V>, MAX>);

impl<K: Eq + Hash, V, const MAX: usize> Default for AgedCache<K, V, MAX> {
    fn default() -> Self {
        Self(BoundedMap::default())
    }
}

impl<K: Eq + Hash, V: Clone, const MAX: usize> AgedCache<K, V, MAX> {
    /// Returns the cached value. The request that finds it first once it is older than `fresh_ms` must read it anew.
    pub fn find<Q: Eq + Hash + ?Sized>(
        &mut self,
        key: &Q,
        now_ms: i64,
        fresh_ms: i64,
    ) -> Option<AgedValue<V>>
    where
        K: Borrow<Q>,
    {
        let entry = self.0.get_mut(key)?;
        let age_ms = now_ms.saturating_sub(entry.read_ms);
        let must_read = age_ms > fresh_ms && !entry.is_being_read;
        entry.is_being_read |= must_read;
        Some(AgedValue {
            value: entry.value.clone(),
            age_ms,
            must_read,
        })
    }

    /// Caches a value that was read at this time, unix milliseconds, unless a later one is cached.
    pub fn put(&mut self, key: K, value: V, read_ms: i64) {
        if let Some(known) = self.0.get_mut(&key) {
            known.is_being_read = false;
            if known.read_ms > read_ms {
                return;
            }
        }
        let entry = Entry {
            value,
            read_ms,
            is_being_read: false,
        };
        self.0.insert(key, entry);
    }

    /// The cached value, whatever its age.
    pub fn peek<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.peek(key).map(|entry| &entry.value)
    }

    /// Makes a value at least this old: what was changed is read anew.
    pub fn age<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, age_ms: i64, now_ms: i64)
    where
        K: Borrow<Q>,
    {
        if let Some(entry) = self.0.get_mut(key) {
            entry.read_ms = entry.read_ms.min(now_ms.saturating_sub(age_ms));
        }
    }

    /// Records that the value could not be read: the next request may try.
    pub fn fail<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some(entry) = self.0.get_mut(key) {
            entry.is_being_read = false;
        }
    }

    /// Removes a value.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.0.remove(key);
    }

    /// Removes the values of which this is true.
    pub fn remove_where(&mut self, is_old: impl Fn(&V) -> bool) {
        self.0.retain(|entry| !is_old(&entry.value));
    }
}
