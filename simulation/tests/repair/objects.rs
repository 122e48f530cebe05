//! What belongs to no counter: found and named, removed where that is asked for, and then the object answers again.

use serde_json::{Value, json};
use tally_core::board::placing::ShardAt;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::queue::{INBOXES_PER_DATACENTER, InboxId};
use tally_wire::names;
use tally_wire::names::{LimiterAddress, Placement, TabletAddress};

use super::scene::Scene;

fn fra() -> Datacenter {
    Datacenter::parse("FRA").expect("a name")
}

/// The objects that are damaged, by name.
fn found(scene: &Scene, prefix: &str) -> Vec<(String, Value)> {
    let report = scene.repair(&json!({"objects": prefix}));
    assert_eq!(
        (&report["dry_run"], &report["failed"]),
        (&json!(true), &json!([])),
        "{report}"
    );
    let objects = report["objects"].as_array().expect("a list");
    let named = |object: &Value| {
        let name = object["object"].as_str().expect("a name");
        (name.to_owned(), object["damaged"][0].clone())
    };
    objects.iter().map(named).collect()
}

/// Removes what is damaged of an object: looking at it does not, and once is enough.
fn discard(scene: &Scene, object: &str) {
    for (body, status) in [
        (json!({"object": object}), "damaged"),
        (
            json!({"object": object, "discard": true, "dry_run": true}),
            "damaged",
        ),
        (json!({"object": object, "discard": true}), "discarded"),
    ] {
        let report = scene.repair(&body);
        assert_eq!(report["objects"][0]["status"], status, "{report}");
        assert_eq!(report["objects"][0]["object"], object);
    }
    let again = scene.repair(&json!({"object": object, "discard": true}));
    assert_eq!(again["objects"], json!([]), "{again}");
}

/// Damages rows of an object, sees that it is found by its name with a loss that says so, and removes it.
fn goes_through(
    scene: &Scene,
    of: &Placement,
    (table, condition): (&str, &str),
    name: &str,
    loss: &str,
) {
    scene.world.restart(1_000);
    assert_eq!(found(scene, ""), vec![], "nothing is damaged yet");
    assert!(scene.damage(of, table, condition) > 0, "{table}");
    let damaged = found(scene, "");
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    let (named, finding) = &damaged[0];
    assert_eq!((named.as_str(), &finding["table"]), (name, &json!(table)));
    assert!(finding["lost"].to_string().contains(loss), "{finding}");
    let kind = name.split('/').next().expect("a kind");
    assert_eq!(found(scene, kind).len(), 1);
    discard(scene, name);
    assert_eq!(found(scene, ""), vec![]);
}

#[test]
fn a_tablet_whose_log_is_damaged_answers_again_and_its_counters_come_back_from_their_roots() {
    let scene = Scene::new(21, Some("1"));
    for id in ["one", "two"] {
        assert_eq!(scene.add(0, id, 7), 200);
    }
    // Told to their roots, and not folded yet.
    scene.world.run_for_ms(20_000);
    let of = names::tablet(&TabletAddress {
        datacenter: fra(),
        number: 0,
    });
    scene.world.restart(1_000);
    assert!(scene.damage(&of, "log", "number >= 0") > 0);
    assert_eq!(scene.read("one").0, 503);
    assert_eq!(scene.add(0, "two", 1), 503);
    let damaged = found(&scene, "tablet/FRA/");
    assert_eq!(
        (damaged.len(), damaged[0].0.as_str()),
        (1, "tablet/FRA/0"),
        "{damaged:?}"
    );
    let report = scene.repair(&json!({"prefix": ""}));
    assert_eq!(
        (&report["damaged"], &report["repaired"]),
        (&json!(2), &json!(0)),
        "{report}"
    );
    discard(&scene, "tablet/FRA/0");
    let report = scene.repair(&json!({"prefix": ""}));
    assert_eq!(
        (&report["damaged"], &report["repaired"]),
        (&json!(2), &json!(2)),
        "{report}"
    );
    let cell = &report["counters"][0]["cells"][0];
    assert_eq!(
        (&cell["damaged"], &cell["totals"]["from"]),
        (&json!(["totals"]), &json!("root")),
        "{report}"
    );
    assert_eq!((scene.value("one"), scene.value("two")), (7, 7));
    assert_eq!(scene.add(0, "two", 1), 200);
    assert_eq!(scene.value("two"), 8);
    let again = scene.repair(&json!({"prefix": ""}));
    assert_eq!(again["damaged"], 0, "{again}");
}

