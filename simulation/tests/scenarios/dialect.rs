//! Where Redis's dialect is answered, and what a key may do by it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tally_simulation::{ADMIN_KEY, Chance, ClientRequest, Options, Site, World, admin, deployed};

use super::scene::Scene;

const READER: &str = "a-key-of-the-simulation-that-reads-a";
const WRITER: &str = "a-key-of-the-simulation-that-writes-a";

/// Scripts by the names that clients send: they add to a window, read a string, and read the fields of a hash.
const ADD: &str = "b2efc02798c8e9b471a10f9b1d5745db89923ff3";
const VALUE: &str = "eb82f0e853d2fc9a236fa9bfbe704fda6ac2fc36";
const FIELDS: &str = "e066c8ce3eaca142b0894ad1541e0a58c9924819";
const UNION: &str = "889f06ad27a40aed3d1ed1fea1d75a2fc556c335";

/// A deployment with keys of the prefix `a:`, and what clients do there.
struct Service {
    world: World,
    site: Site,
}

impl Service {
    fn new(dialect: &str) -> Self {
        let world = deployed(1, Options::default());
        let key = |key: &str, scope: &str, prefix: &str| json!({"key": key, "scopes": [scope], "prefix": prefix});
        let keys = json!({"keys": [
            key(ADMIN_KEY, "admin", ""),
            key(READER, "read", "a:"),
            key(WRITER, "write", "a:"),
        ]});
        world.set("TALLY_KEYS", Some(&keys.to_string()));
        world.set("TALLY_REDIS", Some(dialect));
        let site = world.site("FRA", 1);
        Self { world, site }
    }

    fn ask(&self, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let client = self.world.client(self.site).with_key(key);
        let mut request = ClientRequest::new(method, path);
        if !body.is_null() {
            request = request.json(body.to_string());
        }
        let answer = self.world.run(client.ask(request)).expect("an answer");
        (answer.status, answer.json())
    }

    fn admin(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.ask(ADMIN_KEY, method, path, body)
    }

    /// The result of a command, or the text of its error.
    fn run(&self, key: &str, words: &[&str]) -> Value {
        let (_, mut reply) = self.ask(key, "POST", "/redis", &json!(words));
        let error = reply["error"].take();
        if error.is_null() {
            reply["result"].take()
        } else {
            error
        }
    }

    /// The results of commands of one request, their words separated by spaces.
    fn run_all(&self, commands: &[String]) -> Vec<Value> {
        let commands: Vec<Vec<&str>> = commands.iter().map(|it| it.split(' ').collect()).collect();
        let (status, replies) = self.admin("POST", "/redis/pipeline", &json!(commands));
        assert_eq!(status, 200, "{replies}");
        let replies = replies.as_array().expect("a list").iter();
        replies.map(|reply| reply["result"].clone()).collect()
    }

    /// How many statements boards have run.
    fn board_statements(&self) -> u64 {
        let objects = self.world.objects().into_iter();
        let boards = objects.filter(|(kind, ..)| *kind == tally_wire::names::BOARDS);
        boards.map(|(_, _, statements, _)| statements).sum()
    }

    fn is_refused(&self, key: &str, words: &[&str]) -> bool {
        let reply = self.run(key, words);
        reply
            .as_str()
            .is_some_and(|text| text.starts_with("NOPERM "))
    }
}

#[test]
fn another_method_is_refused_with_those_that_are_taken() {
    let service = Service::new("");
    let client = service.world.client(service.site).with_key(ADMIN_KEY);
    for path in [
        "/redis",
        "/redis/pipeline",
        "/redis/subscribe/__keyspace@0__:a",
    ] {
        let ask = ClientRequest::new("DELETE", path);
        let answer = service.world.run(client.ask(ask)).expect("an answer");
        assert_eq!(answer.status, 405, "{path}");
        assert_eq!(
            answer.header("allow"),
            Some("GET, HEAD, POST, PUT, OPTIONS"),
            "{path}"
        );
    }
    let put = service.admin("PUT", "/redis", &json!(["SET", "a", "b"]));
    assert_eq!(put, (200, json!({"result": "OK"})));
}

