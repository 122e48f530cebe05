//! Sorted lists, for lists that are sorted once: all element types share the code of one sort, which keeps the Wasm
//! small. Lists that are sorted often use their own sort.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the items in order; the order of equal ones is kept. Cost: O(n log n), and a `usize` for each.
pub fn in_order<T>(items: Vec<T>, compare: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    let indices = indices_in_order(items.len(), &|one, other| {
        match (items.get(one), items.get(other)) {
            (Some(one), Some(other)) => compare(one, other),
            // Indexes are below the length.
            _ => Ordering::Equal,
        }
    });
    let mut slots: Vec<Option<T>> = items.into_iter().map(Some).collect();
    indices
        .into_iter()
        .filter_map(|index| slots.get_mut(index).and_then(Option::take))
        .collect()
}

/// Puts items in order, see [`in_order`].
pub fn put_in_order<T>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    *items = in_order(std::mem::take(items), compare);
}

/// Returns a map of the items, of equal keys the last. Cost: O(n log n). `collect` would sort them first, by a sort of
/// their own.
pub fn map_of<K: Ord, V>(items: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(items);
    map
}

/// Returns a set of the items, see [`map_of`].
pub fn set_of<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(items);
    set
}

fn indices_in_order(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..count).collect();
    indices.sort_unstable_by(|one, other| compare(*one, *other).then(one.cmp(other)));
    indices
}