#[test]
fn a_board_whose_head_is_damaged_goes_and_begins_anew() {
    let scene = Scene::new(22, None);
    for board in ["game", "other"] {
        let path = format!("/boards/{board}/members/ann");
        assert_eq!(scene.ask(0, "POST", &path, &json!({"score": 3})).0, 200);
    }
    let game = CounterId::parse("game").expect("a name");
    let of = names::board(&game, ShardAt::default(), None);
    scene.world.restart(1_000);
    assert!(scene.damage(&of, "board", "id >= 0") > 0);
    assert_eq!(
        scene.ask(0, "GET", "/boards/game/members", &Value::Null).0,
        503
    );
    let damaged = found(&scene, "board/");
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    assert!(
        damaged[0].1["lost"].to_string().contains("all its members"),
        "{damaged:?}"
    );
    discard(&scene, "board/game");
    assert_eq!(
        scene.ask(0, "GET", "/boards/game/members", &Value::Null).0,
        404
    );
    assert_eq!(
        scene
            .ask(0, "POST", "/boards/game/members/bob", &json!({"score": 4}))
            .0,
        200
    );
    let (_, top) = scene.ask(0, "GET", "/boards/game/members", &Value::Null);
    assert_eq!(top["entries"].as_array().map(Vec::len), Some(1), "{top}");
    let (_, top) = scene.ask(0, "GET", "/boards/other/members", &Value::Null);
    assert_eq!(top["entries"].as_array().map(Vec::len), Some(1), "{top}");
}

#[test]
fn a_shard_of_a_board_that_is_damaged_is_found_with_its_board() {
    let at = ShardAt {
        layout: 1,
        shard: 1,
    };
    let (scene, of) = spread_board(25, at);
    let shards = scene.world.objects().into_iter().map(|object| object.1);
    let names: Vec<String> = shards.filter(|name| name.contains("game")).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    scene.world.restart(1_000);
    assert!(scene.damage(&of, "board", "id >= 0") > 0);
    let damaged = found(&scene, "board/game");
    let named: Vec<&str> = damaged.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(named, ["board-shard/1/1/game"], "{damaged:?}");
    let loss = damaged[0].1["lost"].to_string();
    assert!(loss.contains("those in this one"), "{loss}");
    discard(&scene, "board-shard/1/1/game");
    // It answers again, without members; the other shard has its own still.
    let (status, top) = scene.ask(0, "GET", "/boards/game/members", &Value::Null);
    assert_eq!(status, 200, "{top}");
    let left = top["total"].as_u64().expect("a number");
    assert!((1..20).contains(&left), "{top}");
    assert_eq!(write_all(&scene), 20);
    // Its board can move, end, and begin again.
    let settings = json!({"keep": "sum", "shards": 3});
    assert_eq!(scene.ask(0, "PUT", "/boards/game", &settings).0, 200);
    scene.world.run_for_ms(10_000);
    let (_, about) = scene.ask(0, "GET", "/boards/game", &Value::Null);
    assert_eq!((&about["shards"], &about["total"]), (&json!(3), &json!(20)));
    assert_eq!(scene.ask(0, "DELETE", "/boards/game", &Value::Null).0, 200);
    assert_eq!(write_all(&scene), 20);
}

/// Writes to 20 members of a board. Returns how many it has then.
fn write_all(scene: &Scene) -> u64 {
    for number in 0..20 {
        let path = format!("/boards/game/members/m{number}");
        let (status, answer) = scene.ask(0, "POST", &path, &json!({"delta": 1}));
        assert_eq!(status, 200, "{answer}");
        assert!(answer["rank"].is_number(), "{answer}");
    }
    let (_, top) = scene.ask(0, "GET", "/boards/game/members", &Value::Null);
    top["total"].as_u64().expect("a number")
}

