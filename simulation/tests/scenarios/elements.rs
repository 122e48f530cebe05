//! Unique elements and samples: each is counted with its write, once.

use serde_json::Value;
use tally_simulation::{ClientRequest, Role};
use tally_wire::names::OPEN_OBJECTS_MAX;

use super::scene::{COUNTER, Scene, add, add_with, keyed, put};

const LEAD: &str = "FRA/0/hits";

fn uniques(scene: &Scene) -> Value {
    scene.settle();
    scene.read("")["uniques"]["estimate"].clone()
}

/// How many samples there are.
fn samples(scene: &Scene) -> Value {
    scene.settle();
    let path = format!("{COUNTER}/distribution?consistency=strong");
    scene.done(0, ClientRequest::new("GET", path))["count"].clone()
}

fn lines(scene: &Scene, lines: [&str; 3]) {
    let body = lines.join("\n");
    let ask = ClientRequest::new("POST", "/events").body(body);
    let answer = scene.done(0, ask.header("content-type", "application/x-ndjson"));
    assert_eq!(answer["accepted"], 3, "{answer}");
}

#[test]
fn an_element_of_the_open_minute_outlives_a_crash() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add_with(r#"{"unique":"one"}"#));
    assert!(scene.world.crash(&scene.cell("FRA", 0)));
    assert_eq!(uniques(&scene), 1);
}

#[test]
fn elements_of_two_hashes_that_meet_in_a_lane_are_not_taken_for_two() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, put(r#"{"unique_hash":"redis"}"#).at(1));
    let registers = format!("{COUNTER}/uniques/hll");
    let id = COUNTER.trim_start_matches("/counters/");
    let exported = format!("/uniques?id={id}&format=hll");
    let nobody = scene.ask(0, ClientRequest::new("GET", exported).at(1)).body;
    let flush = scene.hold("/flush", LEAD);
    let first = scene.begin(0, add(1));
    scene.wait_for(&flush);
    // The isolate does not know the counter's hash yet, and learns it while this waits.
    let second = scene.begin(0, add_with(r#"{"unique":"one"}"#));
    scene.world.run_for_ms(100);
    let import = scene.begin(0, ClientRequest::new("PUT", &registers).at(0).body(nobody));
    scene.world.run_for_ms(100);
    let third = scene.begin(0, add_with(r#"{"unique":"one"}"#));
    scene.world.run_for_ms(100);
    flush.let_go();
    for pending in [first, second, import, third] {
        assert_eq!(scene.end(pending).status, 200);
    }
    assert_eq!(uniques(&scene), 1);
}

#[test]
fn each_element_of_a_body_is_counted() {
    let scene = Scene::new(&["FRA"]);
    lines(
        &scene,
        [
            r#"{"id":"hits","unique":"one"}"#,
            r#"{"id":"hits","unique":"two"}"#,
            r#"{"id":"hits","unique":"three"}"#,
        ],
    );
    assert_eq!(uniques(&scene), 3);
}

#[test]
fn each_element_of_lines_with_keys_is_counted() {
    let scene = Scene::new(&["FRA"]);
    lines(
        &scene,
        [
            r#"{"id":"hits","unique":"one","idempotency_key":"1"}"#,
            r#"{"id":"hits","unique":"two","idempotency_key":"2"}"#,
            r#"{"id":"hits","unique":"three","idempotency_key":"3"}"#,
        ],
    );
    assert_eq!(uniques(&scene), 3);
}

#[test]
fn a_flush_that_comes_again_brings_its_sample_once() {
    let scene = Scene::new(&["FRA"]);
    let answer = scene.hold_answer("/flush", LEAD);
    scene.done(0, add_with(r#"{"sample":20}"#));
    answer.let_go();
    assert_eq!(scene.count("/flush", LEAD), 2);
    assert_eq!(samples(&scene), 1);
}

#[test]
fn samples_that_join_in_a_lane_are_all_there() {
    let scene = Scene::new(&["FRA"]);
    let flush = scene.hold("/flush", LEAD);
    let first = scene.begin(0, add_with(r#"{"sample":10}"#));
    scene.wait_for(&flush);
    let joined =
        [20, 30].map(|sample| scene.begin(0, add_with(&format!(r#"{{"sample":{sample}}}"#))));
    scene.world.run_for_ms(100);
    flush.let_go();
    for pending in [first].into_iter().chain(joined) {
        assert_eq!(scene.end(pending).status, 200);
    }
    assert_eq!(scene.count("/flush", LEAD), 2);
    assert_eq!(samples(&scene), 3);
}

#[test]
fn elements_of_a_shard_are_there_once_it_is_sealed() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, put(r#"{"shards":2}"#));
    scene.done(0, add(1));
    for number in 0..8 {
        scene.done(0, add_with(&format!(r#"{{"unique":"{number}"}}"#)));
    }
    assert!(scene.count("/flush", "FRA/1/hits") > 0);
    scene.done(0, put(r#"{"shards":1}"#));
    scene.done(0, add(1));
    assert_eq!(uniques(&scene), 8);
    assert_eq!(scene.count("/seal", "FRA/1/hits"), 1);
}

#[test]
fn a_write_whose_element_finds_no_room_is_not_called_uncounted() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, put(r#"{"home":"FRA"}"#));
    let one_object = |most| {
        scene.world.set_for(Role::Edge, OPEN_OBJECTS_MAX, most);
    };
    one_object(Some("1"));
    let write = |edge| keyed(add_with(r#"{"unique":"one"}"#)).at(edge);
    // It is counted at home, by the root; its element is sent here first, and then there, which is one object too many.
    let answer = scene.ask(1, write(1));
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.json()["code"], "unavailable", "{}", answer.text());
    let detail = answer.json()["detail"].to_string();
    assert!(detail.contains("was counted"), "{detail}");
    one_object(None);
    assert_eq!(scene.value(), 1);
    let again = scene.ask(1, write(2));
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!((scene.value(), uniques(&scene)), (1, 1.into()));
}

#[test]
fn a_body_with_a_key_waits_for_no_turn_that_it_holds_itself() {
    let scene = Scene::new(&["FRA"]);
    // As where one process has all objects: counting is paced.
    scene
        .world
        .set_for(Role::Edge, OPEN_OBJECTS_MAX, Some("1000"));
    let body: Vec<String> = (0..40).map(|of| format!(r#"{{"id":"{of}"}}"#)).collect();
    let ask = ClientRequest::new("POST", "/events").body(body.join("\n"));
    let ask = ask.header("content-type", "application/x-ndjson");
    let begun_ms = scene.world.now_ms();
    let answer = scene.done(0, ask.header("idempotency-key", "body"));
    assert_eq!(answer["accepted"], 40, "{answer}");
    let took_ms = scene.world.now_ms() - begun_ms;
    assert!(took_ms < 5_000, "{took_ms} ms");
}
