//! Who may do what with alerts.

use super::*;
use tally_wire::names::KEYS;

/// A service with the alert `first`, about `a/1`, and keys of all sorts.
struct Guarded {
    world: World,
    site: Site,
    first: Value,
}

impl Guarded {
    fn new() -> Self {
        let (world, site, client, _) = service(50);
        let first = alert("counter", "a/1", &json!({"value": {"above": 10}}));
        put(&world, &client, "first", &first);
        let key = |name: &str, scope: &str, prefix: &str| {
            let key = format!("key-of-{name}-that-is-long-enough");
            json!({"name": name, "key": key, "scopes": [scope], "prefix": prefix})
        };
        let keys = json!({"keys": [
            key("all", "admin", ""), key("limits", "admin", "limits/"), key("a", "admin", "a/"),
            key("b", "admin", "b/"), key("reads", "read", ""), key("writes", "write", ""),
        ]});
        world.set(KEYS, Some(&keys.to_string()));
        world.crash_isolates(tally_simulation::Role::Edge, site);
        Self { world, site, first }
    }

    fn client(&self, name: &str) -> Client {
        let key = format!("key-of-{name}-that-is-long-enough");
        self.world.client(self.site).with_key(&key)
    }

    fn ask(&self, name: &str, method: &str, path: &str, body: &Value) -> Answer {
        ask(&self.world, &self.client(name), method, path, body)
    }

    fn put(&self, name: &str, path: &str, body: &Value) -> u16 {
        self.ask(name, "PUT", path, body).status
    }

    /// All that can be done with the alert, the last of which ends it.
    fn calls(&self) -> [(&'static str, &'static str, Value); 6] {
        [
            ("GET", "/alerts/first", Value::Null),
            ("PUT", "/alerts/first", self.first.clone()),
            ("POST", "/alerts/first/silence", silence()),
            ("POST", "/alerts/first/test", Value::Null),
            ("GET", "/alerts/first/deliveries", Value::Null),
            ("DELETE", "/alerts/first", Value::Null),
        ]
    }
}

fn silence() -> Value {
    json!({"for_seconds": 60})
}

#[test]
fn nobody_else_may_do_anything_with_an_alert_or_watch_what_is_not_theirs() {
    let all = Guarded::new();
    for name in ["b", "limits", "reads", "writes"] {
        for (method, path, body) in all.calls() {
            let answer = all.ask(name, method, path, &body);
            let text = answer.text();
            // An admin of something else learns of no alert that it may not see; a name is taken all the same.
            let is_hidden = ["b", "limits"].contains(&name) && method != "PUT";
            let status = if is_hidden { 404 } else { 403 };
            assert_eq!(answer.status, status, "{name}: {method} {path}: {text}");
            assert!(!text.contains("hooks.example.com"));
        }
    }
    // Nor may an alert be taken over, or be about what its maker does not administer.
    let own = alert("counter", "b/1", &json!({"value": {"above": 10}}));
    assert_eq!(all.put("b", "/alerts/first", &own), 403);
    for (watched, what) in [
        ("prefix", ""),
        ("prefix", "b"),
        ("counter", "c"),
        ("policy", "api"),
    ] {
        let when = match watched {
            "policy" => json!({"refused_in": {"seconds": 60, "above": 1}}),
            _ => json!({"value": {"above": 1}}),
        };
        let status = all.put("b", "/alerts/third", &alert(watched, what, &when));
        assert_eq!(status, 403, "{watched} {what}");
    }
}

#[test]
fn who_administers_what_is_watched_may_do_all_with_it_and_sees_no_other() {
    let all = Guarded::new();
    let own = alert("counter", "b/1", &json!({"value": {"above": 10}}));
    assert_eq!(all.put("b", "/alerts/second", &own), 201);
    let when = json!({"refused_in": {"seconds": 60, "above": 1}});
    let policy = alert("policy", "api", &when);
    assert_eq!(all.put("limits", "/alerts/fourth", &policy), 201);
    for (name, alert) in [("a", "first"), ("b", "second"), ("limits", "fourth")] {
        let reply = get(&all.world, &all.client(name), "/alerts");
        let alerts = reply["entries"].as_array().expect("alerts").iter();
        let names: Vec<&Value> = alerts.map(|alert| &alert["alert"]).collect();
        assert_eq!(names, [alert], "{name}");
    }
    for name in ["reads", "writes"] {
        for path in ["/alerts", "/alerts/*/deliveries"] {
            assert_eq!(all.ask(name, "GET", path, &Value::Null).status, 403);
        }
    }
    let test = "/alerts/first/test";
    done(&all.world, &all.client("a"), "POST", test, &Value::Null);
    for (name, count) in [("a", 1), ("b", 0)] {
        let reply = get(&all.world, &all.client(name), "/alerts/*/deliveries");
        let deliveries = reply["entries"].as_array().expect("a list");
        assert_eq!(deliveries.len(), count, "{name}");
    }
    for (method, path, body) in all.calls() {
        let answer = all.ask("a", method, path, &body);
        assert!(answer.status < 300, "{method} {path}: {}", answer.text());
    }
    for (method, path, body) in [
        ("GET", "/alerts/first", Value::Null),
        ("DELETE", "/alerts/first", Value::Null),
        ("POST", "/alerts/first/silence", silence()),
    ] {
        assert_eq!(all.ask("a", method, path, &body).status, 404);
    }
}

