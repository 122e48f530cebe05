//! Which leads live apart from their tablets: what is noted of each only rises, and each move is an epoch of its own.

use tally_core::cluster::apart::{APART_OF_DATACENTER_MAX, LeadsApart, is_apart, placed};
use tally_core::cluster::tablets::{LeadPlace, Spreads};
use tally_core::counter::autoscale::{HotPeriod, LEAVE_PER_SECOND, LeaveLimits, Thresholds};
use tally_core::counter::id::{CounterId, Datacenter};

fn id(number: usize) -> CounterId {
    CounterId::parse(format!("hot-{number}")).expect("an id")
}

#[test]
fn a_lead_that_moves_out_and_back_may_have_lived_where_it_was_last() {
    let (tablet, before) = (LeadPlace::Tablet(7), LeadPlace::Tablet(3));
    assert_eq!(placed(0, tablet, vec![before]), (tablet, vec![before]));
    assert_eq!(
        placed(1, tablet, vec![before]),
        (LeadPlace::Own, vec![tablet, before])
    );
    assert_eq!(
        placed(2, tablet, vec![before, LeadPlace::Own]),
        (tablet, vec![LeadPlace::Own, before])
    );
    assert_eq!(
        placed(3, tablet, vec![LeadPlace::Own, tablet]),
        (LeadPlace::Own, vec![tablet])
    );
    // Without tablets all have objects of their own.
    assert_eq!(
        placed(1, LeadPlace::Own, vec![before]),
        (LeadPlace::Own, vec![before])
    );
}

#[test]
fn so_many_of_a_datacenter_leave_and_another_only_once_one_is_forgotten() {
    let here = Datacenter::local();
    let mut apart = LeadsApart::default();
    for number in 0..APART_OF_DATACENTER_MAX {
        assert!(apart.move_lead((&id(number), &here), 5, true));
    }
    let late = id(APART_OF_DATACENTER_MAX);
    assert!(!apart.move_lead((&late, &here), 5, true));
    assert_eq!(apart.moves(&late, &here), 0);
    // To say it again changes nothing.
    let noted = apart.clone();
    assert!(apart.move_lead((&id(0), &here), 5, true));
    assert_eq!(apart, noted);
    assert!(apart.move_lead((&id(0), &here), 5, false));
    assert!(!is_apart(apart.moves(&id(0), &here)));
    assert!(!apart.move_lead((&late, &here), 5, true));
    // What is forgotten raises the spread, so no epoch that a lead knows comes again.
    let mut spreads = Spreads::new(Some(64));
    let place = |_| LeadPlace::Tablet(1);
    let known = spreads.places(place).0 + apart.moves(&id(0), &here);
    spreads.raise(apart.forget(&id(0), &here));
    assert_eq!(apart.moves(&id(0), &here), 0);
    assert!(spreads.places(place).0 >= known);
    assert!(apart.move_lead((&late, &here), 5, true));
}

#[test]
fn partitions_that_join_know_of_each_lead_the_more_moves() {
    let here = Datacenter::local();
    let (mut one, mut other) = (LeadsApart::default(), LeadsApart::default());
    for out in [true, false, true] {
        one.move_lead((&id(0), &here), 5, out);
    }
    other.move_lead((&id(0), &here), 5, true);
    other.move_lead((&id(1), &here), 5, true);
    other.join(&one.of_counter(&id(0)));
    assert_eq!(other.moves(&id(0), &here), 3);
    one.join(&other);
    assert_eq!((one.moves(&id(0), &here), one.moves(&id(1), &here)), (3, 1));
    assert!(one.forget_counter(&id(0)) && !one.forget_counter(&id(0)));
    assert_eq!(one.of(&here), [id(1)]);
}

#[test]
fn a_lead_is_hot_only_after_a_while_without_a_pause_and_rests_only_when_it_is_cold() {
    let limits = LeaveLimits::new(LEAVE_PER_SECOND, Thresholds::default());
    assert_eq!((limits.hot_ms, limits.rest_ms), (10_000, 600_000));
    let mut heat = HotPeriod::default();
    let hot = |heat: &mut HotPeriod, from: i64, to: i64| {
        (from..=to).any(|second| heat.record(LEAVE_PER_SECOND, limits, 1_000 * second))
    };
    assert!(!hot(&mut heat, 0, 9));
    assert!(hot(&mut heat, 10, 10));
    heat.cool();
    assert!(!hot(&mut heat, 11, 20));
    // A pause begins it anew, and what is less is no heat.
    assert!(!hot(&mut heat, 31, 40));
    assert!(!heat.record(LEAVE_PER_SECOND - 1, limits, 41_000));
    assert!(hot(&mut heat, 41, 41));
    assert!(limits.is_rest(5_999, 600_000));
    assert!(!limits.is_rest(6_000, 600_000));
}
