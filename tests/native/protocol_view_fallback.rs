//! Law: a read takes each cell once, from its answer where there is one and else from memory, and says of when each
//! datacenter is. What is taken from memory is never exact.

use crate::common;
use crate::common::sums;

use std::collections::{BTreeMap, BTreeSet};

use common::config;
use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;
use sums::{CACHED, FRESH, NOW_MS, datacenter, id, sketch, sum};
use tally_api::public::SummedCounter;
use tally_core::cluster::view::{DatacenterState, View};
use tally_core::counter::merge::{CellFacts, CellTotals, Origin, Part};
use tally_core::counter::settings::{Ttl, TtlMode};
use tally_core::counter::total::{Sum, Value};
use tally_core::isolate::view_fallback;
use tally_core::isolate::view_fallback::PUSHED_MS_MAX;

const GENERATION: u64 = 1;

fn totals(added: u64) -> CellTotals {
    CellTotals {
        generation: GENERATION,
        sequence: added,
        added: u128::from(added).into(),
        removed: 0.into(),
    }
}

/// What a root knows of one datacenter.
fn pushed_view(name: &str, cells: &[(u8, u64)], as_of_ms: i64) -> View {
    let cells: Vec<_> = (cells.iter())
        .map(|&(shard, added)| (shard, totals(added)))
        .collect();
    View::of(DatacenterState {
        generation: GENERATION,
        datacenter: &datacenter(name),
        cells: &cells,
        as_of_ms,
        facts: CellFacts::written(as_of_ms - 7),
        uniques: sketch(0..3),
    })
}

/// What a lead answers that reached these shards, and not those.
fn answer(cells: &BTreeMap<u8, u64>, missing: &BTreeSet<u8>) -> Part {
    let reached = cells.iter().filter(|(shard, _)| !missing.contains(shard));
    let cells: Vec<_> = reached
        .map(|(&shard, &added)| (shard, totals(added)))
        .collect();
    Part {
        cells,
        shards: 1,
        missing: missing.iter().copied().collect(),
        ..Part::default()
    }
}

#[test]
fn what_was_pushed_lately_need_not_be_asked_for() {
    let fra = datacenter("FRA");
    let part = |as_of_ms| {
        view_fallback::pushed(
            &pushed_view("FRA", &[(0, 4), (1, 5)], as_of_ms),
            &fra,
            NOW_MS,
            NOW_MS,
        )
    };
    let pushed = part(NOW_MS - PUSHED_MS_MAX).expect("it is fresh");
    assert_eq!(pushed.origin, Origin::Pushed(NOW_MS - PUSHED_MS_MAX));
    assert_eq!(pushed.cells, [(0, totals(4)), (1, totals(5))]);
    assert_eq!((pushed.shards, pushed.missing.len()), (2, 0));
    assert_eq!(pushed.facts.last_write_ms, NOW_MS - PUSHED_MS_MAX - 7);
    assert_eq!(part(NOW_MS - PUSHED_MS_MAX - 1), None, "it is old");
    let view = pushed_view("FRA", &[(0, 4)], NOW_MS);
    assert_eq!(
        view_fallback::pushed(&view, &datacenter("IAD"), NOW_MS, NOW_MS),
        None
    );
}

#[test]
fn a_reader_whose_clock_is_off_takes_what_was_pushed_by_the_clock_of_the_root() {
    let fra = datacenter("FRA");
    let view = pushed_view("FRA", &[(0, 4)], NOW_MS - 200);
    for off_ms in [-600_000, 600_000] {
        let pushed =
            view_fallback::pushed(&view, &fra, NOW_MS, NOW_MS + off_ms).expect("it is fresh");
        let as_of_ms = (NOW_MS - 200).min(NOW_MS + off_ms);
        assert_eq!(pushed.origin, Origin::Pushed(as_of_ms), "{off_ms} ms off");
    }
}

#[test]
fn a_lead_whose_clock_is_ahead_is_not_taken_for_one_that_pushes() {
    let fra = datacenter("FRA");
    let ahead = |by_ms| {
        view_fallback::pushed(
            &pushed_view("FRA", &[(0, 4)], NOW_MS + by_ms),
            &fra,
            NOW_MS,
            NOW_MS,
        )
    };
    let origin = ahead(PUSHED_MS_MAX).expect("it is near").origin;
    assert_eq!(origin, Origin::Pushed(NOW_MS), "nothing is newer than now");
    assert_eq!(ahead(PUSHED_MS_MAX + 1), None);
    assert_eq!(ahead(600_000), None);
}

