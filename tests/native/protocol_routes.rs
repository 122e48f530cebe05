//! Law: a method and a path are one call or a refusal that says what is known; an id is decoded
//! strictly, once.

use crate::common;

use common::config;
use proptest::prelude::*;
use tally_api::routes::{ROUTES, Route, allow_of, resolve};
use tally_core::counter::id::CounterId;
use tally_wire::names::alert::{AlertName, AlertNames};
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::Code;
use tally_wire::rights::{KeyId, ShareId};
use tally_wire::segment::decode_segment;

fn id(text: &str) -> CounterId {
    CounterId::parse(text).expect("a counter id")
}

fn policy(text: &str) -> PolicyName {
    PolicyName::parse(text).expect("a policy's name")
}

fn pattern(text: &str) -> OverridePattern {
    OverridePattern::parse(text).expect("a pattern")
}

fn alert(text: &str) -> AlertName {
    AlertName::parse(text).expect("an alert's name")
}

/// The code of a refusal with its `Allow`.
fn refusal(method: &str, path: &str) -> (Code, Option<String>) {
    let refused = resolve(method, path).expect_err("a refusal");
    (refused.problem.code(), refused.allow)
}

/// A method, a path, and what is called by it.
type Call = (&'static str, &'static str, Route);

fn calls_of_counters() -> Vec<Call> {
    vec![
        ("POST", "/counters/a/increment", Route::Increment(id("a"))),
        ("POST", "/counters/a/decrement", Route::Decrement(id("a"))),
        ("GET", "/counters/a", Route::Read(id("a"))),
        ("PUT", "/counters/a", Route::Put(id("a"))),
        ("DELETE", "/counters/a", Route::Delete(id("a"))),
        ("PUT", "/counters/a/value", Route::Set(id("a"))),
        ("GET", "/counters/a/history", Route::History(id("a"))),
        (
            "GET",
            "/counters/a/distribution",
            Route::Distribution(id("a")),
        ),
        ("GET", "/counters/a/breakdown", Route::Breakdown(id("a"))),
        ("GET", "/counters", Route::List),
        ("GET", "/top", Route::Top),
        // A star is encoded by some clients and not by others, and means the same.
        ("GET", "/counters/a%2A/history", Route::History(id("a*"))),
        ("GET", "/counters/a*/history", Route::History(id("a*"))),
        ("GET", "/counters/a*/breakdown", Route::Breakdown(id("a*"))),
        (
            "GET",
            "/counters/a*/aggregate/breakdown",
            Route::PrefixBreakdown("a".to_owned()),
        ),
        (
            "GET",
            "/counters/a*/aggregate/history",
            Route::PrefixHistory("a".to_owned()),
        ),
        (
            "GET",
            "/counters/a*/aggregate",
            Route::Aggregate("a".to_owned()),
        ),
        ("PUT", "/counters/a/uniques/hll", Route::ImportHll(id("a"))),
    ]
}

fn calls_of_all() -> Vec<Call> {
    vec![
        ("GET", "/uniques", Route::Uniques),
        ("POST", "/uniques/rotate", Route::Rotate),
        ("GET", "/export", Route::Export),
        ("POST", "/import", Route::Import),
        ("GET", "/snapshots", Route::Snapshots),
        ("POST", "/snapshots", Route::MakeSnapshot),
        (
            "POST",
            "/snapshots/2026-11-01/restore",
            Route::Restore("2026-11-01".to_owned()),
        ),
        ("POST", "/repair", Route::Repair),
        ("POST", "/events", Route::Events),
        ("POST", "/ingest", Route::Ingest),
        ("POST", "/api/event", Route::Event),
        ("GET", "/api/counter", Route::Count),
        ("GET", "/api/dead-letters", Route::DeadLetters),
    ]
}

