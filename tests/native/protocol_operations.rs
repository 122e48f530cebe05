//! Law: what a client may say of operations is read whole or refused; versions name operations beside cells.

use crate::common;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use common::config;
use proptest::prelude::*;
use tally_api::bodies::{parse_nothing, parse_set, parse_settings};
use tally_api::delta::parse_value;
use tally_api::idempotency_keys::parse_if_match;
use tally_core::counter::id::Datacenter;
use tally_core::counter::ledger::HomeCondition;
use tally_core::counter::merge::CellTotals;
use tally_core::counter::total::Value;
use tally_wire::messages::{OperationCondition, Put};
use tally_wire::problem::Code;
use tally_wire::version::{SeenCell, Version, VersionError};

fn datacenter(name: &str) -> Datacenter {
    Datacenter::parse(name).expect("a datacenter")
}

fn seen(name: &str, shard: u8, generation: u64, sequence: u64) -> SeenCell {
    SeenCell {
        datacenter: datacenter(name),
        shard,
        generation,
        sequence,
    }
}

fn version(operations: u64, cells: &[SeenCell]) -> Version {
    Version::of(cells.iter().cloned()).with_operations(operations)
}

#[test]
fn a_version_that_names_operations_has_its_own_string() {
    let one = [seen("FRA", 0, 1, 42)];
    // Those from before there were operations are read as ever.
    assert_eq!(version(0, &one).encode(), "AQEDRlJBAAEq");
    assert_eq!(version(1, &one).encode(), "AgEBA0ZSQQABKg");
    assert_eq!(version(300, &[]).encode(), "AqwCAA");
    for (text, operations) in [("AQEDRlJBAAEq", 0), ("AgEBA0ZSQQABKg", 1), ("AqwCAA", 300)] {
        let read = Version::decode(text).expect("a version");
        assert_eq!(
            (read.operations(), read.encode().as_str()),
            (operations, text)
        );
    }
    // No operations are named by leaving them out, and by nothing else.
    for bytes in [
        &b"\x02\x00\x01\x03FRA\x00\x01\x2a"[..],
        b"\x02\x01",
        b"\x02\x01\x01\x03FRA\x00\x01",
    ] {
        let text = URL_SAFE_NO_PAD.encode(bytes);
        assert_eq!(Version::decode(&text), Err(VersionError::Foreign), "{text}");
    }
    assert_ne!(version(1, &one).tag(), version(0, &one).tag());
}

#[test]
fn a_read_covers_a_version_only_with_its_operations() {
    let cell = |generation, sequence| [seen("FRA", 0, generation, sequence)];
    let read = version(3, &cell(7, 5));
    for (minimum, covered) in [
        (version(3, &cell(7, 5)), true),
        (version(2, &cell(7, 5)), true),
        (version(4, &cell(7, 5)), false),
        (version(4, &cell(7, 0)), false),
        (version(3, &cell(7, 6)), false),
        // Of a generation that has ended nothing is left to wait for.
        (version(9, &cell(6, 9)), true),
        (version(0, &cell(8, 1)), false),
        // Operations are those of the newest generation that is named.
        (
            version(4, &[seen("FRA", 0, 6, 1), seen("IAD", 0, 7, 0)]),
            false,
        ),
        (
            version(3, &[seen("FRA", 0, 6, 1), seen("IAD", 0, 7, 0)]),
            true,
        ),
    ] {
        assert_eq!(read.lacks(7, &minimum).is_none(), covered, "{minimum:?}");
    }
    assert_eq!(
        version(4, &cell(7, 5))
            .only(&datacenter("IAD"))
            .operations(),
        4
    );
}

#[test]
fn what_a_version_says_of_home_is_its_cells_and_the_operations() {
    let (fra, iad) = (datacenter("FRA"), datacenter("IAD"));
    let all = version(
        3,
        &[
            seen("FRA", 0, 7, 5),
            seen("FRA", 1, 7, 9),
            seen("SYD", 0, 7, 1),
        ],
    );
    let unchanged = |home: &Datacenter, generation, sequence, operations| HomeCondition {
        home: home.clone(),
        generation,
        sequence,
        operations,
    };
    assert_eq!(all.at_home(&fra), unchanged(&fra, 7, 5, 3));
    assert_eq!(
        all.at_home(&iad),
        unchanged(&iad, 7, 0, 3),
        "it had counted nothing"
    );
    let of_fra = version(3, &[seen("FRA", 0, 7, 5), seen("FRA", 1, 7, 9)]);
    assert_eq!(all.of_home(&fra), of_fra);
    assert_eq!(all.of_home(&fra).at_home(&fra), all.at_home(&fra));
    // A home that has counted nothing: the part for it still names the generation.
    assert_eq!(all.of_home(&iad), version(3, &[seen("IAD", 0, 7, 0)]));
    assert_eq!(all.of_home(&iad).at_home(&iad), all.at_home(&iad));
    assert_eq!(Version::default().of_home(&fra), Version::default());
    assert_eq!(Version::default().at_home(&fra), unchanged(&fra, 0, 0, 0));
}

