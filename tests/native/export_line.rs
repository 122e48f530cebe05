//! Laws of the lines that an import reads: what a line says wrongly is refused before anything changes.

use serde_json::{Value, json};
use tally_api::export::{CounterLine, Line, parse_line};
use tally_wire::problem::{Code, Problem};

const NOW_MS: i64 = 1_777_593_630_000;

/// An hour before now that begins a day too, unix milliseconds.
const DAY: i64 = 1_777_507_200_000;

fn read(line: &str) -> Result<CounterLine, Problem> {
    match parse_line(line.as_bytes(), NOW_MS)? {
        Line::Counter(line) => Ok(*line),
        other => panic!("{other:?}"),
    }
}

fn code_of(line: &str) -> Result<CounterLine, Code> {
    read(line).map_err(|problem| problem.code())
}

/// A histogram at rest with nothing in it.
fn histogram() -> String {
    use base64::prelude::{BASE64_STANDARD, Engine};
    BASE64_STANDARD.encode(tally_core::sketch::Histogram::new().to_bytes())
}

/// A line with every time that there is, `at` in the place of one of them.
fn line_with(name: &str, at: &str) -> String {
    let time = |own: &str, usual: i64| match name == own {
        true => at.to_owned(),
        false => usual.to_string(),
    };
    format!(
        r#"{{"id":"a","created_at":{},"settings":{{"ttl_seconds":8640000}},"ttl_set_at":{},"datacenters":[{{"id":"FRA",
        "added":1,"updated_at":{},"minutes":[[{},1]],"hours":[[{},1]],"hours_kept_from_at":{},"days":[[{},1]],"days_kept_from_at":{},
        "samples":[[{},"{}"]]}}]}}"#,
        time("created_at", NOW_MS - 60_000),
        time("ttl_set_at", NOW_MS - 60_000),
        time("updated_at", NOW_MS - 60_000),
        time("minutes", DAY),
        time("hours", DAY),
        time("hours_kept_from_at", DAY),
        time("days", DAY),
        time("days_kept_from_at", DAY),
        time("samples", DAY),
        histogram(),
    )
}

const MOMENTS: [&str; 3] = ["created_at", "ttl_set_at", "updated_at"];

/// Times at the beginning of an interval.
const STARTS: [&str; 6] = [
    "minutes",
    "hours",
    "hours_kept_from_at",
    "days",
    "days_kept_from_at",
    "samples",
];

#[test]
fn no_time_of_a_line_is_before_1970() {
    assert!(read(&line_with("", "")).is_ok());
    for name in MOMENTS.into_iter().chain(STARTS) {
        for at in [
            "-1",
            "-86400000",
            "-9223372036854775808",
            "-86400000.0",
            "0.5",
        ] {
            let refused = code_of(&line_with(name, at));
            assert_eq!(refused, Err(Code::InvalidBody), "{name}: {at}");
        }
        // A time to live that began then is over.
        let refused = (name == "ttl_set_at").then_some(Code::InvalidLine);
        assert_eq!(code_of(&line_with(name, "0")).err(), refused, "{name}");
    }
}

#[test]
fn a_bucket_begins_where_one_of_its_step_does() {
    for name in ["minutes", "hours", "days", "samples"] {
        for off in [1, 1_000, -1] {
            let refused = code_of(&line_with(name, &(DAY + off).to_string()));
            assert_eq!(refused, Err(Code::InvalidLine), "{name}: {off}");
        }
    }
}

#[test]
fn a_time_to_come_is_now_or_refused() {
    let far = i64::MAX.to_string();
    for name in ["minutes", "hours", "days", "samples"] {
        let later = (DAY + 10 * 86_400_000).to_string();
        let refused = code_of(&line_with(name, &later));
        assert_eq!(refused, Err(Code::InvalidLine), "{name}");
    }
    for name in ["hours_kept_from_at", "days_kept_from_at"] {
        let line = read(&line_with(name, &far)).expect("a line");
        let (_, part) = &line.datacenters[0];
        let from = [part.hours_from, part.days_from];
        assert!(from.contains(&(NOW_MS / 1_000)), "{name}: {from:?}");
    }
}

#[test]
fn a_number_of_a_line_is_read_in_all_forms() {
    let usual = read(&line_with("", ""));
    for name in STARTS {
        for form in ["1777507200000.0", "1.7775072e12", "17775072e5"] {
            assert_eq!(read(&line_with(name, form)), usual, "{name}: {form}");
        }
    }
    for name in ["created_at", "ttl_set_at", "updated_at"] {
        assert_eq!(read(&line_with(name, "1777593570000.0")), usual, "{name}");
        assert_eq!(read(&line_with(name, "1.77759357e12")), usual, "{name}");
    }
    let counted = |amount: &str| {
        code_of(&format!(
            r#"{{"id":"a","datacenters":[{{"id":"FRA","added":60,"hours":[[{DAY},{amount}]]}}]}}"#
        ))
    };
    for form in ["60.0", "6e1", "\"60\""] {
        assert_eq!(counted(form), counted("60"), "{form}");
    }
    for form in ["-1", "0.5", "\"6e1\"", "true", "[60]"] {
        assert_eq!(counted(form), Err(Code::InvalidBody), "{form}");
    }
    let end = parse_line(br#"{"end":true,"counters":2.0}"#, NOW_MS);
    assert_eq!(end, parse_line(br#"{"end":true,"counters":2}"#, NOW_MS));
}

/// A line with a breakdown, of a counter that was last set to `base`, if it was.
fn broken_down(added: &Value, breakdown: &Value, base: Option<u64>) -> String {
    let mut line = json!({"id": "a", "datacenters": [
        {"id": "FRA", "added": added, "breakdowns": {"country": breakdown}}]});
    if let Some(base) = base {
        line["base"] = base.into();
    }
    line.to_string()
}

#[test]
fn a_breakdown_holds_no_more_than_was_added() {
    let most = u128::MAX.to_string();
    for (added, breakdown, is_right) in [
        (
            json!(5),
            json!({"values": [["DE", 3, 9], ["NO", 1, 0]], "rest": 1, "absent_max": 7}),
            true,
        ),
        (
            json!(5),
            json!({"values": [["DE", 3, 0], ["NO", 2, 0]], "rest": 1}),
            false,
        ),
        (json!(5), json!({"values": [["DE", 6, 0]]}), false),
        (json!(5), json!({"rest": 6}), false),
        (json!(most), json!({"values": [["DE", most, 0]]}), true),
        (
            json!(5),
            json!({"values": [["DE", most, 0], ["NO", most, 0]], "rest": most}),
            false,
        ),
    ] {
        let result = code_of(&broken_down(&added, &breakdown, None)).map(|_| ());
        let expected = if is_right {
            Ok(())
        } else {
            Err(Code::InvalidLine)
        };
        assert_eq!(result, expected, "{breakdown}");
        // A set takes away what was added, and leaves the breakdowns.
        assert!(read(&broken_down(&added, &breakdown, Some(0))).is_ok());
    }
}

#[test]
fn a_breakdown_names_each_value_once() {
    let twice = json!({"values": [["DE", 1, 0], ["DE", 1, 0]]});
    for base in [None, Some(7)] {
        let problem = read(&broken_down(&json!(5), &twice, base)).expect_err("twice");
        assert_eq!(problem.code(), Code::InvalidLine);
        assert!(
            problem.detail().contains("\"country\""),
            "{}",
            problem.detail()
        );
    }
}
