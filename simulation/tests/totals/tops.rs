//! Tops against plain sorting.

use super::{TOLD_MS, ask, client, forget_totals, get, service};
use tally::core::cluster::ring::Ring;
use tally::protocol::names::DIRECTORY_PARTITIONS;
use tally_simulation::{Client, Options, Verdict, World};

/// A counter as the tests know it: what was counted, and when.
#[derive(Clone, Default)]
struct Plain {
    value: i64,
    counts: Vec<(i64, i64)>,
    uniques: u64,
}

impl Plain {
    fn since(&self, from_ms: i64) -> i64 {
        let since = self.counts.iter().filter(|(at_ms, _)| *at_ms >= from_ms);
        since.map(|(_, count)| count).sum()
    }
}

/// What a top says by plain sorting: rank, name and amount of each, and the total.
fn sorted(
    counters: &[Plain],
    prefix: &str,
    limit: usize,
    amount: impl Fn(&Plain) -> i64,
    has_all: bool,
) -> (Vec<(u64, String, i64)>, i64, u64) {
    let named = (0..)
        .zip(counters)
        .map(|(number, counter): (u64, _)| (name(number), amount(counter)));
    let mut all: Vec<(String, i64)> = named
        .filter(|(id, amount)| id.starts_with(prefix) && (has_all || *amount > 0))
        .collect();
    all.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
    let total = all.iter().map(|(_, amount)| amount).sum();
    let count = u64::try_from(all.len()).expect("it is small");
    let rank = |amount: i64| {
        1 + u64::try_from(all.iter().filter(|(_, other)| *other > amount).count())
            .expect("it is small")
    };
    let rows = all
        .iter()
        .take(limit)
        .map(|(id, amount)| (rank(*amount), id.clone(), *amount))
        .collect();
    (rows, total, count)
}

fn name(number: u64) -> String {
    let folder = ["a/", "ab/", "b/"][usize::try_from(number % 3).expect("it is small")];
    format!("{folder}page-{number}")
}

