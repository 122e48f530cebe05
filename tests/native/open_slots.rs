//! Laws: no more objects are in use than may be open, none is kept from it for good, and what bulk bodies begin rests.

use proptest::prelude::*;
use tally_core::counter::settings::SHARDS_MAX;
use tally_core::isolate::open_slots::{
    GROUP_COST, LET_GO_AT_NEED_MS, LET_GO_MS, OPENING_COST, ObjectUser, Openings, REST_MS,
};

const NOW_MS: i64 = 1_777_593_630_000;

#[test]
fn there_is_room_again_once_objects_have_been_let_go() {
    let mut openings = Openings::new(8, LET_GO_MS);
    for name in 0..6 {
        assert_eq!(openings.admit(name, ObjectUser::Bulk, NOW_MS), Ok(()));
    }
    let let_go_ms = u64::try_from(LET_GO_MS).expect("a time");
    assert_eq!(
        openings.admit(6, ObjectUser::Bulk, NOW_MS),
        Err(let_go_ms),
        "two are left to others"
    );
    for name in [6, 7] {
        assert_eq!(openings.admit(name, ObjectUser::Single, NOW_MS), Ok(()));
    }
    assert_eq!(
        openings.admit(8, ObjectUser::Single, NOW_MS + 5_000),
        Err(let_go_ms - 5_000)
    );
    // One that is used goes on being in use, so there is room for one less later.
    assert_eq!(openings.admit(0, ObjectUser::Bulk, NOW_MS + 5_000), Ok(()));
    for name in 10..17 {
        assert_eq!(
            openings.admit(name, ObjectUser::Single, NOW_MS + LET_GO_MS),
            Ok(())
        );
    }
    assert_eq!(
        openings.admit(17, ObjectUser::Single, NOW_MS + LET_GO_MS),
        Err(5_000)
    );
}

#[test]
fn where_objects_are_closed_at_need_there_is_room_once_they_are_idle() {
    let mut openings = Openings::new(8, LET_GO_AT_NEED_MS);
    for name in 0..8 {
        assert_eq!(openings.admit(name, ObjectUser::Single, NOW_MS), Ok(()));
    }
    let let_go_ms = u64::try_from(LET_GO_AT_NEED_MS).expect("a time");
    let refused = openings.admit(8, ObjectUser::Single, NOW_MS);
    assert_eq!(refused, Err(let_go_ms));
    let later_ms = NOW_MS + LET_GO_AT_NEED_MS;
    assert_eq!(openings.admit(8, ObjectUser::Single, later_ms), Ok(()));
    assert_eq!(openings.time_for(13), 2 * LET_GO_AT_NEED_MS);
}

#[test]
fn a_change_of_one_counter_reaches_all_of_its_shards_however_few_may_be_open() {
    let mut openings = Openings::new(8, LET_GO_MS);
    for name in 0..8 {
        assert_eq!(openings.admit(name, ObjectUser::Single, NOW_MS), Ok(()));
    }
    let shards = u64::from(SHARDS_MAX);
    for name in 100..100 + shards {
        assert!(openings.admit(name, ObjectUser::Single, NOW_MS).is_err());
        assert_eq!(openings.admit(name, ObjectUser::Change, NOW_MS), Ok(()));
    }
    assert!(openings.admit(99, ObjectUser::Change, NOW_MS).is_err());
}

#[test]
fn a_group_ends_then_rests_then_the_next_begins() {
    let mut openings = Openings::new(1_000, LET_GO_MS);
    let group: Vec<_> = (0..u64::from(GROUP_COST / OPENING_COST))
        .map(|name| openings.begin(name, NOW_MS).expect("room in the group"))
        .collect();
    assert_eq!(openings.begin(100, NOW_MS), None);
    for begun in group {
        assert_eq!(openings.begin(100, NOW_MS + 50), None, "it is under way");
        openings.end(begun, true, NOW_MS + 50);
    }
    assert_eq!(openings.begin(100, NOW_MS + 50), None, "it rests");
    assert_eq!(openings.begin(100, NOW_MS + 50 + REST_MS - 1), None);
    let mut begun = openings.begin(100, NOW_MS + 50 + REST_MS);
    // What is open costs less: a hundred and twelve more fit.
    for _ in 0..GROUP_COST - OPENING_COST {
        let one = begun.take().expect("room in the group");
        openings.end(one, true, NOW_MS + 60);
        begun = openings.begin(0, NOW_MS + 60);
    }
    let last = begun.expect("room for the last");
    openings.end(last, true, NOW_MS + 60);
    assert_eq!(openings.begin(0, NOW_MS + 60), None);
}