#[test]
fn an_alert_keeps_its_secret_and_a_new_one_needs_one() {
    let (world, _, client, receiver) = service(51);
    let mut settings = alert("counter", "a", &json!({"value": {"above": 10}}));
    settings
        .as_object_mut()
        .expect("an object")
        .remove("secret");
    assert_eq!(
        ask(&world, &client, "PUT", "/alerts/one", &settings).status,
        400
    );
    let answer = ask(
        &world,
        &client,
        "PUT",
        "/alerts/one",
        &alert("counter", "a", &json!({"value": {"above": 10}})),
    );
    assert_eq!(answer.status, 201);
    settings["webhook"] = "https://other.example.com/".into();
    let answer = ask(&world, &client, "PUT", "/alerts/one", &settings);
    assert_eq!(answer.status, 200);
    for path in [
        "/alerts",
        "/alerts/one",
        "/alerts/one/deliveries",
        "/alerts/*/deliveries",
    ] {
        assert!(
            !ask(&world, &client, "GET", path, &Value::Null)
                .text()
                .contains("whsec")
        );
    }
    // The receiver checks the signature.
    assert_eq!(
        done(&world, &client, "POST", "/alerts/one/test", &Value::Null)["outcome"],
        "delivered"
    );
    assert_eq!(receiver.got()[0].url, "https://other.example.com/");
}

#[test]
fn inner_addresses_are_refused_unless_they_are_allowed_and_again_when_that_ends() {
    let (world, _, client, receiver) = service(52);
    let mut settings = alert("counter", "a", &json!({"value": {"above": 10}}));
    settings["webhook"] = "http://localhost:9000/".into();
    let answer = ask(&world, &client, "PUT", "/alerts/one", &settings);
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (400, Some("webhook-not-allowed"))
    );
    world.set("TALLY_ALERTS_ALLOW", Some(r#"["localhost"]"#));
    put(&world, &client, "one", &settings);
    assert_eq!(
        done(&world, &client, "POST", "/alerts/one/test", &Value::Null)["status"],
        204
    );
    world.set("TALLY_ALERTS_ALLOW", None);
    let body = done(&world, &client, "POST", "/alerts/one/test", &Value::Null);
    assert_eq!(
        (&body["outcome"], &body["status"]),
        (&"given_up".into(), &Value::Null)
    );
    assert!(
        body["why"]
            .as_str()
            .expect("why")
            .contains("TALLY_ALERTS_ALLOW"),
        "{body}"
    );
    assert_eq!(receiver.got().len(), 1);
}

#[test]
fn there_are_so_many_alerts_and_no_more() {
    let (world, _, client, _) = service(53);
    let settings = alert("counter", "a", &json!({"value": {"above": 10}}));
    let mut refused = 0;
    for number in 0..2_300 {
        let answer = ask(
            &world,
            &client,
            "PUT",
            &format!("/alerts/a{number}"),
            &settings,
        );
        match answer.status {
            201 => {}
            409 => {
                assert_eq!(answer.json()["code"], "too-many-alerts");
                refused += 1;
            }
            _ => panic!("{}", answer.text()),
        }
    }
    let (mut alert_count, mut after) = (0, String::new());
    loop {
        let page = get(&world, &client, &format!("/alerts?limit=1000{after}"));
        alert_count += page["entries"].as_array().expect("alerts").len();
        let Some(cursor) = page["cursor"].as_str() else {
            break;
        };
        after = format!("&cursor={cursor}");
    }
    assert_eq!(alert_count + refused, 2_300);
    assert!((1_500..=2_048).contains(&alert_count), "{alert_count}");
}
