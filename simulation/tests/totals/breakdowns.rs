//! What an answer says of values that it does not list.

use std::collections::BTreeMap;

use super::{client, get, service};
use tally_simulation::{Client, ClientRequest, Options, World};

const SEED: u64 = 61;
const COUNTERS: u64 = 2;
const VALUES: u64 = 4_000;
const LINES: u64 = 4_000;
const BODIES: u64 = 4;
const DAY_SECONDS: i64 = 86_400;

/// A line of a log that says a value.
struct Line {
    counter: u64,
    value: u64,
    count: u64,
    /// Unix second.
    at: i64,
}

/// Lines of the last 20 days, half of them of today. A few values are frequent, thousands are not.
fn lines(world: &World) -> Vec<Line> {
    let chance = world.chance();
    let now = world.now_ms() / 1_000 - 1;
    let draw = |_| {
        let age = match chance.once_in(2) {
            true => chance.below(3_600).cast_signed(),
            false => chance.below(20).cast_signed() * DAY_SECONDS,
        };
        Line {
            counter: chance.below(COUNTERS),
            value: chance.below(chance.below(VALUES) + 1),
            count: chance.below(9) + 1,
            at: now - age,
        }
    };
    (0..BODIES * LINES).map(draw).collect()
}

fn write(world: &World, clients: &[Client; 2], lines: &[Line]) {
    for counter in 0..COUNTERS {
        let settings = ClientRequest::new("PUT", format!("/counters/site%2F{counter}"))
            .json(r#"{"shards":4}"#);
        let put = world.run(clients[0].ask(settings)).expect("no fault");
        assert!(put.status < 300, "{}", put.text());
    }
    for (number, body) in lines.chunks(500).enumerate() {
        let body: Vec<String> = body
            .iter()
            .map(|line| {
                let (key, at) = (line.counter, line.at);
                let (count, value) = (line.count, line.value);
                format!(
                    r#"{{"id":"site/{key}","delta":{count},"at":{at},"by":{{"page":"{value}"}}}}"#
                )
            })
            .collect();
        let sent = ClientRequest::new("POST", "/ingest?format=ndjson").at(number / 2 % 2);
        let sent = sent.json(body.join("\n"));
        let report = world.run(clients[number % 2].ask(sent)).expect("no fault");
        assert_eq!(report.json()["accepted"], body.len(), "{}", report.text());
    }
}

/// Checks an answer against what was written. Returns whether values were left out that no cell knows by name.
fn check(answer: &serde_json::Value, truth: &BTreeMap<String, u64>) -> bool {
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let mut hidden = truth.clone();
    for row in answer["rows"].as_array().expect("rows") {
        let value = row["value"].as_str().expect("a value");
        let count = hidden.remove(value).expect("a value that was written");
        let least = number(&row["count"]);
        let most = least + row.get("error").map_or(0, number);
        assert!((least..=most).contains(&count), "{value}: {count}, {row}");
    }
    let other = &answer["other"];
    let largest = hidden.values().max().copied().unwrap_or(0);
    assert!(largest <= number(&other["each_max"]), "{largest}: {other}");
    assert!(largest <= number(&other["count"]), "{largest}: {other}");
    let is_known = answer["values"] == truth.len();
    // Where nothing is unknown, the bound is the truth.
    if is_known {
        assert_eq!(largest, number(&other["each_max"]), "{other}");
    }
    !is_known
}

#[test]
fn no_value_that_an_answer_leaves_out_has_more_than_it_says() {
    let (world, sites) = service(SEED, Options::default());
    let clients = sites.map(|site| client(&world, site));
    let lines = lines(&world);
    write(&world, &clients, &lines);
    let mut cuts = [0; 2];
    let newest = lines.iter().map(|line| line.at).max().expect("lines");
    let old = newest - newest.rem_euclid(DAY_SECONDS) - 5 * DAY_SECONDS;
    // Of one day every value is known.
    let one_day = format!("&from={old}&to={}", old + DAY_SECONDS - 1);
    for (subject, counter) in [
        ("site%2F0", Some(0)),
        ("site%2F1", Some(1)),
        ("site%2F*/aggregate", None),
    ] {
        for window in [
            "",
            "&window=3600",
            "&window=today",
            "&window=7d",
            "&window=30d",
            &one_day,
        ] {
            for limit in [1, 20, 1_000] {
                let query = format!("by=page&consistency=strong&limit={limit}{window}");
                let path = format!("/counters/{subject}/breakdown?{query}");
                let answer = get(&world, &clients[0], &path);
                let (from, to) = (
                    answer["window"]["starts_at"].as_i64(),
                    answer["window"]["ends_at"].as_i64(),
                );
                let mut truth = BTreeMap::new();
                for line in &lines {
                    let is_of_it = counter.is_none_or(|counter| counter == line.counter);
                    let is_within = from.is_none_or(|from| from <= line.at * 1_000)
                        && to.is_some_and(|to| line.at * 1_000 < to);
                    if is_of_it && is_within {
                        *truth.entry(line.value.to_string()).or_insert(0) += line.count;
                    }
                }
                let total: u64 = truth.values().sum();
                assert_eq!(answer["total"], total, "seed {SEED}: {path}");
                cuts[usize::from(check(&answer, &truth))] += 1;
            }
        }
    }
    assert!(cuts.iter().all(|cuts| *cuts > 0), "seed {SEED}: {cuts:?}");
}
