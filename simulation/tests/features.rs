//! What a build was made without is unknown by name, and counting goes on; this asks the build that runs the test.

use tally_api::features::FEATURES;
use tally_simulation::{Answer, ClientRequest, Options, World, admin, deployed};

/// A call of each feature that any build with it answers, and the status.
const CALLS: [(&str, &str, &str, &str, u16); 9] = [
    ("boards", "GET", "/boards", "", 200),
    ("exports", "GET", "/export", "", 200),
    ("ingest", "POST", "/ingest?format=clf", "", 200),
    ("limits", "GET", "/limits", "", 200),
    ("live", "GET", "/live", "", 400),
    ("pages", "GET", "/hit/page", "", 200),
    ("queue", "GET", "/api/counter?key=page", "", 200),
    ("redis", "POST", "/redis", "[\"PING\"]", 200),
    ("samples", "GET", "/counters/hits/distribution", "", 200),
];

fn ask(world: &World, method: &str, path: &str, body: &str) -> Answer {
    let client = admin(world, world.site("FRA", 1));
    let request = ClientRequest::new(method, path).body(body.as_bytes().to_vec());
    world.run(client.ask(request)).expect("no fault")
}

#[test]
fn a_call_is_there_exactly_where_its_feature_is() {
    let world = deployed(1, Options::default());
    assert_eq!(
        ask(&world, "POST", "/counters/hits/increment", "").json()["value"],
        1
    );
    for (feature, method, path, body, status) in CALLS {
        let answer = ask(&world, method, path, body);
        let is_built = FEATURES.contains(&(feature, true));
        if is_built {
            assert_eq!(answer.status, status, "{path}: {}", answer.text());
            continue;
        }
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
        assert!(answer.text().contains(feature), "{path}: {}", answer.text());
    }
}

#[test]
fn the_root_leads_browsers_to_the_dashboard_where_there_is_one() {
    let world = deployed(4, Options::default());
    let has_pages = FEATURES.contains(&("pages", true));
    let client = admin(&world, world.site("FRA", 1));
    for (accept, wants_html) in [
        (
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            true,
        ),
        ("TEXT/HTML", true),
        ("application/json, text/html", true),
        ("application/json, text/html;q=0.5", false),
        ("text/html;q=0", false),
        ("text/html; q=0.2, application/json;q=0.1", true),
        ("*/*", false),
        ("", false),
    ] {
        let request = ClientRequest::new("GET", "/").header("accept", accept);
        let answer = world.run(client.ask(request)).expect("no fault");
        let status = if wants_html && has_pages { 303 } else { 200 };
        assert_eq!(answer.status, status, "{accept}: {}", answer.text());
        let is_named = answer.text().contains("dashboard");
        assert_eq!(is_named, status == 200 && has_pages, "{accept}");
    }
}

#[test]
fn what_a_write_says_of_itself_is_said_once_and_as_text() {
    let world = deployed(5, Options::default());
    let client = admin(&world, world.site("FRA", 1));
    for (path, body) in [
        ("/counters/hits/increment", r#"{"by":{"a":5}}"#),
        ("/events", "{\"id\":\"hits\",\"by\":{\"a\":null}}\n"),
    ] {
        let answer = ask(&world, "POST", path, body).text();
        assert!(
            answer.contains("text as the value of `a` in `by`"),
            "{answer}"
        );
    }
    if FEATURES.contains(&("pages", false)) {
        return;
    }
    let twice = ask(&world, "GET", "/hit/hits?by=a:b,a:c", "");
    assert_eq!(twice.status, 400, "{}", twice.text());
    assert!(twice.text().contains("in by twice"), "{}", twice.text());
    let by = "/pixel/hits.gif?by=referrer,utm_source,campaign:spring";
    let referer = "https://www.News.example:8080/a?x=1&utm_source=mail";
    for request in [
        ClientRequest::new("GET", by).header("referer", referer),
        ClientRequest::new("GET", by),
    ] {
        let counted = world.run(client.ask(request)).expect("no fault");
        assert_eq!(counted.status, 200, "{}", counted.text());
    }
    for (by, value, count) in [
        ("referrer", "news.example", 1),
        ("utm_source", "mail", 1),
        ("campaign", "spring", 2),
    ] {
        let path = format!("/counters/hits/breakdown?by={by}&consistency=strong");
        let answer = ask(&world, "GET", &path, "").json();
        let row = serde_json::json!([{"value": value, "count": count, "share": answer["rows"][0]["share"]}]);
        assert_eq!(answer["rows"], row, "{answer}");
    }
}

#[test]
fn a_sample_is_counted_or_refused_by_name() {
    let world = deployed(2, Options::default());
    let answer = ask(
        &world,
        "POST",
        "/counters/hits/increment",
        r#"{"sample":1.5}"#,
    );
    if FEATURES.contains(&("samples", true)) {
        assert_eq!(answer.status, 200, "{}", answer.text());
        return;
    }
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(
        answer.text().contains("made without samples"),
        "{}",
        answer.text()
    );
    assert_eq!(
        ask(&world, "GET", "/counters/hits", "").status,
        404,
        "nothing was counted"
    );
}

#[test]
fn a_line_for_a_board_is_written_or_refused() {
    let world = deployed(3, Options::default());
    let lines = "{\"id\":\"hits\"}\n{\"board\":\"game\",\"member\":\"ada\",\"score\":5}\n";
    let answer = ask(&world, "POST", "/events", lines);
    let report = answer.json();
    let refused = u64::from(FEATURES.contains(&("boards", false)));
    assert_eq!(report["accepted"], 2 - refused, "{}", answer.text());
    assert_eq!(
        ask(&world, "GET", "/counters/hits?consistency=strong", "").json()["value"],
        1
    );
}
