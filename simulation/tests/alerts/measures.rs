//! What is measured, and what that makes of an alert.

use super::*;

#[test]
fn an_alert_fires_and_is_resolved_once() {
    let (world, _, client, receiver) = service(1);
    add(&world, &client, "orders", 10);
    let when = json!({"value": {"above": 10}});
    let answer = put(&world, &client, "many", &alert("counter", "orders", &when));
    assert_eq!(answer["state"], "unknown");
    assert_eq!(
        (&answer["when"], &answer["counter"]),
        (&when, &"orders".into())
    );
    assert!(answer.get("secret").is_none(), "{answer}");
    world.run_for_ms(1_000);
    let answer = get(&world, &client, "/alerts/many");
    assert_eq!(
        (&answer["state"], &answer["value"], &answer["exact"]),
        (&"ok".into(), &10.into(), &true.into())
    );
    assert_eq!(receiver.states(), [""; 0]);

    add(&world, &client, "orders", 1);
    world.run_for_ms(EVALUATED_MS);
    let answer = get(&world, &client, "/alerts/many");
    assert_eq!(
        (&answer["state"], &answer["value"]),
        (&"firing".into(), &11.into())
    );
    assert_eq!(answer["last_delivery"]["outcome"], "delivered");
    world.run_for_ms(10 * EVALUATED_MS);
    assert_eq!(receiver.states(), ["firing"]);
    let got = &receiver.got()[0];
    assert_eq!(got.url, "https://hooks.example.com/tally?key=1");
    assert_eq!(
        (
            &got.json["alert"],
            &got.json["value"],
            &got.json["threshold"]
        ),
        (&"many".into(), &11.into(), &10.into())
    );
    assert_eq!(
        (&got.json["exact"], &got.json["counter"], &got.json["when"]),
        (&true.into(), &"orders".into(), &when)
    );
    assert!(got.json["as_of"].as_i64().expect("a time") <= got.at_ms);

    done(
        &world,
        &client,
        "POST",
        "/counters/orders/decrement",
        &json!({"delta": 5}),
    );
    world.run_for_ms(10 * EVALUATED_MS);
    assert_eq!(receiver.states(), ["firing", "resolved"]);
    let got = receiver.got();
    assert_eq!(got[0].incident(), got[1].incident());
    let shown = get(&world, &client, "/alerts/many");
    assert_eq!(got[1].json["changed_at"], shown["changed_at"]);
    assert_ne!(got[0].id, got[1].id);
    assert_eq!(got[1].json["value"], 6);
    add(&world, &client, "orders", 50);
    world.run_for_ms(2 * EVALUATED_MS);
    assert_eq!(receiver.states(), ["firing", "resolved", "firing"]);
    assert_ne!(receiver.got()[2].incident(), receiver.got()[1].incident());
}

#[test]
fn what_is_near_is_looked_at_each_ten_seconds() {
    let (world, _, client, receiver) = service(2);
    add(&world, &client, "near", 90);
    add(&world, &client, "far", 20);
    for counter in ["near", "far"] {
        let when = json!({"value": {"above": 100}});
        put(&world, &client, counter, &alert("counter", counter, &when));
    }
    // The first look is at once; so the next one of what is far is a minute later.
    world.run_for_ms(5_000);
    let begun_ms = world.now_ms();
    add(&world, &client, "near", 20);
    add(&world, &client, "far", 90);
    world.run_for_ms(EVALUATED_MS);
    let got = receiver.got();
    let late_ms = |alert: &str| {
        let found = got.iter().find(|got| got.json["alert"] == alert);
        found.unwrap_or_else(|| panic!("{alert}: {got:?}")).at_ms - begun_ms
    };
    assert!(
        (0..=11_000).contains(&late_ms("near")),
        "{}",
        late_ms("near")
    );
    assert!(
        (50_000..=61_000).contains(&late_ms("far")),
        "{}",
        late_ms("far")
    );
}

#[test]
fn it_must_be_over_for_as_long_as_was_asked() {
    let (world, _, client, receiver) = service(3);
    add(&world, &client, "held", 20);
    let mut settings = alert("counter", "held", &json!({"value": {"above": 10}}));
    settings["for_seconds"] = 300.into();
    put(&world, &client, "long", &settings);
    world.run_for_ms(200_000);
    assert_eq!(get(&world, &client, "/alerts/long")["state"], "pending");
    // It was within for a moment, and begins anew.
    done(
        &world,
        &client,
        "POST",
        "/counters/held/decrement",
        &json!({"delta": 15}),
    );
    world.run_for_ms(15_000);
    add(&world, &client, "held", 15);
    world.run_for_ms(290_000);
    assert_eq!(receiver.states(), [""; 0]);
    world.run_for_ms(80_000);
    assert_eq!(receiver.states(), ["firing"]);
}

