//! Golden: the JSON of a counter, field by field; numbers are exact, and what is not is said.

use crate::common::sums;

use std::collections::BTreeSet;

use sums::{CACHED, FRESH, NOW_MS, id, part, sketch, sum};
use tally_api::public::{Freshness, SummedCounter};
use tally_api::query::Window;
use tally_core::counter::history::Count;
use tally_core::counter::settings::{Settings, Ttl, TtlMode, UniqueHash};
use tally_wire::messages::GlobalSum;

fn json_of(sum: &GlobalSum, freshness: Freshness) -> String {
    SummedCounter::new(&id("a"), sum, freshness).to_json(false, None, None)
}

#[test]
fn a_counter_reads_so() {
    let mut fra = part(7, 2);
    fra.uniques = sketch(0..3);
    let sum = sum(vec![("FRA", Some(fra)), ("IAD", Some(part(10, 0)))]);
    assert_eq!(
        json_of(&sum, FRESH),
        r#"{"id":"a","value":15,"exact":true,"updated_at":1777593629000,"expires_at":null,"version":"AQIDRlJBAAEJA0lBRAABCQ","as_of":1777593629980,"staleness_ms":20,"uniques":{"estimate":3,"standard_error":0.01},"datacenters":[{"id":"FRA","value":5,"shards":2,"as_of":1777593629980,"staleness_ms":20,"reachable":true},{"id":"IAD","value":10,"shards":2,"as_of":1777593629980,"staleness_ms":20,"reachable":true}]}"#
    );
}

