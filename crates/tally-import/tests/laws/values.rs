//! Lines become bodies, and each line that is refused is named by its own number.

use base64::prelude::{BASE64_STANDARD, Engine};
use tally_import::values::{Entry, Values};

use super::host::Memory;

fn bodies(values: &mut Values, report: impl Fn(&str) -> String) -> Vec<(String, String)> {
    let host = Memory::default();
    let mut all = Vec::new();
    while let Some(body) = values.next(&host, true) {
        values.answered(&report(&body.text));
        all.push((body.mode, body.text));
    }
    all
}

fn fine(text: &str) -> String {
    format!(
        r#"{{"counters":{},"rejected":0,"refused":[]}}"#,
        text.lines().count()
    )
}

#[test]
fn lines_that_the_service_refuses_have_the_numbers_of_their_list() {
    let mut values = Values::new("create", "p/");
    values.list("# mine\na 1\nbad\nb 2\n").unwrap();
    let report = |_: &str| {
        r#"{"counters":1,"rejected":1,"refused":[{"line":2,"id":"p/b","code":"invalid-id","detail":"no"}]}"#.to_owned()
    };
    let sent = bodies(&mut values, report);
    assert_eq!(
        sent[0].1,
        "{\"id\":\"p/a\",\"value\":1}\n{\"id\":\"p/b\",\"value\":2}\n"
    );
    let refused: Vec<&str> = values
        .carried
        .refused
        .iter()
        .map(|line| line.get())
        .collect();
    assert!(
        refused[0].contains("\"line\":3") && refused[0].contains("line 3 is no counter"),
        "{refused:?}"
    );
    assert!(
        refused[1].contains("\"line\":4") && refused[1].contains("invalid-id"),
        "{refused:?}"
    );
    assert_eq!((values.carried.counters, values.carried.rejected), (1, 2));
}

#[test]
fn what_a_redis_holds_becomes_lines_with_the_time_that_is_left() {
    let mut values = Values::new("create", "r/");
    let of = |kind: &str, key: &[u8], ttl_ms: i64| Entry {
        key: BASE64_STANDARD.encode(key),
        kind: kind.to_owned(),
        ttl_ms,
        value: None,
        members: None,
    };
    let string = |key: &str, ttl_ms: i64, value: &[u8]| Entry {
        value: Some(BASE64_STANDARD.encode(value)),
        ..of("string", key.as_bytes(), ttl_ms)
    };
    let page = |members: &[&[u8]]| Entry {
        members: Some(
            members
                .iter()
                .map(|text| BASE64_STANDARD.encode(text))
                .collect(),
        ),
        ..of("zset", b"b", 5)
    };
    for entry in [
        string("a", 1_500, b"9007199254740993"),
        string("u", -1, b"HYLL\xff"),
        string("text", -1, b"hello"),
        of("string", b"gone", -2),
        of("list", b"l", -1),
        of("string", b"\xff", -1),
        of("zset", b"b", 5),
        page(&[b"ann", b"1.5", b"bob", b"2", b"\xfe", b"3"]),
    ] {
        values.entry(&entry, 1_000);
    }
    let sent = bodies(&mut values, fine);
    let lines: Vec<&str> = sent.iter().flat_map(|(_, text)| text.lines()).collect();
    assert_eq!(
        lines,
        [
            r#"{"id":"r/a","settings":{"ttl_seconds":2},"value":9007199254740993}"#,
            r#"{"id":"r/u","settings":{"unique_hash":"redis"},"hll":"SFlMTP8="}"#,
            r#"{"board":"r/b"}"#,
            r#"{"board":"r/b","member":"ann","score":1.5,"expires_at":1005}"#,
            r#"{"board":"r/b","member":"bob","score":2,"expires_at":1005}"#,
        ]
    );
    let left: Vec<&str> = values
        .carried
        .left_out_keys
        .iter()
        .map(|key| key.why.as_str())
        .collect();
    assert_eq!(
        left,
        [
            "no whole number",
            "gone meanwhile",
            "a list",
            "its name is no UTF-8: ff",
            "a member that is no UTF-8: fe",
        ]
    );
    assert_eq!(
        (values.carried.left_out, values.carried.left_out_members),
        (5, 1)
    );
}

#[test]
fn each_score_of_a_redis_is_one_of_a_board() {
    let scores = [
        ("inf", r#""inf""#),
        ("-inf", r#""-inf""#),
        ("2", "2"),
        ("-0.5", "-0.5"),
        ("1.7976931348623157e+308", "1.7976931348623157e+308"),
        ("5e-324", "5e-324"),
    ];
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    let entry = |members: Option<Vec<String>>| Entry {
        key: encode("b"),
        kind: "zset".to_owned(),
        ttl_ms: -1,
        value: None,
        members,
    };
    let mut values = Values::new("create", "");
    values.entry(&entry(None), 0);
    let pairs = scores
        .iter()
        .flat_map(|(score, _)| [encode(score), encode(score)]);
    values.entry(&entry(Some(pairs.collect())), 0);
    values.entry(&entry(Some(vec![encode("none"), encode("nan")])), 0);
    let sent = bodies(&mut values, fine);
    let lines: Vec<&str> = sent[0].1.lines().skip(1).collect();
    let line = |(member, score): (&str, &str)| {
        format!(r#"{{"board":"b","member":"{member}","score":{score}}}"#)
    };
    assert_eq!(lines, scores.map(line));
    let left: Vec<&str> = values
        .carried
        .left_out_keys
        .iter()
        .map(|key| key.why.as_str())
        .collect();
    assert_eq!(left, ["a member \"none\" whose score is nan"]);
    assert_eq!(values.carried.left_out_members, 1);
}

#[test]
fn an_export_arrives_in_any_chunks_and_a_body_waits_for_the_answer_to_the_one_before() {
    let line = |index: usize| format!("{{\"id\":\"c{index}\",\"value\":1}}\n");
    let text: String = (0..2_500).map(line).collect();
    for size in [7, 1_000, 100_000] {
        let (host, mut values) = (Memory::default(), Values::new("add", ""));
        let mut counts = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            values.push(chunk, "x").unwrap();
            while let Some(body) = values.next(&host, false) {
                counts.push(body.text.lines().count());
                assert!(body.key.is_some());
                values.answered(&fine(&body.text));
            }
        }
        values.end("x", None);
        while let Some(body) = values.next(&host, true) {
            counts.push(body.text.lines().count());
            values.answered(&fine(&body.text));
        }
        assert_eq!(
            (counts, values.carried.counters),
            (vec![1_000, 1_000, 500], 2_500),
            "{size}"
        );
        assert_eq!(values.carried.complete, Some(false), "it has no last line");
    }
}
