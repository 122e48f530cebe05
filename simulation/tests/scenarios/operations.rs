//! Sets, and the settings that decide by the value, while writes are under way.

use tally_wire::names;

use super::scene::{Scene, add, keyed, matching, put, set, take};

const LEAD: &str = "FRA/0/hits";

#[test]
fn a_set_takes_in_what_was_told_as_exact_before_it() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(5));
    let stop = scene.hold("/suspend", "FRA/0/hits");
    let pending = scene.begin(0, set(100));
    scene.wait_for(&stop);
    let answer = scene.done(0, add(1));
    assert_eq!(
        (&answer["value"], &answer["exact"]),
        (&6.into(), &true.into())
    );
    stop.let_go();
    assert_eq!(scene.end(pending).status, 200);
    assert_eq!(scene.value(), 100, "what was counted before is set over");
}

#[test]
fn a_home_decides_by_the_value_once_it_is_told_that_it_is_one() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, add(5));
    scene.done(1, add(5));
    scene.done(0, put(r#"{"home":"FRA","floor":0}"#));
    assert_eq!(scene.done(0, take(3))["value"], 7);
    scene.done(0, put(r#"{"home":"SYD","floor":0}"#));
    assert_eq!(scene.done(0, take(3))["value"], 4);
    assert_eq!(scene.value(), 4);
}

#[test]
fn a_decrement_that_races_a_set_does_not_take_it_below_the_floor() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, put(r#"{"floor":0}"#));
    scene.done(0, add(20));
    let count = scene.hold("/count", "FRA/0/hits");
    let decrement = scene.begin(0, keyed(take(15)));
    scene.wait_for(&count);
    let stop = scene.hold("/suspend", "FRA/0/hits");
    let pending = scene.begin(0, set(10).at(1));
    scene.wait_for(&stop);
    let observed = scene.hold_answer("/sum", "FRA/0/hits");
    stop.let_go();
    scene.wait_for(&observed);
    count.let_go();
    scene.world.run_for_ms(50);
    observed.let_go();
    assert_eq!(scene.end(pending).status, 200);
    let answer = scene.end(decrement);
    assert_eq!(answer.json()["code"], "below-floor", "{}", answer.text());
    assert_eq!(scene.value(), 10);
}

#[test]
fn a_flush_of_who_has_not_heard_of_the_floor_takes_the_value_no_lower() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(5));
    scene.done(0, put(r#"{"floor":0}"#).at(1));
    let refused = scene.ask(0, take(9));
    assert_eq!(refused.json()["code"], "below-floor", "{}", refused.text());
    assert_eq!(scene.value(), 5);
}

#[test]
fn a_set_does_not_go_on_where_who_counts_alone_is_silent() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(5));
    let stop = scene.hold("/suspend", LEAD);
    let pending = scene.begin(0, set(100));
    scene.wait_for(&stop);
    let sum = scene.hold("/sum", LEAD);
    stop.let_go();
    scene.wait_for(&sum);
    sum.lose();
    assert_eq!(scene.end(pending).status, 503);
    assert_eq!(scene.value(), 5);
}

#[test]
fn what_a_set_has_not_seen_is_set_over_and_what_came_since_is_kept() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, add(5));
    scene.done(1, add(5));
    scene.cut(0, 1, 20_000);
    let answer = scene.done(0, set(100));
    assert_eq!(answer["pending_datacenters"][0], "SYD", "{answer}");
    scene.done(1, add(7));
    scene.world.run_for_ms(60_000);
    assert_eq!(scene.value(), 107);
}

#[test]
fn a_home_knows_no_more_than_its_root() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(5));
    let version = scene.version();
    let configure_answer = scene.hold_answer("/configure", LEAD);
    // It needs a home, and the lead is informed that it is one.
    let pending = scene.begin(0, matching(add(1), &version));
    scene.wait_for(&configure_answer);
    assert!(
        scene
            .world
            .crash(&scene.last_place(names::DIRECTORY, "/operate"))
    );
    drop(scene.end(pending));
    scene.done(0, put(r#"{"floor":0}"#));
    let refused = scene.ask(0, take(90));
    assert_eq!(refused.json()["code"], "below-floor", "{}", refused.text());
}