/// The windows that are asked for, and when each begins, unix milliseconds.
fn windows(now_ms: i64) -> [(&'static str, Option<i64>); 6] {
    const HOUR_MS: i64 = 3_600_000;
    let hour_ms = now_ms - now_ms.rem_euclid(HOUR_MS);
    let day_ms = now_ms - now_ms.rem_euclid(24 * HOUR_MS);
    [
        ("", None),
        ("&window=3600", Some(hour_ms - HOUR_MS)),
        ("&window=86400", Some(hour_ms - 24 * HOUR_MS)),
        ("&window=today", Some(day_ms)),
        ("&window=7d", Some(day_ms - 6 * 24 * HOUR_MS)),
        ("&window=30d", Some(day_ms - 29 * 24 * HOUR_MS)),
    ]
}

/// Holds tops, and the ranks of some that are in them, against plain sorting.
fn check_tops(world: &World, client: &Client, counters: &[Plain], what: &str) {
    for (window, from_ms) in windows(world.now_ms()) {
        for by in ["value", "count", "uniques"] {
            if from_ms.is_some() && by != "count" {
                continue;
            }
            let amount = |counter: &Plain| match by {
                "value" => counter.value,
                "count" => counter.since(from_ms.unwrap_or(i64::MIN)),
                _ => i64::try_from(counter.uniques).expect("it is small"),
            };
            for prefix in ["", "a"] {
                let limit = if prefix == "a" { 7 } else { 100 };
                let what = format!("{what}, {by} {window} of {prefix:?}");
                let (rows, total, count) = sorted(counters, prefix, limit, amount, by == "value");
                let query = format!("prefix={}&by={by}{window}", prefix.replace('/', "%2F"));
                let top = get(world, client, &format!("/top?{query}&limit={limit}"));
                let number = |row: &serde_json::Value| match by {
                    "uniques" => row[by]["estimate"].as_i64().expect("a number"),
                    _ => row[by].as_i64().expect("a number"),
                };
                let told: Vec<(u64, String, i64)> = top["rows"]
                    .as_array()
                    .expect("rows")
                    .iter()
                    .map(|row| {
                        (
                            row["rank"].as_u64().expect("a number"),
                            row["id"].as_str().expect("a text").to_owned(),
                            number(row),
                        )
                    })
                    .collect();
                assert_eq!(told, rows, "{what}: {top}");
                assert_eq!(
                    (&top["total"], &top["counters"]),
                    (&total.into(), &count.into()),
                    "{what}: {top}"
                );
                assert_eq!(
                    (&top["exact"], top.get("missing_partitions")),
                    (&false.into(), None),
                    "{what}"
                );
                assert_eq!(
                    top["from"].as_i64(),
                    from_ms.map(|from_ms| from_ms / 1_000),
                    "{what}"
                );
                if let Some((rank, id, amount)) = rows.last() {
                    let path = format!("/counters/{}/rank?{query}", id.replace('/', "%2F"));
                    let told = get(world, client, &path);
                    assert_eq!(
                        (&told["rank"], number(&told)),
                        (&(*rank).into(), *amount),
                        "{what}: {told}"
                    );
                    assert_eq!(
                        told["share"],
                        top["rows"][rows.len() - 1]["share"],
                        "{what}: {told}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_top_is_a_sort_of_the_values_of_its_counters() {
    for seed in 0..2 {
        let (world, sites) = service(200 + seed, Options::default());
        let clients = sites.map(|site| client(&world, site));
        let chance = world.chance();
        let mut counters = vec![Plain::default(); 24];
        // All exist, so that a plain list of them is theirs.
        for number in 0..24 {
            let id = name(number).replace('/', "%2F");
            world
                .run(clients[0].post(&format!("/counters/{id}/increment"), ""))
                .expect("no fault");
            let counter = &mut counters[usize::try_from(number).expect("it is small")];
            (counter.value, counter.counts) = (1, vec![(world.now_ms(), 1)]);
        }
        for round in 0..6 {
            for _ in 0..25 {
                let number = chance.below(24).min(chance.below(24));
                let counter = &mut counters[usize::try_from(number).expect("it is small")];
                let path = format!("/counters/{}", name(number).replace('/', "%2F"));
                let amount = i64::try_from(chance.below(20)).expect("it is small") + 1;
                let client = &clients[chance.pick(2)];
                match chance.below(8) {
                    0 => {
                        let body = format!(r#"{{"value":{}}}"#, amount - 10);
                        let done = world.run(ask(client, "PUT", &format!("{path}/value"), &body));
                        done.expect("it is set");
                        counter.value = amount - 10;
                    }
                    1 => {
                        let body = format!(r#"{{"delta":{amount}}}"#);
                        let done =
                            world.run(ask(client, "POST", &format!("{path}/decrement"), &body));
                        done.expect("it is taken");
                        counter.value -= amount;
                    }
                    _ => {
                        let body = format!(
                            r#"{{"delta":{amount},"unique":"{}-{round}-{}"}}"#,
                            counter.uniques, seed
                        );
                        let done =
                            world.run(ask(client, "POST", &format!("{path}/increment"), &body));
                        done.expect("it is added");
                        counter.value += amount;
                        counter.uniques += 1;
                        counter.counts.push((world.now_ms(), amount));
                    }
                }
            }
            world.run_for_ms(TOLD_MS);
            check_tops(
                &world,
                &clients[0],
                &counters,
                &format!("seed {seed}, round {round}"),
            );
            // Some hours, some days, and once more than all that is kept.
            world.run_for_ms([2, 7, 30, 100, 800, 20][round] * 3_600_000);
            check_tops(
                &world,
                &clients[1],
                &counters,
                &format!("seed {seed}, after round {round}"),
            );
            // What comes next is of one hour.
            let rest_ms = 3_600_000 - world.now_ms().rem_euclid(3_600_000);
            world.run_for_ms(u64::try_from(rest_ms).expect("it is small") + 1_000);
        }
    }
}

#[test]
fn what_a_top_cannot_tell_is_refused_with_what_it_can() {
    let (world, sites) = service(7, Options::default());
    let client = client(&world, sites[0]);
    world
        .run(client.post("/counters/a/increment", ""))
        .expect("no fault");
    for (path, code) in [
        ("/top?window=hour", "invalid-query"),
        ("/top?window=7", "invalid-query"),
        ("/top?by=name", "invalid-query"),
        ("/top?by=value&window=today", "invalid-query"),
        ("/top?by=uniques&window=30d", "invalid-query"),
        ("/top?limit=0", "invalid-query"),
        ("/top?limit=1001", "invalid-query"),
        ("/top?at=7", "invalid-query"),
        ("/counters/a/rank?prefix=b", "invalid-query"),
        ("/counters/a/rank?limit=1", "invalid-query"),
        ("/counters/none/rank", "counter-not-found"),
    ] {
        let refused = world.run(client.get(path)).expect("an answer");
        assert_eq!(refused.json()["code"], code, "{path}: {}", refused.text());
    }
}

#[test]
fn a_top_names_the_partitions_that_are_missing_or_not_counted_through() {
    let (world, sites) = service(8, Options::default());
    let client = client(&world, sites[0]);
    let ring = Ring::new(DIRECTORY_PARTITIONS);
    let ids = (0..).map(|number| format!("page-{number:05}"));
    let ids: Vec<String> = ids
        .filter(|id| ring.partition_of(id) == 0)
        .take(450)
        .collect();
    let line = |id: &String| format!("{{\"key\":\"{id}\",\"increment\":1}}\n");
    let body: String = ids.iter().map(line).collect();
    world.run(client.post("/events", &body)).expect("no fault");
    world.run_for_ms(TOLD_MS);
    let whole = get(&world, &client, "/top?window=today");
    assert_eq!(
        (&whole["total"], &whole["kept_from"]),
        (&450.into(), &serde_json::Value::Null)
    );
    world.run_for_ms(2_000);
    forget_totals(&world, 0);
    let part = get(&world, &client, "/top");
    assert_eq!(part["missing_partitions"], serde_json::json!([0]), "{part}");
    assert_eq!(part["as_of"], 0, "{part}");
    world.run_for_ms(10_000);
    let made = get(&world, &client, "/top?limit=3");
    assert_eq!(
        (&made["total"], made.get("missing_partitions")),
        (&450.into(), None),
        "{made}"
    );
    // When they counted is not known, and that is said.
    let today = get(&world, &client, "/top?window=today");
    assert_eq!(
        (&today["total"], today["kept_from"].is_i64()),
        (&0.into(), true),
        "{today}"
    );
    world.set_judge(|judged| {
        let is_missing = judged.name == "d1/4";
        let verdict = if is_missing {
            Verdict::Unreached
        } else {
            Verdict::Answered
        };
        Box::pin(async move { verdict })
    });
    world.run_for_ms(2_000);
    let part = get(&world, &client, "/top");
    assert_eq!(part["missing_partitions"], serde_json::json!([4]), "{part}");
}
