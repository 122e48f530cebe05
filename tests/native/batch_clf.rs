//! Log lines are read exactly where their time and request can be, and the fixture's counts equal
//! those of a plain count.

use crate::common::config;
use std::collections::BTreeMap;

use proptest::prelude::*;
use tally_core::counter::id::CounterId;
use tally_protocol::access::Caller;
use tally_protocol::batch::clf::LogLine;
use tally_protocol::batch::gather::{BatchLimits, CLOCK_SKEW_MS, GatheredCounter, Gatherer, Times};
use tally_protocol::batch::ingest::{Format, Ingest, KeyField, UniqueField};
use tally_protocol::batch::report::BatchReport;
use tally_protocol::problem::Code;

const TIME: &str = "[17/May/2015:10:05:03 +0000]";

fn with_request(request: &str) -> String {
    format!("1.2.3.4 - - {TIME} \"{request}\" 200 5 \"-\" \"agent\"")
}

fn path(line: &str) -> &str {
    match LogLine::parse(line.as_bytes()) {
        Ok(line) => line.path,
        Err(problem) => panic!("{line}: {problem}"),
    }
}

fn why_not(line: &[u8]) -> String {
    match LogLine::parse(line) {
        Ok(line) => panic!("was read as {line:?}"),
        Err(problem) => problem.to_string(),
    }
}

#[test]
fn a_line_has_address_path_and_time() {
    let line = with_request("GET /a/b?q=1 HTTP/1.1");
    let line = LogLine::parse(line.as_bytes()).unwrap();
    assert_eq!(
        (line.path, line.address, line.unix_seconds),
        ("/a/b", &b"1.2.3.4"[..], 1_431_857_103)
    );
    let common = format!("::1 - - {TIME} \"GET / HTTP/1.0\" 200 5");
    assert_eq!(path(&common), "/");
}

