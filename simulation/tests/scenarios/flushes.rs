//! Flushes that are late, or come again, and what those are told who wait for them.

use tally_simulation::ClientRequest;

use super::scene::{COUNTER, Scene, add};

const LEAD: &str = "FRA/0/hits";

#[test]
fn a_flush_that_comes_again_after_a_crash_counts_once() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    let answer = scene.hold_answer("/flush", LEAD);
    let pending = scene.begin(0, add(5));
    scene.wait_for(&answer);
    assert!(scene.world.crash(&scene.cell("FRA", 0)));
    assert_eq!(scene.end(pending).json()["value"], 6);
    assert_eq!(scene.value(), 6);
}

#[test]
fn a_flush_that_comes_again_counts_once() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    let answer = scene.hold_answer("/flush", LEAD);
    assert_eq!(scene.done(0, add(5))["value"], 6);
    answer.let_go();
    assert_eq!(scene.value(), 6);
}

#[test]
fn a_late_copy_counts_nothing_once_its_lane_has_gone_on() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    let first = scene.hold("/flush", LEAD);
    scene.done(0, add(5));
    scene.done(0, add(1));
    first.let_go();
    assert_eq!(scene.value(), 7);
}

#[test]
fn each_batch_of_a_lane_is_told_its_own_outcome() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    let flush = scene.hold("/flush", LEAD);
    let first = scene.begin(0, add(2));
    scene.wait_for(&flush);
    // The last one joins a batch that another sends.
    let joined = [4, 8].map(|delta| {
        let pending = scene.begin(0, add(delta));
        scene.world.run_for_ms(100);
        pending
    });
    flush.let_go();
    assert_eq!(scene.end(first).json()["value"], 3);
    let values = joined.map(|pending| scene.end(pending).json()["value"].as_i64());
    assert_eq!(values, [Some(7), Some(15)]);
}

#[test]
fn who_counted_alone_calls_no_value_its_own_once_another_counts() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, add(1));
    scene.done(1, add(1));
    let answer = scene.done(0, add(1));
    assert!(answer["exact"] == false || answer["value"] == 3, "{answer}");
    assert_eq!(scene.value(), 3);
}

#[test]
fn a_view_from_before_a_readers_version_is_not_what_it_reads() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    let read = |query: &str| ClientRequest::new("GET", format!("{COUNTER}{query}")).at(0);
    assert_eq!(scene.done(0, read(""))["value"], 1);
    let answer = scene.done(0, add(5).at(1));
    let version = answer["version"].as_str().expect("a version");
    let seen = scene.done(0, read(&format!("?at_least={version}")));
    assert_eq!(seen["value"], 6);
}

#[test]
fn a_datacenter_that_does_not_answer_is_not_left_out_in_silence() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, add(1));
    scene.done(1, add(1));
    let sum = scene.hold("/sum", "SYD/0/hits");
    let path = format!("{COUNTER}?consistency=strong");
    let pending = scene.begin(0, ClientRequest::new("GET", path).at(0));
    scene.wait_for(&sum);
    sum.lose();
    let seen = scene.end(pending).json();
    assert_eq!(seen["exact"], false, "{seen}");
    assert_eq!(seen["datacenters"].as_array().map(Vec::len), Some(2));
}
