//! Boards: what cursors, refusals and settings say.

use serde_json::{Value, json};
use tally_simulation::{Answer, ClientRequest, Options, Site, World, deployed};
use tally_wire::names::KEYS;

use super::scene::Scene;

fn ask(scene: &Scene, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut request = ClientRequest::new(method, path).at(0);
    if !body.is_null() {
        request = request.json(body.to_string());
    }
    let answer = scene.ask(0, request);
    (answer.status, answer.json())
}

fn get(scene: &Scene, path: &str) -> Value {
    let (status, answer) = ask(scene, "GET", path, &Value::Null);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

fn score(scene: &Scene, board: &str, member: &str, score: i64) {
    let path = format!("/boards/{board}/members/{member}");
    let (status, answer) = ask(scene, "POST", &path, &json!({"score": score}));
    assert_eq!(status, 200, "{answer}");
}

fn names(answer: &Value) -> Vec<&str> {
    let rows = answer["entries"].as_array().expect("rows").iter();
    rows.filter_map(|row| row["member"].as_str()).collect()
}

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;

#[test]
fn a_cursor_stays_in_the_period_of_its_answer() {
    for shards in [1, 3] {
        let scene = Scene::new(&["FRA"]);
        let settings = json!({"period": "hour", "archive": 1, "shards": shards});
        assert_eq!(ask(&scene, "PUT", "/boards/b", &settings).0, 201);
        scene.settle();
        for (member, points) in [("a", 4), ("b", 3), ("c", 2), ("d", 1)] {
            score(&scene, "b", member, points);
        }
        let first = get(&scene, "/boards/b/members?limit=2");
        assert_eq!(names(&first), ["a", "b"]);
        let cursor = first["cursor"].as_str().expect("a cursor");
        let export = ClientRequest::new("GET", "/boards/b/members?format=ndjson&limit=2").at(0);
        let export = scene.ask(0, export);
        let exported = export.header("tally-cursor").expect("a cursor").to_owned();
        scene.world.run_for_ms(HOUR_MS);
        score(&scene, "b", "late", 9);
        let next = get(
            &scene,
            &format!("/boards/b/members?limit=2&cursor={cursor}"),
        );
        assert_eq!((names(&next), &next["total"]), (vec!["c", "d"], &json!(4)));
        assert_eq!(next["period"]["starts_at"], first["period"]["starts_at"]);
        let path = format!("/boards/b/members?format=ndjson&cursor={exported}");
        let rest = scene.ask(0, ClientRequest::new("GET", path).at(0)).text();
        assert_eq!(rest.lines().count(), 2, "{rest}");
        let other = get(&scene, "/boards/b")["period"]["starts_at"]
            .as_i64()
            .expect("a period")
            / 1_000;
        let path = format!("/boards/b/members?cursor={cursor}&period={other}");
        assert_eq!(
            ask(&scene, "GET", &path, &Value::Null).1["code"],
            "invalid-query"
        );
        // The period is deleted: the answer says so, and has no row of another period.
        scene.world.run_for_ms(HOUR_MS);
        score(&scene, "b", "later", 9);
        let path = format!("/boards/b/members?cursor={cursor}");
        assert_eq!(
            ask(&scene, "GET", &path, &Value::Null).1["code"],
            "period-not-found"
        );
    }
}

#[test]
fn a_cursor_of_builds_before_has_no_period() {
    let scene = Scene::new(&["FRA"]);
    ask(&scene, "PUT", "/boards/b", &json!({"period": "day"}));
    score(&scene, "b", "Ann", 1);
    score(&scene, "b", "a", 4);
    // The example of the description of builds before: a score of 2.0.
    let answer = get(&scene, "/boards/b/members?cursor=CMAAAAAAAAAAA0Fubg");
    assert_eq!(names(&answer), ["Ann"]);
}

#[test]
fn what_is_not_there_is_said_to_be_not_there() {
    let scene = Scene::new(&["FRA"]);
    let none = Value::Null;
    let code = |method: &str, path: &str, body: &Value| {
        let (status, answer) = ask(&scene, method, path, body);
        (
            status,
            answer["code"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let hidden = json!({"hidden": true});
    let no_board = (404, "board-not-found".to_owned());
    assert_eq!(code("DELETE", "/boards/none/members/a", &none), no_board);
    assert_eq!(code("POST", "/boards/none/members/a", &hidden), no_board);
    score(&scene, "b", "a", 1);
    let no_member = (404, "member-not-found".to_owned());
    assert_eq!(code("POST", "/boards/b/members/x", &hidden), no_member);
    assert_eq!(ask(&scene, "DELETE", "/boards/b/members/x", &none).0, 200);
    assert_eq!(ask(&scene, "POST", "/boards/b/members/a", &hidden).0, 200);
    // It is not in the order, and it is there.
    assert_eq!(
        ask(&scene, "POST", "/boards/b/members/a", &hidden).1["changed"],
        0
    );
    let request = ClientRequest::new("POST", "/boards/b/members/a").at(0);
    let request = request.header("if-match", "\"0000000000000000\"");
    let refused = scene.ask(0, request.json(r#"{"score":2}"#)).json();
    assert_eq!(refused["title"], "The counter or board has changed since");
    for shards in [json!(1.5), json!(-1), json!(true), json!([4])] {
        let (status, answer) = ask(&scene, "PUT", "/boards/b", &json!({"shards": shards}));
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert_eq!(status, 400);
        assert!(detail.starts_with("shards must be "), "{shards}: {answer}");
    }
    let listed = get(&scene, "/boards");
    assert_eq!(
        (&listed["entries"], &listed["exact"]),
        (&json!(["b"]), &json!(true))
    );
    let as_of = listed["as_of"].as_i64().expect("a time");
    assert!(
        (0..1_000).contains(&(scene.world.now_ms() - as_of)),
        "{listed}"
    );
}

#[test]
fn a_version_that_was_not_reached_comes_with_one_of_the_whole_board() {
    let scene = Scene::new(&["FRA"]);
    assert_eq!(
        ask(&scene, "PUT", "/boards/b", &json!({"shards": 2})).0,
        201
    );
    scene.settle();
    for member in ["a", "b", "c", "d", "e"] {
        score(&scene, "b", member, 1);
    }
    let version = get(&scene, "/boards/b")["version"]
        .as_str()
        .expect("one")
        .to_owned();
    let (head, last) = version.rsplit_once('.').expect("parts");
    let path = |version: &str| format!("/boards/b?at_least={version}");
    let (status, answer) = ask(
        &scene,
        "GET",
        &path(&format!("{head}.f{last}")),
        &Value::Null,
    );
    assert_eq!(
        (status, &answer["code"]),
        (504, &json!("version-not-reached")),
        "{answer}"
    );
    assert_eq!(answer["seen"], version.as_str());
    assert_eq!(get(&scene, &path(&version))["version"], version.as_str());
}

/// What a body of so many lines from an address is answered.
#[test]
fn lines_of_one_body_stand_in_their_order_over_shards_where_equal_scores_stand_by_who_was_first() {
    let scene = Scene::new(&["FRA"]);
    let settings = json!({"ties": "first", "shards": 4});
    assert_eq!(ask(&scene, "PUT", "/boards/b", &settings).0, 201);
    // Of few lines, some are alone in their shard.
    for lines in 2..12 {
        let members: Vec<String> = (0..lines).map(|line| format!("w{lines}-{line}")).collect();
        let line = |member: &String| format!("{{\"member\":\"{member}\",\"score\":{lines}}}\n");
        let body: String = members.iter().map(line).collect();
        let send = ClientRequest::new("POST", "/boards/b/members")
            .at(0)
            .body(body);
        let answer = scene.ask(0, send);
        assert_eq!(answer.json()["accepted"], lines, "{}", answer.text());
        let answer = get(
            &scene,
            &format!("/boards/b/members?min={lines}&max={lines}"),
        );
        assert_eq!(names(&answer), members);
    }
}

fn send_lines(
    (world, site): &(World, Site),
    address: &str,
    count: usize,
    key: Option<&str>,
) -> Answer {
    let line = |number| format!("{{\"member\":\"m{number}\",\"delta\":1}}\n");
    let body: String = (0..count).map(line).collect();
    let mut ask = ClientRequest::new("POST", "/boards/game/members")
        .at(0)
        .body(body);
    if let Some(key) = key {
        ask = ask.header("idempotency-key", key);
    }
    let client = world.client(*site).from_address(address);
    world.run(client.ask(ask)).expect("an answer")
}

/// A world where everybody may write scores.
fn open_to_all() -> (World, Site) {
    let world = deployed(5, Options::default());
    let all = json!({"origins": ["*"], "scopes": ["read", "write"], "allow": ["board"]});
    world.set(
        KEYS,
        Some(&json!({"keys": [], "public": [all]}).to_string()),
    );
    let site = world.site("FRA", 1);
    (world, site)
}

#[test]
fn a_line_of_a_body_is_one_write_of_an_address() {
    let world = open_to_all();
    let most = send_lines(&world, "192.0.2.1", 200, None);
    assert_eq!(most.status, 200, "{}", most.text());
    let answer = most.json();
    assert_eq!(
        (&answer["accepted"], &answer["rejected"]),
        (&json!(60), &json!(140)),
        "{answer}"
    );
    let first = &answer["errors"][0];
    assert_eq!(
        (&first["line"], &first["code"]),
        (&json!(61), &json!("quota-exceeded")),
        "{answer}"
    );
    let spent = send_lines(&world, "192.0.2.1", 2, None);
    assert_eq!(spent.status, 429, "{}", spent.text());
    assert!(spent.header("retry-after").is_some());
    // Others have theirs.
    let other = send_lines(&world, "192.0.2.2", 60, None).json();
    assert_eq!(other["accepted"], 60, "{other}");
}

#[test]
fn a_body_with_a_key_that_finds_too_little_left_is_refused_whole_and_uses_nothing() {
    let world = open_to_all();
    let never = send_lines(&world, "192.0.2.1", 61, Some("a"));
    assert_eq!(
        (never.status, &never.json()["code"]),
        (400, &json!("cost-exceeds-limit")),
        "{}",
        never.text()
    );
    let first = send_lines(&world, "192.0.2.1", 40, Some("b"));
    assert_eq!(first.json()["accepted"], 40, "{}", first.text());
    for _ in 0..3 {
        let over = send_lines(&world, "192.0.2.1", 40, Some("c"));
        assert_eq!(over.status, 429, "{}", over.text());
    }
    world.0.run_for_ms(20_000);
    let later = send_lines(&world, "192.0.2.1", 40, Some("c"));
    assert_eq!(later.json()["accepted"], 40, "{}", later.text());
    world.0.run_for_ms(60_000);
    let again = send_lines(&world, "192.0.2.1", 40, Some("c"));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}
