//! Laws: epochs of the directory's numbers rise; each number is remembered once, until all roots have moved; what says
//! more is known by it.

use tally_core::cluster::ring::Ring;
use tally_core::cluster::sizes::{BEFORE_MAX, Sizes};
use tally_core::cluster::tablets::{LeadPlace, SpreadChange, Spreads, TabletSpread};
use tally_core::counter::id::CounterId;

fn before(sizes: &Sizes) -> Vec<u32> {
    sizes.before().collect()
}

#[test]
fn numbers_of_before_are_remembered_until_all_roots_have_moved() {
    let first = Sizes::new(16);
    assert!(!first.is_changing());
    let grown = first.changed(64).expect("room");
    assert_eq!(
        (grown.now(), before(&grown), grown.span()),
        (64, vec![16], 64)
    );
    let shrunk = grown.changed(5).expect("room");
    assert_eq!(before(&shrunk), [64, 16]);
    assert_eq!((shrunk.span(), shrunk.since()), (64, grown.epoch()));
    let back = shrunk.changed(16).expect("room");
    assert_eq!(before(&back), [5, 64], "what holds is not one of before");
    let settled = back.without_former();
    assert_eq!((settled.is_changing(), settled.span()), (false, 16));
    let order = [&first, &grown, &shrunk, &back, &settled];
    for (place, one) in order.iter().enumerate() {
        for (other_place, other) in order.iter().enumerate() {
            assert_eq!(one.is_newer_than(other), place > other_place);
        }
    }
    let next = settled.changed(17).expect("room");
    assert_eq!((next.since(), before(&next)), (next.epoch(), vec![16]));
}

#[test]
fn so_many_numbers_are_remembered_and_no_more() {
    let mut sizes = Sizes::new(16);
    for number in 0..BEFORE_MAX {
        sizes = sizes
            .changed(100 + u32::try_from(number).expect("few"))
            .expect("room");
    }
    assert_eq!(sizes.changed(7), None);
    assert!(sizes.changed(100).is_some(), "it is one of them");
    assert!(sizes.without_former().changed(7).is_some());
}

#[test]
fn the_ring_moves_names_to_new_partitions_alone() {
    let (small, large) = (Ring::new(16), Ring::new(64));
    let names = (0..4_000).map(|number| format!("page-{number}"));
    let mut moved = 0;
    for name in names {
        let (one, other) = (small.partition_of(&name), large.partition_of(&name));
        assert!(one == other || other >= 16, "{name}: {one} to {other}");
        moved += u32::from(one != other);
    }
    assert!((2_800..3_200).contains(&moved), "three of four: {moved}");
}

#[test]
fn who_takes_counters_over_knows_where_their_leads_may_live() {
    let counter = CounterId::parse("hits").expect("an id");
    let place = |tablets: Option<u32>| {
        let spread = tablets.map(|tablets| TabletSpread::new(tablets, 16));
        LeadPlace::of(spread, &counter, 3)
    };
    let mut theirs = Spreads::new(None);
    assert_eq!(theirs.change(Some(4), 1), SpreadChange::Applied);
    // One that is new knows the number that holds alone.
    let mut own = Spreads::new(Some(4));
    own.join(&theirs);
    assert_eq!(own.places(place), (1, place(Some(4)), vec![LeadPlace::Own]));
    let known = own.clone();
    own.join(&theirs);
    assert_eq!(own, known, "once is enough");
    // One that has another number has all of them move, by an epoch that none of their leads knows.
    let mut other = Spreads::new(None);
    other.join(&theirs);
    assert_eq!(
        other.places(place),
        (2, LeadPlace::Own, vec![place(Some(4))])
    );
    // Where nothing was changed nothing is.
    let mut same = Spreads::new(Some(4));
    same.join(&Spreads::new(Some(4)));
    assert_eq!(same, Spreads::new(Some(4)));
}