/// An alert, what is done that makes it fire, and what makes it end.
struct Case {
    name: &'static str,
    watched: (&'static str, &'static str),
    when: Value,
    begin: fn(&World, &Client),
    end: fn(&World, &Client),
    value: std::ops::RangeInclusive<i64>,
}

fn keep_adding(world: &World, client: &Client, counter: &str, seconds: u64, delta: u64) {
    for _ in 0..seconds {
        add(world, client, counter, delta);
        world.run_for_ms(1_000);
    }
}

fn cases_of_counters() -> Vec<Case> {
    vec![
        Case {
            name: "rate",
            watched: ("counter", "r"),
            when: json!({"rate_per_minute": {"above": 600}}),
            begin: |world, client| keep_adding(world, client, "r", 200, 20),
            end: |world, _| world.run_for_ms(200_000),
            value: 601..=1_300,
        },
        Case {
            name: "slow",
            watched: ("counter", "s"),
            when: json!({"rate_per_minute": {"below": 60}}),
            begin: |world, client| {
                keep_adding(world, client, "s", 200, 10);
                world.run_for_ms(200_000);
            },
            end: |world, client| keep_adding(world, client, "s", 200, 10),
            value: 0..=59,
        },
        Case {
            name: "count",
            watched: ("counter", "c"),
            when: json!({"count_in": {"seconds": 600, "above": 100}}),
            begin: |world, client| {
                add(world, client, "c", 101);
                world.run_for_ms(EVALUATED_MS);
            },
            end: |world, _| world.run_for_ms(700_000),
            value: 101..=101,
        },
        Case {
            name: "uniques",
            watched: ("counter", "u"),
            when: json!({"uniques_in": {"seconds": 600, "above": 5}}),
            begin: |world, client| {
                for person in 0..8 {
                    let body = json!({"unique": format!("person {person}")});
                    done(world, client, "POST", "/counters/u/increment", &body);
                }
                world.run_for_ms(EVALUATED_MS);
            },
            end: |world, _| world.run_for_ms(800_000),
            value: 8..=8,
        },
        Case {
            name: "silent",
            watched: ("counter", "beats"),
            when: json!({"silent_for": {"seconds": 300}}),
            begin: |world, client| {
                add(world, client, "beats", 1);
                world.run_for_ms(400_000);
            },
            end: |world, client| {
                add(world, client, "beats", 1);
                world.run_for_ms(EVALUATED_MS);
            },
            value: 300..=330,
        },
    ]
}

/// Cases of prefixes.
fn cases_of_many() -> Vec<Case> {
    vec![
        Case {
            name: "prefix",
            watched: ("prefix", "shop/"),
            when: json!({"value": {"above": 30}}),
            begin: |world, client| {
                add(world, client, "shop%2Fa", 20);
                add(world, client, "shop%2Fb", 20);
                world.run_for_ms(2 * EVALUATED_MS);
            },
            end: |world, client| {
                let body = json!({"delta": 20});
                done(world, client, "POST", "/counters/shop%2Fa/decrement", &body);
                world.run_for_ms(2 * EVALUATED_MS);
            },
            value: 40..=40,
        },
        Case {
            name: "prefix-silent",
            watched: ("prefix", "beat/"),
            when: json!({"silent_for": {"seconds": 300}}),
            begin: |world, client| {
                add(world, client, "beat%2Fa", 20);
                world.run_for_ms(500_000);
            },
            end: |world, client| {
                add(world, client, "beat%2Fb", 20);
                world.run_for_ms(2 * EVALUATED_MS);
            },
            value: 300..=360,
        },
        Case {
            name: "prefix-rate",
            watched: ("prefix", "many/"),
            when: json!({"rate_per_minute": {"above": 300}}),
            begin: |world, client| keep_adding(world, client, "many%2Fa", 500, 10),
            end: |world, _| world.run_for_ms(600_000),
            value: 301..=700,
        },
        Case {
            name: "prefix-ends",
            watched: ("prefix", "many/"),
            when: json!({"rate_per_minute": {"above": 200}}),
            begin: add_while_others_end,
            end: |world, _| world.run_for_ms(800_000),
            value: 201..=10_000,
        },
        Case {
            name: "prefix-count",
            watched: ("prefix", "day/"),
            when: json!({"count_in": {"seconds": 3600, "above": 30}}),
            begin: |world, client| {
                add(world, client, "day%2Fa", 40);
                world.run_for_ms(2 * EVALUATED_MS);
            },
            end: |world, _| world.run_for_ms(3 * 3_600_000),
            value: 40..=40,
        },
    ]
}

