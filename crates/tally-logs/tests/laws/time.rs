//! Dates and times are read exactly, and those that do not exist are refused.

use tally_logs::time::{parse_any, parse_clf_time, parse_rfc3339, parse_time, parse_timestamp};

#[test]
fn every_day_of_the_calendar_is_one_after_the_day_before() {
    let names = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut days = 0;
    for year in 1970..2420 {
        let leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
        for (month, name) in (1..).zip(names) {
            let day_max = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            for day in 0..=32 {
                let clf = format!("{day:02}/{name}/{year}:00:00:01 +0000");
                let rfc = format!("{year}-{month:02}-{day:02}T00:00:01Z");
                let real = (1..=day_max).contains(&day);
                let expected = real.then_some(days * 86_400 + 1);
                assert_eq!(parse_clf_time(clf.as_bytes()), expected, "{clf}");
                assert_eq!(
                    parse_rfc3339(&rfc),
                    expected.map(|seconds| seconds * 1000),
                    "{rfc}"
                );
                days += i64::from(real);
            }
        }
    }
}

#[test]
fn times_of_day_and_offsets_are_checked() {
    let at = |text: &str| parse_clf_time(text.as_bytes());
    assert_eq!(at("17/May/2015:10:05:03 +0000"), Some(1_431_857_103));
    assert_eq!(at("17/May/2015:12:35:03 +0230"), Some(1_431_857_103));
    assert_eq!(at("16/May/2015:22:05:03 -1200"), Some(1_431_857_103));
    assert_eq!(
        at("30/Jun/2015:23:59:60 +0000"),
        at("30/Jun/2015:23:59:59 +0000")
    );
    assert_eq!(at("01/Jan/1970:00:00:00 +0000"), Some(0));
    for text in [
        "17/May/2015:24:00:00 +0000",
        "17/May/2015:10:60:00 +0000",
        "17/May/2015:10:05:61 +0000",
        "17/may/2015:10:05:03 +0000",
        "17/May/2015:10:05:03 +2400",
        "17/May/2015:10:05:03 +0060",
        "17/May/2015:10:05:03 00000",
        "17/May/2015:10:05:03 +000",
        "17/May/2015 10:05:03 +0000",
        "7/May/2015:10:05:03 +0000",
        "01/Jan/1970:00:00:00 +0001",
        "31/Dec/1969:23:59:59 +0000",
        "1x/May/2015:10:05:03 +0000",
        "+1/May/2015:10:05:03 +0000",
        "",
    ] {
        assert_eq!(at(text), None, "{text}");
    }
}

#[test]
fn rfc_3339_has_fractions_and_offsets() {
    for (text, expected) in [
        ("2015-05-17T10:05:03Z", Some(1_431_857_103_000)),
        ("2015-05-17t10:05:03.5z", Some(1_431_857_103_500)),
        (
            "2015-05-17 12:05:03.123456789+02:00",
            Some(1_431_857_103_123),
        ),
        ("2015-05-17T10:05:03.09-00:00", Some(1_431_857_103_090)),
        ("2015-05-17T10:05:03", None),
        ("2015-05-17T10:05:03.Z", None),
        ("2015-05-17T10:05:03.1", None),
        ("2015-05-17T10:05:03+0200", None),
        ("2015-05-17T10:05:03Zx", None),
        ("2015-5-17T10:05:03Z", None),
        ("2015-05-17", None),
        ("", None),
        ("éééééééééééééééé", None),
    ] {
        assert_eq!(parse_rfc3339(text), expected, "{text}");
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
        ("99999999999", Some(99_999_999_999_000)),
        ("99999999999999", Some(99_999_999_999_999)),
        ("99999999999999999", Some(99_999_999_999_999)),
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
fn a_unix_number_from_before_1990_is_no_time() {
    for (number, at_ms) in [
        ("631152000", 631_152_000_000),
        ("631152000.001", 631_152_000_001),
        ("631152000000", 631_152_000_000),
        ("631152000000000", 631_152_000_000),
        ("631152000000000000", 631_152_000_000),
    ] {
        assert_eq!(parse_any(number), Some(at_ms), "{number}");
        assert_eq!(parse_timestamp(number), Some(at_ms), "{number}");
    }
    for number in [
        "0",
        "0.003",
        "12.5",
        "631151999",
        "631151999.999",
        "100000000000",
        "631151999999",
        "100000000000000",
        "631151999999999",
        "100000000000000000",
        "631151999999999999",
    ] {
        assert_eq!(parse_any(number), None, "{number}");
        assert_eq!(parse_timestamp(number), None, "{number}");
    }
    // A server with a wrong clock writes such dates.
    assert_eq!(parse_any("1970-01-01T00:00:01Z"), Some(1_000));
}

#[test]
fn a_time_is_read_as_servers_write_it_or_not_at_all() {
    let at = Some(1_431_857_103_000);
    for (text, expected) in [
        ("2015-05-17T10:05:03Z", at),
        ("2015-05-17T10:05:03", at),
        ("2015-05-17T12:05:03+02:00", at),
        ("2015-05-17T12:05:03.000+0200", at),
        ("2015-05-17T12:05:03+02", at),
        ("2015/05/17 10:05:03", at),
        ("2015/05/17 10:05:03.000", at),
        ("17/May/2015:10:05:03 +0000", at),
        ("1431857103", at),
        ("1431857103.000", at),
        ("1431857103000", at),
        ("2016-12-31T23:59:60Z", Some(1_483_228_799_000)),
        ("31/Dec/2016:23:59:60 +0000", Some(1_483_228_799_000)),
        ("2026-02-31T12:00:00Z", None),
        ("2026/02/31 12:00:00", None),
        ("31/Feb/2026:12:00:00 +0000", None),
        ("31/Nov/2026:12:00:00 +0000", None),
        ("29/Feb/2026:12:00:00 +0000", None),
        ("01/Foo/2026:12:00:00 +0000", None),
        ("01/Nov/2026:25:00:00 +0000", None),
        ("01/Nov/2026:24:00:00 +0000", None),
        ("01/Nov/2026:12:60:00 +0000", None),
        ("01/Nov/2026:12:00:61 +0000", None),
        ("01/Nov/2026:12:00:00 +2500", None),
        ("01/Nov/2026:12:00:00 +0060", None),
        ("01/Nov/2026:12:00:00", None),
        ("2026-11-01T25:00:00Z", None),
        ("2026-13-01T12:00:00Z", None),
        ("2026-11-00T12:00:00Z", None),
        ("2026-11/01T12:00:00Z", None),
        ("2026-11-01", None),
        ("now", None),
        ("", None),
    ] {
        assert_eq!(parse_any(text), expected, "{text}");
    }
}

#[test]
fn seconds_of_any_size_are_read_or_refused() {
    for (seconds, expected) in [
        (0, Some(0)),
        // A date without its hyphens, and what is none.
        (20_240_229, None),
        (20_240_230, Some(20_240_230_000)),
        (253_402_300_799, Some(253_402_300_799_000)),
        (253_402_300_800, None),
        (9_223_372_036_854_775, None),
        (9_223_372_036_854_776, None),
        (9_223_372_036_854_775_807, None),
        (9_223_372_036_854_775_808, None),
        (u64::MAX, None),
    ] {
        let text = seconds.to_string();
        assert_eq!(parse_time(&text, true), expected, "{text}");
        for text in [text.clone(), format!("{text}.0")] {
            // As milliseconds or seconds; what matters is that there is an answer.
            assert!(parse_any(&text).is_none_or(|at_ms| at_ms >= 0), "{text}");
        }
    }
}
