//! Boards of many members over several shards: what a far page costs, how long a move stops writes, and what is told
//! elsewhere as a period begins.

use std::ops::Range;

use serde_json::{Value, json};
use tally_core::board::placing::group_of;
use tally_simulation::{ClientRequest, Verdict};

use super::board_scene::BoardScene;

/// The most bytes that shards send for one page.
const PAGE_BYTES_MAX: u64 = 900_000;

/// A name of one of these groups of members, made from a number.
fn name_in(groups: &Range<u32>, number: usize) -> String {
    let mut names = (0..).map(|other| format!("m{number}-{other}"));
    let is_in = |name: &String| groups.contains(&group_of(name.as_bytes()));
    names.find(is_in).expect("every group has names")
}

/// Pages of a board whose scores are from 1 to `members`, by their ranks. Each is right, and costs little.
fn check_far_pages(scene: &BoardScene, members: usize, is_desc: bool, query: &str) {
    let bytes = || {
        let bytes = scene.world.figures().bytes;
        bytes.get("/board-ask").copied().unwrap_or(0)
    };
    let score = |rank: usize| if is_desc { members + 1 - rank } else { rank };
    for rank in [1_100, 2_001, members / 2, members - 7, members, members + 1] {
        let before = bytes();
        let page = scene.get(&format!(
            "/boards/b/members?rank={rank}&limit=20&{query}consistency=strong"
        ));
        let actual: Vec<Value> = (page["entries"].as_array().expect("rows").iter())
            .map(|row| json!([row["score"], row["rank"]]))
            .collect();
        let expected: Vec<Value> = (rank..(rank + 20).min(members + 1))
            .map(|rank| json!([score(rank), rank]))
            .collect();
        assert_eq!(actual, expected, "rank {rank}");
        let cost = bytes() - before;
        assert!(cost < PAGE_BYTES_MAX, "rank {rank}: {cost} bytes");
    }
}

#[test]
fn a_page_far_from_the_first_is_read_without_most_of_the_board() {
    let members = 40_000;
    for (order, shards) in [("desc", 16), ("asc", 3)] {
        let scene = BoardScene::new(&["FRA"]);
        let put = json!({"shards": shards, "scores": "integer", "order": order});
        scene.done("PUT", "/boards/b", &put.to_string());
        scene.settle();
        scene.lines(
            "b",
            1..members + 1,
            |number| json!({"member": format!("m{number}"), "score": number}),
        );
        check_far_pages(&scene, members, order == "desc", "");
    }
}

#[test]
fn a_far_page_is_found_where_shards_have_members_of_different_scores() {
    let members = 12_000;
    let scene = BoardScene::new(&["FRA"]);
    scene.done(
        "PUT",
        "/boards/b",
        r#"{"shards":4,"period":"hour","archive":1}"#,
    );
    scene.settle();
    // The second shard has the first and the last members, the first has most, the last has none.
    scene.lines("b", 1..members + 1, |number| {
        let groups = match number {
            4_000..10_000 => 0..4,
            10_000..10_500 => 8..12,
            _ => 4..8,
        };
        json!({"member": name_in(&groups, number), "score": number})
    });
    check_far_pages(&scene, members, true, "");
    let start = scene.period();
    scene.world.run_for_ms(3_600_000);
    check_far_pages(&scene, members, true, &format!("period={start}&"));
}

#[test]
fn writes_wait_shortly_for_a_move_of_members_that_all_change_meanwhile() {
    let scene = BoardScene::new(&["FRA"]);
    let members = 12_000;
    let line =
        |score: usize| move |number: usize| json!({"member": format!("m{number}"), "score": score});
    let client = scene.client(0);
    let write = |key: &str| {
        let request = ClientRequest::new("POST", "/boards/b/members/probe").at(1);
        let request = request.header("idempotency-key", key);
        let written = scene.world.run(client.ask(request.json(r#"{"score":3}"#)));
        let written = written.expect("an answer");
        assert_eq!(written.status, 200, "{}", written.text());
        written.header("idempotency-replayed").is_some()
    };
    // Their keys are moved too: five pages of them.
    for number in 0..5_000 {
        assert!(!write(&format!("before-{number}")));
    }
    scene.lines("b", 0..members, line(1));
    scene.rule("/board-shard", "/b", 200, Verdict::Answered);
    scene.done("PUT", "/boards/b", r#"{"shards":2}"#);
    // While the members are being copied.
    scene.world.run_for_ms(600);
    scene.lines("b", 0..members, line(2));
    let (mut longest_ms, mut number) = (0, 0);
    while scene.get("/boards/b")["shards"] != 2 {
        let begun_ms = scene.world.now_ms();
        assert!(!write(&format!("meanwhile-{number}")));
        longest_ms = longest_ms.max(scene.world.now_ms() - begun_ms);
        number += 1;
        assert!(number < 2_000, "the members never moved");
    }
    assert!(longest_ms < 1_000, "a write waited {longest_ms} ms");
    let answer = scene.get("/boards/b/members?min=2&limit=1");
    assert_eq!(answer["count"], members + 1);
    for number in (0..5_000).step_by(500) {
        assert!(write(&format!("before-{number}")));
    }
    for number in 0..number {
        assert!(write(&format!("meanwhile-{number}")));
    }
}

#[test]
fn a_rank_elsewhere_is_not_made_of_two_periods() {
    let scene = BoardScene::new(&["FRA", "SYD"]);
    let put = r#"{"shards":3,"period":"hour","archive":1}"#;
    scene.done("PUT", "/boards/b", put);
    scene.settle();
    scene.pass_to_hour(4_000);
    scene.lines(
        "b",
        0..60,
        |number| json!({"member": format!("m{number}"), "score": 10 + number}),
    );
    let read = || scene.ask((1, 0), "GET", "/boards/b/members/m0", "").1;
    // The first read learns where the board lives.
    read();
    for _ in 0..3 {
        let answer = read();
        assert_eq!(
            (&answer["total"], &answer["exact"]),
            (&json!(60), &json!(false)),
            "{answer}"
        );
    }
    scene.world.run_for_ms(5_000);
    scene.done("POST", "/boards/b/members/m0", r#"{"score":1}"#);
    let now = scene.get("/boards/b")["period"].clone();
    let answer = read();
    assert_eq!(
        (&answer["rank"], &answer["total"]),
        (&json!(1), &json!(1)),
        "{answer}"
    );
    assert_eq!(answer["period"], now, "{answer}");
}
