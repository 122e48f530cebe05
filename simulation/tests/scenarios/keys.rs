//! One key names one thing that is done once, whatever its client asks under it later.

use tally_simulation::{Answer, ClientRequest};

use super::scene::{Scene, add, add_with, keyed, reset};

fn refuses(scene: &Scene, ask: ClientRequest, code: &str) {
    let answer: Answer = scene.ask(0, ask);
    assert_eq!(answer.json()["code"], code, "{}", answer.text());
}

#[test]
fn a_key_of_an_operation_names_no_write() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(5));
    scene.done(0, keyed(reset()));
    refuses(&scene, keyed(add(1)), "idempotency-key-reused");
    assert_eq!(scene.value(), 0);
}

#[test]
fn a_key_of_a_write_names_no_operation() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, keyed(add(5)));
    refuses(&scene, keyed(reset()), "idempotency-key-reused");
    assert_eq!(scene.value(), 5);
}

#[test]
fn a_retry_that_may_not_be_counted_any_more_is_told_that_it_was() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(5));
    let body = format!(r#"{{"delta":1,"at":{}}}"#, scene.world.now_ms() / 1_000);
    let write = keyed(add_with(&body));
    assert_eq!(scene.done(0, write.clone())["value"], 6);
    // Its time is too far off now.
    scene.world.run_for_ms(3_600_000);
    let retry = scene.ask(0, write);
    assert_eq!(retry.header("idempotency-replayed"), Some("true"));
    assert_eq!(retry.json()["value"], 6, "{}", retry.text());
}

#[test]
fn a_key_outlives_a_crash() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, keyed(add(5)));
    assert!(scene.world.crash(&scene.cell("FRA", 0)));
    assert_eq!(scene.done(0, keyed(add(5)))["value"], 5);
    assert_eq!(scene.value(), 5);
}

#[test]
fn a_key_names_one_write() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, keyed(add(5)));
    refuses(&scene, keyed(add(6)), "idempotency-key-reused");
    assert_eq!(scene.value(), 5);
}

#[test]
fn an_operation_under_a_key_is_done_once() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, add(3));
    scene.done(0, keyed(reset()));
    scene.done(0, add(5));
    assert_eq!(scene.done(0, keyed(reset()))["value"], 0);
    assert_eq!(scene.value(), 5);
}
