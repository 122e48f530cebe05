//! What the directory has been told of counters, in whole services against plain integers: lists with values.

use std::cell::RefCell;

use futures_util::future::join_all;
use tally::core::cluster::ring::Ring;
use tally::host::object::Value;
use tally::protocol::names::{DIRECTORY_PARTITIONS, directory};
use tally_simulation::{
    ADMIN_KEY, Answer, Client, ClientRequest, Faults, Options, Site, Verdict, World, deploy,
};

/// By when everything is told that nobody writes any more: 8 s of quiet, or what a fault has made late.
const TOLD_MS: u64 = 70_000;

fn service(seed: u64, options: Options) -> (World, [Site; 2]) {
    let world = World::new(seed, options);
    if std::env::var_os("SEED").is_some() {
        world.keep_log(true);
    }
    deploy(&world);
    let sites = [world.site("FRA", 2), world.site("SYD", 2)];
    (world, sites)
}

fn client(world: &World, site: Site) -> Client {
    world.client(site).with_key(ADMIN_KEY)
}

fn get(world: &World, client: &Client, path: &str) -> serde_json::Value {
    let answer = world.run(client.get(path)).expect("no fault");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn ask(client: &Client, method: &str, path: &str, json: &str) -> Option<Answer> {
    let mut ask = ClientRequest::new(method, path);
    if !json.is_empty() {
        ask = ask.json(json);
    }
    let answer = client.ask(ask).await.ok();
    answer.filter(|answer| answer.status < 300)
}

/// An increment that was begun and, where it was acknowledged, ended at these times.
struct Write {
    counter: u64,
    begun_ms: i64,
    done_ms: Option<i64>,
}

/// What one list says, held against what was written: no row is newer than now, or older than it says.
fn check_rows(list: &serde_json::Value, begun_ms: i64, now_ms: i64, writes: &[Write], what: &str) {
    assert_eq!(list["exact"], false, "{what}");
    for row in list["counters"].as_array().expect("rows") {
        let id = row["id"].as_str().expect("an id");
        let (value, as_of) = (
            row["value"].as_i64().unwrap(),
            row["as_of"].as_i64().unwrap(),
        );
        let of_it = || {
            writes
                .iter()
                .filter(|write| format!("a/{}", write.counter) == id)
        };
        let before = of_it().filter(|write| write.done_ms.is_some_and(|at| at < as_of));
        let begun = of_it().filter(|write| write.begun_ms < now_ms);
        let (least, most) = (before.count(), begun.count());
        let range = i64::try_from(least).unwrap()..=i64::try_from(most).unwrap();
        assert!(range.contains(&value), "{what}: {row} of {range:?}");
        assert_eq!(row["count"], row["value"], "{what}: {row}");
        assert!(as_of <= begun_ms.max(now_ms), "{what}: {row}");
    }
}

#[test]
fn a_list_tells_values_that_are_as_old_as_they_say_whatever_is_lost() {
    for seed in 0..8 {
        let (world, sites) = service(seed, Options::default());
        let clients = sites.map(|site| client(&world, site));
        let writes = RefCell::new(Vec::new());
        world.set_faults(Faults::SOME);
        world.run(join_all((0..60_usize).map(|number| {
            let (client, world, writes) = (&clients[number % 2], &world, &writes);
            async move {
                world.sleep_ms(world.chance().below(100_000)).await;
                let begun_ms = world.now_ms();
                if number % 6 == 0 {
                    let path = "/counters?prefix=a%2F&values=1";
                    if let Some(list) = ask(client, "GET", path, "").await {
                        let what = format!("seed {seed} at {begun_ms}");
                        let now_ms = world.now_ms();
                        check_rows(&list.json(), begun_ms, now_ms, &writes.borrow(), &what);
                    }
                    return;
                }
                let counter = world.chance().below(5);
                let slot = writes.borrow().len();
                writes.borrow_mut().push(Write {
                    counter,
                    begun_ms,
                    done_ms: None,
                });
                let path = format!("/counters/a%2F{counter}/increment");
                let done = ask(client, "POST", &path, "").await;
                writes.borrow_mut()[slot].done_ms = done.map(|_| world.now_ms());
            }
        })));
        world.set_faults(Faults::NONE);
        world.run_for_ms(2 * TOLD_MS);
        let list = get(&world, &clients[0], "/counters?values=1");
        for row in list["counters"].as_array().expect("rows") {
            let id = row["id"].as_str().expect("an id").replace('/', "%2F");
            let read = get(
                &world,
                &clients[0],
                &format!("/counters/{id}?consistency=strong"),
            );
            assert_eq!(row["value"], read["value"], "seed {seed}: {row} {read}");
        }
        let now_ms = world.now_ms();
        check_rows(
            &list,
            now_ms,
            now_ms,
            &writes.borrow(),
            &format!("seed {seed}"),
        );
    }
}

#[test]
fn a_list_tells_values_after_decrements_sets_resets_moves_and_deletions() {
    for seed in 0..8 {
        let (world, sites) = service(100 + seed, Options::default());
        let clients = sites.map(|site| client(&world, site));
        let chance = world.chance();
        let mut values = [None::<(i64, i64)>; 6];
        for number in 0..80 {
            let counter = chance.pick(values.len());
            let client = &clients[chance.pick(2)];
            let amount = i64::try_from(chance.below(1_000)).unwrap();
            let path = format!("/counters/a%2F{counter}");
            let delta = format!(r#"{{"delta":{amount},"unique":"{number}"}}"#);
            let taken = format!(r#"{{"delta":{amount}}}"#);
            let value = format!(r#"{{"value":{amount}}}"#);
            let home = r#"{"home":"SYD"}"#;
            let (method, rest, body) = match chance.below(9) {
                0 => ("PUT", "/value", value.as_str()),
                1 => ("POST", "/reset", "{}"),
                2 => ("POST", "/decrement", taken.as_str()),
                3 => ("DELETE", "", ""),
                4 => ("PUT", "", home),
                _ => ("POST", "/increment", delta.as_str()),
            };
            let done = world.run(ask(client, method, &format!("{path}{rest}"), body));
            let held = &mut values[counter];
            if done.is_some() {
                let (before, counted) = held.unwrap_or_default();
                *held = match (method, rest) {
                    ("DELETE", _) => None,
                    ("PUT", "/value") => Some((amount, counted)),
                    (_, "/reset") => Some((0, counted)),
                    (_, "/decrement") => Some((before - amount, counted)),
                    (_, "/increment") => Some((before + amount, counted + amount)),
                    _ => Some((before, counted)),
                };
            }
            if let (Some((value, _)), "/value" | "/reset") = (*held, rest) {
                // What the directory knew before is older than what was set.
                let list = get(
                    &world,
                    client,
                    &format!("/counters?values=1&prefix=a%2F{counter}"),
                );
                assert_eq!(list["counters"][0]["value"], value, "seed {seed}: {list}");
            }
            if chance.once_in(4) {
                world.run_for_ms(chance.below(20_000));
            }
        }
        world.run_for_ms(TOLD_MS);
        let list = get(&world, &clients[0], "/counters?values=1&numbers=string");
        let told: Vec<(String, i64, i64)> = list["counters"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| {
                let number = |name: &str| row[name].as_i64().expect("a number");
                let id = row["id"].as_str().expect("an id").to_owned();
                (id, number("value"), number("count"))
            })
            .collect();
        let expected: Vec<(String, i64, i64)> = (0..)
            .zip(&values)
            .filter_map(|(counter, held): (u64, _)| {
                held.map(|(value, count)| (format!("a/{counter}"), value, count))
            })
            .collect();
        assert_eq!(told, expected, "seed {seed}");
    }
}

#[test]
fn a_list_names_the_partitions_that_are_missing_and_tells_the_rest() {
    let (world, sites) = service(3, Options::default());
    let client = client(&world, sites[0]);
    for number in 0..40 {
        let path = format!("/counters/page-{number}/increment");
        world.run(client.post(&path, "")).expect("no fault");
    }
    world.run_for_ms(TOLD_MS);
    let whole = get(&world, &client, "/counters?values=1");
    assert_eq!(whole["counters"].as_array().map(Vec::len), Some(40));
    assert!(whole.get("missing_partitions").is_none(), "{whole}");
    let names = get(&world, &client, "/counters");
    assert_eq!(names.get("exact"), None, "{names}");
    world.set_judge(|judged| {
        let is_missing =
            judged.binding == "DIRECTORY" && ["d1/3", "d1/7"].contains(&judged.name.as_str());
        let verdict = if is_missing {
            Verdict::Unreached
        } else {
            Verdict::Answered
        };
        Box::pin(async move { verdict })
    });
    for path in ["/counters", "/counters?values=1"] {
        let part = get(&world, &client, path);
        assert_eq!(
            part["missing_partitions"],
            serde_json::json!([3, 7]),
            "{part}"
        );
        assert_eq!(part["exact"], false, "{part}");
        let rows = part["counters"].as_array().map_or(0, Vec::len);
        assert!((20..40).contains(&rows), "{part}");
    }
    world.set_judge(|judged| {
        let is_missing = judged.binding == "DIRECTORY";
        let verdict = if is_missing {
            Verdict::Unreached
        } else {
            Verdict::Answered
        };
        Box::pin(async move { verdict })
    });
    let none = world.run(client.get("/counters")).expect("an answer");
    assert_eq!(none.status, 503, "{}", none.text());
}

/// Lets a partition of the directory be as a build left it that knew no totals.
fn forget_totals(world: &World, partition: u32) {
    world.crash(&directory(partition));
    for statement in ["DROP TABLE totals", "DROP TABLE totals_progress"] {
        world
            .look(&directory(partition), statement)
            .expect("a table");
    }
}

#[test]
fn a_directory_of_before_tells_values_at_once_and_makes_its_totals() {
    let (world, sites) = service(4, Options::default());
    let client = client(&world, sites[0]);
    let ring = Ring::new(DIRECTORY_PARTITIONS);
    let all = (0..).map(|number| format!("page-{number:05}"));
    // More than one step makes.
    let ids: Vec<String> = all
        .filter(|id| ring.partition_of(id) == 0)
        .take(450)
        .collect();
    let line =
        |(id, amount): (&String, i64)| format!("{{\"key\":\"{id}\",\"increment\":{amount}}}\n");
    let body: String = ids.iter().zip(1..).map(line).collect();
    let done = world.run(client.post("/events", &body)).expect("no fault");
    assert_eq!(done.status, 200, "{}", done.text());
    world.run_for_ms(TOLD_MS);
    forget_totals(&world, 0);
    let list = get(&world, &client, "/counters?values=1&limit=1000");
    let rows = list["counters"].as_array().expect("rows");
    assert!(
        rows.iter()
            .zip(1..)
            .all(|(row, value)| row["value"] == value),
        "{list}"
    );
    assert_eq!(rows.len(), 450);
    world.run_for_ms(10_000);
    let made = world
        .look(&directory(0), "SELECT COUNT(*) FROM totals")
        .expect("a table");
    assert_eq!(made, [[Value::Integer(450)]]);
}

#[test]
fn the_history_of_a_prefix_is_the_sum_of_the_histories_of_its_counters() {
    let (world, sites) = service(5, Options::default());
    let clients = sites.map(|site| client(&world, site));
    let chance = world.chance();
    for _ in 0..80 {
        let prefix = if chance.once_in(4) { "other" } else { "a%2F" };
        let path = format!("/counters/{prefix}{}/increment", chance.below(6));
        let client = &clients[chance.pick(2)];
        let delta = format!(r#"{{"delta":{}}}"#, chance.below(100));
        world.run(client.post(&path, &delta)).expect("no fault");
        world.run_for_ms(chance.below(60_000));
    }
    let first = &clients[0];
    for rest in ["", "&datacenter=SYD", "&step=1h", "&step=1m&numbers=string"] {
        let query = format!("history?consistency=strong{rest}");
        let all = get(&world, first, &format!("/counters/a%2F*/{query}"));
        assert_eq!(
            (&all["prefix"], &all["exact"]),
            (&"a/".into(), &true.into()),
            "{all}"
        );
        assert_eq!(all["counters"], 6, "{all}");
        let mut sum = Vec::new();
        for counter in 0..6 {
            let one = get(&world, first, &format!("/counters/a%2F{counter}/{query}"));
            assert_eq!(one["step"], all["step"], "{all}");
            for (index, point) in one["points"].as_array().expect("points").iter().enumerate() {
                let (start, count) = (point[0].as_i64().unwrap(), point[1].as_i64().unwrap());
                sum.resize(sum.len().max(index + 1), (start, 0));
                assert_eq!(sum[index].0, start);
                sum[index].1 += count;
            }
        }
        assert!(sum.iter().any(|(_, count)| *count > 0));
        assert_eq!(all["points"], serde_json::json!(sum), "{rest}");
    }
    let shared = get(&world, first, "/counters/a%2F*/history");
    assert_eq!(shared["points"].as_array().map(Vec::len), Some(60));
    for (query, code) in [
        ("step=1w", "invalid-query"),
        ("from=2&to=1", "invalid-query"),
        ("from=0&to=99999&step=1s", "range-too-large"),
        ("at_least=x", "invalid-query"),
        ("datacenter=%21", "invalid-query"),
    ] {
        let path = format!("/counters/a%2F*/history?{query}");
        let refused = world.run(first.get(&path)).expect("an answer");
        assert_eq!(refused.json()["code"], code, "{query}: {}", refused.text());
    }
}

#[test]
fn sums_and_histories_name_the_partitions_that_are_missing() {
    let (world, sites) = service(6, Options::default());
    let client = client(&world, sites[0]);
    for number in 0..40 {
        let path = format!("/counters/page-{number}/increment");
        world.run(client.post(&path, "")).expect("no fault");
    }
    world.set_judge(|judged| {
        let verdict = match judged.name.as_str() {
            "d1/5" => Verdict::Unanswered,
            _ => Verdict::Answered,
        };
        Box::pin(async move { verdict })
    });
    for path in ["/counters/page*/aggregate", "/counters/page*/history"] {
        let part = get(&world, &client, path);
        assert_eq!(part["missing_partitions"], serde_json::json!([5]), "{part}");
        assert_eq!(
            (&part["exact"], &part["as_of"]),
            (&false.into(), &0.into()),
            "{part}"
        );
        assert!(
            (20..40).contains(&part["counters"].as_u64().unwrap()),
            "{part}"
        );
    }
}

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
    let count = u64::try_from(all.len()).unwrap();
    let rank = |amount: i64| {
        1 + u64::try_from(all.iter().filter(|(_, other)| *other > amount).count()).unwrap()
    };
    let rows = all
        .iter()
        .take(limit)
        .map(|(id, amount)| (rank(*amount), id.clone(), *amount))
        .collect();
    (rows, total, count)
}

fn name(number: u64) -> String {
    let folder = ["a/", "ab/", "b/"][usize::try_from(number % 3).unwrap()];
    format!("{folder}page-{number}")
}

/// Holds tops, and the ranks of some that are in them, against plain sorting.
fn check_tops(world: &World, client: &Client, counters: &[Plain], what: &str) {
    const HOUR_MS: i64 = 3_600_000;
    let now_ms = world.now_ms();
    let (hour_ms, day_ms) = (
        now_ms - now_ms.rem_euclid(HOUR_MS),
        now_ms - now_ms.rem_euclid(24 * HOUR_MS),
    );
    let from = [
        ("", None),
        ("&window=3600", Some(hour_ms - HOUR_MS)),
        ("&window=86400", Some(hour_ms - 24 * HOUR_MS)),
        ("&window=today", Some(day_ms)),
        ("&window=7d", Some(day_ms - 6 * 24 * HOUR_MS)),
        ("&window=30d", Some(day_ms - 29 * 24 * HOUR_MS)),
    ];
    for (window, from_ms) in from {
        for by in ["value", "count", "uniques"] {
            if from_ms.is_some() && by != "count" {
                continue;
            }
            let amount = |counter: &Plain| match by {
                "value" => counter.value,
                "count" => counter.since(from_ms.unwrap_or(i64::MIN)),
                _ => i64::try_from(counter.uniques).unwrap(),
            };
            for prefix in ["", "a"] {
                let limit = if prefix == "a" { 7 } else { 100 };
                let what = format!("{what}, {by} {window} of {prefix:?}");
                let (rows, total, count) = sorted(counters, prefix, limit, amount, by == "value");
                let query = format!("prefix={}&by={by}{window}", prefix.replace('/', "%2F"));
                let top = get(world, client, &format!("/top?{query}&limit={limit}"));
                let number = |row: &serde_json::Value| match by {
                    "uniques" => row[by]["estimate"].as_i64().unwrap(),
                    _ => row[by].as_i64().unwrap(),
                };
                let told: Vec<(u64, String, i64)> = top["rows"]
                    .as_array()
                    .expect("rows")
                    .iter()
                    .map(|row| {
                        (
                            row["rank"].as_u64().unwrap(),
                            row["id"].as_str().unwrap().to_owned(),
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
            let counter = &mut counters[usize::try_from(number).unwrap()];
            (counter.value, counter.counts) = (1, vec![(world.now_ms(), 1)]);
        }
        for round in 0..6 {
            for _ in 0..25 {
                let number = chance.below(24).min(chance.below(24));
                let counter = &mut counters[usize::try_from(number).unwrap()];
                let path = format!("/counters/{}", name(number).replace('/', "%2F"));
                let amount = i64::try_from(chance.below(20)).unwrap() + 1;
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
            world.run_for_ms(u64::try_from(rest_ms).unwrap() + 1_000);
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
