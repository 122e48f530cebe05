//! Homes that move while a keyed write is under way: it is counted once, wherever its key has been.

use std::rc::Rc;

use super::scene::{Held, PendingAnswer, Scene, add, keyed, put, take};

/// Where all of a counter's writes go.
fn home(name: &str) -> tally_simulation::ClientRequest {
    put(&format!(r#"{{"home":"{name}"}}"#))
}

/// Each datacenter has counted 1. A keyed write of 10 of the second has claimed its key, and is held on its way to
/// that lead.
fn claimed(datacenters: &[&str]) -> (Scene, PendingAnswer, Rc<Held>) {
    let scene = Scene::new(datacenters);
    for site in 0..datacenters.len() {
        scene.done(site, add(1));
    }
    let count = scene.hold("/count", "SYD/0/hits");
    let pending = scene.begin(1, keyed(add(10)));
    scene.wait_for(&count);
    (scene, pending, count)
}

/// The same, and it was struck out there, since home is FRA now.
fn struck_out(datacenters: &[&str]) -> (Scene, PendingAnswer) {
    let (scene, pending, count) = claimed(datacenters);
    scene.done(0, home("FRA"));
    count.let_go();
    (scene, pending)
}

/// Home has the key, and never receives the write.
fn lose_at_home(scene: &Scene) {
    for _ in 0..2 {
        let count = scene.hold("/count", "FRA/0/hits");
        scene.wait_for(&count);
        count.lose();
    }
}

#[test]
fn a_home_that_comes_back_counts_what_it_has_struck_out() {
    let (scene, pending) = struck_out(&["FRA", "SYD"]);
    lose_at_home(&scene);
    assert_eq!(scene.end(pending).status, 503);
    scene.done(1, home("SYD"));
    assert_eq!(scene.done(1, keyed(add(10)))["value"], 12);
    assert_eq!(scene.value(), 12);
}

#[test]
fn a_late_copy_of_what_was_struck_out_is_not_counted_where_home_has_come_back() {
    let (scene, pending, first) = claimed(&["FRA", "SYD"]);
    scene.done(0, home("FRA"));
    // The second attempt is struck out, and the write is counted at home.
    assert_eq!(scene.end(pending).json()["value"], 12);
    scene.done(1, home("SYD"));
    scene.done(1, add(1));
    first.let_go();
    assert_eq!(scene.value(), 13);
}

#[test]
fn a_late_claim_moves_no_key_that_has_come_back_since() {
    let (scene, pending) = struck_out(&["FRA", "SYD", "IAD"]);
    let claim = scene.hold("/claim", "");
    scene.wait_for(&claim);
    // Its second attempt leads to home.
    lose_at_home(&scene);
    assert_eq!(scene.end(pending).status, 503);
    scene.done(1, home("SYD"));
    assert_eq!(scene.done(1, keyed(add(10)))["value"], 13);
    scene.done(2, home("IAD"));
    claim.let_go();
    scene.settle();
    // The client asks again, and whoever has the key tells what was counted.
    assert_eq!(scene.done(2, keyed(add(10)))["value"], 13);
    assert_eq!(scene.value(), 13);
}

#[test]
fn a_decrement_that_was_refused_is_not_counted_by_an_attempt_that_comes_late() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, put(r#"{"floor":0}"#));
    scene.done(0, add(1));
    let first = scene.hold("/count", "FRA/0/hits");
    let refused = scene.ask(0, keyed(take(5)));
    assert_eq!(refused.json()["code"], "below-floor", "{}", refused.text());
    scene.done(0, add(200));
    first.let_go();
    assert_eq!(scene.value(), 201);
}

#[test]
fn a_decrement_without_a_key_that_was_refused_is_not_counted_by_an_attempt_that_comes_after_a_restart()
 {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, put(r#"{"floor":0}"#));
    scene.done(0, add(1));
    let first = scene.hold("/count", "FRA/0/hits");
    let refused = scene.ask(0, take(5));
    assert_eq!(refused.json()["code"], "below-floor", "{}", refused.text());
    assert!(refused.header("idempotency-replayed").is_none());
    scene.done(0, add(200));
    scene.world.crash_all_objects();
    first.let_go();
    assert_eq!(scene.value(), 201);
}

#[test]
fn a_write_goes_home_from_a_datacenter_that_counted_before() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, add(1));
    scene.done(1, add(1));
    scene.done(0, home("FRA"));
    let answer = scene.done(1, add(5));
    assert_eq!(answer["datacenter"], "FRA", "{answer}");
    assert_eq!(
        (&answer["value"], &answer["exact"]),
        (&7.into(), &true.into())
    );
    assert_eq!(scene.value(), 7);
}
