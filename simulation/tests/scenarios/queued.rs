//! Events that wait in an inbox while their counter ends, or the inbox does: one that was acknowledged is counted once, in the counter
//! that lived then.

use tally::protocol::names;

use super::scene::{Scene, add, delete, event};

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
    let asked = scene.begin(0, event(2));
    scene.wait_for(&logged);
    assert!(
        scene
            .world
            .crash(&scene.last_place(names::INBOXES, "/append"))
    );
    assert_eq!(scene.end(asked).status, 202);
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
    let asked = scene.begin(0, event(2));
    scene.wait_for(&name);
    scene.done(0, delete());
    name.let_go();
    assert_eq!(scene.end(asked).status, 202);
    assert_eq!(scene.value(), 2);
}
