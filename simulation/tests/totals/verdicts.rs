//! What checks of stored policies came to, against what clients were told.

use std::collections::BTreeMap;

use super::{PROPAGATION_MS, client, get, rows_of, service};
use serde_json::{Value, json};
use tally_core::counter::id::Datacenter;
use tally_host::object::SqlValue;
use tally_simulation::{Client, ClientRequest, Options, Role, World};
use tally_wire::names;
use tally_wire::names::policy::PolicyName;
use tally_wire::names::{CellAddress, VerdictKind};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: u64 = 86_400_000;

/// By when every isolate has sent what it held.
const SENT_MS: u64 = 16_000;

fn put(world: &World, client: &Client, policy: &str, json: &str) {
    let ask = ClientRequest::new("PUT", format!("/limits/{policy}")).json(json);
    let answer = world.run(client.ask(ask)).expect("no fault");
    assert!(answer.status < 300, "{}", answer.text());
}

/// Checks, and returns the verdict.
fn check(world: &World, client: &Client, policy: &str, key: &str) -> bool {
    let path = format!("/limits/{policy}/{key}");
    let answer = world.run(client.post(&path, "")).expect("no fault");
    assert!([200, 429].contains(&answer.status), "{}", answer.text());
    answer.json()["allowed"] == true
}

/// What the policy `p` did: its `history`, or its `refused` keys.
fn verdicts(world: &World, client: &Client, include: &str) -> Value {
    let path = format!("/limits/p?include={include}&consistency=strong");
    get(world, client, &path)[include].take()
}

fn sums(answer: &Value) -> (u64, u64, u64) {
    let of = |name: &str| answer[name].as_u64().expect("a number");
    (of("allowed"), of("refused"), of("error"))
}

/// The minutes in which a history of a policy has verdicts: allowed and refused.
fn minutes_of(answer: &Value) -> BTreeMap<i64, (u64, u64)> {
    let mut points = BTreeMap::new();
    for point in answer["points"].as_array().expect("points") {
        let of = |place: usize| point[place].as_u64().expect("a number");
        assert_eq!(of(3), 0, "{answer}");
        if of(1) + of(2) > 0 {
            points.insert(of(0).cast_signed() / 1_000, (of(1), of(2)));
        }
    }
    points
}

