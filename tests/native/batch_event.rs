//! An event is read whole or refused with a code that says what to mend.

use std::borrow::Cow;

use crate::common::events::parse_event;

use proptest::prelude::*;

use tally_api::batch::event::{EVENT_ID_BYTES_MAX, UNIQUE_BYTES_MAX, parse_increment, parse_line};
use tally_api::batch::ndjson::{UniqueField, parse_ndjson};
use tally_api::json::DETAIL_CHARS_MAX;
use tally_wire::problem::{Code, Problem};

fn refused(json: &str) -> Problem {
    match parse_event(json.as_bytes()) {
        Err(problem) => problem,
        Ok(record) => panic!("{json} was read as {record:?}"),
    }
}

#[test]
fn a_whole_event_is_read() {
    let json =
        br#"{"id":"/a","delta":"9223372036854775808","unique":"u","at":5,"idempotency_key":"i"}"#;
    let record = parse_event(json).unwrap();
    assert_eq!(record.key, "/a");
    assert_eq!(record.delta, 1 << 63);
    assert_eq!(record.unique.as_deref(), Some(&b"u"[..]));
    assert_eq!(record.at_ms, Some(5_000));
    assert_eq!(record.id.as_deref(), Some("i"));
    let record = parse_event(br#" {"id":"/a"} "#).unwrap();
    assert_eq!(
        (record.delta, &record.unique, record.at_ms, &record.id),
        (1, &None, None, &None)
    );
}

#[test]
fn a_time_is_read_as_in_queries() {
    let at_ms = |at: &str| {
        let json = format!(r#"{{"id":"/a","at":{at}}}"#);
        parse_event(json.as_bytes()).unwrap().at_ms
    };
    for (at, expected) in [
        ("1795870800", 1_795_870_800_000),
        ("1.7958708e9", 1_795_870_800_000),
        (r#""1795870800""#, 1_795_870_800_000),
        (r#""2026-11-28T13:00:00.250Z""#, 1_795_870_800_250),
        (r#""2026-11-28T14:30:00+01:30""#, 1_795_870_800_000),
        (r#""2026-11-28""#, 1_795_910_399_000),
        ("253402300799", 253_402_300_799_000),
    ] {
        assert_eq!(at_ms(at), Some(expected), "{at}");
    }
    // Milliseconds are no seconds of a year that has a date, and the refusal names the forms.
    for at in ["1795870800000", "253402300800", "1795870800.5", "true"] {
        let problem = refused(&format!(r#"{{"id":"/a","at":{at}}}"#));
        assert_eq!(problem.code(), Code::InvalidBody, "{at}");
        assert!(problem.detail().contains("or unix seconds"), "{problem}");
        // Answers have milliseconds, so a time that is copied from one is the likely mistake.
        assert!(
            problem.detail().contains("divide milliseconds by 1,000"),
            "{problem}"
        );
    }
}

#[test]
fn strings_are_copied_only_where_they_have_escapes() {
    let record = parse_event(br#"{"id":"/a","unique":"u","idempotency_key":"i"}"#).unwrap();
    assert!(matches!(record.key, Cow::Borrowed("/a")));
    assert!(matches!(record.unique, Some(Cow::Borrowed(b"u"))));
    assert!(matches!(record.id, Some(Cow::Borrowed("i"))));
    let record = parse_event(br#"{"id":"\u002fa","unique":"\"","idempotency_key":"\\"}"#).unwrap();
    assert_eq!(
        (&*record.key, record.unique.as_deref(), record.id.as_deref()),
        ("/a", Some(&b"\""[..]), Some("\\"))
    );
}

#[test]
fn an_amount_is_exact_beyond_doubles() {
    let record = parse_event(br#"{"id":"a","delta":9007199254740993}"#).unwrap();
    assert_eq!(record.delta, 9_007_199_254_740_993);
    for amount in [
        "0",
        "-1",
        "1.5",
        "15e-1",
        "\"x\"",
        "\"\"",
        "null",
        "true",
        "[1]",
        "{}",
        "9223372036854775809",
    ] {
        assert_eq!(
            refused(&format!(r#"{{"id":"a","delta":{amount}}}"#)).code(),
            Code::InvalidDelta,
            "{amount}"
        );
    }
}

#[test]
fn malformed_json_is_told_from_a_wrong_shape() {
    for json in [
        "",
        "x",
        "{",
        r#"{"id":"a""#,
        r#"{"id":"a"}}"#,
        r#"{"id":"a",}"#,
        r#"{key:"a"}"#,
        r#"{"id":"a"} {"id":"b"}"#,
        "{\"id\":\"a\nb\"}",
        r#"{"id":"\ud800"}"#,
        r#"{"id":"a","delta":01}"#,
        "[1",
        "\"a",
    ] {
        assert_eq!(refused(json).code(), Code::InvalidJson, "{json}");
    }
    assert_eq!(
        parse_event(b"{\"id\":\"\xff\"}").unwrap_err().code(),
        Code::InvalidJson
    );
    for json in [
        "{}",
        "[]",
        r#"["a"]"#,
        "1",
        "null",
        "\"a\"",
        r#"{"id":1}"#,
        r#"{"id":null}"#,
        r#"{"id":"a","unique":null}"#,
        r#"{"id":"a","unique":5}"#,
        r#"{"id":"a","at":"+5"}"#,
        r#"{"id":"a","at":""}"#,
        r#"{"id":"a","at":"2026-02-30"}"#,
        r#"{"id":"a","at":1.5}"#,
        r#"{"id":"a","at":-1}"#,
        r#"{"id":"a","at":null}"#,
        r#"{"id":"a","idempotency_key":1}"#,
        r#"{"id":"a","id":"a"}"#,
        r#"{"id":"a","unique":""}"#,
        r#"{"id":"a","idempotency_key":""}"#,
        r#"{"id":"a","at":1,"at":1}"#,
    ] {
        assert_eq!(refused(json).code(), Code::InvalidBody, "{json}");
    }
}

#[test]
fn an_unknown_field_is_named() {
    let problem = refused(r#"{"id":"a","dleta":2}"#);
    assert_eq!(problem.code(), Code::UnknownField);
    assert!(problem.detail().contains("`dleta`"), "{problem}");
    assert_eq!(
        refused(r#"{"id":"a","increment":2}"#).code(),
        Code::UnknownField
    );
}

#[test]
fn a_fault_has_its_place_and_a_bounded_quotation() {
    assert!(
        refused(r#"{"id":1}"#).detail().ends_with("(column 7)"),
        "{}",
        refused(r#"{"id":1}"#)
    );
    assert!(
        refused("{\n\"id\":1}")
            .detail()
            .contains("line 2 of the value")
    );
    for json in [
        format!(r#"{{"{}":1}}"#, "é".repeat(20_000)),
        format!(r#"{{"id":"a","at":"{}"}}"#, "x".repeat(60_000)),
    ] {
        assert!(refused(&json).detail().chars().count() < DETAIL_CHARS_MAX + 60);
    }
}

#[test]
fn elements_and_ids_have_limits() {
    let with =
        |field: &str, bytes: usize| format!(r#"{{"id":"a","{field}":"{}"}}"#, "x".repeat(bytes));
    for (field, bytes_max) in [
        ("unique", UNIQUE_BYTES_MAX),
        ("idempotency_key", EVENT_ID_BYTES_MAX),
    ] {
        assert!(parse_event(with(field, bytes_max).as_bytes()).is_ok());
        let problem = refused(&with(field, bytes_max + 1));
        assert_eq!(problem.code(), Code::InvalidBody);
        assert!(problem.detail().contains(field));
    }
}

#[test]
fn a_key_is_checked_where_the_counter_is_needed() {
    for (key, sound) in [
        ("a", true),
        ("\u{fc}", true),
        ("", false),
        (".", false),
        ("..", false),
        (r"\u0007", false),
        (&"x".repeat(513), false),
    ] {
        let json = format!(r#"{{"id":"{key}"}}"#);
        let id = parse_event(json.as_bytes()).unwrap().counter_id();
        assert_eq!(
            id.as_ref().map_err(Problem::code).err(),
            (!sound).then_some(Code::InvalidId),
            "{key}"
        );
    }
}

#[test]
fn an_increment_needs_no_body() {
    for body in ["", " \n", "{}"] {
        let increment = parse_increment(body.as_bytes()).unwrap();
        assert_eq!(
            (increment.delta, increment.unique, increment.at_ms),
            (1, None, None)
        );
    }
    let increment = parse_increment(br#"{"delta":7,"unique":"\u00fc","at":1700000000}"#).unwrap();
    assert_eq!(
        (
            increment.delta,
            increment.unique.as_deref(),
            increment.at_ms
        ),
        (7, Some("ü"), Some(1_700_000_000_000))
    );
}

#[test]
fn who_did_it_is_said_whole_or_not_at_all() {
    let of = |body: &str| parse_increment(body.as_bytes());
    let line = |fields: &str| {
        parse_line(format!(r#"{{"id":"a",{fields}}}"#).as_bytes()).map(|(_, by)| by.is_auto)
    };
    let both = r#""unique":"auto","ip":"203.0.113.9","user_agent":"curl/8""#;
    // A request says itself who its visitor is, a line has to.
    assert!(of(r#"{"unique":"auto"}"#).unwrap().by.is_auto);
    assert_eq!(
        of(r#"{"unique":"auto"}"#).unwrap().unique.as_deref(),
        Some("auto")
    );
    assert!(line(both).unwrap() && of(&format!("{{{both}}}")).unwrap().by.is_auto);
    for fields in [
        r#""unique":"auto","ip":"203.0.113.9""#,
        r#""unique":"auto","user_agent":"x""#,
        r#""unique":"auto","ip":"203.0.113","user_agent":"x""#,
        r#""unique":"bob","ip":"203.0.113.9","user_agent":"x""#,
        r#""user_agent":"x""#,
        r#""bots":"count","user_agent":"x""#,
        r#""bots":"no""#,
        r#""bots":null"#,
        r#""bots":true"#,
    ] {
        for refused in [
            line(fields).map(drop),
            of(&format!("{{{fields}}}")).map(drop),
        ] {
            assert_eq!(refused.unwrap_err().code(), Code::InvalidBody, "{fields}");
        }
    }
    for fields in [r#""unique":"auto""#, r#""bots":"ignore""#] {
        assert_eq!(
            line(fields).unwrap_err().code(),
            Code::InvalidBody,
            "{fields}"
        );
    }
    let logged = br#"{"path":"/","unique":"auto"}"#;
    assert_eq!(
        parse_ndjson(logged, UniqueField::None).unwrap_err().code(),
        Code::InvalidBody
    );
}

#[test]
fn bots_are_left_out_where_that_was_asked_for_and_of_visitors_unless_it_was_not() {
    for (fields, header, is_ignored) in [
        ("", "curl/8", false),
        (r#""unique":"bob""#, "curl/8", false),
        (r#""unique":"auto""#, "curl/8", true),
        (r#""unique":"auto""#, "", true),
        (r#""unique":"auto""#, "Mozilla/5.0", false),
        (r#""unique":"auto","bots":"count""#, "curl/8", false),
        (r#""unique":"bob","bots":"ignore""#, "curl/8", true),
        (
            r#""bots":"ignore","user_agent":"Mozilla/5.0""#,
            "curl/8",
            false,
        ),
        (
            r#""bots":"ignore","user_agent":"curl/8""#,
            "Mozilla/5.0",
            true,
        ),
    ] {
        let by = parse_increment(format!("{{{fields}}}").as_bytes())
            .unwrap()
            .by;
        let ignored = by.is_ignored(|| Some(header.to_owned()));
        assert_eq!(ignored, is_ignored, "{fields} {header:?}");
    }
}

#[test]
fn a_bad_increment_is_refused() {
    for (body, code) in [
        ("{", Code::InvalidJson),
        ("7", Code::InvalidBody),
        ("[7]", Code::InvalidBody),
        (r#"{"delta":0}"#, Code::InvalidDelta),
        (r#"{"delta":null}"#, Code::InvalidDelta),
        (r#"{"delta":1,"delta":1}"#, Code::InvalidBody),
        (r#"{"increment":1}"#, Code::UnknownField),
        (r#"{"unique":""}"#, Code::InvalidBody),
        (r#"{"at":"now"}"#, Code::InvalidBody),
    ] {
        assert_eq!(
            parse_increment(body.as_bytes()).unwrap_err().code(),
            code,
            "{body}"
        );
    }
}

/// Values of fields: right ones, and such as are wrong, or right in one way of reading only.
const VALUES: [&str; 24] = [
    "1",
    "12",
    "0",
    "01",
    "-1",
    "1.0",
    "1e0",
    "1 ",
    "9223372036854775808",
    "18446744073709551616",
    "\"a\"",
    "\"1\"",
    "\"01\"",
    "\"\"",
    "\"auto\"",
    "\"ö\"",
    "\"\\u0061\"",
    "\"a\u{1}\"",
    "\"a\u{7f}\"",
    "\"a",
    "a\"",
    "null",
    "{}",
    "",
];

/// A line that is an event more often than not: fields with values, and what may be wrong with them.
fn lines() -> impl Strategy<Value = String> {
    let one_of = |texts: &[&'static str]| prop::sample::select(texts.to_vec());
    let names = [
        "id",
        "delta",
        "delta",
        "unique",
        "at",
        "idempotency_key",
        "by",
    ];
    let field = (
        one_of(&names),
        one_of(&[":", ": ", " :", ":  ", ""]),
        one_of(&VALUES),
    )
        .prop_map(|(name, colon, value)| format!("\"{name}\"{colon}{value}"));
    let fields = prop::collection::vec(
        (one_of(&[",", ",", ",", ", ", " ,", ",,", ""]), field),
        0..4,
    );
    let ends = one_of(&["}", "}", "}", "} ", " }", ",}", "}x", "}}", ""]);
    (one_of(&VALUES), fields, ends).prop_map(|(key, fields, end)| {
        let fields = fields
            .into_iter()
            .map(|(comma, field)| comma.to_owned() + &field);
        format!("{{\"id\":{key}{}{end}", fields.collect::<String>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Both readers of a line: white space after the brace is left to the general one.
    #[test]
    fn a_line_says_the_same_with_white_space_after_its_brace(line in lines()) {
        let spaced = format!("{{\t{}", &line[1..]);
        match (parse_line(line.as_bytes()), parse_line(spaced.as_bytes())) {
            (Ok(one), Ok(other)) => prop_assert_eq!(one, other),
            (Err(one), Err(other)) => prop_assert_eq!(one.code(), other.code()),
            (one, other) => prop_assert!(false, "{one:?} and {other:?}"),
        }
    }
}
