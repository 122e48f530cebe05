//! Lines of JSON are read whatever else they hold, and a field of another type is missing.

use tally_logs::formats::{LogFormat, LogLines, detect};

use super::formats::{AT_MS, FIREFOX, hit, read};

#[test]
fn only_lines_of_access_are_caddys_requests() {
    let line = |head: &str| {
        format!(
            r#"{{{head}"ts":1793536205.0,"request":{{"remote_ip":"203.0.113.9","method":"GET","uri":"/a","headers":{{}}}},"status":200}}"#
        )
    };
    for (head, is_hit) in [
        (
            r#""logger":"http.log.access","msg":"handled request","#,
            true,
        ),
        (r#""logger":"http.log.access.log0","#, true),
        (r#""msg":"handled request","#, true),
        ("", true),
        (
            r#""logger":"http.handlers.reverse_proxy","msg":"upstream roundtrip","#,
            false,
        ),
        (r#""logger":"http.log.error","msg":"dial tcp","#, false),
        (r#""logger":"http.log.error.log0","msg":"dial tcp","#, false),
        (r#""logger":"http.log.accessory","#, false),
        (
            r#""logger":"http.handlers.rewrite","msg":"rewrote request","#,
            false,
        ),
        (r#""msg":"upstream roundtrip","#, false),
    ] {
        assert_eq!(
            read(LogFormat::Caddy, &line(head)).unwrap().is_some(),
            is_hit,
            "{head}"
        );
    }
    let other = r#"{"level":"info","ts":1,"logger":"admin","msg":"stopped"}"#;
    assert_eq!(read(LogFormat::Caddy, other), Ok(None));
    assert!(read(LogFormat::Caddy, "{").is_err());
}

/// A filter of Caddy writes a text in place of a header's list, or of all headers.
#[test]
fn a_header_of_caddy_is_the_first_text_of_a_list_or_a_text_or_nothing() {
    let line = |headers: &str| {
        format!(
            r#"{{"ts":1793536205,"logger":"http.log.access","request":{{"client_ip":"::1","method":"GET","uri":"/a"{headers}}},"status":200}}"#
        )
    };
    for (headers, referrer, user_agent) in [
        (
            r#","headers":{"Referer":["REDACTED"]}"#,
            "REDACTED",
            Some(""),
        ),
        (
            r#","headers":{"Referer":"REDACTED","User-Agent":["x","y"]}"#,
            "REDACTED",
            Some("x"),
        ),
        (
            r#","headers":{"Referer":"a\"b","User-Agent":"1f2e3d4c"}"#,
            "a\"b",
            Some("1f2e3d4c"),
        ),
        (
            r#","headers":{"Referer":[],"User-Agent":["a\"b"]}"#,
            "",
            Some("a\"b"),
        ),
        (
            r#","headers":{"Referer":[null,7,"x"],"User-Agent":["-"]}"#,
            "x",
            Some(""),
        ),
        (
            r#","headers":{"Referer":null,"User-Agent":{"a":["b"]}}"#,
            "",
            Some(""),
        ),
        (
            r#","headers":{"Referer":7,"User-Agent":true,"Accept":"REDACTED"}"#,
            "",
            Some(""),
        ),
        (
            r#","headers":{"Referer":-7,"User-Agent":1.5e3}"#,
            "",
            Some(""),
        ),
        (r#","headers":"REDACTED""#, "", None),
        (r#","headers":["REDACTED"]"#, "", None),
        (r#","headers":null"#, "", None),
        ("", "", None),
    ] {
        let line = line(headers);
        let hit = hit(LogFormat::Caddy, &line);
        let said = (&*hit.referrer, hit.user_agent.as_deref(), hit.page());
        assert_eq!(said, (referrer, user_agent, Some(("/a", ""))), "{line}");
    }
    assert!(read(LogFormat::Caddy, &line(r#","headers":{"Referer":["a"}"#)).is_err());
    // The guide says that such lines need `--bots`.
    for replaced in ["REDACTED", "1f2e3d4c", ""] {
        assert!(tally_logs::bots::is_bot(replaced), "{replaced}");
    }
}

#[test]
fn a_field_of_another_type_is_missing_in_json() {
    let nginx = r#""time":"2026-11-01T12:30:05Z","status":200"#;
    let logpush = r#""EdgeStartTimestamp":1793536205"#;
    for (format, line) in [
        (
            LogFormat::NginxJson,
            format!(r#"{{{nginx},"request_uri":"/a","request":{{"id":1}}}}"#),
        ),
        (
            LogFormat::NginxJson,
            format!(r#"{{{nginx},"request_uri":7,"request":"GET /a"}}"#),
        ),
        (
            LogFormat::NginxJson,
            format!(r#"{{{nginx},"request_uri":null,"request":"GET /a"}}"#),
        ),
        (
            LogFormat::Logpush,
            format!(r#"{{{logpush},"ClientRequestURI":"/a","ClientIP":7}}"#),
        ),
    ] {
        assert_eq!(hit(format, &line).page(), Some(("/a", "")), "{line}");
    }
    for (format, line, why) in [
        (
            LogFormat::NginxJson,
            format!(r#"{{{nginx},"request":{{"id":1}}}}"#),
            "no `request`",
        ),
        (
            LogFormat::Logpush,
            format!(r#"{{{logpush},"ClientRequestPath":7}}"#),
            "expected a string",
        ),
        (
            LogFormat::Caddy,
            r#"{"ts":1793536205,"request":"REDACTED","status":200}"#.to_owned(),
            "no `request`",
        ),
        (
            LogFormat::NginxJson,
            format!(r#"{{{nginx},"request":"\ud800"}}"#),
            "no such JSON",
        ),
    ] {
        let unread = LogLines::new(format, "").read(line.as_bytes());
        let found = unread.expect_err(&line).why().into_owned();
        assert!(found.contains(why), "{line}: {found}");
    }
    let other = r#"{"ts":1,"logger":"http.handlers.own","msg":"x","request":"GET /a"}"#;
    assert_eq!(read(LogFormat::Caddy, other), Ok(None));
}

#[test]
fn what_a_worker_fetches_is_no_request_of_a_client() {
    for (field, is_hit) in [
        (r#""ClientRequestSource":"eyeball""#, true),
        (r#""ClientRequestSource":"orangeToOrange""#, true),
        (r#""ClientRequestSource":"edgeWorkerFetch""#, false),
        (r#""ClientRequestSource":"edgeWorkerCacheAPI""#, false),
        (r#""WorkerSubrequest":true"#, false),
        (r#""WorkerSubrequest":false"#, true),
    ] {
        let line =
            format!(r#"{{"ClientRequestURI":"/a","EdgeStartTimestamp":1793536205,{field}}}"#);
        assert_eq!(
            read(LogFormat::Logpush, &line).unwrap().is_some(),
            is_hit,
            "{field}"
        );
    }
    assert_eq!(read(LogFormat::Logpush, r#"{"content":"tests"}"#), Ok(None));
}

#[test]
fn bytes_that_nginx_leaves_in_its_json_take_nothing_from_the_rest_of_the_line() {
    let line = |request: &[u8], uri: &[u8], agent: &[u8]| {
        let mut line =
            br#"{"time_iso8601":"2026-11-01T12:30:05+00:00","status":400,"request":""#.to_vec();
        line.extend(request);
        line.extend(br#"","request_uri":""#);
        line.extend(uri);
        line.extend(br#"","http_user_agent":""#);
        line.extend(agent);
        line.extend(br#""}"#);
        line
    };
    // The head of a TLS handshake on a plain port.
    let request = [br"\u0016\u0003\u0001\u0000".as_slice(), b"\xc8"].concat();
    let handshake = line(&request, b"", b"");
    let mut lines = LogLines::new(LogFormat::NginxJson, "");
    let hit = lines.read(&handshake).unwrap().unwrap();
    assert_eq!((hit.target.is_err(), &*hit.status), (true, "400"));
    let agent = line(b"GET /a HTTP/1.1", b"/a", b"Mozilla/5.0 \xfc");
    let hit = lines.read(&agent).unwrap().unwrap();
    assert_eq!(hit.page(), Some(("/a", "")));
    let target = line(b"GET /\xfc HTTP/1.1", b"/\xfc", b"Mozilla/5.0");
    let hit = lines.read(&target).unwrap().unwrap();
    assert_eq!(hit.page(), Some(("/\u{fffd}", "")), "as Caddy writes it");
    assert_eq!(detect(&[&handshake[..]]), Some(LogFormat::NginxJson));
}

#[test]
fn a_field_of_nginx_has_one_of_the_usual_names() {
    let line = |field: &str| {
        format!(
            r#"{{"time":"2026-11-01T12:30:05Z","request_uri":"/a","status":200,"agent":{{"type":"filebeat"}},{field}}}"#
        )
    };
    for name in ["request_method", "method", "http_method"] {
        let line = line(&format!(r#""{name}":"POST""#));
        assert_eq!(hit(LogFormat::NginxJson, &line).method, "POST", "{line}");
    }
    for name in ["http_user_agent", "user_agent", "useragent", "ua"] {
        let line = line(&format!(r#""{name}":"{FIREFOX}""#));
        let hit = hit(LogFormat::NginxJson, &line);
        assert_eq!(hit.user_agent.as_deref(), Some(FIREFOX), "{line}");
    }
    for name in ["http_referer", "http_referrer", "referer", "referrer"] {
        let line = line(&format!(r#""{name}":"https://example.com/""#));
        let hit = hit(LogFormat::NginxJson, &line);
        assert_eq!(hit.referrer, "https://example.com/", "{line}");
    }
    for name in ["remote_addr", "remote_ip", "client_ip", "clientip"] {
        let line = line(&format!(r#""{name}":"203.0.113.9""#));
        let hit = hit(LogFormat::NginxJson, &line);
        assert_eq!(hit.visitor.as_deref(), Some("203.0.113.9"), "{line}");
    }
    let own =
        line(r#""method":"GET","request_method":"POST","client_ip":"::1","remote_addr":"::2""#);
    let own = hit(LogFormat::NginxJson, &own);
    assert_eq!(
        (&*own.method, own.visitor.as_deref()),
        ("POST", Some("::2"))
    );
    assert_eq!(own.user_agent, None, "an object is none");
    let agent = line("\"x\":1").replace(r#"{"type":"filebeat"}"#, "\"\"");
    assert_eq!(
        hit(LogFormat::NginxJson, &agent).user_agent.as_deref(),
        Some("")
    );
}

#[test]
fn a_duration_in_a_field_of_nginx_is_no_time() {
    let line = |times: &str| {
        format!(r#"{{{times},"request":"GET /a HTTP/1.1","status":200,"remote_addr":"::1"}}"#)
    };
    for times in [
        r#""time":0.003,"@timestamp":"2026-11-01T12:30:05+00:00""#,
        r#""time":"0.003","timestamp":"1793536205.000""#,
        r#""timestamp":1793536205000,"time":"-""#,
        r#""msec":"","time":"2026-11-01T12:30:05Z""#,
        r#""time":null,"timestamp":1793536205"#,
        r#""time_local":{},"time":"12.041","timestamp":1793536205"#,
    ] {
        assert_eq!(
            hit(LogFormat::NginxJson, &line(times)).at_ms,
            AT_MS,
            "{times}"
        );
    }
    for times in [r#""time":"0.003""#, r#""time":0,"timestamp":3"#, r#""x":1"#] {
        let line = line(times);
        let unread = LogLines::new(LogFormat::NginxJson, "").read(line.as_bytes());
        let why = unread.expect_err(times).why().into_owned();
        assert!(
            why.contains("unix time since 1990") && why.contains("`timestamp`"),
            "{times}: {why}"
        );
        assert_eq!(detect(&[line.as_bytes()]), None, "{times}");
    }
}