#[test]
fn what_was_last_known_counts_however_old_and_says_so() {
    let fra = datacenter("FRA");
    let view = pushed_view("FRA", &[(0, 4), (3, 5)], NOW_MS - 80_000);
    let part = view_fallback::last_known(&view, &fra, NOW_MS).expect("it was heard of");
    assert_eq!(part.origin, Origin::Known(NOW_MS - 80_000));
    assert_eq!(
        view_fallback::last_known(&view, &datacenter("IAD"), NOW_MS),
        None
    );
    let sum = sum(vec![("FRA", Some(part)), ("IAD", None)]);
    let id = id("a");
    let counter_view = SummedCounter::new(&id, &sum, FRESH);
    assert_eq!(counter_view.value(), Value::new(9, 0));
    assert!(!counter_view.is_exact());
}

#[test]
fn each_origin_tells_its_own_moment_and_whether_it_can_be_reached() {
    let part = |origin, missing: &[u8]| Part {
        origin,
        missing: missing.to_vec(),
        ..answer(&BTreeMap::from([(0, 7)]), &BTreeSet::new())
    };
    let created_ms = NOW_MS - 90_000;
    for (part, as_of_ms, is_reachable, is_exact) in [
        (Some(part(Origin::Queried, &[])), NOW_MS - 20, true, true),
        (Some(part(Origin::Queried, &[1])), created_ms, false, false),
        (
            Some(part(Origin::Pushed(NOW_MS - 400), &[])),
            NOW_MS - 400,
            true,
            false,
        ),
        (
            Some(part(Origin::Known(NOW_MS - 70_000), &[])),
            NOW_MS - 70_000,
            false,
            false,
        ),
        (
            Some(part(Origin::Known(NOW_MS - 70_000), &[1])),
            NOW_MS - 70_000,
            false,
            false,
        ),
        // Nothing is told of times before the counter, or after the read began.
        (Some(part(Origin::Known(5), &[])), created_ms, false, false),
        (
            Some(part(Origin::Pushed(NOW_MS), &[])),
            NOW_MS - 20,
            true,
            false,
        ),
        (None, created_ms, false, false),
    ] {
        let origin = part.as_ref().map(|part| part.origin);
        let sum = sum(vec![("FRA", part), ("IAD", Some(sums::part(1, 0)))]);
        let id = id("a");
        let view = SummedCounter::new(&id, &sum, FRESH);
        assert_eq!(
            view.as_of_ms(),
            as_of_ms,
            "{origin:?}: as old as its oldest part"
        );
        assert_eq!(view.is_exact(), is_exact, "{origin:?}");
        assert!(
            !SummedCounter::new(&id, &sum, CACHED).is_exact(),
            "begun before its reader asked"
        );
        let json = view.to_json(false, None, None);
        let staleness_ms = NOW_MS - as_of_ms;
        let fra = format!(
            r#""as_of":{as_of_ms},"staleness_ms":{staleness_ms},"reachable":{is_reachable}}},{{"id":"IAD""#
        );
        assert!(json.contains(&fra), "{origin:?}: {json}");
    }
}

#[test]
fn a_root_that_was_made_again_calls_nothing_exact() {
    let mut sum = sum(vec![(
        "FRA",
        Some(answer(&BTreeMap::from([(0, 7)]), &BTreeSet::new())),
    )]);
    let id = id("a");
    assert!(SummedCounter::new(&id, &sum, FRESH).is_exact());
    sum.root.may_lack = true;
    let view = SummedCounter::new(&id, &sum, FRESH);
    assert!(!view.is_exact());
    assert_eq!(
        view.as_of_ms(),
        sum.root.created_at_ms,
        "what is lacking may be as old as the counter"
    );
}

