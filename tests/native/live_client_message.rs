//! Laws of what watchers say and are told: messages, frames, rates, and the bytes of what hubs and live readers say to
//! each other.

use crate::common::sums;

use sums::{CACHED, FRESH, NOW_MS, id, part, sketch, sum};
use tally_api::live::client_message::{ClientMessage, SocketAttachment};
use tally_api::live::subscriptions::Update;
use tally_api::live::{
    ATTACHMENT_BYTES_MAX, IDS_BYTES_MAX, IDS_MAX, PREFIXES_BYTES_MAX, client_message, next_second,
};
use tally_api::public::SummedCounter;
use tally_api::public::thousandths_json;
use tally_core::counter::id::CounterId;
use tally_core::counter::merge::{Origin, Part};
use tally_core::counter::pace::{Pace, WINDOW_MS};
use tally_wire::live::snapshot::{CounterSnapshot, ReadCounter, Shown};
use tally_wire::live::topic::{Topic, WatchedBoard};
use tally_wire::messages::{Join, Look, decode, encode};
use tally_wire::problem::{Code, Problem};

fn ids(texts: &[&str]) -> Vec<CounterId> {
    texts.iter().map(|text| id(text)).collect()
}

fn topics(texts: &[&str]) -> Vec<Topic> {
    texts.iter().map(|text| Topic::Counter(id(text))).collect()
}

fn code<T: std::fmt::Debug>(refused: Result<T, Problem>) -> Code {
    refused.expect_err("a refusal").code()
}

fn kept(watches: &[&str], prefixes: &[&str]) -> SocketAttachment {
    SocketAttachment {
        ids: topics(watches),
        as_strings: false,
        prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(),
        visitor: Some(u64::MAX),
        ends_ms: Some(i64::MAX),
    }
}

#[test]
fn a_query_names_counters_in_any_order_and_each_once() {
    let named = client_message::parse_topics("id=b&id=a%2Fx&id=b").expect("counters");
    assert_eq!(named, (topics(&["a/x", "b"]), false));
    let strings = client_message::parse_topics("numbers=string&id=a").expect("counters");
    assert_eq!(strings, (topics(&["a"]), true));
    assert_eq!(
        code(client_message::parse_topics("id=a&numbers=1")),
        Code::InvalidQuery
    );
    assert_eq!(code(client_message::parse_topics("")), Code::InvalidQuery);
    assert_eq!(
        code(client_message::parse_topics("id=a&ids=b")),
        Code::InvalidQuery
    );
    assert_eq!(
        code(client_message::parse_topics("id=a&id=")),
        Code::InvalidId
    );
    let query = |count: usize, length: usize| {
        let one = |number| format!("id={number:0length$}");
        (0..count).map(one).collect::<Vec<_>>().join("&")
    };
    let (most, _) = client_message::parse_topics(&query(IDS_MAX, 3)).expect("counters");
    assert_eq!(most.len(), IDS_MAX);
    assert_eq!(
        code(client_message::parse_topics(&query(IDS_MAX + 1, 3))),
        Code::TooManyCounters
    );
    assert!(client_message::parse_topics(&query(16, IDS_BYTES_MAX / 16)).is_ok());
    assert_eq!(
        code(client_message::parse_topics(&query(17, IDS_BYTES_MAX / 16))),
        Code::TooManyCounters
    );
}

#[test]
fn a_query_names_a_board_with_its_first_members_or_one_of_them() {
    let board = |top, member: Option<&str>| {
        Topic::Board(WatchedBoard {
            board: id("b"),
            top,
            member: member.map(id),
        })
    };
    for (query, expected) in [
        ("board=b", vec![board(10, None)]),
        ("board=b&top=3", vec![board(3, None)]),
        ("board=b&member=m", vec![board(0, Some("m"))]),
        (
            "board=b&member=m&top=1&id=a",
            vec![Topic::Counter(id("a")), board(1, Some("m"))],
        ),
    ] {
        assert_eq!(
            client_message::parse_topics(query),
            Ok((expected, false)),
            "{query}"
        );
    }
    for query in [
        "top=3&id=a",
        "member=m",
        "board=b&top=0",
        "board=b&top=101",
        "board=b&board=c",
    ] {
        assert_eq!(
            code(client_message::parse_topics(query)),
            Code::InvalidQuery,
            "{query}"
        );
    }
}

