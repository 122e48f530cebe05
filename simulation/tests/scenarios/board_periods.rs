//! What is told of a board as a period ends: each answer is of one period, and a period has the members that were there
//! at its end.

use serde_json::{Value, json};
use tally_core::board::placing::group_of;
use tally_simulation::Verdict;

use super::board_scene::{BoardScene, name_in, names_of, second};

/// A board with hourly periods, the last one kept.
fn hourly(shards: u32, before_ms: i64) -> BoardScene {
    let scene = BoardScene::new(&["FRA"]);
    let put = json!({"period": "hour", "archive": 1, "shards": shards});
    scene.done("PUT", "/boards/b", &put.to_string());
    scene.settle();
    scene.pass_to_hour(before_ms);
    scene
}

/// The starts and totals of the periods that are kept.
fn kept(scene: &BoardScene) -> Vec<(i64, Value)> {
    let answer = scene.get("/boards/b?include=periods");
    let periods = answer["periods"].as_array().expect("periods").iter();
    let kept = periods.map(|period| (second(&period["starts_at"]), period["total"].clone()));
    kept.collect()
}

#[test]
fn members_that_expired_before_the_end_of_their_period_are_not_kept_with_it() {
    // In one call a board removes 50,000 of them at most.
    for (shards, expiring) in [(1, 51_000), (2, 25_000)] {
        let scene = hourly(shards, 100_000);
        let start = scene.period();
        let expires =
            |at: usize| json!({"member": format!("e{at}"), "score": at, "expires_in_seconds": 60});
        scene.lines("b", 0..expiring, expires);
        scene.done("POST", "/boards/b/members/last", r#"{"score":1}"#);
        scene.done(
            "POST",
            "/boards/b/members/later",
            r#"{"score":2,"expires_in_seconds":3600}"#,
        );
        scene.world.forget_alarms();
        scene.world.run_for_ms(101_000);
        // The first call after the end may be a write.
        let answer = scene.done("POST", "/boards/b/members/new", r#"{"score":3}"#);
        assert_eq!(
            (&answer["rank"], &answer["total"]),
            (&json!(1), &json!(1)),
            "{answer}"
        );
        assert_eq!(kept(&scene), [(start, json!(2))]);
        let top = scene.get(&format!("/boards/b/members?period={start}"));
        assert_eq!(names_of(&top), ["later", "last"], "{top}");
        assert_eq!(names_of(&scene.get("/boards/b/members")), ["new"]);
    }
}

#[test]
fn a_period_whose_members_have_all_expired_pushes_out_no_other() {
    let scene = hourly(1, 600_000);
    scene.done("POST", "/boards/b/members/ann", r#"{"score":1}"#);
    scene.world.run_for_ms(600_000);
    let before = kept(&scene);
    assert_eq!(before.len(), 1);
    scene.pass_to_hour(61_000);
    scene.done(
        "POST",
        "/boards/b/members/bob",
        r#"{"score":1,"expires_in_seconds":60}"#,
    );
    scene.world.forget_alarms();
    scene.world.run_for_ms(61_001);
    assert_eq!(kept(&scene), before);
}

#[test]
fn a_rank_is_not_made_of_two_periods() {
    let scene = hourly(3, 60_000);
    for group in [0, 8, 15] {
        let path = format!("/boards/b/members/{}", name_in(group));
        scene.done("POST", &path, r#"{"score":1}"#);
    }
    // The member is asked for in this period, the others before it in the next.
    scene.pass_to_hour(900);
    scene.rule("/board-ask", "/b", 600, Verdict::Answered);
    let path = format!("/boards/b/members/{}", name_in(8));
    let (_, answer) = scene.ask((0, 0), "GET", &path, "");
    assert_eq!(answer["code"], "member-not-found", "{answer}");
}

#[test]
fn a_total_elsewhere_is_not_below_a_rank() {
    let scene = BoardScene::new(&["FRA", "SYD"]);
    scene.done("PUT", "/boards/b", r#"{"shards":3}"#);
    scene.settle();
    let member = name_in(0);
    let path = format!("/boards/b/members/{member}");
    scene.done("POST", &path, r#"{"score":1}"#);
    let read = || scene.ask((1, 0), "GET", &path, "").1;
    // The first read learns where the board lives, the next one reads a summary.
    read();
    assert_eq!(read()["total"], 1);
    let is_own = |name: &String| group_of(name.as_bytes()) == 0;
    let names = (0..).map(|number| format!("n{number}")).filter(is_own);
    let names: Vec<String> = names.take(20).collect();
    scene.lines(
        "b",
        0..20,
        |number| json!({"member": names[number], "score": 9}),
    );
    let answer = read();
    assert_eq!(
        (&answer["rank"], &answer["total"]),
        (&json!(21), &json!(21)),
        "{answer}"
    );
}
