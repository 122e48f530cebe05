//! Who may do what with alerts.

use super::*;
use tally::protocol::names::KEYS;

#[test]
fn who_administers_what_is_watched_may_do_all_with_it_and_nobody_else() {
    let (world, site, client, _) = service(50);
    let key = |name: &str, scope: &str, prefix: &str| json!({"name": name, "key": format!("key-of-{name}-that-is-long-enough"), "scopes": [scope], "prefix": prefix});
    let keys = json!({"keys": [
        key("all", "admin", ""), key("limits", "admin", "limits/"), key("a", "admin", "a/"), key("b", "admin", "b/"),
        key("reads", "read", ""), key("writes", "write", ""),
    ]});
    let one = alert("counter", "a/1", &json!({"value": {"above": 10}}));
    put(&world, &client, "first", &one);
    world.set(KEYS, Some(&keys.to_string()));
    world.crash_isolates(tally_simulation::Role::Edge, site);
    let of = |name: &str| {
        world
            .client(site)
            .with_key(&format!("key-of-{name}-that-is-long-enough"))
    };
    let silence = json!({"for_seconds": 60});
    let calls: [(&str, &str, &Value); 6] = [
        ("GET", "/alerts/first", &Value::Null),
        ("PUT", "/alerts/first", &one),
        ("POST", "/alerts/first/silence", &silence),
        ("POST", "/alerts/first/test", &Value::Null),
        ("GET", "/alerts/first/deliveries", &Value::Null),
        ("DELETE", "/alerts/first", &Value::Null),
    ];
    for name in ["b", "limits", "reads", "writes"] {
        for (method, path, body) in calls {
            let answer = ask(&world, &of(name), method, path, body);
            assert_eq!(
                answer.status,
                403,
                "{name}: {method} {path}: {}",
                answer.text()
            );
            assert!(!answer.text().contains("hooks.example.com"));
        }
    }
    // Nor may an alert be taken over, or be about what its maker does not administer.
    let own = alert("counter", "b/1", &json!({"value": {"above": 10}}));
    assert_eq!(
        ask(&world, &of("b"), "PUT", "/alerts/first", &own).status,
        403
    );
    assert_eq!(
        ask(&world, &of("b"), "PUT", "/alerts/second", &own).status,
        201
    );
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
        let wanted = alert(watched, what, &when);
        assert_eq!(
            ask(&world, &of("b"), "PUT", "/alerts/third", &wanted).status,
            403,
            "{watched} {what}"
        );
    }
    let policy = alert(
        "policy",
        "api",
        &json!({"refused_in": {"seconds": 60, "above": 1}}),
    );
    assert_eq!(
        ask(&world, &of("limits"), "PUT", "/alerts/fourth", &policy).status,
        201
    );
    let names = |name: &str| {
        let told = get(&world, &of(name), "/alerts");
        let alerts = told["alerts"].as_array().expect("alerts").clone();
        alerts
            .iter()
            .map(|alert| alert["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (names("a"), names("b"), names("limits")),
        (
            vec!["first".to_owned()],
            vec!["second".to_owned()],
            vec!["fourth".to_owned()]
        )
    );
    for name in ["reads", "writes"] {
        for path in ["/alerts", "/alert-deliveries"] {
            assert_eq!(
                ask(&world, &of(name), "GET", path, &Value::Null).status,
                403
            );
        }
    }
    done(&world, &of("a"), "POST", "/alerts/first/test", &Value::Null);
    let told = |name: &str| {
        get(&world, &of(name), "/alert-deliveries")["deliveries"]
            .as_array()
            .expect("a list")
            .len()
    };
    assert_eq!((told("a"), told("b")), (1, 0));
    for (method, path, body) in calls {
        let answer = ask(&world, &of("a"), method, path, body);
        assert!(answer.status < 300, "{method} {path}: {}", answer.text());
    }
    assert_eq!(
        ask(&world, &of("a"), "GET", "/alerts/first", &Value::Null).status,
        404
    );
    assert_eq!(
        ask(&world, &of("a"), "DELETE", "/alerts/first", &Value::Null).status,
        404
    );
    assert_eq!(
        ask(&world, &of("a"), "POST", "/alerts/first/silence", &silence).status,
        404
    );
}

#[test]
fn an_alert_keeps_its_secret_and_a_new_one_needs_one() {
    let (world, _, client, receiver) = service(51);
    let mut wanted = alert("counter", "a", &json!({"value": {"above": 10}}));
    wanted.as_object_mut().expect("an object").remove("secret");
    assert_eq!(
        ask(&world, &client, "PUT", "/alerts/one", &wanted).status,
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
    wanted["webhook"] = "https://other.example.com/".into();
    let answer = ask(&world, &client, "PUT", "/alerts/one", &wanted);
    assert_eq!(answer.status, 200);
    for path in [
        "/alerts",
        "/alerts/one",
        "/alerts/one/deliveries",
        "/alert-deliveries",
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
    let mut wanted = alert("counter", "a", &json!({"value": {"above": 10}}));
    wanted["webhook"] = "http://localhost:9000/".into();
    let answer = ask(&world, &client, "PUT", "/alerts/one", &wanted);
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (400, Some("webhook-not-allowed"))
    );
    world.set("TALLY_ALERTS_ALLOW", Some(r#"["localhost"]"#));
    put(&world, &client, "one", &wanted);
    assert_eq!(
        done(&world, &client, "POST", "/alerts/one/test", &Value::Null)["status"],
        204
    );
    world.set("TALLY_ALERTS_ALLOW", None);
    let told = done(&world, &client, "POST", "/alerts/one/test", &Value::Null);
    assert_eq!(
        (&told["outcome"], &told["status"]),
        (&"given_up".into(), &Value::Null)
    );
    assert!(
        told["why"]
            .as_str()
            .expect("why")
            .contains("TALLY_ALERTS_ALLOW"),
        "{told}"
    );
    assert_eq!(receiver.got().len(), 1);
}

#[test]
fn there_are_so_many_alerts_and_no_more() {
    let (world, _, client, _) = service(53);
    let wanted = alert("counter", "a", &json!({"value": {"above": 10}}));
    let mut refused = 0;
    for number in 0..2_300 {
        let answer = ask(
            &world,
            &client,
            "PUT",
            &format!("/alerts/a{number}"),
            &wanted,
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
    let told = get(&world, &client, "/alerts")["alerts"]
        .as_array()
        .expect("alerts")
        .len();
    assert_eq!(told + refused, 2_300);
    assert!((1_500..=2_048).contains(&told), "{told}");
}
