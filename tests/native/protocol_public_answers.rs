//! Golden: the JSON of histories, unions, writes, deletions, listings and aggregates.

use crate::common::sums;

use std::collections::BTreeMap;

use sums::{CACHED, FRESH, NOW_MS, datacenter, id, part, sketch, sketch_of, sum};
use tally_api::public::{
    HistoryPoints, Rounding, SummedCounter, add_counter, aggregate_json, deleted_json, list_json,
    union_json, write_json,
};
use tally_api::query::{HistoryFormat, Window};
use tally_core::cluster::root::Root;
use tally_core::cluster::top_order::{KnownTotal, KnownUniques};
use tally_core::cluster::total::CounterTotal;
use tally_core::cluster::view::View;
use tally_core::counter::history::Resolution;
use tally_core::counter::id::CounterId;
use tally_core::counter::merge::Range;
use tally_core::counter::nonces::FlushEffect;
use tally_core::counter::total::Value;
use tally_wire::messages::{Aggregate, CounterList, Flushed, GlobalSum};
use tally_wire::names::CellAddress;

fn format(strings: bool, zeros: bool) -> HistoryFormat {
    HistoryFormat { strings, zeros }
}

fn history_json(view: &SummedCounter<'_>, range: Range, format: HistoryFormat) -> String {
    let mut points = HistoryPoints::default();
    points.add(view, range, format);
    points.json(&id("a"), range, view.truth())
}

