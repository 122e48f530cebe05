//! Flushes that are late, or come again, and what those are told who wait for them.

use std::rc::Rc;

use tally_simulation::{ClientRequest, Faults};

use super::scene::{COUNTER, Held, PendingAnswer, Scene, add, delete, put, take};

const LEAD: &str = "FRA/0/hits";

/// A write whose flush comes to a lead twice. Both copies are held.
fn twice(
    scene: &Scene,
    site: usize,
    ask: ClientRequest,
    lead: &str,
) -> (PendingAnswer, [Rc<Held>; 2]) {
    let copies = [scene.hold("/flush", lead), scene.hold("/flush", lead)];
    scene.world.set_faults(Faults {
        repeats_once_in: 1,
        ..Faults::NONE
    });
    let pending = scene.begin(site, ask);
    for copy in &copies {
        scene.wait_for(copy);
    }
    scene.world.set_faults(Faults::NONE);
    (pending, copies)
}

#[test]
fn a_copy_of_a_flush_that_went_home_counts_in_no_counter_without_a_home() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, add(1));
    scene.done(0, put(r#"{"home":"FRA"}"#));
    let (pending, [first, second]) = twice(&scene, 1, add(10), "SYD/0/hits");
    first.let_go();
    assert_eq!(scene.end(pending).json()["datacenter"], "FRA");
    // The next counter of that name has no home, and begins within the two seconds that the flush allows.
    scene.done(0, delete());
    scene.done(0, add(2));
    second.let_go();
    assert_eq!(scene.value(), 2);
}

#[test]
fn a_copy_of_a_decrement_that_was_decided_alone_counts_nothing_once_there_is_no_floor() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(5));
    scene.done(0, put(r#"{"floor":0}"#));
    let (pending, [first, second]) = twice(&scene, 0, take(2).at(1), LEAD);
    first.let_go();
    assert_eq!(scene.end(pending).json()["value"], 3);
    scene.done(0, put("{}"));
    second.let_go();
    assert_eq!(scene.value(), 3);
}

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