/// One counter goes on while six others, which have counted more, end one after the other.
fn add_while_others_end(world: &World, client: &Client) {
    let other_ids: Vec<String> = (0..6).map(|of| format!("many%2Fgone{of}")).collect();
    for id in &other_ids {
        add(world, client, id, 5_000);
    }
    for id in &other_ids {
        keep_adding(world, client, "many%2Fa", 100, 10);
        let path = format!("/counters/{id}");
        done(world, client, "DELETE", &path, &Value::Null);
    }
    keep_adding(world, client, "many%2Fa", 200, 10);
}

/// Cases of policies.
fn cases_of_policies() -> Vec<Case> {
    vec![
        Case {
            name: "refused",
            watched: ("policy", "api"),
            when: json!({"refused_in": {"seconds": 600, "above": 5}}),
            begin: check_often,
            end: |world, _| world.run_for_ms(900_000),
            value: 7..=10,
        },
        Case {
            name: "allowed",
            watched: ("policy", "api"),
            when: json!({"allowed_percent_in": {"seconds": 600, "below": 50}}),
            begin: check_often,
            end: |world, _| world.run_for_ms(900_000),
            value: 0..=49,
        },
    ]
}

/// Twelve checks of a policy that allows two.
fn check_often(world: &World, client: &Client) {
    let policy = json!({"limit": 2, "window_seconds": 3_600});
    done(world, client, "PUT", "/limits/api", &policy);
    for _ in 0..12 {
        ask(world, client, "POST", "/limits/api/ann", &Value::Null);
    }
    world.run_for_ms(2 * EVALUATED_MS);
}

#[test]
fn everything_that_can_be_watched_fires_and_ends() {
    let cases = [cases_of_counters(), cases_of_many(), cases_of_policies()];
    for (number, case) in (10..).zip(cases.into_iter().flatten()) {
        let (world, _, client, receiver) = service(number);
        let name = case.name;
        let (watched, of) = case.watched;
        let answer = put(&world, &client, name, &alert(watched, of, &case.when));
        assert_eq!(
            (&answer[watched], &answer["when"]),
            (&of.into(), &case.when),
            "{name}"
        );
        (case.begin)(&world, &client);
        let answer = get(&world, &client, &format!("/alerts/{name}"));
        assert_eq!(receiver.states(), ["firing"], "{name}: {answer}");
        let value = receiver.got()[0].json["value"].as_i64().expect("a number");
        assert!(case.value.contains(&value), "{name}: {value}");
        (case.end)(&world, &client);
        let answer = get(&world, &client, &format!("/alerts/{name}"));
        assert_eq!(
            receiver.states(),
            ["firing", "resolved"],
            "{name}: {answer}"
        );
    }
}

/// A way in which a counter gets its value, and what is sent.
type Way = (&'static str, &'static str, &'static str, &'static str);

