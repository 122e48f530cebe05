//! Golden: the tree that an explained read tells, beside the answer that it explains.

use crate::common::sums;

use sums::{CACHED, FRESH, NOW_MS, datacenter, id, part, sketch, sum};
use tally_api::public::{Freshness, SummedCounter};
use tally_core::counter::merge::{CellTotals, Origin, ShardReadTrace};
use tally_core::counter::queue::InboxId;
use tally_wire::messages::{GlobalSum, InboxTrace, LeadTrace, ReadTrace, decode, encode};

fn explained(sum: &GlobalSum, freshness: Freshness, way: &ReadTrace) -> String {
    SummedCounter::new(&id("a/\"b\""), sum, freshness).explained_json(true, None, way)
}

fn way() -> ReadTrace {
    let shard = |shard, latency_ms, is_sealed| ShardReadTrace {
        shard,
        latency_ms,
        is_sealed,
    };
    ReadTrace {
        partition: 11,
        root_ms: 3,
        leads: vec![LeadTrace {
            datacenter: datacenter("FRA"),
            latency_ms: 8,
            shards: vec![shard(1, Some(2), false), shard(2, None, true)],
        }],
        inboxes: vec![InboxTrace {
            inbox: InboxId {
                datacenter: datacenter("IAD"),
                number: 2,
            },
            latency_ms: 40,
            is_drained: true,
        }],
    }
}

#[test]
fn the_tree_reads_so() {
    let cell = |sequence, added| CellTotals {
        generation: 1,
        sequence,
        added,
        removed: 1.into(),
    };
    let mut fra = part(7, 2);
    fra.cells = vec![
        (0, cell(4, 5.into())),
        (1, cell(6, (1 << 53).into())),
        (2, cell(0, 1.into())),
    ];
    fra.uniques = sketch(0..3);
    let mut iad = part(10, 0);
    iad.origin = Origin::Pushed(NOW_MS - 200);
    let mut syd = part(3, 0);
    syd.origin = Origin::Known(NOW_MS - 60_000);
    syd.missing = vec![3];
    let mut sum = sum(vec![
        ("FRA", Some(fra)),
        ("IAD", Some(iad)),
        ("NRT", None),
        ("SYD", Some(syd)),
    ]);
    sum.root.revision = 5;
    let plain = SummedCounter::new(&id("a/\"b\""), &sum, FRESH).to_json(true, None, None);
    let json = explained(&sum, FRESH, &way());
    let (answer, tree) = json.split_once(r#","explain":"#).expect("a tree");
    assert_eq!(format!("{answer}}}"), plain, "the answer stays what it is");
    assert_eq!(
        tree,
        concat!(
            r#"{"root":{"object":"d1/11","latency_ms":3,"generation":1,"revision":5,"operations":0},"datacenters":["#,
            r#"{"id":"FRA","object":"c1/FRA/0/a/\"b\"","origin":"asked","as_of":1777593629980,"latency_ms":8,"version":"AQMDRlJBAAEEA0ZSQQEBBgNGUkECAQA","cells":["#,
            r#"{"shard":0,"object":"c1/FRA/0/a/\"b\"","generation":1,"sequence":4,"added":5,"removed":1,"sealed":false,"latency_ms":null},"#,
            r#"{"shard":1,"object":"c1/FRA/1/a/\"b\"","generation":1,"sequence":6,"added":"9007199254740992","removed":1,"sealed":false,"latency_ms":2},"#,
            r#"{"shard":2,"object":"c1/FRA/2/a/\"b\"","generation":1,"sequence":0,"added":1,"removed":1,"sealed":true,"latency_ms":null}],"missing":[]},"#,
            r#"{"id":"IAD","object":"c1/IAD/0/a/\"b\"","origin":"pushed","as_of":1777593629800,"latency_ms":null,"version":"AQEDSUFEAAEJ","cells":["#,
            r#"{"shard":0,"object":"c1/IAD/0/a/\"b\"","generation":1,"sequence":9,"added":10,"removed":0,"sealed":null,"latency_ms":null}],"missing":[]},"#,
            r#"{"id":"NRT","object":"c1/NRT/0/a/\"b\"","origin":"none","as_of":1777593540000,"latency_ms":null,"version":null,"cells":[],"missing":[]},"#,
            r#"{"id":"SYD","object":"c1/SYD/0/a/\"b\"","origin":"known","as_of":1777593570000,"latency_ms":null,"version":"AQEDU1lEAAEJ","cells":["#,
            r#"{"shard":0,"object":"c1/SYD/0/a/\"b\"","generation":1,"sequence":9,"added":3,"removed":0,"sealed":null,"latency_ms":null}],"missing":[3]}],"#,
            r#""inboxes":[{"object":"i1/IAD/2","latency_ms":40,"drained":true}]}}"#,
        )
    );
}

#[test]
fn a_counter_that_nobody_wrote_has_a_root_alone() {
    let json = explained(&sum(Vec::new()), CACHED, &ReadTrace::default());
    let tree = r#","explain":{"root":{"object":"d1/0","latency_ms":0,"generation":1,"revision":0,"operations":0},"datacenters":[],"inboxes":[]}}"#;
    assert!(json.ends_with(tree), "{json}");
}

#[test]
fn the_way_travels_whole() {
    let way = way();
    let bytes = encode(&way).expect("bytes");
    assert_eq!(decode::<ReadTrace>(&bytes).ok(), Some(way));
}
