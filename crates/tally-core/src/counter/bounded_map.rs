//! Bounded maps whose entries may be forgotten: caches, and the state of work in progress.
//!
//! Invariant: a map never holds more than `MAX` entries. If it is full, a new entry evicts the least recently used one.
//! An owner can choose otherwise: it removes unneeded entries first ([`BoundedMap::make_room`]), does not insert, or
//! takes the entry out that would go ([`BoundedMap::evict`]), if more depends on it than its own memory.
//!
//! The library `lru` keeps the order of use. Hit rates of look-ups by Zipf's law, of 2,000 keys in a map of 1,000, by
//! the exponent (a test repeats them):
//!
//! | a full map | 0.8 | 1.0 | 1.2 | Wasm, KB gzipped |
//! |---|---|---|---|---|
//! | forgets everything | 0.610 | 0.770 | 0.893 | 0 |
//! | evicts the least recently used | 0.776 | 0.876 | 0.945 | 1.0 |
//!
//! `schnellru` finds as many. Its last release is of January 2025, and it brings a hash table of its own. `quick_cache`
//! finds 0.01 to 0.02 more for 3.6 KB.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroUsize;

use lru::LruCache;

/// A map of at most `MAX` entries, at least 1. Its memory grows with its entries.
pub struct BoundedMap<K, V, const MAX: usize>(LruCache<K, V>);

impl<K: Eq + Hash, V, const MAX: usize> Default for BoundedMap<K, V, MAX> {
    fn default() -> Self {
        let room = NonZeroUsize::new(MAX).unwrap_or(NonZeroUsize::MIN);
        Self(LruCache::sparse(room))
    }
}

impl<K: Eq + Hash, V, const MAX: usize> fmt::Debug for BoundedMap<K, V, MAX> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<K: Eq + Hash, V, const MAX: usize> BoundedMap<K, V, MAX> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a key has an entry, or can get one without an eviction.
    pub fn has_room(&self, key: &K) -> bool {
        self.0.len() < self.0.cap().get() || self.0.contains(key)
    }

    /// [`BoundedMap::has_room`], after removing unneeded entries if the map is full. Cost: O(entries) if it is full.
    pub fn make_room(&mut self, key: &K, is_needed: impl Fn(&V) -> bool) -> bool {
        if !self.has_room(key) {
            self.retain(is_needed);
        }
        self.has_room(key)
    }

    /// Inserts an entry, and returns the former value of its key. If there is no room, another entry is evicted.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.put(key, value)
    }

    /// The entry of a key, made where there is none. If there is no room for it, another entry is evicted.
    pub fn entry(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V
    where
        K: Clone,
    {
        self.0.get_or_insert_mut_ref(key, make)
    }

    /// The entry of a key, which counts as used.
    pub fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// The entry of a key to be changed, which counts as used.
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    /// The entry of a key, which does not count as used.
    pub fn peek<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.peek(key)
    }

    /// Whether a key has an entry, which does not count as used.
    pub fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains(key)
    }

    /// All entries, the most recently used first; none counts as used.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter()
    }

    /// Takes an entry out.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.pop(key)
    }

    /// Takes the least recently used entry out.
    pub fn evict(&mut self) -> Option<V> {
        self.0.pop_lru().map(|(_, value)| value)
    }

    /// Forgets the entries that are not needed. Cost: O(entries).
    pub fn retain(&mut self, is_needed: impl Fn(&V) -> bool) {
        self.0.retain(|_, value| is_needed(value));
    }

    /// Forgets the entries whose keys are not needed. Cost: O(entries).
    pub fn retain_keys(&mut self, is_needed: impl Fn(&K) -> bool) {
        self.0.retain(|key, _| is_needed(key));
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// A value whose memory counts.
pub trait Weighed {
    /// Its memory, bytes. It must not change.
    fn bytes(&self) -> usize;
}

/// A map of at most `MAX` entries, and of at most `BYTES_MAX` bytes of values unless it holds one alone.
#[derive(Debug)]
pub struct WeighedMap<K: Eq + Hash, V, const MAX: usize, const BYTES_MAX: usize> {
    entries: BoundedMap<K, V, MAX>,
    bytes: usize,
}

impl<K: Eq + Hash, V, const MAX: usize, const BYTES_MAX: usize> Default
    for WeighedMap<K, V, MAX, BYTES_MAX>
{
    fn default() -> Self {
        Self {
            entries: BoundedMap::default(),
            bytes: 0,
        }
    }
}

impl<K: Eq + Hash, V: Weighed, const MAX: usize, const BYTES_MAX: usize>
    WeighedMap<K, V, MAX, BYTES_MAX>
{
    /// The bytes of all values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value of a key, which counts as used.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    /// The value of a key, which does not count as used.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.entries.peek(key)
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.entries.remove(key)?;
        self.bytes = self.bytes.saturating_sub(removed.bytes());
        Some(removed)
    }

    /// Inserts a value. The least recently used values are evicted until there is room for it.
    pub fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        let bytes = value.bytes();
        while self.bytes.saturating_add(bytes) > BYTES_MAX || !self.entries.has_room(&key) {
            let Some(evicted) = self.entries.evict() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(evicted.bytes());
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries.insert(key, value);
    }
}
