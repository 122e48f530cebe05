//! A log becomes a body of `/ingest?format=ndjson`, and every line of it is accounted for.

use tally_logs::fields::LogField;
use tally_logs::filter::{Filter, Paths, Statuses};
use tally_logs::formats::{LogFormat, LogLines};
use tally_logs::reader::{CountingRule, LogReader, ReadPart, UnreadLine};
use tally_logs::user_agent::Agents;

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

fn reader(site: Option<&str>, by: &[LogField]) -> LogReader {
    LogReader {
        lines: LogLines::new(LogFormat::Clf, ""),
        filter: Filter {
            statuses: Statuses::parse("200-299").unwrap(),
            methods: vec!["GET".to_owned()],
            bots: false,
            statics: false,
            agents: Agents::default(),
        },
        counting: CountingRule {
            paths: Paths::Keep,
            strips_query: true,
            prefix: "x:".to_owned(),
            site: site.map(str::to_owned),
            by: by.to_vec(),
            unique: true,
        },
    }
}

fn line(path: &str) -> String {
    format!(
        "203.0.113.9:1 - - [17/May/2015:10:05:03 +0000] \"GET {path} HTTP/1.1\" 200 1 \"https://t.co/a\" \"{FIREFOX}\""
    )
}

fn of(part: &ReadPart) -> (Vec<&str>, &[u32], &[u32]) {
    (
        part.ids.iter().map(String::as_str).collect(),
        &part.counters,
        &part.numbers,
    )
}

#[test]
fn each_line_is_counted_left_out_or_unreadable() {
    let log = [
        line("/a?q=1"),
        String::new(),
        line("/b"),
        "nonsense".to_owned(),
        line("/a"),
        line("/a.css"),
        line("/gone").replace(" 200 ", " 404 "),
        line("/form").replace("GET", "POST"),
        line("/bot").replace(FIREFOX, "curl/8.0"),
        line("-")
            .replace("GET - HTTP/1.1", "-")
            .replace(" 200 ", " 408 "),
        format!("{}\r", line("/b")),
    ];
    let part = reader(None, &[]).read(log.join("\n").as_bytes(), None);
    assert_eq!(
        of(&part),
        (vec!["x:/a", "x:/b"], &[0, 1, 0, 1][..], &[0, 2, 4, 10][..])
    );
    assert_eq!(
        (part.lines, part.left, part.unreadable),
        (10, [2, 1, 1, 1, 0], 1)
    );
    let why = "there is no `[dd/Mon/yyyy:HH:MM:SS ±zzzz] \"` with a real time";
    let unread = UnreadLine {
        number: 3,
        why: why.to_owned(),
        text: "nonsense".to_owned(),
    };
    assert_eq!(part.unread, [unread]);
    assert_eq!(
        part.body.lines().next(),
        Some(r#"{"id":"x:/a","at":1431857103,"unique":"203.0.113.9"}"#)
    );
    assert_eq!(part.times.first(), Some(&1_431_857_103_000), "milliseconds");
    assert_eq!(part.body.lines().count(), 4);
}

#[test]
fn a_site_is_one_counter_with_dimensions_and_a_rule_may_change_its_pages() {
    let by = [
        LogField::Page,
        LogField::Referrer,
        LogField::Browser,
        LogField::UtmSource,
    ];
    let mut reader = reader(Some("shop.example"), &by);
    let rewrite = |path: &str| path.replace("/old/", "/new/");
    let log = line("/old/x\\\"?utm_source=mail");
    let part = reader.read(log.as_bytes(), Some(&rewrite));
    assert_eq!(of(&part).0, ["shop.example"]);
    assert_eq!(
        part.body.trim_end(),
        r#"{"id":"shop.example","at":1431857103,"unique":"203.0.113.9","by":{"page":"/new/x\"","referrer":"t.co","browser":"Firefox","utm_source":"mail"}}"#
    );
}

#[test]
fn values_are_cut_to_what_the_service_takes_and_escaped() {
    let mut reader = reader(Some("s"), &[LogField::Page]);
    let long = format!("/\u{1}{}", "ü".repeat(400));
    let part = reader.read(line(&long).as_bytes(), None);
    let json: serde_json::Value = serde_json::from_str(part.body.trim_end()).unwrap();
    let page = json["by"]["page"].as_str().unwrap();
    assert_eq!((page.len(), page.starts_with("/ ü")), (256, true));
    let mut reader = super::reader::reader(None, &[]);
    let part = reader.read(line("/a\u{1}\"b").as_bytes(), None);
    let json: serde_json::Value = serde_json::from_str(part.body.trim_end()).unwrap();
    assert_eq!(json["id"], "x:/a\u{1}\"b");
}

#[test]
fn a_query_is_part_of_an_id_where_it_is_asked_for_and_a_name_has_none() {
    let ids = |strips_query: bool, site: Option<&str>| {
        let mut reader = reader(site, &[LogField::Page, LogField::UtmSource]);
        reader.lines = LogLines::new(LogFormat::Goatcounter, "2Path,Event,Date");
        reader.counting.strips_query = strips_query;
        let rows = [
            "/search?utm_source=a",
            "buy?utm_source=a",
            "https://example.com/a?b",
        ];
        let log = rows.map(|path| format!("{path},0,2015-05-17T10:05:03Z"));
        let part = reader.read(log.join("\n").as_bytes(), None);
        let by = part.body.lines().map(|line| {
            let json: serde_json::Value = serde_json::from_str(line).unwrap();
            json["by"].to_string()
        });
        let by: Vec<String> = by.collect();
        assert_eq!(
            by,
            [
                r#"{"page":"/search","utm_source":"a"}"#,
                r#"{"page":"buy?utm_source=a"}"#,
                r#"{"page":"https://example.com/a?b"}"#,
            ]
        );
        part.ids
    };
    let names = ["x:buy?utm_source=a", "x:https://example.com/a?b"];
    assert_eq!(ids(true, None), ["x:/search", names[0], names[1]]);
    assert_eq!(
        ids(false, None),
        ["x:/search?utm_source=a", names[0], names[1]]
    );
    assert_eq!(ids(false, Some("shop")), ["shop"]);
}
