//! Lists with values against plain integers.

use super::away::lose_directory;
use super::{PROPAGATION_MS, ask, client, get, service};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::cell::RefCell;
use tally_simulation::{Faults, Options, Verdict};

/// An increment that was begun and, where it was acknowledged, ended at these times.
struct Write {
    counter: u64,
    begun_ms: i64,
    done_ms: Option<i64>,
}

/// What one list says, held against what was written: no row is newer than now, or older than it says.
fn check_rows(list: &serde_json::Value, begun_ms: i64, now_ms: i64, writes: &[Write], what: &str) {
    let rows = list["entries"].as_array().expect("rows");
    // A list of nothing tells no value.
    assert!(rows.is_empty() || list["exact"] == false, "{what}: {list}");
    for row in rows {
        let id = row["id"].as_str().expect("an id");
        let as_of = row["as_of"].as_i64().expect("a number");
        let of_it = || {
            writes
                .iter()
                .filter(|write| format!("a/{}", write.counter) == id)
        };
        let before = of_it().filter(|write| write.done_ms.is_some_and(|at| at < as_of));
        let begun = of_it().filter(|write| write.begun_ms < now_ms);
        let (least, most) = (before.count(), begun.count());
        let range =
            i64::try_from(least).expect("it is small")..=i64::try_from(most).expect("it is small");
        match row["value"].as_i64() {
            Some(value) => assert!(range.contains(&value), "{what}: {row} of {range:?}"),
            // Nobody has reported it: nothing was acknowledged before its creation.
            None => assert_eq!((&row["value"], least), (&Value::Null, 0), "{what}: {row}"),
        }
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
        world.run_for_ms(PROPAGATION_MS);
        // What a lead had yet to tell when it crashed it tells with its next write.
        for counter in 0..5 {
            for client in &clients {
                let begun_ms = world.now_ms();
                let path = format!("/counters/a%2F{counter}/increment");
                let done = world.run(ask(client, "POST", &path, ""));
                let done_ms = done.map(|_| world.now_ms());
                writes.borrow_mut().push(Write {
                    counter,
                    begun_ms,
                    done_ms,
                });
            }
        }
        world.run_for_ms(2 * PROPAGATION_MS);
        let list = get(&world, &clients[0], "/counters?values=1");
        for row in list["entries"].as_array().expect("rows") {
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
            let amount = i64::try_from(chance.below(1_000)).expect("it is small");
            let path = format!("/counters/a%2F{counter}");
            let delta = format!(r#"{{"delta":{amount},"unique":"{number}"}}"#);
            let taken = format!(r#"{{"delta":{amount}}}"#);
            let value = format!(r#"{{"value":{amount}}}"#);
            let home = r#"{"home":"SYD"}"#;
            let (method, rest, body) = match chance.below(9) {
                0 => ("PUT", "/value", value.as_str()),
                1 => ("PUT", "/value", r#"{"value":0}"#),
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
                    ("PUT", "/value") if body == value => Some((amount, counted)),
                    ("PUT", "/value") => Some((0, counted)),
                    (_, "/decrement") => Some((before - amount, counted)),
                    (_, "/increment") => Some((before + amount, counted + amount)),
                    _ => Some((before, counted)),
                };
            }
            if let (Some((value, _)), "/value") = (*held, rest) {
                // What the directory knew before is older than what was set.
                let list = get(
                    &world,
                    client,
                    &format!("/counters?values=1&prefix=a%2F{counter}"),
                );
                assert_eq!(list["entries"][0]["value"], value, "seed {seed}: {list}");
            }
            if chance.once_in(4) {
                world.run_for_ms(chance.below(20_000));
            }
        }
        world.run_for_ms(PROPAGATION_MS);
        let list = get(&world, &clients[0], "/counters?values=1&numbers=string");
        let rows: Vec<(String, i64, i64)> = list["entries"]
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
        assert_eq!(rows, expected, "seed {seed}");
    }
}

#[test]
fn what_nobody_has_reported_yet_is_null_and_no_zero() {
    let (world, sites) = service(11, Options::default());
    let client = client(&world, sites[0]);
    for (method, path, body) in [
        (
            "POST",
            "/counters/counted/increment",
            r#"{"delta":7,"unique":"a"}"#,
        ),
        ("PUT", "/counters/made", "{}"),
        ("PUT", "/counters/set/value", r#"{"value":5}"#),
    ] {
        world
            .run(ask(&client, method, path, body))
            .expect("no fault");
    }
    let row = |list: &Value, at: usize| {
        let row = &list["entries"][at];
        json!([row["id"], row["value"], row["count"], row["uniques"]])
    };
    let ranks = || {
        ["value", "count", "uniques", "count&window=today"].map(|by| {
            let top = get(&world, &client, &format!("/top?id=counted&by={by}"));
            let rank = &top["entries"][0];
            let measure = by.split('&').next().expect("a measure");
            json!([rank["rank"], rank[measure], rank["share"]])
        })
    };
    let list = get(&world, &client, "/counters?values=1");
    assert_eq!(
        row(&list, 0),
        json!(["counted", null, null, null]),
        "{list}"
    );
    assert_eq!(row(&list, 1), json!(["made", 0, 0, null]), "{list}");
    assert_eq!(row(&list, 2), json!(["set", 5, 0, null]), "{list}");
    assert!(list["entries"][0]["as_of"].is_i64(), "{list}");
    assert_eq!(list["exact"], false);
    assert_eq!(ranks(), [(); 4].map(|()| json!([null, null, null])));
    world.run_for_ms(PROPAGATION_MS);
    let list = get(&world, &client, "/counters?values=1");
    let uniques = &list["entries"][0]["uniques"];
    assert_eq!(row(&list, 0), json!(["counted", 7, 7, uniques]), "{list}");
    assert_eq!(uniques["estimate"], 1, "{list}");
    let [value, count, unique, today] = ranks();
    assert_eq!((&value[0], &value[1]), (&json!(1), &json!(7)));
    assert_eq!((&count[1], &today[1]), (&json!(7), &json!(7)));
    assert_eq!(unique[1]["estimate"], 1);
}

#[test]
fn a_list_names_the_partitions_that_are_missing_and_tells_the_rest() {
    let (world, sites) = service(3, Options::default());
    let client = client(&world, sites[0]);
    for number in 0..40 {
        let path = format!("/counters/page-{number}/increment");
        world.run(client.post(&path, "")).expect("no fault");
    }
    world.run_for_ms(PROPAGATION_MS);
    let whole = get(&world, &client, "/counters?values=1");
    assert_eq!(whole["entries"].as_array().map(Vec::len), Some(40));
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
        let rows = part["entries"].as_array().map_or(0, Vec::len);
        assert!((20..40).contains(&rows), "{part}");
    }
    lose_directory(&world);
    let none = world.run(client.get("/counters")).expect("an answer");
    assert_eq!(none.status, 503, "{}", none.text());
}

#[test]
fn what_was_written_is_told_within_ten_seconds_of_the_last_write() {
    let (world, [site, _]) = service(200, Options::default());
    let client = client(&world, site);
    // The last write comes at any time before and after the lead looks whether the counter is quiet.
    for writes in 1..=24 {
        let path = format!("/counters/a%2F{writes}/increment");
        for _ in 0..writes {
            world
                .run(ask(&client, "POST", &path, ""))
                .expect("an answer");
            world.run_for_ms(500);
        }
        world.run_for_ms(9_500);
        let list = get(
            &world,
            &client,
            &format!("/counters?values=1&prefix=a%2F{writes}"),
        );
        let rows = list["entries"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["id"] == format!("a/{writes}"));
        assert_eq!(row.map(|row| &row["value"]), Some(&writes.into()), "{list}");
    }
}

#[test]
fn unique_elements_are_told_however_many_there_are() {
    let (world, [site, _]) = service(201, Options::default());
    let client = client(&world, site);
    // Few are sent unasked; of more the directory says first which it has.
    let counts = [100_u64, 200, 5_000];
    let event = |unique: u64, count: u64| format!(r#"{{"id":"a/{count}","unique":"{unique}"}}"#);
    for count in counts {
        let events: Vec<String> = (0..count).map(|unique| event(unique, count)).collect();
        let body = format!("[{}]", events.join(","));
        world
            .run(ask(&client, "POST", "/events", &body))
            .expect("an answer");
    }
    world.run_for_ms(9_500);
    let list = get(&world, &client, "/counters?values=1&prefix=a%2F");
    for row in list["entries"].as_array().expect("rows") {
        let (count, estimate) = (row["count"].as_u64(), row["uniques"]["estimate"].as_u64());
        let off = count.unwrap_or(0).abs_diff(estimate.unwrap_or(0));
        assert!(off * 20 <= count.unwrap_or(0), "{list}");
    }
    let top = get(&world, &client, "/top?by=uniques&prefix=a%2F");
    let first: Vec<&str> = top["entries"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| row["id"].as_str())
        .collect();
    assert_eq!(first, ["a/5000", "a/200", "a/100"], "{top}");
}
