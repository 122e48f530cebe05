//! Logpush lines are read by the fields that count; NDJSON lines are events with a past.

use tally_protocol::batch::ingest::{Ingest, UniqueField};
use tally_protocol::batch::logpush::{LogpushLine, parse_ndjson, parse_timestamp};
use tally_protocol::problem::{Code, Problem};

fn code(json: &str) -> Code {
    match LogpushLine::parse(json.as_bytes()) {
        Ok(line) => panic!("{json} was read as {line:?}"),
        Err(problem) => problem.code(),
    }
}

#[test]
fn a_line_is_read_whatever_else_it_holds() {
    let json = br#"{"CacheCacheStatus":"hit","ClientRequestPath":"/a","ClientRequestURI":"/b?c","ClientIP":"2001:db8::1",
        "EdgeStartTimestamp":"2015-05-17T10:05:03.25Z","EdgeColoCode":"FRA","Cookies":{"a":[1,null]},"EdgeResponseStatus":200}"#;
    let line = LogpushLine::parse(json).unwrap().unwrap();
    assert_eq!(
        (&*line.path, line.address.as_deref()),
        ("/a", Some("2001:db8::1"))
    );
    assert_eq!(
        (line.at_ms, line.colo.as_deref()),
        (1_431_857_103_250, Some("FRA"))
    );
    assert_eq!(line.clone().record(UniqueField::None).unique, None);
    let record = line.record(UniqueField::Ip);
    assert_eq!(record.unique.as_deref(), Some(&b"2001:db8::1"[..]));
    assert_eq!((record.delta, record.at_ms), (1, Some(1_431_857_103_250)));
}

#[test]
fn a_uri_serves_as_path_without_its_query() {
    for json in [
        r#"{"ClientRequestURI":"/b?c=/d?e","EdgeStartTimestamp":1}"#,
        r#"{"ClientRequestURI":"\/b?c","EdgeStartTimestamp":1,"ClientIP":null,"EdgeColoCode":""}"#,
        r#"{"ClientRequestURI":"/b","ClientRequestPath":"","EdgeStartTimestamp":1,"ClientIP":""}"#,
    ] {
        let line = LogpushLine::parse(json.as_bytes()).unwrap().unwrap();
        assert_eq!(
            (&*line.path, line.address, line.colo),
            ("/b", None, None),
            "{json}"
        );
    }
}

#[test]
fn the_destination_check_is_neither_accepted_nor_rejected() {
    assert_eq!(LogpushLine::parse(br#"{"content":"tests"}"#), Ok(None));
    let ingest = Ingest::from_query(Some("logpush"), None, None).unwrap();
    assert_eq!(ingest.read(br#"{"content":"tests"}"#), Ok(None));
    assert_eq!(code(r#"{"content":"other"}"#), Code::InvalidLine);
}

#[test]
fn a_line_that_cannot_be_counted_is_refused() {
    for (json, expected) in [
        ("{", Code::InvalidJson),
        ("[]", Code::InvalidBody),
        ("{}", Code::InvalidLine),
        (r#"{"ClientRequestPath":"/"}"#, Code::InvalidLine),
        (
            r#"{"ClientRequestPath":"/","EdgeStartTimestamp":"yesterday"}"#,
            Code::InvalidLine,
        ),
        (
            r#"{"ClientRequestPath":7,"EdgeStartTimestamp":1}"#,
            Code::InvalidBody,
        ),
    ] {
        assert_eq!(code(json), expected, "{json}");
    }
}

#[test]
fn the_size_of_a_timestamp_tells_its_unit() {
    for (json, at_ms) in [
        ("1431857103", Some(1_431_857_103_000)),
        ("1431857103.25", Some(1_431_857_103_250)),
        ("1431857103250", Some(1_431_857_103_250)),
        ("1431857103250999", Some(1_431_857_103_250)),
        ("1431857103250999999", Some(1_431_857_103_250)),
        ("\"1431857103\"", Some(1_431_857_103_000)),
        ("\"2015-05-17T10:05:03Z\"", Some(1_431_857_103_000)),
        ("0", Some(0)),
        ("99999999999", Some(99_999_999_999_000)),
        ("100000000000", Some(100_000_000_000)),
        ("99999999999999", Some(99_999_999_999_999)),
        ("100000000000000", Some(100_000_000_000)),
        ("99999999999999999", Some(99_999_999_999_999)),
        ("100000000000000000", Some(100_000_000_000)),
        ("-1", None),
        ("1e9", None),
        ("99999999999999999999", None),
        ("null", None),
        ("\"\"", None),
        ("\"1.\"", None),
        ("[1]", None),
    ] {
        assert_eq!(parse_timestamp(json), at_ms, "{json}");
    }
}

#[test]
fn an_ndjson_line_is_an_event_with_a_past() {
    let read = |json: &'static str, unique| parse_ndjson(json.as_bytes(), unique);
    let plain = read(
        r#"{"key":"a?b","unique":"u","at":7,"increment":"3","id":"i"}"#,
        UniqueField::None,
    )
    .unwrap();
    assert_eq!(
        (&*plain.key, plain.delta, plain.at_ms, plain.id.as_deref()),
        ("a?b", 3, Some(7), Some("i"))
    );
    assert_eq!(plain.unique.as_deref(), Some(&b"u"[..]));
    let log = r#"{"path":"/a?b","ip":"1.2.3.4","time":"2015-05-17T10:05:03Z"}"#;
    let by_ip = read(log, UniqueField::Ip).unwrap();
    assert_eq!(
        (&*by_ip.key, by_ip.delta, by_ip.at_ms),
        ("/a", 1, Some(1_431_857_103_000))
    );
    assert_eq!(by_ip.unique.as_deref(), Some(&b"1.2.3.4"[..]));
    assert_eq!(read(log, UniqueField::None).unwrap().unique, None);
    assert_eq!(read(r#"{"key":"a"}"#, UniqueField::Ip).unwrap().at_ms, None);
}

#[test]
fn a_bad_ndjson_line_is_refused() {
    for (json, expected) in [
        ("x", Code::InvalidJson),
        (r#"{"unique":"u"}"#, Code::InvalidBody),
        (r#"{"key":"a","path":"/a"}"#, Code::InvalidBody),
        (r#"{"key":"a","unique":"u","ip":"i"}"#, Code::InvalidBody),
        (
            r#"{"key":"a","at":1,"time":"2015-05-17T10:05:03Z"}"#,
            Code::InvalidBody,
        ),
        (r#"{"key":"a","time":"17 May"}"#, Code::InvalidBody),
        (r#"{"key":"a","increment":0}"#, Code::InvalidDelta),
        (r#"{"key":"a","host":"h"}"#, Code::UnknownField),
        (r#"{"key":"a","ip":null}"#, Code::InvalidBody),
    ] {
        assert_eq!(
            parse_ndjson(json.as_bytes(), UniqueField::Ip)
                .as_ref()
                .map_err(Problem::code),
            Err(expected),
            "{json}"
        );
    }
}
