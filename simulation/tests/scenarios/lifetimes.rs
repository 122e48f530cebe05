//! Times to live that writes bring: a counter that a write creates has its time to live from its first moment.

use tally_simulation::ClientRequest;

use super::scene::{COUNTER, Scene, add, add_with, keyed, put};

/// A minute, from the creation on.
const FIXED: &str = r#"{"delta":1,"ttl_seconds":60}"#;

/// A minute, from the last write on.
const SLIDING: &str = r#"{"delta":1,"ttl_seconds":60,"ttl_mode":"sliding"}"#;

fn read(scene: &Scene) -> Option<serde_json::Value> {
    let path = format!("{COUNTER}?consistency=strong");
    let answer = scene.ask(0, ClientRequest::new("GET", path).at(0));
    (answer.status != 404).then(|| answer.json())
}

/// When the counter ends, milliseconds from now; `None` for never.
fn left_ms(scene: &Scene) -> Option<i64> {
    let read = read(scene).expect("a counter");
    read["expires_at"]
        .as_i64()
        .map(|at| at - scene.world.now_ms())
}

fn is_about(ms: Option<i64>, expected_ms: i64) -> bool {
    ms.is_some_and(|ms| (expected_ms - 2_000..=expected_ms + 100).contains(&ms))
}

fn wait_s(scene: &Scene, seconds: u64) {
    scene.world.run_for_ms(seconds * 1_000);
}

fn lines(body: &str) -> ClientRequest {
    let ask = ClientRequest::new("POST", "/events".to_owned()).at(0);
    ask.header("content-type", "application/x-ndjson")
        .body(body)
}

/// A counter that was created now has a fixed time to live of a minute, which no write renews.
fn ends_after_a_minute(scene: &Scene, again: impl Fn() -> ClientRequest) {
    assert!(is_about(left_ms(scene), 60_000), "{:?}", left_ms(scene));
    wait_s(scene, 30);
    scene.done(0, again());
    assert!(is_about(left_ms(scene), 30_000), "{:?}", left_ms(scene));
    wait_s(scene, 32);
    assert_eq!(read(scene), None);
    // The next generation begins with it again.
    scene.done(0, again());
    assert!(is_about(left_ms(scene), 60_000), "{:?}", left_ms(scene));
    assert_eq!(
        read(scene).map(|read| read["value"].as_i64()),
        Some(Some(1))
    );
}

#[test]
fn a_fixed_time_to_live_begins_with_the_first_write() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, add_with(FIXED));
    ends_after_a_minute(&scene, || add_with(FIXED));
    // Another datacenter's first write finds the counter.
    wait_s(&scene, 20);
    scene.done(1, add_with(FIXED));
    assert!(is_about(left_ms(&scene), 40_000), "{:?}", left_ms(&scene));
}

#[test]
fn a_sliding_time_to_live_begins_anew_with_each_write() {
    let scene = Scene::new(&["FRA"]);
    for _ in 0..4 {
        scene.done(0, add_with(SLIDING));
        assert!(is_about(left_ms(&scene), 60_000), "{:?}", left_ms(&scene));
        wait_s(&scene, 40);
    }
    wait_s(&scene, 22);
    assert_eq!(read(&scene), None);
}

#[test]
fn a_counter_that_exists_keeps_its_own_time_to_live() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    scene.done(0, add_with(FIXED));
    scene.done(0, add_with(SLIDING));
    assert_eq!(left_ms(&scene), None);
    scene.done(0, put(r#"{"ttl_seconds":3600}"#));
    scene.done(0, add_with(SLIDING));
    assert!(
        is_about(left_ms(&scene), 3_600_000),
        "{:?}",
        left_ms(&scene)
    );
}

#[test]
fn writes_with_keys_and_lines_bring_it_too() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, keyed(add_with(FIXED)));
    assert!(is_about(left_ms(&scene), 60_000), "{:?}", left_ms(&scene));
    // The same key with another time to live is another request.
    let other = scene.ask(0, keyed(add_with(SLIDING)));
    assert_eq!(other.json()["code"], "idempotency-key-reused");

    let scene = Scene::new(&["FRA"]);
    let line = r#"{"id":"hits","ttl_seconds":60}"#;
    scene.done(0, lines(line));
    ends_after_a_minute(&scene, || lines(line));

    let scene = Scene::new(&["FRA"]);
    let line =
        r#"{"id":"hits","idempotency_key":"a","unique":"u","ttl_seconds":60,"ttl_mode":"fixed"}"#;
    scene.done(0, lines(line));
    assert!(is_about(left_ms(&scene), 60_000), "{:?}", left_ms(&scene));
    let other = r#"{"id":"hits","idempotency_key":"a","unique":"u","ttl_seconds":61}"#;
    let report = scene.ask(0, lines(other)).json();
    assert_eq!(
        report["errors"][0]["code"], "idempotency-key-reused",
        "{report}"
    );
}

#[test]
fn writes_with_elements_bring_it_whichever_cell_is_first() {
    let scene = Scene::new(&["FRA"]);
    let some =
        (0..20).map(|number| format!(r#"{{"id":"hits","unique":"u{number}","ttl_seconds":60}}"#));
    let some: Vec<String> = some.collect();
    scene.done(0, lines(&some.join("\n")));
    assert!(is_about(left_ms(&scene), 60_000), "{:?}", left_ms(&scene));
}

#[test]
fn a_time_to_live_that_is_none_changes_nothing() {
    let scene = Scene::new(&["FRA"]);
    for bad in [
        r#""ttl_seconds":0"#,
        r#""ttl_seconds":-1"#,
        r#""ttl_seconds":1.5"#,
        r#""ttl_seconds":"60""#,
        r#""ttl_seconds":null"#,
        r#""ttl_seconds":316224001"#,
        r#""ttl_mode":"sliding""#,
        r#""ttl_seconds":60,"ttl_mode":"soon""#,
        r#""ttl_seconds":60,"ttl_mode":null"#,
    ] {
        let answer = scene.ask(0, add_with(&format!(r#"{{"delta":1,{bad}}}"#)));
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text());
        assert_eq!(answer.json()["code"], "invalid-body", "{bad}");
        let report = scene
            .ask(0, lines(&format!(r#"{{"id":"hits",{bad}}}"#)))
            .json();
        assert_eq!(
            report["errors"][0]["code"], "invalid-body",
            "{bad}: {report}"
        );
    }
    assert_eq!(read(&scene), None);
}