#[test]
fn the_target_is_between_method_and_protocol() {
    for (request, expected) in [
        ("GET /x HTTP/1.1", "/x"),
        ("GET /x", "/x"),
        ("GET /x HTTP/2", "/x"),
        ("GET /a b c HTTP/1.1", "/a b c"),
        ("GET /a b", "/a b"),
        ("GET /a HTTP/1.1 HTTP/1.1", "/a HTTP/1.1"),
        ("GET  /x  HTTP/1.1", "/x"),
        (r#"GET /a\"b HTTP/1.1"#, r#"/a\"b"#),
        (r#"GET /a\" 200 HTTP/1.1"#, r#"/a\" 200"#),
        (r"GET /a\\ HTTP/1.1", r"/a\\"),
        (r#"GET /a"b HTTP/1.1"#, r#"/a"b"#),
        ("GET /%2e%2F%20 HTTP/1.1", "/%2e%2F%20"),
        ("GET /a?b?c HTTP/1.1", "/a"),
        ("GET /a#b HTTP/1.1", "/a#b"),
        ("GET http://h/p?q HTTP/1.1", "http://h/p"),
        ("OPTIONS * HTTP/1.1", "*"),
        ("M-SEARCH /é HTTP/1.1", "/é"),
    ] {
        assert_eq!(path(&with_request(request)), expected, "{request}");
    }
}

#[test]
fn what_follows_the_request_may_be_damaged() {
    for rest in [
        "",
        " ",
        " 200",
        " 200 -",
        " 200 5 \"http://x",
        " 200 5 \"-\" \"Mozilla/5.0 (comp",
        " \u{1} ][",
    ] {
        assert_eq!(
            path(&format!("1.2.3.4 - - {TIME} \"GET /x HTTP/1.1\"{rest}")),
            "/x",
            "{rest}"
        );
    }
    assert_eq!(
        path(&format!("1.2.3.4 - - {TIME} \"GET /x HTTP/1.1\"200 5")),
        "/x"
    );
    let mut latin = with_request("GET /x HTTP/1.1").into_bytes();
    latin.extend(b" \xe9");
    assert_eq!(LogLine::parse(&latin).unwrap().path, "/x");
}

#[test]
fn a_line_that_says_no_request_says_why() {
    for (line, why) in [
        (with_request("-"), "the request is empty"),
        (with_request(""), "the request is empty"),
        (with_request("GET"), "no target"),
        (with_request("GET HTTP/1.1"), "no target"),
        (
            with_request(r"\x16\x03\x01 \x02"),
            "does not begin with a method",
        ),
        (
            format!("1.2.3.4 - - {TIME} \"GET /cut/o"),
            "no closing quote",
        ),
        (
            format!("1.2.3.4 - - {TIME} \"GET /cut\\\""),
            "no closing quote",
        ),
        (format!("1.2.3.4 - - {TIME}"), "there is no `["),
        (
            "1.2.3.4 - - [17/May/2015:25:05:03 +0000] \"GET / HTTP/1.1\" 200 5".to_owned(),
            "there is no `[",
        ),
        ("1.2.3.4".to_owned(), "there is no `["),
        (String::new(), "there is no `["),
    ] {
        let problem = why_not(line.as_bytes());
        assert!(
            problem.starts_with("invalid-line") && problem.contains(why),
            "{line}: {problem}"
        );
    }
    assert!(
        why_not(b"h - - [17/May/2015:10:05:03 +0000] \"GET /\xff HTTP/1.1\" 200 5")
            .starts_with("invalid-id")
    );
}

#[test]
fn a_user_name_cannot_forge_a_request() {
    let line = format!(
        "1.2.3.4 - a [b] [01/Jan/2000:00:00:00 +0000] \\\"GET /forged HTTP/1.1\\\" {TIME} \"GET /true HTTP/1.1\" 200 5"
    );
    let line = LogLine::parse(line.as_bytes()).unwrap();
    assert_eq!((line.path, line.unix_seconds), ("/true", 1_431_857_103));
}

#[test]
fn an_unknown_address_is_not_a_visitor() {
    let line = format!("- - - {TIME} \"GET / HTTP/1.1\" 200 5");
    assert_eq!(
        LogLine::parse(line.as_bytes())
            .unwrap()
            .record(UniqueField::Ip)
            .unique,
        None
    );
    let line = with_request("GET / HTTP/1.1");
    let line = LogLine::parse(line.as_bytes()).unwrap();
    assert_eq!(
        line.record(UniqueField::Ip).unique.as_deref(),
        Some(&b"1.2.3.4"[..])
    );
    assert_eq!(line.record(UniqueField::None).unique, None);
    assert_eq!(
        line.record(UniqueField::None).at_ms,
        Some(1_431_857_103_000)
    );
}

proptest! {
    #![proptest_config(config(2, 500))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100), cut in 0usize..100) {
        let line = [&with_request("GET /x HTTP/1.1").as_bytes()[..cut.min(60)], &bytes].concat();
        let _ = LogLine::parse(&line);
    }
}

#[test]
fn only_known_queries_are_taken() {
    let sound = Ingest::from_query(Some("clf"), Some("path"), Some("ip")).unwrap();
    assert_eq!(
        sound,
        Ingest {
            format: Format::Clf,
            key: KeyField::Path,
            unique: UniqueField::Ip,
            by: Vec::new(),
            site: None,
        }
    );
    assert_eq!(
        Ingest::from_query(Some("logpush"), None, None)
            .unwrap()
            .unique,
        UniqueField::None
    );
    for (format, key, unique, names) in [
        (
            None,
            None,
            None,
            ["`format`", "`clf`", "`ndjson`", "`logpush`"],
        ),
        (
            Some("csv"),
            None,
            None,
            ["`format`", "`clf`", "`ndjson`", "`csv`"],
        ),
        (
            Some("clf"),
            Some("host"),
            None,
            ["`key`", "`path`", "`host`", ""],
        ),
        (
            Some("clf"),
            None,
            Some("agent"),
            ["`unique`", "`ip`", "`none`", "`agent`"],
        ),
    ] {
        let problem = Ingest::from_query(format, key, unique).unwrap_err();
        assert_eq!(problem.code(), Code::InvalidQuery);
        assert!(
            names.iter().all(|name| problem.detail().contains(name)),
            "{problem}"
        );
    }
}

const LOG: &str = include_str!("../fixtures/access.log");

/// The plain count: no calendar, only the text of the hour.
#[derive(Default)]
struct PlainCount<'a> {
    paths: BTreeMap<&'a str, u128>,
    hours: BTreeMap<&'a str, u128>,
    path_hours: BTreeMap<(&'a str, &'a str), u128>,
    visitors: BTreeMap<&'a str, Vec<&'a str>>,
}

fn plain_count(log: &str) -> PlainCount<'_> {
    let mut plain = PlainCount::default();
    for line in log.lines() {
        let target = line.split('"').nth(1).unwrap().split(' ').nth(1).unwrap();
        let path = target.split('?').next().unwrap();
        let hour = &line.split('[').nth(1).unwrap()[..14];
        *plain.paths.entry(path).or_default() += 1;
        *plain.hours.entry(hour).or_default() += 1;
        *plain.path_hours.entry((path, hour)).or_default() += 1;
        plain
            .visitors
            .entry(path)
            .or_default()
            .push(line.split(' ').next().unwrap());
    }
    plain
}

