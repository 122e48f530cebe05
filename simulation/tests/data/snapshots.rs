//! Laws of snapshots: what they tell, and what a restore does.

use serde_json::{Value, json};
use tally_simulation::{ClientRequest, Faults};

use super::service::Service;

/// The day on which worlds begin is 2026-01-01; snapshots are made at its hours.
const DAY_MS: u64 = 86_400_000;
const HOUR_MS: u64 = 3_600_000;

fn add(service: &Service, id: &str, delta: u64) {
    let path = format!("/counters/{id}/increment");
    let key = format!("{id}-{}", service.world.now_ms());
    let body = json!({"delta": delta, "unique": format!("visitor {delta}")}).to_string();
    let answer = service.ask(0, "POST", &path, &body, Some(&key));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn make(service: &Service) -> Value {
    let answer = service.ask(0, "POST", "/snapshots", "", None);
    assert!(answer.status < 300, "{} {}", answer.status, answer.text());
    answer.json()
}

/// Waits until the directory has the totals, and then for a snapshot.
fn rest_and_make(service: &Service) -> Value {
    service.world.run_for_ms(70_000);
    make(service)
}

fn on(service: &Service, id: &str, day: &str) -> (u16, Value) {
    let path = format!("/counters/{id}?on={day}");
    let answer = service.world.run(service.clients[1].clone().get(&path));
    let answer = answer.expect("no fault");
    (answer.status, answer.json())
}

fn value_on(service: &Service, id: &str, day: &str) -> Value {
    let (status, answer) = on(service, id, day);
    assert_eq!(status, 200, "{answer}");
    answer["value"].clone()
}

fn restore(service: &Service, day: &str, body: Value, key: Option<&str>) -> Value {
    let path = format!("/snapshots/{day}/restore");
    let answer = service.ask(1, "POST", &path, &body.to_string(), key);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn strong(service: &Service, id: &str) -> Value {
    let path = format!("/counters/{id}?consistency=strong");
    service.ask(1, "GET", &path, "", None).json()["value"].clone()
}

/// A service with snapshots of three days. `likes` is 5, 6 and 100 in them, `idle` is 3, and `gone` is in the first
/// alone.
fn three_days() -> Service {
    let service = Service::with_bucket(1, None);
    let world = &service.world;
    world.run_for_ms(HOUR_MS);
    add(&service, "likes", 5);
    add(&service, "idle", 3);
    add(&service, "gone", 4);
    world.run_for_ms(DAY_MS);
    add(&service, "likes", 2);
    service.well(0, "POST", "/counters/likes/decrement", r#"{"delta":1}"#);
    service.well(0, "DELETE", "/counters/gone", "");
    world.run_for_ms(DAY_MS);
    service.well(0, "PUT", "/counters/likes/value", r#"{"value":100}"#);
    world.run_for_ms(DAY_MS);
    service
}

/// The field of each row.
fn each<'a>(rows: &'a Value, name: &str) -> Vec<&'a Value> {
    let rows = rows.as_array().expect("rows");
    rows.iter().map(|row| &row[name]).collect()
}

#[test]
fn a_snapshot_is_made_each_day_and_tells_what_was_so() {
    let service = three_days();
    for (day, likes) in [("2026-01-02", 5), ("2026-01-03", 6), ("2026-01-04", 100)] {
        assert_eq!(value_on(&service, "likes", day), likes, "{day}");
        assert_eq!(value_on(&service, "idle", day), 3, "{day}");
    }
    assert_eq!(value_on(&service, "gone", "2026-01-02"), 4);
    for (id, day, code) in [
        ("gone", "2026-01-03", "counter-not-found"),
        ("likes", "2025-12-31", "snapshot-not-found"),
    ] {
        let (status, none) = on(&service, id, day);
        assert_eq!((status, &none["code"]), (404, &json!(code)), "{none}");
    }

    // Between which writes it lies.
    let (_, answer) = on(&service, "likes", "2026-01-02");
    let (as_of, taken, updated) = (
        answer["as_of"].as_i64(),
        answer["taken_at"].as_i64(),
        answer["updated_at"].as_i64(),
    );
    assert!(
        updated <= as_of && as_of <= taken && updated > Some(0),
        "{answer}"
    );
    assert_eq!(answer["uniques"]["estimate"], 1, "{answer}");
    assert_eq!(
        answer["datacenters"],
        json!([{"id": "FRA", "value": 5}]),
        "{answer}"
    );

    // Days in one answer, with the operations of each.
    let (_, days) = on(&service, "likes", "2026-01-01..2026-01-04");
    let values: Vec<(&str, i64)> = days["days"]
        .as_array()
        .expect("days")
        .iter()
        .filter_map(|day| Some((day["date"].as_str()?, day["value"].as_i64()?)))
        .collect();
    assert_eq!(
        values,
        [("2026-01-02", 5), ("2026-01-03", 6), ("2026-01-04", 100)],
        "{days}"
    );
}

#[test]
fn counters_of_a_day_and_snapshots_are_listed() {
    let service = three_days();
    let list = |query: &str| service.well(0, "GET", &format!("/counters?{query}"), "");
    for (query, id, value) in [
        ("on=2026-01-03&limit=1", "idle", 3),
        ("on=2026-01-03&limit=1&cursor=idle", "likes", 6),
    ] {
        let page = list(query);
        let row = &page["entries"][0];
        assert_eq!(
            (&row["id"], &row["value"]),
            (&json!(id), &json!(value)),
            "{page}"
        );
        assert_eq!(page["cursor"].is_null(), id == "likes", "{page}");
    }
    let page = list("on=2026-01-02&prefix=g");
    assert_eq!(page["entries"].as_array().map(Vec::len), Some(1), "{page}");

    let all = service.well(0, "GET", "/snapshots", "");
    assert_eq!(
        each(&all["entries"], "date")[..3],
        ["2026-01-04", "2026-01-03", "2026-01-02"],
        "{all}"
    );
    let are_whole = each(&all["entries"], "complete");
    assert!(are_whole.iter().all(|whole| **whole == true), "{all}");
    let one = service.well(0, "GET", "/snapshots?date=2026-01-03", "")["entries"][0].clone();
    assert!(!one["runs"].as_array().expect("runs").is_empty(), "{one}");
    let none = service.well(0, "GET", "/snapshots?date=2026-01-09", "");
    assert_eq!(none["entries"], json!([]), "{none}");
    assert_eq!(
        (&one["changed"], &one["counters"]),
        (&json!(2), &json!(2)),
        "{one}"
    );
    for (path, status) in [
        ("/snapshots?date=monday", 400),
        ("/snapshots?date=2026-02-30", 400),
        ("/counters/likes?on=tomorrow", 400),
        ("/counters/likes?on=2026-01-09", 400),
        ("/counters/likes?on=2026-01-02&window=60", 400),
        ("/counters?on=2026-01-02..2026-01-03", 400),
    ] {
        let answer = service.ask(0, "GET", path, "", None);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
}

#[test]
fn what_a_counter_was_is_found_after_its_root_has_moved() {
    let service = Service::with_bucket(6, None);
    let ids: Vec<String> = (0..8).map(|number| format!("page-{number}")).collect();
    ids.iter().for_each(|id| add(&service, id, 5));
    rest_and_make(&service);
    service.world.set("TALLY_DIRECTORY_PARTITIONS", Some("64"));
    service.world.crash_all_objects();
    ids.iter().for_each(|id| add(&service, id, 2));
    service.world.run_for_ms(10_000);
    let day = "2026-01-01";
    for id in &ids {
        assert_eq!(value_on(&service, id, day), 5, "{id}");
        let (_, answer) = on(&service, id, &format!("{day}..{day}"));
        assert_eq!(answer["days"][0]["value"], 5, "{id}: {answer}");
    }
    let (status, none) = on(&service, "nobody", day);
    assert_eq!(
        (status, &none["code"]),
        (404, &json!("counter-not-found")),
        "{none}"
    );
}

#[test]
fn what_lies_with_partitions_that_were_taken_away_is_told() {
    let service = Service::with_bucket(7, None);
    let change = |partitions: &str| {
        service
            .world
            .set("TALLY_DIRECTORY_PARTITIONS", Some(partitions));
        service.world.crash_all_objects();
    };
    change("64");
    let ids: Vec<String> = (0..12).map(|number| format!("page-{number}")).collect();
    ids.iter().for_each(|id| add(&service, id, 5));
    rest_and_make(&service);
    service.world.run_for_ms(DAY_MS);
    // Roots move, and the numbers of before are forgotten.
    change("2");
    ids.iter().for_each(|id| add(&service, id, 2));
    service.world.run_for_ms(600_000);
    let day = "2026-01-01";
    for id in &ids {
        assert_eq!(value_on(&service, id, day), 5, "{id}");
    }
    let list = service.well(1, "GET", &format!("/counters?prefix=page-&on={day}"), "");
    let values: Vec<&Value> = (list["entries"].as_array().expect("a list").iter())
        .map(|counter| &counter["value"])
        .collect();
    assert_eq!(values, vec![&json!(5); 12], "{list}");
    let list = service.well(0, "GET", &format!("/snapshots?date={day}"), "");
    let one = &list["entries"][0];
    assert_eq!(
        (&one["counters"], &one["complete"]),
        (&json!(12), &json!(true)),
        "{one}"
    );
    // A counter that has left them since is not listed twice.
    let last = rest_and_make(&service);
    assert_eq!(
        (&last["counters"], &last["complete"]),
        (&json!(12), &json!(true)),
        "{last}"
    );
}

#[test]
fn runs_are_full_each_week_small_between_and_old_ones_go() {
    let service = Service::with_bucket(2, Some(4));
    service.world.set(
        "TALLY_SNAPSHOTS",
        Some(r#"{"hour":3,"full_every_days":7,"keep_days":10}"#),
    );
    let lines: String = (0..2_000)
        .map(|number| format!("{{\"id\":\"page/{number:05}\",\"value\":{number}}}\n"))
        .collect();
    service.import("", &lines, Some("fill"));
    let mut daily = Vec::new();
    for day in 0..40 {
        service.world.run_for_ms(DAY_MS);
        for number in 0..20 {
            add(&service, &format!("page%2F{:05}", 37 * number + day), 1);
        }
    }
    let all = service.well(0, "GET", "/snapshots", "");
    let some = all["entries"].as_array().expect("some");
    let full_bytes = some
        .iter()
        .filter(|one| one["full"] == true)
        .filter_map(|one| one["bytes"].as_u64())
        .max()
        .expect("one");
    for one in some {
        assert_eq!(
            (&one["complete"], &one["partitions"]),
            (&json!(true), &json!(16)),
            "{one}"
        );
        if one["full"] == false {
            daily.push(one["bytes"].as_u64().expect("bytes"));
        }
    }
    // 16 files of a counter or two each: most of it is what each file has once.
    assert!(
        daily.iter().all(|bytes| 10 * bytes <= 2 * full_bytes),
        "{daily:?} of {full_bytes}"
    );
    let fulls = some.iter().filter(|one| one["full"] == true).count();
    // 10 days and what their chains need, and the first of January.
    assert!(
        (11..=17).contains(&some.len()) && fulls >= 2,
        "{} {fulls} {all}",
        some.len()
    );
    assert_eq!(some.last().expect("one")["date"], "2026-01-01", "{all}");
    assert_eq!(value_on(&service, "page%2F01234", "2026-02-08"), 1234);
    // Files of those that went are gone.
    service.world.run_for_ms(HOUR_MS);
    let runs = service
        .world
        .files()
        .iter()
        .filter(|name| name.contains("/runs/"))
        .count();
    assert_eq!(runs, 16 * some.len());
}

/// A service with a snapshot of four counters, in which everything went wrong afterwards.
fn gone_wrong() -> Service {
    let service = Service::with_bucket(3, None);
    for (id, delta) in [
        ("page%2Fa", 5),
        ("page%2Fb", 7),
        ("page%2Fc", 9),
        ("other", 1),
    ] {
        add(&service, id, delta);
    }
    service.well(0, "PUT", "/counters/page%2Fb", r#"{"floor":2}"#);
    rest_and_make(&service);
    add(&service, "page%2Fa", 1_000);
    service.well(0, "PUT", "/counters/page%2Fb", r#"{"floor":-5}"#);
    service.well(0, "PUT", "/counters/page%2Fb/value", r#"{"value":-4}"#);
    service.well(0, "DELETE", "/counters/page%2Fc", "");
    add(&service, "other", 50);
    add(&service, "page%2Fnew", 3);
    service
}

#[test]
fn a_restore_does_what_it_says_once_and_keeps_what_is_counted_meanwhile() {
    let service = gone_wrong();
    let body = json!({"prefix": "page/", "mode": "replace", "dry_run": true});
    let would = restore(&service, "2026-01-01", body, None);
    assert_eq!(
        (&would["counters"], &would["created"], &would["set"]),
        (&json!(3), &json!(1), &json!(2)),
        "{would}"
    );
    assert_eq!(
        would["changes"],
        json!([
            {"id": "page/a", "action": "set", "now": 1005, "then": 5},
            {"id": "page/b", "action": "set", "now": -4, "then": 7},
            {"id": "page/c", "action": "create", "now": null, "then": 9},
        ]),
        "{would}"
    );
    assert_eq!(
        strong(&service, "page%2Fa"),
        1005,
        "a dry run changes nothing"
    );

    let body = json!({"prefix": "page/", "mode": "replace"});
    let mut did = restore(&service, "2026-01-01", body.clone(), Some("once"));
    did["dry_run"] = json!(true);
    assert_eq!(did, would);
    for (id, value) in [
        ("page%2Fa", 5),
        ("page%2Fb", 7),
        ("page%2Fc", 9),
        ("other", 51),
        ("page%2Fnew", 3),
    ] {
        assert_eq!(strong(&service, id), value, "{id}");
    }
    let line = service.export("?prefix=page/b");
    assert!(line.contains(r#""floor":2"#), "{line}");
    let read = service.well(0, "GET", "/counters/page%2Fc?consistency=strong", "");
    assert_eq!(read["uniques"]["estimate"], 1, "{read}");

    // Twice is once, and what was counted since stays.
    add(&service, "page%2Fa", 2);
    add(&service, "page%2Fc", 2);
    let path = "/snapshots/2026-01-01/restore";
    let again = service.ask(1, "POST", path, &body.to_string(), Some("once"));
    assert_eq!(
        (strong(&service, "page%2Fa"), strong(&service, "page%2Fc")),
        (json!(7), json!(11))
    );
    // It tells what it changed: nothing.
    let answer = again.json();
    assert_eq!(
        again.header("idempotency-replayed"),
        Some("true"),
        "{answer}"
    );
    assert_eq!(
        ["created", "set", "unchanged", "left"].map(|name| &answer[name]),
        [0, 0, 1, 2].map(|count| json!(count)).each_ref(),
        "{answer}"
    );
    assert_eq!(answer["changes"], json!([]), "{answer}");
}

#[test]
fn a_restore_may_create_only_what_is_gone_or_add() {
    let service = gone_wrong();
    let restored = |mode: &str, prefix: &str, key: &str| {
        let body = json!({"mode": mode, "prefix": prefix});
        restore(&service, "2026-01-01", body, Some(key))
    };
    restored("replace", "page/", "once");
    let left = restored("create", "", "create");
    assert_eq!(
        (&left["left"], &left["created"]),
        (&json!(4), &json!(0)),
        "{left}"
    );
    for _ in 0..2 {
        restored("add", "other", "add");
    }
    assert_eq!(strong(&service, "other"), 52);
    // Also where the first of two creates it.
    service.well(0, "DELETE", "/counters/other", "");
    for _ in 0..2 {
        restored("add", "other", "anew");
    }
    assert_eq!(strong(&service, "other"), 1);
}

#[test]
fn a_restore_goes_page_by_page_and_what_it_cannot_do_is_refused() {
    let service = gone_wrong();
    for (body, cursor, counters) in [
        (
            json!({"dry_run": true, "limit": 3}),
            json!("restore.page/b"),
            3,
        ),
        (
            json!({"dry_run": true, "cursor": "restore.page/b"}),
            Value::Null,
            1,
        ),
    ] {
        let page = restore(&service, "2026-01-01", body, None);
        assert_eq!(
            (&page["counters"], &page["cursor"]),
            (&json!(counters), &cursor),
            "{page}"
        );
    }
    for (day, body, status) in [
        ("2026-01-01", r#"{"mode":"undo"}"#, 400),
        ("2026-01-01", r#"{"dry":true}"#, 400),
        ("2026-01-01", r#"{"limit":0}"#, 400),
        ("2025-01-01", "", 404),
    ] {
        let path = format!("/snapshots/{day}/restore");
        let answer = service.ask(0, "POST", &path, body, None);
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
    }
}

#[test]
fn files_alone_bring_everything_back_into_an_empty_deployment() {
    let from = Service::with_bucket(4, None);
    from.fill(12, Faults::NONE);
    from.world.run_for_ms(70_000);
    make(&from);
    let day = "2026-01-01";
    let answer = from.well(0, "GET", &format!("/counters?on={day}&limit=1000"), "");
    let to = Service::with_bucket(104, Some(4));
    for name in from.world.files() {
        to.world.put_file(&name, from.world.file(&name));
    }
    to.world
        .run_for_ms(u64::try_from(from.world.now_ms() - to.world.now_ms()).expect("later"));
    assert_eq!(
        to.well(0, "GET", &format!("/counters?on={day}&limit=1000"), ""),
        answer
    );
    let did = restore(&to, day, json!({}), Some("back"));
    assert_eq!(
        (&did["created"], &did["rejected"]),
        (&json!(18), &json!(0)),
        "{did}"
    );
    // What exports and reads tell of both. Unique elements are those of the counter, in whichever datacenter.
    let lines = |service: &Service| -> Vec<Value> {
        let file = service.export("");
        let lines = file
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        lines
            .filter(|line: &Value| line["id"].is_string())
            .collect()
    };
    let uniques = |service: &Service, id: &str| {
        let path = format!("/counters/{}?consistency=strong", id.replace('/', "%2F"));
        service.well(0, "GET", &path, "")["uniques"].clone()
    };
    let (ours, theirs) = (lines(&from), lines(&to));
    assert_eq!(ours, theirs);
    for line in &ours {
        let id = line["id"].as_str().expect("a name");
        assert_eq!(uniques(&from, id), uniques(&to, id), "{id}");
    }
    // The next run there is a full one: what its marks say is not known.
    to.world.run_for_ms(DAY_MS);
    let next = to.well(0, "GET", "/snapshots", "");
    assert_eq!(next["entries"][0]["full"], true, "{next}");
}

#[test]
fn an_empty_deployment_makes_no_snapshot_in_the_place_of_one_that_it_has_not_restored() {
    let from = Service::with_bucket(9, None);
    add(&from, "likes", 5);
    rest_and_make(&from);
    let day = "2026-01-01";
    let to = Service::with_bucket(109, None);
    for name in from.world.files() {
        to.world.put_file(&name, from.world.file(&name));
    }
    // A partition looks for files when it is asked first.
    assert_eq!(value_on(&to, "likes", day), 5);
    // Beyond the hour in which snapshots are made by themselves.
    to.world.run_for_ms(2 * HOUR_MS);
    assert_eq!(value_on(&to, "likes", day), 5);
    let did = restore(&to, day, json!({}), Some("back"));
    assert_eq!(did["created"], 1, "{did}");
    // With counters it makes its own again.
    to.world.run_for_ms(DAY_MS);
    assert_eq!(value_on(&to, "likes", "2026-01-02"), 5);
}

#[test]
fn files_of_more_partitions_than_an_empty_deployment_has_come_back_whole() {
    let from = Service::with_bucket(8, None);
    from.world.set("TALLY_DIRECTORY_PARTITIONS", Some("32"));
    // After the hour in which snapshots are made by themselves: none of an empty deployment takes the place of these.
    from.world.run_for_ms(2 * HOUR_MS);
    let ids: Vec<String> = (0..40).map(|number| format!("page-{number:02}")).collect();
    let lines = ids
        .iter()
        .map(|id| format!("{{\"id\":\"{id}\",\"value\":5}}\n"));
    from.import("", &lines.collect::<String>(), Some("fill"));
    let answer = rest_and_make(&from);
    assert_eq!(
        (&answer["partitions"], &answer["counters"]),
        (&json!(32), &json!(40)),
        "{answer}"
    );
    let day = "2026-01-01";
    for partitions in [None, Some("5")] {
        let to = Service::with_bucket(108, None);
        to.world.set("TALLY_DIRECTORY_PARTITIONS", partitions);
        for name in from.world.files() {
            to.world.put_file(&name, from.world.file(&name));
        }
        let ahead_ms = from.world.now_ms() - to.world.now_ms();
        to.world.run_for_ms(u64::try_from(ahead_ms).expect("later"));
        // Each partition finds by itself what was elsewhere.
        for id in &ids {
            assert_eq!(value_on(&to, id, day), 5, "{id} {partitions:?}");
        }
        let list = to.well(1, "GET", &format!("/counters?prefix=page-&on={day}"), "");
        assert_eq!(each(&list["entries"], "value"), vec![5; 40], "{list}");
        let did = restore(&to, day, json!({}), Some("back"));
        assert_eq!(did["created"], 40, "{partitions:?} {did}");
        let list = to.well(0, "GET", &format!("/snapshots?date={day}"), "");
        let one = &list["entries"][0];
        assert_eq!(
            ["counters", "complete"].map(|name| &one[name]),
            [&json!(40), &json!(true)],
            "{partitions:?} {one}"
        );
        // Also after all has been read from the databases again.
        to.world.crash_all_objects();
        assert!(ids.iter().all(|id| value_on(&to, id, day) == 5));
    }
}

#[test]
fn a_damaged_or_missing_file_is_named_and_refused() {
    let service = Service::with_bucket(5, None);
    add(&service, "likes", 5);
    rest_and_make(&service);
    let parts: Vec<String> = service
        .world
        .files()
        .into_iter()
        .filter(|name| name.contains("/parts/"))
        .collect();
    let [part] = parts.as_slice() else {
        panic!("{parts:?}")
    };
    let whole = service.world.file(part).expect("a file");
    let once = |method: &str, path: &str| {
        let request = ClientRequest::new(method, path);
        let answer = service.world.run(service.clients[0].ask(request));
        let answer = answer.expect("an answer");
        (answer.status, answer.text())
    };
    for bit in [0, 8 * 3, 8 * (whole.len() - 1)] {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        service.world.put_file(part, Some(changed));
        for path in ["/counters/likes?on=2026-01-01", "/counters?on=2026-01-01"] {
            let (status, body) = once("GET", path);
            assert_eq!(status, 503, "{path}: {body}");
            assert!(
                body.contains("damaged") && body.contains(part.as_str()),
                "{body}"
            );
        }
    }
    service.world.put_file(part, None);
    let (status, body) = once("GET", "/counters/likes?on=2026-01-01");
    assert!(status == 503 && body.contains("missing"), "{body}");
    let (status, body) = once("POST", "/snapshots/2026-01-01/restore");
    assert_eq!(status, 503, "{body}");
    let (status, body) = once("GET", "/healthz");
    assert!(status == 503 && body.contains(part.as_str()), "{body}");
    let (_, metrics) = once("GET", "/metrics");
    assert!(
        !metrics.contains("\ntally_unreadable_total 0\n")
            || !metrics.contains("\ntally_objects_unreadable_total 0\n")
    );
    service.world.put_file(part, Some(whole));
    assert_eq!(value_on(&service, "likes", "2026-01-01"), 5);
}

#[test]
fn without_a_place_for_files_it_is_said_what_is_missing() {
    let service = Service::new(6, None);
    add(&service, "likes", 5);
    let answer = service
        .world
        .run(service.clients[0].clone().post("/snapshots", ""))
        .expect("an answer");
    assert!(
        answer.status == 503 && answer.text().contains("TALLY_SNAPSHOTS_BUCKET"),
        "{}",
        answer.text()
    );
    let (status, body) = on(&service, "likes", "2026-01-01");
    assert_eq!((status, &body["code"]), (404, &json!("snapshot-not-found")));
}

#[test]
fn a_dry_run_refuses_what_the_restore_refuses() {
    let service = Service::with_bucket(6, None);
    // The snapshot that is made by itself on that day.
    service.world.run_for_ms(2 * HOUR_MS);
    for id in ["ends", "hashed", "stays"] {
        add(&service, id, 5);
    }
    service.well(0, "PUT", "/counters/ends", r#"{"ttl_seconds":86400}"#);
    rest_and_make(&service);
    service.well(0, "DELETE", "/counters/hashed", "");
    service.well(0, "PUT", "/counters/hashed", r#"{"unique_hash":"redis"}"#);
    add(&service, "hashed", 1);
    service.world.run_for_ms(DAY_MS);
    let [would, did] = [true, false].map(|is_dry| {
        let body = json!({"mode": "replace", "dry_run": is_dry});
        restore(&service, "2026-01-01", body, None)
    });
    let codes = |answer: &Value| -> Vec<(String, String)> {
        let refused = answer["refused"].as_array().expect("a list");
        let texts = refused
            .iter()
            .map(|one| (one["id"].to_string(), one["code"].to_string()));
        texts.collect()
    };
    let pair = |id: &str, code: &str| (format!("{id:?}"), format!("{code:?}"));
    let expected = vec![
        pair("ends", "invalid-line"),
        pair("hashed", "hash-mismatch"),
    ];
    assert_eq!(codes(&would), expected, "{would}");
    assert_eq!(codes(&did), expected, "{did}");
}

#[test]
fn a_key_names_one_restore_and_a_cursor_is_one_that_was_given() {
    let service = Service::with_bucket(1, None);
    service.world.run_for_ms(HOUR_MS);
    add(&service, "likes", 5);
    rest_and_make(&service);
    add(&service, "likes", 1);
    let ask = |body: Value| {
        let path = "/snapshots/2026-01-01/restore";
        service.ask(1, "POST", path, &body.to_string(), Some("key"))
    };
    // A day without a snapshot leaves the key free.
    let (absent, whole) = ("/snapshots/2020-01-01/restore", r#"{"mode":"replace"}"#);
    assert_eq!(
        service.ask(1, "POST", absent, whole, Some("key")).status,
        404
    );
    assert_eq!(ask(json!({"mode": "replace"})).status, 200);
    assert_eq!(strong(&service, "likes"), 5);
    for other in [
        json!({"mode": "add"}),
        json!({"mode": "replace", "prefix": "li"}),
    ] {
        let refused = ask(other);
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert_eq!(refused.json()["code"], "idempotency-key-reused");
    }
    assert_eq!(strong(&service, "likes"), 5);
    assert_eq!(ask(json!({"mode": "replace"})).status, 200);
    // A cursor names its list, and continues within the prefix.
    for cursor in ["", "zz/", "likes/a", "restore.", "restore.zz", "\u{7f}"] {
        let body = json!({"prefix": "likes/", "cursor": cursor}).to_string();
        let refused = service.ask(1, "POST", "/snapshots/2026-01-01/restore", &body, None);
        assert_eq!(refused.status, 400, "{cursor:?} {}", refused.text());
        assert_eq!(refused.json()["code"], "invalid-body", "{cursor:?}");
    }
}
