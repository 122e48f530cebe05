//! NDJSON lines are events with a past.

use tally_api::batch::ingest::Ingest;
use tally_api::batch::ndjson::{UniqueField, parse_ndjson};
use tally_wire::problem::{Code, Problem};

#[test]
fn an_ndjson_line_is_an_event_with_a_past() {
    let read = |json: &'static str, unique| parse_ndjson(json.as_bytes(), unique);
    let plain = read(
        r#"{"id":"a?b","unique":"u","at":7,"delta":"3","idempotency_key":"i"}"#,
        UniqueField::None,
    )
    .unwrap();
    assert_eq!(
        (&*plain.key, plain.delta, plain.at_ms, plain.id.as_deref()),
        ("a?b", 3, Some(7_000), Some("i"))
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
    assert_eq!(read(r#"{"id":"a"}"#, UniqueField::Ip).unwrap().at_ms, None);
    // Files that were joined have a mark at the beginning of a line.
    let marked = read("\u{feff}{\"id\":\"a\"}", UniqueField::None).unwrap();
    assert_eq!(&*marked.key, "a");
}

#[test]
fn a_bad_ndjson_line_is_refused() {
    for (json, expected) in [
        ("x", Code::InvalidJson),
        (r#"{"unique":"u"}"#, Code::InvalidBody),
        (r#"{"id":"a","path":"/a"}"#, Code::InvalidBody),
        (r#"{"id":"a","unique":"u","ip":"i"}"#, Code::InvalidBody),
        (
            r#"{"id":"a","at":1,"time":"2015-05-17T10:05:03Z"}"#,
            Code::InvalidBody,
        ),
        (r#"{"id":"a","time":"17 May"}"#, Code::InvalidBody),
        (r#"{"id":"a","delta":0}"#, Code::InvalidDelta),
        (r#"{"id":"a","host":"h"}"#, Code::UnknownField),
        (r#"{"id":"a","ip":null}"#, Code::InvalidBody),
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

#[test]
fn lines_of_all_formats_name_one_path_and_one_visitor() {
    let clf = r#"[2001:DB8::1]:5000 - - [17/May/2015:10:05:03 +0000] "GET http://shop.example:8080/a?b HTTP/1.1" 200 5"#;
    let logpush = r#"{"ClientRequestURI":"http://shop.example/a?b","ClientIP":"2001:db8:0::1","EdgeStartTimestamp":1431857103}"#;
    let ndjson = r#"{"path":"http://shop.example/a?b","ip":"2001:db8::1%eth0","time":"2015-05-17T10:05:03Z"}"#;
    for (format, line) in [("clf", clf), ("logpush", logpush), ("ndjson", ndjson)] {
        let ingest = Ingest::from_query(Some(format), None, Some("ip")).unwrap();
        let record = ingest.read(line.as_bytes()).unwrap().unwrap();
        assert_eq!(
            (&*record.key, record.unique.as_deref(), record.at_ms),
            ("/a", Some(&b"2001:db8::1"[..]), Some(1_431_857_103_000)),
            "{format}"
        );
    }
}

#[test]
fn what_is_no_address_is_no_visitor() {
    for (format, line) in [
        (
            "clf",
            r#"host.example - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5"#,
        ),
        (
            "logpush",
            r#"{"ClientRequestURI":"/a","ClientIP":"-","EdgeStartTimestamp":1431857103}"#,
        ),
        ("ndjson", r#"{"path":"/a","ip":"unknown"}"#),
    ] {
        let ingest = Ingest::from_query(Some(format), None, Some("ip")).unwrap();
        assert_eq!(
            ingest.read(line.as_bytes()).unwrap().unwrap().unique,
            None,
            "{format}"
        );
    }
}

#[test]
fn a_line_that_cannot_be_counted_says_why() {
    let read = |format, line: &str| {
        let ingest = Ingest::from_query(Some(format), None, None).unwrap();
        ingest
            .read(line.as_bytes())
            .map(|_| ())
            .map_err(|problem| problem.code())
    };
    for (line, code) in [
        ("{", Code::InvalidJson),
        ("[]", Code::InvalidBody),
        ("{}", Code::InvalidLine),
        (r#"{"ClientRequestPath":"/"}"#, Code::InvalidLine),
        (
            r#"{"ClientRequestPath":7,"EdgeStartTimestamp":1}"#,
            Code::InvalidBody,
        ),
        (r#"{"content":"other"}"#, Code::InvalidLine),
    ] {
        assert_eq!(read("logpush", line), Err(code), "{line}");
    }
    assert_eq!(read("logpush", r#"{"content":"tests"}"#), Ok(()));
    for request in ["-", "", "GET"] {
        let line = format!(r#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "{request}" 408 0"#);
        assert_eq!(read("clf", &line), Err(Code::InvalidLine), "{line}");
    }
}
