//! What has a name in Redis's dialect: one value at a time, whose end is its own, and which is deleted as a whole.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tally_host::object::SqlValue;
use tally_simulation::ClientRequest;
use tally_wire::names::{BOARDS, KEYSPACES};

use super::scene::Scene;

/// The script of a fixed window, by the name that clients send, and the one that deletes all keys of a pattern.
const FIXED: &str = "EVALSHA b2efc02798c8e9b471a10f9b1d5745db89923ff3 1";
const RESET: &str = "EVALSHA 54bd274ddc59fb3be0f42deee2f64322a10e2b50 1";

/// Milliseconds after which all ends of these tests have come, and the alarm has rung.
const ENDED_MS: u64 = 8_000;

/// The replies to commands of one request; of a refused one its text.
fn ran(scene: &Scene, commands: &[&str]) -> Vec<Value> {
    let words: Vec<Vec<&str>> = commands
        .iter()
        .map(|one| one.split(' ').collect())
        .collect();
    let request = ClientRequest::new("POST", "/redis/pipeline").at(0);
    let answer = scene.ask(0, request.json(json!(words).to_string()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let replies = answer.json();
    let reply = |reply: &Value| match &reply["error"] {
        Value::Null => reply["result"].clone(),
        refused => refused.clone(),
    };
    replies
        .as_array()
        .expect("a list")
        .iter()
        .map(reply)
        .collect()
}

fn one(scene: &Scene, command: &str) -> Value {
    ran(scene, &[command]).remove(0)
}

fn call(scene: &Scene, method: &str, path: &str, body: &Value) {
    let request = ClientRequest::new(method, path).at(0);
    let request = match body {
        Value::Null => request,
        body => request.json(body.to_string()),
    };
    let answer = scene.ask(0, request);
    assert!(answer.status < 300, "{method} {path}: {}", answer.text());
}

fn count(scene: &Scene, key: &str, delta: u64) {
    let path = format!("/counters/{key}/increment");
    call(scene, "POST", &path, &json!({"delta": delta}));
}

fn rank(scene: &Scene, key: &str) {
    let path = format!("/boards/{key}/members/ann");
    call(scene, "POST", &path, &json!({"score": 9}));
}

/// Runs a statement on the rows of the keyspace, whose memory is lost before.
fn rewrite(scene: &Scene, statement: &str) -> Option<Vec<Vec<SqlValue>>> {
    let place = scene.last_place(KEYSPACES, "/run-commands");
    scene.settle();
    scene.world.restart(1_000);
    scene.settle();
    scene.world.look(&place, statement)
}

#[test]
fn an_end_belongs_to_the_value_that_it_was_set_on() {
    let scene = Scene::new(&["FRA"]);
    let set = [
        "SET c 5",
        "EXPIRE c 4",
        "ZADD z 1 a",
        "EXPIRE z 4",
        "ZADD y 1 a",
        "EXPIRE y 4",
    ];
    ran(&scene, &set);
    ran(
        &scene,
        &[
            "ZADD w 1 a",
            "EXPIRE w 4",
            "SET d 5",
            "EXPIRE d 4",
            "ZADD e 1 a",
            "EXPIRE e 4",
        ],
    );
    call(&scene, "DELETE", "/counters/c", &Value::Null);
    call(&scene, "DELETE", "/boards/z", &Value::Null);
    assert_eq!(one(&scene, "ZREM y a"), 1);
    // Another value of the same counter has its end.
    assert_eq!(one(&scene, "SET d 7 KEEPTTL"), "OK");
    call(&scene, "PUT", "/counters/d/value", &json!({"value": 0}));
    count(&scene, "d", 3);
    scene.world.run_for_ms(20);
    count(&scene, "c", 100);
    count(&scene, "w", 1);
    rank(&scene, "z");
    rank(&scene, "y");
    scene.world.run_for_ms(ENDED_MS);
    assert_eq!(one(&scene, "MGET c w"), json!(["100", "1"]));
    assert_eq!(ran(&scene, &["TTL c", "TTL w"]), [-1, -1]);
    assert_eq!(
        ran(&scene, &["ZCARD z", "ZCARD y", "EXISTS d e"]),
        [1, 1, 0].map(Value::from)
    );
    call(&scene, "GET", "/boards/z", &Value::Null);
}

#[test]
fn an_end_that_no_longer_applies_is_not_told_of_the_next_value() {
    let scene = Scene::new(&["FRA"]);
    ran(
        &scene,
        &["SET c 5", "EXPIRE c 400", "ZADD w 1 a", "EXPIRE w 400"],
    );
    assert_eq!(ran(&scene, &["TTL c", "TTL w"]), [400, 400]);
    call(&scene, "DELETE", "/counters/c", &Value::Null);
    count(&scene, "c", 100);
    count(&scene, "w", 1);
    assert_eq!(ran(&scene, &["TTL c", "TTL w"]), [-1, -1]);
    // The board has kept its end, which is shown again where the counter is gone.
    call(&scene, "DELETE", "/counters/w", &Value::Null);
    let left = one(&scene, "TTL w").as_i64().expect("a number");
    assert!((300..=400).contains(&left), "{left}");
}

#[test]
fn an_expiry_that_no_alarm_can_be_set_for_takes_no_reply_away() {
    let scene = Scene::new(&["FRA"]);
    let commands = ["SET far x PX 9000000000000000", "GET far", "INCR n"];
    assert_eq!(ran(&scene, &commands), [json!("OK"), json!("x"), json!(1)]);
    assert_eq!(
        ran(&scene, &["INCR n", "SET near y PX 2000"]),
        [json!(2), json!("OK")]
    );
    scene.world.run_for_ms(ENDED_MS);
    assert_eq!(one(&scene, "DBSIZE"), 2);
    let place = scene.last_place(KEYSPACES, "/run-commands");
    let rows = scene.world.look(&place, "SELECT key FROM keys");
    assert_eq!(
        rows.map(|rows| rows.len()),
        Some(1),
        "the near one was deleted by the alarm"
    );
}

#[test]
fn keys_above_what_can_be_listed_are_found_by_their_prefix_and_deleted() {
    let scene = Scene::new(&["FRA"]);
    ran(
        &scene,
        &[
            "SET z:1 v",
            "SET z:2 v",
            "SADD z:set a",
            "INCR z:counter",
            "ZADD board 1 a",
        ],
    );
    let body = "(SELECT body FROM keys WHERE key = 'z:1')";
    let numbers =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100200)";
    let rows = format!("{numbers} SELECT 'a:' || i, {body}, NULL, NULL FROM n");
    rewrite(&scene, &format!("INSERT INTO keys {rows}"));
    assert_eq!(one(&scene, "DBSIZE"), 100_205);
    let all = json!(["z:1", "z:2", "z:counter", "z:set"]);
    assert_eq!(one(&scene, "KEYS z:*"), all);
    let mut found = one(&scene, "SCAN 0 MATCH z:* COUNT 4294967296");
    let found = found[1].as_array_mut().expect("names");
    found.sort_by_key(Value::to_string);
    assert_eq!(json!(found), all);
    assert_eq!(
        one(&scene, "SCAN 0 MATCH z:* TYPE set")[1],
        json!(["z:set"])
    );
    assert_eq!(one(&scene, "KEYS *:set"), json!(["z:set"]));
    let refused = one(&scene, "KEYS *");
    assert!(
        refused
            .as_str()
            .expect("text")
            .starts_with("ERR there are more than"),
        "{refused}"
    );
    assert_eq!(one(&scene, &format!("{RESET} z:*")), Value::Null);
    assert_eq!(one(&scene, "KEYS z:*"), json!(["z:counter"]));
    assert_eq!(one(&scene, &format!("{RESET} a:*")), Value::Null);
    assert_eq!(one(&scene, "DBSIZE"), 2);
    assert_eq!(ran(&scene, &["FLUSHDB", "DBSIZE"]), [json!("OK"), json!(0)]);
}

#[test]
fn deleting_a_key_deletes_all_that_the_other_calls_know_by_its_name() {
    let scene = Scene::new(&["FRA"]);
    count(&scene, "b", 1);
    rank(&scene, "b");
    assert_eq!(
        ran(&scene, &["TYPE b", "DEL b", "EXISTS b"]),
        [json!("string"), json!(1), json!(0)]
    );
    assert_eq!(one(&scene, "SET t hello"), "OK");
    count(&scene, "t", 1);
    rank(&scene, "t");
    assert_eq!(
        ran(&scene, &["DEL t", "GET t", "ZCARD t"]),
        [json!(1), Value::Null, json!(0)]
    );
    assert_eq!(ran(&scene, &["SET t hello", "SET u x"]), ["OK", "OK"]);
    count(&scene, "t", 1);
    rank(&scene, "t");
    assert_eq!(
        ran(&scene, &["FLUSHDB", "GET t", "EXISTS t u"]),
        [json!("OK"), Value::Null, json!(0)]
    );
}

#[test]
fn a_name_that_the_other_calls_gave_to_a_board_is_no_counter_again() {
    let scene = Scene::new(&["FRA"]);
    for key in ["once", "twice", "anew"] {
        assert_eq!(one(&scene, &format!("INCR {key}")), json!(1));
        call(&scene, "DELETE", &format!("/counters/{key}"), &Value::Null);
    }
    rank(&scene, "once");
    rank(&scene, "twice");
    let wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(one(&scene, "INCR once"), json!(wrong_type));
    assert_eq!(
        ran(&scene, &["INCR twice", "INCR twice"]),
        [json!(wrong_type), json!(wrong_type)],
        "two at once are one message"
    );
    assert_eq!(one(&scene, "ZSCORE twice ann"), json!("9"));
    assert_eq!(ran(&scene, &["INCR anew", "INCR anew"]), [1, 2]);
}

#[test]
fn a_script_of_a_limit_counts_on_from_a_counter_and_refuses_a_board() {
    let scene = Scene::new(&["FRA"]);
    ran(&scene, &["SET w 5", "ZADD z 1 a"]);
    let check = |key: &str| one(&scene, &format!("{FIXED} {key} 10 60000 1"));
    assert_eq!(check("w"), json!([6, 10]));
    assert_eq!(check("w"), json!([7, 10]));
    assert_eq!(one(&scene, "GET w"), "7");
    let strong = ClientRequest::new("GET", "/counters/w?consistency=strong").at(0);
    let counter = scene.ask(0, strong).json();
    assert_eq!(counter["value"], 7, "a script ends no counter: {counter}");
    let refused = check("z");
    assert!(
        refused.as_str().expect("text").starts_with("WRONGTYPE"),
        "{refused}"
    );
    assert_eq!(
        ran(&scene, &["TYPE z", "ZCARD z"]),
        [json!("zset"), json!(1)]
    );
    // A counter that ends is known by its end, whatever memory was lost.
    ran(&scene, &["SET e 5", "EXPIRE e 1000"]);
    rewrite(&scene, "SELECT 1");
    assert_eq!(check("e"), json!([6, 10]));
}

#[test]
fn keys_of_one_command_are_set_all_or_none_where_one_is_below_its_floor() {
    let scene = Scene::new(&["FRA"]);
    call(&scene, "PUT", "/counters/m", &json!({"floor": 0}));
    count(&scene, "m", 7);
    ran(&scene, &["SET a 1", "SET z 1"]);
    let refused = one(&scene, "MSET a 2 m -5 t x z 2");
    let text = refused.as_str().expect("text");
    assert!(
        text.contains("floor") && text.ends_with("nothing was counted"),
        "{text}"
    );
    assert_eq!(one(&scene, "MGET a m t z"), json!(["1", "7", null, "1"]));
    assert_eq!(
        ran(&scene, &["MSET a 2 m 5 t x", "MGET a m t"]),
        [json!("OK"), json!(["2", "5", "x"])]
    );
}

#[test]
fn a_board_whose_members_are_all_hidden_is_no_key() {
    let scene = Scene::new(&["FRA"]);
    rank(&scene, "b");
    assert_eq!(
        ran(&scene, &["EXISTS b", "TYPE b"]),
        [json!(1), json!("zset")]
    );
    call(
        &scene,
        "POST",
        "/boards/b/members/ann",
        &json!({"hidden": true}),
    );
    assert_eq!(
        ran(&scene, &["EXISTS b", "TYPE b", "ZCARD b"]),
        [json!(0), json!("none"), json!(0)]
    );
    call(
        &scene,
        "POST",
        "/boards/b/members/ann",
        &json!({"hidden": false}),
    );
    assert_eq!(one(&scene, "TYPE b"), "zset");
}

#[test]
fn commands_that_write_a_member_by_its_name_reach_hidden_ones() {
    let scene = Scene::new(&["FRA"]);
    let hidden = "/boards/b/members/ann";
    rank(&scene, "b");
    call(&scene, "POST", hidden, &json!({"hidden": true}));
    assert_eq!(
        ran(
            &scene,
            &[
                "ZADD b 5 ann 1 bob",
                "ZSCORE b ann",
                "ZREM b ann",
                "ZREM b ann"
            ]
        ),
        [json!(1), Value::Null, json!(1), json!(0)]
    );
}

#[test]
fn a_name_that_no_counter_can_have_is_an_empty_hyperloglog_to_those_that_read() {
    let scene = Scene::new(&["FRA"]);
    ran(&scene, &["PFADD some a b", "SET . text"]);
    assert_eq!(
        ran(
            &scene,
            &[
                "PFCOUNT ..",
                "PFCOUNT .. some",
                "PFMERGE to .. some",
                "PFCOUNT to"
            ]
        ),
        [json!(0), json!(2), json!("OK"), json!(2)]
    );
    for (command, why) in [
        ("PFADD .. a", "ERR a HyperLogLog is of a counter"),
        ("PFMERGE .. some", "ERR a HyperLogLog is of a counter"),
        ("PFCOUNT .", "WRONGTYPE "),
    ] {
        let refused = one(&scene, command);
        let text = refused.as_str().unwrap_or_default();
        assert!(text.starts_with(why), "{command}: {refused}");
    }
}

#[test]
fn incrbyfloat_looks_at_its_key_before_the_amount() {
    let scene = Scene::new(&["FRA"]);
    ran(&scene, &["ZADD z 1 m", "HSET h f v", "INCR n"]);
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    for (command, why) in [
        ("INCRBYFLOAT z x", wrong),
        ("INCRBYFLOAT h x", wrong),
        ("INCRBYFLOAT n x", "ERR value is not a valid float"),
        ("INCRBYFLOAT none x", "ERR value is not a valid float"),
        ("INCRBY z x", "ERR value is not an integer or out of range"),
        ("INCRBY h x", "ERR value is not an integer or out of range"),
    ] {
        assert_eq!(one(&scene, command), why, "{command}");
    }
    assert_eq!(one(&scene, "EXISTS none"), 0);
}

#[test]
fn a_counter_that_ends_by_its_settings_has_a_ttl() {
    let scene = Scene::new(&["FRA"]);
    let settings = json!({"ttl_seconds": 100, "ttl_mode": "fixed"});
    call(&scene, "PUT", "/counters/t", &settings);
    assert_eq!(one(&scene, "TTL t"), 100);
    assert_eq!(ran(&scene, &["INCR t", "EXPIRE t 50", "TTL t"]), [1, 1, 50]);
    // Nothing lets it live longer than its settings say, and none of these says so.
    for command in ["PERSIST t", "EXPIRE t 101", "SET t 5", "SET t 5 EX 101"] {
        let refused = ran(&scene, &[command]);
        assert!(
            refused[0].to_string().contains("ttl_seconds"),
            "{refused:?}"
        );
    }
    assert_eq!(
        ran(&scene, &["EXPIRE t 90", "TTL t", "GET t"]),
        [json!(1), json!(90), json!("1")]
    );
}

#[test]
fn drawn_members_that_are_near_each_other_are_read_together() {
    let scene = Scene::new(&["FRA"]);
    let members: Vec<String> = (0..500)
        .map(|member| format!("{member} m{member}"))
        .collect();
    assert_eq!(
        one(&scene, &format!("ZADD drawn {}", members.join(" "))),
        500
    );
    let statements = || -> u64 {
        let objects = scene.world.objects().into_iter();
        let own = objects.filter(|(kind, ..)| *kind == BOARDS);
        own.map(|(_, _, statements, _)| statements).sum()
    };
    let before = statements();
    let drawn = one(&scene, "ZRANDMEMBER drawn -5000 WITHSCORES");
    assert!(
        statements() - before < 50,
        "{} statements",
        statements() - before
    );
    let drawn = drawn.as_array().expect("a list");
    assert_eq!(drawn.len(), 10_000);
    let is_whole = |pair: &[Value]| pair[0] == format!("m{}", pair[1]).replace('"', "");
    assert!(drawn.chunks(2).all(is_whole));
    let drawn = one(&scene, "ZRANDMEMBER drawn 490");
    let distinct: BTreeSet<String> = drawn
        .as_array()
        .expect("a list")
        .iter()
        .map(Value::to_string)
        .collect();
    assert_eq!(distinct.len(), 490);
    assert_eq!(one(&scene, "ZINTERCARD 1 drawn LIMIT 4294967296"), 500);
    assert_eq!(
        one(&scene, "ZINTERCARD 1 drawn LIMIT -1"),
        "ERR LIMIT can't be negative"
    );
}