#[test]
fn a_key_and_its_value_are_bounded_together() {
    let service = Service::new("");
    let set = |bytes: usize| service.run(ADMIN_KEY, &["SET", "ab", &"x".repeat(bytes)]);
    assert_eq!(set(65_534), "OK");
    assert_eq!(
        set(65_535),
        "ERR a key and its value have at most 64 KiB together here"
    );
}

/// The replies to a pipeline: results, or the texts of errors.
fn piped(service: &Service, commands: &[Vec<String>]) -> Vec<Value> {
    let (status, replies) = service.admin("POST", "/redis/pipeline", &json!(commands));
    assert_eq!(status, 200, "{replies}");
    let replies = replies.as_array().expect("a list").iter();
    let one = |reply: &Value| reply.get("result").unwrap_or(&reply["error"]).clone();
    replies.map(one).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn is_too_large(reply: &Value) -> bool {
    let text = reply.as_str().unwrap_or_default();
    text.starts_with("ERR the replies of a request")
}

#[test]
fn replies_beyond_what_a_request_may_have_are_refused_and_what_was_written_is_told() {
    let service = Service::new("");
    let text = "x".repeat(60_000);
    assert_eq!(service.run(ADMIN_KEY, &["SET", "k", &text]), "OK");
    assert_eq!(service.run(ADMIN_KEY, &["SET", "gone", &text]), "OK");
    let mut commands = vec![words("GET k"); 300];
    commands.extend(["INCR n", "GETDEL gone", "SET k 5 GET", "SET m text"].map(words));
    let replies = piped(&service, &commands);
    let reply_count = replies.iter().take_while(|reply| **reply == text).count();
    assert_eq!(reply_count, 279);
    assert!(replies[reply_count..300].iter().all(is_too_large));
    assert_eq!(replies[300], 1);
    assert!(is_too_large(&replies[301]) && is_too_large(&replies[302]));
    assert_eq!(replies[303], "OK");
    assert_eq!(service.run(ADMIN_KEY, &["GETDEL", "gone"]), text);
    assert_eq!(service.run(ADMIN_KEY, &["GET", "k"]), text);
}

/// Commands that write sorted sets of 950 members of 1,000 bytes.
fn large_sets(names: &[&str]) -> Vec<Vec<String>> {
    let one = |name: &&str| {
        let mut args = words(&format!("ZADD {name}"));
        for member in 0..950 {
            args.push(member.to_string());
            args.push(format!("{name}{member:0>999}"));
        }
        args
    };
    names.iter().map(one).collect()
}

#[test]
fn replies_of_sorted_sets_are_bounded_together() {
    let service = Service::new("");
    let names = ["a", "b", "c"];
    for command in large_sets(&names) {
        assert_eq!(piped(&service, &[command]), [950]);
    }
    let mut commands = vec![words("ZRANGE a 0 -1"); 30];
    commands.extend(["ZADD a 1000 new", "ZPOPMIN a 1"].map(words));
    let replies = piped(&service, &commands);
    let reply_count = replies.iter().take_while(|reply| reply.is_array()).count();
    assert_eq!(reply_count, 17);
    assert!(replies[reply_count..30].iter().all(is_too_large));
    assert_eq!(replies[30], 1);
    assert!(is_too_large(&replies[31]));
    assert_eq!(service.run(ADMIN_KEY, &["ZCARD", "a"]), 951);
    let each = names.map(|name| words(&format!("ZRANGE {name} 0 -1")));
    let replies = piped(&service, &vec![each; 10].concat());
    let reply_count = replies.iter().filter(|reply| reply.is_array()).count();
    assert_eq!(reply_count, 17);
}

#[test]
fn sets_are_not_emptied_for_a_reply_that_has_no_room() {
    let service = Service::new("");
    for command in large_sets(&["a", "z"]) {
        assert_eq!(piped(&service, &[command]), [950]);
    }
    let mut commands = vec![words("ZRANGE a 0 -1"); 29];
    commands.extend(["DEL none", "ZRANGE a 0 -1"].map(words));
    // That a command which writes comes before it in its step, or in its set, changes nothing.
    commands.extend(["DEL none", "ZADD j 1 a", "ZPOPMIN z 1000", "DEL none"].map(words));
    commands.extend(["ZADD z 5 new", "ZPOPMAX z 1000", "ZADD j 2 b"].map(words));
    let replies = piped(&service, &commands);
    assert_eq!((&replies[32], &replies[35]), (&json!(1), &json!(1)));
    assert!(is_too_large(&replies[33]) && is_too_large(&replies[36]));
    assert_eq!(replies[37], 1);
    assert_eq!(service.run(ADMIN_KEY, &["ZCARD", "z"]), 951);
}

#[test]
fn joined_sets_are_read_once_and_bounded_together() {
    let service = Service::new("");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    for command in large_sets(&names) {
        assert_eq!(piped(&service, &[command]), [950]);
    }
    let join = |command: &str, names: &[&str]| {
        let text = format!("{command} {} {}", names.len(), names.join(" "));
        let words: Vec<&str> = text.split(' ').collect();
        service.run(ADMIN_KEY, &words)
    };
    assert_eq!(join("ZINTERCARD", &["a"; 40]), 950);
    assert_eq!(join("ZINTERCARD", &["a", "b", "a"]), 0);
    assert_eq!(join("ZUNIONSTORE u", &names[..2]), 1_900);
    assert_eq!(
        join("ZUNION", &names[..8]).as_array().map(Vec::len),
        Some(8 * 950)
    );
    for command in ["ZUNION", "ZINTERCARD", "ZUNIONSTORE u", "ZDIFF"] {
        let refused = join(command, &names);
        let text = refused.as_str().unwrap_or_default();
        assert!(
            text.starts_with("ERR a command works on 100000 members"),
            "{command}"
        );
    }
    assert_eq!(service.run(ADMIN_KEY, &["ZCARD", "u"]), 1_900);
}

#[test]
fn a_set_that_is_not_stored_leaves_its_destination_as_it_was() {
    let service = Service::new("path");
    let run = |line: &[&str]| service.run(ADMIN_KEY, line);
    let is_refused = |line: &[&str]| {
        let reply = run(line);
        assert!(
            reply.as_str().is_some_and(|text| text.starts_with("ERR ")),
            "{line:?}: {reply}"
        );
    };
    run(&["SADD", "empty", ""]);
    run(&["SET", "count", "5"]);
    run(&["ZADD", "set", "1", "old"]);
    run(&["ZADD", "halves", "1.5", "a"]);
    run(&["ZADD", "three", "1", "a", "2", "b", "3", "c"]);
    let sums = ("sums", json!({"keep": "sum"}));
    let whole = ("whole", json!({"scores": "integer"}));
    let full = ("full", json!({"members_max": 2}));
    for (board, settings) in [sums, whole, full] {
        let (status, answer) = service.admin("PUT", &format!("/boards/{board}"), &settings);
        assert!(status < 300, "{answer}");
        assert_eq!(run(&["ZINCRBY", board, "4", "kept"]), "4");
    }
    is_refused(&["ZUNIONSTORE", "count", "1", "empty"]);
    is_refused(&["ZUNIONSTORE", "set", "1", "empty"]);
    is_refused(&["ZUNIONSTORE", "new", "1", "empty"]);
    is_refused(&["ZDIFFSTORE", "sums", "1", "three"]);
    is_refused(&["ZINTERSTORE", "whole", "1", "halves"]);
    is_refused(&["ZRANGESTORE", "full", "three", "0", "-1"]);
    assert_eq!(run(&["GET", "count"]), "5");
    assert_eq!(run(&["ZRANGE", "set", "0", "-1"]), json!(["old"]));
    assert_eq!(run(&["EXISTS", "new"]), 0);
    for board in ["sums", "whole", "full"] {
        assert_eq!(
            run(&["ZRANGE", board, "0", "-1"]),
            json!(["kept"]),
            "{board}"
        );
    }
    assert_eq!(run(&["ZRANGESTORE", "full", "three", "0", "1"]), 2);
    assert_eq!(run(&["ZRANGE", "full", "0", "-1"]), json!(["a", "b"]));
}

#[test]
fn all_keys_are_deleted_only_by_the_words_that_say_so() {
    let service = Service::new("path");
    let run = |line: &[&str]| service.run(ADMIN_KEY, line);
    for line in [&["FLUSHDB", "x"][..], &["FLUSHALL", "ASYNC", "x"]] {
        run(&["SET", "kept", "5"]);
        assert_eq!(run(line), "ERR syntax error", "{line:?}");
        assert_eq!(run(&["GET", "kept"]), "5");
    }
    assert_eq!(run(&["FLUSHDB", "async"]), "OK");
    assert_eq!(run(&["GET", "kept"]), json!(null));
}

#[test]
fn keys_patterns_and_what_one_command_loads_are_bounded() {
    let service = Service::new("");
    let keys: Vec<String> = (0..1_001).map(|key| format!("none{key}")).collect();
    let refused = "ERR a command has at most 1000 keys here; send several";
    for command in ["EXISTS", "DEL", "PFCOUNT"] {
        let mut words = vec![command];
        words.extend(keys.iter().map(String::as_str));
        assert_eq!(service.run(ADMIN_KEY, &words), refused, "{command}");
    }
    let long = "p".repeat(1_025);
    let reset = "54bd274ddc59fb3be0f42deee2f64322a10e2b50";
    assert_eq!(service.run(ADMIN_KEY, &["ZADD", "z", "1", "a"]), 1);
    for words in [
        vec!["KEYS", &long],
        vec!["SCAN", "0", "MATCH", &long],
        vec!["ZSCAN", "z", "0", "MATCH", &long],
        vec!["EVALSHA", reset, "1", &long],
    ] {
        let refused = "ERR a pattern or a channel has at most 1024 bytes here";
        assert_eq!(service.run(ADMIN_KEY, &words), refused, "{}", words[0]);
    }
    let text = "x".repeat(60_000);
    let names: Vec<String> = (0..300).map(|key| format!("k{key}")).collect();
    for some in names.chunks(100) {
        let set = |name: &String| vec!["SET".to_owned(), name.clone(), text.clone()];
        piped(&service, &some.iter().map(set).collect::<Vec<_>>());
    }
    let mut words = vec!["MGET"];
    words.extend(names.iter().map(String::as_str));
    assert!(is_too_large(&service.run(ADMIN_KEY, &words)));
    // These need no values.
    let pairs = |name: &'static str| {
        let named = names.iter().flat_map(|key| [key.as_str(), "text"]);
        [name].into_iter().chain(named).collect::<Vec<_>>()
    };
    assert_eq!(service.run(ADMIN_KEY, &pairs("MSETNX")), 0);
    for command in ["EXISTS", "TOUCH", "UNLINK"] {
        words[0] = command;
        assert_eq!(service.run(ADMIN_KEY, &words), 300, "{command}");
    }
    assert_eq!(service.run(ADMIN_KEY, &pairs("MSETNX")), 1);
    assert_eq!(service.run(ADMIN_KEY, &["GET", "k299"]), "text");
}