#[test]
fn a_call_that_was_not_made_costs_nothing_and_opens_nothing() {
    let mut openings = Openings::new(1_000, LET_GO_MS);
    for _ in 0..1_000 {
        let begun = openings.begin(1, NOW_MS).expect("nothing was spent");
        openings.end(begun, false, NOW_MS);
    }
    let group = (0..).map_while(|name| openings.begin(name, NOW_MS)).count();
    assert_eq!(u32::try_from(group), Ok(GROUP_COST / OPENING_COST));
}

#[test]
fn batches_are_as_large_as_they_keep_the_thread_a_moment() {
    for call_us in [10, 50, 100, 250, 400, 2_000] {
        let mut openings = Openings::new(1_000, LET_GO_MS);
        let (mut now_us, mut longest) = (NOW_MS * 1_000, 0);
        for round in 0..200 {
            let mut group = Vec::new();
            let begun_us = now_us;
            // As many at once as a body has under way.
            for name in 0..16 {
                let calls = u32::try_from(openings.batch_max()).expect("few");
                let Some(begun) = openings.begin_batch(name, calls, now_us / 1_000) else {
                    break;
                };
                group.push(begun);
                now_us += i64::from(calls * call_us);
                if round >= 100 {
                    assert!(calls * call_us <= 24_000, "{calls} calls of {call_us} us");
                    assert!(calls * call_us >= 12_000, "{calls} calls of {call_us} us");
                }
            }
            for begun in group {
                openings.end(begun, true, now_us / 1_000);
            }
            if round >= 100 {
                longest = longest.max(now_us - begun_us);
            }
            now_us += 1_000;
        }
        assert!((40_000..=80_000).contains(&longest), "{longest} us");
    }
}

#[test]
fn a_call_that_never_ends_holds_nobody_up_for_good() {
    let mut openings = Openings::new(1_000, LET_GO_MS);
    let group = (0..).map_while(|name| openings.begin(name, NOW_MS)).count();
    assert_eq!(openings.begin(100, NOW_MS + 9_999), None);
    let mut now_ms = NOW_MS + 10_000;
    assert_eq!(openings.begin(100, now_ms), None, "it rests");
    now_ms += REST_MS;
    let next = (100..)
        .map_while(|name| openings.begin(name, now_ms))
        .count();
    assert_eq!(next, group);
}

#[test]
fn bulk_is_told_how_long_so_many_take() {
    let openings = Openings::new(8, LET_GO_MS);
    let times = [0, 6, 7, 12, 13, 5_000].map(|objects| openings.time_for(objects) / LET_GO_MS);
    assert_eq!(times, [0, 0, 1, 1, 2, 833]);
}

proptest! {
    #[test]
    fn never_more_in_use_than_may_be_open(
        most in 1usize..40, steps in prop::collection::vec((0u64..60, any::<bool>(), 0i64..4_000), 0..300),
    ) {
        let mut openings = Openings::new(most, LET_GO_MS);
        let mut used: Vec<(u64, i64)> = Vec::new();
        let mut now_ms = NOW_MS;
        for (name, is_bulk, pause_ms) in steps {
            now_ms += pause_ms;
            let user = if is_bulk { ObjectUser::Bulk } else { ObjectUser::Single };
            used.retain(|(_, last_ms)| now_ms - last_ms < LET_GO_MS);
            let is_known = used.iter().any(|(known, _)| *known == name);
            match openings.admit(name, user, now_ms) {
                Ok(()) => {
                    used.retain(|(known, _)| *known != name);
                    used.push((name, now_ms));
                }
                Err(wait_ms) => {
                    prop_assert!(!is_known && wait_ms <= u64::try_from(LET_GO_MS).expect("a time"));
                    // Who waits as long is admitted, if nobody else came.
                    let later_ms = now_ms + i64::try_from(wait_ms).expect("a time") + 100;
                    if user == ObjectUser::Single {
                        prop_assert_eq!(openings.clone().admit(name, user, later_ms), Ok(()));
                    }
                }
            }
            prop_assert!(used.len() <= most);
        }
    }
}
