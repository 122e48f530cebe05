//! Boards keep what they have acknowledged, and call exact what is exact: where members expire, boards end, keys repeat
//! and members move.

use futures_util::future::join;
use serde_json::{Value, json};
use tally_core::board::placing::ShardAt;
use tally_core::counter::id::CounterId;
use tally_simulation::{ClientRequest, Verdict};
use tally_wire::names;

use super::board_scene::{BoardScene, name_in, names_of, owner};
use super::scene::Scene;

/// A board where so many members have just expired, and no alarm has removed any.
fn expired(members: usize, settings: &str) -> BoardScene {
    let scene = BoardScene::new(&["FRA"]);
    scene.done("PUT", "/boards/b", settings);
    scene.lines(
        "b",
        0..members,
        |number| json!({"member": format!("m{number:05}"), "delta": 1, "expires_in_seconds": 60}),
    );
    scene.world.forget_alarms();
    scene.world.run_for_ms(60_001);
    scene
}

#[test]
fn a_write_to_an_expired_member_that_is_not_yet_removed_begins_a_new_one() {
    let scene = expired(14_000, r#"{"keep":"set"}"#);
    let write =
        |member: &str, body: &str| scene.done("POST", &format!("/boards/b/members/{member}"), body);
    let set = write("m13999", r#"{"score":5}"#);
    assert_eq!((&set["previous"], &set["score"]), (&Value::Null, &json!(5)));
    assert_eq!(scene.run(&["ZINCRBY", "b", "7", "m13997"]), "7");
    let request = ClientRequest::new("POST", "/boards/b/members/m13996").header("if-match", "*");
    let refused = scene.send((0, 0), request.json(r#"{"score":2}"#));
    assert_eq!(refused.status, 412, "{}", refused.text());
    let added = write("m13998", r#"{"delta":6}"#);
    assert_eq!(added["score"], 6, "{added}");
    for _ in 0..16 {
        scene.get("/boards/b");
    }
    let top = scene.get("/boards/b/members");
    assert_eq!(names_of(&top), ["m13997", "m13998", "m13999"], "{top}");
    assert_eq!(top["exact"], true);
}

#[test]
fn the_answer_to_a_write_is_not_called_exact_while_expired_members_are_counted() {
    for (members, is_exact) in [(3_000, true), (9_000, false)] {
        let scene = expired(members, r#"{"keep":"set"}"#);
        let answer = scene.done("POST", "/boards/b/members/ann", r#"{"score":0}"#);
        assert_eq!(answer["exact"], is_exact, "{answer}");
        if is_exact {
            assert_eq!((&answer["rank"], &answer["total"]), (&json!(1), &json!(1)));
        }
    }
    let lines = "{\"member\":\"ann\",\"score\":0}\n{\"member\":\"bob\",\"score\":0}\n";
    for (members, is_exact) in [(3_000, true), (9_000, false)] {
        let scene = expired(members, r#"{"keep":"set"}"#);
        let answer = scene.done("POST", "/boards/b/members", lines);
        assert_eq!(answer["exact"], is_exact, "{answer}");
        let scene = expired(members, r#"{"keep":"set"}"#);
        let answer = scene.done("DELETE", "/boards/b/members/ann", "");
        assert_eq!(answer["exact"], is_exact, "{answer}");
        if is_exact {
            assert_eq!(answer["total"], 0, "{answer}");
        }
    }
}

#[test]
fn a_deletion_that_a_shard_did_not_hear_of_is_finished_before_later_writes() {
    let scene = BoardScene::new(&["FRA"]);
    scene.done("PUT", "/boards/b", r#"{"shards":2}"#);
    scene.settle();
    let (first, last) = (name_in(0), name_in(15));
    let write = |edge: usize, member: &str| {
        let path = format!("/boards/b/members/{member}");
        scene.ask((0, edge), "POST", &path, r#"{"score":1}"#)
    };
    for member in [&first, &last] {
        for edge in 0..2 {
            assert_eq!(write(edge, member).0, 200);
        }
    }
    scene.rule("/board-shard", "/1/b", 0, Verdict::Unreached);
    let (status, answer) = scene.ask((0, 0), "DELETE", "/boards/b", "");
    assert_eq!(status, 503, "{answer}");
    scene.world.crash(&owner("b"));
    scene.lift_rules();
    scene.settle();
    assert_eq!(scene.get("/boards")["entries"], json!([]));
    // The first edge still knows where the shards were.
    assert_eq!(write(0, &last).0, 200);
    assert_eq!(write(2, &first).0, 200);
    let answer = scene.get("/boards/b/members");
    assert_eq!(answer["total"], 2, "{answer}");
}

#[test]
fn a_deleted_board_without_keys_leaves_nothing_stored() {
    let scene = BoardScene::new(&["FRA"]);
    scene.lines(
        "b",
        0..3_000,
        |number| json!({"member": format!("m{number}"), "score": 1}),
    );
    scene.done("DELETE", "/boards/b", "");
    scene.settle();
    let tables = "SELECT name FROM sqlite_master WHERE name IN ('board', 'members')";
    let left = scene.world.look(&owner("b"), tables);
    assert_eq!(left, Some(Vec::new()));
}

#[test]
fn a_board_that_begins_while_it_is_deleted_is_registered() {
    let scene = Scene::new(&["FRA"]);
    let ask = |edge: usize, method: &str, path: &str| {
        let request = ClientRequest::new(method, path).at(edge);
        match method {
            "POST" => request.json(r#"{"score":1}"#),
            _ => request,
        }
    };
    let held = scene.hold_answer("/board-register", "");
    let written = scene.begin(0, ask(0, "POST", "/boards/b/members/ann"));
    scene.wait_for(&held);
    let deleted = scene.ask(0, ask(1, "DELETE", "/boards/b"));
    assert_eq!(deleted.status, 404, "{}", deleted.text());
    held.let_go();
    assert_eq!(scene.end(written).status, 200);
    scene.settle();
    let answer = scene.done(0, ask(2, "GET", "/boards/b/members/ann"));
    assert_eq!(answer["score"], 1, "{answer}");
    let listed = scene.done(0, ask(2, "GET", "/boards"));
    assert_eq!(listed["entries"], json!(["b"]));
    assert_eq!(scene.ask(0, ask(3, "DELETE", "/boards/b")).status, 200);
}

#[test]
fn the_version_of_a_repeated_write_can_be_read_after_a_move() {
    let scene = BoardScene::new(&["FRA"]);
    scene.done("PUT", "/boards/b", r#"{"shards":2}"#);
    scene.settle();
    let write = || {
        let request = ClientRequest::new("POST", "/boards/b/members/ann")
            .header("idempotency-key", "one")
            .json(r#"{"score":1}"#);
        scene.send((0, 0), request)
    };
    assert_eq!(write().status, 200);
    scene.done("PUT", "/boards/b", r#"{"shards":3}"#);
    scene.settle();
    let again = write();
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let version = again.json()["version"]
        .as_str()
        .expect("a version")
        .to_owned();
    scene.get(&format!("/boards/b/members/ann?at_least={version}"));
}

#[test]
fn a_key_moves_to_shards_that_get_members_of_its_own_shard() {
    let scene = BoardScene::new(&["FRA"]);
    scene.done("PUT", "/boards/b", r#"{"shards":2}"#);
    scene.settle();
    let write = |group: u32| {
        let path = format!("/boards/b/members/{}", name_in(group));
        let request = ClientRequest::new("POST", path)
            .header("idempotency-key", format!("key-{group}"))
            .json(r#"{"score":1}"#);
        let written = scene.send((0, 0), request);
        assert_eq!(written.status, 200, "{}", written.text());
        written.header("idempotency-replayed").is_some()
    };
    for group in [0, 1, 15] {
        assert!(!write(group));
    }
    scene.done("PUT", "/boards/b", r#"{"shards":4}"#);
    scene.settle();
    let board = CounterId::parse("b").expect("a name");
    let records = |shard: u32| {
        let of = names::board(&board, ShardAt { layout: 2, shard }, None);
        let rows = scene.world.look(&of, "SELECT 1 FROM records");
        rows.expect("a shard").len()
    };
    // Three keys and the claim of each; which shard had the claims hangs on the keys' hashes.
    let [first, second, third, fourth] = [0, 1, 2, 3].map(records);
    assert_eq!((first, third), (second, fourth));
    assert_eq!(first + third, 6);
    assert!(first >= 2 && third >= 1, "{first} and {third}");
    for group in [0, 1, 15] {
        assert!(write(group));
    }
}

#[test]
fn the_version_of_an_ended_period_names_each_shard_in_its_place() {
    let scene = BoardScene::new(&["FRA"]);
    scene.done(
        "PUT",
        "/boards/b",
        r#"{"shards":3,"period":"hour","archive":2}"#,
    );
    scene.settle();
    scene.done(
        "POST",
        &format!("/boards/b/members/{}", name_in(15)),
        r#"{"score":1}"#,
    );
    let start = scene.period();
    scene.world.run_for_ms(3_600_000);
    let answer = scene.get(&format!("/boards/b/members?period={start}"));
    assert_eq!(answer["total"], 1, "{answer}");
    let version = answer["version"].as_str().expect("a version");
    scene.get(&format!("/boards/b?at_least={version}"));
}

#[test]
fn members_that_a_stored_set_has_replaced_are_deleted_also_beside_an_archive() {
    let scene = BoardScene::new(&["FRA"]);
    scene.done("PUT", "/boards/b", r#"{"period":"hour","archive":2}"#);
    let write = |board: &str| {
        scene.lines(
            board,
            0..20,
            |number| json!({"member": format!("m{number}"), "score": 1}),
        );
    };
    write("b");
    scene.world.run_for_ms(3_600_000);
    write("b");
    write("other");
    scene.run(&["ZRANGESTORE", "b", "other", "0", "4"]);
    scene.settle();
    let rows = || {
        let count = "SELECT COUNT(*) FROM members";
        format!(
            "{:?}",
            scene.world.look(&owner("b"), count).expect("a board")
        )
    };
    assert_eq!(rows(), "[[Integer(25)]]");
    assert_eq!(scene.get("/boards/b")["total"], 5);
    // A period that is no longer kept goes too.
    scene.done("PUT", "/boards/b", r#"{"period":"hour","archive":0}"#);
    scene.settle();
    assert_eq!(rows(), "[[Integer(5)]]");
}

#[test]
fn a_tag_holds_after_a_move_that_did_not_change_the_member() {
    let scene = BoardScene::new(&["FRA"]);
    scene.done("POST", "/boards/b/members/ann", r#"{"score":1}"#);
    let read = || scene.send((0, 0), ClientRequest::new("GET", "/boards/b/members/ann"));
    let tag = read().header("etag").expect("a tag").to_owned();
    scene.done("PUT", "/boards/b", r#"{"shards":2}"#);
    scene.settle();
    assert_eq!(read().header("etag"), Some(&*tag));
}

#[test]
fn the_rank_of_a_write_is_not_told_where_other_shards_cannot_be_asked() {
    let scene = BoardScene::new(&["FRA"]);
    scene.done("PUT", "/boards/b", r#"{"shards":2}"#);
    scene.settle();
    scene.rule("/board-ask", "/1/b", 0, Verdict::Unreached);
    let path = format!("/boards/b/members/{}", name_in(0));
    let answer = scene.done("POST", &path, r#"{"score":1}"#);
    assert_eq!(
        (&answer["exact"], &answer["rank"], &answer["total"]),
        (&json!(false), &Value::Null, &Value::Null),
        "{answer}"
    );
    let lines = format!("{{\"member\":\"{}\",\"score\":2}}\n", name_in(15));
    let answer = scene.done("POST", "/boards/b/members", &lines);
    assert_eq!(
        (&answer["exact"], &answer["total"]),
        (&json!(false), &Value::Null),
        "{answer}"
    );
}

#[test]
fn neighbours_of_a_member_that_moves_meanwhile_do_not_have_it_twice() {
    let scene = BoardScene::new(&["FRA"]);
    scene.done("PUT", "/boards/b", r#"{"shards":2}"#);
    scene.settle();
    scene.lines(
        "b",
        0..6,
        |number| json!({"member": format!("m{number}"), "score": number}),
    );
    scene.rule("/board-ask", "/b", 300, Verdict::Answered);
    // Between the questions where it is, and who is near.
    let client = scene.client(0);
    let reads = ClientRequest::new("GET", "/boards/b/members?around=m0&limit=6");
    let writes = ClientRequest::new("POST", "/boards/b/members/m0").at(1);
    let writes = writes.json(r#"{"score":9}"#);
    let (read, _) = scene.world.run(join(client.ask(reads), async {
        scene.world.sleep_ms(750).await;
        client.ask(writes).await
    }));
    let answer = read.expect("an answer").json();
    let names = names_of(&answer);
    assert_eq!(names, ["m0", "m5", "m4", "m3", "m2", "m1"], "{answer}");
}

#[test]
fn a_spread_board_has_at_most_as_many_members_as_it_may() {
    let scene = BoardScene::new(&["FRA"]);
    let (status, answer) = scene.ask(
        (0, 0),
        "PUT",
        "/boards/b",
        r#"{"shards":16,"members_max":1}"#,
    );
    assert_eq!((status, &answer["code"]), (400, &json!("invalid-body")));
    scene.done("PUT", "/boards/b", r#"{"shards":2,"members_max":3}"#);
    scene.settle();
    // Two groups of each shard.
    for group in [0, 1, 14, 15] {
        let path = format!("/boards/b/members/{}", name_in(group));
        scene.ask((0, 0), "POST", &path, r#"{"score":1}"#);
    }
    assert_eq!(scene.get("/boards/b")["total"], 3);
}

#[test]
fn an_export_says_how_true_it_is() {
    for (members, is_exact) in [(900, "true"), (9_000, "false")] {
        let scene = expired(members, r#"{"keep":"set"}"#);
        let answer = scene.send(
            (0, 0),
            ClientRequest::new("GET", "/boards/b/members?format=ndjson"),
        );
        assert_eq!(answer.header("tally-exact"), Some(is_exact));
        let as_of = answer
            .header("tally-as-of")
            .and_then(|text| text.parse::<i64>().ok());
        assert!(as_of.is_some_and(|as_of| (0..1_000).contains(&(scene.world.now_ms() - as_of))));
    }
}

#[test]
fn a_score_is_as_old_as_its_answer_says() {
    let scene = BoardScene::new(&["FRA"]);
    scene.done("PUT", "/boards/b", r#"{"shards":2}"#);
    scene.settle();
    scene.done("POST", "/boards/b/members/m0", r#"{"score":1}"#);
    let before = scene.get("/boards/b/members?id=m0");
    scene.rule("/board-ask", "/b", 300, Verdict::Answered);
    // Between the questions for the score and for the rank.
    let client = scene.client(0);
    let reads = ClientRequest::new("GET", "/boards/b/members?id=m0");
    let writes = ClientRequest::new("POST", "/boards/b/members/m0").at(1);
    let writes = writes.json(r#"{"score":9}"#);
    let (read, written_ms) = scene.world.run(join(client.ask(reads), async {
        scene.world.sleep_ms(750).await;
        let now_ms = scene.world.now_ms();
        let written = client.ask(writes).await.expect("an answer");
        assert_eq!(written.status, 200, "{}", written.text());
        now_ms
    }));
    let answer = read.expect("an answer").json();
    assert_eq!(answer["entries"][0]["score"], 1, "{answer}");
    let as_of_ms = answer["as_of"].as_i64().expect("a time");
    assert!(
        as_of_ms < written_ms,
        "{answer} was written at {written_ms}"
    );
    assert_eq!(answer["version"], before["version"], "{answer}");
}
