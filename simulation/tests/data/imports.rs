//! Laws of what imports refuse, and of what a repeat does.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Value, json};
use tally_simulation::{Client, ClientRequest, Verdict};

use super::service::Service;

const BOARD: &str = "{\"board\":\"game\",\"settings\":{\"keep\":\"sum\"}}\n";
const POLICY: &str = "{\"policy\":\"p\",\"body\":{\"limit\":5,\"window_seconds\":60}}\n";

/// What deliveries of alerts are signed with.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn member(name: &str, score: u32) -> String {
    format!("{{\"board\":\"game\",\"member\":\"{name}\",\"score\":{score}}}\n")
}

fn score(service: &Service, name: &str) -> Value {
    let path = format!("/boards/game/members/{name}");
    let answer = service.ask(0, "GET", &path, "", None);
    match answer.status {
        200 => answer.json()["score"].clone(),
        _ => Value::Null,
    }
}

fn refusal(report: &Value) -> &str {
    report["refused"][0]["code"].as_str().unwrap_or("none")
}

#[test]
fn metadata_of_a_member_makes_no_line_of_its_own() {
    let service = Service::new(1, None);
    let nasty = "{\"score\":1,\"metadata\":[ \"a b\\n\\\" \",\n{\"id\":\"victim\",\"value\":1000000}\r\n,1]}";
    let answer = service.ask(0, "POST", "/boards/inj/members/eve", nasty, None);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let file = service.export("?prefix=inj");
    assert_eq!(file.lines().count(), 3, "{file}");
    let whole = r#""metadata":["a b\n\" ",{"id":"victim","value":1000000},1]"#;
    assert!(file.contains(whole), "{file}");
    let rows = service
        .ask(0, "GET", "/boards/inj/members?format=ndjson", "", None)
        .text();
    assert_eq!(rows.lines().count(), 1, "{rows}");
    let report = service.import("?mode=replace", &file, None);
    assert_eq!(
        (&report["counters"], &report["members"]),
        (&0.into(), &1.into()),
        "{report}"
    );

    for half in [
        r#""\ud800""#,
        r#"["\udc00"]"#,
        r#""\ud800x\udc00""#,
        r#""\ud800\n""#,
    ] {
        let body = format!("{{\"score\":1,\"metadata\":{half}}}");
        let answer = service.ask(0, "POST", "/boards/inj/members/eve", &body, None);
        assert_eq!(answer.status, 400, "{half}: {}", answer.text());
    }
    let whole = r#"{"score":1,"metadata":"\ud83d\ude00 \\ud800"}"#;
    service.well(0, "POST", "/boards/inj/members/eve", whole);
}

#[test]
fn a_board_that_is_there_is_not_written_into_by_create() {
    let service = Service::new(2, None);
    service.import("", &(BOARD.to_owned() + &member("ann", 1)), Some("first"));
    for key in [None, Some("fresh"), Some("fresh")] {
        let file = BOARD.to_owned() + &member("bob", 2);
        let report = service.import("", &file, key);
        assert_eq!(
            (refusal(&report), &report["members"]),
            ("already-exists", &0.into()),
            "{report}"
        );
        let report = service.import("", &member("bob", 2), key);
        assert_eq!(
            (refusal(&report), &report["members"]),
            ("invalid-line", &0.into()),
            "{report}"
        );
        assert_eq!(score(&service, "bob"), Value::Null);
    }
    let report = service.import("?mode=add", &member("bob", 2), Some("more"));
    assert_eq!(report["members"], 1, "{report}");
}