#[test]
fn patterns_of_one_request_share_their_steps() {
    let service = Service::new("");
    assert_eq!(
        service.run(ADMIN_KEY, &["SET", &"a".repeat(60_000), "x"]),
        "OK"
    );
    piped(&service, &large_sets(&["z"]));
    let costly = |bytes: usize| format!("*[b]{}", "a".repeat(bytes));
    // Each takes some 60 million steps, of 100 million.
    for one in [
        format!("KEYS {}", costly(1_000)),
        format!("SCAN 0 MATCH {}", costly(1_000)),
        format!("ZSCAN z 0 COUNT 1000 MATCH {}", costly(60)),
    ] {
        let replies = piped(&service, &[words(&one), words(&one), words("GET none")]);
        assert!(replies[0].is_array(), "{one}: {}", replies[0]);
        let refused = replies[1].as_str().unwrap_or_default();
        assert!(refused.starts_with("ERR too many names"), "{one}");
        assert!(replies[2].is_null());
    }
}

#[test]
fn ranges_of_names_of_one_request_read_so_many_members_together() {
    let service = Service::new("");
    let mut add = vec!["ZADD".to_owned(), "z".to_owned()];
    for number in 0..1_000 {
        add.extend([number.to_string(), format!("m{number}")]);
    }
    let mut commands = vec![add];
    commands.extend((0..101).map(|_| words("ZLEXCOUNT z - +")));
    let replies = piped(&service, &commands);
    assert!(replies[1..101].iter().all(|reply| *reply == 1_000));
    let refused = replies[101].as_str().unwrap_or_default();
    assert!(refused.starts_with("ERR too many names"), "{refused}");
}