#[test]
fn whatever_a_socket_may_watch_can_be_kept_of_it_in_ascii() {
    let texts = |character: char, count: usize, bytes: usize| -> Vec<String> {
        let one = |number: usize| {
            let mut text = number.to_string();
            while text.len() + character.len_utf8() <= bytes {
                text.push(character);
            }
            text
        };
        (0..count).map(one).collect()
    };
    let long = IDS_BYTES_MAX / 16;
    for (count, bytes) in [(16, long), (IDS_MAX, IDS_BYTES_MAX / IDS_MAX), (1, 1)] {
        for character in ['x', '"', '\\', 'ü', '漢', '😀'] {
            let watches = texts(character, count, bytes);
            let watches: Vec<&str> = watches.iter().map(String::as_str).collect();
            // As the edge bounds them: prefixes of one byte are the most.
            let prefixes = vec!["x"; PREFIXES_BYTES_MAX / 2];
            let kept = kept(&watches, &prefixes);
            let text = kept.to_attachment().expect("it can be kept");
            assert!(text.is_ascii() && text.len() <= ATTACHMENT_BYTES_MAX);
            assert_eq!(SocketAttachment::from_attachment(&text), Some(kept));
        }
    }
    let prefix = "x".repeat(ATTACHMENT_BYTES_MAX);
    assert!(kept(&["a"], &[&prefix]).to_attachment().is_err());
    for text in [
        "",
        "{}",
        r#"{"ids":["a"],"as_strings":false,"prefixes":[]}"#,
    ] {
        assert_eq!(SocketAttachment::from_attachment(text), None);
    }
}

#[test]
fn what_is_kept_of_a_socket_is_read_again() {
    let kept = SocketAttachment {
        ids: topics(&["a"]),
        as_strings: true,
        prefixes: vec!["b".to_owned()],
        visitor: Some(7),
        ends_ms: Some(9),
    };
    let text = kept.to_attachment().expect("text");
    assert_eq!(text, "AQABYQEBAWIBBwES");
    assert_eq!(SocketAttachment::from_attachment(&text), Some(kept));
    assert_eq!(SocketAttachment::from_attachment("AQABYQEBAWI"), None);
}