#[test]
fn the_minutes_of_a_policy_hold_the_verdicts_that_were_given() {
    let (world, sites) = service(31, Options::default());
    let clients = sites.map(|site| client(&world, site));
    for (policy, limit) in [
        ("few", r#"{"limit":3,"window_seconds":5}"#),
        ("hot", r#"{"limit":1000,"window_seconds":60}"#),
    ] {
        put(&world, &clients[0], policy, limit);
    }
    let begin_ms = world.now_ms();
    let mut given: BTreeMap<(&str, i64), (u64, u64)> = BTreeMap::new();
    let mut refused: BTreeMap<String, i64> = BTreeMap::new();
    let chance = world.chance();
    for _ in 0..400 {
        // Not where a minute ends: a check takes a moment.
        if world.now_ms().rem_euclid(MINUTE_MS) > MINUTE_MS - 2_000 {
            world.run_for_ms(3_000);
        }
        let minute = world.now_ms().div_euclid(MINUTE_MS) * 60;
        let policy = if chance.once_in(3) { "hot" } else { "few" };
        let key = format!("k{}", chance.below(2));
        let is_allowed = check(&world, &clients[chance.pick(2)], policy, &key);
        let (allowed, other) = given.entry((policy, minute)).or_default();
        match is_allowed {
            true => *allowed += 1,
            false => {
                *other += 1;
                *refused.entry(key).or_default() += 1;
            }
        }
        world.run_for_ms(chance.below(1_500));
    }
    world.run_for_ms(SENT_MS);
    assert!(refused.len() == 2, "seed 31 refuses both keys: {refused:?}");
    let from = begin_ms.div_euclid(1_000);
    for policy in ["few", "hot"] {
        let path =
            format!("/limits/{policy}?include=history&from={from}&step=1m&consistency=strong");
        let answer = get(&world, &clients[0], &path)["history"].take();
        let points = minutes_of(&answer);
        let plain = given.iter().filter(|((name, _), _)| *name == policy);
        let plain: BTreeMap<i64, (u64, u64)> = plain
            .map(|((_, minute), counts)| (*minute, *counts))
            .collect();
        assert_eq!(points, plain, "{answer}");
        let all = plain.values().fold((0, 0, 0), |sum, counts| {
            (sum.0 + counts.0, sum.1 + counts.1, 0)
        });
        assert_eq!(sums(&answer), all, "{answer}");
        assert_eq!(
            (&answer["exact"], &answer["step"]),
            (&json!(false), &json!("1m"))
        );
    }
    let answer = get(
        &world,
        &clients[1],
        "/limits/few?include=refused&consistency=strong",
    )["refused"]
        .take();
    let mut rows: Vec<(String, i64)> = refused.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    assert_eq!(rows_of(&answer, "key"), rows, "{answer}");
    let sum: i64 = rows.iter().map(|(_, count)| count).sum();
    assert_eq!(
        (&answer["total"], &answer["none"]),
        (&json!(sum), &json!(0)),
        "{answer}"
    );
}

#[test]
fn an_isolate_that_ends_takes_no_more_than_it_had_not_sent() {
    let (world, sites) = service(32, Options::default());
    let client = client(&world, sites[0]);
    put(&world, &client, "p", r#"{"limit":5,"window_seconds":60}"#);
    let mut given = 0;
    let mut sent = 0;
    for round in 0..30 {
        check(&world, &client, "p", "k");
        given += 1;
        if round % 7 == 3 {
            world.crash_isolates(Role::Edge, sites[0]);
        }
        if round % 10 == 8 {
            world.run_for_ms(SENT_MS);
            let answer = verdicts(&world, &client, "history");
            let (allowed, refused, error) = sums(&answer);
            let all = allowed + refused + error;
            assert!((sent..=given).contains(&all), "{all} of {given}: {answer}");
            sent = all;
        }
    }
    world.run_for_ms(SENT_MS);
    let before = sent;
    for _ in 0..4 {
        check(&world, &client, "p", "k");
    }
    world.run_for_ms(SENT_MS);
    world.crash_isolates(Role::Edge, sites[0]);
    let answer = verdicts(&world, &client, "history");
    let (allowed, refused, error) = sums(&answer);
    assert!(allowed + refused + error >= before + 4, "{answer}");
}

#[test]
fn the_counters_of_a_policy_are_in_no_list_and_end_with_it() {
    let (world, sites) = service(33, Options::default());
    let client = client(&world, sites[0]);
    put(&world, &client, "p", r#"{"limit":1,"window_seconds":60}"#);
    world
        .run(client.post("/counters/own/increment", ""))
        .expect("no fault");
    for _ in 0..3 {
        check(&world, &client, "p", "k");
    }
    let inline =
        ClientRequest::new("POST", "/limits/p/k").json(r#"{"limit":1,"window_seconds":60}"#);
    world.run(client.ask(inline)).expect("no fault");
    world.run_for_ms(PROPAGATION_MS);
    let body = verdicts(&world, &client, "history");
    assert_eq!(sums(&body), (1, 2, 0), "{body}");
    let list = get(&world, &client, "/counters?values=1");
    assert_eq!(list["entries"].as_array().map(Vec::len), Some(1), "{list}");
    // Nor behind a cursor that is before all names that clients may give.
    for cursor in ["", "%01", "%01limits"] {
        let path = format!("/counters?values=1&cursor={cursor}");
        let list = get(&world, &client, &path);
        assert_eq!(list["entries"].as_array().map(Vec::len), Some(1), "{list}");
        let path = format!("/export?cursor=counters%2F{cursor}");
        let export = world.run(client.get(&path)).expect("no fault").text();
        assert!(
            export.contains("own") && !export.contains("limits"),
            "{export}"
        );
    }
    for path in ["/top", "/top?by=count&window=today", "/top?id=own"] {
        let top = get(&world, &client, path);
        assert_eq!(
            (&top["counters"], &top["total"]),
            (&json!(1), &json!(1)),
            "{path}: {top}"
        );
    }
    for path in ["/counters/*/aggregate", "/counters/*/aggregate/history"] {
        assert_eq!(get(&world, &client, path)["counters"], 1);
    }
    for (method, path) in [
        ("GET", "/counters/%01limits%2Fp%2Frefused"),
        ("POST", "/counters/%01limits%2Fp%2Fallowed/increment"),
    ] {
        let answer = world.run(client.ask(ClientRequest::new(method, path)));
        assert_eq!(answer.expect("no fault").status, 400, "{path}");
    }
    // Another isolate goes by the policy that it knows for a while.
    let at = |method: &str, path: &str| {
        let ask = ClientRequest::new(method, path).at(0);
        world.run(client.ask(ask)).expect("no fault")
    };
    assert_eq!(at("DELETE", "/limits/p").status, 200);
    let history = at("GET", "/limits/p?include=history");
    assert_eq!(
        history.json()["code"],
        "policy-not-found",
        "{}",
        history.text()
    );
    put(&world, &client, "p", r#"{"limit":1,"window_seconds":60}"#);
    world.run_for_ms(SENT_MS);
    let body = verdicts(&world, &client, "history");
    assert_eq!(sums(&body), (0, 0, 0), "{body}");
    let body = verdicts(&world, &client, "refused");
    assert_eq!(body["rows"], json!([]), "{body}");
}

#[test]
fn refused_keys_are_kept_without_addresses_and_for_a_week() {
    let (world, sites) = service(34, Options::default());
    let client = client(&world, sites[0]);
    put(&world, &client, "p", r#"{"limit":1,"window_seconds":60}"#);
    for key in [
        "ip:203.0.113.9",
        "ip:203.0.113.77",
        "2001:db8:1:2::3",
        "bob",
    ] {
        for _ in 0..3 {
            check(&world, &client, "p", key);
        }
    }
    let keys = |query: &str| {
        let answer = get(
            &world,
            &client,
            &format!("/limits/p?include=refused&consistency=strong{query}"),
        )["refused"]
            .take();
        let rows = answer["rows"].as_array().expect("rows").clone();
        let of = |row: &Value| {
            (
                row["key"].as_str().expect("a text").to_owned(),
                row["count"].clone(),
            )
        };
        rows.iter().map(of).collect::<BTreeMap<_, _>>()
    };
    let all = BTreeMap::from(
        [("ip:203.0.113.0/24", 4), ("2001:db8:1::/48", 2), ("bob", 2)]
            .map(|(key, count)| (key.to_owned(), json!(count))),
    );
    world.run_for_ms(SENT_MS);
    assert_eq!(keys(""), all);
    let policy = PolicyName::parse("p").expect("a name");
    let refused = names::verdicts(&policy, VerdictKind::Refused).expect("an id");
    let fra = Datacenter::parse("FRA").expect("a datacenter");
    let cell = names::cell(&CellAddress::lead(&refused, &fra));
    let is_stored = |text: &str| {
        let rows = world.look(&cell, "SELECT body FROM rows").expect("rows");
        rows.iter().flatten().any(|value| match value {
            SqlValue::Blob(bytes) => bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes()),
            _ => false,
        })
    };
    assert!(is_stored("bob") && !is_stored("203.0.113.9"));
    world.run_for_ms(6 * DAY_MS);
    assert_eq!((keys("&window=7d"), keys("").len()), (all, 0));
    assert!(is_stored("bob"));
    // No check is made or refused meanwhile.
    world.run_for_ms(2 * DAY_MS + DAY_MS / 24);
    assert!(!is_stored("bob"));
    let answer = get(
        &world,
        &client,
        "/limits/p?include=history&window=30d&consistency=strong",
    )["history"]
        .take();
    assert_eq!(answer["refused"], 8, "how many is kept: {answer}");
}
