//! Laws of Redis's dialect: forms of requests, texts of errors, how strings go in base64, what commands do, and which
//! scripts are known.

use tally_core::board::key::Key;
use tally_core::board::member::{Change, MemberRefusal, ScoreWrite};
use tally_core::board::score::Score;
use tally_redis::command::COMMANDS;
use tally_redis::command::{Command, KeyPositions, run};
use tally_redis::glob::{PATTERN_BYTES_MAX, Pattern, StepsLeft};
use tally_redis::notifications::{
    CHANNEL_COMPARED_BYTES_MAX, KeyEvent, REPEATED_BYTES_MAX, Subscription,
};
use tally_redis::request::{COMMANDS_MAX, RedisRequest, token_of};
use tally_redis::scripts::known as scripts;
use tally_redis::scripts::table::KNOWN;
use tally_redis::sorted::{DRAWN_APART_MAX, Members, SortedSet, members_asked};
use tally_redis::space::{Space, StoredValue, whole};
use tally_redis::{VALUE_BYTES_MAX, float, glob, notifications, sorted};
use tally_wire::messages::{Fault, SetChange};
use tally_wire::redis::{Encoding, Reply};
use tally_wire::rights::Scope;

const NOW_MS: i64 = 1_700_000_000_250;

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The JSON of each reply to these commands, one after the other.
fn replies_to(commands: &[&str]) -> Vec<String> {
    let mut space = Space::new(NOW_MS);
    let each = commands.iter().map(|text| {
        let args = words(text);
        let reply = Command::find(&args)
            .map_or_else(|refused| refused, |command| run(command, &mut space, &args));
        reply.to_json(Encoding::Plain)
    });
    each.collect()
}

fn last(commands: &[&str]) -> String {
    replies_to(commands).pop().expect("a reply")
}