#[test]
fn a_socket_says_ping_or_what_it_wants_to_watch() {
    assert_eq!(ClientMessage::parse("ping"), Ok(ClientMessage::Ping));
    let change = ClientMessage::parse(r#"{"remove":["b"],"add":["a","é"]}"#).expect("a change");
    let (add, remove) = (ids(&["a", "é"]), ids(&["b"]));
    assert_eq!(change, ClientMessage::Change { add, remove });
    for (message, expected) in [
        ("", Code::InvalidBody),
        ("[]", Code::InvalidBody),
        (r#"{"add":"a"}"#, Code::InvalidBody),
        (r#"{"subscribe":["a"]}"#, Code::InvalidBody),
        (r#"{"add":[""]}"#, Code::InvalidId),
        (&"x".repeat(1 << 20), Code::BodyTooLarge),
    ] {
        assert_eq!(code(ClientMessage::parse(message)), expected);
    }
}

#[test]
fn a_change_keeps_to_what_may_be_read_and_to_the_limits() {
    let before = kept(&["a", "b"], &["a", "c/"]);
    let changed =
        client_message::changed(&before, ids(&["c/1", "a"]), &ids(&["a", "z"])).expect("a change");
    assert_eq!(changed, topics(&["a", "b", "c/1"]));
    assert_eq!(
        code(client_message::changed(&before, ids(&["b"]), &[])),
        Code::Forbidden
    );
    assert_eq!(
        code(client_message::changed(&kept(&[], &[]), ids(&["a"]), &[])),
        Code::Forbidden
    );
    let many: Vec<CounterId> = (0..IDS_MAX)
        .map(|number| id(&format!("a{number}")))
        .collect();
    assert_eq!(
        code(client_message::changed(&before, many, &[])),
        Code::TooManyCounters
    );
    assert_eq!(
        client_message::changed(&before, Vec::new(), &ids(&["a", "b"])),
        Ok(Vec::new())
    );
}

#[test]
fn frames_are_those_of_server_sent_events() {
    let update = Update {
        text: r#"{"type":"update"}"#.into(),
        id: 0xab,
    };
    assert_eq!(client_message::first_frame(), "retry: 2000\n\n");
    let frame = "id: 00000000000000ab\ndata: {\"type\":\"update\"}\n\n";
    assert_eq!(client_message::update_frame(&update), frame);
    assert_eq!(
        client_message::ping_frame(5),
        "event: ping\ndata: {\"type\":\"ping\",\"sent_at\":5}\n\n"
    );
    assert_eq!(
        client_message::resumes(Some("00000000000000ab")),
        Some(0xab)
    );
    for none in [
        None,
        Some(""),
        Some("ab"),
        Some("zzzzzzzzzzzzzzzz"),
        Some("+0000000000000ab1"),
    ] {
        assert_eq!(client_message::resumes(none), None);
    }
    let refusal = client_message::refusal(&Problem::new(Code::Forbidden, "no \"x\""));
    let json: serde_json::Value = serde_json::from_str(&refusal).expect("JSON");
    assert_eq!(
        (&json["type"], &json["problem"]["code"]),
        (&"error".into(), &"forbidden".into())
    );
}

#[test]
fn a_second_begins_once() {
    assert_eq!(next_second(10_000), 11_000);
    assert_eq!(next_second(10_899), 11_000);
    // What rings early was set for the second that is about to begin.
    assert_eq!(next_second(10_950), 12_000);
    assert_eq!(next_second(-1), 1_000);
}

#[test]
fn a_rate_is_of_the_last_ten_seconds_and_ends_at_zero() {
    let mut pace = Pace::default();
    pace.record(0, 1, 100);
    assert_eq!(pace.rate_thousandths(), None);
    // Five a second, read by a clock that is not exact.
    for second in 1..=30 {
        pace.record(
            second * 1_000 + (second % 3) * 20,
            1,
            100 + u128::from(second.unsigned_abs()) * 5,
        );
        assert_eq!(pace.rate_thousandths(), Some(5_000), "{second}");
    }
    for second in 31..=39 {
        pace.record(second * 1_000, 1, 250);
        assert_ne!(pace.rate_thousandths(), Some(0), "{second}");
    }
    pace.record(30_000 + WINDOW_MS, 1, 250);
    assert_eq!(pace.rate_thousandths(), Some(0));
    // One increment in ten seconds keeps its rate, and is then gone.
    pace.record(41_000, 1, 251);
    for second in 42..=50 {
        pace.record(second * 1_000 + 7, 1, 251);
        assert_eq!(pace.rate_thousandths(), Some(100), "{second}");
    }
    // Reads a little less than ten seconds apart are ten seconds apart.
    pace.record(50_990, 1, 251);
    assert_eq!(pace.rate_thousandths(), Some(0));
}

#[test]
fn a_rate_begins_anew_with_another_generation_and_where_a_total_falls() {
    for (generation, added) in [(2, 500), (1, 40)] {
        let mut pace = Pace::default();
        pace.record(0, 1, 50);
        pace.record(1_000, 1, 60);
        pace.record(2_000, generation, added);
        assert_eq!(pace.rate_thousandths(), None);
        pace.record(3_000, generation, added + 3);
        assert_eq!(pace.rate_thousandths(), Some(3_000));
    }
    // What is created while it is watched begins at nothing.
    let mut pace = Pace::default();
    pace.record(0, 7, 50);
    pace.record_missing(1_000);
    pace.record_missing(2_000);
    assert_eq!(pace.rate_thousandths(), Some(0));
    pace.record(3_000, 8, 4);
    assert_eq!(pace.rate_thousandths(), Some(2_000));
    // Nor does a clock that steps back make a rate of its own.
    let mut pace = Pace::default();
    pace.record(5_000, 1, 50);
    pace.record(1_000, 1, 60);
    assert_eq!(pace.rate_thousandths(), None);
    pace.record(2_000, 1, u128::MAX);
    assert!(pace.rate_thousandths().is_some());
}

#[test]
fn rates_are_short_json_numbers() {
    for (thousandths, text) in [
        (0, "0"),
        (1, "0.001"),
        (100, "0.1"),
        (12_340, "12.34"),
        (7_000, "7"),
    ] {
        assert_eq!(thousandths_json(thousandths), text);
    }
}

#[test]
fn a_counter_is_told_with_its_truth_and_its_tag_knows_no_times() {
    let counter = id("a");
    let mut away = part(4, 1);
    away.origin = Origin::Known(NOW_MS - 5_000);
    let mut whole = sum(vec![
        ("FRA", Some(part(20, 5))),
        ("SYD", Some(away.clone())),
    ]);
    whole.uniques = sketch(0..2);
    let read_counter = SummedCounter::new(&counter, &whole, FRESH).live(Some(1_500));
    assert_eq!(
        read_counter.members,
        format!(
            r#""value":18,"rate_per_second":1.5,"uniques":{{"estimate":2,"standard_error":0.01}},"datacenters":{{"FRA":{{"value":15,"reachable":true,"as_of":{}}},"SYD":{{"value":3,"reachable":false,"as_of":{}}}}}"#,
            NOW_MS - 20,
            NOW_MS - 5_000
        )
    );
    assert_eq!(
        (read_counter.exact, read_counter.as_of_ms),
        (false, NOW_MS - 5_000)
    );
    // Another time is no change, all else is.
    let later = SummedCounter::new(&counter, &whole, CACHED).live(Some(1_500));
    assert_ne!(later.members, read_counter.members);
    assert_eq!(later.tag, read_counter.tag);
    let mut tags = vec![read_counter.tag];
    tags.push(
        SummedCounter::new(&counter, &whole, FRESH)
            .live(Some(1_501))
            .tag,
    );
    tags.push(SummedCounter::new(&counter, &whole, FRESH).live(None).tag);
    let mut tag_of = |parts: Vec<(&str, Option<Part>)>| {
        let sum = sum(parts);
        tags.push(
            SummedCounter::new(&counter, &sum, FRESH)
                .live(Some(1_500))
                .tag,
        );
    };
    tag_of(vec![("FRA", Some(part(20, 5))), ("SYD", Some(part(4, 1)))]);
    tag_of(vec![("FRA", Some(part(21, 5))), ("SYD", Some(part(4, 1)))]);
    tag_of(vec![("FRA", Some(part(4, 1))), ("SYD", Some(part(20, 5)))]);
    tag_of(vec![("FRA", Some(part(18, 0)))]);
    let count = tags.len();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), count);
}

#[test]
fn a_tag_knows_whether_a_counter_is_exact_and_could_be_read() {
    let counter = id("a");
    let whole = sum(vec![("FRA", Some(part(20, 5)))]);
    let read_counter = SummedCounter::new(&counter, &whole, FRESH).live(Some(1_500));
    let tag_of = |shown, is_read| CounterSnapshot { shown, is_read }.tag();
    let counter_tag = |exact, is_read| {
        let read_counter = ReadCounter {
            exact,
            ..read_counter.clone()
        };
        tag_of(Shown::Counter(read_counter), is_read)
    };
    let mut tags = [
        counter_tag(true, true),
        counter_tag(true, false),
        counter_tag(false, true),
        tag_of(Shown::Missing, true),
        tag_of(Shown::Missing, false),
        tag_of(Shown::Unknown, false),
    ];
    tags.sort_unstable();
    assert!(tags.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn numbers_that_javascript_would_not_hold_are_strings_for_those_who_ask() {
    let counter = id("a");
    let wide = sum(vec![
        ("FRA", Some(part(1 << 60, 0))),
        ("SYD", Some(part(0, 1 << 60))),
        ("IAD", Some(part(5, 0))),
    ]);
    let read_counter = SummedCounter::new(&counter, &wide, FRESH).live(None);
    let snapshot = CounterSnapshot {
        shown: Shown::Counter(read_counter),
        is_read: true,
    };
    let text = |as_strings| {
        let mut text = String::new();
        snapshot.write(NOW_MS, as_strings, "", &mut text);
        text
    };
    for (as_strings, expected) in [
        (false, r#""FRA":{"value":1152921504606846976,"#),
        (true, r#""FRA":{"value":"1152921504606846976","#),
        (true, r#""SYD":{"value":"-1152921504606846976","#),
        (true, r#"{"value":5,"rate"#),
        (true, r#""IAD":{"value":5,"#),
    ] {
        assert!(text(as_strings).contains(expected), "{}", text(as_strings));
    }
    let plain = sum(vec![("FRA", Some(part(5, 0)))]);
    let read_counter = SummedCounter::new(&counter, &plain, FRESH).live(None);
    assert_eq!(read_counter.members_of_strings, None);
}

#[test]
fn messages_between_edge_hub_and_lookout_have_these_bytes() {
    let hex =
        |bytes: Vec<u8>| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let look = Look {
        partition: 15,
        topics: topics(&["a"]),
        age_ms_max: 500,
    };
    assert_eq!(hex(encode(&look).unwrap()), "0f01000161f403");
    let join = Join {
        datacenter: tally_core::counter::id::Datacenter::parse("FRA").unwrap(),
        hub: 2,
        topics: topics(&["a"]),
        as_strings: true,
        resumes: Some(1),
        prefixes: vec!["b".to_owned()],
        visitor: Some(7),
        ends_ms: Some(3),
    };
    assert_eq!(
        hex(encode(&join).unwrap()),
        "03465241020100016101010101016201070106"
    );
    let read_counter = tally_wire::live::snapshot::ReadCounter {
        members: "m".to_owned(),
        members_of_strings: None,
        tag: 2,
        exact: true,
        as_of_ms: 3,
    };
    let snapshot = |shown, is_read| CounterSnapshot { shown, is_read };
    let snapshots = vec![
        CounterSnapshot::default(),
        snapshot(Shown::Unknown, false),
        snapshot(Shown::Missing, true),
        snapshot(Shown::Counter(read_counter), true),
    ];
    let bytes = encode(&snapshots).unwrap();
    assert_eq!(
        decode::<Vec<CounterSnapshot>>(&bytes).as_ref(),
        Ok(&snapshots)
    );
    assert_eq!(hex(bytes), "0400000100020103016d0002010601");
}