#[test]
fn a_key_that_is_created_while_it_is_set_overflows_nothing() {
    let most = i64::MAX.to_string();
    for wait_ms in 0..40 {
        let service = Service::new("");
        let client = service.world.client(service.site).with_key(ADMIN_KEY);
        let set = ClientRequest::new("POST", "/redis").json(json!(["SET", "k", most]).to_string());
        let add = ClientRequest::new("POST", "/counters/k/increment")
            .json(json!({"delta": 5}).to_string());
        let world = &service.world;
        let (set, _) = world.run(async {
            futures_util::future::join(client.ask(set), async {
                world.sleep_ms(wait_ms).await;
                client.ask(add).await
            })
            .await
        });
        let set = set.expect("an answer");
        assert_eq!(set.text(), "{\"result\":\"OK\"}", "{wait_ms} ms");
    }
}

#[test]
fn calls_of_tally_s_own_come_before_commands_at_the_root() {
    let service = Service::new("root");
    let made = json!({"name": "blog", "scopes": ["write"]});
    let (status, made) = service.admin("POST", "/keys", &made);
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().expect("an id");
    let path = format!("/keys/{id}");
    let name = |answer: (u16, Value)| (answer.0, answer.1["name"].clone());
    let none = Value::Null;
    assert_eq!(
        name(service.admin("GET", &path, &none)),
        (200, json!("blog"))
    );
    let other = json!({"name": "shop"});
    assert_eq!(
        name(service.admin("PATCH", &path, &other)),
        (200, json!("shop"))
    );
    let (status, rotated) = service.admin("POST", &format!("{path}/rotate"), &none);
    assert_eq!(status, 200, "{rotated}");
    assert_eq!(
        service.admin("PUT", &path, &none).1["code"],
        "method-not-allowed"
    );
    let (status, revoked) = service.admin("DELETE", &path, &none);
    assert_eq!(
        (status, &revoked["status"]),
        (200, &json!("revoked")),
        "{revoked}"
    );
    // Commands are answered where no call has the path, also those of one word.
    assert_eq!(
        service.admin("POST", "/", &json!(["SET", "a:k", "5"])).1["result"],
        "OK"
    );
    assert_eq!(service.admin("GET", "/get/a:k", &none).1["result"], "5");
    assert_eq!(service.admin("GET", "/ping", &none).1["result"], "PONG");
    assert_eq!(service.admin("GET", "/dbsize", &none).1["result"], 1);
    assert_eq!(
        service.admin("PUT", "/", &json!(["INCR", "a:k"])).1["result"],
        6
    );
    for (path, why) in [
        ("/lpush/l/x", "ERR LPUSH is not what Tally is for"),
        ("/exec", "ERR EXEC needs a connection"),
    ] {
        let (status, refused) = service.admin("GET", path, &none);
        let text = refused["error"].as_str().unwrap_or_default();
        assert!(status == 400 && text.starts_with(why), "{path}: {refused}");
    }
    for path in ["/time", "/info"] {
        assert_eq!(service.admin("GET", path, &none).0, 200, "{path}");
    }
    assert_eq!(service.admin("GET", "/nope", &none).0, 404);
}

