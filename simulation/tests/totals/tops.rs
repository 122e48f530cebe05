//! Tops against plain sorting.

use super::{PROPAGATION_MS, ask, client, get, rows_of, service};
use tally_core::cluster::ring::Ring;
use tally_simulation::{Client, Faults, Options, Verdict, World, deployed};
use tally_wire::names::{DIRECTORY_COUNT, DIRECTORY_PARTITIONS, directory};

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
                let actual: Vec<(u64, String, i64)> = top["entries"]
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
                assert_eq!(actual, rows, "{what}: {top}");
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
                assert_eq!(top["starts_at"].as_i64(), from_ms, "{what}");
                if let Some((rank, id, amount)) = rows.last() {
                    let path = format!("/top?id={}&{query}", id.replace('/', "%2F"));
                    let answer = get(world, client, &path)["entries"][0].clone();
                    assert_eq!(
                        (&answer["rank"], number(&answer)),
                        (&(*rank).into(), *amount),
                        "{what}: {answer}"
                    );
                    assert_eq!(
                        answer["share"],
                        top["entries"][rows.len() - 1]["share"],
                        "{what}: {answer}"
                    );
                }
            }
        }
    }
}

/// Sets a counter, takes from it or adds to it, as chance has it.
fn write_one(world: &World, clients: &[Client; 2], id: &str, counter: &mut Plain, unique: &str) {
    let chance = world.chance();
    let path = format!("/counters/{}", id.replace('/', "%2F"));
    let amount = i64::try_from(chance.below(20)).expect("it is small") + 1;
    let client = &clients[chance.pick(2)];
    let (method, what, body) = match chance.below(8) {
        0 => {
            counter.value = amount - 10;
            ("PUT", "value", format!(r#"{{"value":{}}}"#, amount - 10))
        }
        1 => {
            counter.value -= amount;
            ("POST", "decrement", format!(r#"{{"delta":{amount}}}"#))
        }
        _ => {
            counter.value += amount;
            counter.uniques += 1;
            let body = format!(r#"{{"delta":{amount},"unique":"{unique}"}}"#);
            ("POST", "increment", body)
        }
    };
    let done = world.run(ask(client, method, &format!("{path}/{what}"), &body));
    done.unwrap_or_else(|| panic!("{path}/{what} is done"));
    if what == "increment" {
        counter.counts.push((world.now_ms(), amount));
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
                let unique = format!("{}-{round}-{seed}", counter.uniques);
                write_one(&world, &clients, &name(number), counter, &unique);
            }
            world.run_for_ms(PROPAGATION_MS);
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
        ("/top?window=0", "invalid-query"),
        ("/top?window=0d", "invalid-query"),
        ("/top?window=1827d", "invalid-query"),
        ("/top?window=day", "invalid-query"),
        ("/top?window=90d&from=7", "invalid-query"),
        ("/top?from=8&to=7", "invalid-query"),
        ("/top?to=7", "invalid-query"),
        ("/top?by=value&window=90d", "invalid-query"),
        ("/top?by=uniques&from=7", "invalid-query"),
        ("/top?by=name", "invalid-query"),
        ("/top?by=value&window=today", "invalid-query"),
        ("/top?by=uniques&window=30d", "invalid-query"),
        ("/top?limit=0", "invalid-query"),
        ("/top?limit=1001", "invalid-query"),
        ("/top?at=7", "invalid-query"),
        ("/top?window=07d", "invalid-query"),
        ("/top?window=%2B7d", "invalid-query"),
        ("/top?id=a&prefix=b", "invalid-query"),
        ("/top?id=a&id=b", "invalid-query"),
        ("/top?id=none", "counter-not-found"),
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
    let line = |id: &String| format!("{{\"id\":\"{id}\",\"delta\":1}}\n");
    let body: String = ids.iter().map(line).collect();
    world.run(client.post("/events", &body)).expect("no fault");
    world.run_for_ms(PROPAGATION_MS);
    let whole = get(&world, &client, "/top?window=today");
    assert_eq!(whole["total"], 450);
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

#[test]
fn what_is_imported_of_old_times_is_in_no_window_of_today() {
    let (world, sites) = service(22, Options::default());
    let client = client(&world, sites[0]);
    let line = |key: &str, at_ms: i64, count: i64| {
        format!(
            "{{\"id\":\"{key}\",\"delta\":{count},\"at\":{}}}\n",
            at_ms / 1_000
        )
    };
    let ingest = |lines: String| {
        let report = world.run(client.post("/ingest?format=ndjson", &lines));
        assert_eq!(report.expect("an answer").json()["rejected"], 0);
        world.run_for_ms(PROPAGATION_MS);
    };
    let day_ms = 86_400_000;
    let at_2015 = 1_431_820_800_000;
    let now_ms = world.now_ms();
    ingest([line("old", at_2015, 9_999), line("new", now_ms, 3)].concat());
    // Also what had counted before.
    ingest(line("old", now_ms - 3 * day_ms, 5));
    world.run_for_ms(86_400_000);
    ingest([line("old", at_2015, 100), line("new", at_2015, 100)].concat());
    // An operation counts nothing either.
    for id in ["old", "new"] {
        let path = format!("/counters/{id}/value");
        let done = world.run(ask(&client, "PUT", &path, r#"{"value":7}"#));
        done.expect("it is set");
    }
    world.run_for_ms(PROPAGATION_MS);
    for window in ["3600", "today"] {
        let top = get(&world, &client, &format!("/top?window={window}"));
        assert_eq!(
            (rows_of(&top, "id"), &top["total"]),
            (vec![], &0.into()),
            "{top}"
        );
    }
    let all = get(&world, &client, "/top?by=count");
    let counted = [("old".to_owned(), 10_104), ("new".to_owned(), 103)];
    assert_eq!(rows_of(&all, "id"), counted, "{all}");
    let range = get(&world, &client, "/top?window=31d");
    let counted = [("old".to_owned(), 5), ("new".to_owned(), 3)];
    assert_eq!(rows_of(&range, "id"), counted, "{range}");
}

#[test]
fn the_total_of_a_range_is_that_of_all_counters_however_few_are_told() {
    const COUNTERS: u64 = 1_400;
    let world = deployed(24, Options::default());
    world.set_faults(Faults::NONE);
    world.set("TALLY_TABLETS", Some("64"));
    let client = client(&world, world.site("FRA", 1));
    let at_ms = world.now_ms() - 40 * 86_400_000;
    let line = |number: u64| {
        let count = if number < 3 { 1_000 * (number + 1) } else { 1 };
        format!(
            "{{\"id\":\"{number}\",\"delta\":{count},\"at\":{}}}\n",
            at_ms / 1_000
        )
    };
    let body: String = (0..COUNTERS).map(line).collect();
    world
        .run(client.post("/ingest?format=ndjson", &body))
        .expect("no fault");
    world.run_for_ms(PROPAGATION_MS);
    let total = 6_000 + COUNTERS - 3;
    let share = serde_json::json!((3_000_f64 / 7_397_f64 * 1e6).round() / 1e6);
    for limit in [1, 1_000] {
        let top = get(&world, &client, &format!("/top?window=90d&limit={limit}"));
        assert_eq!(
            (&top["total"], &top["counters"], top.get("omitted")),
            (&total.into(), &COUNTERS.into(), None),
            "{limit}"
        );
        assert_eq!(top["entries"][0]["share"], share, "{limit}");
    }
    let rank = get(&world, &client, "/top?id=2&window=90d");
    let row = &rank["entries"][0];
    let actual = (&rank["total"], &row["share"], &row["rank"]);
    assert_eq!(actual, (&total.into(), &share, &1.into()), "{rank}");
}

#[test]
fn counters_that_nothing_was_told_of_are_counted_and_are_no_rows() {
    let (world, sites) = service(25, Options::default());
    let client = client(&world, sites[0]);
    for (method, path, body) in [
        ("PUT", "/counters/made", "{}"),
        ("POST", "/counters/more/increment", r#"{"delta":5}"#),
    ] {
        let done = world.run(ask(&client, method, path, body));
        done.unwrap_or_else(|| panic!("{path} is done"));
    }
    for wait_ms in [0, PROPAGATION_MS] {
        world.run_for_ms(wait_ms);
        let top = get(&world, &client, "/top");
        assert_eq!(top["counters"], 2, "{top}");
        let rows = top["entries"].as_array().expect("rows").iter();
        let actual: Vec<_> = rows.map(|row| (&row["id"], &row["value"])).collect();
        // A 0 where 5 was acknowledged would be no value that it ever had.
        let (id, value) = ("more".into(), 5.into());
        let expected = if wait_ms == 0 {
            vec![]
        } else {
            vec![(&id, &value)]
        };
        assert_eq!(actual, expected, "{top}");
    }
}

#[test]
fn a_window_that_has_not_begun_is_refused() {
    let (world, sites) = service(26, Options::default());
    let client = client(&world, sites[0]);
    let wrote = world.run(ask(
        &client,
        "POST",
        "/counters/a/increment",
        r#"{"by":{"b":"c"}}"#,
    ));
    assert!(wrote.is_some());
    for path in [
        "/counters/a/breakdown?by=b&from=4102444800&to=4102444900",
        "/top?from=4102444800&to=4102444900",
        "/counters/a*/aggregate/breakdown?by=b&from=4102444800",
    ] {
        let refused = world.run(client.get(path)).expect("an answer");
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
    }
    // The clock of who asks may be ahead.
    let from = world.now_ms() / 1_000 + 7_200;
    let path = format!("/counters/a/breakdown?by=b&from={from}&to={}", from + 10);
    let answer = get(&world, &client, &path);
    assert!(
        answer["window"]["starts_at"].as_i64() <= answer["window"]["ends_at"].as_i64(),
        "{answer}"
    );
}

/// A year of what counters counted, by lines with old times: `(day, count)` of each.
fn a_year(world: &World, client: &Client, counters: u64) -> Vec<Vec<(i64, i64)>> {
    let (chance, today) = (world.chance(), world.now_ms() / 86_400_000);
    let mut days = vec![Vec::new(); usize::try_from(counters).expect("it is small")];
    let mut lines = String::new();
    for (number, days) in (0..).zip(&mut days) {
        for _ in 0..=chance.below(8) {
            let day = today - i64::try_from(chance.below(700)).expect("it is small");
            let count = i64::try_from(chance.below(1_000)).expect("it is small") + 1;
            let at_ms = (day * 86_400 + 7_200) * 1_000;
            lines.push_str(&format!(
                "{{\"id\":\"{}\",\"delta\":{count},\"at\":{}}}\n",
                name(number),
                at_ms.min(world.now_ms()) / 1_000
            ));
            days.push((day, count));
        }
    }
    let report = world.run(client.post("/ingest?format=ndjson", &lines));
    assert_eq!(report.expect("an answer").json()["rejected"], 0);
    days
}

/// The counters that counted something from one day to another, both included, the one with most first.
fn counted_within(days: &[Vec<(i64, i64)>], first: i64, last: i64) -> Vec<(String, i64)> {
    let sum = |days: &Vec<(i64, i64)>| -> i64 {
        let within = days.iter().filter(|(day, _)| (first..=last).contains(day));
        within.map(|(_, count)| count).sum()
    };
    let mut rows: Vec<(String, i64)> = (0..)
        .zip(days)
        .map(|(n, days)| (name(n), sum(days)))
        .collect();
    rows.retain(|(_, count)| *count > 0);
    rows.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
    rows
}

#[test]
fn a_top_of_a_year_is_a_sort_of_what_days_hold_whatever_values_are() {
    let (world, sites) = service(21, Options::default());
    let client = client(&world, sites[0]);
    let days = a_year(&world, &client, 40);
    // What a counter is set to, and what is taken from it, is nothing that was counted.
    for (number, method, what, body) in [
        (0, "PUT", "value", r#"{"value":-7}"#),
        (1, "PUT", "value", r#"{"value":1000000}"#),
        (2, "POST", "decrement", r#"{"delta":100000}"#),
        (3, "PUT", "value", r#"{"value":0}"#),
    ] {
        let path = format!("/counters/{}/{what}", name(number).replace('/', "%2F"));
        let done = world.run(ask(&client, method, &path, body));
        done.unwrap_or_else(|| panic!("{path} is done"));
    }
    world.run_for_ms(PROPAGATION_MS);
    let today = world.now_ms() / 86_400_000;
    let (day_at, ms_at) = (|day: i64| day * 86_400, |day: i64| day * 86_400_000);
    for (query, first, last) in [
        ("window=31d".to_owned(), today - 30, today),
        ("window=90d".to_owned(), today - 89, today),
        ("window=365d".to_owned(), today - 364, today),
        ("window=1826d".to_owned(), today - 1_825, today),
        (format!("from={}", day_at(today - 500)), today - 500, today),
        (
            format!("from={}&to={}", day_at(today - 300), day_at(today - 200)),
            today - 300,
            today - 200,
        ),
    ] {
        let top = get(&world, &client, &format!("/top?{query}&limit=1000"));
        let plain = counted_within(&days, first, last);
        assert_eq!(rows_of(&top, "id"), plain, "{query}: {top}");
        let total: i64 = plain.iter().map(|(_, count)| count).sum();
        assert_eq!(
            (&top["total"], &top["counters"], &top["starts_at"]),
            (&total.into(), &plain.len().into(), &ms_at(first).into()),
            "{query}: {top}"
        );
        assert_eq!(
            (&top["by"], &top["exact"]),
            (&"count".into(), &false.into())
        );
        assert_eq!(top.get("omitted"), None, "{query}: {top}");
        let to = query.contains("to=").then(|| ms_at(last + 1));
        let is_open = query.starts_with("from") && to.is_none();
        assert!(is_open || top["ends_at"].as_i64() == to, "{top}");
        let path = format!("/top?{query}&limit=3&prefix=a%2F");
        let few = get(&world, &client, &path);
        let of_a = plain.iter().filter(|(id, _)| id.starts_with("a/"));
        let first: Vec<_> = of_a.take(3).cloned().collect();
        assert_eq!(rows_of(&few, "id"), first, "{few}");
        let (id, count) = &plain[plain.len() / 2];
        let rank = 1 + plain.iter().filter(|(_, other)| other > count).count();
        let path = format!("/top?id={}&{query}", id.replace('/', "%2F"));
        let answer = get(&world, &client, &path)["entries"][0].clone();
        assert_eq!(
            (&answer["rank"], &answer["count"]),
            (&rank.into(), &(*count).into()),
            "{answer}"
        );
    }
    let none = world.run(client.get("/top?id=none&window=90d"));
    assert_eq!(none.expect("an answer").json()["code"], "counter-not-found");
}

#[test]
fn months_and_years_begin_with_their_first_day() {
    let (world, sites) = service(22, Options::default());
    let client = client(&world, sites[0]);
    world
        .run(client.post("/counters/a/increment", ""))
        .expect("no fault");
    world.run_for_ms(PROPAGATION_MS);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..14 {
        // Some weeks of a year: the month is told by the directory at first, and by days once it is long.
        world.run_for_ms(29 * 86_400_000);
        for window in ["month", "year"] {
            let top = get(&world, &client, &format!("/top?window={window}"));
            let from = top["starts_at"].as_i64().expect("a time") / 1_000;
            assert_eq!(from % 86_400, 0, "{top}");
            let date = tally_wire::snapshot::date_of(from / 86_400);
            let now = tally_wire::snapshot::date_of(world.now_ms() / 86_400_000);
            let same = if window == "month" { 7 } else { 4 };
            assert_eq!(date[..same], now[..same], "{top}");
            assert!(
                date.ends_with(if window == "month" { "-01" } else { "-01-01" }),
                "{date}"
            );
            seen.insert(date);
        }
    }
    assert!(seen.len() > 12, "{seen:?}");
}

#[test]
fn counters_that_cannot_be_among_the_first_are_not_asked_and_that_is_said() {
    // More counters than one read queries in all.
    const COUNTERS: u64 = 5_500;
    let world = deployed(23, Options::default());
    world.set_faults(Faults::NONE);
    world.set("TALLY_TABLETS", Some("64"));
    let client = client(&world, world.site("FRA", 1));
    // Each has counted 400 days ago as much as its number says, and half as much yesterday.
    let today = world.now_ms() / 86_400_000;
    let line = |number: u64, count: u64, day: i64| {
        let at_ms = day * 86_400_000;
        format!(
            "{{\"id\":\"of/{number:04}\",\"delta\":{count},\"at\":{}}}\n",
            at_ms / 1_000
        )
    };
    let body: String = (1..=COUNTERS)
        .flat_map(|number| {
            [
                line(number, number, today - 400),
                line(number, number.div_ceil(2), today - 1),
            ]
        })
        .collect();
    let report = world.run(client.post("/ingest?format=ndjson", &body));
    assert_eq!(report.expect("an answer").json()["rejected"], 0);
    world.run_for_ms(PROPAGATION_MS);
    let top = get(&world, &client, "/top?window=90d&limit=10&prefix=of%2F");
    let first = (COUNTERS - 9..=COUNTERS).rev();
    let first: Vec<u64> = first.map(|number| number.div_ceil(2)).collect();
    let rows = top["entries"].as_array().expect("rows").iter();
    let counts: Vec<Option<u64>> = rows.map(|row| row["count"].as_u64()).collect();
    assert_eq!(counts, first.iter().copied().map(Some).collect::<Vec<_>>());
    let omitted = &top["omitted"];
    let left = omitted["counters"].as_u64().expect("a number");
    assert!((500..=COUNTERS - 1_000).contains(&left), "{top}");
    // None of those that were left out can have more than the last row, whoever they are.
    let in_all = |number: u64| number + number.div_ceil(2);
    let each_max = omitted["each_max"].as_u64();
    assert!(
        each_max >= Some(in_all(left)) && each_max <= first.last().copied(),
        "{top}"
    );
    let count_max = omitted["count_max"].as_u64().expect("a number");
    assert!(count_max >= (1..=left).map(in_all).sum::<u64>(), "{top}");
    let whole: u64 = (1..=COUNTERS).map(|number| number.div_ceil(2)).sum();
    let total = top["total"].as_u64().expect("a number");
    assert!(total < whole && whole <= total + count_max, "{top}");
    assert!(top["entries"][0]["share"].is_null(), "{top}");
    // Of one that is among the first fewer are asked than of the last one, which has a rank that all decide.
    let rank = |number: u64| {
        let path = format!("/top?id=of%2F{number:04}&window=90d&prefix=of%2F");
        get(&world, &client, &path)
    };
    let (third, last) = (rank(COUNTERS - 2), rank(1));
    assert_eq!(
        (&third["entries"][0]["rank"], &third["entries"][0]["share"]),
        (&3.into(), &serde_json::Value::Null),
        "{third}"
    );
    assert!(last["entries"][0]["rank"].as_u64() >= Some(5_000), "{last}");
    assert!(
        third["omitted"]["counters"].as_u64() >= Some(left),
        "{third}"
    );
    let left_of_all = last["omitted"]["counters"].as_u64();
    assert!(left_of_all < Some(left), "{last}");
}

#[test]
fn of_few_counters_all_are_asked_also_where_it_is_known_before_who_is_first() {
    let world = deployed(23, Options::default());
    world.set_faults(Faults::NONE);
    world.set("TALLY_TABLETS", Some("64"));
    let client = client(&world, world.site("FRA", 1));
    for (id, delta) in [("a", 7), ("b", 2)] {
        let path = format!("/counters/some%2F{id}/increment");
        let body = format!(r#"{{"delta":{delta}}}"#);
        let wrote = world.run(ask(&client, "POST", &path, &body));
        assert!(wrote.is_some(), "{path}");
    }
    world.run_for_ms(PROPAGATION_MS);
    let path = "/top?id=some%2Fa&window=90d&prefix=some%2F";
    let first = get(&world, &client, path);
    assert_eq!(
        (
            &first["entries"][0]["rank"],
            &first["counters"],
            &first["total"]
        ),
        (&1.into(), &2.into(), &9.into()),
        "{first}"
    );
    assert_eq!(first.get("omitted"), None, "{first}");
}

/// 1,200 counters of one partition, each of which has counted 2.
struct OnePartition {
    world: World,
    client: Client,
    ids: Vec<String>,
}

impl OnePartition {
    const COUNTERS: usize = 1_200;
    const TOTAL: usize = 2 * Self::COUNTERS;

    fn new() -> Self {
        let world = deployed(25, Options::default());
        world.set_faults(Faults::NONE);
        world.set("TALLY_TABLETS", Some("16"));
        let client = client(&world, world.site("FRA", 1));
        let ring = Ring::new(DIRECTORY_PARTITIONS);
        let ids = (0..).map(|number| format!("page-{number:06}"));
        let ids: Vec<String> = ids
            .filter(|id| ring.partition_of(id) == 0)
            .take(Self::COUNTERS)
            .collect();
        let line = |id: &String| format!("{{\"id\":\"{id}\",\"delta\":2}}\n");
        let body: String = ids.iter().map(line).collect();
        world.run(client.post("/events", &body)).expect("no fault");
        world.run_for_ms(PROPAGATION_MS);
        Self { world, client, ids }
    }

    fn statements(&self) -> u64 {
        let objects = self.world.objects();
        let of = |name: &str| name == directory(0).name;
        let own = objects.iter().find(|(_, name, ..)| of(name));
        own.expect("a partition").2
    }

    /// The top of today, that of all time, and how many statements both took.
    fn read(&self) -> (serde_json::Value, serde_json::Value, u64) {
        // No edge tells it again.
        self.world.run_for_ms(2_000);
        let before = self.statements();
        let top = get(&self.world, &self.client, "/top?limit=3&window=today");
        let all = get(&self.world, &self.client, "/top?limit=3");
        (top, all, self.statements() - before)
    }
}

#[test]
fn a_partition_does_not_look_again_while_nothing_changes() {
    let own = OnePartition::new();
    let (top, all, first) = own.read();
    let total = OnePartition::TOTAL;
    assert_eq!(
        (&top["total"], &all["total"]),
        (&total.into(), &total.into()),
        "{top} {all}"
    );
    // What an isolate reports to the partition meanwhile takes statements too: the fewest of some reads are its own.
    let reads = (0..3).map(|_| own.read());
    let (again, all_again, second) = reads.min_by_key(|read| read.2).expect("a read");
    assert_eq!(
        (&again["entries"], &all_again["entries"]),
        (&top["entries"], &all["entries"])
    );
    assert_eq!(
        (&again["total"], &all_again["counters"]),
        (&total.into(), &OnePartition::COUNTERS.into())
    );
    assert!(
        first >= 6 && second <= 2,
        "{first} statements, then {second}"
    );
}

#[test]
fn a_partition_sees_what_changes_after_it_has_looked() {
    let own = OnePartition::new();
    own.read();
    own.read();
    let OnePartition { world, client, ids } = &own;
    // Numbers that a plain sum would not hold, too.
    for (delta, sum) in [
        (5_u128, 5),
        (1 << 40, (1 << 40) + 5),
        (1 << 62, (1 << 62) + (1 << 40) + 5),
    ] {
        let path = format!("/counters/{}/increment", ids[700]);
        let done = world.run(client.post(&path, &format!(r#"{{"delta":{delta}}}"#)));
        assert_eq!(done.expect("no fault").status, 200);
        world.run_for_ms(PROPAGATION_MS);
        let top = get(world, client, "/top?limit=1&numbers=string");
        let of_it = sum + 2;
        let text = |number: &serde_json::Value| number.to_string().replace('"', "");
        assert_eq!(
            text(&top["entries"][0]["value"]),
            of_it.to_string(),
            "{top}"
        );
        let total = sum + u128::try_from(OnePartition::TOTAL).expect("it is small");
        assert_eq!(text(&top["total"]), total.to_string(), "{top}");
    }
    let deletion = world.run(ask(client, "DELETE", &format!("/counters/{}", ids[0]), ""));
    deletion.expect("it is deleted");
    world.run_for_ms(2_000);
    let less = get(world, client, "/top?limit=3");
    assert_eq!(less["counters"], OnePartition::COUNTERS - 1, "{less}");
    // A day later none of today is left.
    world.run_for_ms(86_400_000);
    let (today, ..) = own.read();
    assert_eq!(
        (&today["total"], &today["entries"]),
        (&0.into(), &serde_json::json!([]))
    );
}

/// Tops by all measures and windows, of all counters and of some; and the ranks of two.
fn kept_paths(ids: &[String]) -> Vec<String> {
    let mut paths = Vec::new();
    for prefix in ["", "a"] {
        for query in [
            "by=value&limit=3",
            "by=uniques&limit=2",
            "by=count&window=3600&limit=5",
            "by=count&window=today&limit=100",
            "by=count&window=7d&limit=3",
        ] {
            paths.push(format!("/top?prefix={prefix}&{query}"));
        }
    }
    let ranked = ids
        .iter()
        .take(2)
        .map(|id| format!("/top?id={}", id.replace('/', "%2F")));
    paths.extend(ranked);
    paths
}

/// What is kept in memory must tell what the tables tell: after each change all tops are asked for, then all partitions
/// crash, and they are asked for again.
#[test]
fn a_kept_top_tells_what_one_read_anew_tells_after_any_changes() {
    for seed in 0..6 {
        let (world, sites) = service(300 + seed, Options::default());
        let clients = sites.map(|site| client(&world, site));
        let chance = world.chance();
        let ids: Vec<String> = (0..30).map(name).collect();
        let paths = kept_paths(&ids);
        let get_all = || -> Vec<serde_json::Value> {
            // No edge tells it again.
            world.run_for_ms(11_000);
            paths
                .iter()
                .map(|path| get_or_none(&world, &clients[0], path))
                .collect()
        };
        for round in 0..14 {
            for _ in 0..=chance.below(12) {
                change_one(
                    &world,
                    &clients[chance.pick(2)],
                    &ids[chance.pick(ids.len())],
                    chance,
                );
            }
            match chance.below(6) {
                // Before the leads have pushed to the directory.
                0 => world.run_for_ms(500),
                1 => world.run_for_ms(PROPAGATION_MS + 3_600_000),
                2 => world.run_for_ms(PROPAGATION_MS + 26 * 3_600_000),
                _ => world.run_for_ms(PROPAGATION_MS),
            }
            if round == 7 {
                // Each of some roots moves to another partition, and comes to it.
                world.set(DIRECTORY_COUNT, Some("24"));
                world.run_for_ms(60_000);
            }
            let kept = get_all();
            for partition in 0..24 {
                world.crash(&directory(partition));
            }
            let read = get_all();
            for ((path, kept), read) in paths.iter().zip(&kept).zip(&read) {
                for what in [
                    "rows", "total", "counters", "as_of", "exact", "rank", "value",
                ] {
                    let same = kept.get(what) == read.get(what);
                    assert!(
                        same,
                        "seed {seed}, round {round}, {path}, {what}: {kept} {read}"
                    );
                }
            }
        }
    }
}

fn get_or_none(world: &World, client: &Client, path: &str) -> serde_json::Value {
    let answer = world.run(client.get(path)).expect("no fault");
    assert!(
        [200, 404].contains(&answer.status),
        "{path}: {}",
        answer.text()
    );
    answer.json()
}

/// An increment, decrement, set, deletion or a short life of a counter.
fn change_one(world: &World, client: &Client, id: &str, chance: &tally_simulation::Chance) {
    let path = format!("/counters/{}", id.replace('/', "%2F"));
    let amount = chance.below(20) + 1;
    let (method, what, body) = match chance.below(12) {
        0 => (
            "PUT",
            "/value",
            format!(r#"{{"value":{}}}"#, chance.below(60)),
        ),
        1 => ("POST", "/decrement", format!(r#"{{"delta":{amount}}}"#)),
        2 => ("DELETE", "", String::new()),
        3 => ("PUT", "", r#"{"ttl_seconds":3600}"#.to_owned()),
        4 => (
            "POST",
            "/increment",
            format!(r#"{{"delta":{}}}"#, 1_u64 << 62),
        ),
        _ => (
            "POST",
            "/increment",
            format!(r#"{{"delta":{amount},"unique":"{}"}}"#, chance.below(500)),
        ),
    };
    drop(world.run(ask(client, method, &format!("{path}{what}"), &body)));
}

#[test]
fn an_order_costs_a_push_nothing_before_it_is_asked_for_and_where_it_stays_as_it_is() {
    const COUNTERS: u64 = 1_100;
    let (world, [site, _]) = service(77, Options::default());
    world.set(DIRECTORY_COUNT, Some("1"));
    world.set_faults(Faults::NONE);
    let client = client(&world, site);
    let count = |each: u64| {
        let line = |number| format!("{{\"id\":\"c{number}\",\"delta\":{each}}}\n");
        let body: String = (0..COUNTERS).map(line).collect();
        let counted = world.run(client.post("/events", &body)).expect("no fault");
        assert_eq!(counted.json()["accepted"], COUNTERS);
        world.run_for_ms(PROPAGATION_MS);
    };
    let look = |statement: &str| world.look(&directory(0), statement).expect("SQL");
    let indexes = || {
        let named = "SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE 'totals_%'";
        look(named).len()
    };
    count(1_000);
    assert_eq!(indexes(), 0);
    for (query, made) in [
        ("", 1),
        ("&by=count", 2),
        ("&by=uniques", 3),
        // All have counted in it, so its index would not be used.
        ("&by=count&window=7d", 3),
    ] {
        get(&world, &client, &format!("/top?prefix=c{query}"));
        assert_eq!(indexes(), made, "{query}");
    }
    // SQLite writes an index wherever a statement sets its column; so does a trigger ring.
    look("CREATE TABLE rung (id TEXT)");
    look(
        "CREATE TRIGGER ring AFTER UPDATE OF hour, value_size, counted_size, uniques_size ON totals \
         BEGIN INSERT INTO rung VALUES (NEW.id); END",
    );
    let ring_count = || look("SELECT id FROM rung").len();
    // It is within the hour, and within an eighth of a power of two.
    count(1);
    assert_eq!(ring_count(), 0);
    count(1_000);
    assert_eq!(ring_count(), 1_100);
    look("DROP TRIGGER ring");
    let top = get(&world, &client, "/top?prefix=c");
    assert_eq!(top["total"], COUNTERS * 2_001, "{top}");
}

#[test]
fn counters_of_more_than_62_bits_have_windows_and_ranks() {
    let (world, [site, _]) = service(78, Options::default());
    let client = client(&world, site);
    let add = |id: &str, delta: u64| {
        let path = format!("/counters/{id}/increment");
        let done = world.run(client.post(&path, &format!(r#"{{"delta":{delta}}}"#)));
        assert_eq!(done.expect("no fault").status, 200);
    };
    for (id, times) in [("largest", 5), ("larger", 3), ("large", 1), ("twin", 1)] {
        for _ in 0..times {
            add(id, 1 << 62);
        }
    }
    add("large", 1);
    add("small", 7);
    world.run_for_ms(PROPAGATION_MS + 2 * 3_600_000);
    let window = "/top?by=count&window=3600";
    let count = |top: &serde_json::Value| -> Vec<(String, i64)> {
        let rows = top["entries"].as_array().expect("rows").iter();
        let row = |row: &serde_json::Value| {
            (
                row["id"].as_str().expect("a name").to_owned(),
                row["count"].as_i64().expect("a number"),
            )
        };
        rows.map(row).collect()
    };
    assert_eq!(count(&get(&world, &client, window)), []);
    // As the table tells it, and as what is kept of it does.
    for times in 1..3 {
        add("large", 5);
        add("small", 3);
        world.run_for_ms(PROPAGATION_MS);
        let top = get(&world, &client, window);
        let expected = [
            ("large".to_owned(), 5 * times),
            ("small".to_owned(), 3 * times),
        ];
        assert_eq!(count(&top), expected, "{top}");
    }
    for (rank, id) in (1..).zip(["largest", "larger", "large", "twin", "small"]) {
        for by in ["value", "count"] {
            let answer = get(&world, &client, &format!("/top?id={id}&by={by}"));
            assert_eq!(answer["entries"][0]["rank"], rank, "{id} by {by}: {answer}");
        }
    }
}
