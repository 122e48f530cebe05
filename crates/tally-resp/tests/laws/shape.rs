//! Laws: each reply has the form that Redis 7.0 gives it, in either version of the protocol; no word of a client
//! becomes a reply.

use tally_resp::encoder::{Encoder, Protocol};
use tally_resp::shape::{Shape, shape_of, write};
use tally_wire::redis::Reply;

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn texts(texts: &[&str]) -> Reply {
    Reply::texts(texts.iter().map(|text| (*text).to_owned()))
}

/// The bytes of a reply in both versions, with `|` for the end of a line.
fn both(command: &str, reply: &Reply) -> [String; 2] {
    [Protocol::Two, Protocol::Three].map(|protocol| {
        let mut encoder = Encoder::default();
        encoder.protocol = protocol;
        write(&mut encoder, shape_of(&words(command)), reply);
        String::from_utf8(encoder.take())
            .expect("text")
            .replace("\r\n", "|")
    })
}

#[test]
fn replies_have_the_forms_of_redis() {
    let nil = Reply::Nil;
    for (command, reply, two, three) in [
        ("INCR a", Reply::Integer(-5), ":-5|", ":-5|"),
        ("GET a", nil.clone(), "$-1|", "_|"),
        ("GET a", Reply::text("é"), "$2|é|", "$2|é|"),
        ("SET a b", Reply::ok(), "+OK|", "+OK|"),
        ("set a b nx", nil.clone(), "$-1|", "_|"),
        ("SET a OK get", Reply::text("OK"), "$2|OK|", "$2|OK|"),
        ("SET get get", Reply::ok(), "+OK|", "+OK|"),
        ("TYPE a", Reply::text("zset"), "+zset|", "+zset|"),
        ("PING", Reply::text("PONG"), "+PONG|", "+PONG|"),
        ("PING PONG", Reply::text("PONG"), "$4|PONG|", "$4|PONG|"),
        ("SCRIPT flush", Reply::ok(), "+OK|", "+OK|"),
        ("SCRIPT LOAD x", Reply::text("abc"), "$3|abc|", "$3|abc|"),
        ("INFO", Reply::text("a"), "$1|a|", "=5|txt:a|"),
    ] {
        assert_eq!(both(command, &reply), [two, three], "{command}");
    }
}

#[test]
fn maps_sets_and_scores_have_the_forms_of_redis() {
    let nil = Reply::Nil;
    for (command, reply, two, three) in [
        (
            "HGETALL h",
            texts(&["f", "1"]),
            "*2|$1|f|$1|1|",
            "%1|$1|f|$1|1|",
        ),
        ("HGETALL h", texts(&[]), "*0|", "%0|"),
        ("SMEMBERS s", texts(&["f"]), "*1|$1|f|", "~1|$1|f|"),
        ("ZSCORE z m", Reply::text("1.5"), "$3|1.5|", ",1.5|"),
        ("ZINCRBY z 1 m", Reply::text("inf"), "$3|inf|", ",inf|"),
        ("ZADD z 1 m", Reply::Integer(1), ":1|", ":1|"),
        ("ZADD z INCR 1 m", Reply::text("2"), "$1|2|", ",2|"),
        ("ZADD z NX INCR 1 m", nil.clone(), "$-1|", "_|"),
        ("ZRANK z m WITHSCORE", nil.clone(), "*-1|", "_|"),
        ("ZRANK z m", nil.clone(), "$-1|", "_|"),
        (
            "ZPOPMIN z",
            texts(&["m", "1"]),
            "*2|$1|m|$1|1|",
            "*2|$1|m|,1|",
        ),
        (
            "ZPOPMIN z 1",
            texts(&["m", "1"]),
            "*2|$1|m|$1|1|",
            "*1|*2|$1|m|,1|",
        ),
        (
            "ZRANGE z 0 -1",
            texts(&["m", "1"]),
            "*2|$1|m|$1|1|",
            "*2|$1|m|$1|1|",
        ),
        (
            "ZRANGE z 0 -1 withscores",
            texts(&["m", "1"]),
            "*2|$1|m|$1|1|",
            "*1|*2|$1|m|,1|",
        ),
        (
            "ZRANDMEMBER z 1 WITHSCORES",
            texts(&["m", "1"]),
            "*2|$1|m|$1|1|",
            "*1|*2|$1|m|,1|",
        ),
        (
            "ZUNION 2 a withscores",
            texts(&["m", "n"]),
            "*2|$1|m|$1|n|",
            "*2|$1|m|$1|n|",
        ),
        (
            "ZUNION 1 a WITHSCORES",
            texts(&["m", "1"]),
            "*2|$1|m|$1|1|",
            "*1|*2|$1|m|,1|",
        ),
        (
            "GET a",
            Reply::err("no\r\n+OK"),
            "-ERR no  +OK|",
            "-ERR no  +OK|",
        ),
    ] {
        assert_eq!(both(command, &reply), [two, three], "{command}");
    }
}

#[test]
fn scores_in_arrays_have_the_forms_of_redis() {
    let nil = Reply::Nil;
    let scores = Reply::Array(vec![Reply::text("1"), nil]);
    assert_eq!(both("ZMSCORE z a b", &scores), ["*2|$1|1|$-1|", "*2|,1|_|"]);
    let rank = Reply::Array(vec![Reply::Integer(3), Reply::text("1")]);
    assert_eq!(
        both("ZREVRANK z a WITHSCORE", &rank),
        ["*2|:3|$1|1|", "*2|:3|,1|"]
    );
    let page = Reply::Array(vec![Reply::text("0"), texts(&["m", "1"])]);
    let plain = "*2|$1|0|*2|$1|m|$1|1|";
    assert_eq!(both("ZSCAN z 0", &page), [plain, plain]);
}

#[test]
fn what_is_no_command_has_a_plain_reply() {
    assert_eq!(shape_of(&words("NOPE")), Shape::Plain);
    assert_eq!(shape_of(&[]), Shape::Plain);
}
