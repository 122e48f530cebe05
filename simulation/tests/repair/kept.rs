//! What nobody remembers comes back as the last snapshot has it, and nothing is counted twice.

use serde_json::{Value, json};

use super::scene::{Scene, cell, damage_root, partition};

/// Lets leads tell their roots, and makes a snapshot. Returns its date.
fn snapshot(scene: &Scene) -> Value {
    scene.world.run_for_ms(120_000);
    let (status, made) = scene.ask(0, "POST", "/snapshots", &Value::Null);
    assert_eq!((status, &made["complete"]), (200, &json!(true)), "{made}");
    made["date"].clone()
}

fn damage_lead(scene: &Scene, id: &str, datacenter: &str) {
    let of = cell(id, datacenter, 0);
    assert_eq!(scene.damage(&of, "rows", "kind = 1"), 1);
}

#[test]
fn a_root_that_nobody_remembers_comes_back_from_the_last_snapshot() {
    let scene = Scene::new(11, None);
    for site in 0..2 {
        assert_eq!(scene.add(site, "hits", 5), 200);
    }
    scene.ask(0, "PUT", "/counters/hits", &json!({"ttl_seconds": 900_000}));
    let date = snapshot(&scene);
    // What the snapshot has not seen is lost, as the answer says.
    assert_eq!(scene.add(0, "hits", 2), 200);
    scene.world.run_for_ms(120_000);
    scene.world.restart(1_000);
    damage_root(&scene, "hits", &["roots", "views"]);
    damage_lead(&scene, "hits", "FRA");
    damage_lead(&scene, "hits", "SYD");
    assert_eq!(scene.read("hits").0, 503);
    for is_dry in [true, false] {
        let report = scene.repair(&json!({"prefix": "hi", "dry_run": is_dry}));
        let counter = &report["counters"][0];
        let status = if is_dry { "damaged" } else { "repaired" };
        assert_eq!(counter["status"], status, "{report}");
        assert_eq!(counter["root"]["from"], "snapshot", "{report}");
        assert_eq!(counter["root"]["snapshot"], date);
        let lost = counter["root"]["lost"][0].to_string();
        assert!(lost.contains("after the snapshot"), "{lost}");
        assert_eq!(scene.read("hits").0, if is_dry { 503 } else { 200 });
    }
    let (_, answer) = scene.read("hits");
    assert_eq!(answer["value"], 10, "{answer}");
    // Those of a cell's rows that are not damaged stay: who came after the snapshot is among them.
    assert_eq!(answer["uniques"]["estimate"], 3, "{answer}");
    let again = scene.repair(&json!({"prefix": ""}));
    assert_eq!(again["damaged"], 0, "{again}");
    for site in 0..2 {
        assert_eq!(scene.add(site, "hits", 3), 200);
    }
    assert_eq!(scene.value("hits"), 16);
    let (_, about) = scene.ask(0, "GET", "/counters/hits", &Value::Null);
    assert!(
        !about["expires_at"].is_null() || about["ttl_seconds"] == 900_000,
        "{about}"
    );
    scene.world.run_for_ms(120_000);
    scene.world.restart(1_000);
    assert_eq!(scene.value("hits"), 16);
    let (_, list) = scene.ask(0, "GET", "/counters?prefix=hits&values=1", &Value::Null);
    assert_eq!(list["entries"][0]["value"], 16, "{list}");
}

#[test]
fn a_root_stays_refused_while_a_lead_that_may_remember_it_does_not_answer() {
    let scene = Scene::new(12, None);
    for site in 0..2 {
        assert_eq!(scene.add(site, "hits", 5), 200);
        assert_eq!(scene.add(site, "other", 5), 200);
    }
    snapshot(&scene);
    scene.world.restart(1_000);
    damage_root(&scene, "hits", &["roots", "views"]);
    damage_lead(&scene, "hits", "SYD");
    scene.world.cut(scene.sites[0], scene.sites[1], 60_000);
    let report = scene.repair(&json!({"counter": "hits"}));
    assert_eq!(report["counters"][0]["status"], "failed", "{report}");
    scene.world.heal();
    scene.world.run_for_ms(60_000);
    // The lead in FRA remembers it: that goes before the snapshot.
    let report = scene.repair(&json!({"counter": "hits"}));
    assert_eq!(report["counters"][0]["root"]["from"], "leads", "{report}");
    let cell = &report["counters"][0]["cells"][0];
    assert_eq!(cell["totals"]["from"], "snapshot", "{report}");
    assert_eq!(scene.value("hits"), 10, "{report}");
}