fn calls_of_settings() -> Vec<Call> {
    vec![
        ("GET", "/keys", Route::ListKeys),
        ("POST", "/keys", Route::MakeKey),
        ("GET", "/keys/00000000000000ff", Route::GetKey(KeyId(255))),
        (
            "PATCH",
            "/keys/00000000000000ff",
            Route::ChangeKey(KeyId(255)),
        ),
        (
            "DELETE",
            "/keys/00000000000000ff",
            Route::RevokeKey(KeyId(255)),
        ),
        (
            "POST",
            "/keys/00000000000000ff/rotate",
            Route::RotateKey(KeyId(255)),
        ),
        ("GET", "/audit", Route::Audit),
        ("GET", "/shares", Route::ListShares),
        ("POST", "/shares", Route::CreateShare),
        (
            "DELETE",
            "/shares/00000000000000ff",
            Route::RevokeShare(ShareId(255)),
        ),
        ("GET", "/alerts", Route::ListAlerts),
        (
            "GET",
            "/alerts/*/deliveries",
            Route::Deliveries(AlertNames::All),
        ),
        ("GET", "/alerts/a", Route::GetAlert(alert("a"))),
        ("PUT", "/alerts/a", Route::PutAlert(alert("a"))),
        ("DELETE", "/alerts/a", Route::DeleteAlert(alert("a"))),
        (
            "GET",
            "/alerts/a/deliveries",
            Route::Deliveries(AlertNames::One(alert("a"))),
        ),
        ("POST", "/alerts/a/silence", Route::SilenceAlert(alert("a"))),
        ("POST", "/alerts/a/test", Route::TestAlert(alert("a"))),
        ("GET", "/limits", Route::ListPolicies),
        ("POST", "/limits", Route::CheckMany),
        ("GET", "/limits/p", Route::GetPolicy(policy("p"))),
        ("PUT", "/limits/p", Route::PutPolicy(policy("p"))),
        ("DELETE", "/limits/p", Route::DeletePolicy(policy("p"))),
        ("GET", "/limits/p/a", Route::Peek(policy("p"), id("a"))),
        (
            "GET",
            "/limits/p/history",
            Route::Peek(policy("p"), id("history")),
        ),
        ("POST", "/limits/p/a", Route::Check(policy("p"), id("a"))),
        ("DELETE", "/limits/p/a", Route::Forget(policy("p"), id("a"))),
        (
            "POST",
            "/limits/p/a%2Fb/refund",
            Route::Refund(policy("p"), id("a/b")),
        ),
    ]
}

fn calls_of_overrides() -> Vec<Call> {
    vec![
        (
            "GET",
            "/limits/p/overrides",
            Route::ListOverrides(policy("p")),
        ),
        (
            "GET",
            "/limits/p/overrides/acme-*",
            Route::GetOverride(policy("p"), pattern("acme-*")),
        ),
        (
            "PUT",
            "/limits/p/overrides/a%2Fb%2A",
            Route::PutOverride(policy("p"), pattern("a/b*")),
        ),
        (
            "DELETE",
            "/limits/p/overrides/acme",
            Route::DeleteOverride(policy("p"), pattern("acme")),
        ),
        // A key of that name.
        (
            "POST",
            "/limits/p/overrides",
            Route::Check(policy("p"), id("overrides")),
        ),
        (
            "GET",
            "/limits/p/%6Fverrides",
            Route::Peek(policy("p"), id("overrides")),
        ),
    ]
}

fn calls_of_boards() -> Vec<Call> {
    vec![
        ("GET", "/boards", Route::Boards),
        ("GET", "/boards/a", Route::AboutBoard(id("a"))),
        ("PUT", "/boards/a", Route::PutBoard(id("a"))),
        ("DELETE", "/boards/a", Route::DeleteBoard(id("a"))),
        ("GET", "/boards/a/members", Route::Members(id("a"))),
        ("POST", "/boards/a/members", Route::WriteMembers(id("a"))),
        (
            "GET",
            "/boards/a/members/b%2Fc",
            Route::Member(id("a"), id("b/c")),
        ),
        (
            "POST",
            "/boards/a/members/b%2Fc",
            Route::WriteMember(id("a"), id("b/c")),
        ),
        (
            "DELETE",
            "/boards/a/members/b%2Fc",
            Route::RemoveMember(id("a"), id("b/c")),
        ),
    ]
}

