//! Laws: a bounded map never holds more than its bound, and what it forgets it forgets as it says.

use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::flush_outcomes::FlushOutcomes;

const ENTRIES_MAX: usize = 3;

fn full() -> BoundedMap<u8, u8, ENTRIES_MAX> {
    let mut map = BoundedMap::default();
    for key in 0..3 {
        assert_eq!(map.insert(key, key), None);
    }
    map
}

fn keys(map: &BoundedMap<u8, u8, ENTRIES_MAX>) -> Vec<u8> {
    (0..10).filter(|key| map.contains_key(key)).collect()
}

#[test]
fn a_new_entry_of_a_full_map_takes_the_place_of_all_others() {
    let mut map = full();
    assert!(map.has_room(&1) && !map.has_room(&5));
    assert_eq!(map.insert(1, 7), Some(1));
    assert_eq!((keys(&map), map.get(&1)), (vec![0, 1, 2], Some(&7)));
    assert_eq!(map.insert(5, 5), None);
    assert_eq!(keys(&map), [5]);
    let mut map = full();
    *map.entry(&2, || 9) += 1;
    assert_eq!((keys(&map), map.get(&2)), (vec![0, 1, 2], Some(&3)));
    assert_eq!(*map.entry(&6, || 9), 9);
    assert_eq!(keys(&map), [6]);
}

#[test]
fn room_is_made_by_what_is_not_needed_any_more() {
    let mut map = full();
    assert!(map.make_room(&2, |_| true), "it has a place");
    assert!(!map.make_room(&5, |_| true));
    assert_eq!(keys(&map), [0, 1, 2]);
    assert!(map.make_room(&5, |value| *value == 2));
    assert_eq!(keys(&map), [2]);
    map.insert(5, 5);
    assert_eq!(keys(&map), [2, 5]);
    map.clear();
    assert!(map.is_empty());
}

#[test]
fn the_newest_outcomes_are_kept_and_found_by_their_numbers() {
    let mut settled = FlushOutcomes::<u64, 2>::default();
    assert!(settled.is_empty());
    for number in [1, 3, 2] {
        settled.keep(number, number * 10, 0);
    }
    let found = [1, 2, 3, 4].map(|number| settled.outcome(number).copied());
    assert_eq!(found, [None, Some(20), Some(30), None]);
}
