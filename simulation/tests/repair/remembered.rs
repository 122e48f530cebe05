//! Rows that are damaged, and put back from what other objects remember of them.

use serde_json::{Value, json};
use tally_simulation::ClientRequest;
use tally_wire::names;
use tally_wire::names::Placement;

use super::scene::{Scene, cell, damage_root, partition};

#[test]
fn a_cell_whose_totals_are_damaged_is_put_back_from_its_root() {
    let scene = Scene::new(1, None);
    for site in 0..2 {
        assert_eq!(scene.add(site, "hits", 5), 200);
        assert_eq!(scene.add(site, "other", 1), 200);
    }
    // The leads tell their roots.
    scene.world.run_for_ms(120_000);
    let history = scene.ask(0, "GET", "/counters/hits/history?step=1d", &Value::Null);
    // The root does not have it yet when it is damaged.
    assert_eq!(scene.add(1, "hits", 2), 200);
    scene.world.restart(1_000);
    assert_eq!(scene.damage(&cell("hits", "SYD", 0), "rows", "kind = 1"), 1);
    assert_eq!(scene.read("hits").0, 503);
    assert_eq!(scene.add(1, "hits", 1), 503);
    assert_eq!(scene.value("other"), 2);
    for is_dry in [true, false] {
        let report = scene.repair(&json!({"counter": "hits", "dry_run": is_dry}));
        assert_eq!(
            (&report["checked"], &report["damaged"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(report["repaired"], json!(u8::from(!is_dry)));
        let cell = &report["counters"][0]["cells"][0];
        assert_eq!(
            (&cell["datacenter"], &cell["shard"]),
            (&json!("SYD"), &json!(0))
        );
        assert_eq!(cell["damaged"], json!(["totals"]));
        assert_eq!(cell["totals"]["from"], "root");
        assert_eq!(cell["totals"]["added"], "5");
        assert!(cell["totals"]["as_of"].is_i64(), "{cell}");
        assert!(
            cell["lost"][0].to_string().contains("after as_of"),
            "{cell}"
        );
        assert_eq!(scene.read("hits").0, if is_dry { 503 } else { 200 });
    }
    // 2 that the root had not been told of are lost, as the answer says.
    assert_eq!(scene.value("hits"), 10);
    let again = scene.repair(&json!({"counter": "hits"}));
    assert_eq!(
        (&again["damaged"], &again["counters"]),
        (&json!(0), &json!([]))
    );
    for site in 0..2 {
        assert_eq!(scene.add(site, "hits", 3), 200);
    }
    assert_eq!(scene.value("hits"), 16);
    // Lists, and whoever had seen what is lost, take the new state for newer.
    scene.world.run_for_ms(120_000);
    for site in 0..2 {
        let (_, answer) = scene.ask(site, "GET", "/counters/hits", &Value::Null);
        assert_eq!(answer["value"], 16);
        let (_, list) = scene.ask(site, "GET", "/counters?prefix=hits&values=1", &Value::Null);
        assert_eq!(list["entries"][0]["value"], 16);
    }
    // What a page holds of days that were over is there still; what is lost of the newest minute is not made up.
    let after = scene.ask(0, "GET", "/counters/hits/history?step=1d", &Value::Null);
    assert_eq!(history.0, after.0);
    scene.world.restart(1_000);
    assert_eq!(scene.value("hits"), 16);
}

#[test]
fn a_damaged_shard_and_pages_of_a_lead_are_put_back() {
    let scene = Scene::new(2, None);
    scene.ask(0, "PUT", "/counters/wide", &json!({"shards": 4}));
    // Pages are written by what comes after the minute.
    for _ in 0..2 {
        for delta in 1..30 {
            assert_eq!(scene.add(0, "wide", delta), 200);
        }
        scene.world.run_for_ms(200_000);
    }
    let counted: i64 = 2 * (1..30).sum::<i64>();
    assert_eq!(scene.value("wide"), counted);
    scene.world.restart(1_000);
    let hurt = |kinds: &str, but: Option<u8>| {
        let mut shards = (0..4).filter(|shard| Some(*shard) != but);
        let condition = format!("kind IN ({kinds})");
        shards.find(|shard| scene.damage(&cell("wide", "FRA", *shard), "rows", &condition) == 1)
    };
    let totals = hurt("1", Some(0));
    let pages = hurt("4", totals);
    assert!(totals.is_some() && pages.is_some(), "{totals:?} {pages:?}");
    assert_eq!(scene.read("wide").0, 503);
    let report = scene.repair(&json!({"prefix": ""}));
    let cells = report["counters"][0]["cells"].as_array();
    let cells = cells.expect("a list").clone();
    assert_eq!(cells.len(), 2, "{report}");
    for cell in cells {
        if cell["shard"] == json!(pages) {
            assert_eq!(cell["damaged"], json!(["hours"]));
        } else {
            assert_eq!(cell["shard"], json!(totals));
            assert_eq!(cell["totals"]["from"], "root");
        }
    }
    assert_eq!(scene.value("wide"), counted);
    for delta in 1..9 {
        assert_eq!(scene.add(0, "wide", delta), 200);
    }
    assert_eq!(scene.value("wide"), counted + 36);
}

#[test]
fn a_tenant_of_a_tablet_is_put_back_and_the_others_go_on() {
    let scene = Scene::new(3, Some("1"));
    for id in ["one", "two", "three"] {
        assert_eq!(scene.add(0, id, 7), 200);
    }
    scene.world.run_for_ms(200_000);
    scene.world.restart(1_000);
    let tablets = scene.world.objects().into_iter();
    let tablets = tablets.filter(|(binding, ..)| *binding == names::TABLETS);
    let mut damaged = 0;
    for (binding, name, ..) in tablets {
        let of = Placement {
            binding,
            name,
            location_hint: None,
        };
        damaged += scene.damage(&of, "rows", "counter = 'two' AND substr(key, 1, 1) = x'01'");
    }
    assert_eq!(damaged, 1);
    // Together with others, in one batch of those that are not in memory.
    let lines = ["one", "two", "three"].map(|id| format!(r#"{{"id":"{id}","delta":1}}"#));
    let body = ClientRequest::new("POST", "/events").body(lines.join("\n").into_bytes());
    let answer = scene
        .world
        .run(scene.clients[0].ask(body))
        .expect("no fault");
    assert_eq!(
        (scene.value("one"), scene.value("three")),
        (8, 8),
        "{}",
        answer.text()
    );
    let report = scene.repair(&json!({"prefix": "t"}));
    assert_eq!(
        (&report["checked"], &report["repaired"]),
        (&json!(2), &json!(1)),
        "{report}"
    );
    assert_eq!(scene.value("two"), 7);
    assert_eq!(scene.add(0, "two", 3), 200);
    assert_eq!(scene.value("two"), 10);
    scene.world.restart(1_000);
    assert_eq!(scene.value("two"), 10);
}

#[test]
fn a_damaged_root_is_put_back_from_its_leads() {
    for (seed, has_memory) in [(4, true), (5, false)] {
        let scene = Scene::new(seed, None);
        scene.ask(0, "PUT", "/counters/hits", &json!({"shards": 2}));
        for site in 0..2 {
            assert_eq!(scene.add(site, "hits", 5), 200);
            assert_eq!(scene.add(site, "other", 1), 200);
        }
        scene.world.run_for_ms(120_000);
        scene.world.restart(1_000);
        damage_root(&scene, "hits", &["roots"]);
        if !has_memory {
            damage_root(&scene, "hits", &["views", "totals"]);
        }
        assert_eq!(scene.read("hits").0, 503);
        let dry = scene.repair(&json!({"prefix": "hi", "dry_run": true}));
        assert_eq!(dry["counters"][0]["status"], "damaged", "{dry}");
        assert_eq!(scene.read("hits").0, 503);
        let report = scene.repair(&json!({"prefix": "hi"}));
        let root = &report["counters"][0]["root"];
        assert_eq!(root["from"], "leads", "{report}");
        assert_eq!(report["counters"][0]["status"], "repaired");
        let (_, answer) = scene.read("hits");
        // The value has every datacenter that was queried.
        assert_eq!(answer["value"], 10, "{report} {answer}");
        assert_eq!(answer["datacenters"][0]["shards"], 2, "its settings hold");
        for site in 0..2 {
            assert_eq!(scene.add(site, "hits", 3), 200);
        }
        assert_eq!(scene.value("hits"), 16);
        scene.world.run_for_ms(120_000);
        let (_, list) = scene.ask(0, "GET", "/counters?prefix=hits&values=1", &Value::Null);
        assert_eq!(list["entries"][0]["value"], 16, "{list}");
        assert_eq!(scene.value("other"), 2);
    }
}

#[test]
fn a_damaged_root_of_a_counter_with_a_home_counts_no_datacenter_twice() {
    for (seed, has_memory, set) in [
        (31, true, None),
        (32, false, None),
        (33, false, Some(1_000)),
    ] {
        let scene = Scene::new(seed, None);
        assert_eq!(scene.add(0, "hits", 8), 200);
        assert_eq!(scene.add(1, "hits", 5), 200);
        // So the repair knows whom to ask.
        for site in 0..2 {
            assert_eq!(scene.add(site, "other", 1), 200);
        }
        if let Some(value) = set {
            let body = json!({ "value": value });
            let (status, answer) = scene.ask(0, "PUT", "/counters/hits/value", &body);
            assert_eq!(status, 200, "{answer}");
        }
        let (status, answer) = scene.ask(0, "PUT", "/counters/hits", &json!({"home": "SYD"}));
        assert_eq!(status, 200, "{answer}");
        // It is forwarded, and home learns of its grant.
        assert_eq!(scene.add(0, "hits", 1), 200);
        let value = set.unwrap_or(13) + 1;
        assert_eq!(scene.value("hits"), value);
        scene.world.run_for_ms(120_000);
        scene.world.restart(1_000);
        damage_root(&scene, "hits", &["roots"]);
        if !has_memory {
            damage_root(&scene, "hits", &["views", "totals"]);
        }
        // What the other datacenter holds must be known.
        scene.world.cut(scene.sites[0], scene.sites[1], 60_000);
        let report = scene.repair(&json!({"counter": "hits"}));
        assert_eq!(report["counters"][0]["status"], "failed", "{report}");
        scene.world.heal();
        scene.world.run_for_ms(60_000);
        let report = scene.repair(&json!({"counter": "hits"}));
        assert_eq!(report["counters"][0]["status"], "repaired", "{report}");
        let (_, answer) = scene.read("hits");
        assert_eq!(
            (&answer["value"], &answer["exact"]),
            (&json!(value), &json!(true)),
            "{answer}"
        );
        let held = answer["datacenters"][0].clone();
        for site in 0..2 {
            assert_eq!(scene.add(site, "hits", 3), 200);
        }
        let (_, answer) = scene.read("hits");
        assert_eq!(
            (&answer["value"], &answer["datacenters"][0]["value"]),
            (&json!(value + 6), &held["value"]),
            "all is counted at home: {answer}"
        );
        let (status, answer) = scene.ask(0, "PUT", "/counters/hits", &json!({}));
        assert_eq!(status, 200, "{answer}");
        for site in 0..2 {
            assert_eq!(scene.add(site, "hits", 2), 200);
        }
        assert_eq!(scene.value("hits"), value + 10);
    }
}

#[test]
fn what_a_counter_was_set_to_is_told_and_kept_after_its_root_was_put_back() {
    let scene = Scene::new(34, None);
    assert_eq!(scene.add(0, "hits", 10), 200);
    let (status, answer) = scene.ask(0, "PUT", "/counters/hits/value", &json!({"value": 1000}));
    assert_eq!(status, 200, "{answer}");
    // The lead learns what was set.
    assert_eq!(scene.add(0, "hits", 1), 200);
    scene.world.run_for_ms(120_000);
    scene.world.restart(1_000);
    let of = partition(&scene, "hits");
    assert_eq!(scene.damage(&of, "roots", "id = 'hits'"), 1);
    let report = scene.repair(&json!({"counter": "hits"}));
    assert_eq!(report["counters"][0]["status"], "repaired", "{report}");
    let (_, answer) = scene.read("hits");
    assert_eq!(
        (&answer["value"], &answer["base"], &answer["exact"]),
        (&json!(1001), &json!(990), &json!(true)),
        "{answer}"
    );
    let export = scene.clients[0].get("/export?prefix=hits");
    let lines = scene.world.run(export).expect("no fault").text();
    assert!(lines.contains(r#""value":1001,"base":990,"#), "{lines}");
    scene.world.run_for_ms(120_000);
    let (status, made) = scene.ask(0, "POST", "/snapshots", &Value::Null);
    assert_eq!((status, &made["complete"]), (200, &json!(true)), "{made}");
    // Now the snapshot alone knows it.
    scene.world.restart(1_000);
    for table in ["roots", "views"] {
        assert_eq!(scene.damage(&of, table, "id = 'hits'"), 1, "{table}");
    }
    assert_eq!(scene.damage(&cell("hits", "FRA", 0), "rows", "kind = 1"), 1);
    let report = scene.repair(&json!({"counter": "hits"}));
    assert_eq!(
        report["counters"][0]["root"]["from"], "snapshot",
        "{report}"
    );
    assert_eq!(scene.value("hits"), 1001);
}

#[test]
fn a_default_read_tells_no_part_of_a_counter_whose_root_is_damaged() {
    let scene = Scene::new(8, None);
    for id in ["set", "seen"] {
        let value = format!("/counters/{id}/value");
        let (status, set) = scene.ask(0, "PUT", &value, &json!({"value": 1000}));
        assert_eq!(status, 201, "{set}");
        assert_eq!(scene.add(0, id, 5), 200);
    }
    scene.world.run_for_ms(120_000);
    scene.world.restart(1_000);
    let read = |id: &str| scene.ask(0, "GET", &format!("/counters/{id}"), &Value::Null);
    let (_, before) = read("seen");
    assert_eq!(before["value"], 1005, "{before}");
    for id in ["set", "seen"] {
        let condition = format!("id = '{id}'");
        assert_eq!(scene.damage(&partition(&scene, id), "roots", &condition), 1);
    }
    scene.world.evict_objects();
    for _ in 0..3 {
        scene.world.run_for_ms(2_000);
        let (status, answer) = read("set");
        assert_eq!(
            (status, &answer["code"]),
            (503, &json!("unavailable")),
            "{answer}"
        );
        // What this isolate has seen stands, as of then.
        let (status, answer) = read("seen");
        assert_eq!(
            (status, &answer["value"], &answer["exact"], &answer["as_of"]),
            (200, &json!(1005), &json!(false), &before["as_of"]),
            "{answer}"
        );
    }
    scene.repair(&json!({"prefix": ""}));
}

#[test]
fn a_root_that_no_lead_knows_stays_refused() {
    let scene = Scene::new(6, None);
    assert_eq!(scene.add(0, "hits", 5), 200);
    let of = partition(&scene, "hits");
    scene.world.run_for_ms(120_000);
    scene.world.restart(1_000);
    assert_eq!(scene.damage(&of, "roots", "id = 'hits'"), 1);
    assert_eq!(scene.damage(&of, "views", "id = 'hits'"), 1);
    assert_eq!(scene.damage(&cell("hits", "FRA", 0), "rows", "kind = 1"), 1);
    let report = scene.repair(&json!({"counter": "hits"}));
    assert_eq!(report["counters"][0]["status"], "failed", "{report}");
    assert!(
        report["counters"][0]["root"]["lost"][0]
            .to_string()
            .contains("stays refused")
    );
    assert_eq!(scene.read("hits").0, 503);
    assert_eq!(scene.add(0, "hits", 1), 503);
}

#[test]
fn a_repair_is_the_operators_and_says_what_its_body_must_be() {
    let scene = Scene::new(7, None);
    for body in [
        json!({}),
        json!({"counter": "a", "prefix": "b"}),
        json!({"counter": "a", "cursor": "b"}),
    ] {
        let (status, answer) = scene.ask(0, "POST", "/repair", &body);
        assert_eq!((status, &answer["code"]), (400, &json!("invalid-body")));
    }
    let (status, answer) = scene.ask(0, "POST", "/repair", &json!({"prefix": "", "dry": true}));
    assert_eq!((status, &answer["code"]), (400, &json!("unknown-field")));
    let stranger = scene.world.client(scene.sites[0]);
    let ask = ClientRequest::new("POST", "/repair").json(r#"{"prefix":""}"#);
    assert_eq!(
        scene.world.run(stranger.ask(ask)).expect("no fault").status,
        401
    );
    let report = scene.repair(&json!({"prefix": ""}));
    assert_eq!(
        (&report["checked"], &report["cursor"]),
        (&json!(0), &Value::Null)
    );
}
