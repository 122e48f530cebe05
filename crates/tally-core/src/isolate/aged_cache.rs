//! Values that an isolate caches, and their ages: keys, shares, policies, and summaries of boards.
//!
//! The caller decides by the age. A fresh value is used as it is. An older one is used while a request reads it anew in
//! the background (`stale-while-revalidate` of RFC 5861). A still older one is used only if the directory does not
//! answer (`stale-if-error`).
//!
//! Invariants: a value that was read earlier never replaces one that was read later, although its answer comes later.
//! A read that began before a change of this isolate is not cached, since it may lack the change. If the clock steps
//! back, what was read before looks old, and is replaced.

use std::borrow::Borrow;
use std::hash::Hash;

use crate::counter::bounded_map::BoundedMap;

struct Entry<V> {
    value: V,
    read_ms: i64,
    is_being_read: bool,
}

impl<V> Entry<V> {
    fn age_ms(&self, now_ms: i64) -> i64 {
        i64::try_from(now_ms.abs_diff(self.read_ms)).unwrap_or(i64::MAX)
    }
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
pub struct AgedCache<K, V, const MAX: usize> {
    entries: BoundedMap<K, Entry<V>, MAX>,
    /// When this isolate last changed what is cached here, unix milliseconds.
    changed_ms: i64,
}

impl<K: Eq + Hash, V, const MAX: usize> Default for AgedCache<K, V, MAX> {
    fn default() -> Self {
        Self {
            entries: BoundedMap::default(),
            changed_ms: i64::MIN,
        }
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
        let entry = self.entries.get_mut(key)?;
        let age_ms = entry.age_ms(now_ms);
        let must_read = age_ms > fresh_ms && !entry.is_being_read;
        entry.is_being_read |= must_read;
        Some(AgedValue {
            value: entry.value.clone(),
            age_ms,
            must_read,
        })
    }

    /// The value, if it is at most `age_ms` old by now.
    pub fn within<Q: Eq + Hash + ?Sized>(&self, key: &Q, now_ms: i64, age_ms: i64) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.peek(key);
        let entry = entry.filter(|entry| entry.age_ms(now_ms) <= age_ms);
        entry.map(|entry| entry.value.clone())
    }

    /// Caches a value whose read began at `read_ms`, unless a later one is cached, or this isolate has changed it
    /// since. Times are unix milliseconds.
    pub fn put(&mut self, key: K, value: V, read_ms: i64, now_ms: i64) {
        // A time that is still to come was read before the clock stepped back.
        let is_later = |other_ms: i64| other_ms > read_ms && other_ms <= now_ms;
        let mut is_late = is_later(self.changed_ms);
        if let Some(known) = self.entries.get_mut(&key) {
            known.is_being_read = false;
            is_late |= is_later(known.read_ms);
        }
        if is_late {
            return;
        }
        let entry = Entry {
            value,
            read_ms,
            is_being_read: false,
        };
        self.entries.insert(key, entry);
    }

    /// The cached value, whatever its age.
    pub fn peek<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.peek(key).map(|entry| &entry.value)
    }

    /// Makes a value that this isolate has changed at least this old, so that it is read anew.
    pub fn age<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, age_ms: i64, now_ms: i64)
    where
        K: Borrow<Q>,
    {
        self.changed_ms = now_ms;
        if let Some(entry) = self.entries.get_mut(key) {
            entry.read_ms = entry.read_ms.min(now_ms.saturating_sub(age_ms));
        }
    }

    /// Records that the value could not be read: the next request may try.
    pub fn fail<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.is_being_read = false;
        }
    }

    /// Removes a value that this isolate has changed.
    pub fn forget<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, now_ms: i64)
    where
        K: Borrow<Q>,
    {
        self.changed_ms = now_ms;
        self.remove(key);
    }

    /// Removes a value.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.entries.remove(key);
    }

    /// Removes the values of which this is true, because this isolate has changed them.
    pub fn forget_where(&mut self, is_old: impl Fn(&V) -> bool, now_ms: i64) {
        self.changed_ms = now_ms;
        self.entries.retain(|entry| !is_old(&entry.value));
    }
}
