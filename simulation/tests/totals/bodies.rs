//! What a bulk body has counted is in every list, sum and top that is asked for after its answer.

use super::{client, get, service};
use serde_json::{Value, json};
use tally_simulation::{Client, ClientRequest, Faults, Options, World};
use tally_wire::names::{DIRECTORY_PARTITIONS, SUBREQUESTS, TABLET_COUNT};

/// The counters of a body.
const COUNTERS: usize = 9;

fn id(counter: usize) -> String {
    format!("docs/{counter}")
}

/// A body that adds `counter + 1` to each counter, each with an element of its own.
fn body(path: &str, round: usize) -> ClientRequest {
    let line = |counter: usize| {
        let (id, delta) = (id(counter), counter + 1);
        json!({ "id": id, "delta": delta, "unique": format!("{round}-{counter}") })
    };
    let lines = (0..COUNTERS).map(|counter| format!("{}\n", line(counter)));
    ClientRequest::new("POST", path).body(lines.collect::<String>())
}

fn send(world: &World, client: &Client, ask: ClientRequest) {
    let answer = world.run(client.ask(ask)).expect("no fault");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["rejected"], 0, "{}", answer.text());
}

/// Holds a list, a sum and tops against `rounds` bodies.
fn check(world: &World, client: &Client, rounds: usize, what: &str) {
    let rounds = u64::try_from(rounds).expect("it is small");
    let value_of = |counter: usize| (u64::try_from(counter).expect("it is small") + 1) * rounds;
    let total: u64 = (0..COUNTERS).map(value_of).sum();

    let list = get(world, client, "/counters?prefix=docs%2F&values=1");
    let rows = list["entries"].as_array().expect("rows");
    let listed = |row: &Value| (row["id"].clone(), row["value"].clone());
    let listed: Vec<_> = rows.iter().map(listed).collect();
    let expected = (0..COUNTERS).map(|counter| (json!(id(counter)), json!(value_of(counter))));
    assert_eq!(listed, expected.collect::<Vec<_>>(), "{what}: {list}");

    for by in ["value", "count"] {
        let top = get(world, client, &format!("/top?prefix=docs%2F&by={by}"));
        assert_eq!(top["total"], total, "{what}, by {by}: {top}");
        let first = &top["entries"][0];
        let expected = (json!(id(COUNTERS - 1)), json!(value_of(COUNTERS - 1)));
        assert_eq!(
            (first["id"].clone(), first[by].clone()),
            expected,
            "{what}: {top}"
        );
    }
    let sum = get(world, client, "/counters/docs%2F*/aggregate");
    assert_eq!(sum["value"], total, "{what}: {sum}");
}

/// The places of leads: objects of their own, or tablets.
const TABLETS: [Option<&str>; 2] = [None, Some("3")];

fn one_edge(seed: u64, tablets: Option<&str>) -> (World, Client) {
    one_edge_with(seed, &[(TABLET_COUNT, tablets)])
}

fn one_edge_with(seed: u64, settings: &[(&str, Option<&str>)]) -> (World, Client) {
    let world = tally_simulation::deployed(seed, Options::default());
    for (name, value) in settings {
        world.set(name, *value);
    }
    let site = world.site("FRA", 1);
    let client = client(&world, site);
    (world, client)
}

#[test]
fn lists_sums_and_tops_contain_what_a_body_has_counted_before_them() {
    for (seed, tablets) in (0..).zip(TABLETS) {
        for key in [None, Some("k")] {
            let (world, client) = one_edge(seed, tablets);
            for round in 1..4 {
                let mut ask = body("/events", round);
                if let Some(key) = key {
                    ask = ask.header("idempotency-key", format!("{key}-{round}"));
                }
                send(&world, &client, ask);
                let what = format!("{tablets:?} tablets, key {key:?}, round {round}");
                check(&world, &client, round, &what);
                let top = get(&world, &client, "/top?prefix=docs%2F&by=uniques");
                let uniques = &top["entries"][0]["uniques"]["estimate"];
                assert_eq!(*uniques, round, "{what}: {top}");
            }
        }
    }
}

#[test]
fn watched_counters_are_reported_too() {
    for (seed, tablets) in (10..).zip(TABLETS) {
        let (world, sites) = service(seed, Options::default());
        world.set(TABLET_COUNT, tablets);
        let clients = sites.map(|site| client(&world, site));
        // Readers far away make leads push to the memory of the root.
        for number in 1..3 {
            for client in &clients {
                send(&world, client, body("/events", number));
            }
            for _ in 0..8 {
                for counter in 0..COUNTERS {
                    let path = format!("/counters/docs%2F{counter}");
                    for client in &clients {
                        get(&world, client, &path);
                    }
                }
                world.run_for_ms(500);
            }
            for client in &clients {
                send(&world, client, body("/events", number + 10));
            }
        }
        world.run_for_ms(1_500);
        for client in &clients {
            send(&world, client, body("/events", 1));
        }
        let top = get(&world, &clients[1], "/top?prefix=docs%2F");
        assert_eq!(top["total"], 10 * 45, "{tablets:?} tablets: {top}");
    }
}