/// Each brings its counter, which is called like the way, to eleven.
const WAYS: [Way; 11] = [
    (
        "increment",
        "POST",
        "/counters/increment/increment",
        r#"{"delta":11}"#,
    ),
    (
        "dimensions",
        "POST",
        "/counters/dimensions/increment",
        r#"{"delta":11,"unique":"ann","by":{"page":"a"}}"#,
    ),
    ("set", "PUT", "/counters/set/value", r#"{"value":11}"#),
    (
        "events",
        "POST",
        "/events",
        "{\"id\":\"events\",\"delta\":5}\n{\"id\":\"events\",\"delta\":6}\n",
    ),
    (
        "log",
        "POST",
        "/ingest?format=ndjson",
        r#"{"id":"log","delta":11,"at":1767225600}"#,
    ),
    (
        "queued",
        "POST",
        "/api/event",
        r#"{"key":"queued","increment":11}"#,
    ),
    ("redis", "POST", "/redis", r#"["INCRBY","redis","11"]"#),
    ("redis-set", "POST", "/redis", r#"["SET","redis-set","11"]"#),
    (
        "imported",
        "POST",
        "/import",
        r#"{"id":"imported","value":11}"#,
    ),
    (
        "decrement",
        "POST",
        "/counters/decrement/decrement",
        r#"{"delta":9}"#,
    ),
    ("hit", "GET", "/hit/hit", ""),
];

#[test]
fn whatever_a_counter_got_its_value_by_its_alert_fires() {
    for (number, (way, method, path, body)) in (100..).zip(WAYS) {
        let (world, _, client, receiver) = service(number);
        world.set("TALLY_REDIS", Some("1"));
        match way {
            // What goes down must come from above; a hit counts one.
            "decrement" => add(&world, &client, way, 20),
            "hit" => add(&world, &client, way, 10),
            _ => {}
        }
        let when = match way {
            "decrement" => json!({"value": {"below": 12}}),
            _ => json!({"value": {"above": 10}}),
        };
        put(&world, &client, "a", &alert("counter", way, &when));
        world.run_for_ms(EVALUATED_MS);
        assert_eq!(receiver.states(), [""; 0], "{way}");
        let mut request = ClientRequest::new(method, path).header("idempotency-key", way);
        if !body.is_empty() {
            request = request.body(body.as_bytes().to_vec());
        }
        let answer = world.run(client.ask(request)).expect("no fault");
        assert!(answer.status < 300, "{way}: {}", answer.text());
        world.run_for_ms(EVALUATED_MS);
        let reply = get(&world, &client, "/alerts/a");
        assert_eq!(receiver.states(), ["firing"], "{way}: {reply}");
        assert_eq!(receiver.got()[0].json["value"], 11, "{way}");
    }
}

#[test]
fn what_a_snapshot_puts_back_is_measured_too() {
    let options = Options {
        has_bucket: true,
        ..Options::default()
    };
    let world = deployed(120, options);
    let client = admin(&world, world.site("FRA", 2));
    let receiver = Receiver::of(&world);
    let set = |value: u32| {
        done(
            &world,
            &client,
            "PUT",
            "/counters/c/value",
            &json!({"value": value}),
        )
    };
    set(11);
    // The directory learns of it within a minute.
    world.run_for_ms(70_000);
    let made = done(&world, &client, "POST", "/snapshots", &Value::Null);
    let date = made["date"].as_str().expect("a day");
    set(3);
    for (name, watched, of) in [("one", "counter", "c"), ("all", "prefix", "")] {
        put(
            &world,
            &client,
            name,
            &alert(watched, of, &json!({"value": {"above": 10}})),
        );
    }
    world.run_for_ms(2 * EVALUATED_MS);
    assert_eq!(receiver.states(), [""; 0]);
    let path = format!("/snapshots/{date}/restore");
    done(&world, &client, "POST", &path, &json!({"mode": "replace"}));
    world.run_for_ms(2 * EVALUATED_MS);
    assert_eq!(receiver.states(), ["firing", "firing"]);
}

#[test]
fn a_datacenter_that_does_not_answer_makes_it_unknown_and_resolves_nothing() {
    let (world, near, client, receiver) = service(30);
    let far = world.site("SYD", 2);
    let far_client = admin(&world, far);
    add(&world, &client, "spread", 10);
    add(&world, &far_client, "spread", 10);
    let when = json!({"value": {"above": 15}});
    put(&world, &client, "sum", &alert("counter", "spread", &when));
    let when = json!({"silent_for": {"seconds": 120}});
    put(&world, &client, "beats", &alert("counter", "spread", &when));
    world.run_for_ms(EVALUATED_MS);
    assert_eq!(receiver.states(), ["firing"]);
    world.cut_off(far, 600_000);
    let _ = near;
    // It would be over by what answers, and goes on being written where nobody hears it.
    for _ in 0..8 {
        done(
            &world,
            &client,
            "POST",
            "/counters/spread/decrement",
            &json!({"delta": 1}),
        );
        world
            .run(far_client.post("/counters/spread/increment", r#"{"delta":1}"#))
            .ok();
        world.run_for_ms(20_000);
    }
    world.run_for_ms(200_000);
    let answer = get(&world, &client, "/alerts/sum");
    assert_eq!(
        (&answer["state"], &answer["missing"]),
        (&"unknown".into(), &"no answer of SYD".into()),
        "{answer}"
    );
    let answer = get(&world, &client, "/alerts/beats");
    assert_eq!(
        (&answer["state"], &answer["missing"]),
        (&"unknown".into(), &"no answer of SYD".into()),
        "{answer}"
    );
    assert_eq!(receiver.states(), ["firing"]);
    world.run_for_ms(300_000);
    let answer = get(&world, &client, "/alerts/sum");
    assert_ne!(answer["state"], "unknown", "{answer}");
}

#[test]
fn a_partition_that_does_not_answer_makes_a_prefix_unknown() {
    use tally_simulation::Verdict;
    let (world, _, client, receiver) = service(31);
    for counter in 0..20 {
        add(&world, &client, &format!("p{counter}"), 10);
    }
    let when = json!({"value": {"above": 150}});
    put(&world, &client, "sum", &alert("prefix", "p", &when));
    world.run_for_ms(2 * EVALUATED_MS);
    assert_eq!(receiver.states(), ["firing"]);
    world.set_judge(|judged| {
        let is_away = judged.path == "/top-of" && judged.name == "d1/3";
        Box::pin(async move {
            match is_away {
                true => Verdict::Unreached,
                false => Verdict::Answered,
            }
        })
    });
    world.run_for_ms(2 * EVALUATED_MS);
    let answer = get(&world, &client, "/alerts/sum");
    assert_eq!(answer["state"], "unknown");
    assert_eq!(
        answer["missing"],
        "no answer of partition 3 of the directory"
    );
    assert_eq!(receiver.states(), ["firing"]);
}

#[test]
fn who_has_no_alerts_pays_nothing_for_them() {
    let (world, _, client, _) = service(32);
    add(&world, &client, "orders", 10);
    world.run_for_ms(600_000);
    let tables = "SELECT name FROM sqlite_master WHERE name LIKE 'alert%'";
    for (binding, name, _, _) in world.objects() {
        let placement = tally_wire::names::Placement {
            binding,
            name,
            location_hint: None,
        };
        let rows = world.look(&placement, tables).unwrap_or_default();
        assert_eq!(rows, Vec::<Vec<_>>::new(), "{placement:?}");
    }
    assert_eq!(get(&world, &client, "/alerts")["entries"], json!([]));
    assert_eq!(
        get(&world, &client, "/alerts/*/deliveries")["entries"],
        json!([])
    );
}

#[test]
fn a_prefix_of_more_than_62_bits_is_not_silent_while_it_is_written() {
    let (world, _, client, receiver) = service(80);
    add(&world, &client, "big%2Fa", 1 << 62);
    let when = json!({"silent_for": {"seconds": 300}});
    put(&world, &client, "silent", &alert("prefix", "big/", &when));
    for _ in 0..12 {
        add(&world, &client, "big%2Fa", 1);
        world.run_for_ms(60_000);
    }
    assert_eq!(receiver.states(), [""; 0]);
    world.run_for_ms(500_000);
    assert_eq!(receiver.states(), ["firing"]);
}

/// Runs until this many milliseconds of the current or the next second are over.
fn run_to_phase(world: &World, phase_ms: i64) {
    let wait_ms = (phase_ms - world.now_ms()).rem_euclid(1_000);
    world.run_for_ms(wait_ms.unsigned_abs());
}

#[test]
fn what_counts_just_after_a_measurement_is_in_a_window() {
    let (world, _, client, receiver) = service(300);
    run_to_phase(&world, 50);
    let when = json!({"count_in": {"seconds": 60, "above": 10}});
    put(&world, &client, "burst", &alert("counter", "burst", &when));
    for part in 0..10 {
        // The first is after the measurement, and within its second.
        run_to_phase(&world, 450 + 50 * part);
        add(&world, &client, "burst", 1_000);
        world.run_for_ms(130_000);
        let fired = receiver
            .states()
            .iter()
            .filter(|state| *state == "firing")
            .count();
        assert_eq!(i64::try_from(fired), Ok(part + 1), "{part}");
        let value = receiver.got()[usize::try_from(part).expect("small") * 2].json["value"].clone();
        assert_eq!(value, 1_000);
    }
}

#[test]
fn a_steady_count_is_the_same_in_every_window() {
    let (world, _, client, receiver) = service(301);
    run_to_phase(&world, 450);
    add(&world, &client, "steady", 1);
    world.run_for_ms(59_000);
    run_to_phase(&world, 50);
    for (name, bound) in [("few", json!({"below": 1})), ("many", json!({"above": 1}))] {
        let mut when = json!({"count_in": {"seconds": 60}});
        for (key, value) in bound.as_object().expect("an object") {
            when["count_in"][key] = value.clone();
        }
        put(&world, &client, name, &alert("counter", "steady", &when));
    }
    run_to_phase(&world, 450);
    let begun_ms = world.now_ms();
    for minute in 1..40 {
        add(&world, &client, "steady", 1);
        let wait_ms = begun_ms + minute * 60_000 - world.now_ms();
        world.run_for_ms(wait_ms.unsigned_abs());
    }
    assert_eq!(receiver.states(), [""; 0], "{:?}", receiver.got());
}
