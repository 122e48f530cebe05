//! Which browser and device real user agents are told as.

use tally_api::batch::ingest::Ingest;
use tally_logs::bots::is_bot;
use tally_logs::fields::LogField;
use tally_logs::formats::clf;
use tally_logs::user_agent::{browser, device};

const KHTML: &str = "(KHTML, like Gecko)";

/// User agents with WebKit's form: the system, the version of WebKit and what follows; then browser and device.
const OF_WEBKIT: &[(&str, &str, &str, &str, &str)] = &[
    (
        "Windows NT 10.0; Win64; x64",
        "537.36",
        "Chrome/126.0.0.0 Safari/537.36",
        "Chrome",
        "desktop",
    ),
    (
        "Windows NT 10.0; Win64; x64",
        "537.36",
        "Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0",
        "Edge",
        "desktop",
    ),
    (
        "Windows NT 10.0; Win64; x64",
        "537.36",
        "Chrome/124.0.0.0 Safari/537.36 OPR/110.0.0.0",
        "Opera",
        "desktop",
    ),
    (
        "Macintosh; Intel Mac OS X 10_15_7",
        "605.1.15",
        "Version/17.5 Safari/605.1.15",
        "Safari",
        "desktop",
    ),
    (
        "iPhone; CPU iPhone OS 17_5 like Mac OS X",
        "605.1.15",
        "Version/17.5 Mobile/15E148 Safari/604.1",
        "Safari",
        "phone",
    ),
    (
        "iPhone; CPU iPhone OS 17_5 like Mac OS X",
        "605.1.15",
        "CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1",
        "Chrome",
        "phone",
    ),
    (
        "iPhone; CPU iPhone OS 17_5 like Mac OS X",
        "605.1.15",
        "FxiOS/127.0 Mobile/15E148 Safari/605.1.15",
        "Firefox",
        "phone",
    ),
    (
        "iPad; CPU OS 16_6 like Mac OS X",
        "605.1.15",
        "Version/16.6 Mobile/15E148 Safari/604.1",
        "Safari",
        "tablet",
    ),
    (
        "Linux; Android 10; K",
        "537.36",
        "Chrome/126.0.0.0 Mobile Safari/537.36",
        "Chrome",
        "phone",
    ),
    (
        "Linux; Android 13; SM-X200",
        "537.36",
        "Chrome/126.0.0.0 Safari/537.36",
        "Chrome",
        "tablet",
    ),
    (
        "Linux; Android 14; SAMSUNG SM-S918B",
        "537.36",
        "SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile Safari/537.36",
        "Samsung Internet",
        "phone",
    ),
    (
        "X11; CrOS x86_64 14541.0.0",
        "537.36",
        "Chrome/126.0.0.0 Safari/537.36",
        "Chrome",
        "desktop",
    ),
    (
        "iPhone; CPU iPhone OS 17_5 like Mac OS X",
        "605.1.15",
        "Mobile/15E148",
        "Web view",
        "phone",
    ),
    (
        "Macintosh; Intel Mac OS X 10_15_7",
        "605.1.15",
        "Version/17.4 Safari/605.1.15 Ddg/17.4",
        "DuckDuckGo",
        "desktop",
    ),
];

/// Other user agents, with browser and device.
const OF_OTHERS: &[(&str, &str, &str)] = &[
    (
        "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0",
        "Firefox",
        "phone",
    ),
    (
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
        "Firefox",
        "desktop",
    ),
    (
        "Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko",
        "Internet Explorer",
        "desktop",
    ),
    (
        "Opera/9.80 (Windows NT 6.1; WOW64) Presto/2.12.388 Version/12.16",
        "Opera",
        "desktop",
    ),
    (
        "Opera/9.80 (J2ME/MIDP; Opera Mini/9.80) Presto/2.5.25",
        "Opera",
        "phone",
    ),
];

#[test]
fn real_user_agents_are_told_as_they_are() {
    let of_webkit = OF_WEBKIT
        .iter()
        .map(|(system, version, rest, family, kind)| {
            let agent = format!("Mozilla/5.0 ({system}) AppleWebKit/{version} {KHTML} {rest}");
            (agent, family, kind)
        });
    let others = OF_OTHERS.iter();
    let others = others.map(|(agent, family, kind)| ((*agent).to_owned(), family, kind));
    for (user_agent, family, kind) in of_webkit.chain(others) {
        assert_eq!(browser(&user_agent), Some(*family), "{user_agent}");
        assert_eq!(device(&user_agent), Some(*kind), "{user_agent}");
    }
    let crawler = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    assert_eq!((browser(crawler), device(crawler)), (Some("Bot"), None));
    assert_eq!((browser(""), device("-")), (None, None));
    assert_eq!(browser("Something (Else; x)"), Some("Other"));
    assert_eq!(browser(&"ü".repeat(2_000)), Some("Other"));
}