#[test]
fn a_home_that_has_stopped_is_as_it_was_seen_if_no_shard_has_counted_since() {
    let fra = datacenter("FRA");
    let now = HomeCondition {
        home: fra.clone(),
        generation: 7,
        sequence: 5,
        operations: 3,
    };
    let cell = |shard, sequence| {
        let totals = CellTotals {
            generation: 7,
            sequence,
            added: 1.into(),
            removed: 0.into(),
        };
        (shard, totals)
    };
    let all = version(3, &[seen("FRA", 0, 7, 5), seen("FRA", 1, 7, 9)]);
    assert!(all.is_now(&fra, &now, &[cell(0, 5), cell(1, 9)]));
    assert!(!all.is_now(&fra, &now, &[cell(0, 5), cell(1, 10)]));
    assert!(!all.is_now(&fra, &now, &[cell(0, 5), cell(1, 9), cell(2, 1)]));
    let moved = HomeCondition {
        operations: 4,
        ..now.clone()
    };
    assert!(!all.is_now(&fra, &moved, &[cell(0, 5), cell(1, 9)]));
    let written = version(3, &[seen("FRA", 0, 7, 5)]);
    assert!(written.is_now(&fra, &now, &[cell(0, 5), cell(1, 0)]));
    assert!(!written.is_now(&fra, &now, &[cell(0, 5), cell(1, 9)]));
}

#[test]
fn if_match_is_a_star_or_one_version_in_quotes() {
    assert_eq!(parse_if_match("*"), Ok(OperationCondition::Exists));
    assert_eq!(parse_if_match(" *\t"), Ok(OperationCondition::Exists));
    let known = version(1, &[seen("FRA", 0, 1, 42)]);
    let expected = Ok(OperationCondition::Unchanged(known));
    assert_eq!(parse_if_match("\"AgEBA0ZSQQABKg\""), expected);
    assert_eq!(parse_if_match("\t\"AgEBA0ZSQQABKg\" "), expected);
    // An entity tag goes on with the number of the settings.
    assert_eq!(parse_if_match("\"AgEBA0ZSQQABKg.3\""), expected);
    assert_eq!(parse_if_match("\"AgEBA0ZSQQABKg.3-text\""), expected);
    assert!(parse_if_match("\"AgEBA0ZSQQABKg.x\"").is_err());
    for header in [
        "W/\"AgEBA0ZSQQABKg\"",
        "W/\"0123456789abcdef-1-0\"",
        "W/x",
        " W/\"\"",
    ] {
        let refused = parse_if_match(header).expect_err(header);
        assert_eq!(refused.code(), Code::PreconditionFailed, "{header}");
    }
    for header in [
        "",
        "AgEBA0ZSQQABKg",
        "\"",
        "\"\"",
        "\"*\"",
        "**",
        "\"AgEBA0ZSQQABKg",
        "AgEBA0ZSQQABKg\"",
        "\"AgEBA0ZSQQABKg\", \"AgEBA0ZSQQABKg\"",
        "\" AgEBA0ZSQQABKg\"",
        "w/\"AgEBA0ZSQQABKg\"",
        "\"0123456789abcdef\"",
    ] {
        let refused = parse_if_match(header).expect_err(header);
        assert_eq!(refused.code(), Code::InvalidPrecondition, "{header}");
    }
}

#[test]
fn a_value_is_a_whole_number_of_either_sign() {
    for (json, shown) in [
        ("0", "0"),
        ("-0", "0"),
        ("007", "7"),
        ("-1.0", "-1"),
        ("1e3", "1000"),
        ("-0.0", "0"),
        ("\"-5\"", "-5"),
        ("9007199254740993", "9007199254740993"),
        (
            "340282366920938463463374607431768211455",
            "340282366920938463463374607431768211455",
        ),
        (
            "\"-340282366920938463463374607431768211455\"",
            "-340282366920938463463374607431768211455",
        ),
    ] {
        let value = parse_value(json).expect(json);
        assert_eq!(value.to_string(), shown);
    }
    for json in [
        "",
        "-",
        "\"\"",
        "\"-\"",
        "--1",
        "+1",
        "1.5",
        "1e-1",
        "1e41",
        "\" 1\"",
        "\"1",
        "null",
        "true",
        "[1]",
        "\"٣\"",
        "340282366920938463463374607431768211456",
        "-340282366920938463463374607431768211456",
    ] {
        assert_eq!(parse_value(json), None, "{json}");
    }
}