fn calls_of_pages() -> Vec<Call> {
    vec![
        (
            "GET",
            "/gate/p,q;key=x",
            Route::Gate("p,q;key=x".to_owned()),
        ),
        // A proxy sends its client's method, and its path below.
        ("DELETE", "/gate/p/%zz/..", Route::Gate("p".to_owned())),
        ("PUT", "/gate/", Route::Gate(String::new())),
        ("GET", "/pixel/a.gif", Route::Pixel(id("a"))),
        ("GET", "/hit/a", Route::Hit(id("a"))),
        ("GET", "/hit/site/a%2Fb", Route::Hit(id("site/a/b"))),
        ("GET", "/badge/a%2Fb.svg.svg", Route::Badge(id("a/b.svg"))),
        ("GET", "/tally.js", Route::Script),
        ("GET", "/metrics", Route::Metrics),
        ("GET", "/dashboard", Route::Dashboard(None)),
        ("GET", "/dashboard/", Route::Dashboard(Some(String::new()))),
        (
            "GET",
            "/dashboard/app.js",
            Route::Dashboard(Some("app.js".to_owned())),
        ),
        ("GET", "/healthz", Route::Health),
        ("GET", "/openapi.json", Route::OpenApi),
        ("GET", "/", Route::Index),
    ]
}

#[test]
fn every_call_is_found() {
    let calls = [
        calls_of_counters(),
        calls_of_all(),
        calls_of_settings(),
        calls_of_overrides(),
        calls_of_boards(),
        calls_of_pages(),
    ];
    for (method, path, route) in calls.concat() {
        assert_eq!(resolve(method, path), Ok(route.clone()), "{method} {path}");
        if method == "GET" {
            assert_eq!(resolve("HEAD", path), Ok(route), "HEAD {path}");
        }
    }
}

#[test]
fn each_template_knows_its_methods_and_no_other() {
    for template in ROUTES.iter().map(|row| row.template) {
        if template == "/gate/{policies}" {
            // It knows every method.
            continue;
        }
        let rows = ROUTES.iter().filter(|row| row.template == template);
        let mut methods: Vec<&str> = rows.map(|row| row.method).collect();
        if template == "/limits/{policy}/overrides" {
            // A key of that name is checked and forgotten.
            methods.extend(["POST", "DELETE"]);
        }
        let parameters = [
            "{id}",
            "{prefix}",
            "{policy}",
            "{key}",
            "{board}",
            "{member}",
            "{rank}",
            "{alert}",
            "{hold}",
            "{pattern}",
            "{/file}",
        ];
        let with_hold = template.replace("{hold}", "0f5c1f2f6dd54ec2a5a3c8d6b1d1a7c4");
        let path = parameters.iter().fold(with_hold, |path, name| {
            path.replace(
                name,
                match *name {
                    "{/file}" => "/x",
                    "{hold}" => "000000000000000000000000000000ff",
                    _ => "00000000000000ff",
                },
            )
        });
        let mut allow = methods.join(", ");
        if methods.contains(&"GET") {
            allow.push_str(", HEAD");
        }
        allow.push_str(", OPTIONS");
        assert_eq!(allow_of(&path), Some(allow.clone()), "{template}");
        for method in [
            "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "get", "",
        ] {
            let looked_up = if method == "HEAD" { "GET" } else { method };
            if methods.contains(&looked_up) {
                assert!(resolve(method, &path).is_ok(), "{method} {path}");
            } else {
                let expected = (Code::MethodNotAllowed, Some(allow.clone()));
                assert_eq!(refusal(method, &path), expected, "{method} {path}");
            }
        }
    }
}

/// The parts of a template, and whether more parts may follow.
fn parts_of(template: &str) -> (Vec<&str>, bool) {
    let is_open = ["/gate/{policies}", "/hit/{id}"].contains(&template);
    let (parts, rest) = match template.strip_suffix("{/file}") {
        Some(folder) => (folder, true),
        None => (template, is_open),
    };
    (parts.split('/').collect(), rest)
}

/// Whether some text is both parts. What stands before a parameter's ending may be any text.
fn parts_meet(one: &str, other: &str) -> bool {
    let ending = |part: &str| part.split_once('}').map(|(_, ending)| ending.to_owned());
    match (ending(one), ending(other)) {
        (None, None) => one == other,
        (Some(ending), None) => other.ends_with(&ending),
        (None, Some(ending)) => one.ends_with(&ending),
        (Some(one), Some(other)) => one.ends_with(&other) || other.ends_with(&one),
    }
}

/// Whether some path is of both templates.
fn templates_meet(one: &str, other: &str) -> bool {
    let ((one, is_open), (other, is_other_open)) = (parts_of(one), parts_of(other));
    let is_as_long = one.len() == other.len()
        || (is_open && one.len() < other.len())
        || (is_other_open && other.len() < one.len());
    let mut both = one.iter().zip(&other);
    is_as_long && both.all(|(one, other)| parts_meet(one, other))
}