/// A board of two shards with 20 members, and its object of this address.
fn spread_board(seed: u64, at: ShardAt) -> (Scene, Placement) {
    let scene = Scene::new(seed, None);
    let settings = json!({"keep": "sum", "shards": 2});
    assert_eq!(scene.ask(0, "PUT", "/boards/game", &settings).0, 201);
    assert_eq!(write_all(&scene), 20);
    scene.world.run_for_ms(60_000);
    let game = CounterId::parse("game").expect("a name");
    (scene, names::board(&game, at, None))
}

#[test]
fn a_shard_that_was_discarded_also_begins_again_where_only_the_next_board_writes() {
    let at = ShardAt {
        layout: 1,
        shard: 1,
    };
    let (scene, of) = spread_board(27, at);
    scene.world.restart(1_000);
    assert!(scene.damage(&of, "board", "id = 0") > 0);
    discard(&scene, "board-shard/1/1/game");
    assert_eq!(scene.ask(0, "DELETE", "/boards/game", &Value::Null).0, 200);
    assert_eq!(write_all(&scene), 20);
}

#[test]
fn the_owner_of_a_spread_board_that_was_discarded_takes_what_it_knew_from_its_shards() {
    let (scene, of) = spread_board(28, ShardAt::default());
    scene.world.restart(1_000);
    assert!(scene.damage(&of, "board", "id = 0") > 0);
    discard(&scene, "board/game");
    // At a place that does not know its shards.
    let (status, about) = scene.ask(1, "GET", "/boards/game", &Value::Null);
    assert_eq!(status, 200, "{about}");
    let summary = (
        &about["shards"],
        &about["total"],
        &about["settings"]["keep"],
    );
    assert_eq!(summary, (&json!(2), &json!(20), &json!("sum")), "{about}");
    assert_eq!(write_all(&scene), 20);
    for shards in [3, 2] {
        let settings = json!({"keep": "sum", "shards": shards});
        assert_eq!(scene.ask(1, "PUT", "/boards/game", &settings).0, 200);
        scene.world.run_for_ms(10_000);
        let (_, about) = scene.ask(0, "GET", "/boards/game", &Value::Null);
        let summary = (&about["shards"], &about["total"]);
        assert_eq!(summary, (&json!(shards), &json!(20)), "{about}");
    }
    assert_eq!(scene.ask(0, "DELETE", "/boards/game", &Value::Null).0, 200);
    assert_eq!(scene.ask(1, "GET", "/boards/game", &Value::Null).0, 404);
}

#[test]
fn a_limiter_of_a_datacenter_that_has_counted_nothing_is_looked_at_where_it_is_named() {
    let scene = Scene::new(26, None);
    let check = json!({"limit": 5, "window_seconds": 60, "durability": "commit"});
    assert_eq!(scene.ask(1, "POST", "/limits/p/k", &check).0, 200);
    let known = scene.world.objects().into_iter();
    let limiter = known.filter(|object| object.0 == names::LIMITERS);
    let names: Vec<String> = limiter.map(|object| object.1).collect();
    let [name] = names.as_slice() else {
        panic!("{names:?}");
    };
    let of = Placement {
        binding: names::LIMITERS,
        name: name.clone(),
        location_hint: None,
    };
    scene.world.restart(1_000);
    assert!(scene.damage(&of, "limits", "number >= 0") > 0);
    let damaged = found(&scene, "limiter/SYD/");
    assert_eq!(damaged.len(), 1, "{name}: {damaged:?}");
}

