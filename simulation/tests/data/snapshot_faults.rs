//! Snapshots and restores while everything goes wrong: crashes in the middle of them, files that fail, messages that
//! get lost.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::future::{Either, select};
use serde_json::{Value, json};
use tally_simulation::{ClientRequest, Faults};

use super::service::Service;

const DAY_MS: u64 = 86_400_000;
const COUNTERS: usize = 6;
const WRITES: u64 = 60;

/// A write that was acknowledged: when it began, and when its client had the answer.
struct Write {
    begun_ms: i64,
    acknowledged_ms: i64,
}

type Log = BTreeMap<usize, Vec<Write>>;

fn increment(service: &Service, log: &mut Log, key: u64) {
    let chance = service.world.chance();
    let counter = chance.pick(COUNTERS);
    let path = format!("/counters/page%2F{counter}/increment");
    let begun_ms = service.world.now_ms();
    let answer = service.ask(
        chance.pick(2),
        "POST",
        &path,
        r#"{"delta":1}"#,
        Some(&key.to_string()),
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    let acknowledged_ms = service.world.now_ms();
    log.entry(counter).or_default().push(Write {
        begun_ms,
        acknowledged_ms,
    });
}

/// Asks for something, and lets everything crash after a while, whether it was answered or not.
fn ask_and_crash(service: &Service, path: &str, body: &str, key: &str) {
    let world = &service.world;
    let request = ClientRequest::new("POST", path)
        .header("idempotency-key", key)
        .body(body.as_bytes().to_vec());
    let client = service.clients[0].clone();
    let pending = pin!(client.ask(request));
    let over = pin!(world.sleep_ms(world.chance().between(1, 3_000)));
    world.run(async move {
        match select(pending, over).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    });
    if world.chance().once_in(2) {
        world.restart(world.chance().between(1, 2_000));
    }
}

fn days_of(service: &Service, counter: usize) -> Vec<Value> {
    let to = service.well(0, "GET", "/snapshots", "")["entries"][0]["date"].clone();
    let path = format!(
        "/counters/page%2F{counter}?on=2026-01-01..{}",
        to.as_str().expect("a day")
    );
    let answer = service.well(0, "GET", &path, "");
    answer["days"].as_array().expect("days").clone()
}

/// Each value is true of some moment between those that it names.
fn check_days(seed: u64, service: &Service, log: &Log) -> usize {
    let mut checked = 0;
    for (counter, writes) in log {
        for day in days_of(service, *counter) {
            let (Some(value), Some(as_of), Some(taken)) = (
                day["value"].as_i64(),
                day["as_of"].as_i64(),
                day["taken_at"].as_i64(),
            ) else {
                continue;
            };
            let least = writes
                .iter()
                .filter(|write| write.acknowledged_ms < as_of)
                .count();
            let most = writes
                .iter()
                .filter(|write| write.begun_ms <= taken)
                .count();
            let value = usize::try_from(value).expect("it was never set");
            assert!(
                (least..=most).contains(&value),
                "seed {seed}, counter {counter}: {least} to {most} in {day}"
            );
            checked += 1;
        }
    }
    checked
}

fn strong(service: &Service, counter: usize) -> Value {
    let path = format!("/counters/page%2F{counter}?consistency=strong");
    service.ask(1, "GET", &path, "", None).json()["value"].clone()
}

fn calm(service: &Service) {
    service.world.set_faults(Faults::NONE);
    service.world.heal();
    service.world.run_for_ms(180_000);
}

/// The values of the newest snapshot, and its day.
fn newest(service: &Service) -> (String, BTreeMap<String, Value>) {
    let date = service.well(0, "GET", "/snapshots", "")["entries"][0]["date"].clone();
    let date = date.as_str().expect("a day").to_owned();
    let list = service.well(0, "GET", &format!("/counters?on={date}&limit=1000"), "");
    let rows = list["entries"].as_array().expect("counters").iter();
    let row = |row: &Value| {
        let id = row["id"].as_str().expect("a name").to_owned();
        (id, row["value"].clone())
    };
    (date, rows.map(row).collect())
}

/// Each counter that a snapshot has is as it was then, and this much more.
fn check_restored(seed: u64, service: &Service, then: &BTreeMap<String, Value>, more: i64) {
    for counter in 0..COUNTERS {
        let id = format!("page/{counter}");
        if let Some(value) = then.get(&id) {
            let value = json!(value.as_i64().expect("a number") + more);
            assert_eq!(strong(service, counter), value, "seed {seed}: {id}");
        }
    }
}

fn run(seed: u64) {
    let service = Service::with_bucket(seed, (seed % 2 == 1).then_some(3));
    let world = &service.world;
    world.set_faults(Faults::SOME);
    let mut log = Log::new();
    for write in 0..WRITES {
        increment(&service, &mut log, write);
        match world.chance().below(8) {
            0 => ask_and_crash(&service, "/snapshots", "", &format!("make {write}")),
            1 => world.restart(world.chance().between(1, 5_000)),
            2 => world.run_for_ms(world.chance().between(1, DAY_MS / 3)),
            _ => world.run_for_ms(world.chance().between(1, 20_000)),
        }
    }
    calm(&service);
    service.well(0, "POST", "/snapshots", "");
    world.run_for_ms(60_000);
    assert!(
        check_days(seed, &service, &log) > 0,
        "seed {seed}: nothing was told"
    );

    // A restore of the newest day, after which more was counted.
    let (date, then) = newest(&service);
    for write in 0..10 {
        increment(&service, &mut log, 1_000 + write);
    }
    service.well(0, "DELETE", "/counters/page%2F0", "");
    service.well(0, "PUT", "/counters/page%2Fnew/value", r#"{"value":3}"#);
    let path = format!("/snapshots/{date}/restore");
    let body = json!({"prefix": "page/", "mode": "replace"}).to_string();
    world.set_faults(Faults::SOME);
    for _ in 0..4 {
        ask_and_crash(&service, &path, &body, "once");
    }
    // Those that were refused meanwhile are brought back by a repeated call.
    while service.ask(0, "POST", &path, &body, Some("once")).json()["rejected"] != 0 {
        world.run_for_ms(1_000);
    }
    calm(&service);
    check_restored(seed, &service, &then, 0);
    let read = service.well(0, "GET", "/counters/page%2Fnew?consistency=strong", "");
    assert_eq!(
        read["value"], 3,
        "seed {seed}: what the snapshot does not have stays"
    );

    // Twice is once: what was counted since stays.
    for counter in 0..COUNTERS {
        let path = format!("/counters/page%2F{counter}/increment");
        service.well(0, "POST", &path, r#"{"delta":5}"#);
    }
    service.ask(0, "POST", &path, &body, Some("once"));
    check_restored(seed, &service, &then, 5);
}

#[test]
fn values_of_days_are_true_and_restores_do_what_they_say_while_everything_goes_wrong() {
    match std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        Some(seed) => run(seed),
        None => (0..6).for_each(run),
    }
}
