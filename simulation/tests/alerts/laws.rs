//! Laws of alerts in worlds where everything goes wrong: objects crash at any await, messages and answers get lost
//! and come twice, storage goes out, receivers fail.

use std::collections::BTreeMap;

use super::*;
use tally_simulation::Faults;

/// Worlds that every run looks at. `SEEDS` asks for another number.
const SEEDS: u64 = 6;

fn set(world: &World, client: &Client, counter: &str, value: u64) {
    let path = format!("/counters/{counter}/value");
    done(world, client, "PUT", &path, &json!({"value": value}));
}

/// What a receiver must see of one alert: each incident fires before it is resolved, one after the other, each
/// delivery under one id.
fn check(seed: u64, name: &str, got: &[Got]) {
    let mut seen: Vec<&Got> = Vec::new();
    for one in got {
        // A repeat has the id of what came before, and says the same but for when it was sent.
        match seen.iter().find(|known| known.id == one.id) {
            Some(known) => {
                let but_time = |got: &Got| {
                    let mut json = got.json.clone();
                    json["sent_at"] = Value::Null;
                    json
                };
                assert_eq!(but_time(known), but_time(one), "seed {seed}");
            }
            None => seen.push(one),
        }
    }
    let mut open: Option<&str> = None;
    for one in seen {
        match (open, one.state()) {
            (None, "firing") => open = Some(one.incident()),
            (Some(incident), "resolved") if incident == one.incident() => open = None,
            other => panic!(
                "seed {seed}, {name}: {other:?} of {}: {got:#?}",
                one.incident()
            ),
        }
    }
}

fn write_under_faults(world: &World, client: &Client) {
    world.set_faults(Faults::SOME);
    for round in 0..8 {
        for number in 0..3 {
            let step = if (round + number) % 2 == 0 { 20 } else { 0 };
            let path = format!("/counters/c{number}/value");
            let request = ClientRequest::new("PUT", path).json(json!({"value": step}).to_string());
            world.run(client.ask(request)).ok();
        }
        world.run_for_ms(40_000 + world.chance().below(100_000));
    }
    world.set_faults(Faults::NONE);
}

/// Checks the answers about an alert at rest against what its receiver got.
fn check_rest(seed: u64, world: &World, client: &Client, name: &str, got: &[Got]) {
    let answer = get(world, client, &format!("/alerts/{name}"));
    let expected = if ["a1", "sum"].contains(&name) {
        "firing"
    } else {
        "ok"
    };
    assert_eq!(answer["state"], expected, "seed {seed}: {answer}");
    let last = got.last().map_or("resolved", Got::state);
    assert_eq!(
        last == "firing",
        expected == "firing",
        "seed {seed}, {name}: {answer}"
    );
    let answer = get(world, client, &format!("/alerts/{name}/deliveries"));
    let kept = answer["entries"].as_array().expect("a list");
    assert!(
        kept.iter().all(|one| one["outcome"] == "delivered"),
        "seed {seed}: {answer}"
    );
    // What the answer calls delivered has arrived.
    for one in kept {
        let id = one["id"].as_str().expect("an id");
        assert!(got.iter().any(|got| got.id == id), "seed {seed}: {id}");
    }
}

fn world_of(seed: u64) {
    let options = Options {
        skew_ms_max: 2_000,
        ..Options::default()
    };
    let world = deployed(seed, options);
    let site = world.site("FRA", 2);
    let client = admin(&world, site);
    let receiver = Receiver::of(&world);
    for number in 0..3 {
        let mut settings = alert(
            "counter",
            &format!("c{number}"),
            &json!({"value": {"above": 10}}),
        );
        settings["for_seconds"] = (number * 30).into();
        put(&world, &client, &format!("a{number}"), &settings);
        add(&world, &client, &format!("c{number}"), 1);
    }
    put(
        &world,
        &client,
        "sum",
        &alert("prefix", "c", &json!({"value": {"above": 40}})),
    );
    let chance = world.chance().bits();
    let draws = Rc::new(Cell::new(chance));
    receiver.answer(move |_| {
        draws.set(
            draws
                .get()
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        );
        let status = match draws.get() >> 61 {
            0 => 500,
            1 => 302,
            _ => 200,
        };
        Box::pin(async move { Ok(status) })
    });
    write_under_faults(&world, &client);
    receiver.answer_status(200);
    for number in 0..3 {
        let value = if number == 1 { 50 } else { 1 };
        set(&world, &client, &format!("c{number}"), value);
    }
    world.run_for_ms(1_800_000);
    let mut of: BTreeMap<String, Vec<Got>> = BTreeMap::new();
    for got in receiver.got() {
        let name = got.json["alert"].as_str().expect("a name").to_owned();
        of.entry(name).or_default().push(got);
    }
    for (name, got) in &of {
        check(seed, name, got);
    }
    for name in ["a0", "a1", "a2", "sum"] {
        let got = of.get(name).map_or(&[][..], Vec::as_slice);
        check_rest(seed, &world, &client, name, got);
    }
}

#[test]
fn a_receiver_is_told_each_incident_at_least_once_and_in_order() {
    let seeds = std::env::var("SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let first: u64 = std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    for seed in first..first + seeds.unwrap_or(SEEDS) {
        world_of(seed);
    }
}

/// An object that crashes after every so many polls, so that each await of an evaluation and a delivery is met by some.
#[test]
fn a_crash_at_any_await_loses_nothing() {
    let mut crashes = 0;
    for seed in 0..20 {
        let (world, _, client, receiver) = service(1_000 + seed);
        put(
            &world,
            &client,
            "a",
            &alert("counter", "c", &json!({"value": {"above": 10}})),
        );
        world.set_faults(Faults {
            crashes_object_once_in: 3 + seed % 20,
            ..Faults::NONE
        });
        for value in [20, 1, 20, 1] {
            world.set_faults(Faults::NONE);
            set(&world, &client, "c", value);
            world.set_faults(Faults {
                crashes_object_once_in: 3 + seed % 20,
                ..Faults::NONE
            });
            world.run_for_ms(150_000);
        }
        world.set_faults(Faults::NONE);
        set(&world, &client, "c", 30);
        world.run_for_ms(900_000);
        let got = receiver.got();
        check(seed, "a", &got);
        assert_eq!(got.last().map(Got::state), Some("firing"), "seed {seed}");
        crashes += world.figures().crashes;
    }
    assert!(crashes > 200, "{crashes} crashes");
}

#[test]
fn an_alert_is_measured_by_nobody_else_meanwhile() {
    let (world, _, client, _) = service(2_000);
    add(&world, &client, "c", 1);
    for number in 0..3 {
        put(
            &world,
            &client,
            &format!("a{number}"),
            &alert("counter", "c", &json!({"value": {"above": 10}})),
        );
    }
    world.run_for_ms(5_000);
    let view_counts = Rc::new(RefCell::new(BTreeMap::<i64, u32>::new()));
    let (known, clock) = (view_counts.clone(), world.clock());
    world.set_judge(move |judged| {
        if judged.path == "/view" {
            *known.borrow_mut().entry(clock() / 60_000).or_default() += 1;
        }
        Box::pin(async { tally_simulation::Verdict::Answered })
    });
    world.run_for_ms(30 * 60_000);
    let view_counts = view_counts.borrow();
    let all: u32 = view_counts.values().sum();
    // Three alerts, once a minute each.
    assert!((84..=93).contains(&all), "{view_counts:?}");
}
