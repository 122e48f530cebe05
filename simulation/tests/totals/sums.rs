//! Sums and histories of prefixes.

use super::{PROPAGATION_MS, client, get, rows_of, service};
use tally_simulation::{Client, Faults, Options, Verdict, World, deployed};

/// A service of which six counters of `a/` and others were counted for an hour.
fn counted() -> (World, Client) {
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
    let [first, _] = clients;
    (world, first)
}

#[test]
fn the_history_of_a_prefix_is_the_sum_of_the_histories_of_its_counters() {
    let (world, first) = counted();
    for rest in ["", "&datacenter=SYD", "&step=1h", "&step=1m&numbers=string"] {
        // All are asked within one minute: the last point is that of now.
        let second_ms = u64::try_from(world.now_ms() % 60_000).expect("after 1970");
        world.run_for_ms(60_000 - second_ms);
        let query = format!("history?consistency=strong{rest}");
        let all = get(
            &world,
            &first,
            &format!("/counters/a%2F*/aggregate/{query}"),
        );
        assert_eq!(
            (&all["prefix"], &all["exact"]),
            (&"a/".into(), &true.into()),
            "{all}"
        );
        assert_eq!(all["counters"], 6, "{all}");
        let mut sum = Vec::new();
        for counter in 0..6 {
            let one = get(&world, &first, &format!("/counters/a%2F{counter}/{query}"));
            assert_eq!(one["step"], all["step"], "{all}");
            for (index, point) in one["points"].as_array().expect("points").iter().enumerate() {
                let (start, count) = (
                    point[0].as_i64().expect("a number"),
                    point[1].as_i64().expect("a number"),
                );
                sum.resize(sum.len().max(index + 1), (start, 0));
                assert_eq!(sum[index].0, start);
                sum[index].1 += count;
            }
        }
        assert!(sum.iter().any(|(_, count)| *count > 0));
        assert_eq!(all["points"], serde_json::json!(sum), "{rest}");
    }
}

#[test]
fn the_history_of_a_prefix_may_leave_out_zeros_and_refuses_what_it_does_not_know() {
    let (world, first) = counted();
    let shared = get(&world, &first, "/counters/a%2F*/aggregate/history");
    assert_eq!(shared["points"].as_array().map(Vec::len), Some(60));
    let sparse = get(&world, &first, "/counters/a%2F*/aggregate/history?zeros=0");
    let points = sparse["points"].as_array().expect("points");
    assert!(points.iter().all(|point| point[1] != 0), "{sparse}");
    let zeros = |point: &&serde_json::Value| point[1] != 0;
    let kept: Vec<_> = shared["points"]
        .as_array()
        .expect("points")
        .iter()
        .filter(zeros)
        .cloned()
        .collect();
    assert_eq!(points, &kept);
    for (query, code) in [
        ("top=0", "invalid-query"),
        ("top=101", "invalid-query"),
        ("zeros=1", "invalid-query"),
        ("step=1w", "invalid-query"),
        ("from=2&to=1", "invalid-query"),
        ("from=0&to=99999&step=1s", "range-too-large"),
        ("at_least=x", "invalid-query"),
        ("datacenter=%21", "invalid-query"),
    ] {
        let path = format!("/counters/a%2F*/aggregate/history?{query}");
        let refused = world.run(first.get(&path)).expect("an answer");
        assert_eq!(refused.json()["code"], code, "{query}: {}", refused.text());
    }
}