#[test]
fn a_key_lists_its_own_prefix_alone_whatever_it_says_twice() {
    let service = Service::new("1");
    let admin = ADMIN_KEY;
    service.run(admin, &["MSET", "a:1", "x", "b:1", "y", "MATCH", "z"]);
    let own = ["SCAN", "0", "MATCH", "b*", "match", "a:*"];
    assert_eq!(service.run(READER, &own), json!(["0", ["a:1"]]));
    for words in [
        vec!["SCAN", "0", "MATCH", "a:*", "MATCH", "*"],
        vec![
            "SCAN", "0", "WITHTYPE", "MATCH", "a:*", "COUNT", "9", "MATCH", "*",
        ],
        vec!["SCAN", "0", "TYPE", "MATCH", "COUNT", "9"],
        vec!["SCAN", "0", "TYPE", "MATCH", "MATCH", "*"],
        vec!["SCAN", "0", "MATCH", "[a]:*"],
        vec!["SCAN", "0", "MATCH", "\\a:*"],
        vec!["SCAN", "0"],
        vec!["KEYS", "?:*"],
        vec!["DBSIZE"],
        vec!["GET", ""],
        vec!["EVALSHA", UNION, "1", "", "1", "1", "1"],
    ] {
        assert!(service.is_refused(READER, &words), "{words:?}");
    }
}

