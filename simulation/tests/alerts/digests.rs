//! Digests: what was counted in a day or a week, to the receiver of an alert, once.

use serde_json::{Value, json};
use tally_simulation::{Client, Faults, Verdict, World};

use super::{Got, SECRET, add, ask, done, get, service};

const DAY_MS: u64 = 86_400_000;

/// When a digest is sent after its day, and a little more.
const SENT_MS: u64 = 400_000;

fn digest(watched: &str, of: &str, every: &str) -> Value {
    json!({
        watched: of, "when": {"digest": {"every": every}},
        "webhook": "https://hooks.example.com/tally?key=1", "secret": SECRET,
    })
}

fn put(world: &World, client: &Client, name: &str, alert: &Value) {
    let made = done(world, client, "PUT", &format!("/alerts/{name}"), alert);
    assert_eq!(made["when"], alert["when"]);
}

/// Runs to a time of the next day, milliseconds after its beginning.
fn run_into_day(world: &World, ms: u64) {
    let now_ms = u64::try_from(world.clock()()).expect("a time");
    world.run_for_ms(DAY_MS - now_ms % DAY_MS + ms);
}

fn one(got: &[Got]) -> &Got {
    let [one] = got else {
        panic!("{} deliveries: {got:?}", got.len());
    };
    assert_eq!(
        (one.state(), &one.json["type"]),
        ("digest", &"alert.digest".into())
    );
    one
}

#[test]
fn a_prefix_gets_its_top_counters_and_the_change_each_day() {
    let (world, _, client, receiver) = service(70);
    run_into_day(&world, 3_600_000);
    for (counter, delta) in [("page/a", 40), ("page/b", 10), ("other", 99)] {
        add(&world, &client, &counter.replace('/', "%2F"), delta);
    }
    put(&world, &client, "daily", &digest("prefix", "page/", "day"));
    run_into_day(&world, SENT_MS);
    let first = receiver.take();
    let told = &one(&first).json["digest"];
    assert_eq!(
        (&told["count"], &told["count_before"]),
        (&50.into(), &0.into())
    );
    assert_eq!(told["change_percent"], Value::Null);
    for (counter, delta) in [("page/a", 10), ("page/b", 60), ("page/c", 5)] {
        add(&world, &client, &counter.replace('/', "%2F"), delta);
    }
    run_into_day(&world, SENT_MS);
    let second = receiver.take();
    let told = &one(&second).json["digest"];
    assert_eq!(told["count"], 75);
    assert_eq!(
        (&told["count_before"], &told["change_percent"]),
        (&50.into(), &50.into())
    );
    assert_eq!(
        told["top"],
        json!([
            {"counter": "page/b", "count": 60, "count_before": 10, "change_percent": 500},
            {"counter": "page/a", "count": 10, "count_before": 40, "change_percent": -75},
            {"counter": "page/c", "count": 5, "count_before": 0, "change_percent": null},
        ])
    );
    let (from, to) = (
        told["from"].as_u64().expect("a time"),
        told["to"].as_u64().expect("a time"),
    );
    assert_eq!((from % DAY_MS, to - from), (0, DAY_MS));
    assert_eq!(get(&world, &client, "/alerts/daily")["state"], "ok");
    assert_eq!(
        get(&world, &client, "/alerts/daily/deliveries")["entries"][0]["state"],
        "digest"
    );
}

#[test]
fn a_policy_gets_its_checks_and_refusals_each_week() {
    let (world, _, client, receiver) = service(71);
    let policy = json!({"limit": 2, "window_seconds": 3600});
    done(&world, &client, "PUT", "/limits/login", &policy);
    put(
        &world,
        &client,
        "weekly",
        &digest("policy", "login", "week"),
    );
    for _ in 0..5 {
        ask(&world, &client, "POST", "/limits/login/a", &json!({}));
    }
    world.run_for_ms(7 * DAY_MS + SENT_MS);
    let got = receiver.take();
    let told = &one(&got).json["digest"];
    assert_eq!(
        (&told["count"], &told["refused"]["count"]),
        (&5.into(), &3.into())
    );
    // A week begins on Monday.
    let from = told["from"].as_u64().expect("a time");
    assert_eq!((from / DAY_MS) % 7, 4);
    world.run_for_ms(7 * DAY_MS);
    assert_eq!(one(&receiver.take()).json["digest"]["count_before"], 5);
}

#[test]
fn each_day_is_delivered_though_objects_crash_and_the_receiver_refuses() {
    for seed in 0..6 {
        let (world, _, client, receiver) = service(700 + seed);
        add(&world, &client, "c", 1);
        put(&world, &client, "daily", &digest("counter", "c", "day"));
        receiver.answer_status(503);
        let mut days = Vec::new();
        for day in 0..4 {
            world.set_faults(Faults::NONE);
            receiver.answer_status(if day % 2 == 0 { 503 } else { 204 });
            world.set_faults(Faults {
                crashes_object_once_in: 20,
                ..Faults::NONE
            });
            run_into_day(&world, SENT_MS);
        }
        world.set_faults(Faults::NONE);
        receiver.answer_status(204);
        world.run_for_ms(DAY_MS / 2);
        for got in receiver.got() {
            assert_eq!(got.state(), "digest");
            days.push(got.json["digest"]["from"].as_u64().expect("a time") / DAY_MS);
        }
        days.sort_unstable();
        days.dedup();
        assert_eq!(days.len(), 4, "seed {seed}: {days:?}");
    }
}

#[test]
fn a_part_that_is_away_is_waited_for_and_then_named() {
    let (world, _, client, receiver) = service(72);
    add(&world, &client, "page%2Fa", 4);
    put(&world, &client, "daily", &digest("prefix", "page/", "day"));
    let away = |path: &'static str| {
        world.set_judge(move |judged| {
            let is_away = judged.path == path && judged.name.ends_with('3');
            let verdict = if is_away {
                Verdict::Unreached
            } else {
                Verdict::Answered
            };
            Box::pin(async move { verdict })
        });
    };
    away("/top-of");
    run_into_day(&world, SENT_MS);
    assert!(receiver.got().is_empty());
    assert_eq!(get(&world, &client, "/alerts/daily")["state"], "unknown");
    world.run_for_ms(3_700_000);
    let got = receiver.take();
    let missing = one(&got).json["digest"]["missing"]
        .as_str()
        .map(str::to_owned);
    assert!(
        missing.is_some_and(|missing| missing.contains("partition 3")),
        "{got:?}"
    );
}

#[test]
fn a_digest_has_no_thresholds_and_only_those_who_administer_it_put_it() {
    let (world, _, client, _) = service(73);
    for wrong in [
        json!({"digest": {"every": "hour"}}),
        json!({"digest": {}}),
        json!({"digest": {"every": "day"}, "value": {"above": 1}}),
        json!({"digest": {"every": "day"}, "value": {}}),
        json!({"digest": {"every": "day", "above": 1}}),
    ] {
        let mut alert = digest("counter", "c", "day");
        alert["when"] = wrong.clone();
        assert_eq!(
            ask(&world, &client, "PUT", "/alerts/a", &alert).status,
            400,
            "{wrong}"
        );
    }
    let mut alert = digest("counter", "c", "day");
    alert["for_seconds"] = 60.into();
    assert_eq!(ask(&world, &client, "PUT", "/alerts/a", &alert).status, 400);
}
