//! Keys, their budgets and the audit log, in whole services.

use serde_json::{Value, json};
use tally_simulation::{Answer, ClientRequest, Options, Role, Site, World, deployed};
use tally_wire::names::KEYS;

/// The configured keys of the service.
const ALL: &str = "key-of-all-that-is-long-enough";
const NARROW: &str = "key-of-narrow-that-is-long-enough";

/// A service with keys.
struct Service {
    world: World,
    site: Site,
}

impl Service {
    fn new(seed: u64) -> Self {
        let world = deployed(seed, Options::default());
        let site = world.site("FRA", 1);
        let keys = json!({"keys": [
            {"name": "all", "key": ALL, "scopes": ["read", "write", "admin"], "prefixes": ["", "limits/"]},
            {"name": "narrow", "key": NARROW, "scopes": ["read", "write", "admin"], "prefix": "au"},
        ]});
        world.set(KEYS, Some(&keys.to_string()));
        world.set("TALLY_REDIS", Some("1"));
        world.crash_isolates(Role::Edge, site);
        Self { world, site }
    }

    fn send(&self, key: &str, request: ClientRequest) -> Answer {
        let client = self.world.client(self.site).with_key(key);
        self.world.run(client.ask(request)).expect("no fault")
    }

    fn ask(&self, key: &str, method: &str, path: &str, body: &Value) -> Answer {
        let mut request = ClientRequest::new(method, path);
        if !body.is_null() {
            request = request.json(body.to_string());
        }
        self.send(key, request)
    }

    fn well(&self, key: &str, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(key, method, path, body);
        assert!(answer.status < 300, "{method} {path}: {}", answer.text());
        answer.json()
    }

    fn make(&self, key: &str, mut body: Value) -> (String, String) {
        body["name"] = "made".into();
        let made = self.well(key, "POST", "/keys", &body);
        let text = |name: &str| made[name].as_str().expect("a text").to_owned();
        (text("id"), text("key"))
    }