#[test]
fn unique_elements_of_a_datacenter_that_is_away_stay_in_the_union() {
    let view = pushed_view("IAD", &[(0, 4)], NOW_MS - 9_000);
    let mut fra = answer(&BTreeMap::from([(0, 7)]), &BTreeSet::new());
    fra.uniques = sketch(2..5);
    let away = view_fallback::last_known(&view, &datacenter("IAD"), NOW_MS);
    let mut sum = sum(vec![("FRA", Some(fra)), ("IAD", away)]);
    sum.uniques = view.uniques().clone();
    let json = SummedCounter::new(&id("a"), &sum, FRESH).to_json(false, None, None);
    assert!(
        json.contains(r#""uniques":{"estimate":5,"#),
        "0 to 4: {json}"
    );
}

/// The cells of a datacenter: what each holds now, what of it the root has heard (some cells not at all, and never
/// more than they hold), which shards do not answer, and whether the lead does.
type Place = (BTreeMap<u8, (u64, Option<u64>)>, BTreeSet<u8>, bool, i64);

fn place() -> impl Strategy<Value = Place> {
    let cell = (0..100_u64, any::<Option<u64>>())
        .prop_map(|(held, view_count)| (held, view_count.map(|part| part % (held + 1))));
    let missing = btree_set(1..5_u8, 0..3);
    let age_ms = prop_oneof![0..PUSHED_MS_MAX, PUSHED_MS_MAX..90_000];
    (
        btree_map(0..5_u8, cell, 0..5),
        missing,
        any::<bool>(),
        age_ms,
    )
}

proptest! {
    #![proptest_config(config(71, 512))]

    #[test]
    fn every_cell_is_told_once(places in prop::collection::vec(place(), 1..4), reads_by_default in any::<bool>()) {
        const NAMES: [&str; 3] = ["FRA", "IAD", "SYD"];
        let mut view = View::new(GENERATION);
        for (name, (cells, _, _, age_ms)) in NAMES.iter().zip(&places) {
            let known = cells.iter().filter_map(|(shard, (_, view_count))| Some((*shard, (*view_count)?)));
            let known: Vec<(u8, u64)> = known.collect();
            if !known.is_empty() {
                view.merge(&pushed_view(name, &known, NOW_MS - age_ms));
            }
        }
        let mut expected = BTreeMap::new();
        let mut parts = Vec::new();
        for (name, (cells, missing, answers, _)) in NAMES.iter().zip(&places) {
            let held: BTreeMap<u8, u64> = cells.iter().map(|(shard, (held, _))| (*shard, *held)).collect();
            let pushed = view_fallback::pushed(&view, &datacenter(name), NOW_MS, NOW_MS).filter(|_| reads_by_default);
            let is_queried = pushed.is_none() && *answers;
            let query_answer = is_queried.then(|| answer(&held, missing));
            for (shard, (held, view_count)) in cells {
                let count = if is_queried && !missing.contains(shard) { Some(*held) } else { *view_count };
                if let Some(count) = count {
                    expected.insert((*name, *shard), u128::from(count));
                }
            }
            parts.push((datacenter(name), pushed.or(query_answer)));
        }
        view_fallback::fill_in(&mut parts, &view, NOW_MS);
        let mut actual = BTreeMap::new();
        for (name, (_, part)) in NAMES.iter().zip(&parts) {
            for (shard, totals) in part.iter().flat_map(|part| &part.cells) {
                let before = actual.insert((*name, *shard), Sum::from(totals.added).low_bits());
                prop_assert_eq!(before, None, "{} {} twice", name, shard);
            }
        }
        prop_assert_eq!(&actual, &expected);
        let names = NAMES.iter().copied();
        let sum = sum(names.zip(parts.into_iter().map(|(_, part)| part)).collect());
        let id = id("a");
        let value = SummedCounter::new(&id, &sum, FRESH).value();
        let total: u128 = expected.values().sum();
        prop_assert_eq!(value, Value::new(total, 0));
    }
}

#[test]
fn what_was_last_known_neither_settles_a_datacenter_nor_ends_a_counter() {
    let at = |origin| Part {
        facts: CellFacts::written(NOW_MS - 90_000),
        origin,
        ..Part::default()
    };
    for (origin, is_current) in [
        (Origin::Queried, true),
        (Origin::Pushed(NOW_MS), true),
        (Origin::Known(NOW_MS), false),
    ] {
        let mut sum = sum(vec![("FRA", Some(at(origin)))]);
        sum.root.settings.ttl = Some(Ttl {
            seconds: 60,
            mode: TtlMode::Sliding,
            set_at_ms: NOW_MS - 90_000,
        });
        assert_eq!(sum.has_lapsed(NOW_MS), is_current, "{origin:?}");
        assert!(!sum.has_lapsed(NOW_MS - 30_001), "{origin:?}");
        assert!(!sum.has_unreconciled(), "{origin:?}: nothing was set");
        let unseen = vec![(datacenter("FRA"), None)];
        sum.root.operations.set(Value::default(), unseen, NOW_MS);
        assert_eq!(sum.has_unreconciled(), is_current, "{origin:?}");
    }
}

/// With this the read ended in a panic.
#[test]
fn a_reader_whose_clock_is_behind_the_creation_of_a_counter_is_told_its_own_time() {
    let part = Part {
        origin: Origin::Pushed(NOW_MS - 3),
        ..answer(&BTreeMap::from([(0, 7)]), &BTreeSet::new())
    };
    let mut sum = sum(vec![("FRA", Some(part.clone())), ("IAD", Some(part))]);
    sum.root.created_at_ms = FRESH.as_of_ms + 600_000;
    let id = id("a");
    let view = SummedCounter::new(&id, &sum, FRESH);
    assert_eq!(view.as_of_ms(), FRESH.as_of_ms);
    assert!(view.to_json(false, None, None).contains("\"value\":14"));
}

#[test]
fn who_has_not_pushed_lately_is_silent() {
    let mut view = pushed_view("FRA", &[(0, 4)], NOW_MS - PUSHED_MS_MAX);
    view.merge(&pushed_view("IAD", &[(0, 4)], NOW_MS - PUSHED_MS_MAX - 1));
    assert_eq!(view_fallback::silent(&view, NOW_MS), [datacenter("IAD")]);
}
