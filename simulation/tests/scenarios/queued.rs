//! Events that wait in an inbox while their counter ends, or the inbox does: one that was acknowledged is counted
//! once, in the counter that lived then.

use std::rc::Rc;

use tally_core::counter::queue::LOG_ROWS_MAX;
use tally_simulation::ClientRequest;
use tally_wire::names;

use super::scene::{COUNTER, Held, PendingAnswer, Scene, add, delete, event, put};

const LEAD: &str = "FRA/0/hits";

fn queue(scene: &Scene, increment: u64) {
    let answer = scene.ask(0, event(increment));
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn an_append_that_comes_again_after_a_crash_is_logged_once() {
    let scene = Scene::new(&["FRA"]);
    // It is gathered at once, and a quarter of a second later what comes now.
    queue(&scene, 1);
    let logged = scene.hold_answer("/append", "");
    let pending = scene.begin(0, event(2));
    scene.wait_for(&logged);
    assert!(
        scene
            .world
            .crash(&scene.last_place(names::INBOXES, "/append"))
    );
    assert_eq!(scene.end(pending).status, 202);
    assert_eq!(scene.count("/append", ""), 3, "the last one came twice");
    assert_eq!(scene.value(), 3);
}

#[test]
fn events_that_wait_together_are_counted_in_the_generation_of_each() {
    let scene = Scene::new(&["FRA"]);
    queue(&scene, 1);
    queue(&scene, 2);
    scene.done(0, delete());
    let begun_ms = scene.world.now_ms();
    queue(&scene, 4);
    assert!(scene.world.now_ms() - begun_ms < 200);
    assert_eq!(scene.value(), 4);
}

#[test]
fn a_generation_that_was_taken_back_is_not_counted_for() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    let name = scene.hold_answer("/register-inbox", "");
    let pending = scene.begin(0, event(2));
    scene.wait_for(&name);
    scene.done(0, delete());
    name.let_go();
    assert_eq!(scene.end(pending).status, 202);
    assert_eq!(scene.value(), 2);
}

/// A counter of 1, with an event of 2 that its inbox has sent.
fn sent() -> (Scene, Rc<Held>) {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    let count = scene.hold("/count", LEAD);
    queue(&scene, 2);
    scene.wait_for(&count);
    (scene, count)
}

/// A strong read lacks nothing that it calls exact.
fn reads_the_truth(scene: &Scene, value: i64) {
    let path = format!("{COUNTER}?consistency=strong");
    let read = scene.done(0, ClientRequest::new("GET", path).at(0));
    assert!(read["exact"] == false || read["value"] == value, "{read}");
}

#[test]
fn a_write_of_unknown_outcome_is_sent_until_it_is_known() {
    let (scene, count) = sent();
    let again = scene.hold("/count", LEAD);
    count.lose();
    scene.wait_for(&again);
    again.lose();
    assert_eq!(scene.value(), 3);
}

#[test]
fn a_write_that_comes_again_counts_once() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(1));
    let answer = scene.hold_answer("/count", LEAD);
    queue(&scene, 2);
    scene.wait_for(&answer);
    assert_eq!(scene.value(), 3);
}

#[test]
fn nothing_is_exact_while_a_write_is_on_its_way() {
    let (scene, count) = sent();
    let answer = scene.done(0, add(4));
    assert!(answer["exact"] == false || answer["value"] == 7, "{answer}");
    reads_the_truth(&scene, 7);
    count.let_go();
    assert_eq!(scene.value(), 7);
}

/// A flush that comes again is answered with the counts right after it, which lack the event.
#[test]
fn an_answer_that_comes_after_an_event_from_before_its_write_is_not_called_exact_without_it() {
    let (scene, count) = sent();
    let flushed = scene.hold_answer("/flush", LEAD);
    let pending = scene.begin(0, add(4));
    scene.wait_for(&flushed);
    let again = scene.hold("/flush", LEAD);
    let before = scene.count("/configure", LEAD);
    count.let_go();
    // After a read the root configures the lead: no inbox holds events any more.
    scene.done(0, ClientRequest::new("GET", COUNTER));
    scene.wait_until(|| scene.count("/configure", LEAD) > before, "/configure");
    scene.wait_for(&again);
    again.let_go();
    let answer = scene.end(pending).json();
    assert!(answer["exact"] == false || answer["value"] == 7, "{answer}");
}

#[test]
fn nothing_is_exact_while_an_event_is_in_the_log() {
    let scene = Scene::new(&["FRA"]);
    queue(&scene, 1);
    queue(&scene, 2);
    reads_the_truth(&scene, 3);
    assert_eq!(scene.value(), 3);
}

/// Moves home, and waits until the message reaches a lead: the answer waits for the queue.
fn move_home(scene: &Scene, site: usize, settings: &str, lead: &str) -> PendingAnswer {
    let before = scene.count("/configure", lead);
    let pending = scene.begin(site, put(settings));
    scene.wait_until(|| scene.count("/configure", lead) > before, settings);
    pending
}

/// Each of three datacenters has counted 1. An event of 10 of the second was sent to that lead, and home is FRA
/// meanwhile.
fn sent_elsewhere() -> (Scene, Rc<Held>, PendingAnswer) {
    let scene = Scene::new(&["FRA", "SYD", "IAD"]);
    for site in 0..3 {
        scene.done(site, add(1));
    }
    let count = scene.hold("/count", "SYD/0/hits");
    assert_eq!(scene.ask(1, event(10)).status, 202);
    scene.wait_for(&count);
    let pending = move_home(&scene, 0, r#"{"home":"FRA"}"#, "SYD/0/hits");
    (scene, count, pending)
}

#[test]
fn a_late_copy_of_what_was_struck_out_is_not_counted_where_home_has_come_back() {
    let (scene, first, pending) = sent_elsewhere();
    // The second attempt is struck out, and the event is counted at home.
    assert_eq!(scene.end(pending).json()["value"], 13);
    scene.done(1, put(r#"{"home":"SYD"}"#));
    scene.done(1, add(1));
    first.let_go();
    assert_eq!(scene.value(), 14);
}

#[test]
fn a_late_claim_gives_nothing_to_the_next_home_that_another_was_told_to_count() {
    let (scene, count, pending) = sent_elsewhere();
    let claim = scene.hold("/claim", "SYD/0/hits");
    count.let_go();
    scene.wait_for(&claim);
    // Home counts it, and the inbox does not hear of that.
    for _ in 0..2 {
        scene.wait_for(&scene.hold_answer("/count", LEAD));
    }
    let moved = move_home(&scene, 2, r#"{"home":"IAD"}"#, "IAD/0/hits");
    claim.let_go();
    for pending in [pending, moved] {
        assert_eq!(scene.end(pending).status, 200);
    }
    assert_eq!(scene.value(), 13);
}

#[test]
fn an_event_whose_first_attempt_is_late_is_not_refused() {
    let scene = Scene::new(&["FRA"]);
    queue(&scene, 1);
    let first = scene.hold("/append", "");
    let pending = scene.begin(0, event(2));
    scene.wait_for(&first);
    // The second attempt finds the log full. There may be room when the first arrives.
    let inbox = scene.last_place(names::INBOXES, "/append");
    assert!(scene.world.crash(&inbox));
    let rows = format!(
        "INSERT INTO log VALUES (100, x'00'), ({}, x'00')",
        100 + LOG_ROWS_MAX
    );
    assert!(scene.world.look(&inbox, &rows).is_some());
    let answer = scene.end(pending);
    assert_eq!(answer.json()["code"], "unavailable", "{}", answer.text());
}