#[test]
fn limits_keys_of_redis_queued_events_and_policies_are_found_and_removed() {
    let scene = Scene::new(23, None);
    // Objects of a datacenter are asked where one of its cells has counted.
    assert_eq!(scene.add(0, "seen", 1), 200);
    let check = json!({"limit": 5, "window_seconds": 60, "durability": "commit"});
    let create_login = || {
        let policy = json!({"limit": 5, "window_seconds": 60});
        assert_eq!(scene.ask(0, "PUT", "/limits/login", &policy).0, 201);
    };
    assert_eq!(scene.ask(0, "POST", "/limits/p/k", &check).0, 200);
    assert_eq!(
        scene
            .ask(0, "POST", "/redis", &json!(["SET", "name", "ann"]))
            .0,
        200
    );
    create_login();
    let limiters = (0..names::LIMITER_PARTITIONS).map(|partition| {
        let address = LimiterAddress {
            datacenter: Some(fra()),
            partition,
        };
        (format!("limiter/FRA/{partition}"), names::limiter(&address))
    });
    let has = |of: &Placement, query: &str| {
        scene
            .world
            .look(of, query)
            .is_some_and(|rows| !rows.is_empty())
    };
    let (name, of) = limiters
        .into_iter()
        .find(|(_, of)| has(of, "SELECT 1 FROM limits"))
        .expect("a limiter has it");
    goes_through(
        &scene,
        &of,
        ("limits", "number >= 0"),
        &name,
        "used of their limits",
    );
    assert_eq!(scene.ask(0, "POST", "/limits/p/k", &check).0, 200);

    goes_through(
        &scene,
        &names::keyspace(),
        ("keys", "key = 'name'"),
        "redis",
        "what the keys hold",
    );
    let (_, answer) = scene.ask(0, "POST", "/redis", &json!(["GET", "name"]));
    assert_eq!(answer["result"], Value::Null, "{answer}");

    let policies =
        (0..names::DIRECTORY_PARTITIONS).map(|number| (number, names::directory(number)));
    let (number, of) = policies
        .into_iter()
        .find(|(_, of)| has(of, "SELECT 1 FROM policies WHERE name = 'login'"))
        .expect("a partition has it");
    goes_through(
        &scene,
        &of,
        ("policies", "name = 'login'"),
        &format!("partition/{number}"),
        "policies",
    );
    create_login();
}

#[test]
fn an_inbox_answers_again_without_its_damaged_events() {
    let scene = Scene::new(24, None);
    assert_eq!(
        scene
            .ask(
                0,
                "POST",
                "/api/event",
                &json!({"key": "queued", "increment": 5})
            )
            .0,
        202
    );
    let inboxes = (0..INBOXES_PER_DATACENTER).map(|number| {
        let id = InboxId {
            datacenter: fra(),
            number,
        };
        (format!("inbox/FRA/{number}"), names::inbox(&id))
    });
    let has = |of: &Placement| {
        scene
            .world
            .look(of, "SELECT 1 FROM state")
            .is_some_and(|rows| !rows.is_empty())
    };
    let (name, of) = inboxes
        .into_iter()
        .find(|(_, of)| has(of))
        .expect("an inbox has it");
    scene.world.run_for_ms(30_000);
    goes_through(
        &scene,
        &of,
        ("state", "name = 'nonces'"),
        &name,
        "counts them again",
    );
    assert_eq!(
        scene
            .ask(
                0,
                "POST",
                "/api/event",
                &json!({"key": "queued", "increment": 5})
            )
            .0,
        202
    );
    scene.world.run_for_ms(30_000);
    assert_eq!(scene.value("queued"), 10);
}

#[test]
fn what_is_asked_of_objects_is_well_formed() {
    let scene = Scene::new(25, None);
    for body in [
        json!({"object": "shelf/3"}),
        json!({"object": "tablet/FRA"}),
        json!({"object": "redis", "cursor": "redis"}),
        json!({"objects": "", "discard": true}),
        json!({"prefix": "", "discard": true}),
        json!({"object": "redis", "prefix": ""}),
    ] {
        let (status, answer) = scene.ask(0, "POST", "/repair", &body);
        assert_eq!(
            (status, &answer["code"]),
            (400, &json!("invalid-body")),
            "{body}"
        );
    }
    let report = scene.repair(&json!({"object": "board-shard/2/1/game"}));
    assert_eq!(
        (&report["checked"], &report["objects"]),
        (&json!(1), &json!([])),
        "{report}"
    );
}