#[test]
fn an_import_is_in_lists_and_tops_at_once() {
    for (seed, tablets) in (20..).zip(TABLETS) {
        let (world, client) = one_edge(seed, tablets);
        send(&world, &client, body("/events", 1));
        let export = world.run(client.get("/export")).expect("no fault");
        assert_eq!(export.status, 200, "{}", export.text());
        let (other, to) = one_edge(seed + 100, tablets);
        let ask = ClientRequest::new("POST", "/import").body(export.body);
        send(&other, &to, ask);
        check(&other, &to, 1, &format!("import, {tablets:?} tablets"));
    }
}

#[test]
fn a_top_says_how_old_it_is_when_a_report_is_lost() {
    for seed in 30..38 {
        let (world, client) = one_edge(seed, TABLETS[usize::from(seed % 2 == 0)]);
        let mut counted = 0;
        for round in 1..6 {
            world.set_faults(Faults::SOME);
            let answer = world.run(client.ask(body("/events", round))).ok();
            world.set_faults(Faults::NONE);
            let answered_ms = world.now_ms();
            let Some(answer) = answer.filter(|answer| answer.status == 200) else {
                return;
            };
            if answer.json()["rejected"] != 0 {
                return;
            }
            counted += 45;
            let top = get(&world, &client, "/top?prefix=docs%2F");
            let is_complete = top["total"].as_i64().expect("a number") >= counted;
            let is_older = top["as_of"].as_i64().expect("a number") < answered_ms;
            assert!(is_complete || is_older, "seed {seed}, round {round}: {top}");
        }
    }
}

/// A body that adds 1 to each of this many counters.
fn body_of(counters: u64) -> ClientRequest {
    let line = |counter: u64| format!("{}\n", json!({ "id": format!("docs/{counter}") }));
    ClientRequest::new("POST", "/events").body((0..counters).map(line).collect::<String>())
}

/// The messages with this path that a body causes until its answer.
fn messages_of(world: &World, path: &str, run: impl FnOnce()) -> u64 {
    let sent = || {
        let messages = world.figures().messages;
        let own = messages.iter().filter(|(of, _)| of.ends_with(path));
        own.map(|(_, count)| count).sum::<u64>()
    };
    let before = sent();
    run();
    sent() - before
}

#[test]
fn a_body_is_reported_by_one_message_a_partition_or_by_one_a_lead_with_an_object() {
    const MANY: u64 = 320;
    let partitions = DIRECTORY_PARTITIONS.to_string();
    for (seed, tablets) in (40..).zip([None, Some(partitions.as_str())]) {
        let (world, client) = one_edge(seed, tablets);
        send(&world, &client, body_of(MANY));
        world.run_for_ms(20_000);
        // All counters are known now, so nothing but flushes and reports is sent.
        let paths = ["/flush", "/report-lead", "/push", "/batch"];
        let sent =
            paths.map(|path| messages_of(&world, path, || send(&world, &client, body_of(MANY))));
        let most = match tablets {
            None => [MANY, MANY, MANY, 0],
            // A tablet has leads of one partition: it gets its flushes and its question, and sends its pushes.
            Some(_) => [0, 0, 0, 3 * u64::from(DIRECTORY_PARTITIONS)],
        };
        assert_eq!(sent, most, "{tablets:?} tablets, {paths:?}");
    }
}

#[test]
fn counters_without_a_call_for_their_report_are_in_tops_some_seconds_later() {
    // Of 1,000 calls a body gets 400: 250 flushes, and 150 of 250 reports.
    const MANY: u64 = 250;
    let settings = [(TABLET_COUNT, None), (SUBREQUESTS, Some("1000"))];
    let (world, client) = one_edge_with(50, &settings);
    for round in 1..3 {
        send(&world, &client, body_of(MANY));
        let answered_ms = world.now_ms();
        let top = get(&world, &client, "/top?prefix=docs%2F");
        let total = top["total"].as_u64().expect("a number");
        assert_eq!(total, MANY * (round - 1) + 150, "round {round}: {top}");
        let as_of_ms = top["as_of"].as_i64().expect("a time");
        assert!(as_of_ms < answered_ms, "round {round}: {top}");
        world.run_for_ms(super::PROPAGATION_MS);
        let top = get(&world, &client, "/top?prefix=docs%2F");
        assert_eq!(top["total"], MANY * round, "round {round}: {top}");
    }
}