#[test]
fn most_of_a_real_log_is_known() {
    let log = include_str!("../fixtures/access.log");
    let (mut people, mut others, mut without) = (0, 0, 0);
    for line in log.lines() {
        let line = clf::read(line.as_bytes()).expect("a line");
        let user_agent = line.user_agent.as_deref().expect("a user agent");
        if is_bot(user_agent) {
            continue;
        }
        people += 1;
        others += u32::from(browser(user_agent) == Some("Other"));
        without += u32::from(device(user_agent).is_none());
    }
    assert!(people > 1_000, "{people}");
    assert!(
        50 * others < people,
        "{others} of {people} browsers are others"
    );
    assert!(
        50 * without < people,
        "{without} of {people} have no device"
    );
}

fn dimensions_of(
    query: (&str, Option<&str>, &str, Option<&str>),
    line: &str,
) -> Vec<(String, String)> {
    let (format, key, by, site) = query;
    let ingest =
        Ingest::from_query(Some(format), key, None).and_then(|it| it.saying(Some(by), site));
    let ingest = ingest.expect("a query");
    let record = ingest
        .read(line.as_bytes())
        .expect("a line")
        .expect("a record");
    let dimensions = record.dimensions.iter();
    dimensions
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    owned.collect()
}

#[test]
fn lines_of_logs_say_what_is_asked_of_them() {
    const ALL: &str = "page,referrer,status,method,browser,device,utm_source";
    let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
    let line = |referrer: &str, agent: &str| {
        format!(
            r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a?b=1&utm_source=mail HTTP/1.1" 200 5 "{referrer}" "{agent}""#
        )
    };
    let clf = ("clf", None, ALL, Some("example.com"));
    assert_eq!(
        dimensions_of(
            clf,
            &line("https://www.News.example:8080/x?y=secret", firefox)
        ),
        pairs(&[
            ("browser", "Firefox"),
            ("device", "desktop"),
            ("method", "GET"),
            ("page", "/a"),
            ("referrer", "news.example"),
            ("status", "200"),
            ("utm_source", "mail"),
        ])
    );
    let referrer = |address: &str| {
        dimensions_of(
            ("clf", None, "referrer", Some("example.com")),
            &line(address, "-"),
        )
    };
    for own in [
        "-",
        "http://example.com/x",
        "https://WWW.example.com",
        "about:blank",
        "nonsense",
        "https:///x",
        "http://a b/",
    ] {
        assert_eq!(referrer(own), [], "{own}");
    }
    assert_eq!(
        referrer("https://user:pass@other.example/"),
        pairs(&[("referrer", "other.example")])
    );
    assert_eq!(
        referrer("android-app://com.google.android.gm/"),
        pairs(&[("referrer", "com.google.android.gm")])
    );
    // Of Common Log Format there is no more than the request and the status.
    let common = r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 404 -"#;
    assert_eq!(
        dimensions_of(clf, common),
        pairs(&[("method", "GET"), ("page", "/a"), ("status", "404")])
    );
    let logpush = r#"{"ClientRequestPath":"/a","ClientRequestURI":"/a?utm_source=x","EdgeStartTimestamp":1431857103,"ClientRequestMethod":"POST","EdgeResponseStatus":503,"ClientRequestReferer":"https://t.co/","ClientRequestUserAgent":null,"ClientCountry":"de"}"#;
    let by = "page,referrer,status,method,browser,device,utm_source,country";
    assert_eq!(
        dimensions_of(("logpush", None, by, None), logpush),
        pairs(&[
            ("country", "DE"),
            ("method", "POST"),
            ("page", "/a"),
            ("referrer", "t.co"),
            ("status", "503"),
            ("utm_source", "x"),
        ])
    );
}

#[test]
fn a_site_is_one_counter_and_bad_lists_are_refused() {
    let ingest = Ingest::from_query(Some("clf"), Some("site"), None).expect("a query");
    assert!(ingest.clone().saying(None, None).is_err());
    let ingest = ingest
        .saying(Some("page"), Some("example.com"))
        .expect("a query");
    let line = br#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 -"#;
    let record = ingest.read(line).expect("a line").expect("a record");
    assert_eq!(
        (&*record.key, record.dimensions.get("page")),
        ("example.com", Some("/a"))
    );
    for by in ["", "page,page", "agent", "page,", "Page", "country"] {
        let ingest = Ingest::from_query(Some("clf"), None, None).expect("a query");
        assert!(ingest.saying(Some(by), None).is_err(), "{by:?}");
    }
    let ndjson = || Ingest::from_query(Some("ndjson"), None, None).expect("a query");
    assert!(ndjson().saying(Some("page"), None).is_err());
    assert!(ndjson().saying(None, Some("a")).is_err());
    // A body without asks for what it always did.
    let plain = ndjson().saying(None, None).expect("a query");
    assert_eq!(plain.query_values(), ["ndjson", "path", "none"]);
    assert_eq!(
        ingest.query_values(),
        ["clf", "site", "none", "example.com", "page"]
    );
    assert_eq!(LogField::ALL.map(LogField::name).len(), 8);
}
