//! A key of a client's belongs to one request, on whichever shards the members of a board are, and to one board.

use serde_json::{Value, json};
use tally_simulation::{Answer, ClientRequest, Verdict};

use super::board_scene::{BoardScene, name_in, names_of};

/// A board of two shards.
fn spread() -> BoardScene {
    let scene = BoardScene::new(&["FRA"]);
    scene.done("PUT", "/boards/b", r#"{"shards":2}"#);
    scene.settle();
    scene
}

/// Writes a score with a key, at an edge.
fn write(scene: &BoardScene, edge: usize, key: &str, member: &str) -> Answer {
    let request = ClientRequest::new("POST", format!("/boards/b/members/{member}"))
        .header("idempotency-key", key);
    scene.send((0, edge), request.json(r#"{"delta":1}"#))
}

/// Writes a line for each member, with a key.
fn send(scene: &BoardScene, key: &str, members: &[&str]) -> Answer {
    let line = |member: &&str| format!("{{\"member\":\"{member}\",\"delta\":1}}\n");
    let request = ClientRequest::new("POST", "/boards/b/members")
        .header("idempotency-key", key)
        .body(members.iter().map(line).collect::<String>());
    scene.send((0, 0), request)
}

fn code_of(answer: &Answer) -> Value {
    answer.json()["code"].clone()
}

#[test]
fn a_key_of_one_member_writes_to_no_other() {
    let scene = spread();
    // Members of one shard, and of the other.
    for (number, other) in [(0, 1), (0, 15), (15, 0), (7, 8)] {
        let key = format!("{number}-{other}");
        let (member, other) = (name_in(number), name_in(other));
        let scores = || {
            let answer = scene.get(&format!("/boards/b/members?id={member}&id={other}"));
            answer["entries"].clone()
        };
        assert_eq!(write(&scene, 0, &key, &member).status, 200);
        let before = scores();
        // Another edge is as good.
        for edge in 0..2 {
            let refused = write(&scene, edge, &key, &other);
            assert_eq!(code_of(&refused), "idempotency-key-reused");
        }
        let again = write(&scene, 1, &key, &member);
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(scores(), before);
    }
}

#[test]
fn a_body_whose_key_was_used_for_another_writes_nothing() {
    let scene = spread();
    for other in [1, 15] {
        let key = format!("key-{other}");
        let (first, second) = (name_in(0), name_in(other));
        assert_eq!(send(&scene, &key, &[&first]).status, 200);
        let before = scene.get("/boards/b/members")["entries"].clone();
        let refused = send(&scene, &key, &[&first, &second]);
        assert_eq!(code_of(&refused), "idempotency-key-reused");
        assert_eq!(scene.get("/boards/b/members")["entries"], before);
    }
}

#[test]
fn a_key_that_was_used_before_the_board_was_spread_is_known_after() {
    let scene = BoardScene::new(&["FRA"]);
    let (member, other) = (name_in(0), name_in(15));
    assert_eq!(write(&scene, 0, "one", &member).status, 200);
    scene.done("PUT", "/boards/b", r#"{"shards":2}"#);
    scene.settle();
    let refused = write(&scene, 0, "one", &other);
    assert_eq!(code_of(&refused), "idempotency-key-reused");
    let again = write(&scene, 0, "one", &member);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    // And to the next number of shards.
    assert_eq!(write(&scene, 0, "two", &other).status, 200);
    scene.done("PUT", "/boards/b", r#"{"shards":3}"#);
    scene.settle();
    let refused = write(&scene, 0, "two", &member);
    assert_eq!(code_of(&refused), "idempotency-key-reused");
    let again = write(&scene, 0, "two", &other);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let top = scene.get("/boards/b/members");
    assert_eq!(
        (&top["entries"][0]["score"], &top["entries"][1]["score"]),
        (&json!(1), &json!(1)),
        "{top}"
    );
}

#[test]
fn a_body_that_was_half_made_is_not_ended_on_the_next_board() {
    let scene = spread();
    let (first, last) = (name_in(0), name_in(15));
    scene.rule("/board-write", "/1/b", 0, Verdict::Unreached);
    assert_eq!(send(&scene, "one", &[&first, &last]).status, 503);
    assert_eq!(names_of(&scene.get("/boards/b/members")), [&*first]);
    scene.lift_rules();
    scene.done("DELETE", "/boards/b", "");
    scene.done("POST", "/boards/b/members/ann", r#"{"score":1}"#);
    let refused = send(&scene, "one", &[&first, &last]);
    assert_eq!(code_of(&refused), "board-ended", "{}", refused.text());
    assert_eq!(names_of(&scene.get("/boards/b/members")), ["ann"]);
}

/// Objects with two of the new shards have the records of both former ones.
#[test]
fn a_body_that_was_half_made_is_completed_wherever_its_members_are_by_then() {
    for shards in [2, 3] {
        let scene = spread();
        let (first, last) = (name_in(7), name_in(8));
        scene.rule("/board-write", "/1/b", 0, Verdict::Unreached);
        assert_eq!(send(&scene, "one", &[&first, &last]).status, 503);
        scene.lift_rules();
        scene.done("PUT", "/boards/b", &format!("{{\"shards\":{shards}}}"));
        scene.settle();
        for _ in 0..2 {
            let again = send(&scene, "one", &[&first, &last]);
            assert_eq!(again.status, 200, "{}", again.text());
            let top = scene.get("/boards/b/members");
            let scores = [0, 1].map(|at| top["entries"][at]["score"].clone());
            assert_eq!(scores, [json!(1), json!(1)], "{shards} shards: {top}");
        }
    }
}

#[test]
fn a_retry_to_a_board_that_has_ended_makes_no_board() {
    let scene = spread();
    assert_eq!(write(&scene, 0, "one", &name_in(15)).status, 200);
    scene.done("DELETE", "/boards/b", "");
    // One edge knows where the shards were, the other does not.
    for edge in [0, 3] {
        let refused = write(&scene, edge, "one", &name_in(15));
        assert_eq!(code_of(&refused), "board-ended", "{}", refused.text());
        assert_eq!(scene.get("/boards")["entries"], json!([]));
    }
    // A new key makes one, from either.
    for (edge, key) in [(3, "two"), (0, "three")] {
        let written = write(&scene, edge, key, &name_in(0));
        assert_eq!(written.json()["score"], 1, "{}", written.text());
        assert_eq!(scene.get("/boards")["entries"], json!(["b"]));
        scene.done("DELETE", "/boards/b", "");
    }
}

#[test]
fn a_write_that_needs_its_member_makes_no_board() {
    let scene = BoardScene::new(&["FRA"]);
    for key in [None, Some("one")] {
        let request =
            ClientRequest::new("POST", "/boards/typo/members/ann").header("if-match", "*");
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        let refused = scene.send((0, 0), request.json(r#"{"score":1}"#));
        assert_eq!(refused.status, 412, "{}", refused.text());
        assert_eq!(scene.get("/boards")["entries"], json!([]));
    }
    let lines = ClientRequest::new("POST", "/boards/typo/members").header("if-match", "*");
    let refused = scene.send((0, 0), lines.body(r#"{"member":"ann","score":1}"#));
    assert_eq!(code_of(&refused), "invalid-precondition");
}
