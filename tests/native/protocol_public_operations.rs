//! Golden: the JSON of a counter that was set, or has a home: what it was set to, who is pending, and its tag.

use crate::common::sums;

use sums::{CACHED, FRESH, NOW_MS, datacenter, id, part, sketch, sum};
use tally_api::public::{Rounding, SummedCounter};
use tally_core::counter::merge::Origin;
use tally_core::counter::total::Value;
use tally_wire::messages::GlobalSum;

/// FRA and IAD, set to 100 when IAD did not answer.
fn set() -> GlobalSum {
    let mut fra = part(7, 2);
    fra.uniques = sketch(0..0);
    let mut sum = sum(vec![("FRA", Some(fra)), ("IAD", Some(part(10, 0)))]);
    let mut seen = part(5, 2).cells;
    seen[0].1.sequence = 3;
    let seen = vec![(datacenter("FRA"), Some(seen)), (datacenter("IAD"), None)];
    sum.root
        .operations
        .set(Value::new(100_u128, 0_u128), seen, NOW_MS - 500);
    sum
}

#[test]
fn a_counter_that_was_set_reads_so() {
    let (id, mut sum) = (id("a"), set());
    let view = SummedCounter::new(&id, &sum, FRESH);
    assert!(!view.is_exact(), "IAD is not settled");
    let pending = [datacenter("IAD")];
    assert_eq!(
        view.to_json(false, None, Some(&pending)),
        r#"{"id":"a","value":102,"base":100,"exact":false,"updated_at":1777593629500,"expires_at":null,"version":"AgECA0ZSQQABCQNJQUQAAQk","as_of":1777593540000,"staleness_ms":90000,"uniques":null,"datacenters":[{"id":"FRA","value":2,"shards":2,"as_of":1777593629980,"staleness_ms":20,"reachable":true},{"id":"IAD","value":0,"shards":2,"as_of":1777593540000,"staleness_ms":90000,"reachable":false}],"settings":{"shards":"auto","ttl_seconds":null,"ttl_mode":null,"floor":null,"home":null,"unique_hash":"keyed","seconds_kept":null},"pending_datacenters":["IAD"]}"#
    );
    let seen = vec![
        (datacenter("FRA"), Some(part(7, 2).cells)),
        (datacenter("IAD"), Some(part(10, 0).cells)),
    ];
    let lowest = Value::new(u128::MAX, 0_u128).negated();
    sum.root.operations.set(lowest, seen, NOW_MS - 400);
    let view = SummedCounter::new(&id, &sum, FRESH);
    assert!(view.is_exact());
    let json = view.to_json(true, None, None);
    let begin = r#"{"id":"a","value":"-340282366920938463463374607431768211455","base":"-340282366920938463463374607431768211455","exact":true,"updated_at":1777593629600,"#;
    assert!(json.starts_with(begin), "{json}");
    assert!(
        !json.contains("settings") && !json.contains("pending"),
        "{json}"
    );
}

#[test]
fn of_one_datacenter_alone_only_what_it_counted_since_is_told() {
    let mut sum = set();
    sum.datacenters
        .retain(|(name, _)| *name == datacenter("FRA"));
    sum.is_whole = false;
    let id = id("a");
    let view = SummedCounter::new(&id, &sum, FRESH);
    assert_eq!(view.value().to_string(), "2");
    assert!(view.is_exact());
}

#[test]
fn a_counter_with_a_home_has_a_strong_tag_of_that() {
    let id = id("a");
    let mut sum = sum(vec![("FRA", Some(part(7, 0))), ("IAD", Some(part(3, 0)))]);
    sum.root.home = Some(datacenter("IAD"));
    sum.root.settings.floor = Some(Value::new(3_u128, 0_u128).negated());
    let tag = |sum: &GlobalSum, freshness| SummedCounter::new(&id, sum, freshness).etag();
    assert_eq!(tag(&sum, FRESH), "\"AQEDSUFEAAEJ.0\"");
    assert_eq!(tag(&sum, CACHED), tag(&sum, FRESH));
    let json = SummedCounter::new(&id, &sum, FRESH).to_json(false, None, Some(&[]));
    let end = r#""floor":-3,"home":"IAD","unique_hash":"keyed","seconds_kept":null},"pending_datacenters":[]}"#;
    assert!(json.ends_with(end), "{json}");
    let before = tag(&sum, FRESH);
    let seen = vec![(datacenter("IAD"), Some(part(3, 0).cells))];
    sum.root.operations.set(Value::default(), seen, NOW_MS);
    assert_ne!(tag(&sum, FRESH), before, "a set changes the counter");
    let before = tag(&sum, FRESH);
    sum.root.settings.number += 1;
    assert_ne!(tag(&sum, FRESH), before, "settings are in the answer");
    let rounding = Rounding::parse(Some("1")).expect("a rounding");
    let rounded = SummedCounter::new(&id, &sum, FRESH)
        .rounded(rounding)
        .etag();
    assert!(
        rounded.starts_with("W/") && rounded.ends_with("-rounded\""),
        "{rounded}"
    );
}

/// The clock of whoever reads may be behind that of the root which has made the counter.
#[test]
fn a_counter_that_is_made_in_the_future_is_as_of_no_later_than_its_read() {
    let (id, mut sum) = (id("a"), set());
    sum.root.created_at_ms = NOW_MS + 60_000;
    for origin in [
        Origin::Queried,
        Origin::Pushed(NOW_MS - 2_000),
        Origin::Known(NOW_MS - 90_000),
    ] {
        let part = sum.datacenters[0].1.as_mut().expect("a part");
        part.origin = origin;
        for read in [FRESH, CACHED] {
            let view = SummedCounter::new(&id, &sum, read);
            assert!(view.as_of_ms() <= read.as_of_ms, "{origin:?}");
            assert!(view.staleness_ms() >= 0, "{origin:?}");
        }
    }
}