#[test]
fn no_path_is_of_two_templates() {
    // What the law says of templates that meet, and of those that differ.
    assert!(templates_meet(
        "/counters/{prefix}*/history",
        "/counters/{id}/history"
    ));
    assert!(templates_meet(
        "/limits/{policy}/history",
        "/limits/{policy}/{key}"
    ));
    assert!(templates_meet("/dashboard{/file}", "/dashboard/{page}/x"));
    assert!(!templates_meet("/counters/{id}", "/counters/{id}/history"));
    let mut templates: Vec<&str> = ROUTES.iter().map(|row| row.template).collect();
    templates.sort_unstable();
    templates.dedup();
    assert!(templates.len() > 40, "{}", templates.len());
    for (at, one) in templates.iter().enumerate() {
        for other in &templates[at + 1..] {
            // A key of the name `overrides` is looked at as `%6Fverrides`, and its other calls have other methods.
            let is_of_overrides =
                |template: &str| template.starts_with("/limits/{policy}/overrides");
            let may_meet = is_of_overrides(one) && other.starts_with("/limits/{policy}/{key}");
            assert!(may_meet || !templates_meet(one, other), "{one} and {other}");
            // A proxy may take the last slash away, or make the letters small.
            let plain = |template: &str| template.trim_end_matches('/').to_lowercase();
            assert_ne!(plain(one), plain(other));
        }
    }
}

#[test]
fn a_path_without_a_part_is_no_call_so_that_a_proxy_may_join_slashes() {
    for row in ROUTES {
        let is_whole = !row.template.contains('{');
        // A prefix may be empty. The others are read by their handlers.
        let others = ["{prefix}", "{policies}", "{/file}", "{code}", "{date}"];
        if is_whole || others.iter().any(|name| row.template.contains(name)) {
            continue;
        }
        let begins = row.template.find('{').expect("a parameter");
        let ends = row.template.find('}').expect("its end");
        let path = [&row.template[..begins], &row.template[ends + 1..]].concat();
        let path = path
            .replace("{key}", "a")
            .replace("{member}", "a")
            .replace("{hold}", "a");
        let refused = resolve(row.method, &path).expect_err(&path);
        let code = refused.problem.code();
        assert!(
            code.status() < 500 && code != Code::MethodNotAllowed,
            "{path}: {code:?}"
        );
    }
}

#[test]
fn a_wrong_method_is_told_as_it_was_sent() {
    let refused = resolve("HEAD", "/events").expect_err("a refusal");
    assert!(
        refused.problem.detail().ends_with("not HEAD"),
        "{}",
        refused.problem
    );
    let refused = resolve("PATCH", "/counters/a").expect_err("a refusal");
    let detail = "/counters/{id} knows GET, PUT, DELETE, HEAD, OPTIONS, not PATCH";
    assert_eq!(refused.problem.detail(), detail);
}

#[test]
fn other_paths_are_not_found() {
    for path in [
        "",
        "//",
        "counters",
        "/counter",
        "/Counters/a",
        "/counters/a/",
        "/counters/a/b",
        "/counters/a/increment/",
        "/counters/a/increment/x",
        "/counters//a/increment",
        "//counters",
        "/counters/a/aggregate",
        "/counters/a%2A/aggregate",
        "/uniques/a",
        "/healthz/",
        "/metrics/",
        "/openapi.yaml",
        "/events/",
    ] {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            assert_eq!(
                refusal(method, path),
                (Code::NotFound, None),
                "{method} {path:?}"
            );
        }
        assert_eq!(allow_of(path), None, "{path:?}");
    }
}

#[test]
fn ids_are_decoded_once() {
    for (segment, text) in [
        ("a%2Fb", "a/b"),
        ("a%2fb", "a/b"),
        ("%25", "%"),
        ("%252F", "%2F"),
        ("a+b", "a+b"),
        ("a%20b", "a b"),
        ("%D0%BA%D0%BB%D1%8E%D1%87", "ключ"),
        ("ключ", "ключ"),
        ("...", "..."),
        ("%2E%2E%2E", "..."),
        ("*", "*"),
        ("increment", "increment"),
        ("a%3Fb%23c", "a?b#c"),
    ] {
        let path = format!("/counters/{segment}");
        assert_eq!(
            resolve("GET", &path),
            Ok(Route::Read(id(text))),
            "{segment}"
        );
        let path = format!("{path}/increment");
        assert_eq!(
            resolve("POST", &path),
            Ok(Route::Increment(id(text))),
            "{segment}"
        );
    }
    let longest = "%C3%A9".repeat(256);
    let longest = resolve("GET", &format!("/counters/{longest}"));
    assert_eq!(longest, Ok(Route::Read(id(&"é".repeat(256)))));
}