#[test]
fn the_body_of_a_set_is_a_value_and_that_of_a_reset_is_nothing() {
    let seven = Value::new(7_u128, 0_u128);
    assert_eq!(parse_set(br#"{"value":7}"#), Ok(seven));
    assert_eq!(parse_set(br#" { "value" : "-7" } "#), Ok(seven.negated()));
    for (json, code) in [
        ("", Code::InvalidJson),
        ("{", Code::InvalidJson),
        (r#"{"value":07}"#, Code::InvalidJson),
        ("7", Code::InvalidBody),
        ("{}", Code::InvalidBody),
        (r#"{"value":null}"#, Code::InvalidBody),
        (r#"{"value":7.5}"#, Code::InvalidBody),
        (r#"{"value":[7]}"#, Code::InvalidBody),
        (r#"{"value":7,"value":8}"#, Code::InvalidBody),
        (r#"{"value":7,"delta":8}"#, Code::UnknownField),
    ] {
        let refused = parse_set(json.as_bytes()).expect_err(json);
        assert_eq!(refused.code(), code, "{json}: {}", refused.detail());
    }
    for json in ["", " \n", "{}", " { } "] {
        assert_eq!(parse_nothing(json.as_bytes()), Ok(()), "{json}");
    }
    for (json, code) in [
        ("{", Code::InvalidJson),
        ("null", Code::InvalidBody),
        ("[]", Code::InvalidBody),
        (r#"{"value":0}"#, Code::UnknownField),
    ] {
        let refused = parse_nothing(json.as_bytes()).expect_err(json);
        assert_eq!(refused.code(), code, "{json}: {}", refused.detail());
    }
}

#[test]
fn settings_have_a_floor_and_a_home() {
    let put = |floor: Option<Value>, home: Option<&str>| Put {
        floor,
        home: home.map(datacenter),
        ..Put::default()
    };
    let three = Value::new(3_u128, 0_u128);
    for (json, expected) in [
        (r#"{"floor":3}"#, put(Some(three), None)),
        (r#"{"floor":"-3"}"#, put(Some(three.negated()), None)),
        (r#"{"floor":null,"home":null}"#, put(None, None)),
        (r#"{"home":"fra"}"#, put(None, Some("FRA"))),
        (r#"{"home":"a-1"}"#, put(None, Some("A-1"))),
        (
            r#"{"floor":0,"home":"FRA","shards":"auto"}"#,
            put(Some(Value::default()), Some("FRA")),
        ),
    ] {
        assert_eq!(parse_settings(json.as_bytes()), Ok(expected), "{json}");
    }
    let one = parse_settings(br#"{"home":"FRA","shards":1}"#).expect("one shard");
    assert_eq!(one.shards, Some(1));
    for json in [
        r#"{"floor":1.5}"#,
        r#"{"floor":true}"#,
        r#"{"floor":"x"}"#,
        r#"{"floor":340282366920938463463374607431768211456}"#,
        r#"{"home":""}"#,
        r#"{"home":"a/b"}"#,
        r#"{"home":"01234567890123456"}"#,
        r#"{"home":7}"#,
        r#"{"home":"FRA","shards":2}"#,
        r#"{"floor":0,"shards":64}"#,
    ] {
        let refused = parse_settings(json.as_bytes()).expect_err(json);
        assert_eq!(refused.code(), Code::InvalidBody, "{json}");
    }
}

proptest! {
    #![proptest_config(config(154, 256))]

    #[test]
    fn a_version_with_operations_comes_back(
        operations in any::<u64>(), name in "[A-Z0-9-]{1,16}", shard in any::<u8>(), sequence in any::<u64>(),
    ) {
        let version = version(operations, &[seen(&name, shard, 7, sequence)]);
        let text = version.encode();
        prop_assert_eq!(Version::decode(&text), Ok(version.clone()));
        prop_assert_eq!(parse_if_match(&format!("\"{text}\"")), Ok(OperationCondition::Unchanged(version)));
    }

    #[test]
    fn every_value_is_read_exactly(amount in any::<u128>(), is_negative in any::<bool>(), is_text in any::<bool>()) {
        let sign = if is_negative && amount > 0 { "-" } else { "" };
        let shown = format!("{sign}{amount}");
        let json = if is_text { format!("\"{shown}\"") } else { shown.clone() };
        prop_assert_eq!(parse_value(&json).map(|value| value.to_string()), Some(shown));
        let body = format!(r#"{{"value":{json}}}"#);
        prop_assert_eq!(parse_set(body.as_bytes()).ok(), parse_value(&json));
    }

    #[test]
    fn no_header_breaks_it(text in "\\PC{0,40}") {
        if let Err(problem) = parse_if_match(&text) {
            let code = problem.code();
            prop_assert!(code == Code::InvalidPrecondition || text.trim_matches(' ').starts_with("W/"), "{}", text);
        }
    }
}
