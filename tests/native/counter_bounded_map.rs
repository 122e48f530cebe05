//! Laws: a bounded map never holds more than its bound, and what it forgets is what was not used for longest.

use tally_core::counter::bounded_map::{BoundedMap, Weighed, WeighedMap};
use tally_core::counter::lane::flush_outcomes::FlushOutcomes;
use tally_testing::chance::Chance;

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
fn a_new_entry_of_a_full_map_takes_the_place_of_the_one_that_was_not_used_for_longest() {
    let mut map = full();
    assert!(map.has_room(&1) && !map.has_room(&5));
    assert_eq!(map.insert(0, 7), Some(0));
    assert_eq!((keys(&map), map.peek(&0)), (vec![0, 1, 2], Some(&7)));
    assert_eq!(
        map.insert(5, 5),
        None,
        "no value of another key is returned"
    );
    assert_eq!(keys(&map), [0, 2, 5]);
    *map.entry(&2, || 9) += 1;
    assert_eq!((keys(&map), map.peek(&2)), (vec![0, 2, 5], Some(&3)));
    assert_eq!(*map.entry(&6, || 9), 9);
    assert_eq!(keys(&map), [2, 5, 6]);
}

#[test]
fn a_read_counts_as_a_use_and_a_peek_does_not() {
    let mut map = full();
    assert_eq!(map.get(&0), Some(&0));
    assert_eq!(map.get_mut(&1), Some(&mut 1));
    assert_eq!((map.peek(&2), map.contains_key(&2)), (Some(&2), true));
    assert_eq!(
        map.iter().map(|(key, _)| *key).collect::<Vec<_>>(),
        [1, 0, 2]
    );
    map.insert(5, 5);
    assert_eq!(keys(&map), [0, 1, 5]);
    assert_eq!((map.evict(), map.len()), (Some(0), 2));
}

#[test]
fn a_map_without_room_has_room_for_one() {
    let mut map = BoundedMap::<u8, u8, 0>::default();
    map.insert(1, 1);
    map.insert(2, 2);
    assert_eq!((map.len(), map.get(&2)), (1, Some(&2)));
}

/// The share, per mille, of 200,000 look-ups by Zipf's law that find their key, of twice as many keys as room.
fn hits_per_mille(exponent: f64, forgets_all: bool) -> u32 {
    const ROOM: usize = 1_000;
    let mut sums = Vec::with_capacity(2 * ROOM);
    let mut sum = 0.0;
    for rank in (1_u32..).take(2 * ROOM) {
        sum += f64::from(rank).powf(-exponent);
        sums.push(sum);
    }
    let mut chance = Chance(46);
    let mut map = BoundedMap::<usize, (), ROOM>::default();
    let mut hits = 0;
    for _ in 0..200_000 {
        let drawn = chance.fraction() * sum;
        let key = sums.partition_point(|sum| *sum < drawn);
        if map.get(&key).is_some() {
            hits += 1;
            continue;
        }
        if forgets_all && !map.has_room(&key) {
            map.clear();
        }
        map.insert(key, ());
        assert!(map.len() <= ROOM);
    }
    hits / 200
}

/// The figures of the table in `bounded_map.rs`.
#[test]
fn a_full_map_finds_more_keys_than_one_that_forgets_everything() {
    let rates =
        [0.8, 1.0, 1.2].map(|exponent| [true, false].map(|all| hits_per_mille(exponent, all)));
    assert_eq!(rates, [[610, 776], [770, 876], [893, 945]]);
}

#[derive(Debug)]
struct Load(usize);

impl Weighed for Load {
    fn bytes(&self) -> usize {
        self.0
    }
}

#[test]
fn the_bytes_of_a_weighed_map_are_those_of_its_values_whatever_was_evicted() {
    const BYTES_MAX: usize = 100;
    let mut map = WeighedMap::<u64, Load, 8, BYTES_MAX>::default();
    let mut chance = Chance(47);
    for _ in 0..5_000 {
        let key = chance.below(20);
        match chance.below(4) {
            0 => drop(map.remove(&key)),
            1 => drop(map.get(&key).is_some()),
            _ => {
                let bytes = chance.index(45);
                map.insert(key, Load(bytes));
                assert_eq!(map.peek(&key).map(Load::bytes), Some(bytes));
            }
        }
        let kept = (0..20).filter_map(|key| map.peek(&key));
        let (entries, bytes) = kept.fold((0, 0), |(entries, bytes), kept| {
            (entries + 1, bytes + kept.0)
        });
        assert_eq!(map.bytes(), bytes);
        assert!(
            entries <= 8 && bytes <= BYTES_MAX,
            "{entries} entries of {bytes} bytes"
        );
    }
}

#[test]
fn a_value_above_the_bound_of_bytes_is_kept_alone() {
    let mut map = WeighedMap::<u8, Load, 8, 100>::default();
    for (key, bytes) in [(1, 60), (2, 30), (3, 20)] {
        map.insert(key, Load(bytes));
    }
    assert!(map.peek(&1).is_none() && map.bytes() == 50);
    map.insert(4, Load(101));
    assert_eq!(map.bytes(), 101);
    map.insert(5, Load(1));
    assert!(map.peek(&4).is_none() && map.bytes() == 1);
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
