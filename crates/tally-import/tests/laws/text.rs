//! A summary says each thing once, with the line and the reason.

use base64::prelude::{BASE64_STANDARD, Engine};
use tally_import::text::{Course, Screen, count, number, of_logs, of_values};
use tally_import::totals::{ShownLine, Totals};
use tally_import::values::{Entry, Values};

use super::host::Memory;

fn shown(line: u64, why: &str, text: &str) -> ShownLine {
    ShownLine {
        file: "a.log".to_owned(),
        line,
        why: why.to_owned(),
        text: text.to_owned(),
    }
}

/// The course of an import of one file.
const HALF_A_SECOND: Course = Course {
    seconds: 0.5,
    is_interrupted: false,
    files: 1,
};

#[test]
fn numbers_have_separators_and_nouns_their_number() {
    let numbers: Vec<String> = [0, 12, 123, 1_234, 1_234_567].map(number).to_vec();
    assert_eq!(numbers, ["0", "12", "123", "1,234", "1,234,567"]);
    assert_eq!(
        [count(1, "line"), count(2_000, "line")],
        ["1 line", "2,000 lines"]
    );
}

#[test]
fn lines_that_were_not_counted_are_named_with_their_reason() {
    let mut totals = Totals::new();
    (totals.lines, totals.counted, totals.unreadable) = (5, 1, 2);
    totals.left_out.insert("bots", 1);
    totals.unread.push(shown(7, "there is no time", "nonsense"));
    totals.reject("quota-exceeded", 1);
    totals.show_refused("quota-exceeded", shown(9, "quota-exceeded: it is full", ""));
    totals.count("/a", 1);
    totals.settle();
    assert_eq!(
        of_logs(&totals, HALF_A_SECOND, Screen::default()),
        "1 of 5 lines counted, for 1 counter, in 0.50 s (10 lines/s)\n\
         1 line left out: their user agents are programs' (--bots)\n\
         2 lines could not be read, such as line 7 of a.log: there is no time: nonsense\n\
         1 line refused, such as line 9 of a.log: quota-exceeded: it is full\n\
         \n1  /a"
    );
}

#[test]
fn lines_that_were_counted_before_are_named_whoever_counted_them() {
    let mut totals = Totals::new();
    (totals.lines, totals.counted_before.lines) = (3, 2);
    totals.settle();
    assert_eq!(
        of_logs(&totals, HALF_A_SECOND, Screen::default()),
        "0 of 3 lines counted, for 0 counters, in 0.50 s (6 lines/s)\n\
         2 lines counted before, from this file or a copy of it, and not counted again"
    );
}

#[test]
fn a_bad_file_among_several_is_counted_and_not_told_again() {
    let mut totals = Totals::new();
    totals.failed.push(tally_import::totals::Failed {
        file: "b".into(),
        why: "b is empty".into(),
    });
    let of = |files| {
        of_logs(
            &totals,
            Course {
                seconds: 1.0,
                is_interrupted: true,
                files,
            },
            Screen { has_colors: true },
        )
    };
    assert!(
        of(3).contains("\u{1b}[33m1 of 3 files could not be read, or not to the end\u{1b}[39m")
    );
    assert!(!of(1).contains("could not be read") && !of(3).contains("b is empty"));
    assert!(of(1).ends_with("interrupted: the same command continues from here"));
}

#[test]
fn what_a_redis_has_and_tally_has_not_is_named_as_a_key_or_a_member() {
    let (list, board) = (
        entry("list", "l", &[]),
        entry("zset", "b", &[b"\xfe", b"1"]),
    );
    let binary = "b (a member that is no UTF-8: fe)";
    for (entries, summary) in [
        (
            vec![&list],
            "1 key left out, such as: l (a list)".to_owned(),
        ),
        (
            vec![&board],
            format!("1 member left out, such as: {binary}"),
        ),
        (
            vec![&list, &list, &board],
            format!("2 keys and 1 member left out, such as: l (a list), l (a list), {binary}"),
        ),
    ] {
        let mut values = Values::new("create", "");
        for entry in entries {
            values.entry(entry, 0);
        }
        let text = of_values(&values.carried, 0.5, Screen::default());
        assert_eq!(text.lines().nth(1), Some(&*summary));
    }
}

/// A key of a Redis with a page of members.
fn entry(kind: &str, key: &str, members: &[&[u8]]) -> Entry {
    let encoded = |bytes: &&[u8]| BASE64_STANDARD.encode(bytes);
    Entry {
        key: encoded(&key.as_bytes()),
        kind: kind.to_owned(),
        ttl_ms: -1,
        value: None,
        members: Some(members.iter().map(encoded).collect()),
    }
}

#[test]
fn alerts_are_named_if_they_came_without_their_secret() {
    let mut values = Values::new("create", "");
    values.list("a 1\n").unwrap();
    let host = Memory::default();
    assert!(values.next(&host, true).is_some());
    values.answered(r#"{"counters":1,"alerts":2,"alerts_without_secret":["busy"]}"#);
    let summary = of_values(&values.carried, 0.5, Screen::default());
    assert_eq!(
        summary,
        "1 counter, 0 boards with 0 members, 0 policies, in 0.50 s\n\
         2 alerts\n\
         1 alert without a secret in the file, such as busy: PUT each new one with a secret of yours"
    );
}
