//! Lines of Common and Combined Log Format are read exactly where their time and their request can be.

use tally_logs::formats::clf::read;
use tally_logs::hit::Hit;

const TIME: &str = "[17/May/2015:10:05:03 +0000]";

fn with_request(request: &str) -> String {
    format!("1.2.3.4 - - {TIME} \"{request}\" 200 5 \"-\" \"agent\"")
}

fn path(line: &str) -> String {
    match read(line.as_bytes()) {
        Ok(line) => line.path().into_owned(),
        Err(unread) => panic!("{line}: {unread:?}"),
    }
}

/// Why a line is not read, or has no request.
fn why_not(line: &[u8]) -> String {
    match read(line) {
        Ok(Hit {
            target: Err(why), ..
        }) => why.to_owned(),
        Ok(line) => panic!("was read as {line:?}"),
        Err(unread) => format!("{unread:?}"),
    }
}

#[test]
fn a_line_has_address_path_and_time() {
    let line = with_request("GET /a/b?q=1 HTTP/1.1");
    let line = read(line.as_bytes()).unwrap();
    assert_eq!(
        (&*line.path(), line.visitor.as_deref(), line.at_ms),
        ("/a/b", Some("1.2.3.4"), 1_431_857_103_000)
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
        (r#"GET /a\"b HTTP/1.1"#, r#"/a"b"#),
        (r#"GET /a\" 200 HTTP/1.1"#, r#"/a" 200"#),
        (r"GET /a\\ HTTP/1.1", r"/a\"),
        (r#"GET /a"b HTTP/1.1"#, r#"/a"b"#),
        ("GET /%2e%2F%20 HTTP/1.1", "/%2e%2F%20"),
        ("GET /a?b?c HTTP/1.1", "/a"),
        ("GET /a#b HTTP/1.1", "/a#b"),
        ("GET http://h/p?q HTTP/1.1", "/p"),
        (r"GET /a\x22b\x5Cc\xC3\xA9\x7e HTTP/1.1", "/a\"b\\cé~"),
        (r"GET /a\xe9\t\q\x4 HTTP/1.1", "/a\u{fffd}\t\\q\\x4"),
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
    assert_eq!(read(&latin).unwrap().path(), "/x");
}

#[test]
fn a_line_that_says_no_request_says_why() {
    for (line, why) in [
        (with_request("-"), "the request is empty"),
        (with_request(""), "the request is empty"),
        (with_request("GET"), "no target"),
        (with_request("GET HTTP/1.1"), "no target"),
        (with_request("OPTIONS * HTTP/1.1"), "asks for no page"),
        (with_request("CONNECT a:443 HTTP/1.1"), "asks for no page"),
        (
            with_request(r"\x16\x03\x01 \x02"),
            "does not begin with a method",
        ),
        (
            format!("1.2.3.4 - - {TIME} \"GET /cut/o"),
            "no closing quote",
        ),
        (
            format!("1.2.3.4 - - {TIME} \"GET /b?x=\"q\" HTTP/1.1\" 200 5"),
            "a quote that is not escaped",
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
        (
            [
                with_request("GET /a HTTP/1.1"),
                with_request("GET /b HTTP/1.1"),
            ]
            .join("\r"),
            "carriage return",
        ),
        ("1.2.3.4".to_owned(), "there is no `["),
        (String::new(), "there is no `["),
    ] {
        let problem = why_not(line.as_bytes());
        assert!(problem.contains(why), "{line}: {problem}");
    }
    assert!(
        why_not(b"h - - [17/May/2015:10:05:03 +0000] \"GET /\xff HTTP/1.1\" 200 5")
            .contains("NotUtf8")
    );
}

#[test]
fn a_user_name_cannot_forge_a_request() {
    let line = format!(
        "1.2.3.4 - a [b] [01/Jan/2000:00:00:00 +0000] \\\"GET /forged HTTP/1.1\\\" {TIME} \"GET /true HTTP/1.1\" 200 5"
    );
    let line = read(line.as_bytes()).unwrap();
    assert_eq!((&*line.path(), line.at_ms), ("/true", 1_431_857_103_000));
}

/// Reads a line that begins so, and returns the visitor of its hit.
fn visitor_after(before: &str) -> Option<String> {
    let line = with_request("GET /x HTTP/1.1");
    let line = [before, line.strip_prefix("1.2.3.4").unwrap()].concat();
    let hit = read(line.as_bytes()).unwrap_or_else(|unread| panic!("{line}: {unread:?}"));
    assert_eq!(&*hit.path(), "/x", "{line}");
    hit.visitor.map(|visitor| visitor.to_string())
}

#[test]
fn a_client_has_one_address_however_it_is_written() {
    for before in [
        "203.0.113.9",
        "203.0.113.9:42918",
        "203.0.113.9, 10.0.0.5",
        "203.0.113.9,10.0.0.5",
        "::ffff:203.0.113.9",
    ] {
        assert_eq!(
            visitor_after(before).as_deref(),
            Some("203.0.113.9"),
            "{before}"
        );
    }
    for before in [
        "2001:db8::1, 10.0.0.5",
        "[2001:db8::1]:5000, 10.0.0.5, 10.0.0.6",
        "[2001:DB8::1]:5000",
        "2001:db8:0:0::1",
    ] {
        assert_eq!(
            visitor_after(before).as_deref(),
            Some("2001:db8::1"),
            "{before}"
        );
    }
    assert_eq!(visitor_after("fe80::1%eth0").as_deref(), Some("fe80::1"));
}

#[test]
fn a_client_is_found_behind_any_prefix() {
    for before in [
        "www.example.com:443 203.0.113.9",
        "www.example.com 203.0.113.9",
        // A virtual host without a name is the server's address.
        "[::1]:80 203.0.113.9",
        "127.0.1.1:80 203.0.113.9",
        "10.0.0.1 203.0.113.9",
        "- 203.0.113.9",
        "Nov  1 12:30:05 web1 nginx: 203.0.113.9",
        "Nov 11 12:30:05 nginx[12]: 203.0.113.9",
        "<190>Nov  1 12:30:05 web1 nginx: 203.0.113.9",
        "<13>1 2026-11-01T12:30:05Z web1 nginx 12 - - 203.0.113.9",
        "<13>1 2026-11-01T12:30:05.1+01:00 web1 nginx - id [a@1 b=\"c\"] 203.0.113.9",
        "<13>1 2026-11-01T12:30:05Z web1 nginx 12 id [a@1 b=\"c\\] d\"][e@1] \u{feff}203.0.113.9",
        "2026-11-01T12:30:05Z 203.0.113.9",
        "2026-11-01T12:30:05Z 10.0.0.7 203.0.113.9",
        "[pod/web-1/nginx] 203.0.113.9",
        "2026-11-01T12:30:05.123456+00:00 web1 nginx[12]: 203.0.113.9",
        "2026-11-01T12:30:05.123456789Z stdout F 203.0.113.9",
        "2026-11-01T12:30:05Z stderr F www.example.com 203.0.113.9",
        "web-1  | 203.0.113.9",
    ] {
        assert_eq!(
            visitor_after(before).as_deref(),
            Some("203.0.113.9"),
            "{before}"
        );
    }
}

/// `%{X-Forwarded-For}i %h %l %u`, as AWS describes it for Apache behind a load balancer.
#[test]
fn an_address_before_that_of_a_proxy_is_the_clients() {
    for proxy in [
        "10.0.0.7",
        "172.31.255.1",
        "192.168.0.1:8080",
        "127.0.0.1",
        "169.254.3.4",
        "100.64.0.1",
        "100.127.255.255",
        "::1",
        "fd00::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.7",
    ] {
        for client in [
            "203.0.113.9",
            "203.0.113.9:42918",
            "203.0.113.9,10.0.0.5",
            "203.0.113.9, 10.0.0.5",
            "2026-11-01T12:30:05Z 203.0.113.9",
        ] {
            let before = format!("{client} {proxy}");
            let visitor = visitor_after(&before);
            assert_eq!(visitor.as_deref(), Some("203.0.113.9"), "{before}");
        }
        let before = format!("192.168.7.8 {proxy}");
        let visitor = visitor_after(&before);
        assert_eq!(visitor.as_deref(), Some("192.168.7.8"), "{before}");
    }
    for (before, client) in [
        // A list is never a virtual host.
        ("203.0.113.9,10.0.0.5 198.51.100.7", "203.0.113.9"),
        ("203.0.113.9, 10.0.0.5 198.51.100.7", "203.0.113.9"),
        // Anybody can send the header, so the address of a public peer counts.
        ("203.0.113.9 198.51.100.7", "198.51.100.7"),
        ("203.0.113.9 172.32.0.1", "172.32.0.1"),
        ("203.0.113.9 100.128.0.1", "100.128.0.1"),
        // A request without the header, such as a health check of the proxy.
        ("- 10.0.0.7", "10.0.0.7"),
        // `%v:%p` of a server without a name.
        ("10.0.0.1:80 10.0.0.5", "10.0.0.5"),
        ("[fd00::1]:443 fd00::5", "fd00::5"),
        ("198.51.100.9:443 10.0.0.5", "10.0.0.5"),
        ("[2001:db8::1]:8080 fd00::5", "fd00::5"),
        ("203.0.113.9:4711 10.0.0.7", "203.0.113.9"),
        ("127.0.1.1 10.0.0.5", "10.0.0.5"),
        ("::1 10.0.0.5", "10.0.0.5"),
        ("www.example.com:443 10.0.0.5", "10.0.0.5"),
    ] {
        assert_eq!(visitor_after(before).as_deref(), Some(client), "{before}");
    }
}

/// `%h (%{X-Forwarded-For}i) %l %u`, as AWS Elastic Beanstalk writes it.
#[test]
fn an_address_in_brackets_behind_that_of_a_proxy_is_the_clients() {
    for (before, client) in [
        ("10.0.0.7 (203.0.113.9)", Some("203.0.113.9")),
        ("10.0.0.7 (203.0.113.9:42918)", Some("203.0.113.9")),
        ("10.0.0.7 (203.0.113.9,10.0.0.5)", Some("203.0.113.9")),
        ("10.0.0.7 (203.0.113.9, 10.0.0.5)", Some("203.0.113.9")),
        (
            "10.0.0.7 (203.0.113.9, 10.0.0.5, 10.0.0.6)",
            Some("203.0.113.9"),
        ),
        ("10.0.0.7 (2001:db8::1)", Some("2001:db8::1")),
        ("::1 ([2001:db8::1]:5000, 10.0.0.5)", Some("2001:db8::1")),
        ("198.51.100.7 (203.0.113.9)", Some("203.0.113.9")),
        ("10.0.0.7 (-)", Some("10.0.0.7")),
        ("10.0.0.7 ()", Some("10.0.0.7")),
        ("10.0.0.7 (unknown, 203.0.113.9)", Some("10.0.0.7")),
        (
            "ip-10-0-0-7.ec2.internal (203.0.113.9)",
            Some("203.0.113.9"),
        ),
        (
            "ip-10-0-0-7.ec2.internal (203.0.113.9, 10.0.0.5)",
            Some("203.0.113.9"),
        ),
        ("ip-10-0-0-7.ec2.internal (-)", None),
        (
            "www.example.com 10.0.0.7 (203.0.113.9)",
            Some("203.0.113.9"),
        ),
        ("www.example.com:443 10.0.0.7 (-)", Some("10.0.0.7")),
        (
            "Nov  1 12:30:05 web1 httpd: 10.0.0.7 (203.0.113.9)",
            Some("203.0.113.9"),
        ),
    ] {
        assert_eq!(visitor_after(before).as_deref(), client, "{before}");
    }
    let user = with_request("GET /x HTTP/1.1").replace("- -", "- a (203.0.113.9) b");
    let hit = read(user.as_bytes()).unwrap();
    assert_eq!(hit.visitor.as_deref(), Some("1.2.3.4"), "a user's name");
}

#[test]
fn a_name_is_no_visitor() {
    for before in [
        "client.example.com",
        "www.example.com client.example.com",
        "-",
        "unknown",
        "unknown, 10.0.0.5",
        "_hidden",
        "unix:",
        "203-0-113-9.isp.example.",
    ] {
        assert_eq!(visitor_after(before), None, "{before}");
    }
}

#[test]
fn an_unknown_prefix_makes_a_line_unreadable() {
    let line = with_request("GET /x HTTP/1.1");
    let rest = line.strip_prefix("1.2.3.4").unwrap();
    for before in [
        "Nov  1 12:30:05 web1 203.0.113.9",
        "a b 203.0.113.9",
        "2026-11-01T12:30:05Z stdout P 203.0.113.9",
        "level=info msg 203.0.113.9 x",
        "MESSAGE=203.0.113.9",
        "for=203.0.113.9;proto=http",
        "\"203.0.113.9\"",
        "\"203.0.113.9, 10.0.0.5\"",
        "203.0.113.9;",
        "http://203.0.113.9",
        "203.0.113.9\t-\t-\t-",
        "10.0.0.7 nginx: 203.0.113.9",
        "10.0.0.7:514 nginx[12]: 203.0.113.9",
        "<13>1 2026-11-01T12:30:05Z web1 nginx 12 id 203.0.113.9",
    ] {
        let line = [before, rest].concat();
        assert!(read(line.as_bytes()).is_err(), "{line}");
    }
}

#[test]
fn a_line_of_docker_is_the_line_that_it_holds() {
    let line = with_request("GET /x HTTP/1.1").replace('"', "\\\"");
    let docker = format!(r#"{{"log":"{line}\n","stream":"stdout","time":"2026-11-01T12:30:05Z"}}"#);
    let hit = read(docker.as_bytes()).unwrap();
    assert_eq!(
        (&*hit.path(), hit.visitor.as_deref()),
        ("/x", Some("1.2.3.4"))
    );
}

#[test]
fn a_mark_is_no_part_of_a_line() {
    let line = ["\u{feff}", &with_request("GET /x HTTP/1.1")].concat();
    assert_eq!(
        read(line.as_bytes()).unwrap().visitor.as_deref(),
        Some("1.2.3.4")
    );
}

#[test]
fn a_line_without_a_request_has_a_status() {
    for (request, status) in [
        ("-", "408"),
        ("", "400"),
        (r"\x16\x03\x01\x02", "400"),
        ("GET", "400"),
    ] {
        let line = format!("1.2.3.4 - - {TIME} \"{request}\" {status} 0 \"-\" \"-\"");
        let hit = read(line.as_bytes()).unwrap();
        assert_eq!(
            (hit.target.is_err(), &*hit.status),
            (true, status),
            "{line}"
        );
    }
}

#[test]
fn a_field_that_the_format_lacks_is_told_from_one_that_is_empty() {
    let common = format!("1.2.3.4 - - {TIME} \"GET /x HTTP/1.1\" 200 5");
    assert_eq!(read(common.as_bytes()).unwrap().user_agent, None);
    let combined = format!("{common} \"-\" \"-\"");
    assert_eq!(
        read(combined.as_bytes()).unwrap().user_agent.as_deref(),
        Some("")
    );
}

#[test]
fn haproxy_writes_no_user_agent_where_others_have_an_empty_one() {
    let haproxy = |referrer| {
        format!(
            "127.0.0.1 - - {TIME} \"GET /x HTTP/1.1\" 200 72 \"{referrer}\" \"\" 50442 452 \"site\" \"site\" \"<NOSRV>\" 0 -1"
        )
    };
    assert_eq!(read(haproxy("").as_bytes()).unwrap().user_agent, None);
    let others = [
        haproxy("https://other.example/"),
        format!("127.0.0.1 - - {TIME} \"GET /x HTTP/1.1\" 200 72 \"\" \"\""),
        format!("127.0.0.1 - - {TIME} \"GET /x HTTP/1.1\" 200 72 \"\" \"\" 0.123 \"site\""),
        format!("127.0.0.1 - - {TIME} \"GET /x HTTP/1.1\" 200 72 \"\" \"\" \"203.0.113.9\""),
    ];
    for line in others {
        assert_eq!(
            read(line.as_bytes()).unwrap().user_agent.as_deref(),
            Some(""),
            "{line}"
        );
    }
}

#[test]
fn traefik_drops_user_agents_unless_it_is_told_to_keep_them() {
    let traefik = |agent: &str, rest: &str| {
        let line =
            format!("203.0.113.9 - - {TIME} \"GET /x HTTP/1.1\" 200 72 \"-\" \"{agent}\"{rest}");
        let hit = read(line.as_bytes()).unwrap();
        hit.user_agent.map(|agent| agent.into_owned())
    };
    let rest = " 17 \"shop@docker\" \"http://10.0.0.2:80\" 3ms";
    assert_eq!(traefik("-", rest), None);
    assert_eq!(traefik("-", " 17 \"-\" \"-\" 0ms"), None);
    assert_eq!(traefik("curl/8.0", rest).as_deref(), Some("curl/8.0"));
    for other in [
        "",
        " 17",
        " \"-\"",
        " 0.003 17 \"a\" \"b\"",
        " 17 \"a\" \"b\" 3.5s",
    ] {
        assert_eq!(traefik("-", other).as_deref(), Some(""), "{other}");
    }
}

#[test]
fn the_request_that_haproxy_could_not_read_has_a_status() {
    let line =
        format!("127.0.0.1 - - {TIME} \"<BADREQ>\" 400 0 \"\" \"\" 50426 446 \"site\" \"site\"");
    let hit = read(line.as_bytes()).unwrap();
    assert_eq!((hit.target.is_err(), &*hit.status), (true, "400"));
}

#[test]
fn a_target_is_one_counter_in_whatever_way_a_server_escapes_it() {
    use tally_logs::formats::{LogFormat, LogLines};
    let json = |text: &str| {
        format!(r#"{{"msec":"1793536205.5","request":"GET {text} HTTP/1.1","status":"200"}}"#)
    };
    let alb = |text: &str| {
        format!(
            "http 2026-11-01T12:30:05Z lb 1.2.3.4:1 - -1 -1 -1 200 - 1 2 \"GET {text} HTTP/1.1\" \"a\\\"b\""
        )
    };
    let haproxy = |text: &str| {
        format!(
            "1.2.3.4 - - {TIME} \"GET {text} HTTP/1.1\" 200 72 \"\" \"\" 50442 452 \"site\" \"site\""
        )
    };
    let caddy = |text: &str| {
        format!(
            r#"{{"logger":"http.log.access","ts":1793536205,"request":{{"method":"GET","uri":"{text}"}},"status":200}}"#
        )
    };
    for (format, line) in [
        (
            LogFormat::Clf,
            with_request(r"GET /a\x22\x5C\xC3\xA9%7E~ HTTP/1.1"),
        ),
        (
            LogFormat::Clf,
            with_request(r#"GET /a\"\\\xc3\xa9%7E~ HTTP/1.1"#),
        ),
        (LogFormat::Clf, haproxy("/a#22#5C#C3#A9%7E~")),
        (LogFormat::Caddy, caddy(r#"/a\"\\é%7E~"#)),
        (LogFormat::NginxJson, json(r#"/a\"\\é%7E~"#)),
        (LogFormat::NginxJson, json(r"/a\x22\x5C\xC3\xA9%7E~")),
        (LogFormat::Alb, alb(r"/a\x22\x5C\xC3\xA9%7E~")),
    ] {
        let hit = LogLines::new(format, "")
            .read(line.as_bytes())
            .unwrap()
            .unwrap();
        assert_eq!(hit.path(), "/a\"\\é%7E~", "{line}");
    }
}