#[test]
fn a_history_names_the_counters_that_have_most_in_it() {
    let (world, sites) = service(8, Options::default());
    let client = client(&world, sites[0]);
    let at_s = |second: i64, key: usize, count: usize| {
        format!(r#"{{"id":"a/{key}","delta":{count},"at":{second}}}"#)
    };
    // The counter that has most in all has least in 2015.
    let (old, later) = (1_431_820_800, 1_600_000_000);
    let lines: Vec<String> = (0..6)
        .flat_map(|key| {
            [
                at_s(old, key, 10 + key),
                at_s(old + 3_600, key, 1),
                at_s(later, key, 1_000 - 100 * key),
            ]
        })
        .collect();
    let report = world.run(client.post("/ingest?format=ndjson", &lines.join("\n")));
    assert_eq!(report.expect("an answer").json()["accepted"], 18);
    let path = format!("/counters/a%2F*/aggregate/history?step=1d&from={old}&to={old}&top=3");
    let answer = get(&world, &client, &path);
    let top = serde_json::json!([
        {"id":"a/5","count":16}, {"id":"a/4","count":15}, {"id":"a/3","count":14}
    ]);
    assert_eq!(answer["top"], top, "{answer}");
    assert_eq!(answer["points"], serde_json::json!([[old * 1_000, 81]]));
    let path =
        format!("/counters/a%2F*/aggregate/history?step=1d&from={old}&to={later}&zeros=0&top=100");
    let all = get(&world, &client, &path);
    let rows = all["top"].as_array().expect("rows");
    let sum = |rows: &[serde_json::Value], at: &dyn Fn(&serde_json::Value) -> i64| {
        rows.iter().map(at).sum::<i64>()
    };
    assert_eq!(rows[0]["id"], "a/0");
    let points = all["points"].as_array().expect("points");
    assert_eq!(points.len(), 2, "{all}");
    assert_eq!(
        sum(rows, &|row| row["count"].as_i64().expect("a number")),
        sum(points, &|point| point[1].as_i64().expect("a number")),
    );
    let none = get(&world, &client, "/counters/b*/aggregate/history?top=5");
    assert_eq!(none["top"], serde_json::json!([]));
}

#[test]
fn the_breakdown_of_a_prefix_is_the_sum_of_the_breakdowns_of_its_counters() {
    let (world, sites) = service(9, Options::default());
    let clients = sites.map(|site| client(&world, site));
    let values = ["x", "y", "z"];
    for number in 0..24 {
        let by = match number % 4 {
            3 => String::new(),
            value => format!(r#","by":{{"referrer":"{}"}}"#, values[value]),
        };
        let body = format!(r#"{{"delta":{}{by}}}"#, number + 1);
        let path = format!("/counters/a%2F{}/increment", number % 5);
        world
            .run(clients[number % 2].post(&path, &body))
            .expect("an answer");
    }
    for range in ["", "&window=today", "&datacenter=SYD"] {
        let query = format!("breakdown?by=referrer&consistency=strong{range}");
        let all = get(
            &world,
            &clients[0],
            &format!("/counters/a%2F*/aggregate/{query}"),
        );
        let mut sums = std::collections::BTreeMap::new();
        let (mut total, mut none) = (0, 0);
        for counter in 0..5 {
            let one = get(
                &world,
                &clients[0],
                &format!("/counters/a%2F{counter}/{query}"),
            );
            total += one["total"].as_i64().expect("a number");
            none += one["none"].as_i64().expect("a number");
            for row in one["rows"].as_array().expect("rows") {
                let value = row["value"].as_str().expect("text").to_owned();
                *sums.entry(value).or_insert(0) += row["count"].as_i64().expect("a number");
            }
        }
        assert!(total > 0 && none > 0 && !sums.is_empty(), "{all}");
        assert_eq!(
            (&all["prefix"], &all["exact"]),
            (&"a/".into(), &true.into()),
            "{all}"
        );
        assert_eq!(
            (&all["total"], &all["none"]),
            (&total.into(), &none.into()),
            "{all}"
        );
        let rows = all["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), sums.len(), "{all}");
        for row in rows {
            assert_eq!(
                row["count"],
                sums[row["value"].as_str().expect("text")],
                "{all}"
            );
        }
    }
    let none = get(
        &world,
        &clients[0],
        "/counters/b*/aggregate/breakdown?by=referrer",
    );
    assert_eq!(
        (&none["counters"], &none["total"]),
        (&0.into(), &0.into()),
        "{none}"
    );
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
    for path in [
        "/counters/page*/aggregate",
        "/counters/page*/aggregate/history",
    ] {
        let part = get(&world, &client, path);
        assert_eq!(part["missing_partitions"], serde_json::json!([5]), "{part}");
        assert_eq!(
            (&part["exact"], &part["as_of"]),
            (&false.into(), &0.into()),
            "{part}"
        );
        assert!(
            (20..40).contains(&part["counters"].as_u64().expect("a number")),
            "{part}"
        );
    }
}

fn one_site() -> (World, Client) {
    let world = deployed(9, Options::default());
    world.set_faults(Faults::NONE);
    world.set("TALLY_TABLETS", Some("16"));
    let client = client(&world, world.site("FRA", 1));
    (world, client)
}

const MANY: u64 = 5_200;

/// Adds 1 to each of these counters.
fn add_to(world: &World, client: &Client, numbers: impl Iterator<Item = u64>) {
    let line = |number| format!("{{\"id\":\"many/{number}\"}}\n");
    let body: String = numbers.map(line).collect();
    let lines = body.lines().count();
    let answer = world.run(client.post("/events", &body)).expect("no fault");
    assert_eq!(answer.json()["accepted"], lines);
}

/// The value of the many counters, as of when it is, and whether it is exact.
fn sum_of_many(world: &World, client: &Client, query: &str) -> (u64, i64, bool) {
    let path = format!("/counters/many%2F*/aggregate{query}");
    let sum = get(world, client, &path);
    assert_eq!(sum["counters"], MANY, "{sum}");
    (
        sum["value"].as_u64().expect("a number"),
        sum["as_of"].as_i64().expect("a time"),
        sum["exact"].as_bool().expect("whether it is exact"),
    )
}

#[test]
fn of_more_counters_than_are_asked_for_partitions_tell_what_they_were_told_and_when() {
    let (world, client) = one_site();
    let sum = |query: &str| sum_of_many(&world, &client, query);
    let begun_ms = world.now_ms();
    for written in 1..=2 {
        add_to(&world, &client, 0..MANY);
        let counted_ms = world.now_ms();
        let value = written * MANY + (written - 1);
        // A body is reported at its end, and a single write seconds later: so the sum is not as of now.
        let (known, as_of_ms, is_exact) = sum("");
        assert!(known == value && !is_exact, "{known} of {value}");
        assert!(as_of_ms <= counted_ms, "as of {as_of_ms}");
        let alone = world.run(client.post("/counters/many%2F7/increment", ""));
        assert_eq!(alone.expect("no fault").status, 200);
        let (counted_ms, value) = (world.now_ms(), value + 1);
        let (known, as_of_ms, is_exact) = sum("");
        assert!(known < value && !is_exact, "{known} of {value}");
        assert!(as_of_ms < counted_ms, "as of {as_of_ms}");
        // Leads are asked, however many there are.
        let (strong_sum, as_of_ms, is_exact) = sum("?consistency=strong");
        assert!(is_exact && as_of_ms >= counted_ms);
        assert_eq!(strong_sum, value);
        world.run_for_ms(PROPAGATION_MS);
        let (known, as_of_ms, is_exact) = sum("");
        assert!(!is_exact && (begun_ms..world.now_ms()).contains(&as_of_ms));
        assert_eq!(known, value);
    }
}

#[test]
fn of_more_counters_than_are_asked_for_those_that_count_most_are_asked() {
    let (world, client) = one_site();
    for _ in 0..2 {
        add_to(&world, &client, 0..MANY);
        world.run_for_ms(PROPAGATION_MS);
    }
    // Some count a third time: they are those that are asked first.
    add_to(&world, &client, (0..300).map(|number| number * 7));
    world.run_for_ms(PROPAGATION_MS);
    let counted = 2 * MANY + 300;
    let sum = |answer: &serde_json::Value| -> u64 {
        let points = answer["points"].as_array().expect("points").iter();
        points
            .map(|point| point[1].as_u64().expect("a number"))
            .sum()
    };
    let all = get(
        &world,
        &client,
        "/counters/many%2F*/aggregate/history?step=1h&consistency=strong",
    );
    assert_eq!(
        (sum(&all), &all["counters"]),
        (counted, &MANY.into()),
        "{all}"
    );
    assert_eq!((&all["exact"], all.get("omitted")), (&true.into(), None));
    for path in [
        "/counters/many%2F*/aggregate/history?step=1h&top=100",
        "/counters/many%2F*/aggregate/breakdown?by=referrer&window=today",
    ] {
        let most = get(&world, &client, path);
        assert_eq!(
            (&most["counters"], &most["exact"]),
            (&5_000.into(), &false.into()),
            "{most}"
        );
        let answer_total = match most["total"].as_u64() {
            Some(total) => total,
            None => sum(&most),
        };
        let omitted = &most["omitted"];
        assert_eq!(
            (&omitted["counters"], &omitted["each_max"]),
            (&200.into(), &2.into()),
            "{most}"
        );
        assert_eq!(
            (answer_total, &omitted["count_max"]),
            (counted - 400, &400.into()),
            "{most}"
        );
        if let Some(top) = most["top"].as_array() {
            assert!(top.iter().all(|row| row["count"] == 3), "{most}");
        }
    }
}

#[test]
fn the_counters_that_have_a_value_are_told_and_how_much_of_it() {
    let (world, sites) = service(9, Options::default());
    let clients = sites.map(|site| client(&world, site));
    let chance = world.chance();
    let values = ["hn", "lobsters", "mail"];
    let mut plain = std::collections::BTreeMap::<(usize, usize), i64>::new();
    for _ in 0..120 {
        let (page, value, delta) = (chance.pick(7), chance.pick(4), chance.below(9));
        let delta = 1 + i64::try_from(delta).expect("it is small");
        let by = match values.get(value) {
            Some(value) => format!(r#","by":{{"referrer":"{value}"}}"#),
            None => String::new(),
        };
        let body = format!(r#"{{"delta":{delta}{by}}}"#);
        let path = format!("/counters/%2Fpage-{page}/increment");
        world
            .run(clients[chance.pick(2)].post(&path, &body))
            .expect("no fault");
        *plain.entry((value, page)).or_default() += delta;
    }
    world.run_for_ms(PROPAGATION_MS);
    for (number, value) in values.iter().enumerate() {
        let own = plain.iter().filter(|((value, _), _)| *value == number);
        let mut rows: Vec<(String, i64)> = own
            .map(|((_, page), count)| (format!("/page-{page}"), *count))
            .collect();
        rows.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
        let total: i64 = rows.iter().map(|(_, count)| count).sum();
        for (query, shown) in [
            ("", 20),
            ("&window=today&limit=2", 2),
            ("&consistency=strong&limit=1", 1),
        ] {
            let path =
                format!("/counters/%2F*/aggregate/breakdown?by=referrer&value={value}{query}");
            let answer = get(&world, &clients[0], &path);
            let first: Vec<(String, i64)> = rows.iter().take(shown).cloned().collect();
            assert_eq!(rows_of(&answer, "id"), first, "{answer}");
            assert_eq!(
                (&answer["total"], &answer["error"]),
                (&total.into(), &0.into()),
                "{answer}"
            );
            let shown: i64 = first.iter().map(|(_, count)| count).sum();
            assert_eq!(answer["other"], total - shown, "{answer}");
            assert_eq!(answer["value"], *value);
        }
    }
    let none = get(
        &world,
        &clients[0],
        "/counters/%2F*/aggregate/breakdown?by=referrer&value=x",
    );
    assert_eq!(
        (&none["rows"], &none["total"]),
        (&serde_json::json!([]), &0.into()),
        "{none}"
    );
    for query in ["value=", "value=%01", "value=a&value=b"] {
        let path = format!("/counters/%2F*/aggregate/breakdown?by=referrer&{query}");
        let refused = world.run(clients[0].get(&path)).expect("an answer");
        assert_eq!(refused.json()["code"], "invalid-query", "{query}");
    }
    let refused = world.run(clients[0].get("/counters/%2Fpage-1/breakdown?by=referrer&value=hn"));
    assert_eq!(refused.expect("an answer").json()["code"], "invalid-query");
}
