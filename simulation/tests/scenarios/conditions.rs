//! `If-Match`: a write or an operation is done only where nothing has changed since, wherever it was counted.

use tally_simulation::ClientRequest;

use super::scene::{Scene, add, matching, put, reset};

fn is_refused(scene: &Scene, ask: ClientRequest) {
    let answer = scene.ask(0, ask);
    assert_eq!(answer.status, 412, "{}", answer.text());
}

#[test]
fn a_write_is_counted_while_its_version_fits() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(5));
    let version = scene.version();
    scene.done(0, matching(add(1), &version));
    is_refused(&scene, matching(add(1), &version));
    assert_eq!(scene.value(), 6);
}

#[test]
fn what_was_counted_while_home_was_elsewhere_has_changed_the_counter() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, put(r#"{"home":"FRA"}"#));
    scene.done(0, add(5));
    let version = scene.version();
    scene.done(0, put(r#"{"home":"SYD"}"#));
    scene.done(1, add(1));
    scene.done(0, put(r#"{"home":"FRA"}"#));
    is_refused(&scene, matching(add(1), &version));
    assert_eq!(scene.value(), 6);
}

#[test]
fn what_was_counted_before_there_was_a_home_has_changed_the_counter() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, add(5));
    let version = scene.version();
    scene.done(0, add(1));
    scene.done(0, put(r#"{"home":"SYD"}"#));
    is_refused(&scene, matching(add(1), &version));
    assert_eq!(scene.value(), 6);
}

/// A counter of two shards, of which the second has counted since it had the version.
fn counted_by_another_shard() -> (Scene, String, i64) {
    let scene = Scene::new(&["FRA"]);
    let other = scene.edges_by_shard()[1][0];
    scene.done(0, put(r#"{"shards":2}"#));
    // It learns that there are two.
    scene.done(0, add(1).at(other));
    let version = scene.version();
    scene.done(0, add(5).at(other));
    assert_eq!(scene.count("/flush", "FRA/1/hits"), 1);
    let value = scene.value();
    (scene, version, value)
}

#[test]
fn what_another_shard_counted_has_changed_the_counter() {
    let (scene, version, value) = counted_by_another_shard();
    is_refused(&scene, matching(add(1), &version));
    assert_eq!(scene.value(), value);
}

#[test]
fn an_operation_is_not_done_where_another_shard_has_counted_since() {
    let (scene, version, value) = counted_by_another_shard();
    is_refused(&scene, matching(reset(), &version));
    assert_eq!(scene.value(), value);
}
