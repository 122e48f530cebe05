//! Reads through the cache of an isolate: many questions at once, and counters that begin to exist meanwhile.

use tally_simulation::ClientRequest;

use super::scene::{COUNTER, PendingAnswer, Scene, add, keyed, put};

fn read(query: &str) -> ClientRequest {
    ClientRequest::new("GET", format!("{COUNTER}{query}")).at(0)
}

/// Asks for so many windows at once. Returns how many fetches that took.
fn fetches_of_windows(scene: &Scene, windows: usize) -> usize {
    let before = scene.count("/read", "");
    let ask = |window| scene.begin(1, read(&format!("?window={window}")));
    let all_pending: Vec<PendingAnswer> = (1..=windows).map(ask).collect();
    for pending in all_pending {
        let answer = scene.end(pending);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["value"], 1, "{}", answer.text());
    }
    scene.count("/read", "") - before
}

#[test]
fn many_questions_at_once_cost_a_fetch_each_and_all_are_answered() {
    let scene = Scene::new(&["FRA", "SYD"]);
    scene.done(0, add(1));
    assert_eq!(fetches_of_windows(&scene, 40), 40);
    scene.settle();
    // More than are shared.
    assert_eq!(fetches_of_windows(&scene, 100), 100);
}

#[test]
fn a_counter_that_was_counted_while_a_read_found_none_is_there_for_the_next_read() {
    let scene = Scene::new(&["FRA"]);
    let answer = scene.hold_answer("/read", "");
    let first = scene.begin(0, read(""));
    scene.wait_for(&answer);
    scene.done(0, add(1));
    answer.let_go();
    assert_eq!(scene.end(first).status, 404, "it began before");
    assert_eq!(scene.ask(0, read("")).status, 200);
}

#[test]
fn a_counter_that_a_write_with_a_key_has_made_is_there_for_the_next_read() {
    let scene = Scene::new(&["FRA"]);
    assert_eq!(scene.ask(0, read("")).status, 404);
    scene.done(0, keyed(add(1)));
    assert_eq!(scene.ask(0, read("")).status, 200);
}

#[test]
fn a_tag_of_before_a_setting_is_not_that_of_the_counter_after_it() {
    let scene = Scene::new(&["FRA"]);
    let put = |json: &str| ClientRequest::new("PUT", COUNTER).at(0).json(json);
    scene.done(0, put(r#"{"home":"FRA"}"#));
    scene.done(0, add(1));
    let tag = scene.ask(0, read("")).header("etag").map(str::to_owned);
    let tag = tag.expect("a tag");
    let unchanged = || scene.ask(0, read("").header("if-none-match", &tag)).status;
    assert_eq!(unchanged(), 304);
    scene.done(0, put(r#"{"home":"FRA","ttl_seconds":60}"#));
    assert_eq!(unchanged(), 200);
    // As a condition it is of the version alone.
    let answer = scene.ask(0, add(1).header("if-match", &tag));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = scene.ask(0, add(1).header("if-match", &tag));
    assert_eq!(answer.status, 412, "{}", answer.text());
}

#[test]
fn text_has_a_tag_of_its_own_and_a_weight_of_0_refuses_it() {
    let scene = Scene::new(&["FRA"]);
    let put = ClientRequest::new("PUT", COUNTER).at(0);
    scene.done(0, put.json(r#"{"home":"FRA"}"#));
    scene.done(0, add(1));
    let accept = |kind: &str| scene.ask(0, read("").header("accept", kind));
    for refused in ["text/plain;q=0", "text/plain; q=0.0, application/json"] {
        assert_eq!(accept(refused).json()["value"], 1, "{refused}");
    }
    let text = accept("text/plain;q=0.9");
    assert_eq!(text.text(), "1");
    let tag = text.header("etag").map(str::to_owned).expect("a tag");
    let json = scene.ask(0, read("").header("if-none-match", &tag));
    assert_eq!(json.status, 200);
    let again = read("").header("accept", "text/plain");
    assert_eq!(
        scene.ask(0, again.header("if-none-match", &tag)).status,
        304
    );
    assert_eq!(scene.ask(0, add(1).header("if-match", &tag)).status, 200);
}

#[test]
fn a_counter_that_is_made_anew_at_its_home_has_another_tag() {
    let scene = Scene::new(&["FRA"]);
    let put = |path: &str, json: &str| ClientRequest::new("PUT", path).at(0).json(json);
    let make = |value: u32| {
        scene.done(0, put(COUNTER, r#"{"home":"FRA","floor":0}"#));
        let set = format!(r#"{{"value":{value}}}"#);
        scene.done(0, put(&format!("{COUNTER}/value"), &set));
        let answer = scene.ask(0, read("?consistency=strong"));
        answer.header("etag").map(str::to_owned).expect("a tag")
    };
    let before = make(3);
    let unread = read("?consistency=strong").header("if-none-match", &before);
    scene.ask(0, ClientRequest::new("DELETE", COUNTER).at(0));
    let now = make(500);
    assert_eq!(scene.ask(0, unread).status, 200);
    assert_eq!(scene.ask(0, add(1).header("if-match", &before)).status, 412);
    assert_eq!(scene.ask(0, add(1).header("if-match", &now)).status, 200);
}

/// The sum of a history over the last 80,000 seconds, and the number of its points with counts.
fn history(scene: &Scene, step: &str) -> (u64, usize) {
    let to = scene.world.now_ms() / 1_000;
    let range = format!("from={}&to={to}", to - 80_000);
    let answer = scene.done(
        0,
        read(&format!(
            "/history?consistency=strong&zeros=0&step={step}&{range}"
        )),
    );
    let points = answer["points"].as_array().expect("points");
    let counts = points.iter().filter_map(|point| point[1].as_u64());
    (counts.sum(), points.len())
}

#[test]
fn seconds_that_are_kept_for_a_day_are_there_once_after_crashes_and_a_flush_that_comes_again() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, put(r#"{"seconds_kept":86400}"#));
    let lead = scene.cell("FRA", 0);
    for _ in 0..30 {
        scene.done(0, add(1));
        scene.world.run_for_ms(90_000);
    }
    // This flush moves the seconds of a minute out of memory, and is sent twice.
    let answer = scene.hold_answer("/flush", "FRA/0/hits");
    scene.done(0, add(1));
    answer.let_go();
    assert!(scene.world.crash(&lead));
    assert_eq!(history(&scene, "1s"), (31, 31));
    for _ in 0..5 {
        scene.world.run_for_ms(90_000);
        assert!(scene.world.crash(&lead));
        scene.done(0, add(1));
    }
    assert_eq!(history(&scene, "1s"), (36, 36));
    // Seconds may go now, and nothing else.
    scene.done(0, put(r#"{"seconds_kept":900}"#));
    scene.done(0, add(1));
    let (kept, _) = history(&scene, "1s");
    assert!((10..36).contains(&kept), "{kept}");
    assert_eq!(history(&scene, "1m").0, 37);
    assert_eq!(scene.value(), 37);
}