#[test]
fn a_repeat_under_a_key_finishes_a_board_and_deletes_nothing() {
    for mode in ["create", "replace", "add"] {
        let service = Service::new(3, None);
        let query = format!("?mode={mode}");
        if mode != "create" {
            service.import("", &(BOARD.to_owned() + &member("zoe", 9)), None);
        }
        let file = BOARD.to_owned() + &member("ann", 1) + &member("bob", 2);
        for turn in 0..3 {
            let (report, is_replay) = service.import_again(&query, &file, Some("once"));
            assert_eq!(
                (&report["members"], &report["boards"]),
                (&2.into(), &1.into()),
                "{mode}: {report}"
            );
            assert_eq!(is_replay, turn > 0, "{mode}");
            assert_eq!(score(&service, "ann"), 1, "{mode}");
            let late = format!("/boards/game/members/late{turn}");
            service.well(0, "POST", &late, r#"{"delta":5}"#);
        }
        for turn in 0..3 {
            assert_eq!(score(&service, &format!("late{turn}")), 5, "{mode}");
        }
        let zoe = if mode == "add" { json!(9) } else { Value::Null };
        assert_eq!(score(&service, "zoe"), zoe, "{mode}");
        // Another key replaces it anew; and what was deleted since does not come back by the first.
        if mode == "replace" {
            service.import(&query, &file, Some("twice"));
            assert_eq!(score(&service, "late0"), Value::Null);
        }
        service.well(0, "DELETE", "/boards/game", "");
        let report = service.import(&query, &file, Some("once"));
        assert_eq!(
            (&report["members"], refusal(&report)),
            (&0.into(), "board-ended"),
            "{mode}: {report}"
        );
        assert_eq!(score(&service, "ann"), Value::Null, "{mode}");
        let board = service.ask(0, "GET", "/boards/game", "", None);
        assert_eq!(board.status, 404, "{mode}: {}", board.text());
    }
}

/// Sends a gzipped body that breaks off behind a text; returns before which line it is said to have been imported.
fn cut_off_at(service: &Service, query: &str, text: &str, key: Option<&str>) -> u32 {
    let mut body = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    // Stored blocks of deflate, and one of no known kind.
    for block in text.as_bytes().chunks(60_000) {
        let length = u16::try_from(block.len())
            .expect("a short block")
            .to_le_bytes();
        body.extend([0, length[0], length[1], !length[0], !length[1]]);
        body.extend(block);
    }
    body.extend([7; 8]);
    let mut request = ClientRequest::new("POST", format!("/import{query}"))
        .body(body)
        .header("content-encoding", "gzip");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let client = service.clients[0].clone();
    let answer = service.world.run(client.ask(request)).expect("an answer");
    assert_eq!(answer.status, 400, "{}", answer.text());
    let problem = answer.json();
    let detail = problem["detail"].as_str().unwrap_or_default();
    let before = detail
        .split("the lines before line ")
        .nth(1)
        .expect("a line");
    let line = before.split(' ').next().and_then(|text| text.parse().ok());
    line.expect("its number")
}

/// Asks these, one after the other, once a message of this path is first sent, and before it arrives.
fn ask_before(service: &Service, path: &'static str, requests: Vec<ClientRequest>) {
    let (client, requests) = (service.clients[0].clone(), Cell::new(requests));
    let requests = Rc::new(requests);
    service.world.set_judge(move |judged| {
        let (client, requests) = (client.clone(), requests.clone());
        Box::pin(async move {
            if judged.path.ends_with(path) {
                for request in requests.take() {
                    let answer = client.ask(request).await.expect("an answer");
                    assert!(answer.status < 300, "{}", answer.text());
                }
            }
            Verdict::Answered
        })
    });
}

fn request(method: &str, path: &str, body: &str) -> ClientRequest {
    ClientRequest::new(method, path).body(body.as_bytes().to_vec())
}

#[test]
fn two_attempts_at_once_to_replace_a_board_delete_nothing_of_each_other() {
    for settings in ["{}", r#"{"shards":4,"home":"SYD"}"#] {
        let service = Service::new(19, None);
        service.well(0, "PUT", "/boards/game", settings);
        service.well(0, "POST", "/boards/game/members/zoe", r#"{"score":9}"#);
        let file = BOARD.to_owned() + &member("ann", 1) + &member("bob", 2);
        let other = request("POST", "/import?mode=replace", &file);
        let late = request("POST", "/boards/game/members/late", r#"{"delta":5}"#);
        ask_before(
            &service,
            "/board-end",
            vec![other.header("idempotency-key", "once"), late],
        );
        let (report, is_replay) = service.import_again("?mode=replace", &file, Some("once"));
        assert_eq!(
            (&report["members"], is_replay),
            (&2.into(), true),
            "{report}"
        );
        for (name, expected) in [("ann", 1), ("bob", 2), ("late", 5)] {
            assert_eq!(score(&service, name), expected, "{name}");
        }
        assert_eq!(score(&service, "zoe"), Value::Null);
    }
}

#[test]
fn a_board_that_somebody_makes_meanwhile_stays_theirs() {
    for (mode, key, has_ended) in [
        ("create", None, false),
        ("create", Some("once"), false),
        ("create", Some("once"), true),
        ("replace", Some("once"), true),
        ("replace", None, false),
    ] {
        let service = Service::new(20, None);
        let query = format!("?mode={mode}");
        let file = BOARD.to_owned() + &member("ann", 1);
        if has_ended {
            service.import(&query, &file, key);
            service.well(0, "DELETE", "/boards/game", "");
        }
        let made = request("PUT", "/boards/game", r#"{"keep":"sum"}"#);
        let zoe = request("POST", "/boards/game/members/zoe", r#"{"delta":9}"#);
        ask_before(&service, "/board-configure", vec![made, zoe]);
        let report = service.import(&query, &file, key);
        let expected = if has_ended {
            "board-ended"
        } else {
            "already-exists"
        };
        assert_eq!(
            (refusal(&report), &report["members"]),
            (expected, &0.into()),
            "{mode}: {report}"
        );
        assert_eq!(
            (score(&service, "zoe"), score(&service, "ann")),
            (json!(9), Value::Null),
            "{mode}"
        );
    }
}

#[test]
fn a_line_that_is_too_long_behind_the_last_one_is_told() {
    let service = Service::new(21, None);
    let file = service.export("");
    let report = service.import("", &(file + &"x".repeat((4 << 20) + 1)), None);
    let report = (&report["complete"], &report["lines"], &report["rejected"]);
    assert_eq!(report, (&false.into(), &1.into(), &1.into()));
}

#[test]
fn a_body_that_breaks_off_says_up_to_where_it_was_imported() {
    let service = Service::new(4, None);
    let line = |number: u32| format!("{{\"id\":\"part/{number:04}\",\"value\":5}}\n");
    let text: String = (0..300).map(line).collect();
    let line = cut_off_at(&service, "", &text, None);
    assert!(line > 64, "{line}");
    let file = service.export("?format=csv");
    assert_eq!(
        file.matches("part/").count(),
        usize::try_from(line - 1).expect("few")
    );
}

#[test]
fn a_repeat_of_a_body_that_broke_off_imports_all_members() {
    let names: Vec<String> = (0..2_300).map(|number| format!("m{number:04}")).collect();
    let lines: Vec<String> = names.iter().map(|name| member(name, 1)).collect();
    let file = BOARD.to_owned() + &lines[..300].concat() + POLICY + &lines[300..].concat();
    for mode in ["create", "replace", "add"] {
        let service = Service::new(17, None);
        let query = format!("?mode={mode}");
        // Unfinished groups of members are not written: the first, the second, and that with 1,000 lines before it.
        for (lines, before) in [(280, 2), (700, 303), (2_200, 1_303)] {
            let text: String = file.split_inclusive('\n').take(lines).collect();
            let line = cut_off_at(&service, &query, &text, Some("once"));
            assert_eq!(line, before, "{mode}");
            let read = service.well(0, "GET", "/boards/game", "");
            assert_eq!(
                read["total"],
                before - if before > 2 { 3 } else { 2 },
                "{mode}"
            );
        }
        for turn in 0..2 {
            let (report, is_replay) = service.import_again(&query, &file, Some("once"));
            assert_eq!(
                (&report["members"], is_replay),
                (&2_300.into(), turn > 0),
                "{mode}: {report}"
            );
            let rows = service
                .ask(0, "GET", "/boards/game/members?format=ndjson", "", None)
                .text();
            assert_eq!(rows.matches("\"score\":1").count(), 2_300, "{mode}");
        }
    }
    // Without a key there is no repeat: what has come is written.
    let service = Service::new(17, None);
    let text = BOARD.to_owned() + &lines[..280].concat();
    let line = cut_off_at(&service, "", &text, None);
    let read = service.well(0, "GET", "/boards/game", "");
    assert_eq!(read["total"], line - 2);
}

#[test]
fn a_repeat_is_one_whatever_has_expired_since() {
    let service = Service::new(18, None);
    let soon = service.world.now_ms() + 60_000;
    let line = |name: &str, more: &str| {
        format!("{{\"board\":\"game\",\"member\":\"{name}\",\"score\":2{more}}}\n")
    };
    let brief = line("brief", &format!(",\"expires_at\":{soon},\"hidden\":true"));
    let others: String = (0..1_200)
        .map(|number| line(&format!("m{number:04}"), ""))
        .collect();
    let file = BOARD.to_owned() + &brief + &others;
    service.import("?mode=add", &file, Some("once"));
    service.world.run_for_ms(120_000);
    let (report, is_replay) = service.import_again("?mode=add", &file, Some("once"));
    assert!(is_replay, "{report}");
    let rows = service
        .ask(0, "GET", "/boards/game/members?format=ndjson", "", None)
        .text();
    assert_eq!(rows.matches("\"score\":2").count(), 1_200, "{rows}");
    // A group of which all have expired is one of no writes.
    let file = BOARD.to_owned() + &brief + POLICY;
    let report = service.import("?mode=add", &(file + &line("late", "")), Some("more"));
    assert_eq!(
        (&report["members"], &report["rejected"]),
        (&1.into(), &0.into()),
        "{report}"
    );
}

#[test]
fn a_line_is_refused_by_its_name_before_it_changes_anything() {
    let service = Service::new(5, None);
    service.import("", "{\"id\":\"k1\",\"value\":7}\n", None);
    let two = json!({"id": "k1", "settings": {"floor": 0}, "datacenters": [
        {"id": "FRA", "added": 1}, {"id": "SYD", "added": 2}]});
    let late = json!({"id": "k1", "datacenters": [{"id": "FRA", "added": 1, "hours": [[9_999_999_600_000_i64, 1]]}]});
    let more = json!({"id": "k1", "datacenters": [{"id": "FRA", "added": 1,
        "breakdowns": {"country": {"values": [["DE", 1, 0]], "rest": 1}}}]});
    for (line, code, name) in [
        (two, "needs-home", json!("k1")),
        (
            json!({"id": "k1", "settings": {"floor": 5}, "value": 3}),
            "below-floor",
            json!("k1"),
        ),
        (late, "invalid-line", json!("k1")),
        (
            json!({"id": "k1", "created_at": -1}),
            "invalid-body",
            json!("k1"),
        ),
        (more, "invalid-line", json!("k1")),
        (
            json!({"policy": "p", "body": {"limit": 5, "window_seconds": 60}, "x": 1}),
            "unknown-field",
            json!("p"),
        ),
        (
            json!({"board": "b", "settings": {}, "x": 1}),
            "unknown-field",
            json!("b"),
        ),
        (
            json!({"alert": "a", "body": {}, "x": 1}),
            "unknown-field",
            json!("a"),
        ),
    ] {
        let report = service.import("?mode=replace", &format!("{line}\n"), None);
        assert_eq!(
            (refusal(&report), &report["refused"][0]["id"]),
            (code, &name),
            "{report}"
        );
        assert!(service.export("?format=csv").contains("k1,7,"));
    }
}

#[test]
fn a_file_is_whole_by_its_bytes_and_not_by_what_is_refused() {
    let from = Service::new(6, None);
    from.import(
        "",
        "{\"id\":\"a\",\"value\":1}\n{\"id\":\"b\",\"value\":2}\n",
        None,
    );
    from.well(0, "PUT", "/counters/t", r#"{"ttl_seconds":100}"#);
    let file = from.export("");
    let to = Service::new(106, None);
    to.world.run_for_ms(3_600_000);
    let report = to.import("?mode=replace", &file, None);
    assert_eq!(
        (&report["complete"], &report["rejected"]),
        (&true.into(), &1.into()),
        "{report}"
    );
    for (text, whole) in [
        (format!("\u{feff}{file}"), true),
        (file.replace('\n', "\r\n"), true),
        (format!("{file}{{\"id\":\"c\",\"value\":3}}\n"), false),
        (format!("{file}{file}"), false),
        (file.replacen("\"b\"", "\"c\"", 1), false),
    ] {
        let report = to.import("?mode=replace", &text, None);
        assert_eq!(report["complete"], whole, "{report}");
    }
}

#[test]
fn numbers_of_any_size_come_back_from_either_form() {
    let from = Service::new(7, None);
    let much = "340282366920938463463374607431768211455";
    let line = json!({"id": "wide", "datacenters": [{"id": "FRA", "added": much, "removed": 1,
        "hours": [[1_767_225_600_000_i64, "9007199254740993"]],
        "breakdowns": {"country": {"values": [["DE", much, "0"]]}}}]});
    from.import("", &format!("{line}\n"), None);
    for _ in 0..3 {
        let more = format!("{{\"id\":\"wide\",\"value\":{much}}}\n");
        assert_eq!(from.import("?mode=add", &more, None)["counters"], 1);
    }
    from.import(
        "",
        &format!("{{\"id\":\"low\",\"datacenters\":[{{\"id\":\"FRA\",\"removed\":{much}}}]}}\n"),
        None,
    );
    from.import(
        "?mode=add",
        &format!("{{\"id\":\"low\",\"value\":-{much}}}\n"),
        None,
    );
    for query in ["?history=1", "?history=1&numbers=string"] {
        let file = from.export(query);
        assert!(
            file.contains("1361129467683753853853498429727072845819"),
            "{file}"
        );
        let is_text = query.contains("string");
        assert_eq!(
            file.contains("[1767225600000,\"9007199254740993\"]"),
            is_text,
            "{file}"
        );
        assert_eq!(
            file.contains(&format!("[\"DE\",\"{much}\",0]")),
            is_text,
            "{file}"
        );
        let to = Service::new(107, None);
        let ahead_ms = from.world.now_ms() - to.world.now_ms();
        to.world.run_for_ms(u64::try_from(ahead_ms).unwrap_or(0));
        let report = to.import("", &file, None);
        assert_eq!(
            (&report["rejected"], &report["complete"]),
            (&0.into(), &true.into()),
            "{report}"
        );
        assert_eq!(to.export(query), file);
    }
}

#[test]
fn times_that_have_not_come_are_times_of_now() {
    let service = Service::new(8, None);
    let far = i64::MAX;
    let line = json!({"id": "t", "settings": {"ttl_seconds": 1000}, "ttl_set_at": far, "created_at": far,
        "datacenters": [{"id": "FRA", "added": 1, "updated_at": far}]});
    let report = service.import("", &format!("{line}\n"), None);
    assert_eq!(report["counters"], 1, "{report}");
    let now = service.world.now_ms();
    let file = service.export("");
    let line: Value = serde_json::from_str(file.lines().next().expect("a line")).expect("JSON");
    for time in [
        &line["ttl_set_at"],
        &line["created_at"],
        &line["datacenters"][0]["updated_at"],
    ] {
        assert!(time.as_i64().is_some_and(|time| time <= now), "{line}");
    }
}

#[test]
fn an_import_needs_a_body() {
    let service = Service::new(12, None);
    let answer = service.ask(0, "POST", "/import", "", None);
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(answer.json()["code"], "invalid-json");
    // A body without a counter is one.
    assert_eq!(service.import("", "\n", None)["lines"], 0);
}

#[test]
fn an_import_of_which_nothing_is_imported_is_refused_with_its_report() {
    let service = Service::new(12, None);
    let ask = |file: &str| service.ask(0, "POST", "/import", file, None);
    let good = "{\"id\":\"there\",\"value\":7}\n";
    assert_eq!(ask(good).status, 200);
    for (file, status, code) in [
        (good, 409, "already-exists"),
        ("{\"id\":\"a\",\"value\":\"x\"}\n", 400, "invalid-line"),
        ("nonsense\nnonsense\n", 400, "invalid-json"),
    ] {
        let answer = ask(file);
        let report = answer.json();
        assert_eq!(
            (answer.status, &report["code"]),
            (status, &code.into()),
            "{report}"
        );
        assert_eq!(report["refused"][0]["code"], code, "{report}");
        assert_eq!(report["rejected"], file.lines().count(), "{report}");
    }
    let mixed = ask(&[good, "{\"id\":\"other\",\"value\":1}\n"].concat());
    assert_eq!((mixed.status, &mixed.json()["rejected"]), (200, &1.into()));
}

#[test]
fn a_body_of_utf16_is_named_by_every_call() {
    let service = Service::new(12, None);
    let text: String = "{\"delta\":2}"
        .chars()
        .flat_map(|sign| [sign, '\0'])
        .collect();
    for (method, path) in [
        ("POST", "/counters/a/increment"),
        ("POST", "/events"),
        ("POST", "/ingest?format=clf"),
        ("POST", "/import"),
        ("PUT", "/counters/a"),
        ("PUT", "/boards/b"),
        ("POST", "/limits"),
    ] {
        let answer = service.ask(0, method, path, &text, None);
        let body = answer.json();
        assert_eq!(
            (answer.status, &body["code"]),
            (415, &"unsupported-encoding".into()),
            "{path} {body}"
        );
        assert!(answer.text().contains("iconv -f UTF-16"), "{path} {body}");
    }
}

#[test]
fn what_was_imported_is_as_of_its_import() {
    let service = Service::new(13, None);
    let begun_ms = service.world.now_ms();
    let line = json!({"id": "old", "value": 7, "created_at": 1_000});
    service.import("", &format!("{line}\n"), None);
    service.world.run_for_ms(30_000);
    let top = service.well(0, "GET", "/top?prefix=old", "");
    assert_eq!(top["entries"][0]["id"], "old", "{top}");
    let as_of = top["as_of"].as_i64().expect("a time");
    assert!(as_of >= begun_ms, "{begun_ms}: {top}");
    // Where it says since when it counts, nothing changes.
    assert!(service.export("").contains("\"created_at\":1000,"));
}

#[test]
fn values_that_were_counted_before_a_set_come_with_their_count() {
    let from = Service::new(14, None);
    let increment = r#"{"delta":100,"by":{"country":"DE"}}"#;
    from.well(0, "POST", "/counters/page/increment", increment);
    from.well(0, "PUT", "/counters/page/value", r#"{"value":7}"#);
    let file = from.export("?history=1");
    for mode in ["create", "add"] {
        let to = Service::new(114, None);
        if mode == "add" {
            to.well(0, "POST", "/counters/page/increment", r#"{"delta":5}"#);
        }
        let report = to.import(&format!("?mode={mode}"), &file, None);
        assert_eq!(report["counters"], 1, "{mode}: {report}");
        let path = "/counters/page/breakdown?by=country&consistency=strong";
        let read = to.well(0, "GET", path, "");
        let none = if mode == "add" { 5 } else { 0 };
        assert_eq!(
            (&read["total"], &read["none"], &read["rows"][0]["count"]),
            (&json!(100 + none), &json!(none), &json!(100)),
            "{mode}: {read}"
        );
        // What came so is exported, and is read again.
        let again = to.export("?history=1");
        let last = Service::new(214, None);
        let report = last.import("", &again, None);
        assert_eq!(
            (&report["counters"], &report["rejected"]),
            (&json!(1), &json!(0)),
            "{mode}: {report}"
        );
        assert_eq!(last.export("?history=1"), again, "{mode}");
        let value = last.well(0, "GET", "/counters/page?consistency=strong", "");
        assert_eq!(value["value"], 7 + none, "{mode}: {value}");
    }
}

#[test]
fn an_export_refuses_what_it_would_leave_out() {
    let service = Service::new(9, None);
    for query in [
        "?alerts=1&prefix=a",
        "?format=csv&history=1",
        "?format=csv&alerts=1",
    ] {
        let answer = service.ask(0, "GET", &format!("/export{query}"), "", None);
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
    }
}

#[test]
fn a_repeat_brings_no_deleted_counter_back() {
    for line in [
        json!({"id": "gone", "datacenters": [{"id": "FRA", "added": 5}]}),
        json!({"id": "gone", "settings": {"floor": 0}, "datacenters": [{"id": "SYD", "added": 5}]}),
    ] {
        let service = Service::new(10, None);
        let line = format!("{line}\n");
        assert_eq!(service.import("", &line, Some("once"))["counters"], 1);
        service.well(0, "DELETE", "/counters/gone", "");
        let report = service.import("", &line, Some("once"));
        assert_eq!(refusal(&report), "counter-ended", "{report}");
        let file = service.export("?format=csv");
        assert!(!file.contains("gone"), "{file}");
    }
}

#[test]
fn a_repeat_puts_no_policy_and_no_alert_again() {
    let alert = |above: u64| {
        format!(
            r#"{{"counter":"page","when":{{"value":{{"above":{above}}}}},"webhook":"https://hooks.example.com/","secret":"{SECRET}"}}"#
        )
    };
    let file = format!("{POLICY}{{\"alert\":\"a\",\"body\":{}}}\n", alert(1_000));
    for mode in ["", "?mode=replace", "?mode=add"] {
        let service = Service::new(17, None);
        let import = |key| {
            let report = service.import(mode, &file, Some(key));
            (report["policies"].clone(), report["alerts"].clone())
        };
        let limit = || service.ask(0, "GET", "/limits/p", "", None);
        let watched = || service.ask(0, "GET", "/alerts/a", "", None);
        assert_eq!(import("once"), (1.into(), 1.into()), "{mode}");
        assert_eq!(limit().json()["limit"], 5);
        // Somebody changes both by hand.
        let other = r#"{"limit":7,"window_seconds":60}"#;
        service.well(0, "PUT", "/limits/p", other);
        service.well(0, "PUT", "/alerts/a", &alert(2_000));
        import("once");
        assert_eq!(limit().json()["limit"], 7, "{mode}");
        let above = &watched().json()["when"]["value"]["above"];
        assert_eq!(above, 2_000, "{mode}");
        // And deletes them.
        service.well(0, "DELETE", "/limits/p", "");
        service.well(0, "DELETE", "/alerts/a", "");
        assert_eq!(import("once"), (1.into(), 1.into()), "{mode}");
        assert_eq!((limit().status, watched().status), (404, 404), "{mode}");
        // Another import puts them.
        assert_eq!(import("other"), (1.into(), 1.into()), "{mode}");
        assert_eq!((limit().status, watched().status), (200, 200), "{mode}");
        assert_eq!(limit().json()["limit"], 5, "{mode}");
    }
}

#[test]
fn what_is_added_does_not_pass_below_the_floor() {
    let service = Service::new(11, None);
    service.import(
        "",
        "{\"id\":\"low\",\"value\":5,\"settings\":{\"floor\":0}}\n",
        None,
    );
    for (value, key) in [
        (-10, None),
        (-10, Some("much")),
        (-3, Some("some")),
        (-3, Some("some")),
    ] {
        let line = format!("{{\"id\":\"low\",\"value\":{value}}}\n");
        let report = service.import("?mode=add", &line, key);
        let expected = if value == -10 { "below-floor" } else { "none" };
        assert_eq!(refusal(&report), expected, "{report}");
    }
    assert!(service.export("?format=csv").contains("low,2,"));
}

#[test]
fn a_counter_that_cannot_be_read_is_left_out_and_named() {
    let service = Service::new(12, None);
    service.well(0, "POST", "/counters/here/increment", r#"{"delta":1}"#);
    service.well(0, "POST", "/counters/lost/increment", r#"{"delta":1}"#);
    let (client, has_begun) = (service.clients[0].clone(), Rc::new(Cell::new(false)));
    service.world.set_judge(move |judged| {
        let (client, has_begun) = (client.clone(), has_begun.clone());
        Box::pin(async move {
            // Between the list of names and the read the counter is made anew, and its root is silent from then on.
            let is_read = judged.path.ends_with("/read-contents") && judged.name.contains("lost");
            if is_read && !has_begun.replace(true) {
                let request = |method: &str, path: &str| ClientRequest::new(method, path);
                let _ = client.ask(request("DELETE", "/counters/lost")).await;
                let _ = client
                    .ask(request("POST", "/counters/lost/increment"))
                    .await;
            }
            match has_begun.get() && judged.path.ends_with("/look-up") {
                true => Verdict::Unreached,
                false => Verdict::Answered,
            }
        })
    });
    let file = service.export("");
    let last = file.lines().next_back().unwrap_or_default();
    assert!(last.contains(r#""complete":false"#), "{file}");
    assert!(last.contains(r#""unreachable":["lost"]"#), "{file}");
    assert_eq!(file.matches("lost").count(), 1, "{file}");
    assert!(file.contains("here"), "{file}");
}

#[test]
fn sketches_go_to_counters_of_their_own_hash() {
    let service = Service::new(13, None);
    service.well(0, "PUT", "/counters/redis", r#"{"unique_hash":"redis"}"#);
    service.well(0, "POST", "/counters/redis/increment", r#"{"unique":"me"}"#);
    service.well(0, "POST", "/counters/keyed/increment", r#"{"unique":"me"}"#);
    let file = service.export("?uniques=1&prefix=redis");
    let line = file.lines().next().expect("a line");
    let other = line.replace(r#""unique_hash":"redis""#, r#""unique_hash":"keyed""#);
    let new = other.replacen("\"redis\"", "\"new\"", 1) + "\n";
    for mode in ["create", "replace"] {
        let report = service.import(&format!("?mode={mode}"), &new, None);
        assert_eq!(refusal(&report), "hash-mismatch", "{report}");
        assert!(!service.export("").contains("\"new\""));
    }
    let more = line.replacen("\"redis\"", "\"keyed\"", 1) + "\n";
    let report = service.import("?mode=add", &more, None);
    assert_eq!(refusal(&report), "hash-mismatch", "{report}");
    let report = service.import("?mode=add", &format!("{line}\n"), None);
    assert_eq!(refusal(&report), "none", "{report}");
}

#[test]
fn lines_of_one_counter_are_imported_one_after_the_other() {
    let service = Service::new(14, None);
    let line = |value: u32| {
        format!("{{\"id\":\"same\",\"datacenters\":[{{\"id\":\"FRA\",\"added\":{value}}}]}}\n")
    };
    let file: String = (1..=40).map(line).collect();
    let report = service.import("?mode=replace", &file, None);
    assert_eq!(
        (&report["counters"], &report["rejected"]),
        (&40.into(), &0.into()),
        "{report}"
    );
    assert!(service.export("?format=csv").contains("same,40,"));
    let read = service.well(0, "GET", "/counters/same?consistency=strong", "");
    assert_eq!(read["updated_at"], Value::Null, "{read}");
}

#[test]
fn a_repair_of_objects_goes_on_only_behind_one() {
    let service = Service::new(15, None);
    for (cursor, status) in [("nonsense", 400), ("board/game", 200)] {
        let body = format!(r#"{{"objects":"","cursor":"{cursor}"}}"#);
        let answer = service.ask(0, "POST", "/repair", &body, None);
        assert_eq!(answer.status, status, "{}", answer.text());
    }
}

#[test]
fn hidden_members_of_a_spread_board_come_back_hidden() {
    let from = Service::new(16, None);
    from.well(0, "PUT", "/boards/game", r#"{"shards":4}"#);
    for number in 0..24 {
        let path = format!("/boards/game/members/m{number:02}");
        from.well(0, "POST", &path, &format!("{{\"score\":{number}}}"));
        if number % 2 == 0 {
            from.well(0, "POST", &path, r#"{"hidden":true}"#);
        }
    }
    let file = from.export("");
    let hidden = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains("\"hidden\":true"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(hidden(&file).len(), 12, "{file}");
    assert!(hidden(&file).is_sorted(), "by their names: {file}");
    let to = Service::new(116, None);
    assert_eq!(to.import("", &file, Some("once"))["members"], 24);
    assert_eq!(to.export(""), file);
    let read = to.well(0, "GET", "/boards/game", "");
    assert_eq!(read["total"], 12, "{read}");
}

#[test]
fn equal_scores_of_a_spread_board_are_brought_back_in_the_order_of_their_lines() {
    let names: Vec<String> = (0..3_000_u32)
        .map(|number| format!("m{}", number * 7_919 % 3_000))
        .collect();
    let lines: Vec<String> = names.iter().map(|name| member(name, 2)).collect();
    let orders = [("desc", None), ("asc", Some("again"))];
    for (seed, (order, key)) in (20..).zip(orders) {
        let service = Service::new(seed, None);
        let settings = json!({"order": order, "ties": "first", "shards": 4});
        let head = json!({"board": "game", "settings": settings}).to_string() + "\n";
        service.import("", &(head + &lines[..1_200].concat()), key);
        service.world.run_for_ms(60_000);
        service.import("?mode=add", &lines[1_200..2_600].concat(), key);
        // A body of lines of the board itself keeps their order too, and whoever comes last stands last.
        let line = |name: &String| format!("{{\"member\":\"{name}\",\"score\":2}}\n");
        let more: String = names[2_600..].iter().map(line).collect();
        let answer = service.ask(0, "POST", "/boards/game/members", &more, None);
        assert_eq!(answer.status, 200, "{}", answer.text());
        for late in ["zoe", "ann"] {
            let path = format!("/boards/game/members/{late}");
            service.well(0, "POST", &path, r#"{"score":2}"#);
        }
        let about = service.well(0, "GET", "/boards/game", "");
        let shards = service.world.objects().into_iter();
        let shards = shards.filter(|(_, name, ..)| name.contains("game"));
        assert_eq!(shards.count(), 5, "{about}");
        let file = service.export("?prefix=game");
        let rows = file.lines().filter(|line| line.contains("\"member\""));
        let there: Vec<String> = rows
            .map(|line| serde_json::from_str::<Value>(line).expect("a line")["member"].to_string())
            .collect();
        let all = names.iter().map(String::as_str).chain(["zoe", "ann"]);
        let all: Vec<String> = all.map(|name| format!("\"{name}\"")).collect();
        assert!(there == all, "{order}");
        let report = service.import("?mode=replace", &file, None);
        assert_eq!(report["complete"], true, "{report}");
        service.world.run_for_ms(60_000);
        let again = service.export("?prefix=game");
        assert!(
            file.lines()
                .zip(again.lines())
                .all(|(one, other)| { !one.contains("\"member\"") || one == other })
        );
        assert_eq!(file.lines().count(), again.lines().count());
    }
}

/// A client with the scope `admin` on all counters, and on no limits.
fn admin_alone(service: &Service) -> Client {
    let made = service.well(0, "POST", "/keys", r#"{"name":"ops","scopes":["admin"]}"#);
    let site = service.world.site("GRU", 1);
    let key = made["key"].as_str().expect("a key");
    service.world.client(site).with_key(key)
}

#[test]
fn who_may_not_change_limits_imports_no_policy_and_no_alert_about_one() {
    for (mode, key) in [("create", None), ("replace", Some("once")), ("add", None)] {
        let service = Service::new(23, None);
        let policy = r#"{"limit":5,"window_seconds":60}"#;
        service.well(0, "PUT", "/limits/login", policy);
        let refused = json!({"refused_in": {"seconds": 60, "above": 1}});
        let over = json!({"value": {"above": 9}});
        let hook = "https://hooks.example.com/tally";
        let of_policy = json!({"policy": "login", "when": refused, "webhook": hook});
        let of_counter = json!({"counter": "page", "when": over, "webhook": hook});
        let mut own = of_policy.clone();
        own["secret"] = json!(SECRET);
        service.well(0, "PUT", "/alerts/own", &own.to_string());
        let lifted = json!({"limit": 1_000_000, "window_seconds": 1});
        let file: String = [
            json!({"policy": "login", "body": lifted}),
            json!({"policy": "new", "body": lifted}),
            json!({"alert": "watch", "body": of_policy}),
            json!({"alert": "own", "body": of_counter}),
            json!({"alert": "page", "body": of_counter}),
            json!({"id": "page", "value": 7}),
        ]
        .map(|line| format!("{line}\n"))
        .concat();
        let mut ask = request("POST", &format!("/import?mode={mode}"), &file);
        if let Some(key) = key {
            ask = ask.header("idempotency-key", key);
        }
        let client = admin_alone(&service);
        let body = service.world.run(client.ask(ask)).expect("an answer");
        let body = body.json();
        let refused = body["refused"].as_array().expect("lines");
        let named: Vec<_> = refused
            .iter()
            .map(|line| (&line["id"], &line["code"]))
            .collect();
        let forbidden = json!("forbidden");
        let names = ["login", "new", "watch", "own"].map(Value::from);
        let expected: Vec<_> = names.iter().map(|name| (name, &forbidden)).collect();
        assert_eq!(named, expected, "{mode}: {body}");
        // The others go on.
        let counts = ["counters", "policies", "alerts"].map(|name| &body[name]);
        assert_eq!(counts, [&json!(1), &json!(0), &json!(1)], "{mode}: {body}");
        let view = service.well(0, "GET", "/limits/login", "");
        assert_eq!(view["limit"], 5, "{mode}: {view}");
        let view = service.well(0, "GET", "/alerts/own", "");
        assert_eq!(view["policy"], "login", "{mode}: {view}");
        for path in ["/limits/new", "/alerts/watch"] {
            assert_eq!(service.ask(0, "GET", path, "", None).status, 404, "{mode}");
        }
        // Without those about policies its alerts would not be whole.
        let alerts = request("GET", "/export?alerts=1", "");
        let alerts = service.world.run(client.ask(alerts)).expect("an answer");
        assert_eq!(alerts.status, 403, "{}", alerts.text());
        // What such a key exports, it imports whole.
        let export = request("GET", "/export", "");
        let export = service.world.run(client.ask(export)).expect("an answer");
        let again = request("POST", "/import?mode=replace", &export.text());
        let body = service.world.run(client.ask(again)).expect("an answer");
        let body = body.json();
        assert_eq!(
            (&body["rejected"], &body["complete"]),
            (&json!(0), &json!(true)),
            "{body}"
        );
    }
}
