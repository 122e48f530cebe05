//! Which tablet hosts a counter: leads of one tablet have their roots in few partitions, and added tablets take
//! counters, never swap them.

use std::collections::{BTreeMap, BTreeSet};

use tally_core::cluster::ring::Ring;
use tally_core::cluster::tablets::{LeadPlace, SPREADS_MAX, SpreadChange, Spreads, TabletSpread};
use tally_core::counter::id::CounterId;

fn counters() -> Vec<CounterId> {
    let id = |number| CounterId::parse(format!("/page/{number}")).expect("an id");
    (0..20_000).map(id).collect()
}

#[test]
fn the_leads_of_a_tablet_have_their_roots_in_one_partition_where_there_are_as_many_tablets() {
    for (tablets, partitions) in [
        (16, 16),
        (17, 16),
        (64, 16),
        (100, 16),
        (64, 64),
        (4_096, 16),
    ] {
        let ring = Ring::new(partitions);
        let spread = TabletSpread::new(tablets, partitions);
        let mut of_tablet: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for counter in counters() {
            let partition = ring.partition_of(counter.as_str());
            let tablet = spread.of(&counter, partition);
            assert!(tablet < tablets, "{tablet} of {tablets}");
            of_tablet.entry(tablet).or_default().insert(partition);
        }
        assert!(of_tablet.values().all(|partitions| partitions.len() == 1));
    }
}

#[test]
fn few_tablets_share_the_partitions_evenly_enough() {
    for tablets in [1, 2, 5, 15] {
        let spread = TabletSpread::new(tablets, 16);
        let counter = CounterId::parse("x").expect("an id");
        let mut shares = BTreeMap::new();
        for partition in 0..16 {
            *shares.entry(spread.of(&counter, partition)).or_insert(0) += 1;
        }
        assert!(shares.keys().all(|tablet| *tablet < tablets));
        assert!(
            shares.len() > usize::try_from(tablets / 2).expect("few"),
            "{tablets}: {shares:?}"
        );
    }
}

#[test]
fn an_added_tablet_takes_counters_and_no_other_moves() {
    let ring = Ring::new(16);
    for (before, after) in [(64, 65), (64, 128), (16, 64), (12, 64), (100, 101)] {
        let (old, new) = (TabletSpread::new(before, 16), TabletSpread::new(after, 16));
        let (mut stayed, mut moved) = (0, 0);
        for counter in counters() {
            let partition = ring.partition_of(counter.as_str());
            let (was, is) = (old.of(&counter, partition), new.of(&counter, partition));
            if was == is {
                stayed += 1;
            } else {
                assert!(
                    is >= before,
                    "{counter} went from {was} to {is}, which was there before"
                );
                moved += 1;
            }
        }
        let fair = f64::from(after - before) / f64::from(after);
        let share = f64::from(moved) / f64::from(moved + stayed);
        assert!(share < 1.5 * fair + 0.01, "{before} to {after}: {share}");
    }
}

#[test]
fn tablets_are_evenly_filled() {
    let ring = Ring::new(16);
    let spread = TabletSpread::new(64, 16);
    let mut filled = vec![0_u32; 64];
    for counter in counters() {
        let tablet = spread.of(&counter, ring.partition_of(counter.as_str()));
        filled[usize::try_from(tablet).expect("small")] += 1;
    }
    let (least, most) = (filled.iter().min(), filled.iter().max());
    assert!(least > Some(&150) && most < Some(&500), "{filled:?}");
}

#[test]
fn where_counters_lie_never_changes() {
    let spread = TabletSpread::new(64, 16);
    let ring = Ring::new(16);
    let place = |id: &str| {
        let counter = CounterId::parse(id).expect("an id");
        spread.of(&counter, ring.partition_of(id))
    };
    let golden = [("/", 52), ("/about", 45), ("home", 34), ("ünï", 54)];
    let found = golden.map(|(id, _)| (id, place(id)));
    assert_eq!(found, golden);
}

/// Each number of tablets as a place of its own.
fn place(tablets: Option<u32>) -> LeadPlace {
    tablets.map_or(LeadPlace::Own, LeadPlace::Tablet)
}

#[test]
fn a_changed_number_begins_a_spread_and_those_before_it_are_remembered_the_latest_first() {
    let mut spreads = Spreads::new(None);
    assert_eq!(spreads.places(place), (0, LeadPlace::Own, vec![]));
    assert_eq!(spreads.change(None, 1), SpreadChange::Same);
    assert_eq!(spreads.change(Some(4), 2), SpreadChange::Applied);
    assert_eq!(
        spreads.places(place),
        (1, LeadPlace::Tablet(4), vec![LeadPlace::Own])
    );
    assert_eq!(spreads.change(Some(9), 3), SpreadChange::Applied);
    let old_places = vec![LeadPlace::Tablet(4), LeadPlace::Own];
    assert_eq!(spreads.places(place), (2, LeadPlace::Tablet(9), old_places));
    // Back again: one number more, and no place twice.
    assert_eq!(spreads.change(Some(4), 4), SpreadChange::Applied);
    let old_places = vec![LeadPlace::Tablet(9), LeadPlace::Own];
    assert_eq!(spreads.places(place), (3, LeadPlace::Tablet(4), old_places));
    assert_eq!(
        spreads.places(|_| LeadPlace::Own),
        (3, LeadPlace::Own, vec![])
    );
}

#[test]
fn spreads_are_bounded_and_a_number_among_them_may_always_hold_again() {
    let mut spreads = Spreads::new(None);
    for tablets in (1..).take(SPREADS_MAX - 1) {
        assert_eq!(spreads.change(Some(tablets), 1), SpreadChange::Applied);
    }
    let before = spreads.clone();
    assert_eq!(spreads.change(Some(100), 2), SpreadChange::Full);
    assert_eq!(spreads, before);
    assert_eq!(spreads.change(None, 2), SpreadChange::Applied);
    assert_eq!(spreads.places(place).1, LeadPlace::Own);
}
