//! What a build was made without is unknown by name, and counting goes on; this asks the build that runs the test.

use tally::protocol::features::FEATURES;
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
    let lines = "{\"key\":\"hits\"}\n{\"board\":\"game\",\"member\":\"ada\",\"score\":5}\n";
    let answer = ask(&world, "POST", "/events", lines);
    let report = answer.json();
    let refused = u64::from(FEATURES.contains(&("boards", false)));
    assert_eq!(report["accepted"], 2 - refused, "{}", answer.text());
    assert_eq!(
        ask(&world, "GET", "/counters/hits?consistency=strong", "").json()["value"],
        1
    );
}
