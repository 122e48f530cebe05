//! Law: a partition that is added takes only its fair part of the keys, all other keys stay; and
//! where a key lives never changes, because its data is found there.

use crate::common;

use std::collections::BTreeMap;

use common::config;
use proptest::prelude::*;
use tally_core::cluster::ring::{PARTITIONS_MAX, Ring, VIRTUAL_NODES};
use tally_wire::names::DIRECTORY_PARTITIONS;

fn keys(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("page/{number}")).collect()
}

/// How many of the keys each partition holds.
fn shares(partitions: u32, keys: &[String]) -> BTreeMap<u32, u32> {
    let ring = Ring::new(partitions);
    let mut shares: BTreeMap<u32, u32> = (0..partitions).map(|number| (number, 0)).collect();
    for key in keys {
        *shares.entry(ring.partition_of(key)).or_insert(0) += 1;
    }
    shares
}

#[test]
fn where_a_key_lives_never_changes() {
    let ring = Ring::new(DIRECTORY_PARTITIONS);
    let golden = [
        ("a", 5),
        ("home", 2),
        ("page/1", 0),
        ("/index.html", 5),
        ("user:42", 13),
        ("ключ", 0),
        ("日本語", 11),
        ("A B", 2),
    ];
    for (key, partition) in golden {
        assert_eq!(ring.partition_of(key), partition, "{key:?}");
    }
    assert_eq!((VIRTUAL_NODES, DIRECTORY_PARTITIONS), (100, 16));
}

#[test]
fn every_partition_has_its_fair_share() {
    let keys = keys(20_000);
    for partitions in [2, 16, 64] {
        let fair = 20_000 / partitions;
        for (partition, share) in shares(partitions, &keys) {
            let is_fair = (fair * 65 / 100..=fair * 135 / 100).contains(&share);
            assert!(
                is_fair,
                "partition {partition} of {partitions} has {share}, {fair} were fair"
            );
        }
    }
}

#[test]
fn an_added_partition_takes_a_fair_part_and_nothing_else_moves() {
    let keys = keys(20_000);
    for partitions in [1, 2, 15, 16, 63] {
        let (before, after) = (Ring::new(partitions), Ring::new(partitions + 1));
        let mut moved = 0;
        for key in &keys {
            let (old, new) = (before.partition_of(key), after.partition_of(key));
            if old != new {
                assert_eq!(new, partitions, "{key} moved between old partitions");
                moved += 1;
            }
        }
        let fair = 20_000 / (partitions + 1);
        let is_fair = (fair * 65 / 100..=fair * 135 / 100).contains(&moved);
        assert!(
            is_fair,
            "{moved} keys moved to partition {partitions}, {fair} were fair"
        );
    }
}

proptest! {
    #![proptest_config(config(91, 256))]

    #[test]
    fn any_key_stays_or_goes_to_a_new_partition(
        key in ".{0,40}", partitions in 1..40_u32, added in 1..20_u32,
    ) {
        let old = Ring::new(partitions).partition_of(&key);
        let new = Ring::new(partitions + added).partition_of(&key);
        prop_assert!(old < partitions);
        prop_assert!(new == old || (partitions..partitions + added).contains(&new));
        prop_assert_eq!(Ring::new(partitions).partition_of(&key), old, "the same again");
    }
}

#[test]
fn a_ring_has_at_least_one_and_at_most_4096_partitions() {
    assert_eq!(PARTITIONS_MAX, 4_096);
    let keys = keys(300);
    assert!(keys.iter().all(|key| Ring::new(0).partition_of(key) == 0));
    let most = Ring::new(PARTITIONS_MAX);
    let beyond = Ring::new(u32::MAX);
    for key in &keys {
        assert!(most.partition_of(key) < PARTITIONS_MAX);
        assert_eq!(beyond.partition_of(key), most.partition_of(key));
    }
}
