//! Counters that end, by themselves or by a deletion, while writes are on their way: what is acknowledged is of the
//! counter that lives then, once.

use serde_json::Value;
use tally_simulation::{ClientRequest, Role};

use super::scene::{Scene, add, delete, keyed, put, take};

const LEAD: &str = "FRA/0/hits";

/// A lead that has counted 5, and knows of a time to live.
fn mortal(settings: &str) -> Scene {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(5));
    let answer = scene.done(0, put(settings));
    assert_eq!(
        answer["pending_datacenters"].as_array().map(Vec::len),
        Some(0)
    );
    scene
}

#[test]
fn a_counter_that_was_deleted_and_comes_again_at_once_is_told_to_the_directory() {
    for wait_ms in [0, 300, 1_000, 2_500] {
        let scene = Scene::new(&["FRA"]);
        scene.done(0, add(2));
        scene.world.run_for_ms(300);
        scene.done(0, delete());
        scene.world.run_for_ms(wait_ms);
        scene.done(0, add(7));
        scene.world.run_for_ms(15_000);
        let listed = ClientRequest::new("GET", "/counters?values=1");
        let answer = scene.done(0, listed);
        assert_eq!(answer["entries"][0]["value"], 7, "{wait_ms} ms: {answer}");
    }
}

#[test]
fn a_lead_that_cannot_be_stopped_stops_by_itself() {
    let scene = mortal(r#"{"ttl_seconds":2}"#);
    let stop = scene.hold("/suspend", LEAD);
    let end = scene.hold("/close", LEAD);
    scene.wait_for(&stop);
    stop.lose();
    scene.wait_for(&end);
    let write = scene.begin(0, add(7).at(1));
    scene.world.run_for_ms(500);
    end.let_go();
    assert_eq!(scene.end(write).status, 200);
    scene.world.run_for_ms(500);
    assert_eq!(scene.read("")["value"], 7);
}

#[test]
fn a_lead_that_does_not_know_its_end_is_told_before_it_comes() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(5));
    let settings = [
        scene.hold("/configure", LEAD),
        scene.hold("/configure", LEAD),
    ];
    let pending = scene.begin(0, put(r#"{"ttl_seconds":2,"ttl_mode":"sliding"}"#));
    scene.wait_for(&settings[0]);
    // Once more by itself, which stays on its way.
    settings[0].lose();
    assert_eq!(scene.end(pending).json()["pending_datacenters"][0], "FRA");
    let stop = scene.hold("/suspend", LEAD);
    scene.wait_for(&stop);
    let write = scene.begin(0, add(7).at(1));
    scene.world.run_for_ms(200);
    stop.let_go();
    assert_eq!(scene.end(write).status, 200);
    scene.world.run_for_ms(500);
    assert_eq!(scene.read("")["value"], 7);
}

#[test]
fn a_deletion_does_not_take_a_lead_for_stopped_whose_time_is_over_for_the_root_alone() {
    let scene = mortal(r#"{"ttl_seconds":3,"ttl_mode":"sliding"}"#);
    scene.world.run_for_ms(2_500);
    // It lives for three more seconds, and the root does not know that.
    scene.done(0, add(5));
    let stop = scene.hold("/suspend", LEAD);
    let pending = scene.begin(0, delete().at(1));
    scene.wait_for(&stop);
    scene.world.run_for_ms(1_000);
    stop.lose();
    assert_eq!(scene.end(pending).status, 503);
    assert_eq!(scene.read("")["value"], 10);
}

#[test]
fn a_late_copy_of_a_flush_counts_in_no_newer_generation() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    // Its lane knows the generation now. The first attempt is late, the second is counted.
    let first = scene.hold("/flush", LEAD);
    assert_eq!(scene.done(0, add(5))["value"], 6);
    scene.done(0, delete());
    // The cell forgets what it had counted, and another isolate begins the counter again.
    assert!(scene.world.crash(&scene.cell("FRA", 0)));
    scene.done(0, add(1).at(1));
    first.let_go();
    assert_eq!(scene.value(), 1);
}

#[test]
fn a_second_attempt_of_a_decrement_counts_in_no_newer_generation_than_the_first() {
    let floor = || put(r#"{"floor":-100}"#);
    for begins_again in [false, true] {
        let scene = Scene::new(&["FRA"]);
        scene.done(0, floor());
        // It is counted, and its answer is late. Nobody else knows its key.
        let first = scene.hold_answer("/count", LEAD);
        let decrement = scene.begin(0, take(5));
        scene.wait_for(&first);
        scene.done(0, delete());
        if begins_again {
            scene.done(0, floor());
            scene.done(0, add(1).at(1));
        }
        assert_eq!(scene.end(decrement).status, 503);
        first.let_go();
        scene.settle();
        let read = ClientRequest::new("GET", "/counters/hits?consistency=strong");
        let read = scene.ask(0, read);
        let expected = if begins_again {
            (200, 1.into())
        } else {
            (404, Value::Null)
        };
        assert_eq!((read.status, read.json()["value"].clone()), expected);
    }
}

#[test]
fn a_clock_that_steps_forward_makes_a_cell_forget_no_flush() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    let first = scene.hold("/flush", LEAD);
    assert_eq!(scene.done(0, add(5))["value"], 6);
    scene.world.set_clock(Role::Objects, 3_600_000);
    scene.done(0, add(1).at(1));
    first.let_go();
    assert_eq!(scene.value(), 7);
}

#[test]
fn a_lead_that_must_still_drop_a_generation_does_not_forget_what_it_struck_out() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, add(1));
    scene.done(1, add(1));
    let ends = [
        scene.hold("/close", "SYD/0/hits"),
        scene.hold("/close", "SYD/0/hits"),
    ];
    let deletion = scene.begin(0, delete());
    scene.wait_for(&ends[0]);
    ends[0].lose();
    assert_eq!(scene.end(deletion).json()["pending_datacenters"][0], "SYD");
    // A write begins it again. It reaches that lead once home is elsewhere, and a copy of it later.
    let late = scene.hold("/count", "SYD/0/hits");
    let pending = scene.begin(1, keyed(add(10)));
    scene.wait_for(&late);
    scene.done(0, put(r#"{"home":"FRA"}"#));
    drop(scene.end(pending));
    // It drops the generation that ended, and is home.
    scene.wait_for(&ends[1]);
    ends[1].let_go();
    scene.world.run_for_ms(500);
    scene.done(0, put(r#"{"home":"SYD"}"#));
    scene.done(1, add(1));
    late.let_go();
    scene.settle();
    scene.done(1, keyed(add(10)));
    assert_eq!(scene.value(), 11);
}

#[test]
fn a_write_that_was_claimed_for_a_generation_counts_in_no_other() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    let count = scene.hold("/count", LEAD);
    let pending = scene.begin(0, keyed(add(10)));
    scene.wait_for(&count);
    scene.done(0, delete().at(1));
    scene.done(0, add(2).at(1));
    count.let_go();
    let answer = scene.end(pending);
    assert!(answer.status >= 400, "{}", answer.text());
    assert_eq!(scene.value(), 2);
}

#[test]
fn a_counter_is_begun_again_by_a_clock_that_was_set_back() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    scene.done(0, delete());
    scene.world.set_clock(Role::Objects, -3_600_000);
    assert_eq!(scene.done(0, add(2))["value"], 2);
    assert_eq!(scene.value(), 2);
}

#[test]
fn a_counter_lives_as_long_as_any_lead_knows_of_writes() {
    let scene = mortal(r#"{"ttl_seconds":2,"ttl_mode":"sliding"}"#);
    scene.world.run_for_ms(1_500);
    scene.done(0, add(5));
    scene.world.run_for_ms(1_500);
    assert_eq!(scene.read("")["value"], 10);
}

#[test]
fn alarms_that_ring_before_their_time_by_the_clock_of_objects_are_put_off() {
    let scene = mortal(r#"{"ttl_seconds":10}"#);
    scene.world.set_clock(Role::Objects, -5_000);
    let before = scene.world.figures().alarms;
    scene.world.run_for_ms(12_000);
    // One of each object, put off a second at a time; set again as it was it rang at once, hundreds of times.
    let alarm_count = scene.world.figures().alarms - before;
    assert!((1..100).contains(&alarm_count), "{alarm_count} alarms");
    scene.world.run_for_ms(5_000);
    assert_eq!(scene.done(0, add(1))["value"], 1);
}