#[test]
fn history_reads_so_with_null_where_nothing_is_known() {
    let mut fra = part(7, 0);
    fra.points = BTreeMap::from([(60, 9), (120, 3), (240, 1 << 53)]);
    fra.kept_from = Some(120);
    let sum = sum(vec![("FRA", Some(fra)), ("IAD", None)]);
    let range = Range {
        step: Resolution::Minute,
        from: 60,
        to: 240,
    };
    let id = id("a");
    let view = SummedCounter::new(&id, &sum, FRESH);
    assert_eq!(
        history_json(&view, range, format(true, true)),
        r#"{"id":"a","step":"1m","kept_from_at":120000,"exact":false,"as_of":1777593540000,"staleness_ms":90000,"points":[[60000,null],[120000,3],[180000,0],[240000,"9007199254740992"]]}"#
    );
    let sparse = history_json(&view, range, format(false, false));
    let points = r#""points":[[120000,3],[240000,9007199254740992]]}"#;
    assert!(sparse.ends_with(points), "{sparse}");
    for (step, name) in [
        (Resolution::Second, "1s"),
        (Resolution::Hour, "1h"),
        (Resolution::Day, "1d"),
    ] {
        let one = Range {
            step,
            from: 0,
            to: 0,
        };
        let expected = format!(r#"{{"id":"a","step":"{name}","kept_from_at":120000,"#);
        let json = history_json(&view, one, format(false, true));
        assert!(
            json.starts_with(&expected) && json.ends_with(r#""points":[[0,null]]}"#),
            "{json}"
        );
    }
}

#[test]
fn history_that_lacks_nothing_has_no_beginning() {
    let sum = sum(vec![("FRA", Some(part(7, 0)))]);
    let range = Range {
        step: Resolution::Day,
        from: -86_400,
        to: 0,
    };
    let json = history_json(
        &SummedCounter::new(&id("a"), &sum, FRESH),
        range,
        format(false, true),
    );
    assert_eq!(
        json,
        r#"{"id":"a","step":"1d","kept_from_at":null,"exact":true,"as_of":1777593629980,"staleness_ms":20,"points":[[-86400000,0],[0,0]]}"#
    );
}

#[test]
fn a_union_of_uniques_reads_so() {
    let (mut one, mut other) = (part(1, 0), part(1, 0));
    one.uniques = sketch(0..300);
    one.window_uniques = sketch(0..1);
    other.uniques = sketch(200..400);
    let sums = [
        sum(vec![("FRA", Some(one))]),
        sum(vec![("FRA", Some(other))]),
    ];
    let ids = [id("a"), id("b")];
    let views = [
        SummedCounter::new(&ids[0], &sums[0], FRESH),
        SummedCounter::new(&ids[1], &sums[1], CACHED),
    ];
    assert_eq!(
        union_json(&ids, &views, None).expect("one hash"),
        r#"{"ids":["a","b"],"estimate":400,"standard_error":0.02,"exact":false,"as_of":1777593629700,"staleness_ms":300}"#
    );
    let window = Window {
        seconds: 300,
        at: NOW_MS / 1_000,
        now: NOW_MS / 1_000,
    };
    assert_eq!(
        union_json(&ids, &views[..1], Some(window)).expect("one hash"),
        r#"{"ids":["a","b"],"estimate":1,"standard_error":0.01,"window_seconds":300,"uniques_cover":{"starts_at":1777593300000,"ends_at":1777593660000},"exact":true,"as_of":1777593629980,"staleness_ms":20}"#
    );
    let nothing = [sum(Vec::new())];
    let views = [SummedCounter::new(&ids[0], &nothing[0], FRESH)];
    assert_eq!(
        union_json(&ids[..1], &views, None).expect("one hash"),
        r#"{"ids":["a"],"estimate":0,"standard_error":0.0,"exact":true,"as_of":1777593629980,"staleness_ms":20}"#
    );
}

#[test]
fn counters_without_a_hash_in_common_have_no_union() {
    let of = |uniques: tally_core::sketch::Uniques| {
        let mut fra = part(1, 0);
        fra.uniques = uniques;
        sum(vec![("FRA", Some(fra))])
    };
    let mut both = sketch(0..300);
    both.merge(&sketch_of(2, 100..300));
    let sums = [
        of(sketch(200..400)),
        of(both),
        of(sketch(0..0)),
        of(sketch_of(2, 0..10)),
    ];
    let ids = ["old", "both", "none", "new"].map(id);
    let union = |numbers: &[usize]| {
        let views: Vec<SummedCounter<'_>> = numbers
            .iter()
            .map(|&number| SummedCounter::new(&ids[number], &sums[number], FRESH))
            .collect();
        union_json(&ids[..1], &views, None)
            .map_err(|problem| (problem.code(), problem.detail().to_owned()))
    };
    // Epoch by epoch: 400 under the one key, 200 under the other.
    let json = union(&[0, 1, 2]).expect("a key in common");
    assert!(
        json.contains(r#""estimate":600,"standard_error":0.03,"epochs":2,"exact""#),
        "{json}"
    );
    assert!(
        union(&[1, 3])
            .expect("a key in common")
            .contains(r#""estimate":510,"#)
    );
    for pair in [[0, 3], [3, 0]] {
        let (code, detail) = union(&pair).expect_err("no key in common");
        assert_eq!(code.as_str(), "hash-mismatch");
        assert!(
            detail.contains(&format!("`{}`", ids[pair[1]].as_str())),
            "{detail}"
        );
    }
    let (code, _) = union(&[0, 1, 3]).expect_err("not one key is that of all");
    assert_eq!(code.as_str(), "hash-mismatch");
}

#[test]
fn a_write_reads_so() {
    let cell = CellAddress {
        counter: id("a"),
        datacenter: datacenter("FRA"),
        shard: 1,
    };
    let flushed = Flushed {
        generation: 1,
        outcome: FlushEffect {
            sequence: 9,
            added: 5.into(),
            removed: 0.into(),
        },
        elsewhere: None,
        shards: 2,
        linger_ms: 0,
        operations: 0,
        is_apart: false,
    };
    let json = write_json(&cell, 3, Value::new(5, 0), true, &flushed, false);
    assert_eq!(
        json,
        r#"{"id":"a","delta":3,"value":5,"exact":true,"status":"ok","datacenter":"FRA","version":"AQEDRlJBAQEJ"}"#
    );
    let json = write_json(
        &cell,
        1 << 53,
        Value::new(0, 1 << 60),
        false,
        &flushed,
        true,
    );
    assert_eq!(
        json,
        r#"{"id":"a","delta":"9007199254740992","value":"-1152921504606846976","exact":false,"status":"ok","datacenter":"FRA","version":"AQEDRlJBAQEJ"}"#
    );
}

#[test]
fn what_nobody_has_reported_is_null() {
    let mut root = Root::create(None, 900);
    let row = |root: &Root| {
        let known = KnownTotal {
            total: CounterTotal::reported(root, &View::new(root.generation)),
            uniques: None,
        };
        let listed = CounterList {
            rows: vec![(id("b"), Some(known))],
            missing_partitions: vec![],
        };
        list_json(&listed, None, Rounding::OFF, false)
    };
    // Nothing counts it: it is 0.
    assert_eq!(
        row(&root),
        r#"{"entries":[{"id":"b","value":0,"count":0,"uniques":null,"as_of":900}],"cursor":null,"exact":false}"#
    );
    root.datacenters.insert(datacenter("FRA"));
    let unknown = r#"{"entries":[{"id":"b","value":null,"count":null,"uniques":null,"as_of":900}],"cursor":null,"exact":false}"#;
    assert_eq!(row(&root), unknown);
    // A root that was made anew does not know who counts.
    root.datacenters.clear();
    root.may_lack = true;
    assert_eq!(row(&root), unknown);
}

#[test]
fn deletions_listings_and_aggregates_read_so() {
    let pending = [datacenter("IAD")];
    assert_eq!(
        deleted_json(&id("a"), &pending),
        r#"{"id":"a","status":"deleted","pending_datacenters":["IAD"]}"#
    );
    assert_eq!(
        deleted_json(&id("a"), &[]),
        r#"{"id":"a","status":"deleted","pending_datacenters":[]}"#
    );
    let listed = |rows: &[(CounterId, Option<KnownTotal>)], missing: &[u32], cursor| {
        let listed = CounterList {
            rows: rows.to_vec(),
            missing_partitions: missing.to_vec(),
        };
        list_json(&listed, cursor, Rounding::OFF, false)
    };
    assert_eq!(
        listed(&[(id("a"), None), (id("b/ü"), None)], &[], Some("b/ü")),
        r#"{"entries":[{"id":"a"},{"id":"b/ü"}],"cursor":"b/ü"}"#
    );
    assert_eq!(listed(&[], &[], None), r#"{"entries":[],"cursor":null}"#);
    let known = KnownTotal {
        total: CounterTotal {
            value: Value::new(7_u128, 2_u128),
            count: 7_u128.into(),
            as_of_ms: 1_000,
            last_write_ms: 900,
        },
        uniques: Some(KnownUniques {
            estimate: 3,
            standard_error: 0.5,
            epochs: 1,
        }),
    };
    assert_eq!(
        listed(&[(id("a"), Some(known))], &[3], None),
        r#"{"entries":[{"id":"a","value":5,"count":7,"uniques":{"estimate":3,"standard_error":0.5},"as_of":1000}],"cursor":null,"exact":false,"missing_partitions":[3]}"#
    );
    let sums = [
        (id("a"), sum(vec![("FRA", Some(part(u128::MAX, 0)))])),
        (id("b"), sum(vec![("FRA", Some(part(9, 1)))])),
    ];
    let aggregate = |sums: &[(CounterId, GlobalSum)]| {
        let mut all = Aggregate::new(FRESH.as_of_ms, 0, None);
        for (id, sum) in sums {
            add_counter(&mut all, id, sum);
        }
        all
    };
    let all = aggregate(&sums);
    assert_eq!(
        aggregate_json(&all, "", true, FRESH.now_ms, true),
        r#"{"prefix":"","counters":2,"value":"340282366920938463463374607431768211463","exact":true,"as_of":1777593629980,"staleness_ms":20}"#
    );
    // Somebody else's sum is never exact: the fetch began before this reader asked.
    let shared = aggregate_json(&all, "", false, FRESH.now_ms + 400, false);
    assert!(shared.contains(r#""exact":false,"as_of":1777593629980,"staleness_ms":420}"#));
    let mut lacking = all.clone();
    lacking.lacks([7, 3, 7]);
    assert_eq!(
        aggregate_json(&lacking, "", true, 5, true),
        r#"{"prefix":"","counters":2,"value":"340282366920938463463374607431768211463","exact":false,"as_of":0,"staleness_ms":5,"missing_partitions":[3,7]}"#
    );
    let away = aggregate(&[(id("p/a"), sum(vec![("FRA", None)]))]);
    assert_eq!(
        aggregate_json(&away, "p/", true, FRESH.now_ms, false),
        r#"{"prefix":"p/","counters":1,"value":0,"exact":false,"as_of":1777593540000,"staleness_ms":90000}"#
    );
}
