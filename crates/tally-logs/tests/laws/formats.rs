//! Each server's lines say the same of the same request, are told from one another, and no others are taken for them.

use tally_logs::formats::{LogFormat, LogLines, detect};
use tally_logs::hit::Hit;

pub(crate) const FIREFOX: &str =
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
pub(crate) const AT_MS: i64 = 1_793_536_205_000;
const NAMES: &str = "2Path,Title,Event,UserAgent,Browser,System,Session,Bot,Referrer,Referrer scheme,Screen size,Location,FirstVisit,Date";

/// One request as each server writes it; `AGENT` stands for the user agent.
const LINES: [(LogFormat, &[&str]); 6] = [
    (
        LogFormat::Clf,
        &[
            r#"203.0.113.9 - - [01/Nov/2026:13:30:05 +0100] "GET /a?b=c HTTP/1.1" 200 512 "https://example.com/" "AGENT""#,
            r#"203.0.113.9 - a user [01/Nov/2026:12:30:05 +0000] "GET /a?b=c HTTP/2.0" 200 512 "https://example.com/" "AGENT" "extra""#,
            r#"www.example.com:443 203.0.113.9 - - [01/Nov/2026:12:30:05 +0000] "GET https://www.example.com/a?b=c HTTP/1.1" 200 512 "https://example.com/" "AGENT""#,
        ],
    ),
    (
        LogFormat::Caddy,
        &[
            r#"{"level":"info","ts":1793536205.0,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"203.0.113.9","client_ip":"203.0.113.9","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/a?b=c","headers":{"User-Agent":["AGENT"],"Referer":["https://example.com/"]}},"duration":0.001,"size":512,"status":200}"#,
            r#"{"ts":"2026-11-01T12:30:05.000Z","logger":"http.log.access.log0","request":{"remote_addr":"203.0.113.9:40000","method":"GET","uri":"http://example.com/a?b=c","headers":{"User-Agent":["AGENT"],"Referer":["https://example.com/"]}},"status":200}"#,
            r#"{"ts":"2026/11/01 12:30:05.000","request":{"remote_ip":"203.0.113.9","method":"GET","uri":"/a?b=c","headers":{"User-Agent":["AGENT"],"Referer":["https://example.com/"]}},"status":200}"#,
            r#"2026-11-01T12:30:06Z stderr F {"ts":1793536205.0,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"203.0.113.9","method":"GET","uri":"/a?b=c","headers":{"User-Agent":["AGENT"],"Referer":["https://example.com/"]}},"status":200}"#,
        ],
    ),
    (
        LogFormat::Cloudfront,
        &[
            "2026-11-01\t12:30:05\tFRA56-P1\t512\t203.0.113.9\tGET\td1.cloudfront.net\t/a\t200\thttps://example.com/\tPERCENT\tb=c\t-\tHit",
        ],
    ),
    (
        LogFormat::Alb,
        &[
            r#"https 2026-11-01T12:30:05.000000Z app/my/50dc6c495c0c9188 203.0.113.9:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET https://www.example.com:443/a?b=c HTTP/2.0" "AGENT" ECDHE TLSv1.2 arn:aws "Root=1" "www.example.com""#,
            r#"2026-11-01T12:30:05.000000Z my-elb 203.0.113.9:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/a?b=c HTTP/1.1" "AGENT" - -"#,
        ],
    ),
    (
        LogFormat::Logpush,
        &[
            r#"{"ClientRequestURI":"/a?b=c","ClientRequestPath":"/a","ClientIP":"203.0.113.9","EdgeStartTimestamp":1793536205000000000,"ClientRequestMethod":"GET","EdgeResponseStatus":200,"ClientRequestReferer":"https://example.com/","ClientRequestUserAgent":"AGENT","ClientRequestSource":"eyeball"}"#,
            r#"{"ClientRequestURI":"http://example.com/a?b=c","ClientIP":"203.0.113.9","EdgeStartTimestamp":"2026-11-01T12:30:05Z","ClientRequestMethod":"GET","EdgeResponseStatus":200,"ClientRequestReferer":"https://example.com/","ClientRequestUserAgent":"AGENT","WorkerSubrequest":false}"#,
        ],
    ),
    (
        LogFormat::NginxJson,
        &[
            r#"{"time_iso8601":"2026-11-01T12:30:05+00:00","remote_addr":"203.0.113.9","request_uri":"/a?b=c","request_method":"GET","status":"200","http_referer":"https://example.com/","http_user_agent":"AGENT"}"#,
            r#"{"msec":"1793536205.000","remote_addr":"203.0.113.9","request":"GET http://example.com/a?b=c HTTP/1.1","status":200,"http_referer":"https://example.com/","http_user_agent":"AGENT"}"#,
            r#"{"time_local":"01\/Nov\/2026:12:30:05 +0000","remote_addr":"203.0.113.9","request":"GET /a?b=c HTTP/1.1","status":200,"http_referer":"https://example.com/","http_user_agent":"AGENT"}"#,
        ],
    ),
];

