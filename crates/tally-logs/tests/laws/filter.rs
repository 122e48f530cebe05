//! Page views count; what is left out is left out for its reason.

use tally_logs::filter::{Filter, Paths, Reason, STATIC, Statuses};
use tally_logs::hit::Hit;
use tally_logs::user_agent::Agents;

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

fn filter(status: &str, methods: &[&str], all: bool) -> Filter {
    Filter {
        statuses: Statuses::parse(status).unwrap(),
        methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        bots: all,
        statics: all,
        agents: Agents::default(),
    }
}

fn reason(path: &str, change: impl FnOnce(&mut Hit<'static>)) -> [Option<Reason>; 2] {
    let mut hit = Hit::at(0, Ok("/a".into()));
    (hit.status, hit.method, hit.user_agent) = ("200".into(), "GET".into(), Some(FIREFOX.into()));
    change(&mut hit);
    let page = hit.page().map(|_| path);
    let views = filter("200-299,304", &["GET"], false).reason(&hit, page);
    [views, filter("any", &[], true).reason(&hit, page)]
}

#[test]
fn each_line_that_is_no_page_view_has_a_reason() {
    assert_eq!(reason("/a", |_| {}), [None, None]);
    assert_eq!(reason("/a", |hit| hit.status = "304".into()), [None, None]);
    assert_eq!(
        reason("/a", |hit| hit.status = "404".into()),
        [Some(Reason::Status), None]
    );
    assert_eq!(
        reason("/a", |hit| hit.method = "POST".into()),
        [Some(Reason::Method), None]
    );
    for path in ["/a.css", "/b/c.JS", "/favicon.ico", "/x.min.js.map"] {
        assert_eq!(reason(path, |_| {}), [Some(Reason::Static), None], "{path}");
    }
    for path in ["/", "/a.html", "/v1.2", "/js", "/feed.xml"] {
        assert_eq!(reason(path, |_| {}), [None, None], "{path}");
    }
    for agent in ["curl/8.0", "", "kube-probe/1.30"] {
        assert_eq!(
            reason("/a", |hit| hit.user_agent = Some(agent.into())),
            [Some(Reason::Bots), None],
            "{agent}"
        );
    }
    // What a line does not say leaves nothing out.
    assert_eq!(reason("/a", |hit| hit.user_agent = None), [None, None]);
    assert_eq!(
        reason("/a", |hit| (hit.status, hit.method) =
            ("".into(), "".into())),
        [None, None]
    );
}

#[test]
fn the_guide_lists_the_files_that_pages_load() {
    let guide = include_str!("../../../../docs/guide/command.md");
    let (_, section) = guide.split_once("### Files that pages load\n").unwrap();
    let (section, _) = section.split_once("\nIf such paths").unwrap();
    let mut listed: Vec<&str> = section
        .split("`.")
        .skip(1)
        .filter_map(|rest| rest.split('`').next())
        .collect();
    let mut known = STATIC.to_vec();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

#[test]
fn a_line_without_a_request_is_left_out_by_its_status() {
    let without = |status: &'static str| {
        reason("/a", |hit| {
            (hit.target, hit.status) = (Err("no request"), status.into())
        })
    };
    assert_eq!(
        without("408"),
        [Some(Reason::Status), Some(Reason::Request)]
    );
    assert_eq!(
        without("400"),
        [Some(Reason::Status), Some(Reason::Request)]
    );
}

#[test]
fn only_a_status_that_is_missing_or_a_dash_leaves_nothing_out() {
    use tally_logs::formats::{LogFormat, LogLines};
    let clf = |rest: &str| {
        let line = r#"203.0.113.9 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1""#;
        (LogFormat::Clf, [line, rest].concat())
    };
    let alb = |status: &str| {
        let line = format!(
            "http 2026-11-01T12:30:05Z lb 203.0.113.9:1 - -1 -1 -1 {status} - 1 2 \"GET /a HTTP/1.1\" \"{FIREFOX}\""
        );
        (LogFormat::Alb, line)
    };
    let w3c = |status: &str| {
        let line = format!(
            "2026-11-01\t12:30:05\tX\t1\t203.0.113.9\tGET\th\t/a\t{status}\t-\t{FIREFOX}\t-"
        );
        (LogFormat::Cloudfront, line)
    };
    let caddy = |status: &str| {
        let line = format!(
            r#"{{"logger":"http.log.access","ts":1793536205,"request":{{"method":"GET","uri":"/a"}},"status":{status}}}"#
        );
        (LogFormat::Caddy, line)
    };
    let nginx = |status: &str| {
        let line =
            format!(r#"{{"msec":"1793536205.5","request":"GET /a HTTP/1.1","status":{status}}}"#);
        (LogFormat::NginxJson, line)
    };
    let logpush = |status: &str| {
        let line = format!(
            r#"{{"ClientRequestURI":"/a","EdgeStartTimestamp":1793536205,"EdgeResponseStatus":{status}}}"#
        );
        (LogFormat::Logpush, line)
    };
    let reason = |(format, line): (LogFormat, String)| {
        let mut lines = LogLines::new(format, "");
        let hit = lines.read(line.as_bytes()).unwrap().unwrap();
        filter("200-299", &["GET"], false).reason(&hit, Some("/a"))
    };
    let agent = format!(" \"-\" \"{FIREFOX}\"");
    for counted in ["", " -", " - -", " 200 5", &agent] {
        assert_eq!(reason(clf(counted)), None, "{counted}");
    }
    assert_eq!([reason(alb("-")), reason(w3c("-"))], [None; 2]);
    for status in ["0", "-1", "000", "20", "2000", "499"] {
        let quoted = format!("\"{status}\"");
        for line in [
            clf(&format!(" {status} 0{agent}")),
            alb(status),
            w3c(status),
            caddy(&quoted),
            nginx(&quoted),
            logpush(&quoted),
        ] {
            assert_eq!(reason(line.clone()), Some(Reason::Status), "{}", line.1);
        }
    }
}

#[test]
fn a_request_for_no_page_is_left_out_because_its_id_would_be_no_path() {
    use tally_logs::formats::{LogFormat, LogLines};
    let clf = |request: &str| {
        format!("203.0.113.9 - - [17/May/2015:10:05:03 +0000] \"{request}\" 200 1 \"-\" \"x\"")
    };
    let caddy = |method: &str, uri: &str| {
        format!(
            r#"{{"logger":"http.log.access","ts":1793536205,"request":{{"method":"{method}","uri":"{uri}"}},"status":200}}"#
        )
    };
    let nginx = |request: &str| {
        format!(r#"{{"msec":"1793536205.5","request":"{request}","status":"200"}}"#)
    };
    let alb = |request: &str| {
        format!(
            "http 2026-11-01T12:30:05Z lb 203.0.113.9:1 - -1 -1 -1 200 - 1 2 \"{request}\" \"x\""
        )
    };
    let w3c = |method: &str, stem: &str| {
        format!("2026-11-01\t12:30:05\tX\t1\t203.0.113.9\t{method}\th\t{stem}\t200\t-\tx\t-")
    };
    let logpush = |target: &str| {
        format!(
            r#"{{"ClientRequestURI":"{target}","ClientRequestPath":"{target}","EdgeStartTimestamp":1793536205}}"#
        )
    };
    for (format, line) in [
        (LogFormat::Clf, clf("CONNECT shop.example:443 HTTP/1.1")),
        (LogFormat::Clf, clf("OPTIONS * HTTP/1.1")),
        (LogFormat::Clf, clf("PRI * HTTP/2.0")),
        (LogFormat::Clf, clf("connect shop.example:443 HTTP/1.1")),
        (LogFormat::Clf, clf("GET shop.example:443 HTTP/1.1")),
        (LogFormat::Clf, clf("GET about:blank HTTP/1.1")),
        (LogFormat::Clf, clf("GET .. HTTP/1.1")),
        (LogFormat::Clf, clf("t3 12.2.1")),
        (LogFormat::Caddy, caddy("CONNECT", "shop.example:443")),
        (LogFormat::Caddy, caddy("OPTIONS", "*")),
        (
            LogFormat::NginxJson,
            nginx("CONNECT shop.example:443 HTTP/1.1"),
        ),
        (LogFormat::NginxJson, nginx("OPTIONS * HTTP/1.1")),
        (LogFormat::Alb, alb("CONNECT shop.example:443 HTTP/1.1")),
        (LogFormat::Alb, alb("OPTIONS * HTTP/1.1")),
        (LogFormat::Cloudfront, w3c("OPTIONS", "*")),
        (LogFormat::Logpush, logpush("*")),
        (LogFormat::Logpush, logpush("shop.example:443")),
    ] {
        let hit = LogLines::new(format, "")
            .read(line.as_bytes())
            .unwrap()
            .unwrap();
        let page = hit.page().map(|(path, _)| path.to_owned());
        assert_eq!(page, None, "{line}");
        assert_eq!(
            filter("any", &[], true).reason(&hit, None),
            Some(Reason::Request)
        );
    }
}

#[test]
fn a_request_of_any_method_for_a_path_is_one_for_a_page() {
    // CONNECT opens a WebSocket over HTTP/2. Source: RFC 8441, section 5.
    let line = r#"203.0.113.9 - - [17/May/2015:10:05:03 +0000] "CONNECT /chat HTTP/2.0" 200 1"#;
    let hit = tally_logs::formats::clf::read(line.as_bytes()).unwrap();
    assert_eq!(hit.page(), Some(("/chat", "")));
}

#[test]
fn statuses_are_a_list_of_ranges() {
    assert!(Statuses::parse("any").is_some() && Statuses::parse("200-299,304").is_some());
    for wrong in ["2xx", "", "200-", "299-200", "20", "200,", "-200", "2000"] {
        assert_eq!(Statuses::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn paths_of_one_page_become_one_by_a_rule() {
    let same = [
        "/a",
        "/a/",
        "/a/index.html",
        "/",
        "/index.html",
        "/b.html",
        "/c/index.htm",
    ];
    for (rule, expected) in [
        ("keep", same),
        ("strip", ["/a", "/a", "/a", "/", "/", "/b.html", "/c"]),
        ("add", ["/a/", "/a/", "/a/", "/", "/", "/b.html", "/c/"]),
    ] {
        let rule = Paths::named(rule).unwrap();
        assert_eq!(same.map(|path| rule.apply(path).into_owned()), expected);
    }
    assert_eq!(Paths::named("none"), None);
}