#[test]
fn scripts_that_read_need_read_and_those_that_write_need_write() {
    let service = Service::new("1");
    let admin = ADMIN_KEY;
    service.run(admin, &["SET", "a:text", "secret"]);
    service.run(admin, &["HSET", "a:hash", "f", "secret"]);
    for name in ["EVALSHA", "EVALSHA_RO"] {
        for (script, key) in [(VALUE, "a:text"), (FIELDS, "a:hash")] {
            let words = [name, script, "1", key];
            assert!(service.is_refused(WRITER, &words), "{words:?}");
            let read = service.run(READER, &words).to_string();
            assert!(read.contains("secret"), "{words:?}: {read}");
        }
    }
    let add = |name: &'static str| [name, ADD, "2", "a:w", "", "3", "60000", "1"];
    assert!(service.is_refused(READER, &add("EVALSHA")));
    let no_write = "ERR Write commands are not allowed from read-only scripts.";
    assert_eq!(service.run(READER, &add("EVALSHA_RO")), no_write);
    assert_eq!(service.run(admin, &["EXISTS", "a:w"]), 0);
    assert_eq!(service.run(WRITER, &add("EVALSHA")), json!([1, 3]));
}

#[test]
fn a_transaction_is_discarded_for_what_is_found_before_it_runs_alone() {
    let scene = Scene::new(&["FRA"]);
    let transaction = |commands: &Value| {
        let request = ClientRequest::new("POST", "/redis/multi-exec");
        let client = admin(&scene.world, scene.world.site("FRA", 1));
        let answer = client.ask(request.json(commands.to_string()));
        let answer = scene.world.run(answer).expect("an answer");
        (answer.status, answer.json())
    };
    let runs = json!([
        ["SET", "t", "1"],
        ["ZUNION", "0", "x"],
        ["EVALSHA", ADD, "9", "x"],
        ["FLUSHDB", "bad"],
        ["INCR", "t"],
    ]);
    let replies = json!([
        {"result": "OK"},
        {"error": "ERR at least 1 input key is needed for 'zunion' command"},
        {"error": "ERR Number of keys can't be greater than number of args"},
        {"error": "ERR syntax error"},
        {"result": 2},
    ]);
    assert_eq!(transaction(&runs), (200, replies));
    for invalid in [json!(["NOPE"]), json!(["GET"]), json!(["LPUSH", "l", "1"])] {
        let (status, refused) = transaction(&json!([["INCR", "t"], invalid]));
        let text = "EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(
            (status, &refused["error"]),
            (400, &json!(text)),
            "{invalid}"
        );
    }
    assert_eq!(
        transaction(&json!([["GET", "t"]])).1,
        json!([{"result": "2"}])
    );
}

#[test]
fn boards_whose_equal_scores_stand_by_who_was_first_have_no_order_of_redis() {
    let service = Service::new("1");
    let run = |words: &str| service.run(ADMIN_KEY, &words.split(' ').collect::<Vec<_>>());
    let put = service.admin("PUT", "/boards/first", &json!({"ties": "first"}));
    assert_eq!(put.0, 201, "{}", put.1);
    assert_eq!(run("ZADD first 5 c 5 a 5 b"), 3);
    for words in [
        "ZRANGE first 0 -1",
        "ZRANK first a",
        "ZLEXCOUNT first - +",
        "ZREMRANGEBYLEX first - +",
        "ZREMRANGEBYRANK first 0 0",
        "ZPOPMIN first",
        "ZUNION 1 first",
        "ZRANGESTORE to first 0 -1",
    ] {
        let refused = run(words);
        let text = refused.as_str().unwrap_or_default();
        assert!(
            text.starts_with("ERR this board orders members of equal scores by who was first"),
            "{words}: {refused}"
        );
    }
    assert_eq!(run("ZCARD first"), 3);
    assert_eq!(run("ZCOUNT first 5 5"), 3);
    assert_eq!(run("ZSCORE first a"), "5");
    assert_eq!(run("ZREM first a"), 1);
    assert_eq!(run("ZREMRANGEBYSCORE first 5 5"), 2);
    // Shared ranks leave the order as it is.
    let put = service.admin("PUT", "/boards/shared", &json!({"ties": "shared"}));
    assert_eq!(put.0, 201, "{}", put.1);
    assert_eq!(run("ZADD shared 5 c 5 a 5 b"), 3);
    assert_eq!(run("ZRANGE shared 0 -1"), json!(["a", "b", "c"]));
    assert_eq!(run("ZLEXCOUNT shared [b +"), 2);
}