#[test]
fn what_is_no_id_is_refused() {
    let too_long = "a".repeat(513);
    for segment in [
        "",
        ".",
        "..",
        "%2E",
        "%2e%2E",
        ".%2E",
        "%",
        "%1",
        "a%",
        "a%2",
        "%G0",
        "%0G",
        "%+1",
        "%-1",
        "% 1",
        "%u0041",
        "%00",
        "%0A",
        "a%7Fb",
        "%C2%85",
        "%FF",
        "%C3",
        "%C0%AF",
        "%ED%A0%80",
        &too_long,
    ] {
        for (method, path) in [
            ("GET", format!("/counters/{segment}")),
            ("PUT", format!("/counters/{segment}")),
            ("DELETE", format!("/counters/{segment}")),
            ("POST", format!("/counters/{segment}/increment")),
            ("POST", format!("/counters/{segment}/decrement")),
            ("PUT", format!("/counters/{segment}/value")),
            ("GET", format!("/counters/{segment}/history")),
            ("GET", format!("/counters/{segment}/distribution")),
            ("GET", format!("/counters/{segment}/breakdown")),
        ] {
            assert_eq!(
                refusal(method, &path),
                (Code::InvalidId, None),
                "{method} {path}"
            );
        }
    }
}

#[test]
fn a_prefix_may_be_empty_and_is_decoded_too() {
    for (segment, prefix) in [
        ("*", ""),
        ("page%2F*", "page/"),
        ("a**", "a*"),
        ("%2A*", "*"),
        ("..*", ".."),
    ] {
        let path = format!("/counters/{segment}/aggregate");
        let route = Route::Aggregate(prefix.to_owned());
        assert_eq!(resolve("GET", &path), Ok(route), "{segment}");
    }
    for segment in ["%*", "%1*", "%+1*", "%-0*", "a%G1*", "%FF*"] {
        let path = format!("/counters/{segment}/aggregate");
        assert_eq!(refusal("GET", &path).0, Code::InvalidId, "{segment}");
    }
}

proptest! {
    #![proptest_config(config(111, 512))]

    #[test]
    fn what_is_encoded_is_decoded(text in "\\PC{1,40}", all in any::<bool>()) {
        let plain = |byte: &u8| !all && (byte.is_ascii_alphanumeric() || b"-_.~".contains(byte));
        let encoded: String = text
            .bytes()
            .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
            .collect();
        prop_assert_eq!(decode_segment(&encoded), Ok(text.clone()));
        if let Ok(id) = CounterId::parse(text) {
            let found = resolve("POST", &format!("/counters/{encoded}/increment"));
            prop_assert_eq!(found, Ok(Route::Increment(id)));
        }
    }

    #[test]
    fn no_method_and_path_break_it(method in "[A-Z]{0,8}", path in "(/|counters|%|\\*|aggregate|\\PC){0,12}") {
        match resolve(&method, &path) {
            Ok(_) => prop_assert!(allow_of(&path).is_some()),
            Err(refused) => prop_assert!(refused.problem.code().status() < 500),
        }
    }
}

#[test]
fn a_path_with_the_slashes_of_an_id_is_refused_with_how_to_send_them() {
    let detail = |path| {
        resolve("POST", path)
            .expect_err("a refusal")
            .problem
            .detail()
            .to_owned()
    };
    let decoded = [
        "/counters/blog/2026/first/increment",
        "/counters//blog",
        "/counters/blog/2026",
        "/limits/api/a/b/c",
        "/boards/b/members/a/b/c",
        "/badge/blog/post.svg",
        "/pixel/blog/post.gif",
    ];
    for path in decoded {
        assert!(
            detail(path).contains("Send each slash of an id as %2F"),
            "{path}: {}",
            detail(path)
        );
    }
    for path in [
        "/nothing",
        "/counter/a/b",
        "/counters-of/a/b/c",
        "/dashboards/a",
        "/",
    ] {
        let said = resolve("POST", path).map_err(|refused| refused.problem.detail().to_owned());
        assert!(said.is_err_and(|detail| !detail.contains("%2F")), "{path}");
    }
}
