//! Page views count; what is left out is left out for its reason.

use std::collections::HashMap;

use tally_logs::filter::{Filter, Paths, Reason, Statuses};
use tally_logs::hit::Hit;

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

fn filter(status: &str, methods: &[&str], all: bool) -> Filter {
    Filter {
        statuses: Statuses::parse(status).unwrap(),
        methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        bots: all,
        statics: all,
        agents: HashMap::new(),
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