#[test]
fn ranges_of_names_go_by_rank_where_scores_differ_as_in_redis() {
    let service = Service::new("1");
    let run = |words: &str| service.run(ADMIN_KEY, &words.split(' ').collect::<Vec<_>>());
    let all = json!(["apple", "banana", "cherry", "mango", "orange"]);
    assert_eq!(
        run("ZADD names 1 apple 2 banana 3 cherry 4 mango 5 orange"),
        5
    );
    assert_eq!(run("ZADD mixed 1 f 2 a 3 z 4 b 5 e"), 5);
    for (words, expected) in [
        ("ZRANGEBYLEX names - +", all),
        ("ZRANGEBYLEX names - (c", json!(["apple", "banana"])),
        (
            "ZRANGEBYLEX names (b + LIMIT 1 2",
            json!(["cherry", "mango"]),
        ),
        (
            "ZREVRANGEBYLEX names [orange [cherry",
            json!(["orange", "mango", "cherry"]),
        ),
        (
            "ZRANGE names [a [c BYLEX LIMIT 0 -1",
            json!(["apple", "banana"]),
        ),
        ("ZLEXCOUNT names [banana [orange", json!(4)),
        ("ZLEXCOUNT names [mango [banana", json!(0)),
        ("ZLEXCOUNT names + -", json!(0)),
        ("ZRANGESTORE some names [b (n BYLEX", json!(3)),
        // What a limit skips is not compared, and a walk ends where a name is beyond.
        ("ZRANGEBYLEX mixed [a [f", json!(["f", "a"])),
        ("ZRANGEBYLEX mixed [a [f LIMIT 3 5", json!(["b", "e"])),
        ("ZRANGEBYLEX mixed [a [f LIMIT 9 5", json!([])),
        ("ZREVRANGEBYLEX mixed [f [b", json!(["e", "b", "z"])),
        ("ZREVRANGEBYLEX mixed [f [b LIMIT 4 1", json!(["f"])),
        ("ZREVRANGEBYLEX mixed [f [b LIMIT 9 1", json!([])),
        // None at all where the last is before the range, or the first behind it.
        ("ZLEXCOUNT mixed [f [z", json!(0)),
        ("ZLEXCOUNT mixed - [e", json!(0)),
        ("ZREMRANGEBYLEX names [banana (mango", json!(2)),
        ("ZRANGE names 0 -1", json!(["apple", "mango", "orange"])),
    ] {
        assert_eq!(run(words), expected, "{words}");
    }
}

#[test]
fn members_of_one_command_are_read_together() {
    let service = Service::new("1");
    let statements = || service.board_statements();
    let zadd = |first: u32| {
        let mut words = vec!["ZADD".to_owned(), "many".to_owned(), "CH".to_owned()];
        for number in 0..1_000 {
            words.extend([(first + number).to_string(), format!("m{number}")]);
        }
        // One that is named twice has its last score, and is counted as by Redis.
        words.extend(["7", "m3", "8", "m3"].map(str::to_owned));
        service.run(
            ADMIN_KEY,
            &words.iter().map(String::as_str).collect::<Vec<_>>(),
        )
    };
    assert_eq!(zadd(0), 1_002);
    let before = statements();
    assert_eq!(zadd(6), 1_002);
    let ran = statements() - before;
    assert!(ran < 1_100, "{ran} statements for 1,002 pairs");
    assert_eq!(service.run(ADMIN_KEY, &["ZCARD", "many"]), 1_000);
    assert_eq!(service.run(ADMIN_KEY, &["ZSCORE", "many", "m3"]), "8");
    assert_eq!(service.run(ADMIN_KEY, &["ZRANK", "many", "m999"]), 999);
}