#[test]
fn a_counter_with_everything_reads_so() {
    let mut fra = part(7, 0);
    fra.window = Count {
        count: 5,
        max_error: 1,
    };
    fra.window_uniques = sketch(0..2);
    let mut sum = sum(vec![("FRA", Some(fra))]);
    sum.root.settings = Settings {
        number: 3,
        shards: Some(4),
        ttl: Some(Ttl {
            seconds: 60,
            mode: TtlMode::Sliding,
            set_at_ms: NOW_MS - 90_000,
        }),
        floor: None,
        unique_hash: UniqueHash::Redis,
        seconds_kept: Some(3_600),
    };
    let window = Window {
        seconds: 3_600,
        at: NOW_MS / 1_000,
        now: NOW_MS / 1_000,
    };
    let id = id("a \"b\" ключ");
    let view = SummedCounter::new(&id, &sum, FRESH);
    assert_eq!(
        view.to_json(true, Some(window), Some(&[])),
        r#"{"id":"a \"b\" ключ","value":7,"exact":true,"updated_at":1777593629000,"expires_at":1777593689000,"version":"AQEDRlJBAAEJ","as_of":1777593629980,"staleness_ms":20,"uniques":null,"datacenters":[{"id":"FRA","value":7,"shards":2,"as_of":1777593629980,"staleness_ms":20,"reachable":true}],"window":{"seconds":3600,"count":5,"max_error":1,"uniques":{"estimate":2,"standard_error":0.01},"uniques_cover":{"starts_at":1777590000000,"ends_at":1777593660000}},"settings":{"shards":4,"ttl_seconds":60,"ttl_mode":"sliding","floor":null,"home":null,"unique_hash":"redis","seconds_kept":3600},"pending_datacenters":[]}"#
    );
    // The answer has no uniques for a window that is longer than daily uniques are kept.
    let longer = Window {
        seconds: 34_560_001,
        ..window
    };
    let json = view.to_json(true, Some(longer), None);
    assert!(json.contains(r#""max_error":1,"uniques":null}"#), "{json}");
}

#[test]
fn a_counter_that_nobody_wrote_reads_so() {
    assert_eq!(
        json_of(&sum(Vec::new()), FRESH),
        r#"{"id":"a","value":0,"exact":true,"updated_at":null,"expires_at":null,"version":"AQEFTE9DQUwAAQA","as_of":1777593629980,"staleness_ms":20,"uniques":null,"datacenters":[]}"#
    );
}

#[test]
fn a_datacenter_that_does_not_answer_is_named_and_nothing_is_exact() {
    // What is missing holds nothing but what was acknowledged before the counter's creation: nothing.
    let away = sum(vec![("FRA", Some(part(7, 0))), ("IAD", None)]);
    assert_eq!(
        json_of(&away, FRESH),
        r#"{"id":"a","value":7,"exact":false,"updated_at":1777593629000,"expires_at":null,"version":"AQEDRlJBAAEJ","as_of":1777593540000,"staleness_ms":90000,"uniques":null,"datacenters":[{"id":"FRA","value":7,"shards":2,"as_of":1777593629980,"staleness_ms":20,"reachable":true},{"id":"IAD","value":0,"shards":0,"as_of":1777593540000,"staleness_ms":90000,"reachable":false}]}"#
    );
    let mut halved = part(7, 0);
    halved.missing = vec![1];
    let halved = sum(vec![("FRA", Some(halved))]);
    let json = json_of(&halved, FRESH);
    assert!(json.contains(r#""value":7,"exact":false"#), "{json}");
    assert!(json.contains(r#""reachable":false"#), "{json}");
    for sum in [&away, &halved] {
        let id = id("a");
        let view = SummedCounter::new(&id, sum, FRESH);
        assert!(!view.is_exact());
        assert!(view.etag().ends_with("-1-0-partial\""), "{}", view.etag());
    }
}

#[test]
fn a_view_that_was_there_before_is_not_exact_and_says_how_old_it_is() {
    let sum = sum(vec![("FRA", Some(part(7, 0)))]);
    let json = json_of(&sum, CACHED);
    assert!(json.contains(r#""exact":false"#), "{json}");
    assert!(
        json.contains(r#""as_of":1777593629700,"staleness_ms":300"#),
        "{json}"
    );
    let back = Freshness {
        now_ms: NOW_MS - 400,
        ..CACHED
    };
    let json = json_of(&sum, back);
    assert!(
        json.contains(r#""staleness_ms":0"#),
        "a clock that stepped back: {json}"
    );
}

#[test]
fn the_tag_is_of_counts_settings_and_reachability() {
    let id = id("a");
    let etag = |sum: &GlobalSum, freshness| SummedCounter::new(&id, sum, freshness).etag();
    let base = sum(vec![("FRA", Some(part(7, 0)))]);
    assert_eq!(
        etag(&base, FRESH),
        etag(&base, CACHED),
        "time changes nothing"
    );
    let mut tags = BTreeSet::from([etag(&base, FRESH)]);
    let mut changed = base.clone();
    changed.root.settings.number = 1;
    tags.insert(etag(&changed, FRESH));
    let mut next = part(7, 0);
    next.cells[0].1.sequence = 10;
    tags.insert(etag(&sum(vec![("FRA", Some(next))]), FRESH));
    tags.insert(etag(&sum(vec![("IAD", Some(part(7, 0)))]), FRESH));
    tags.insert(etag(
        &sum(vec![("FRA", Some(part(7, 0))), ("IAD", None)]),
        FRESH,
    ));
    assert_eq!(tags.len(), 5, "{tags:?}");
    let first = tags.first().expect("five");
    assert!(first.starts_with("W/\"") && first.ends_with('"'), "{first}");
}

#[test]
fn numbers_are_exact_and_strings_only_where_javascript_would_round() {
    let edge = 9_007_199_254_740_991;
    for (added, removed, plain, string) in [
        (0, 0, "0", "0"),
        (edge, 0, "9007199254740991", "9007199254740991"),
        (edge + 1, 0, "9007199254740992", "\"9007199254740992\""),
        (edge + 2, 0, "9007199254740993", "\"9007199254740993\""),
        (0, edge, "-9007199254740991", "-9007199254740991"),
        (0, edge + 1, "-9007199254740992", "\"-9007199254740992\""),
        (u128::MAX, u128::MAX - 1, "1", "1"),
        (
            u128::MAX,
            0,
            "340282366920938463463374607431768211455",
            "\"340282366920938463463374607431768211455\"",
        ),
    ] {
        let sum = sum(vec![("FRA", Some(part(added, removed)))]);
        let id = id("a");
        let view = SummedCounter::new(&id, &sum, FRESH);
        for (strings, shown) in [(false, plain), (true, string)] {
            let json = view.to_json(strings, None, None);
            let top = format!(r#"{{"id":"a","value":{shown},"#);
            assert!(json.starts_with(&top), "{json}");
            let below = format!(r#"{{"id":"FRA","value":{shown},"#);
            assert!(json.contains(&below), "{json}");
        }
    }
    // Two datacenters pass 2^128 together.
    let wide = sum(vec![
        ("FRA", Some(part(u128::MAX, 0))),
        ("IAD", Some(part(1, 0))),
    ]);
    let json = json_of(&wide, FRESH);
    assert!(
        json.contains(r#""value":340282366920938463463374607431768211456,"#),
        "{json}"
    );
}
