//! The end of keys of Redis's dialect, while the other calls count, and while a root does not answer.

use serde_json::{Value, json};
use tally_host::Later;
use tally_simulation::{ClientRequest, Verdict};
use tally_wire::names::{DIRECTORY, KEYSPACES};

use super::scene::Scene;

/// Milliseconds within which a key ends whose root answers again: the longest that its end is postponed, and a bit.
const BACK_MS: u64 = 70_000;

fn ran(scene: &Scene, commands: &[String]) -> Value {
    let words = commands
        .iter()
        .map(|one| one.split(' ').collect::<Vec<_>>());
    let words: Vec<_> = words.collect();
    let request = ClientRequest::new("POST", "/redis/pipeline").at(0);
    let answer = scene.ask(0, request.json(json!(words).to_string()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn one(scene: &Scene, command: &str) -> Value {
    ran(scene, &[command.to_owned()])[0]["result"].clone()
}

/// Counts by the other calls, which must be acknowledged.
fn count(scene: &Scene, key: &str, delta: u64) {
    let path = format!("/counters/{key}/increment");
    let body = json!({"delta": delta}).to_string();
    scene.done(0, ClientRequest::new("POST", path).at(0).json(body));
}

/// What the other calls say that a counter is; 404 where there is none.
fn value(scene: &Scene, key: &str) -> Value {
    let path = format!("/counters/{key}?consistency=strong");
    let answer = scene.ask(0, ClientRequest::new("GET", path).at(0));
    match answer.status {
        200 => answer.json()["value"].clone(),
        status => json!(status),
    }
}

/// Makes a counter that ends after so many milliseconds. Returns the partition of its root.
fn mortal(scene: &Scene, key: &str, ends_ms: u64) -> String {
    let commands = [format!("SET {key} 5"), format!("PEXPIRE {key} {ends_ms}")];
    ran(scene, &commands);
    scene.last_place(DIRECTORY, "/operate").name
}

/// From now on nothing reaches a partition of the directory, if one is named.
fn cut_off(scene: &Scene, partition: Option<String>) {
    scene.world.set_judge(move |judged| -> Later<Verdict> {
        let is_cut = judged.binding == DIRECTORY && Some(&judged.name) == partition.as_ref();
        Box::pin(async move {
            match is_cut {
                true => Verdict::Unreached,
                false => Verdict::Answered,
            }
        })
    });
}

#[test]
fn what_is_counted_while_a_key_ends_stays() {
    let scene = Scene::new(&["FRA"]);
    mortal(&scene, "c", 2_000);
    let end = scene.hold("/operate", "");
    scene.wait_for(&end);
    count(&scene, "c", 7);
    end.let_go();
    scene.settle();
    assert_eq!(value(&scene, "c"), 7);
    assert_eq!(one(&scene, "GET c"), "7");
    assert_eq!(one(&scene, "TTL c"), -1);
    // It is the key of that name from now on, and has an end of its own.
    assert_eq!(one(&scene, "INCR c"), 8);
    assert_eq!(one(&scene, "PEXPIRE c 1000"), 1);
    scene.settle();
    assert_eq!(value(&scene, "c"), 404);
}

#[test]
fn a_key_that_others_count_all_the_time_ends_all_the_same() {
    let scene = Scene::new(&["FRA"]);
    mortal(&scene, "c", 2_000);
    // As often as it is ended as it was read.
    for _ in 0..3 {
        let end = scene.hold("/operate", "");
        scene.wait_for(&end);
        count(&scene, "c", 7);
        end.let_go();
    }
    assert_eq!(one(&scene, "GET c"), "21");
    assert_eq!(one(&scene, "TTL c"), -1);
    scene.settle();
    assert_eq!(value(&scene, "c"), 21);
}

#[test]
fn a_counter_that_is_set_slowly_ends() {
    let scene = Scene::new(&["FRA"]);
    ran(&scene, &["SET c 1".to_owned()]);
    let set = scene.hold("/operate", "");
    let request = ClientRequest::new("POST", "/redis").at(0);
    let pending = scene.begin(0, request.json(r#"["SET","c","5","PX","100"]"#));
    scene.wait_for(&set);
    scene.world.run_for_ms(300);
    set.let_go();
    assert_eq!(scene.end(pending).json()["result"], "OK");
    scene.world.run_for_ms(5_000);
    assert_eq!(value(&scene, "c"), 404);
}

#[test]
fn what_was_counted_before_a_key_ends_ends_with_it() {
    let scene = Scene::new(&["FRA"]);
    mortal(&scene, "c", 2_000);
    count(&scene, "c", 7);
    scene.world.run_for_ms(1_500);
    count(&scene, "c", 7);
    scene.settle();
    assert_eq!(value(&scene, "c"), 404);
}

#[test]
fn what_is_counted_after_an_end_that_is_late_stays() {
    let scene = Scene::new(&["FRA"]);
    let partition = mortal(&scene, "c", 2_000);
    cut_off(&scene, Some(partition));
    scene.world.run_for_ms(5_000);
    count(&scene, "c", 7);
    scene.world.run_for_ms(5_000);
    count(&scene, "c", 4);
    cut_off(&scene, None);
    scene.world.run_for_ms(BACK_MS);
    assert_eq!(value(&scene, "c"), 11);
    assert_eq!(one(&scene, "GET c"), "11");
}

#[test]
fn what_was_set_after_an_end_that_is_late_stays() {
    let scene = Scene::new(&["FRA"]);
    mortal(&scene, "c", 2_000);
    let look = scene.hold("/operate", "");
    scene.wait_for(&look);
    look.lose();
    let request = ClientRequest::new("PUT", "/counters/c/value").at(0);
    scene.done(0, request.json(r#"{"value":100}"#));
    scene.world.run_for_ms(BACK_MS);
    assert_eq!(value(&scene, "c"), 100);
}

#[test]
fn a_key_whose_root_does_not_answer_holds_up_no_other() {
    let scene = Scene::new(&["FRA"]);
    let partition = mortal(&scene, "first", 1_000);
    let mut others = Vec::new();
    for number in 0..12 {
        let key = format!("k{number}");
        if mortal(&scene, &key, 2_000) != partition {
            others.push(key);
        }
    }
    assert!(others.len() > 5, "they have several roots");
    ran(&scene, &["SET text x PX 2000".to_owned()]);
    cut_off(&scene, Some(partition));
    scene.world.run_for_ms(8_000);
    for key in &others {
        assert_eq!(value(&scene, key), 404, "{key}");
    }
    let keyspace = scene.last_place(KEYSPACES, "/run-commands");
    let rows = |scene: &Scene, condition: &str| {
        let query = format!("SELECT key FROM keys WHERE {condition}");
        let rows = scene.world.look(&keyspace, &query);
        rows.expect("its rows").len()
    };
    assert_eq!(rows(&scene, "key = 'text'"), 0);
    assert_eq!(rows(&scene, "key = 'first'"), 1, "it waits");
    cut_off(&scene, None);
    scene.world.run_for_ms(BACK_MS);
    assert_eq!(value(&scene, "first"), 404);
    assert_eq!(rows(&scene, "true"), 0);
}

#[test]
fn very_many_keys_end_one_alarm_after_the_other() {
    let scene = Scene::new(&["FRA"]);
    let ends_ms = scene.world.now_ms() + 3_000;
    for page in 0..2 {
        let set = |number: usize| format!("SET {page}/{number} x PXAT {ends_ms}");
        ran(&scene, &(0..900).map(set).collect::<Vec<_>>());
    }
    scene.wait_until(|| scene.world.now_ms() > ends_ms + 700, "their end");
    let keyspace = scene.last_place(KEYSPACES, "/run-commands");
    let rows = scene.world.look(&keyspace, "SELECT key FROM keys");
    assert_eq!(rows.expect("its rows").len(), 0);
}