#[test]
fn members_that_commands_of_one_request_name_are_read_together() {
    let service = Service::new("1");
    let name = |number: usize| format!("m{number}");
    let filled: Vec<String> = (0..500)
        .map(|number| format!("ZADD many {number} {}", name(number)))
        .collect();
    service.run_all(&filled);
    let ask = |command: &str| {
        let commands = (0..100).map(|at| format!("{command} many {}", name(5 * at)));
        let before = service.board_statements();
        let replies = service.run_all(&commands.collect::<Vec<_>>());
        (replies, service.board_statements() - before)
    };
    let (replies, ran) = ask("ZSCORE");
    let expected = (0..100).map(|at| json!((5 * at).to_string()));
    assert_eq!(replies, expected.collect::<Vec<_>>());
    assert!(ran < 10, "{ran} statements for 100 scores");
    // Ranks count the rows before their members besides.
    let (replies, ran) = ask("ZREVRANK");
    assert_eq!(
        replies,
        (0..100).map(|at| json!(499 - 5 * at)).collect::<Vec<_>>()
    );
    assert!(ran < 15, "{ran} statements for 100 ranks");
}

/// A sorted set as Redis has it, with whole scores.
#[derive(Default)]
struct Model(BTreeMap<String, i64>);

impl Model {
    fn rank(&self, member: &str) -> Option<usize> {
        let own = (self.0.get(member)?, member);
        let others = self
            .0
            .iter()
            .map(|(member, score)| (score, member.as_str()));
        Some(others.filter(|other| *other < own).count())
    }

    /// The reply to one of the commands of the law below.
    fn run(&mut self, command: &str) -> Value {
        let words: Vec<&str> = command.split(' ').collect();
        let score = |set: &Self, member: &str| json!(set.0.get(member).map(i64::to_string));
        match (words[0], &words[2..]) {
            ("ZADD", pairs) => {
                let before = self.0.len();
                for pair in pairs.chunks(2) {
                    let score = pair[0].parse().expect("a number");
                    self.0.insert(pair[1].to_owned(), score);
                }
                json!(self.0.len() - before)
            }
            ("ZINCRBY", [more, member]) => {
                *self.0.entry((*member).to_owned()).or_default() +=
                    more.parse::<i64>().expect("a number");
                score(self, member)
            }
            ("ZREM", members) => {
                let is_there = |member: &&&str| self.0.remove(**member).is_some();
                json!(members.iter().filter(is_there).count())
            }
            ("ZREVRANK", [member]) => json!(self.rank(member).map(|rank| self.0.len() - 1 - rank)),
            ("ZRANK", [member]) => json!(self.rank(member)),
            ("ZMSCORE", members) => {
                json!(members.iter().map(|it| score(self, it)).collect::<Vec<_>>())
            }
            (_, members) => score(self, members[0]),
        }
    }
}

#[test]
fn commands_of_one_request_see_what_those_before_them_wrote() {
    for seed in 1..=3 {
        let chance = Chance::new(seed);
        let service = Service::new("1");
        let mut model = Model::default();
        let begin: Vec<String> = (0..400)
            .map(|at| format!("ZADD law {} m{at}", at % 40))
            .collect();
        let replies = service.run_all(&begin);
        assert_eq!(
            replies,
            begin.iter().map(|it| model.run(it)).collect::<Vec<_>>()
        );
        for _ in 0..20 {
            let drawn = || {
                let (one, other) = (chance.below(500), chance.below(500));
                let (score, more) = (chance.below(40), chance.below(40));
                match chance.below(7) {
                    0 => format!("ZADD law {score} m{one} {more} m{other}"),
                    1 => format!("ZINCRBY law {score} m{one}"),
                    2 => format!("ZREM law m{one} m{other}"),
                    3 => format!("ZRANK law m{one}"),
                    4 => format!("ZREVRANK law m{one}"),
                    5 => format!("ZMSCORE law m{one} m{other}"),
                    _ => format!("ZSCORE law m{one}"),
                }
            };
            let commands: Vec<String> = (0..60).map(|_| drawn()).collect();
            let replies = service.run_all(&commands);
            for (command, reply) in commands.iter().zip(replies) {
                assert_eq!(reply, model.run(command), "seed {seed}: {command}");
            }
        }
    }
}