#[test]
fn requests_are_read_in_all_their_forms_and_numbers_keep_their_text() {
    let one =
        |path: &str, query: &str, body: &str| RedisRequest::parse(path, query, body.as_bytes());
    let args = |words: &[&str]| {
        Ok(RedisRequest::One(
            words.iter().map(|word| (*word).to_owned()).collect(),
        ))
    };
    let big = r#"["SET","a b",12345678901234567890.10,true,{"x": 1},null]"#;
    let kept = [
        "SET",
        "a b",
        "12345678901234567890.10",
        "true",
        "{\"x\": 1}",
        "null",
    ];
    assert_eq!(one("", "", big), args(&kept));
    assert_eq!(
        one("/set/a%2Fb", "EX=100&NX", "text"),
        args(&["set", "a/b", "text", "EX", "100", "NX"])
    );
    assert_eq!(one("/get/k/", "_token=secret", ""), args(&["get", "k"]));
    assert_eq!(token_of("a=b&_token=se%20cret"), Some("se cret".to_owned()));
    // A character that was cut in two, as JavaScript sends it.
    assert_eq!(
        one("", "", r#"["SET","\ud83d","a\ude00\ud83d\ud83d\ude00é\n"]"#),
        args(&["SET", "\u{fffd}", "a\u{fffd}\u{fffd}😀é\n"])
    );
    let several = RedisRequest::parse("/pipeline", "", br#"[["ping"],["get","k"]]"#);
    assert_eq!(
        several,
        Ok(RedisRequest::Pipeline(vec![words("ping"), words("get k")]))
    );
    let together = RedisRequest::parse("/multi-exec", "", br#"[["ping"]]"#);
    assert_eq!(together, Ok(RedisRequest::Transaction(vec![words("ping")])));
    let many = format!("[{}]", vec![r#"["ping"]"#; COMMANDS_MAX + 1].join(","));
    for (path, body) in [
        ("", "{}"),
        ("", "[]"),
        ("", ""),
        ("pipeline", "[]"),
        ("pipeline", "[[]]"),
        ("pipeline", "[1]"),
        ("pipeline", &many),
    ] {
        let refused = RedisRequest::parse(path, "", body.as_bytes());
        assert!(
            refused.is_err_and(|text| text.starts_with("ERR ")),
            "{path} {body}"
        );
    }
}

#[test]
fn strings_go_in_base64_at_every_depth_and_nothing_else_does() {
    let deep = Reply::Array(vec![
        Reply::ok(),
        Reply::Nil,
        Reply::Integer(5),
        Reply::Array(vec![Reply::text("é")]),
    ]);
    assert_eq!(
        deep.to_json(Encoding::Base64),
        r#"{"result":["T0s=",null,5,["w6k="]]}"#
    );
    assert_eq!(
        deep.to_json(Encoding::Plain),
        r#"{"result":["OK",null,5,["é"]]}"#
    );
    assert_eq!(
        Reply::err("no").to_json(Encoding::Base64),
        r#"{"error":"ERR no"}"#
    );
    assert_eq!(
        Reply::Integer(i64::MIN).to_json(Encoding::Plain),
        r#"{"result":"-9223372036854775808"}"#
    );
}

/// Commands, and the error of the last.
const ERRORS: &[(&[&str], &str)] = &[
    (&["get"], "ERR wrong number of arguments for 'get' command"),
    (
        &["GeT a b"],
        "ERR wrong number of arguments for 'get' command",
    ),
    (
        &["nope a b"],
        "ERR unknown command 'nope', with args beginning with: 'a' 'b' ",
    ),
    (&["lpush a b"], "ERR LPUSH is not what Tally is for"),
    (
        &["blmpop 0 1 a left"],
        "ERR BLMPOP is not what Tally is for",
    ),
    (&["rpoplpush a b"], "ERR RPOPLPUSH is not what Tally is for"),
    (
        &["georadius_ro a"],
        "ERR GEORADIUS_RO is not what Tally is for",
    ),
    (&["ssubscribe a"], "ERR SSUBSCRIBE is not what Tally is for"),
    (
        &["multi"],
        "ERR MULTI needs a connection that stays: POST the commands of a transaction together to /multi-exec",
    ),
    (
        &["watch a"],
        "ERR WATCH needs a connection that stays: POST the commands of a transaction together to /multi-exec",
    ),
    (&["set a b nx xx"], "ERR syntax error"),
    (
        &["set a b ex 0"],
        "ERR invalid expire time in 'set' command",
    ),
    (
        &["set a b ex x"],
        "ERR value is not an integer or out of range",
    ),
    (
        &["set a b", "incr a"],
        "ERR value is not an integer or out of range",
    ),
    (
        &["set a 9223372036854775807", "incr a"],
        "ERR increment or decrement would overflow",
    ),
    (
        &["decrby a -9223372036854775808"],
        "ERR decrement would overflow",
    ),
    (
        &["incrbyfloat a 0.5"],
        "ERR counters hold whole numbers: send INCRBYFLOAT a whole number, or scale the amount",
    ),
    (&["incrbyfloat a x"], "ERR value is not a valid float"),
    (
        &["incrbyfloat a -inf"],
        "ERR increment would produce NaN or Infinity",
    ),
    (
        &["set a inf", "incrbyfloat a 1"],
        "ERR increment would produce NaN or Infinity",
    ),
    (&["incrbyfloat a nan"], "ERR value is not a valid float"),
    (
        &["hset a f v", "incrbyfloat a x"],
        "WRONGTYPE Operation against a key holding the wrong kind of value",
    ),
    (
        &["hset a f v", "incrby a x"],
        "ERR value is not an integer or out of range",
    ),
    (
        &["incrbyfloat a 1e19"],
        "ERR increment or decrement would overflow",
    ),
    (
        &["hset a f v", "get a"],
        "WRONGTYPE Operation against a key holding the wrong kind of value",
    ),
    (
        &["evalsha 0000 0"],
        "NOSCRIPT No matching script. Please use EVAL. Tally runs only the scripts of @upstash/ratelimit, upstash-ratelimit, rate-limit-redis and rate-limiter-flexible",
    ),
    (
        &["evalsha b2efc02798c8e9b471a10f9b1d5745db89923ff3 2 a"],
        "ERR Number of keys can't be greater than number of args",
    ),
    (
        &["evalsha b2efc02798c8e9b471a10f9b1d5745db89923ff3 4294967297 a"],
        "ERR Number of keys can't be greater than number of args",
    ),
    (
        &["evalsha b2efc02798c8e9b471a10f9b1d5745db89923ff3 -1 a"],
        "ERR Number of keys can't be negative",
    ),
    (
        &["evalsha_ro b2efc02798c8e9b471a10f9b1d5745db89923ff3 1 a 3 1000 2"],
        "ERR Write commands are not allowed from read-only scripts.",
    ),
];

#[test]
fn errors_have_the_texts_of_redis() {
    for (commands, text) in ERRORS {
        assert_eq!(
            last(commands),
            Reply::Error((*text).to_owned()).to_json(Encoding::Plain),
            "{commands:?}"
        );
    }
}

#[test]
fn a_whole_number_without_an_end_is_a_counter_and_stays_one() {
    let mut space = Space::new(NOW_MS);
    let mut of = |text: &str| {
        let args = words(text);
        run(Command::find(&args).expect("a command"), &mut space, &args);
        let key = args[1].clone();
        space.get(&key).map(|entry| entry.is_counter)
    };
    for (text, expected) in [
        ("set a 5", Some(true)),
        ("expire a 100", Some(true)),
        ("incr a", Some(true)),
        ("set b 5 ex 100", Some(false)),
        ("persist b", Some(false)),
        ("incr b", Some(false)),
        ("set c 05", Some(false)),
        ("incr d", Some(true)),
        ("set a x", Some(false)),
        ("expire a -1", None),
        ("set .. 5", Some(false)),
        ("incr ..", Some(false)),
    ] {
        assert_eq!(of(text), expected, "{text}");
    }
}

#[test]
fn values_that_are_too_large_are_refused_and_change_nothing() {
    let mut space = Space::new(NOW_MS);
    let long = "x".repeat(VALUE_BYTES_MAX);
    assert!(space.put_text("k", long, None).is_err());
    assert_eq!((space.get("k"), space.changed().count()), (None, 0));
    assert_eq!(space.put_value("k", StoredValue::Text("x".into())), Ok(()));
}

#[test]
fn no_keys_at_all_are_unlinked_but_not_deleted() {
    assert_eq!(last(&["unlink"]), r#"{"result":0}"#);
    assert!(last(&["del"]).contains("wrong number of arguments"));
}

#[test]
fn one_value_that_is_asked_for_often_is_refused_before_it_fills_the_memory() {
    let text = "x".repeat(60_000);
    let many = |command: &str, name: &str| format!("{command}{}", format!(" {name}").repeat(300));
    let few = |command: &str, name: &str| format!("{command}{}", format!(" {name}").repeat(200));
    for (set, read, name) in [("set k", "mget", "k"), ("hset h f", "hmget h", "f")] {
        let set = format!("{set} {text}");
        let refused = last(&[&set, &many(read, name)]);
        assert!(
            refused.starts_with("{\"error\":\"ERR the replies of a request"),
            "{refused}"
        );
        assert!(last(&[&set, &few(read, name)]).starts_with("{\"result\":["));
    }
}

#[test]
fn fields_that_are_named_twice_get_the_last_value_and_keep_their_order() {
    let replies = replies_to(&[
        "hset h a 1 b 2 a 3",
        "hset h c 4 b 5 c 6",
        "hgetall h",
        "hmget h c none a a",
        "hdel h a none a",
        "hgetall h",
    ]);
    let expected = [
        "2",
        "1",
        r#"["a","3","b","5","c","6"]"#,
        r#"["6",null,"3","3"]"#,
        "1",
        r#"["b","5","c","6"]"#,
    ];
    assert_eq!(
        replies,
        expected.map(|reply| format!("{{\"result\":{reply}}}"))
    );
    assert_eq!(
        replies_to(&["sadd s a b c", "srem s a a none", "smembers s"])[1..],
        [r#"{"result":1}"#, r#"{"result":["b","c"]}"#]
    );
}

#[test]
fn members_of_a_set_are_drawn_once_each_or_again_and_within_the_bounds_of_replies() {
    let drawn = |count: &str| {
        let mut space = Space::new(NOW_MS).seeded(7);
        let mut reply = |text: &str| {
            let args = words(text);
            run(Command::find(&args).expect("a command"), &mut space, &args)
        };
        reply("sadd s a b c d e");
        let Reply::Array(members) = reply(&format!("srandmember s {count}")) else {
            panic!("members");
        };
        let again = reply(&format!("srandmember s {count}"));
        let is_drawn_anew = again != Reply::Array(members.clone());
        assert_eq!(is_drawn_anew, ["3", "-99"].contains(&count), "{count}");
        members
    };
    for (count, members, different) in [
        ("0", 0, 0),
        ("3", 3, 3),
        ("5", 5, 5),
        ("9", 5, 5),
        ("-99", 99, 5),
    ] {
        let drawn = drawn(count);
        let different_drawn = drawn
            .iter()
            .enumerate()
            .filter(|(at, one)| !drawn[..*at].contains(one));
        assert_eq!(
            (drawn.len(), different_drawn.count()),
            (members, different),
            "{count}"
        );
    }
    assert_eq!(last(&["srandmember none"]), r#"{"result":null}"#);
    assert_eq!(last(&["srandmember none -3"]), r#"{"result":[]}"#);
    assert_eq!(last(&["sadd s a", "srandmember s"]), r#"{"result":"a"}"#);
    assert_eq!(
        last(&["sadd s a", "srandmember s -2"]),
        r#"{"result":["a","a"]}"#
    );
    let large = format!("sadd s {}", "x".repeat(60_000));
    assert!(last(&[&large, "srandmember s -300"]).contains("ERR the replies of a request"));
    assert!(last(&["sadd s a", "srandmember s -100001"]).contains("100000 members"));
}

#[test]
fn commands_and_scripts_have_so_many_keys_at_most() {
    let check = |begin: &str, keys: usize| {
        let args = words(&format!("{begin}{}", " k".repeat(keys)));
        let command = Command::find(&args).expect("a command");
        command.check_keys(command.keys_of(&args).expect("keys").len())
    };
    let sha = "b2efc02798c8e9b471a10f9b1d5745db89923ff3";
    assert_eq!(check("EXISTS", 1_000), Ok(()));
    assert_eq!(
        check("EXISTS", 1_001),
        Err(Reply::err(
            "a command has at most 1000 keys here; send several"
        ))
    );
    assert_eq!(check(&format!("EVALSHA {sha} 10"), 10), Ok(()));
    assert!(check(&format!("EVALSHA {sha} 11"), 11).is_err());
    assert_eq!(check("ZADD k 1 a", 2_000), Ok(()));
}

#[test]
fn every_command_finds_its_keys_and_says_what_it_needs() {
    let args = words("mset a 1 b 2");
    let keys = Command::find(&args).expect("a command").keys_of(&args);
    assert_eq!(keys, Ok(vec![&args[1], &args[3]]));
    let args = words("zunionstore to 2 a b weights 1 2");
    let keys = Command::find(&args).expect("a command").keys_of(&args);
    assert_eq!(keys, Ok(vec![&args[1], &args[3], &args[4]]));
    for (count, why) in [
        ("4294967297", "syntax error"),
        (
            "0",
            "at least 1 input key is needed for 'zunionstore' command",
        ),
        ("x", "value is not an integer or out of range"),
    ] {
        let args = words(&format!("zunionstore to {count} a"));
        let keys = Command::find(&args).expect("a command").keys_of(&args);
        assert_eq!(keys, Err(Reply::err(why)), "{count}");
    }
    let args = words("evalsha x 2 a b c");
    let keys = Command::find(&args).expect("a command").keys_of(&args);
    assert_eq!(keys, Ok(vec![&args[3], &args[4]]));
    for command in COMMANDS {
        // Whoever may only read changes nothing.
        let is_change = [
            "SET", "DEL", "INCR", "EXPIRE", "ADD", "REM", "STORE", "FLUSH", "POP",
        ];
        let changes = is_change.iter().any(|part| command.name.contains(part))
            && !command.name.ends_with("TIME");
        assert!(!changes || command.scope != Scope::Read, "{}", command.name);
        assert_eq!(command.name, command.name.to_ascii_uppercase());
        assert!(
            command.arity != 0 && (command.keys != KeyPositions::None || command.arity.abs() <= 2),
            "{}",
            command.name
        );
    }
}

#[test]
fn scores_are_read_as_redis_reads_them_and_printed_as_its_clients_print_them() {
    for (text, printed) in [
        ("3", Some("3")),
        ("3.0", Some("3")),
        ("-1.50", Some("-1.5")),
        ("0.1", Some("0.1")),
        ("1e3", Some("1000")),
        ("100000000000000000000", Some("100000000000000000000")),
        ("1e21", Some("1e+21")),
        ("1.25e-7", Some("1.25e-7")),
        ("0.000001", Some("0.000001")),
        ("123456.75", Some("123456.75")),
        ("9007199254740993", Some("9007199254740992")),
        ("+inf", Some("inf")),
        ("-Infinity", Some("-inf")),
        ("1e400", None),
        ("4e-324", Some("5e-324")),
        ("1e-400", None),
        ("-0.01e-400", None),
        ("-0.0e5", Some("0")),
        ("nan", None),
        (" 1", None),
        ("", None),
    ] {
        let read = float::score(text).map(float::text_of);
        assert_eq!(read.as_deref(), printed, "{text}");
    }
}

#[test]
fn names_match_patterns_as_in_redis() {
    for (pattern, name, expected) in [
        ("*", "", true),
        ("a*b*c", "aXbXbc", true),
        ("a*b*c", "aXbX", false),
        ("h?llo", "hello", true),
        ("h[^e]llo", "hello", false),
        ("h[a-f]llo", "hello", true),
        ("h\\*llo", "h*llo", true),
        ("h\\*llo", "hello", false),
        ("[", "[", false),
        ("a]", "a]", true),
    ] {
        assert_eq!(glob::matches(pattern, name), expected, "{pattern} {name}");
    }
    assert_eq!(glob::literal_prefix("limit:*:x"), "limit:");
    assert_eq!(
        [whole("-5"), whole("05"), whole("+5"), whole("")],
        [Some(-5), None, None, None]
    );
}

#[test]
fn redis_patterns_are_bounded_in_length_and_in_the_steps_of_a_request() {
    let left = StepsLeft::default();
    assert!(Pattern::parse(&"a".repeat(PATTERN_BYTES_MAX), &left).is_ok());
    assert!(Pattern::parse(&"a".repeat(PATTERN_BYTES_MAX + 1), &left).is_err());
    // Each byte of a name may take as many steps as the pattern has bytes.
    let costly = format!("*[b]{}", "a".repeat(1_000));
    let name = "a".repeat(10_000);
    // Each command of a request has a pattern of its own: they share the steps.
    let compared = (0..100).take_while(|_| {
        let pattern = Pattern::parse(&costly, &left).expect("a pattern");
        pattern.matches(&name).is_ok()
    });
    assert_eq!(compared.count(), 9);
    let plain = Pattern::parse("a*b*c", &left).expect("a pattern");
    assert!(plain.matches("aXbXbc").is_err());
    let plain = Pattern::parse("a*b*c", &StepsLeft::default()).expect("a pattern");
    assert!((0..10_000).all(|_| plain.matches("aXbXbc") == Ok(true)));
}

/// A set of so many members, whose names are their ranks.
struct Numbered(u64);

impl SortedSet for Numbered {
    fn count(&self) -> u64 {
        self.0
    }

    fn find(&self, _: &[u8]) -> Result<Option<(Score, Key)>, Fault> {
        Ok(None)
    }

    fn before(&self, _: &Key) -> Result<u64, Fault> {
        Ok(0)
    }

    fn range(&self, low: u64, high: u64) -> Result<Members, Fault> {
        let member = |rank: u64| (rank.to_string().into_bytes(), Score::default());
        Ok((low..high).map(member).collect())
    }

    fn named_after(&self, _: &[u8], _: u64) -> Result<Members, Fault> {
        Ok(Members::new())
    }

    fn write(
        &mut self,
        _: &[u8],
        _: &ScoreWrite,
        _: bool,
    ) -> Result<Result<Change, MemberRefusal>, Fault> {
        Ok(Err(MemberRefusal::Full))
    }

    fn remove(&mut self, _: &[u8]) -> Result<bool, Fault> {
        Ok(false)
    }
}

#[test]
fn few_members_that_lie_apart_are_drawn() {
    let draw = |of: u64, count: &str| {
        let args = words(&format!("ZRANDMEMBER b {count}"));
        match sorted::run(&mut Numbered(of), &args, 7) {
            Ok(Reply::Array(members)) => Some(members.len()),
            _ => None,
        }
    };
    assert_eq!(draw(1_000_000_000, "-1000"), Some(1_000));
    assert_eq!(draw(1_000_000_000, "1000"), Some(1_000));
    assert_eq!(draw(1_000_000_000, "-1001"), None);
    assert_eq!(draw(1_000_000_000, "1001"), None);
    assert_eq!(draw(10_000, "-50000"), Some(50_000));
    assert_eq!(DRAWN_APART_MAX, 1_000);
}

#[test]
fn a_command_says_how_many_members_it_asks_for() {
    for (text, expected) in [
        ("ZADD b 1 a", 0),
        ("ZSCORE b a", 0),
        ("ZREMRANGEBYRANK b 0 -1", 0),
        ("ZRANGE b 0 9", 10),
        ("ZRANGE b -3 -1", 3),
        ("ZRANGE b 9 0", 0),
        ("ZREVRANGE b 0 -1", u64::MAX),
        ("ZRANGE b 0 inf BYSCORE LIMIT 5 7", 7),
        ("ZRANGEBYSCORE b 0 inf LIMIT 5 -1", u64::MAX),
        ("ZRANGE b x y", 0),
        ("ZPOPMIN b", 1),
        ("ZPOPMAX b 5", 5),
        ("ZRANDMEMBER b -5", 5),
        ("ZSCAN b 0", 1_000),
        ("ZSCAN b 0 COUNT 100000", u64::MAX),
    ] {
        assert_eq!(members_asked(&words(text)), expected, "{text}");
    }
}

#[test]
fn scripts_refuse_what_they_would_divide_by_to_no_number() {
    let bucket = "evalsha a9873a8026b509e99a49a0e5a2049756c693c384 2 b ";
    let with = |words: &str| format!("{bucket}{words}");
    let good = with(" 10 1000 5 1700000000000 1");
    for bad in [
        " 10 0 5 1700000000000 1",
        " 10 -1 5 1700000000000 1",
        " 10 1000 0 1700000000000 1",
        " 10 nan 5 1700000000000 1",
        " 1e308 1e308 1e308 1e308 -1e308",
    ] {
        let replies = replies_to(&[&with(bad), &good, "hget b tokens"]);
        assert!(
            replies[0].contains("ERR user_script: a number"),
            "{bad}: {replies:?}"
        );
        assert_eq!(replies[2], r#"{"result":"9"}"#, "{bad}");
    }
    let sliding = "evalsha 74740bb3d7792848093cdef586b6b6037c455fd6 2 c p 3 1000 0 1";
    assert!(last(&[sliding]).contains("ERR user_script: a number above 0 is expected"));
    // Beyond 64 bits a reply is the nearest number.
    let left = "evalsha 823cb2a5a902d69681244f5e28e5ebb8f2a89edd 1 k";
    assert_eq!(
        last(&[&format!("{left} -1e300")]),
        r#"{"result":["-9223372036854775808","-9223372036854775808"]}"#
    );
    assert_eq!(
        last(&[&format!("{left} 1e300")]),
        r#"{"result":["9223372036854775807","9223372036854775807"]}"#
    );
}

#[test]
fn scripts_are_known_by_the_names_that_redis_gives_them() {
    assert_eq!(
        scripts::sha1_of("return 1"),
        "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    );
    assert_eq!(
        scripts::sha1_of(&"a".repeat(119)),
        "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56"
    );
    let mut names: Vec<&str> = KNOWN.iter().map(|(sha, _)| *sha).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), KNOWN.len());
    assert!(
        names
            .iter()
            .all(|sha| sha.len() == 40 && scripts::find(&sha.to_uppercase()).is_some())
    );
}

/// Commands, and the reply to the last.
const SCRIPTED: &[(&[&str], &str)] = &[
    (
        &[
            "evalsha b2efc02798c8e9b471a10f9b1d5745db89923ff3 1 k 3 1000 2",
            "pttl k",
        ],
        r#"{"result":1000}"#,
    ),
    // 1.x compares a number with a text, so the window never ends.
    (
        &[
            "evalsha 1861a700bafe96c833a483af6b1c28a8897cfdb0 1 k 1000 1",
            "pttl k",
        ],
        r#"{"result":-1}"#,
    ),
    (
        &[
            "set dyn 9 ex 100",
            "evalsha b2efc02798c8e9b471a10f9b1d5745db89923ff3 2 k dyn 3 1000 1",
        ],
        r#"{"result":[1,9]}"#,
    ),
    (
        &[
            "evalsha 74740bb3d7792848093cdef586b6b6037c455fd6 2 c p 1 500 1000 1",
            "evalsha 74740bb3d7792848093cdef586b6b6037c455fd6 2 c p 1 500 1000 1",
        ],
        r#"{"result":[-1,1]}"#,
    ),
    // What is given back is never refused.
    (
        &[
            "evalsha 74740bb3d7792848093cdef586b6b6037c455fd6 2 c p 1 500 1000 1",
            "evalsha 74740bb3d7792848093cdef586b6b6037c455fd6 2 c p 1 500 1000 -1",
        ],
        r#"{"result":[1,1]}"#,
    ),
    (
        &["evalsha d60be5bd3d83482ae229309f1f7425424f891204 1 b 5 1000 2 10000 6"],
        r#"{"result":[-1,11000,5]}"#,
    ),
    (
        &[
            "evalsha d60be5bd3d83482ae229309f1f7425424f891204 1 b 5 1000 2 10000 4",
            "evalsha d60be5bd3d83482ae229309f1f7425424f891204 1 b 5 1000 2 11500 0",
        ],
        r#"{"result":[3,12000,5]}"#,
    ),
    (
        &["evalsha 40daf4a441df736f5c99f8b77bbe176c909e5de4 1 b 5"],
        r#"{"result":[5,-1,5]}"#,
    ),
    (
        &["evalsha e04b753a75909b7f99aae4c04cf8869a8de02a9e 1 m r1 1000 2"],
        r#"{"result":["r1","2"]}"#,
    ),
    (
        &[
            "evalsha aeb4d8f381e8dafc8e69041baae1324d254ded44 2 c p 3 0 1000 r1 2",
            "evalsha aeb4d8f381e8dafc8e69041baae1324d254ded44 2 c p 3 0 1000 r2 2",
        ],
        r#"{"result":[["r1","2"],[],null]}"#,
    ),
    (
        &[
            "sadd deny 1.2.3.4",
            "evalsha e8062088fe7e67994f617766e5d766490de1afb8 2 deny s 1.2.3.4 me",
        ],
        r#"{"result":[[1,0],-2]}"#,
    ),
    (
        &[
            "evalsha e8062088fe7e67994f617766e5d766490de1afb8 2 deny s me",
            "get s",
        ],
        r#"{"result":"pending"}"#,
    ),
    // upstash-ratelimit 1.1.0, with the replies of a real Redis 7.0 to its texts.
    (
        &[
            "evalsha 13f452b0e337a3ed5d9c78f8d326d3bb4dadae56 1 k 100000 2",
            "evalsha 13f452b0e337a3ed5d9c78f8d326d3bb4dadae56 1 k 100000 3",
        ],
        r#"{"result":5}"#,
    ),
    (
        &[
            "evalsha 13f452b0e337a3ed5d9c78f8d326d3bb4dadae56 1 k 100000 2",
            "pttl k",
        ],
        r#"{"result":100000}"#,
    ),
    (
        &[
            "evalsha 810b44cbb5972f27767882f38553b79fd73440aa 2 c p 5 500 1000 3",
            "evalsha 810b44cbb5972f27767882f38553b79fd73440aa 2 p c 5 1500 1000 1",
        ],
        r#"{"result":3}"#,
    ),
    (
        &[
            "evalsha 810b44cbb5972f27767882f38553b79fd73440aa 2 c p 2 500 1000 3",
            "evalsha 810b44cbb5972f27767882f38553b79fd73440aa 2 c p 2 500 1000 1",
        ],
        r#"{"result":-1}"#,
    ),
    // It refuses only when the bucket is empty.
    (
        &[
            "evalsha 9d52ca1acde733f085373a53988bf319e433b732 1 b 5 1000 2 10000 4",
            "evalsha 9d52ca1acde733f085373a53988bf319e433b732 1 b 5 1000 2 10000 2",
            "evalsha 9d52ca1acde733f085373a53988bf319e433b732 1 b 5 1000 2 10000 1",
        ],
        r#"{"result":[-2,11000]}"#,
    ),
    (
        &[
            "evalsha 9d52ca1acde733f085373a53988bf319e433b732 1 b 5 1000 2 10000 5",
            "evalsha 9d52ca1acde733f085373a53988bf319e433b732 1 b 5 1000 2 10000 1",
        ],
        r#"{"result":[-1,11000]}"#,
    ),
    // 0.5.0 to 1.0.0: each call takes one.
    (
        &[
            "evalsha a677a22e4cd5c8a936056586fb38a48cd4e80bb2 1 k 100000",
            "pttl k",
        ],
        r#"{"result":100000}"#,
    ),
    (
        &[
            "evalsha a49582233b635643acca80c29edfe295cebdbca8 2 c p 5 500 1000",
            "evalsha a49582233b635643acca80c29edfe295cebdbca8 2 c p 5 500 1000",
            "evalsha a49582233b635643acca80c29edfe295cebdbca8 2 c p 5 500 1000",
            "evalsha a49582233b635643acca80c29edfe295cebdbca8 2 p c 5 1500 1000",
        ],
        r#"{"result":3}"#,
    ),
    (
        &[
            "evalsha a49582233b635643acca80c29edfe295cebdbca8 2 c p 1 500 1000",
            "evalsha a49582233b635643acca80c29edfe295cebdbca8 2 c p 1 500 1000",
        ],
        r#"{"result":-1}"#,
    ),
    (
        &[
            "evalsha b50447c414c777af3a98f98f35f8bfcd366ee313 1 b 1 1000 1 10000",
            "evalsha b50447c414c777af3a98f98f35f8bfcd366ee313 1 b 1 1000 1 10500",
        ],
        r#"{"result":[-1,11000]}"#,
    ),
    (
        &[
            "evalsha b50447c414c777af3a98f98f35f8bfcd366ee313 1 b 5 1000 2 10000",
            "hgetall b",
        ],
        r#"{"result":["refilled_at","10000","tokens","4"]}"#,
    ),
    // 0.2.0 to 0.4.2: an absent window has -1, the one before is not replied, a bucket goes below 0 and never ends.
    (
        &[
            "evalsha 78b41ca1e0fb451d04a7d226654573d85e8581e4 1 k 100000",
            "evalsha 78b41ca1e0fb451d04a7d226654573d85e8581e4 1 k 100000",
        ],
        r#"{"result":2}"#,
    ),
    (
        &["evalsha e15257055b0ad16d37dba88a57846fa17142b83e 2 c p 1 500 1000"],
        r#"{"result":0}"#,
    ),
    (
        &[
            "evalsha e15257055b0ad16d37dba88a57846fa17142b83e 2 c p 1 500 1000",
            "evalsha e15257055b0ad16d37dba88a57846fa17142b83e 2 c p 1 500 1000",
        ],
        r#"{"result":-1}"#,
    ),
    (
        &[
            "evalsha e15257055b0ad16d37dba88a57846fa17142b83e 2 c p 9 500 1000",
            "evalsha e15257055b0ad16d37dba88a57846fa17142b83e 2 p c 9 1500 1000",
        ],
        r#"{"result":8}"#,
    ),
    (
        &[
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 1 1000 2 10000",
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 1 1000 2 10500",
        ],
        r#"{"result":[-1,11000]}"#,
    ),
    (
        &[
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 9 1000 2 10000",
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 9 1000 2 10500",
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 9 1000 1 13700",
        ],
        r#"{"result":[8,14000]}"#,
    ),
    (
        &[
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 1 1000 2 10000",
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 1 1000 2 10500",
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 9 1000 2 13700",
        ],
        r#"{"result":[5,14000]}"#,
    ),
    (
        &[
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 1 1000 2 10000",
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 1 1000 2 10500",
            "hgetall b",
        ],
        r#"{"result":["updated_at","10000","tokens","-1"]}"#,
    ),
    (
        &[
            "evalsha 67aa8759e1342d100d551f5f71496a68de9ffa41 1 b 1 1000 2 10000",
            "pttl b",
        ],
        r#"{"result":-1}"#,
    ),
];

#[test]
fn scripts_reply_as_their_versions_do() {
    for (commands, expected) in SCRIPTED {
        assert_eq!(last(commands), *expected, "{commands:?}");
    }
}

/// What listeners are told of these commands, one after the other: `event key`.
fn events(commands: &[&str]) -> Vec<String> {
    let mut space = Space::new(NOW_MS);
    let each = commands.iter().flat_map(|text| {
        let args = words(text);
        let command = Command::find(&args).expect("a command");
        let before = space.clone();
        run(command, &mut space, &args);
        let key_events = notifications::of_keys(command, &args, &before, &space);
        space.kept();
        key_events
    });
    each.map(|KeyEvent { name, key }| format!("{name} {key}"))
        .collect()
}

#[test]
fn listeners_are_told_what_commands_have_changed_by_redis_s_names() {
    for (commands, expected) in [
        (vec!["get a", "exists a", "del a"], vec![]),
        (
            vec!["set a x", "set a x", "set a y nx"],
            vec!["set a", "set a"],
        ),
        (
            vec!["set a x ex 5", "set a y keepttl"],
            vec!["set a", "expire a", "set a"],
        ),
        (vec!["mset a 1 b x a 2"], vec!["set a", "set b", "set a"]),
        (
            vec!["set a 5", "incr a", "decrby a 2", "incrbyfloat a 1"],
            vec!["set a", "incrby a", "incrby a", "incrbyfloat a"],
        ),
        (
            vec!["set a x", "expire a 5", "persist a", "persist a"],
            vec!["set a", "expire a", "persist a"],
        ),
        (
            vec!["set a x", "getex a ex 5", "getex a persist", "getex a"],
            vec!["set a", "expire a", "persist a"],
        ),
        (
            vec!["set a x", "set b x", "unlink a b a c"],
            vec!["set a", "set b", "del a", "del b"],
        ),
        (
            vec!["set a x", "pexpire a -1", "setex b 5 x", "getdel b"],
            vec!["set a", "del a", "set b", "expire b", "del b"],
        ),
        (
            vec!["hset h f 1", "hincrby h f 2", "hdel h f g"],
            vec!["hset h", "hincrby h", "hdel h", "del h"],
        ),
        (
            vec!["sadd s a b", "sadd s a", "srem s a", "srem s a", "srem s b"],
            vec!["sadd s", "srem s", "srem s", "del s"],
        ),
        (
            vec!["sadd s a", "sunionstore t s", "sdiffstore t s s"],
            vec!["sadd s", "sunionstore t", "del t"],
        ),
    ] {
        assert_eq!(events(&commands), expected, "{commands:?}");
    }
}

#[test]
fn listeners_are_told_what_became_of_a_sorted_set() {
    for (text, change, expected) in [
        ("zadd z 1 m", SetChange::Same, vec![]),
        ("zadd z 1 m", SetChange::Changed, vec!["zadd"]),
        ("zadd z incr 1 m", SetChange::Changed, vec!["zincr"]),
        ("zincrby z 1 m", SetChange::Changed, vec!["zincr"]),
        ("zrem z m", SetChange::Changed, vec!["zrem"]),
        ("zpopmin z", SetChange::Emptied, vec!["zpopmin", "del"]),
    ] {
        let args = words(text);
        let command = Command::find(&args).expect("a command");
        let key_events = notifications::of_set(command, &args, change);
        let names: Vec<&str> = key_events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, expected, "{text}");
        assert!(key_events.iter().all(|event| event.key == "z"));
    }
}

#[test]
fn channels_are_read_from_a_path_and_say_which_keys_must_be_readable() {
    let parsed = |path: &str| Subscription::of_path(path);
    assert_eq!(parsed("/get/__keyspace@0__:a"), None);
    assert_eq!(parsed("/subscribe"), None);
    for (path, channels, prefixes) in [
        (
            "/subscribe/__keyspace@0__:a",
            vec!["__keyspace@0__:a"],
            vec!["a"],
        ),
        (
            "/SUBSCRIBE/__keyspace@0__:a%2Cb/c/",
            vec!["__keyspace@0__:a,b/c/"],
            vec!["a,b/c/"],
        ),
        (
            "/subscribe/__keyspace@0__:a/b/__keyevent@0__:set",
            vec!["__keyspace@0__:a/b", "__keyevent@0__:set"],
            vec!["a/b", ""],
        ),
        (
            "/psubscribe/__keyspace@0__:a[bc]*",
            vec!["__keyspace@0__:a[bc]*"],
            vec!["a"],
        ),
        ("/psubscribe/*", vec!["*"], vec![""]),
        (
            "/psubscribe/__keyspace@?__:a",
            vec!["__keyspace@?__:a"],
            vec![""],
        ),
    ] {
        let subscription = parsed(path).expect("a stream").expect("channels");
        assert_eq!(subscription.channels, channels, "{path}");
        assert_eq!(
            subscription.prefixes().collect::<Vec<_>>(),
            prefixes,
            "{path}"
        );
    }
    let channels = |count: usize, bytes: usize| {
        let path = format!(
            "/subscribe{}",
            format!("/__keyspace@0__:{}", "a".repeat(bytes)).repeat(count)
        );
        parsed(&path).expect("a stream").map(|it| it.channels.len())
    };
    assert_eq!(channels(15, 500), Ok(15));
    assert!(channels(30, 500).is_err_and(|text| text.contains("at most 8192 bytes")));
    assert!(channels(1, 1_100).is_err_and(|text| text.contains("at most 1024 bytes")));
    for path in [
        "/subscribe/",
        "/subscribe/news",
        "/subscribe/__key*",
        "/psubscribe/news*",
        "/psubscribe/__keyspace@1*",
    ] {
        let refused = parsed(path).expect("a stream");
        assert!(
            refused.is_err_and(|text| text.starts_with("ERR messages are not what Tally is for")),
            "{path}"
        );
    }
}

#[test]
fn redis_patterns_of_streams_are_bounded_in_the_steps_of_an_event() {
    let of = |pattern: &str| {
        Subscription::of_path(&format!("/psubscribe/__keyspace@0__:{pattern}")).expect("a stream")
    };
    for (pattern, bytes) in [
        ("a", 0),
        ("a*", 0),
        ("a**", 0),
        ("a[b-c]", 0),
        ("*b", 1),
        ("a*b*", 2),
        ("*[b***", 5),
    ] {
        assert_eq!(glob::repeated_bytes(pattern), bytes, "{pattern}");
    }
    assert!(of(&format!("s*{}", "a".repeat(REPEATED_BYTES_MAX))).is_ok());
    let costly = of(&format!("ss*[b-c{}]", "b-c".repeat(328)));
    assert!(costly.is_err_and(|text| text.contains("at most 256 bytes after their first stars")));
    // An event of a long name is delivered where matching takes no more steps than the pattern has bytes.
    let long = KeyEvent::new("set", &"s".repeat(CHANNEL_COMPARED_BYTES_MAX));
    let is_delivered =
        |pattern: &str, event| !of(pattern).expect("patterns").frames(event).is_empty();
    assert!(is_delivered("s*", &long) && !is_delivered("*s", &long));
    assert!(is_delivered(
        "*s",
        &KeyEvent::new("set", &"s".repeat(1_000))
    ));
}

#[test]
fn golden_frames_of_a_stream() {
    let of = |path: &str| {
        Subscription::of_path(path)
            .expect("a stream")
            .expect("channels")
    };
    let both = of("/subscribe/__keyspace@0__:a/__keyevent@0__:set");
    assert_eq!(
        both.greeting(),
        "data: subscribe,__keyspace@0__:a,1\n\ndata: subscribe,__keyevent@0__:set,2\n\n"
    );
    assert_eq!(
        both.frames(&KeyEvent::new("set", "a")),
        "data: message,__keyspace@0__:a,set\n\ndata: message,__keyevent@0__:set,a\n\n"
    );
    assert_eq!(both.frames(&KeyEvent::new("del", "b")), "");
    let pattern = of("/psubscribe/__keyevent@0__:*");
    assert_eq!(
        pattern.greeting(),
        "data: psubscribe,__keyevent@0__:*,1\n\n"
    );
    // A key may have lines: each is a field of its own.
    assert_eq!(
        pattern.frames(&KeyEvent::new("set", "one\ntwo")),
        "data: pmessage,__keyevent@0__:*,__keyevent@0__:set,one\ndata: two\n\n"
    );
    assert!(
        both.farewell()
            .starts_with("data: error,__keyspace@0__:a,ERR ")
    );
}