#[test]
fn a_discarded_alert_takes_what_waits_to_be_delivered_along() {
    let scene = Scene::new(35, None);
    let posts = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = posts.clone();
    scene.world.set_receiver(move |_| {
        seen.set(seen.get() + 1);
        async { Ok(500) }
    });
    let alert = json!({
        "counter": "hits", "when": {"value": {"above": 10}}, "webhook": "https://hooks.example.com/",
        "secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    });
    assert_eq!(scene.ask(0, "PUT", "/alerts/a", &alert).0, 201);
    assert_eq!(scene.add(0, "hits", 11), 200);
    scene.world.run_for_ms(65_000);
    assert!(posts.get() > 0);
    let has = |of: &Placement| {
        let rows = scene.world.look(of, "SELECT 1 FROM alerts");
        rows.is_some_and(|rows| !rows.is_empty())
    };
    let all = (0..names::DIRECTORY_PARTITIONS).map(names::directory);
    let of = all.into_iter().find(has).expect("an alert");
    scene.world.restart(1_000);
    assert_eq!(scene.damage(&of, "alerts", "name = 'a'"), 1);
    let damaged = found(&scene, "");
    assert!(
        damaged[0].1["lost"].to_string().contains("alerts"),
        "{damaged:?}"
    );
    discard(&scene, &damaged[0].0);
    let waiting = "SELECT number FROM alert_deliveries";
    assert_eq!(scene.world.look(&of, waiting), Some(Vec::new()));
    // One that is orphaned for another reason goes too, and holds up nothing.
    assert_eq!(scene.ask(0, "PUT", "/alerts/a", &alert).0, 201);
    scene.world.run_for_ms(65_000);
    let post_count = posts.get();
    scene.world.restart(1_000);
    let delete = "DELETE FROM alerts WHERE name = 'a'";
    assert!(scene.world.look(&of, delete).is_some());
    scene.world.run_for_ms(600_000);
    assert_eq!(scene.world.look(&of, waiting), Some(Vec::new()));
    assert_eq!(posts.get(), post_count);
}

#[test]
fn a_delivery_that_cannot_be_read_holds_up_no_other_alert_and_is_looked_at_seldom() {
    let scene = Scene::new(36, None);
    let status = std::rc::Rc::new(std::cell::Cell::new(500));
    let answered = status.clone();
    scene.world.set_receiver(move |_| {
        let status = answered.get();
        async move { Ok(status) }
    });
    // One more than there are partitions: two alerts share an object.
    let alert = json!({
        "counter": "hits", "when": {"value": {"above": 10}}, "webhook": "https://hooks.example.com/",
        "secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    });
    for number in 0..=names::DIRECTORY_PARTITIONS {
        let path = format!("/alerts/a{number}");
        assert_eq!(scene.ask(0, "PUT", &path, &alert).0, 201);
    }
    assert_eq!(scene.add(0, "hits", 11), 200);
    scene.world.run_for_ms(65_000);
    let waiting = "SELECT number FROM alert_deliveries WHERE due_ms IS NOT NULL";
    let count = |of: &Placement| scene.world.look(of, waiting).map_or(0, |rows| rows.len());
    let mut all = (0..names::DIRECTORY_PARTITIONS).map(names::directory);
    let of = all
        .find(|of| count(of) > 1)
        .expect("two alerts of one partition");
    let before = count(&of);
    scene.world.restart(1_000);
    let first = "number = (SELECT MIN(number) FROM alert_deliveries)";
    assert_eq!(scene.damage(&of, "alert_deliveries", first), 1);
    status.set(200);
    let errors = scene.world.errors().len();
    scene.world.run_for_ms(3_600_000);
    // The others were delivered; of the damaged one it is said a few times an hour.
    assert!(before > 1, "{before}");
    assert_eq!(count(&of), 1);
    let error_count = scene.world.errors().len() - errors;
    assert!(
        (2..=8).contains(&error_count),
        "{error_count} errors in an hour"
    );
}