#[test]
fn a_counter_that_was_deleted_is_not_brought_back() {
    let scene = Scene::new(13, None);
    assert_eq!(scene.add(0, "hits", 5), 200);
    snapshot(&scene);
    let of = partition(&scene, "hits");
    assert_eq!(
        scene.ask(0, "DELETE", "/counters/hits", &Value::Null).0,
        200
    );
    scene.world.run_for_ms(5_000);
    scene.world.restart(1_000);
    assert_eq!(scene.damage(&of, "roots", "id = 'hits'"), 1);
    let report = scene.repair(&json!({"counter": "hits"}));
    assert_eq!(report["counters"][0]["status"], "failed", "{report}");
    assert_eq!(
        report["counters"][0]["root"]["from"],
        Value::Null,
        "{report}"
    );
}

#[test]
fn a_cell_that_its_root_does_not_remember_comes_back_from_the_last_snapshot() {
    let scene = Scene::new(14, None);
    for site in 0..2 {
        assert_eq!(scene.add(site, "hits", 5), 200);
    }
    scene.ask(0, "PUT", "/counters/hits/value", &json!({"value": 100}));
    assert_eq!(scene.add(1, "hits", 7), 200);
    let date = snapshot(&scene);
    assert_eq!(scene.add(0, "hits", 1), 200);
    assert_eq!(scene.add(1, "hits", 2), 200);
    scene.world.run_for_ms(120_000);
    scene.world.restart(1_000);
    damage_root(&scene, "hits", &["views", "totals"]);
    damage_lead(&scene, "hits", "SYD");
    let report = scene.repair(&json!({"prefix": ""}));
    let cell = &report["counters"][0]["cells"][0];
    assert_eq!(
        (&cell["datacenter"], &cell["totals"]["from"]),
        (&json!("SYD"), &json!("snapshot")),
        "{report}"
    );
    assert_eq!(cell["totals"]["snapshot"], date);
    // 5 were counted before the value was set, and 7 after it; 2 that came after the snapshot are lost.
    assert_eq!(cell["totals"]["added"], "12", "{report}");
    assert_eq!(scene.value("hits"), 108, "{report}");
    assert_eq!(scene.add(1, "hits", 3), 200);
    assert_eq!(scene.value("hits"), 111);
}

#[test]
fn what_a_later_set_has_observed_of_a_cell_is_not_counted_again() {
    let scene = Scene::new(15, None);
    for site in 0..2 {
        assert_eq!(scene.add(site, "hits", 5), 200);
    }
    snapshot(&scene);
    assert_eq!(scene.add(1, "hits", 2), 200);
    scene.ask(0, "PUT", "/counters/hits/value", &json!({"value": 40}));
    scene.world.run_for_ms(120_000);
    scene.world.restart(1_000);
    damage_root(&scene, "hits", &["views", "totals"]);
    damage_lead(&scene, "hits", "SYD");
    let report = scene.repair(&json!({"counter": "hits"}));
    assert_eq!(
        report["counters"][0]["cells"][0]["totals"]["added"], "7",
        "{report}"
    );
    assert_eq!(scene.value("hits"), 40, "{report}");
}

#[test]
fn a_lead_does_not_get_what_its_shards_still_hold() {
    let scene = Scene::new(16, None);
    scene.ask(0, "PUT", "/counters/wide", &json!({"shards": 4}));
    for _ in 0..2 {
        for delta in 1..30 {
            assert_eq!(scene.add(0, "wide", delta), 200);
        }
        scene.world.run_for_ms(20_000);
    }
    let counted = scene.value("wide");
    snapshot(&scene);
    scene.world.restart(1_000);
    damage_root(&scene, "wide", &["views", "totals"]);
    damage_lead(&scene, "wide", "FRA");
    assert_eq!(scene.read("wide").0, 503);
    let report = scene.repair(&json!({"counter": "wide"}));
    assert_eq!(
        report["counters"][0]["cells"][0]["totals"]["from"], "snapshot",
        "{report}"
    );
    assert_eq!(scene.value("wide"), counted, "{report}");
}

#[test]
fn what_a_counter_of_several_datacenters_was_set_to_comes_from_the_snapshot() {
    let scene = Scene::new(17, None);
    for site in 0..2 {
        assert_eq!(scene.add(site, "hits", 500), 200);
    }
    scene.ask(0, "PUT", "/counters/hits/value", &json!({"value": 20}));
    let date = snapshot(&scene);
    assert_eq!(scene.add(1, "hits", 2), 200);
    scene.world.run_for_ms(120_000);
    scene.world.restart(1_000);
    damage_root(&scene, "hits", &["roots"]);
    let report = scene.repair(&json!({"counter": "hits"}));
    let root = &report["counters"][0]["root"];
    assert_eq!(
        (&root["from"], &root["snapshot"]),
        (&json!("leads"), &date),
        "{report}"
    );
    // Without it the value would be all that was ever added.
    assert_eq!(scene.value("hits"), 20, "{report}");
    assert_eq!(scene.add(0, "hits", 3), 200);
    assert_eq!(scene.value("hits"), 23);
}