/// What the shell gathers of a log that comes in chunks.
fn gathered(log: &str) -> (Vec<(CounterId, GatheredCounter)>, BatchReport) {
    let now_ms = 1_800_000_000_000;
    let limits = BatchLimits {
        times: Times::Past,
        clock_skew_ms: CLOCK_SKEW_MS,
    };
    let ingest = Ingest::from_query(Some("clf"), None, Some("ip")).unwrap();
    let mut gather = Gatherer::new(limits, Caller::nobody().sender(), 1);
    // Not what elements are hashed with in earnest, but without collisions here.
    let hash = |element: &[u8]| {
        element
            .iter()
            .fold(0, |sum: u64, &byte| sum.wrapping_mul(257) + u64::from(byte))
    };
    let mut splitter = ingest.splitter();
    let mut take =
        |line, record: Result<&[u8], _>| match record.and_then(|record| ingest.read(record)) {
            Ok(Some(record)) => gather.add(line, &record, now_ms, &hash),
            Ok(None) => panic!("no line of this log is a check"),
            Err(problem) => gather.reject(line, &problem),
        };
    for chunk in log.as_bytes().chunks(1500) {
        splitter.push(chunk, &mut take).unwrap();
    }
    splitter.finish(&mut take).unwrap();
    gather.finish()
}

#[test]
fn the_fixture_counts_as_a_plain_count_does() {
    let (counters, report) = gathered(LOG);
    assert_eq!((report.accepted, report.rejected), (2000, 0));
    let plain = plain_count(LOG);
    let counted: BTreeMap<&str, u128> = counters
        .iter()
        .map(|(id, sum)| (id.as_str(), sum.added))
        .collect();
    assert_eq!(counted, plain.paths);

    // The log begins at 10 h on 17 May 2015, which is 1431856800.
    let text = |stamp: i64| {
        assert_eq!(stamp % 3600, 0);
        let hour = (stamp - 1_431_856_800) / 3600 + 10;
        format!("{}/May/2015:{:02}", 17 + hour / 24, hour % 24)
    };
    let mut counted_hours: BTreeMap<String, u128> = BTreeMap::new();
    for (id, sum) in &counters {
        assert_eq!(sum.buckets.values().sum::<u128>(), sum.added);
        for (&stamp, &count) in &sum.buckets {
            *counted_hours.entry(text(stamp)).or_default() += count;
            assert_eq!(
                plain.path_hours.get(&(id.as_str(), text(stamp).as_str())),
                Some(&count)
            );
        }
        let mut expected = plain.visitors[id.as_str()].clone();
        expected.sort_unstable();
        expected.dedup();
        let mut hashes: Vec<u64> = sum.tokens.iter().map(|&(_, hash)| hash.keyed).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), expected.len(), "visitors of {id}");
    }
    let counted_hours: BTreeMap<&str, u128> = counted_hours
        .iter()
        .map(|(hour, count)| (hour.as_str(), *count))
        .collect();
    assert_eq!(counted_hours, plain.hours);
}
