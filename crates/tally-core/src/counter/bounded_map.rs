//! Bounded maps whose entries may be forgotten: caches, and the state of work in progress.
//!
//! Invariant: a map never holds more than `MAX` entries. If it is full, a new entry removes all others. An owner can
//! avoid that: it removes unneeded entries first ([`BoundedMap::make_room`]), or does not insert.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Deref;

/// A map of at most `MAX` entries. Methods that only read are those of [`HashMap`].
#[derive(Clone, Debug)]
pub struct BoundedMap<K, V, const MAX: usize>(HashMap<K, V>);

impl<K, V, const MAX: usize> Default for BoundedMap<K, V, MAX> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K, V, const MAX: usize> Deref for BoundedMap<K, V, MAX> {
    type Target = HashMap<K, V>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<K: Eq + Hash, V, const MAX: usize> BoundedMap<K, V, MAX> {
    /// Whether a key has an entry, or can get one without removing others.
    pub fn has_room(&self, key: &K) -> bool {
        self.0.len() < MAX || self.0.contains_key(key)
    }

    /// [`BoundedMap::has_room`], after removing unneeded entries if the map is full. Cost: O(entries) if it is full.
    pub fn make_room(&mut self, key: &K, is_needed: impl Fn(&V) -> bool) -> bool {
        if !self.has_room(key) {
            self.retain(is_needed);
        }
        self.has_room(key)
    }

    /// Inserts an entry, and returns the former one. If there is no room, all others are removed.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if !self.has_room(&key) {
            self.0.clear();
        }
        self.0.insert(key, value)
    }

    /// The entry of a key, made where there is none; where there is no room for it, all others are forgotten.
    pub fn entry(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V
    where
        K: Clone,
    {
        if !self.has_room(key) {
            self.0.clear();
        }
        self.0.entry(key.clone()).or_insert_with(make)
    }

    /// The entry of a key, to be changed.
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    /// Takes an entry out.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }

    /// Forgets the entries that are not needed. Cost: O(entries).
    pub fn retain(&mut self, is_needed: impl Fn(&V) -> bool) {
        self.0.retain(|_, value| is_needed(value));
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