fn filled(line: &str) -> String {
    let percent: String = FIREFOX
        .bytes()
        .map(|byte| match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
            _ => format!("%25{byte:02X}"),
        })
        .collect();
    line.replace("AGENT", FIREFOX).replace("PERCENT", &percent)
}

pub(crate) fn read<'a>(format: LogFormat, line: &'a str) -> Result<Option<Hit<'a>>, String> {
    LogLines::new(format, "")
        .read(line.as_bytes())
        .map_err(|unread| format!("{unread:?}"))
}

pub(crate) fn hit(format: LogFormat, line: &str) -> Hit<'_> {
    read(format, line)
        .unwrap_or_else(|why| panic!("{line}: {why}"))
        .expect(line)
}

#[test]
fn each_servers_lines_are_known_by_looking_and_say_the_same_of_the_same_request() {
    for (format, lines) in LINES {
        for line in lines {
            let line = filled(line);
            assert_eq!(detect(&[line.as_bytes()]), Some(format), "{line}");
            let hit = hit(format, &line);
            let said = (
                hit.page(),
                hit.at_ms,
                hit.visitor.as_deref(),
                &*hit.method,
                &*hit.status,
            );
            assert_eq!(
                said,
                (
                    Some(("/a", "?b=c")),
                    AT_MS,
                    Some("203.0.113.9"),
                    "GET",
                    "200"
                ),
                "{line}"
            );
            assert_eq!(hit.user_agent.as_deref(), Some(FIREFOX), "{line}");
            if format != LogFormat::Alb {
                assert_eq!(hit.referrer, "https://example.com/", "{line}");
            }
        }
    }
    assert_eq!(detect(&[b"hello", b"world"]), None);
    assert_eq!(
        detect(&[br#"{"time":"2026-11-01T12:30:05Z","status":"ok","msg":"x"}"#]),
        None
    );
}

#[test]
fn columns_are_those_that_were_named_last_also_after_a_run_was_resumed() {
    let first = "#Fields: date time cs-method cs-uri-stem sc-status c-ip";
    let second =
        "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query c-ip cs(User-Agent) sc-status";
    let line = "2026-11-01 12:30:05 10.0.0.1 GET /a b=c 203.0.113.9 Mozilla/5.0+(X11;+Linux) 200";
    let mut lines = LogLines::new(LogFormat::Cloudfront, "");
    let mut resumed = String::new();
    for text in [
        "\u{feff}#Software: Microsoft Internet Information Services 10.0",
        first,
        second,
    ] {
        assert_eq!(lines.read(text.as_bytes()).unwrap(), None, "{text}");
        resumed = lines.state().to_owned();
    }
    assert_eq!(resumed, second);
    for mut lines in [lines, LogLines::new(LogFormat::Cloudfront, &resumed)] {
        let hit = lines.read(line.as_bytes()).unwrap().unwrap();
        assert_eq!(hit.page(), Some(("/a", "?b=c")));
        assert_eq!((&*hit.method, &*hit.status), ("GET", "200"));
        assert_eq!(hit.user_agent.as_deref(), Some("Mozilla/5.0 (X11; Linux)"));
    }
    // Columns of another time are not taken for these.
    assert!(
        LogLines::new(LogFormat::Cloudfront, first)
            .read(line.as_bytes())
            .is_err()
    );
    assert_eq!(
        detect(&[b"#Version: 1.0", first.as_bytes()]),
        Some(LogFormat::Cloudfront)
    );
    for wrong in [
        "2026-02-31 12:30:05 GET /a 200 203.0.113.9",
        "2026-11-01 25:30:05 GET /a 200 203.0.113.9",
    ] {
        assert!(
            LogLines::new(LogFormat::Cloudfront, first)
                .read(wrong.as_bytes())
                .is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn a_row_of_goatcounter_is_a_visit_of_a_session() {
    let row = r#"/a,"A ""title"", quoted",,,Firefox 140,Linux,1a2b3c,0,https://example.com,h,"1920,1080,1",DE-BY,1,2026-11-01T12:30:05Z"#;
    assert_eq!(detect(&[NAMES.as_bytes()]), Some(LogFormat::Goatcounter));
    for state in ["", NAMES] {
        let mut lines = LogLines::new(LogFormat::Goatcounter, state);
        if state.is_empty() {
            assert!(
                lines.read(row.as_bytes()).is_err(),
                "without names of columns"
            );
            assert_eq!(lines.read(NAMES.as_bytes()).unwrap(), None);
        }
        assert_eq!(lines.state(), NAMES);
        let hit = lines.read(row.as_bytes()).unwrap().unwrap();
        let said = (hit.page(), hit.visitor.as_deref(), &*hit.country, hit.at_ms);
        assert_eq!(said, (Some(("/a", "")), Some("1a2b3c"), "DE", AT_MS));
        // A browser's name alone would be a program's.
        assert!(!tally_logs::bots::is_bot(&hit.user_agent.unwrap()));
    }
}

#[test]
fn a_path_of_goatcounter_has_its_query_once_and_a_name_of_an_event_has_none() {
    let mut lines = LogLines::new(LogFormat::Goatcounter, "2Path,Event,Date");
    for (path, event, page) in [
        ("/search?q=1", "0", ("/search", "?q=1")),
        ("/search?q=1?q=1", "false", ("/search", "?q=1?q=1")),
        ("/a", "", ("/a", "")),
        ("signup?q=1", "1", ("signup?q=1", "")),
        (
            "https://example.com/a?q=1",
            "true",
            ("https://example.com/a?q=1", ""),
        ),
    ] {
        let row = format!("{path},{event},2026-11-01T12:30:05Z");
        let hit = lines.read(row.as_bytes()).unwrap().unwrap();
        assert_eq!(hit.page(), Some(page), "{row}");
        assert_eq!(hit.path(), page.0, "{row}");
    }
    let unread = lines.read(b"buy\xe9,1,2026-11-01T12:30:05Z");
    let why = unread.expect_err("two names would be one").why();
    assert!(why.contains("not UTF-8"), "{why}");
}

#[test]
fn a_load_balancers_line_without_a_request_has_a_status() {
    let line = r#"http 2026-11-01T12:30:05.000000Z app/my/50dc6c495c0c9188 [2001:db8::1]:2817 - -1 -1 -1 460 - 0 0 "- http://shop.example:80- " "-" - - - "-" "-""#;
    let hit = hit(LogFormat::Alb, line);
    assert_eq!(
        (hit.target.is_err(), &*hit.status, hit.visitor.as_deref()),
        (true, "460", Some("2001:db8::1"))
    );
}

#[test]
fn impossible_times_are_unreadable_in_every_format() {
    for (format, lines) in LINES {
        for line in lines.iter().filter(|line| line.contains("2026")) {
            for (real, wrong) in [
                ("01/Nov/2026", "31/Feb/2026"),
                ("01\\/Nov\\/2026", "31\\/Feb\\/2026"),
                ("2026-11-01T12", "2026-11-01T25"),
                ("2026-11-01\t12", "2026-02-31\t12"),
                ("2026/11/01", "2026/02/31"),
                (":30:05", ":30:61"),
            ] {
                let changed = filled(line).replace(real, wrong);
                if changed != filled(line) && !line.contains("stderr F") {
                    assert!(read(format, &changed).is_err(), "{changed}");
                }
            }
        }
    }
}

#[test]
fn a_duration_is_no_time_in_any_format() {
    for (format, line) in [
        (
            LogFormat::Caddy,
            r#"{"ts":0.003,"request":{"uri":"/a"},"status":200}"#,
        ),
        (
            LogFormat::Logpush,
            r#"{"ClientRequestURI":"/a","EdgeStartTimestamp":3}"#,
        ),
    ] {
        let unread = LogLines::new(format, "").read(line.as_bytes());
        let why = unread.expect_err(line).why().into_owned();
        assert!(why.contains("unix time since 1990"), "{line}: {why}");
    }
    let mut lines = LogLines::new(LogFormat::Goatcounter, "2Path,Date");
    let why = lines.read(b"/a,3").expect_err("a duration").why();
    assert!(why.contains("`Date`"), "{why}");
}

#[test]
fn a_date_before_a_line_of_another_format_makes_no_columns_of_it() {
    let line =
        "203.0.113.9 - - [10/Nov/2025:12:00:00 +0000] \"GET /x HTTP/1.1\" 200 5 \"-\" \"agent\"";
    for before in ["2025/11/10 12:00:00 ", "2025-11-10 12:00:00 "] {
        let text = [before, line].concat();
        let found = detect(&[text.as_bytes(); 5]);
        assert_eq!(found, None, "{before}");
    }
}

#[test]
fn a_carriers_time_stands_before_a_line_of_any_format() {
    for (format, lines) in LINES {
        // Tabs separate its columns, and a time would be the first of them. One line has a carrier already.
        let lines = lines
            .iter()
            .filter(|line| format != LogFormat::Cloudfront && !line.contains(" stderr F "));
        for line in lines.map(|line| filled(line)) {
            // As it is, and as another encoder writes it.
            for line in [line.clone(), line.replace("\":", "\": ")] {
                let same = hit(format, &line);
                for before in [
                    "2026-11-28T10:00:00.123456789Z ",
                    "2026-11-28T10:00:00.123456789+01:00 ",
                    "web-1  | ",
                    "web-1  | 2026-11-28T10:00:00.123456789Z ",
                ] {
                    let carried = [before, &line].concat();
                    assert_eq!(hit(format, &carried), same, "{carried}");
                    assert_eq!(detect(&[carried.as_bytes()]), Some(format), "{carried}");
                }
            }
        }
    }
}

/// What clients send in other fields takes no request from a log, and no two targets are one.
#[test]
fn only_a_target_has_to_be_text() {
    let agent = "Mozilla/5.0";
    let rows = [
        (
            LogFormat::Cloudfront,
            "#Fields: date time cs-method cs-uri-stem c-ip cs(User-Agent) sc-status",
            "2026-11-01 12:30:05 GET /TARGET 203.0.113.9 Mozilla/5.0AGENT 200",
        ),
        (
            LogFormat::Goatcounter,
            NAMES,
            "/TARGET,AGENT,,Mozilla/5.0AGENT,,,1,0,,,,DE,1,2026-11-01T12:30:05Z",
        ),
        (
            LogFormat::Alb,
            "",
            "2026-11-01T12:30:05.000000Z my-elb 203.0.113.9:2817 10.0.0.1:80 0 0 0 200 200 0 29 \"GET http://a/TARGET HTTP/1.1\" \"Mozilla/5.0AGENT\" - -",
        ),
        (
            LogFormat::Clf,
            "",
            "203.0.113.9 - - [01/Nov/2026:12:30:05 +0000] \"GET /TARGET HTTP/1.1\" 200 512 \"-\" \"Mozilla/5.0AGENT\"",
        ),
    ];
    for (format, names, row) in rows {
        let read = |target: &[u8], sent: &[u8]| {
            let mut line = Vec::new();
            for part in row
                .split_inclusive("TARGET")
                .flat_map(|part| part.split_inclusive("AGENT"))
            {
                let is_target = part.strip_suffix("TARGET");
                line.extend(
                    is_target
                        .or(part.strip_suffix("AGENT"))
                        .unwrap_or(part)
                        .as_bytes(),
                );
                line.extend(match (is_target, part.ends_with("AGENT")) {
                    (Some(_), _) => target,
                    (None, true) => sent,
                    (None, false) => b"",
                });
            }
            let mut lines = LogLines::new(format, names);
            let hit = lines.read(&line).map(|hit| hit.expect("a request"));
            hit.map(|hit| (hit.path().into_owned(), hit.user_agent.map(String::from)))
                .map_err(|unread| unread.why().into_owned())
        };
        let (path, plain) = read(b"ok", b"").expect("a plain line");
        assert_eq!(
            (path.as_str(), plain.as_deref()),
            ("/ok", Some(agent)),
            "{format:?}"
        );
        let (path, marked) = read(b"ok", b"\xe9").expect("the target is text");
        assert_eq!(path, "/ok", "{format:?}");
        assert!(
            marked.is_some_and(|marked| marked.starts_with(agent)),
            "{format:?}"
        );
        assert_eq!(
            read(b"caf\xe9", b""),
            Err("the request target is not UTF-8".to_owned()),
            "{format:?}"
        );
    }
}