    /// The newest entries of the audit log, the newest last: call, target, outcome and status.
    fn audit(&self, count: usize) -> Vec<[String; 4]> {
        let entries = self.well(ALL, "GET", &format!("/audit?limit={count}"), &Value::Null);
        let entries = entries["entries"].as_array().expect("entries").iter().rev();
        let entry = |entry: &Value| {
            ["call", "target", "outcome", "status"].map(|name| match &entry[name] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
        };
        entries.map(entry).collect()
    }
}

#[test]
fn a_key_shows_the_rights_that_the_keys_above_it_leave_it() {
    let service = Service::new(1);
    let (parent, parent_key) = service.make(
        ALL,
        json!({"scopes": ["read", "write", "admin"], "prefixes": ["p/", "q/"]}),
    );
    let (child, child_key) = service.make(
        &parent_key,
        json!({"scopes": ["read", "write"], "prefixes": ["p/", "q/"]}),
    );
    let key = |id: &str| service.well(ALL, "GET", &format!("/keys/{id}"), &Value::Null);
    assert_eq!(key(&child)["prefixes"], json!(["p/", "q/"]));
    let end = service.world.now_ms() / 1_000 + 3_600;
    let narrower = json!({"prefixes": ["p/x/"], "expires_at": end});
    service.well(ALL, "PATCH", &format!("/keys/{parent}"), &narrower);
    service.world.run_for_ms(31_000);
    let refused = service.ask(&child_key, "GET", "/counters/q%2F1", &Value::Null);
    let detail = refused.json()["detail"]
        .as_str()
        .expect("a text")
        .to_owned();
    assert_eq!(refused.status, 403, "{detail}");
    assert!(detail.contains("a key above it"), "{detail}");
    let listed = service.well(ALL, "GET", "/keys", &Value::Null);
    let listed = listed["entries"].as_array().expect("keys").iter();
    let listed = listed.filter(|key| key["id"] == child.as_str()).cloned();
    let renamed = service.well(
        ALL,
        "PATCH",
        &format!("/keys/{child}"),
        &json!({"name": "new"}),
    );
    for shown in listed.chain([key(&child), renamed]) {
        assert_eq!(shown["scopes"], json!(["read", "write"]));
        assert_eq!(shown["prefixes"], json!(["p/x/"]));
        assert_eq!(shown["expires_at"], end * 1_000);
    }
    // What was taken comes back with the rights of the key above.
    service.well(
        ALL,
        "PATCH",
        &format!("/keys/{parent}"),
        &json!({"prefixes": ["p/", "q/"]}),
    );
    assert_eq!(key(&child)["prefixes"], json!(["p/", "q/"]));
    service.well(
        ALL,
        "PATCH",
        &format!("/keys/{parent}"),
        &json!({"scopes": ["read"]}),
    );
    assert_eq!(key(&child)["scopes"], json!([]));
    service.world.run_for_ms(31_000);
    let refused = service.ask(&child_key, "GET", "/counters?prefix=p%2F", &Value::Null);
    assert!(
        refused.text().contains("a key above it"),
        "{}",
        refused.text()
    );
}

#[test]
fn the_log_says_what_a_call_did_and_to_what() {
    let service = Service::new(2);
    service.well(ALL, "PUT", "/boards/au", &json!({}));
    let refused = service.send(
        ALL,
        ClientRequest::new("POST", "/import").body(b"nothing\n".to_vec()),
    );
    assert_eq!(refused.status, 400);
    let texts = |entry: [&str; 4]| entry.map(str::to_owned);
    assert_eq!(
        service.audit(1),
        [texts(["POST /import", "", "refused", "400"])]
    );
    let of = |path: &str, body: Value| service.ask(ALL, "POST", path, &body);
    of("/repair", json!({"prefix": "a/", "dry_run": true}));
    of(
        "/snapshots/2026-01-01/restore",
        json!({"prefix": "a/", "dry_run": true}),
    );
    assert_eq!(
        service.audit(1)[0][0],
        "POST /import",
        "dry runs change nothing"
    );
    of("/repair", json!({"prefix": "a/"}));
    of("/repair", json!({"counter": "a/1"}));
    of(
        "/snapshots/2026-01-01/restore",
        json!({"prefix": "a/", "mode": "replace"}),
    );
    service.ask(ALL, "DELETE", "/boards/au/members/z%2Fz", &Value::Null);
    let targets: Vec<String> = service
        .audit(4)
        .into_iter()
        .map(|[_, target, ..]| target)
        .collect();
    assert_eq!(targets, ["a/", "a/1", "2026-01-01 replace a/", "au/z/z"]);
}

#[test]
fn a_flush_is_logged_by_its_name_also_if_it_is_refused() {
    let service = Service::new(3);
    let flush =
        |key: &str, command: &str| service.ask(key, "POST", "/redis", &json!([command])).text();
    let refused = flush(NARROW, "FLUSHALL");
    assert!(refused.contains("NOPERM"), "{refused}");
    flush(ALL, "flushdb");
    flush(ALL, "FLUSHALL");
    let logged = service.audit(3);
    let logged: Vec<String> = logged
        .into_iter()
        .map(|entry| entry[1..].join(" "))
        .collect();
    assert_eq!(
        logged,
        [
            "FLUSHALL refused 403",
            "FLUSHDB done null",
            "FLUSHALL done null"
        ]
    );
}

#[test]
fn a_refusal_shows_the_budget_that_refused() {
    let service = Service::new(4);
    let (_, parent) = service.make(
        ALL,
        json!({"scopes": ["read", "write", "admin"], "rate_per_minute": 12}),
    );
    let (_, child) = service.make(
        &parent,
        json!({"scopes": ["read", "write"], "rate_per_minute": 6}),
    );
    let add = |key: &str| service.ask(key, "POST", "/counters/a/increment", &Value::Null);
    assert_eq!(add(&child).status, 200);
    while add(&parent).status == 200 {}
    let refused = add(&child);
    let detail = refused.json()["detail"]
        .as_str()
        .expect("a text")
        .to_owned();
    assert_eq!(refused.status, 429, "{detail}");
    assert_eq!(
        refused.header("ratelimit-policy"),
        Some("\"key\";q=12;w=60")
    );
    let left = refused.header("ratelimit").expect("a header").to_owned();
    assert!(left.starts_with("\"key\";r=0;"), "{left}");
    assert!(detail.contains("a key above"), "{detail}");

    let (_, other) = service.make(ALL, json!({"scopes": ["write"], "rate_per_minute": 30}));
    for _ in 0..17 {
        assert_eq!(add(&other).status, 200);
    }
    let lines = "{\"id\":\"a\"}\n".repeat(25);
    let refused = service.send(
        &other,
        ClientRequest::new("POST", "/events").body(lines.into_bytes()),
    );
    let detail = refused.json()["detail"]
        .as_str()
        .expect("a text")
        .to_owned();
    assert_eq!(refused.status, 429, "{detail}");
    assert!(
        detail.contains("this needs 25") && detail.contains("13 are left"),
        "{detail}"
    );
    let left = refused.header("ratelimit").expect("a header").to_owned();
    assert!(left.starts_with("\"key\";r=13;"), "{left}");
}

#[test]
fn a_write_that_reads_no_precondition_refuses_one() {
    let service = Service::new(5);
    let (id, _) = service.make(ALL, json!({"scopes": ["read"]}));
    service.well(ALL, "PUT", "/boards/au", &json!({}));
    service.well(
        ALL,
        "PUT",
        "/limits/imm",
        &json!({"limit": 5, "window_seconds": 60}),
    );
    let key = format!("/keys/{id}");
    let writes = [
        ("PATCH", key.as_str(), json!({"name": "x"})),
        ("DELETE", key.as_str(), Value::Null),
        (
            "PUT",
            "/limits/imm",
            json!({"limit": 6, "window_seconds": 60}),
        ),
        ("DELETE", "/limits/imm", Value::Null),
        ("POST", "/limits/imm/ann", Value::Null),
        ("PUT", "/boards/au", json!({"keep": "last"})),
        ("DELETE", "/boards/au", Value::Null),
        ("POST", "/events", json!({"id": "a"})),
        ("POST", "/import", json!({"id": "a", "value": 1})),
        ("POST", "/redis", json!(["SET", "a", "1"])),
        ("POST", "/alerts/none/silence", json!({"for_seconds": 60})),
    ];
    for (method, path, body) in writes {
        for (header, value) in [("if-match", "\"nope\""), ("if-none-match", "*")] {
            let mut request = ClientRequest::new(method, path).header(header, value);
            if !body.is_null() {
                request = request.json(body.to_string());
            }
            let answer = service.send(ALL, request);
            assert_eq!(
                answer.status,
                400,
                "{method} {path} {header}: {}",
                answer.text()
            );
            assert!(
                answer.text().to_ascii_lowercase().contains(header),
                "{}",
                answer.text()
            );
        }
    }
    let limit = service.well(ALL, "GET", "/limits/imm", &Value::Null);
    assert_eq!(limit["limit"], 5, "{limit}");
    assert_eq!(service.well(ALL, "GET", &key, &Value::Null)["name"], "made");
}

#[test]
fn a_badge_that_only_some_pages_may_show_is_cached_for_each_page() {
    let service = Service::new(6);
    let public = |origins: Value| {
        let keys = json!({
            "keys": [{"name": "all", "key": ALL, "scopes": ["read", "write"]}],
            "public": [{"origins": origins, "scopes": ["read"]}],
        });
        service.world.set(KEYS, Some(&keys.to_string()));
        service.world.crash_isolates(Role::Edge, service.site);
        let client = service.world.client(service.site);
        let badge =
            ClientRequest::new("GET", "/badge/a.svg").header("referer", "https://a.example/1");
        let answer = service.world.run(client.ask(badge)).expect("no fault");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let vary = answer.headers.iter().filter(|(name, _)| name == "vary");
        vary.map(|(_, value)| value.clone())
            .collect::<Vec<_>>()
            .join(", ")
    };
    assert!(public(json!(["https://a.example"])).contains("Referer"));
    assert!(!public(json!(["*"])).contains("Referer"));
}

#[test]
fn scores_and_commands_count_as_acknowledged() {
    let service = Service::new(7);
    let write = |path: &str, body: Value| service.well(ALL, "POST", path, &body);
    write("/boards/race/members/ann", json!({"score": 5}));
    let lines = "{\"member\":\"a\",\"score\":1}\n{\"member\":\"b\",\"score\":2}\n";
    let request =
        ClientRequest::new("POST", "/boards/race/members").body(lines.as_bytes().to_vec());
    assert_eq!(service.send(ALL, request).status, 200);
    write("/redis", json!(["SET", "a", "1"]));
    write("/redis", json!(["GET", "a"]));
    let metrics = service.ask(ALL, "GET", "/metrics", &Value::Null).text();
    for line in [
        "tally_acknowledged_total{operation=\"score\"} 3",
        "tally_acknowledged_total{operation=\"redis\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}
